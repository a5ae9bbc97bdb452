"""The table of annotators: its columns, its head as it stands in the page, and all of it for the page's script."""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup

from realm.report.annotator_charts import small_interval
from realm.report.escaping import clipped, data_block, visible
from realm.report.run_data import VERDICTS, RunData
from realm.report.svg import percent

FIRST_ROWS = 25
ROWS_BYTES = 1_600_000
"""The table takes no more than this of a page; what does not fit is in expertise.csv."""
LONGEST_NAME = 64


def columns(data: RunData) -> list[tuple[str, str, str, bool]]:
    """Key, heading, explanation and whether it holds figures, of each column of the table."""
    agreement = "Share of the annotator's labels that are the most probable ones"
    expertise = "The mixture weight beta: 0 is guessing, 1 always right; re-estimated on all labels of an item together"
    made = [("annotator", "Annotator", "Name", False)]
    if data.several_tasks:
        made.append(("task", "Task", "Task", False))
    made += [
        ("low", "95% interval", "Sorts by the lower end: the safe way to rank", False),
        ("accuracy", "Accuracy", "Probability that a label is right", True),
        ("high", "from–to", "Sorts by the upper end", True),
        ("verdict", "Verdict", "What holds over the whole interval", False),
        ("n", "Labels", "Annotations given", True),
        ("agreement", "Agrees", agreement, True),
        ("expertise", "Expertise", expertise, True),
    ]
    if data.trained is not None:
        made.append(("trained", "Trained", "Expertise as it was learned during training, sigma(omega)", True))
    return made


def rows(data: RunData) -> tuple[Markup, int]:
    """All rows for the page's script, as columns of whole hundredths of a percent, and how many it leaves out.

    Where there is no room for all, those with the fewest labels go first.
    """
    estimate, cells = data.estimate, data.ranked
    names = [clipped(visible(name), LONGEST_NAME) for name in data.annotations.annotators]
    tasks = [clipped(visible(name), LONGEST_NAME) for name in data.task_names]
    while True:
        who, task = np.divmod(cells, len(tasks))
        present = np.unique(who)
        block: dict[str, Any] = {
            "names": [names[person] for person in present],
            "tasks": tasks,
            "verdicts": VERDICTS,
            "who": np.searchsorted(present, who).tolist(),
            "task": task.tolist(),
            "verdict": data.verdicts[who, task].tolist(),
            "n": estimate.annotations[who, task].tolist(),
            "trained": None if data.trained is None else _whole(data.trained[who, task]),
        }
        figures_of = ("accuracy", "low", "high", "chance")
        block |= {name: _whole(getattr(estimate, name)[who, task]) for name in figures_of}
        block |= {"expertise": _whole(estimate.expertise[who, task])}
        block |= {"agreement": _whole(data.agreement[who, task])}
        said = data_block(block)
        size = len(said.encode())
        if size <= ROWS_BYTES or len(cells) <= FIRST_ROWS:
            return said, len(data.ranked) - len(cells)
        kept = max(int(len(cells) * 0.95 * ROWS_BYTES / size), FIRST_ROWS)
        cells = cells[np.sort(np.argsort(-estimate.annotations[who, task], kind="stable")[:kept])]


def _whole(values: Any) -> list[int | None]:
    return [None if np.isnan(value) else round(10_000 * value) for value in values.tolist()]


def first_rows(data: RunData) -> list[dict[str, Any]]:
    """The head of the table as it stands before (or without) the page's script."""
    estimate, made = data.estimate, []
    for cell in data.ranked[:FIRST_ROWS].tolist():
        at = divmod(cell, len(data.annotations.tasks))
        accuracy, low, high = estimate.accuracy[at], estimate.low[at], estimate.high[at]
        kind = int(data.verdicts[at])
        made.append(
            {
                "name": clipped(data.annotations.annotators[at[0]], LONGEST_NAME),
                "task": clipped(data.task_names[at[1]], LONGEST_NAME),
                "bar": small_interval(accuracy, low, high, estimate.chance[at], kind),
                "accuracy": percent(accuracy),
                "interval": f"{percent(low)[:-1]}–{percent(high)}",
                "kind": kind,
                "n": f"{estimate.annotations[at]:,}",
                "agreement": percent(data.agreement[at]),
                "expertise": f"{estimate.expertise[at]:.2f}",
                "trained": "" if data.trained is None else f"{data.trained[at]:.2f}",
            }
        )
    return made
