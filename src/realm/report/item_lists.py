"""The lists of items in a report, each cut to what a person reads: model against votes, what to relabel, broken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from realm.crowd.suspects import broken_items
from realm.crowd.tables import OptionNames, label_counts_in_words
from realm.report.escaping import clipped
from realm.report.run_data import RunData

if TYPE_CHECKING:
    import pandas as pd

DISAGREEMENTS, TO_RELABEL, BROKEN, DISPUTES = 200, 150, 50, 8
"""Most entries of each list: what a person reads through, and what a page can hold."""
TEXT, CONTEXT, NAME = 420, 240, 80
"""Most characters of a text (five lines or so), of a context, and of a name or label."""


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
    against: str = ""
    ask: str = ""
    or_else: str = ""
    gain: float = 0.0


@dataclass(frozen=True)
class Listed:
    """The first items of a list, and how long the whole of it is."""

    items: list[Item]
    total: int


def disagreements(data: RunData) -> Listed:
    """Items whose most voted label is not the model's favourite, the most outspoken first."""
    rows = np.arange(data.annotations.n_items)
    favourite = data.model_probs.argmax(axis=1)
    most = data.votes.max(axis=1, initial=0)
    behind = most - data.votes[rows, favourite]
    apart = np.flatnonzero(behind > 0)
    certainty = data.model_probs[apart, favourite[apart]] - data.model_probs[apart, data.votes[apart].argmax(axis=1)]
    lead = behind[apart] / np.maximum(data.votes[apart].sum(axis=1), 1)
    first = apart[np.argsort(-(certainty * lead), kind="stable")][:DISAGREEMENTS]
    labels = data.labels[first]
    follows_votes = np.where(data.votes[first, labels] == most[first], "majority", "neither")
    sides = np.where(labels == favourite[first], "model", follows_votes)
    return Listed(_listed(data, first, sides=sides.tolist()), len(apart))


def disputes(data: RunData) -> list[tuple[str, str, int]]:
    """The commonest disagreements by name: what the votes say, what the model says, and on how many items."""
    if data.annotations.items.options is not None:
        return []
    favourite, voted = data.model_probs.argmax(axis=1), data.votes.argmax(axis=1)
    rows = np.arange(data.annotations.n_items)
    apart = np.flatnonzero(data.votes[rows, voted] > data.votes[rows, favourite])
    triples = np.column_stack([data.annotations.item_tasks[apart], voted[apart], favourite[apart]])
    kinds, counts = np.unique(triples, axis=0, return_counts=True)
    named = []
    for kind in np.argsort(-counts, kind="stable")[:DISPUTES].tolist():
        task, by_votes, by_model = kinds[kind].tolist()
        labels = data.annotations.tasks[task].labels or ()
        where = f"{data.task_names[task]}: " if data.several_tasks else ""
        named.append((f"{where}{labels[by_votes]}", labels[by_model], int(counts[kind])))
    return named


def to_relabel(data: RunData, queue: pd.DataFrame) -> Listed:
    """The items of a relabel queue (`realm.crowd.relabel`), and whom to ask."""
    columns = {name: [clipped(names, NAME) for names in queue[name]] for name in ("ask", "or_else")}
    return Listed(_listed(data, _rows_of(data, queue), **columns, gain=queue["gain_labels"].tolist()), len(queue))


def broken(data: RunData) -> Listed:
    """Items whose reliable annotators contradict each other more than their accuracies explain."""
    found = broken_items(data.annotations, data.estimate)
    against = [
        f"{few} of {all}" for few, all in zip(found.against[:BROKEN], found.reliable[:BROKEN], strict=True)
    ]  # fmt: skip
    return Listed(_listed(data, found.items[:BROKEN], against=against), len(found.items))


def item_rows(data: RunData) -> dict[tuple[str, str], int]:
    """The row of each item by its task and its id, which name it together."""
    names = data.task_names
    tasks, ids = data.annotations.item_tasks.tolist(), data.annotations.item_ids.to_pylist()
    return {(names[task], item): row for row, (task, item) in enumerate(zip(tasks, ids, strict=True))}


def _rows_of(data: RunData, table: pd.DataFrame) -> npt.NDArray[np.int64]:
    """The row of each item that a table names."""
    row_of = item_rows(data)
    return np.array([row_of[key] for key in zip(table["task"], table["item"], strict=True)], dtype=np.int64)


def _listed(data: RunData, rows: npt.NDArray[np.integer], **more: list[str] | list[float]) -> list[Item]:
    names = OptionNames(data.annotations)
    table = data.annotations.take_items(rows)
    favourite = data.model_probs[rows].argmax(axis=1)
    labels = data.labels[rows]
    others = np.where(np.arange(data.estimate.posterior.shape[1]) < table.option_counts[:, None], 0.0, -1.0)
    others = data.estimate.posterior[rows] + others
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
