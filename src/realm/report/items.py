"""The lists of items, each cut to what a person reads: what to settle at what price, and model against votes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from realm.crowd.engine import Floats, Ints
from realm.crowd.relabel import relabel_queue
from realm.crowd.tables import OptionNames, label_counts_in_words
from realm.report.escaping import clipped
from realm.report.run_data import RunData
from realm.report.summary import LONGEST_NAME

if TYPE_CHECKING:
    import pandas as pd

DISAGREEMENTS, TO_RELABEL = 200, 150
"""Most entries of each list: what a person reads through, and what a page can hold."""
TEXT, CONTEXT, NAME = 420, 240, 80
"""Most characters of a text (five lines or so), of a context, and of a name or label."""
MOST = 1_000
"""Labels that are planned at most: beyond, the answers to the first have changed what is worth asking."""
BUDGETS = (25, 50, 100, 250, 500, 1_000)
"""Numbers of labels that are priced: what teams order."""
NEARLY_ALL = 0.98
"""The share of what all planned labels correct from which on more are not priced: the rest goes to clear items."""


def _listed(data: RunData, rows: Ints, **more: Any) -> list[dict[str, Any]]:
    """What is shown of each item; `more` are columns of one list."""
    names, table = OptionNames(data.annotations), data.annotations.take_items(rows)
    favourite, labels = data.model_probs[rows].argmax(axis=1), data.labels[rows]
    others = np.where(np.arange(data.scores.shape[1]) < table.option_counts[:, None], data.estimate.posterior[rows], -1)
    others[np.arange(len(rows)), labels] = -1.0
    runner_up = np.where(table.option_counts > 1, others.argmax(axis=1), -1)
    contexts = [None] * len(rows) if table.items.contexts is None else table.items.contexts.to_pylist()
    columns = {
        "id": [clipped(name, NAME) for name in table.item_ids.to_pylist()],
        "task": [clipped(data.task_names[task], NAME) for task in table.item_tasks],
        "text": [clipped(text or "", TEXT) for text in table.texts.to_pylist()],
        "context": [clipped(text or "", CONTEXT) for text in contexts],
        "votes": [clipped(votes, 2 * NAME) for votes in label_counts_in_words(table, OptionNames(table))],
        "model": [clipped(name, NAME) for name in names(rows, favourite)],
        "model_share": data.model_probs[rows, favourite].tolist(),
        "label": [clipped(name, NAME) for name in names(rows, labels)],
        "confidence": data.confidence[rows].tolist(),
        "runner_up": [clipped(name, NAME) for name in names(rows, runner_up)],
        "annotations": table.annotations_per_item.tolist(),
        **more,
    }
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


# -------------------------------------------------------------------- where model and votes disagree


def disagreements(data: RunData) -> tuple[list[dict[str, Any]], int]:
    """Items whose most voted label is not the model's favourite, the most outspoken first, and how many there are."""
    if not data.has_model:
        return [], 0
    rows = np.arange(data.annotations.n_items)
    favourite, voted = data.model_probs.argmax(axis=1), data.votes.argmax(axis=1)
    most = data.votes.max(axis=1, initial=0)
    behind = most - data.votes[rows, favourite]
    apart = np.flatnonzero(behind > 0)
    certainty = data.model_probs[apart, favourite[apart]] - data.model_probs[apart, voted[apart]]
    lead = behind[apart] / np.maximum(data.votes[apart].sum(axis=1), 1)
    first = apart[np.argsort(-(certainty * lead), kind="stable")][:DISAGREEMENTS]
    labels = data.labels[first]
    follows_votes = np.where(data.votes[first, labels] == most[first], "as the votes", "as neither")
    sides = np.where(labels == favourite[first], "as the model", follows_votes)
    return _listed(data, first, sides=sides.tolist()), len(apart)


# -------------------------------------------------------------------- what is unclear and what it costs to settle


@dataclass(frozen=True, eq=False)
class Settling:
    """What more labels are expected to buy, by the posterior of each item, and who would give them."""

    data: RunData

    @cached_property
    def queue(self) -> pd.DataFrame:
        """What to ask, the most informative first (`realm.crowd.relabel`)."""
        return relabel_queue(self.data.annotations, self.data.scores, self.data.estimate, MOST)

    @cached_property
    def gains(self) -> Floats:
        """How many wrong labels are expected to be put right by so many answers. (labels,)"""
        return np.cumsum(self.queue["gain_labels"].to_numpy(dtype=np.float64))

    @cached_property
    def wrong(self) -> float:
        """How many cleaned labels are expected to be wrong."""
        return float((1 - self.data.confidence).sum())

    @property
    def rows(self) -> list[tuple[int, float, float, str]]:
        """Labels, put right, left wrong, and the time that they take, for the numbers of labels that are priced."""
        gains, pace = self.gains, self.seconds_per_label
        if not len(gains):
            return []
        enough = min(int(np.searchsorted(gains, NEARLY_ALL * gains[-1])) + 1, len(gains))
        sizes = sorted({*(size for size in BUDGETS if size < enough), enough, min(TO_RELABEL, len(gains))})
        times = ["" if pace is None else _duration(size * pace) for size in sizes]
        return [
            (size, float(gains[size - 1]), max(self.wrong - float(gains[size - 1]), 0.0), time)
            for size, time in zip(sizes, times, strict=True)
        ]

    @cached_property
    def seconds_per_label(self) -> float | None:
        """The median time that one label takes, over annotators: lead times, else labels per hour of sessions."""
        times = self.data.screens.times
        leads = [each.lead_time for each in times if np.isfinite(each.lead_time)]
        rates = [each.labels_per_hour for each in times if each.labels_per_hour > 0]
        return float(np.median(leads)) if leads else float(3600 / np.median(rates)) if rates else None

    @cached_property
    def items(self) -> list[dict[str, Any]]:
        """The first items of the queue, and whom to ask."""
        queue = self.queue.head(TO_RELABEL)
        names, ids = self.data.task_names, self.data.annotations.item_ids.to_pylist()
        row_of = {(names[task], ids[row]): row for row, task in enumerate(self.data.annotations.item_tasks.tolist())}
        rows = np.array([row_of[key] for key in zip(queue["task"], queue["item"], strict=True)], dtype=np.int64)
        columns = {name: [clipped(text, NAME) for text in queue[name]] for name in ("ask", "or_else")}
        return _listed(self.data, rows, **columns, gain=queue["gain_labels"].tolist())

    @cached_property
    def workload(self) -> list[tuple[str, int, float]]:
        """Who would label the items listed: name, how many, accuracy; the busiest first."""
        queue = self.queue.head(TO_RELABEL)
        accuracy, counts = dict(zip(queue["ask"], queue["ask_accuracy"], strict=True)), queue["ask"].value_counts()
        return [(clipped(str(name), LONGEST_NAME), n, float(accuracy[name])) for name, n in counts.to_dict().items()]


def _duration(seconds: float) -> str:
    return f"{max(seconds / 60, 1):,.0f} min" if seconds < 5400 else f"{seconds / 3600:,.1f} h"
