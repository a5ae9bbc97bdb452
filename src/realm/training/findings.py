"""What a user must be told of a trained model: it learned nothing, or it gives one answer to everything."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

from realm.crowd.engine import log_softmax
from realm.data import Annotations

LEVEL = 0.01
"""How rarely a model that knows nothing may seem better than the base rate by chance."""
NEARLY_ALL, COMMON = 0.95, 0.9
"""A model that gives one answer to more items than the first answers nearly everything alike; where people give that
answer to more than the second, it has missed little."""
FEWEST_STEPS = 100
"""Optimiser steps below which the methods differ less than a longer training does (measured, 150 to 2,000 items)."""
TEMPERATURES = np.geomspace(1.0, 20.0, 10)
"""P may be softened before it is compared with the base rate: a model that is too sure has learned something."""
LEAST_LOG = float(np.log(1e-6))
"""A label that P calls impossible counts as one in a million."""

Floats = npt.NDArray[np.float64]


def model_findings(annotations: Annotations, log_probs: Floats, basis: str) -> list[str]:
    """What speaks against a model, task by task; empty where nothing does.

    `log_probs` (items, Kmax) is its log P, NaN where it has said nothing, and `basis` where that comes from, in words.
    """
    votes = np.zeros((annotations.n_items, log_probs.shape[1]))
    np.add.at(votes, (annotations.item, annotations.label), 1.0 if annotations.weight is None else annotations.weight)
    total = votes.sum(axis=1, keepdims=True)
    known = (total[:, 0] > 0) & ~np.isnan(log_probs[:, 0])
    shares = votes / np.maximum(total, 1e-12)
    findings = []
    for task, description in enumerate(annotations.tasks):
        items = np.flatnonzero(known & (annotations.item_tasks == task))
        if len(items):
            about = f'task "{description.name}": ' if len(annotations.tasks) > 1 else ""
            base_rate = no_better_than_base_rate(log_probs[items], shares[items], basis)
            same = same_answer(log_probs[items], shares[items], description.labels)
            findings += [about + sentence for sentence in (base_rate, same) if sentence is not None]
    return findings


def no_better_than_base_rate(log_probs: Floats, shares: Floats, basis: str) -> str | None:
    """Whether P predicts labels, neither by log loss nor by accuracy, clearly better than their frequencies do.

    `log_probs` and `shares` (items, Kmax), of one task: log P, and the labels of each item as shares.
    """
    inside = np.isfinite(log_probs) | (shares > 0)
    frequencies = np.where(inside, shares.sum(axis=0), 0.0)
    with np.errstate(divide="ignore"):
        base = np.log(frequencies / np.maximum(frequencies.sum(axis=1, keepdims=True), 1e-12))
    losses = [_losses(log_softmax(log_probs / temperature), shares) for temperature in TEMPERATURES]
    loss, base_loss = min(losses, key=lambda each: float(each.mean())), _losses(base, shares)
    rows = np.arange(len(shares))
    right, base_right = shares[rows, log_probs.argmax(axis=1)], shares[rows, base.argmax(axis=1)]
    if max(_z(base_loss - loss), _z(right - base_right)) > norm.isf(LEVEL):
        return None
    return (
        f"the model is not clearly better than the base rate: {basis} its log loss is {loss.mean():.3f} and its "
        f"accuracy {right.mean():.1%}; predicting the label frequencies gives {base_loss.mean():.3f} and "
        f"{base_right.mean():.1%} ({len(shares):,} items)."
    )


def same_answer(log_probs: Floats, shares: Floats, labels: tuple[str, ...] | None) -> str | None:
    """Whether the model gives nearly all items one answer, and people clearly do not. Arrays (items, Kmax)."""
    answers = log_probs.argmax(axis=1)
    answer = int(np.bincount(answers).argmax())
    same, people = answers == answer, shares[:, answer]
    if same.mean() < NEARLY_ALL or people.mean() > COMMON or _z(same - people) <= norm.isf(LEVEL):
        return None
    name = f"option {answer + 1}" if labels is None else f'"{labels[answer]}"'
    given = f"annotators give it to {people.mean():.0%}."
    return f"the model gives the same answer ({name}) to {same.mean():.0%} of the items; {given}"


def few_steps(steps: int) -> str | None:
    """What to say of a training that was short."""
    if steps >= FEWEST_STEPS:
        return None
    return (
        f"the model was trained for {steps:,} steps, and with fewer than {FEWEST_STEPS} a longer training usually "
        "gains more than anything else: try more `num_train_epochs` or `max_steps`."
    )


def _losses(log_probs: Floats, shares: Floats) -> Floats:
    """Cross-entropy of each item. (items,)"""
    return np.asarray(-(shares * np.where(shares > 0, np.maximum(log_probs, LEAST_LOG), 0.0)).sum(axis=1))


def _z(differences: npt.NDArray[np.floating]) -> float:
    """The mean in standard errors; where all are equal there is no error, and the sign decides."""
    mean, error = float(differences.mean()), float(differences.std(ddof=1)) if len(differences) > 1 else np.inf
    if error < 1e-12:  # rounding
        return float(np.sign(mean) * np.inf) if abs(mean) > 1e-12 else 0.0
    return float(mean / (error / np.sqrt(len(differences))))
