"""The lists of items, each cut to what a person reads: what to settle at what price, model against votes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from realm.crowd.engine import Floats, Ints
from realm.crowd.relabel import relabel_queue
from realm.crowd.tables import OptionNames, label_counts_in_words
from realm.report.charts import bars
from realm.report.escaping import clipped
from realm.report.run_data import RunData
from realm.report.summary import LONGEST_NAME

if TYPE_CHECKING:
    import pandas as pd

DISAGREEMENTS, TO_RELABEL, DISPUTES = 200, 150, 8
"""Most entries of each list: what a person reads through, and what a page can hold."""
TEXT, CONTEXT, NAME = 420, 240, 80
"""Most characters of a text (five lines or so), of a context, and of a name or label."""
MOST = 1_000
"""Labels that are planned at most: beyond, the answers to the first have changed what is worth asking."""
BUDGETS = (25, 50, 100, 250, 500, 1_000)
"""Numbers of labels that are priced: what teams order."""
NEARLY_ALL = 0.98
"""The share of what all planned labels correct from which on more are not priced: the rest goes to clear items."""


@dataclass(frozen=True)
class Item:
    """One item as it is listed. What does not apply to a list is left empty."""

    id: str
    task: str
    text: str
    context: str
    votes: str
    model: str
    model_share: float
    label: str
    confidence: float
    runner_up: str
    annotations: int
    sides: str = ""
    ask: str = ""
    or_else: str = ""
    gain: float = 0.0


@dataclass(frozen=True)
class Listed:
    """The first items of a list, and how long the whole of it is."""

    items: Sequence[Item] = ()
    total: int = 0
    chart: Markup | None = None


def _listed(data: RunData, rows: Ints, **more: list[str] | list[float]) -> list[Item]:
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
    return [Item(**dict(zip(columns, values, strict=True))) for values in zip(*columns.values(), strict=True)]


# -------------------------------------------------------------------- where model and votes disagree


def disagreements(data: RunData) -> Listed:
    """Items whose most voted label is not the model's favourite, the most outspoken first; none without a model."""
    if not data.has_model:
        return Listed()
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
    chart = _dispute_bars(data, apart, voted[apart], favourite[apart])
    return Listed(_listed(data, first, sides=sides.tolist()), len(apart), chart)


def _dispute_bars(data: RunData, items: Ints, voted: Ints, favourite: Ints) -> Markup | None:
    """The commonest disagreements: what the votes say, what the model says, and on how many items."""
    if data.annotations.items.options is not None or not len(items):
        return None
    triples = np.column_stack([data.annotations.item_tasks[items], voted, favourite])
    kinds, counts = np.unique(triples, axis=0, return_counts=True)
    order, names = np.argsort(-counts, kind="stable")[:DISPUTES], []
    for task, by_votes, by_model in kinds[order].tolist():
        labels = data.label_names(task)
        where = f"{data.task_names[task]}: " if data.several_tasks else ""
        names.append(f"{where}{clipped(labels[by_votes], 40)} → {clipped(labels[by_model], 40)}")
    return bars("What votes and model say where they differ", names, [("", counts[order].tolist())], "{:,.0f}".format)


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
    def sizes(self) -> list[int]:
        """The numbers of labels that are priced: those that correct anything to speak of, and as many as are listed."""
        if not len(self.gains):
            return []
        enough = min(int(np.searchsorted(self.gains, NEARLY_ALL * self.gains[-1])) + 1, len(self.gains))
        return sorted({*(size for size in BUDGETS if size < enough), enough, min(TO_RELABEL, len(self.gains))})

    @property
    def rows(self) -> list[tuple[int, float, float, str]]:
        """Labels, put right, left wrong, and the hours that they take."""
        pace, gains = self.seconds_per_label, [(size, float(self.gains[size - 1])) for size in self.sizes]
        hours = ["" if pace is None else _duration(size * pace) for size in self.sizes]
        return [(*each, max(self.wrong - each[1], 0.0), time) for each, time in zip(gains, hours, strict=True)]

    @cached_property
    def seconds_per_label(self) -> float | None:
        """The median time that one label takes, over annotators: lead times, else labels per hour of sessions."""
        times = self.data.screens.times
        leads, rates = (np.array([getattr(each, name) for each in times]) for name in ("lead_time", "labels_per_hour"))
        if np.isfinite(leads).any():
            return float(np.nanmedian(leads))
        return float(3600 / np.nanmedian(rates)) if np.isfinite(rates).any() else None

    @cached_property
    def items(self) -> Listed:
        """The first items of the queue, and whom to ask."""
        queue = self.queue.head(TO_RELABEL)
        names, ids = self.data.task_names, self.data.annotations.item_ids.to_pylist()
        row_of = {(names[task], ids[row]): row for row, task in enumerate(self.data.annotations.item_tasks.tolist())}
        rows = np.array([row_of[key] for key in zip(queue["task"], queue["item"], strict=True)], dtype=np.int64)
        columns = {name: [clipped(text, NAME) for text in queue[name]] for name in ("ask", "or_else")}
        return Listed(_listed(self.data, rows, **columns, gain=queue["gain_labels"].tolist()), len(self.queue))

    @cached_property
    def workload(self) -> list[tuple[str, int, float]]:
        """Who would label the items listed: name, how many, accuracy; the busiest first."""
        queue = self.queue.head(TO_RELABEL)
        accuracy = dict(zip(queue["ask"], queue["ask_accuracy"], strict=True))
        counts = queue["ask"].value_counts().items()
        return [(clipped(str(name), LONGEST_NAME), count, float(accuracy[name])) for name, count in counts]


def _duration(seconds: float) -> str:
    return f"{max(seconds / 60, 1):,.0f} min" if seconds < 5400 else f"{seconds / 3600:,.1f} h"
