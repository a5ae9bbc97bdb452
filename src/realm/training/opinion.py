"""The model's opinion: what it says of the training items before it has been trained on them.

A language model that was told what to do agrees with good annotators more than with bad ones before its first step. Its
label bias is taken off (the mean log-probability of each option over a task's items, where the label set is fixed). It
is used where it agrees with at least one annotator more often than two strangers of the same label shares would.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import binom

from realm.crowd.engine import log_softmax
from realm.crowd.model import AnnotatorModel
from realm.data import Annotations

LEVEL = 0.001
"""How improbable the agreement must be by chance, over all annotators together: a false opinion costs much."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Opinion:
    """What the model knows beforehand: log P (items, K) without label bias, and with how many annotators it agrees
    beyond chance, of how many that have labels."""

    log_probs: Floats
    agreeing: int
    annotators: int

    @property
    def used(self) -> bool:
        return self.agreeing > 0

    @property
    def sentence(self) -> str:
        """One line for the user."""
        who = f"{self.agreeing:,} of {self.annotators:,} annotators better than chance"
        end = "; expertise starts from that." if self.used else ", so expertise does not start from that."
        return f"opinion: before training the model agrees with {who}{end}"

    @classmethod
    def of(cls, annotations: Annotations, log_probs: Floats) -> Opinion:
        """The opinion behind log P (items, K) of the untrained model."""
        plain = without_label_bias(annotations, log_probs)
        return cls(plain, *agreement(annotations, plain.argmax(axis=1)))

    def calibrated(self, annotations: Annotations, kind: str | None = None) -> Floats:
        """log P at the temperature that the annotations bear out; `kind` is that of the annotators. (items, K)

        The model's own answers, not agreement, lead the fit by which it is found: where most annotators are wrong,
        agreement would call a right model worthless.
        """
        model = AnnotatorModel(annotations, gold=annotations.gold, kind=kind, find_copies=False)
        model.fit(self.tempered(annotations, 1.0))
        return self.tempered(annotations, model.best_temperature(self.log_probs))

    def tempered(self, annotations: Annotations, temperature: float) -> Floats:
        """log P at this temperature, with the label shares of the task in place of the model's bias. (items, K)"""
        return log_softmax(self.log_probs / temperature + label_shares(annotations))


def without_label_bias(annotations: Annotations, log_probs: Floats) -> Floats:
    """log P less the mean of each option over the items of its task, where the task has one label set. (items, K)"""
    plain = np.asarray(log_probs, np.float64)[:, : int(annotations.option_counts.max(initial=1))].copy()
    for index, task in enumerate(annotations.tasks):
        items = np.flatnonzero(annotations.item_tasks == index)
        if task.labels is not None and len(items):
            plain[items, : len(task.labels)] -= plain[items, : len(task.labels)].mean(axis=0)
    return plain


def label_shares(annotations: Annotations) -> Floats:
    """log of the share of each label in an item's task, over the item's own options, -inf beyond. (items, K)"""
    width, tasks = int(annotations.option_counts.max(initial=1)), len(annotations.tasks)
    task = annotations.item_tasks[annotations.item].astype(np.int64)
    counts = np.bincount(task * width + annotations.label, minlength=tasks * width).reshape(tasks, width)
    # One label of each kind is added: what nobody has answered yet is not impossible.
    shares = (counts + 1.0)[annotations.item_tasks]
    shares = np.where(np.arange(width) < annotations.option_counts[:, None], shares, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(shares / shares.sum(axis=1, keepdims=True)))


def agreement(annotations: Annotations, answers: npt.NDArray[np.integer]) -> tuple[int, int]:
    """How many annotators give the model's answers (items,) beyond chance, of how many.

    Chance is that of two who answer independently, each with their own label shares; the level is divided by the number
    of annotators, so that guesses agree with nobody in all but one run of a thousand.
    """
    width = int(annotations.option_counts.max(initial=1))
    who, own, theirs = annotations.annotator.astype(np.int64), annotations.label, answers[annotations.item]
    sizes = annotations.n_annotators * width
    given = np.bincount(who * width + own, minlength=sizes).reshape(-1, width)
    answered = np.bincount(who * width + theirs, minlength=sizes).reshape(-1, width)
    count = given.sum(axis=1)
    labelled = count > 0
    chance = (given * answered).sum(axis=1) / np.maximum(count, 1) ** 2
    same = np.bincount(who, own == theirs, minlength=annotations.n_annotators)
    beyond = binom.sf(same - 1, count, chance) < LEVEL / max(int(labelled.sum()), 1)
    return int((beyond & labelled).sum()), int(labelled.sum())
