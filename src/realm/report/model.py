"""The section on the model and its training: its confidence on the training items, and its curves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from realm.crowd.engine import Floats
from realm.crowd.verdicts import posterior_of_labels
from realm.data.annotations import UNKNOWN
from realm.report import charts
from realm.report.html import Figure
from realm.report.run_data import RunData
from realm.report.svg import compact, percent
from realm.runs.folder import OUT_OF_FOLD

BINS, FEWEST = 10, 5
"""Bins of confidence (ten percent each), and the fewest items of a bin that is drawn."""
CLEARLY = 0.05
"""Five points: below that, bins of a hundred items differ by chance."""
JUDGES = {"gold": "right by gold", "annotators": "confirmed by annotators", "labels": "same as the label given"}
"""The vertical axis of the calibration chart, by who judges."""


@dataclass(frozen=True)
class Calibration:
    """How sure the model is of the training items, how often it is confirmed, and the share of the items. (bins,) each

    `judge` says by whom. `agreed` is how often the label given is the model's favourite, `expected` how often it would
    be if model and annotators were as good as they are said to be.
    """

    sure: Floats
    confirmed: Floats
    share: Floats
    judge: str
    agreed: float
    expected: float

    @property
    def gap(self) -> float:
        """Mean distance from the diagonal."""
        return float((np.abs(self.sure - self.confirmed) * self.share).sum() / max(float(self.share.sum()), 1e-12))

    @property
    def verdict(self) -> str:
        excess = float(((self.sure - self.confirmed) * self.share).sum())
        return "well calibrated" if abs(excess) <= CLEARLY else "overconfident" if excess > 0 else "underconfident"

    def chart(self) -> Markup:
        return charts.reliability(self.sure, self.confirmed, self.share, JUDGES[self.judge])


def calibration(data: RunData) -> Calibration | None:
    """The model's confidence held against gold where the run used it, else against the annotators alone.

    In-sample the model was trained on that gold, so that being right there says nothing, and the annotators judge.
    With several labels per item they are weighed by their expertise, the model having no say; with one label per item
    the label as given is all there is, and its errors count against the model.
    """
    if not data.has_model:
        return None
    table = data.annotations
    favourite, sure = data.model_probs.argmax(axis=1), data.model_probs.max(axis=1)
    if data.rests_on(OUT_OF_FOLD) and table.gold is not None and (table.gold != UNKNOWN).any():
        items = np.flatnonzero(table.gold != UNKNOWN)
        confirmed, judge = (table.gold[items] == favourite[items]).astype(np.float64), "gold"
    elif not data.one_label_each:
        items = np.flatnonzero(table.annotations_per_item > 1)
        confirmed, judge = posterior_of_labels(table, data.estimate)[items, favourite[items]], "annotators"
    else:
        items = np.flatnonzero(table.annotations_per_item == 1)
        confirmed, judge = data.votes[items, favourite[items]].astype(np.float64), "labels"
    if not len(items):
        return None
    bins = np.minimum((sure[items] * BINS).astype(int), BINS - 1)
    counts = np.bincount(bins, minlength=BINS)
    large = counts >= min(FEWEST, len(items))
    of_model, of_judge = (np.bincount(bins, values, minlength=BINS)[large] for values in (sure[items], confirmed))
    accuracy = data.estimate.accuracy[table.annotator, table.item_tasks[table.item]]
    wrong = (1 - accuracy) / np.maximum(table.option_counts[table.item] - 1, 1)
    return Calibration(
        sure=of_model / counts[large],
        confirmed=of_judge / counts[large],
        share=counts[large] / len(items),
        judge=judge,
        agreed=float((table.label == favourite[table.item]).mean()),
        expected=float((accuracy * sure[table.item] + wrong * (1 - sure[table.item])).mean()),
    )


def curves(data: RunData) -> list[Figure]:
    """The learning curve, accuracy on the test items, and expertise while it was learned, as far as logged."""
    figures = []
    for entry, title, label, label_of, caption, note in (
        ("loss", "Training loss", "loss per annotation", compact, "Learning curve", "mean loss per annotation"),
        ("eval_accuracy", "Accuracy on the test items", "accuracy", percent, "Accuracy on the test items",
         "gold is used to measure, not to train"),
    ):  # fmt: skip
        history = data.metrics.get("history", [])
        logged = [(row["step"], row[entry]) for row in history if entry in row and "step" in row]
        x, y = np.array(logged, dtype=np.float64).reshape(-1, 2).T
        if np.isfinite(y).sum() > 1:
            chart = charts.line_chart(title, x, y, "training step", label, label_of)
            figures.append(Figure(chart, caption, note))
    return figures
