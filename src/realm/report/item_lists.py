"""The lists of items in a report, each cut to what a person reads: disagreements, what to relabel, broken items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from realm.crowd.relabel import contradictions, relabel_queue
from realm.crowd.tables import OptionNames, label_counts_in_words
from realm.report.escaping import clipped
from realm.report.run_data import RunData

DISAGREEMENTS, TO_RELABEL, BROKEN, DISPUTES = 200, 100, 50, 8
TEXT, CONTEXT, NAME = 420, 240, 80


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
    sides: str = ""
    annotators_say: str = ""
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
    voted = data.votes[apart].argmax(axis=1)
    sure = data.model_probs[apart, favourite[apart]] - data.model_probs[apart, voted]
    lead = behind[apart] / np.maximum(data.votes[apart].sum(axis=1), 1)
    order = apart[np.argsort(-(sure * lead), kind="stable")][:DISAGREEMENTS]
    given = data.votes[order, data.labels[order]]
    sides = np.where(
        data.labels[order] == favourite[order], "model", np.where(given == most[order], "majority", "neither")
    )
    return Listed(_listed(data, order, sides=sides.tolist()), len(apart))


def disputes(data: RunData) -> list[tuple[str, str, int]]:
    """What the votes say, what the model says, and on how many items: the commonest disagreements by name."""
    favourite, voted = data.model_probs.argmax(axis=1), data.votes.argmax(axis=1)
    rows = np.arange(data.annotations.n_items)
    apart = np.flatnonzero(data.votes[rows, voted] > data.votes[rows, favourite])
    if data.annotations.options is not None:
        return []
    width = data.log_probs.shape[1]
    codes = (data.annotations.item_tasks[apart] * width + voted[apart]) * width + favourite[apart]
    kinds, counts = np.unique(codes, return_counts=True)
    found = []
    for code, count in sorted(zip(kinds.tolist(), counts.tolist(), strict=True), key=lambda pair: -pair[1])[:DISPUTES]:
        task, said, thought = code // width**2, code // width % width, code % width
        labels = data.annotations.tasks[task].labels or ()
        where = f"{data.task_names[task]}: " if data.several_tasks else ""
        found.append((f"{where}{labels[said]}", labels[thought], count))
    return found


def to_relabel(data: RunData) -> Listed:
    """The items that one more label would tell most about, and whom to ask."""
    queue = relabel_queue(data.annotations, data.log_probs, data.estimate, TO_RELABEL)
    rows = _rows_of(data, queue["task"].tolist(), queue["item"].tolist())
    asked = [clipped(name, NAME) for name in queue["ask"]]
    others = [clipped(names, NAME) for names in queue["or_else"]]
    return Listed(_listed(data, rows, ask=asked, or_else=others, gain=queue["gain_bits"].tolist()), len(queue))


def broken(data: RunData) -> Listed:
    """Items on which the model and the reliable annotators contradict each other."""
    found = contradictions(data.annotations, data.log_probs, data.estimate)
    first = found.head(BROKEN)
    rows = _rows_of(data, first["task"].tolist(), first["item"].tolist())
    said = [clipped(name, NAME) for name in first["annotators_say"]]
    return Listed(_listed(data, rows, annotators_say=said), len(found))


def _rows_of(data: RunData, tasks: list[str], items: list[str]) -> npt.NDArray[np.int64]:
    """The row of each item, which its task and its id name together."""
    wanted = set(zip(tasks, items, strict=True))
    names = data.task_names
    every = zip(data.annotations.item_tasks.tolist(), data.annotations.item_ids.to_pylist(), strict=True)
    row_of = {(names[task], item): row for row, (task, item) in enumerate(every) if (names[task], item) in wanted}
    return np.array([row_of[pair] for pair in zip(tasks, items, strict=True)], dtype=np.int64)


def _listed(data: RunData, rows: npt.NDArray[np.int64], **more: list[str] | list[float]) -> list[Item]:
    names = OptionNames(data.annotations)
    table = data.annotations.take_items(rows)
    favourite = data.model_probs[rows].argmax(axis=1)
    labels = data.labels[rows]
    columns = {
        "id": [clipped(name, NAME) for name in table.item_ids.to_pylist()],
        "task": [clipped(data.task_names[task], NAME) for task in table.item_tasks],
        "text": [clipped(text or "", TEXT) for text in table.texts.to_pylist()],
        "context": [
            clipped(text or "", CONTEXT)
            for text in ([""] * len(rows) if table.contexts is None else table.contexts.to_pylist())
        ],
        "votes": [clipped(votes, 2 * NAME) for votes in label_counts_in_words(table, OptionNames(table))],
        "model": [clipped(name, NAME) for name in names(rows, favourite)],
        "model_share": data.model_probs[rows, favourite].tolist(),
        "label": [clipped(name, NAME) for name in names(rows, labels)],
        "confidence": data.confidence[rows].tolist(),
        **more,
    }
    return [Item(**dict(zip(columns, values, strict=True))) for values in zip(*columns.values(), strict=True)]
