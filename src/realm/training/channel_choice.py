"""`channel=auto`: the channel under which annotations that it was not fitted to are most probable.

The annotations are split into folds. Each candidate is fitted to all folds but one, with the model's P as it was before
it saw an item (or without, where several annotations per item tell enough), and foretells the annotations of that fold
from P and the item's other annotations. No model is trained for it.

Beside the channels stands `identity`, plain fine-tuning: a label is drawn from what the model and the item's other
annotations say, whoever gives it. It is chosen only where it is clearly better, since a mixture whose annotators are
alike loses nothing to it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from realm.channels import Channel
from realm.data import Annotations
from realm.training.channel_fit import ChannelFit, Prior, label_shares, sample_items

CANDIDATES = ("uniform", "habit", "confusion")
"""The channels that are compared, beside `identity`."""
FIRST = "confusion"
"""What training begins with where nothing can be compared yet: it holds the other two, and is drawn to them."""
FOLDS = 3
"""Two thirds of the annotations are enough to fit a channel to."""
STEPS = 20
"""Iterations of each fit: enough to compare them."""
CLEARLY = 3.0
"""Standard errors by which `identity` must be better than every channel to be chosen."""
TEMPERATURES, LABEL_WEIGHTS = (1.0, 2.0, 4.0, 8.0), (0.5, 2.0, 8.0, 32.0)
"""For `identity`: how far P is softened (not sharpened, which no channel does either), and the labels it is worth."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ChannelChoice:
    """Which channel foretells annotations best.

    | field | meaning |
    |---|---|
    | name | the channel chosen |
    | likelihoods | mean log-probability of a held-out annotation, by candidate; empty where none was compared |
    | standard_error | of the difference between the chosen one and `identity` (or the best channel) |
    """

    name: str
    likelihoods: dict[str, float]
    standard_error: float = 0.0

    @property
    def sentence(self) -> str:
        """One line for the user."""
        if not self.likelihoods:
            if self.name == "identity":
                return "channel: none; with one annotator training is plain fine-tuning."
            return f"channel: {self.name}; there are too few annotations to compare channels."
        identity = self.likelihoods["identity"]
        figures = ", ".join(f"{name} {value - identity:+.4f}" for name, value in self.likelihoods.items())
        plain = " Training is plain fine-tuning." if self.name == "identity" else ""
        return (
            f"channel: {self.name}; no other predicts held-out annotations clearly better (log-probability per "
            f"annotation, minus that of plain fine-tuning: {figures}; standard error {self.standard_error:.4f}).{plain}"
        )


def choose_channel(
    annotations: Annotations,
    log_probs: Tensor,
    make: Callable[[str], Channel],
    prior: Prior | None = None,
    *,
    together: bool = True,
) -> ChannelChoice:
    """Compare `CANDIDATES` and `identity` on held-out annotations.

    `log_probs` (items, K) is the model's P of items that it has not seen yet, NaN where it has said nothing. `make`
    gives a channel by name, as training would start it.
    """
    if annotations.n_annotators == 1:
        return ChannelChoice("identity", {})
    per_item = annotations.annotations_per_item
    known = ~log_probs[:, 0].isnan().numpy()
    items = np.flatnonzero((known & (per_item > 0)) | (together & (per_item > 1)))
    if not len(items):
        return ChannelChoice(FIRST, {})
    items = sample_items(annotations, items)
    table = annotations.take_items(items)
    log_probs = log_probs[torch.from_numpy(items), : int(table.option_counts.max())]
    fold = np.random.default_rng(1).permutation(table.n_annotations) % FOLDS
    names = (*CANDIDATES, "identity")
    foretold = {name: np.full(table.n_annotations, np.nan) for name in names}
    for held_out in range(FOLDS):
        fitted, rest = (table.keep_annotations(mask) for mask in (fold != held_out, fold == held_out))
        rows = np.flatnonzero(fold == held_out)
        if not fitted.n_annotations or not rest.n_annotations:
            continue
        for name in CANDIDATES:
            fit = ChannelFit(make(name), fitted, prior, together=together)
            fit.fit(log_probs, STEPS)
            foretold[name][rows] = fit.with_others(log_probs, rest).numpy()
        foretold["identity"][rows] = _identity(fitted, rest, log_probs)
    compared = np.isfinite(foretold["identity"])
    if not compared.any():
        return ChannelChoice(FIRST, {})
    means = {name: float(values[compared].mean()) for name, values in foretold.items()}
    best = max(CANDIDATES, key=lambda name: means[name])
    for name in CANDIDATES:  # the last that is as good: it can say more, and is drawn to the others where it need not
        gain, error = _difference(foretold[best][compared], foretold[name][compared])
        best = name if gain <= error else best
    gain, error = _difference(foretold[best][compared], foretold["identity"][compared])
    return ChannelChoice("identity" if gain < -CLEARLY * error else best, means, error)


def _difference(first: Floats, second: Floats) -> tuple[float, float]:
    """The mean difference, and its standard error."""
    difference = first - second
    return float(difference.mean()), float(difference.std() / np.sqrt(max(len(difference), 1)))


def _identity(fitted: Annotations, rest: Annotations, log_probs: Tensor) -> Floats:
    """log of the probability of each annotation of `rest` if it is drawn as the others of its item are.

    A label's probability is its share among the item's other annotations and as many labels drawn from P; how many,
    and how sharp P is taken, is what fits best.
    """
    shares = torch.from_numpy(label_shares(fitted))
    known = torch.where(log_probs[:, :1].isnan(), shares, log_probs)
    counts = np.zeros(shares.shape)
    np.add.at(counts, (fitted.item, fitted.label), 1.0 if fitted.weight is None else fitted.weight)
    best: tuple[float, Floats] | None = None
    for temperature, weight in itertools.product(TEMPERATURES, LABEL_WEIGHTS):
        p = (known / temperature).softmax(dim=1).numpy()
        q = (counts + weight * p) / (counts.sum(axis=1, keepdims=True) + weight)
        logs = np.log(np.maximum(q[rest.item, rest.label], 1e-12))
        if best is None or logs.sum() > best[0]:
            best = float(logs.sum()), logs
    assert best is not None
    return best[1]
