"""The table of annotators: its columns, its first rows as HTML shows them, and all rows for the page's script."""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup

from realm.crowd.tables import VERDICTS
from realm.report.annotator_charts import small_interval
from realm.report.escaping import clipped, data_block, visible
from realm.report.run_data import RunData
from realm.report.svg import percent, percent_range

FIRST_ROWS = 25
"""Rows before "Show more": a screen full. The page's script has the same number."""
ROWS_BYTES = 1_600_000
"""The table takes no more than this of a page, which stays below 2 MB; what does not fit is in expertise.csv."""
LONGEST_NAME = 64
"""Longer names are cut: an e-mail address fits."""


def columns(data: RunData) -> list[tuple[str, str, str, bool]]:
    """Key, heading, explanation and whether it holds figures, of each column of the table."""
    agreement = "Share of the annotator's labels that are the most probable ones"
    expertise = "The mixture weight beta: 0 is guessing, 1 always right; re-estimated on all labels of an item together"
    table = [("annotator", "Annotator", "Name", False)]
    if data.several_tasks:
        table.append(("task", "Task", "Task", False))
    table += [
        ("low", "95% interval", "Sorts by the lower end: the safe way to rank", False),
        ("accuracy", "Accuracy", "Probability that a label is right", True),
        ("high", "from–to", "Sorts by the upper end", True),
        ("verdict", "Verdict", "What holds over the whole interval", False),
        ("n", "Labels", "Annotations given", True),
        ("agreement", "Agrees", agreement, True),
        ("expertise", "Expertise", expertise, True),
    ]
    if data.trained is not None:
        table.append(("trained", "Trained", "Expertise as it was learned during training, sigma(omega)", True))
    return table + [(name, heading, hint, False) for name, (heading, hint, _) in _words(data).items()]


def _words(data: RunData) -> dict[str, tuple[str, str, Any]]:
    """Heading, explanation and words (annotators, tasks) of the columns in which there is something to tell."""
    habit = "What is answered when the item is not read, where that is clearly not what everybody answers"
    notes = "What the labels show by themselves, as `realm check` finds it: one answer always, or another's labels"
    columns = {"habit": ("Habit", habit, data.habits), "notes": ("Notes", notes, data.notes)}
    return {name: column for name, column in columns.items() if (column[2] != "").any()}


def rows(data: RunData) -> tuple[Markup, int]:
    """All rows for the page's script, as columns of whole hundredths of a percent, and how many it leaves out.

    Where there is no room for all, those with the fewest labels go first.
    """
    estimate, pairs = data.estimate, data.ranked
    names = [clipped(visible(name), LONGEST_NAME) for name in data.annotations.annotators]
    tasks = [clipped(visible(name), LONGEST_NAME) for name in data.task_names]
    figures = {name: getattr(estimate, name) for name in ("accuracy", "low", "high", "chance", "expertise")}
    figures["agreement"], told = data.agreement, _words(data)
    while True:
        who, task = np.divmod(pairs, len(tasks))
        present = np.unique(who)
        block: dict[str, Any] = {
            "names": [names[annotator] for annotator in present],
            "tasks": tasks,
            "verdicts": VERDICTS,
            "who": np.searchsorted(present, who).tolist(),
            "task": task.tolist(),
            "verdict": data.verdicts[who, task].tolist(),
            "n": estimate.annotations[who, task].tolist(),
            "trained": None if data.trained is None else _hundredths(data.trained[who, task]),
            **{name: [visible(text) for text in words[who, task]] for name, (_, _, words) in told.items()},
            **{name: _hundredths(values[who, task]) for name, values in figures.items()},
        }
        json = data_block(block)
        size = len(json.encode())
        if size <= ROWS_BYTES or len(pairs) <= FIRST_ROWS:
            return json, len(data.ranked) - len(pairs)
        fitting = max(int(len(pairs) * 0.95 * ROWS_BYTES / size), FIRST_ROWS)  # 0.95: names differ in length
        pairs = pairs[np.sort(np.argsort(-estimate.annotations[who, task], kind="stable")[:fitting])]


def _hundredths(shares: Any) -> list[int | None]:
    """Shares as whole hundredths of a percent, None for NaN."""
    return [None if np.isnan(share) else round(10_000 * share) for share in shares.tolist()]


def first_rows(data: RunData) -> list[dict[str, Any]]:
    """The first rows of the table, as they stand in the page without its script."""
    estimate, told = data.estimate, _words(data)
    table: list[dict[str, Any]] = []
    for pair in data.ranked[:FIRST_ROWS].tolist():
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
                "expertise": f"{estimate.expertise[at]:.2f}",
                "trained": "" if data.trained is None else f"{data.trained[at]:.2f}",
                "words": [visible(words[at]) for _, _, words in told.values()],
            }
        )
    return table
