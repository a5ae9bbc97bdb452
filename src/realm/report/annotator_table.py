"""The table of annotators: its columns, its first rows as HTML shows them, and all rows for the page's script."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from realm.crowd.verdicts import VERDICTS
from realm.report.annotator_charts import small_interval
from realm.report.annotator_details import details
from realm.report.escaping import clipped, data_block, visible
from realm.report.run_data import RunData
from realm.report.svg import percent, percent_range

FIRST_ROWS = 50
"""Rows before "Show more": two screens full. The page's script has the same number."""
ROWS_BYTES = 1_400_000
"""The table takes no more than this of a page, which stays below 3 MB."""
LONGEST_NAME = 64
"""Longer names are cut: an e-mail address fits."""


class TableRows(NamedTuple):
    """The rows as JSON, how many are left out, how many have no details, and the items that the details show."""

    json: Markup
    left_out: int
    without_details: int
    examples: list[int]


def columns(data: RunData) -> list[tuple[str, str, str, bool]]:
    """Key, heading, explanation and whether it holds figures, of each column of the table."""
    agreement = "Share of the annotator's labels that are the cleaned ones"
    table = [("annotator", "Annotator", "Name; opens the details", False)]
    if data.several_tasks:
        table.append(("task", "Task", "Task", False))
    table += [
        ("low", "95% interval", "Sorts by the lower end: the safe way to rank", False),
        ("accuracy", "Accuracy", "Probability that a label is right", True),
        ("high", "from–to", "Sorts by the upper end", True),
        ("verdict", "Verdict", "What holds over the whole interval", False),
        ("n", "Labels", "Annotations given", True),
        ("agreement", "Agrees", agreement, True),
    ]
    told = _words(data)
    if "trend" in told:
        table.append(("trend", "Trend", "Whether accuracy changed over time, beyond chance", False))
    if told.keys() & {"habit", "notes"}:
        habit = "The answer given when not answering from the item, where it is clearly not what everybody answers"
        patterns = "patterns in the labels: always one answer, another annotator's labels"
        table.append(("notes" if "notes" in told else "habit", "Notes", f"{habit}; {patterns}", False))
    return table


def _words(data: RunData) -> dict[str, Any]:
    """The words (annotators, tasks) of the columns in which there is something to tell."""
    columns = {"trend": _trends(data), "habit": data.habits, "notes": data.notes}
    return {name: words for name, words in columns.items() if (words != "").any()}


def _remarks(told: dict[str, Any], at: tuple[int, int]) -> str | None:
    """Habit and notes of a pair in one cell; None where the table has no such column."""
    columns = [told[name] for name in ("habit", "notes") if name in told]
    return "; ".join(visible(words[at]) for words in columns if words[at]) if columns else None


def _trends(data: RunData) -> Any:
    """`fell`, `rose` or `steady` where there are enough labels with times to tell. (annotators, tasks)"""
    words = np.full(data.estimate.annotations.shape, "", dtype=object)
    for each in data.times:
        if each.drift is not None:
            falls = each.drift.after[0] < each.drift.before[0]
            words[each.annotator, each.task] = ("fell" if falls else "rose") if each.drift.flagged else "steady"
    return words


def rows(data: RunData) -> TableRows:
    """All rows for the page's script, as columns of whole hundredths of a percent, with the details of each.

    Where there is no room for all rows, those with the fewest labels are left out.
    """
    estimate, pairs = data.estimate, data.ranked
    names = [clipped(visible(name), LONGEST_NAME) for name in data.annotations.annotators]
    tasks = [clipped(visible(name), LONGEST_NAME) for name in data.task_names]
    figures = {name: getattr(estimate, name) for name in ("accuracy", "low", "high", "chance", "expertise")}
    figures["agreement"], told = data.agreement, _words(data)
    opened, examples = details(data, pairs)
    by_pair = dict(zip(pairs.tolist(), opened, strict=True))
    while True:
        who, task = np.divmod(pairs, len(tasks))
        own = [by_pair[pair] for pair in pairs.tolist()]
        compared = [peer[0] for entry in own if entry for peer in entry["p"]]
        present = np.unique(np.concatenate([who, np.array(compared, dtype=who.dtype)]))
        block: dict[str, Any] = {
            "names": [names[annotator] for annotator in present],
            "tasks": tasks,
            "verdicts": VERDICTS,
            "who": np.searchsorted(present, who).tolist(),
            "task": task.tolist(),
            "verdict": data.verdicts[who, task].tolist(),
            "n": estimate.annotations[who, task].tolist(),
            "trained": None if data.trained is None else _hundredths(data.trained[who, task]),
            **{name: [visible(text) for text in words[who, task]] for name, words in told.items()},
            **{name: _hundredths(values[who, task]) for name, values in figures.items()},
        }
        size = len(data_block(block).encode())
        if size <= ROWS_BYTES or len(pairs) <= FIRST_ROWS:
            place = {int(annotator): index for index, annotator in enumerate(present)}
            block["details"] = [_renumbered(entry, place) for entry in own]
            return TableRows(data_block(block), len(data.ranked) - len(pairs), own.count(None), examples)
        fitting = max(int(len(pairs) * 0.95 * ROWS_BYTES / size), FIRST_ROWS)  # 0.95: names differ in length
        pairs = pairs[np.sort(np.argsort(-estimate.annotations[who, task], kind="stable")[:fitting])]


def _renumbered(entry: dict[str, Any] | None, place: dict[int, int]) -> dict[str, Any] | None:
    """The same details with the place of each peer's name in the list of names."""
    return None if entry is None else {**entry, "p": [[place[peer], *counts] for peer, *counts in entry["p"]]}


def _hundredths(shares: Any) -> list[int | None]:
    """Shares as whole hundredths of a percent, None for NaN."""
    return [None if np.isnan(share) else round(10_000 * share) for share in shares.tolist()]


def first_rows(data: RunData) -> list[dict[str, Any]]:
    """The rows that stand in the page without its script: both ends of the ranking where there is no room for all."""
    estimate, told = data.estimate, _words(data)
    pairs = data.ranked.tolist()
    if len(pairs) > FIRST_ROWS:
        pairs = pairs[: FIRST_ROWS // 2] + pairs[-FIRST_ROWS // 2 :]
    table: list[dict[str, Any]] = []
    for pair in pairs:
        at = divmod(pair, len(data.annotations.tasks))
        accuracy, low, high = estimate.accuracy[at], estimate.low[at], estimate.high[at]
        kind = int(data.verdicts[at])
        table.append(
            {
                "name": clipped(data.annotations.annotators[at[0]], LONGEST_NAME),
                "task": clipped(data.task_names[at[1]], LONGEST_NAME),
                "bar": small_interval(accuracy, low, high, estimate.chance[at], kind),
                "accuracy": percent(accuracy),
                "interval": percent_range(low, high),
                "kind": kind,
                "n": f"{estimate.annotations[at]:,}",
                "agreement": percent(data.agreement[at]),
                "trend": str(told["trend"][at]) if "trend" in told else None,
                "notes": _remarks(told, at),
            }
        )
    return table
