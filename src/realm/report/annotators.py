"""The section on annotators: rankings, annotator by task, over time, and the table with what its rows open to."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from realm.crowd.accuracy import pairs_of
from realm.crowd.drift import AnnotatorOverTime
from realm.crowd.label_figures import count_confusions, share_right
from realm.crowd.tables import OptionNames
from realm.crowd.verdicts import VERDICTS
from realm.display import counted
from realm.report import charts
from realm.report.escaping import clipped, visible
from realm.report.html import Figure
from realm.report.run_data import UNCLEAR, RunData
from realm.report.summary import LONGEST_NAME
from realm.report.svg import percent, percent_range

RANKINGS = 4
"""Most tasks whose annotators are ranked: two rows of two charts."""
HEAT_ROWS, HEAT_COLUMNS = 40, 16
"""Most annotators and tasks of a heat map: it stays on one screen and its figures legible."""
TIME_CHARTS = 12
"""Most charts of annotators over time: what a person looks through."""
ROWS, DETAILED = 2_000, 200
"""Rows in the file, and rows that open."""
LABELS = 8
"""Most labels of a small confusion matrix; the rarest are added up."""
PEERS, EXAMPLES, TEXT = 3, 5, 160
"""Peers at each end, and items, that are listed, and characters of an item."""


def rankings(data: RunData) -> list[Figure]:
    """The annotators of each task by accuracy."""
    figures, estimate = [], data.estimate
    for task in data.busiest_tasks(RANKINGS):
        rows = data.ranked[data.ranked % len(data.task_names) == task] // len(data.task_names)
        name, names = data.task_names[task] * data.several_tasks, [data.annotations.annotators[row] for row in rows]
        shares = np.stack([estimate.accuracy[rows, task], estimate.low[rows, task], estimate.high[rows, task]], axis=1)
        chance = float(np.average(estimate.chance[rows, task], weights=estimate.annotations[rows, task]))
        picture = charts.ranking(name, names, shares, data.verdicts[rows, task], chance)
        caption = f"{name}: " * bool(name) + f"{counted(len(rows), 'annotator')}, most accurate first"
        notes = ["relative values: mostly one label per item"] if estimate.relative_tasks[task] else []
        if len(rows) > charts.RANKED:
            notes.append(f"{charts.RANKED} of them are drawn, evenly over the ranks")
        figures.append(Figure(picture, caption, "; ".join(notes)))
    return figures


def heat_map(data: RunData) -> Figure | None:
    """Annotator by task: the colour says how far above or below chance, the figure is the accuracy; None with one task.

    The note says which are drawn where there is no room for all.
    """
    if not data.several_tasks:
        return None
    estimate, counts, names = data.estimate, data.estimate.annotations, data.annotations.annotators
    tasks = data.busiest_tasks(HEAT_COLUMNS)
    rows = np.argsort(-counts.sum(axis=1), kind="stable")[:HEAT_ROWS]
    weighted = np.nansum(estimate.expertise[rows] * counts[rows], axis=1) / np.maximum(counts[rows].sum(axis=1), 1)
    rows = rows[np.argsort(-weighted, kind="stable")]

    def cell(row: int, task: int) -> charts.Cell | None:
        value, verdict = float(estimate.expertise[row, task]), VERDICTS[data.verdicts[row, task]]
        if not np.isfinite(value):
            return None
        figure = percent(estimate.accuracy[row, task])
        hint = f"{names[row]}, {data.task_names[task]}: accuracy {figure}, {verdict}"
        strength = value if value > 0 else -2 * value  # below chance there is less room
        side = "above" if value > 0 else "below"
        return charts.Cell(figure, strength, side, hint, verdict == "not enough evidence")

    cells = [[cell(int(row), task) for task in tasks] for row in rows]
    description = (
        f"{len(rows)} annotators by {len(tasks)} tasks. Blue is better than chance, orange-red worse; on figures in "
        "italics there is not enough evidence."
    )
    columns = [data.task_names[task] for task in tasks]
    picture = charts.matrix("Accuracy by annotator and task", description, [names[r] for r in rows], columns, cells)
    note = f"Shown are the {len(rows)} annotators with the most labels, in {len(tasks)} tasks."
    is_cut = len(rows) < data.annotations.n_annotators or len(tasks) < len(data.task_names)
    return Figure(picture, "Annotators by task", note if is_cut else "")


def changes_over_time(data: RunData) -> list[Figure]:
    """A small chart of each annotator whose accuracy changed, the clearest first."""
    changed = sorted((each for each in data.screens.times if each.changed), key=lambda each: each.p_value)
    names = [f"{each.annotator} · {each.task}" if data.several_tasks else each.annotator for each in changed]
    pairs = zip(changed[:TIME_CHARTS], names, strict=False)
    return [Figure(_time_chart(each), clipped(name, LONGEST_NAME), each.change) for each, name in pairs]


def _time_chart(each: AnnotatorOverTime) -> Markup:
    """Accuracy in stretches of time with its interval."""
    start, share, *ends = each.stretches.T
    hints = [f"{percent(a)}, {percent_range(b, c)}" for a, b, c in zip(share, *ends, strict=True)]
    x_axis = charts.Axis("", lambda seconds: f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}")
    y_axis = charts.Axis("accuracy", percent, (max(float(ends[0].min()) - 0.05, 0.0), 1.0))
    return charts.line_chart(
        "Accuracy over time", start, share, x_axis, y_axis, intervals=np.stack(ends, axis=1), hints=hints
    )


# -------------------------------------------------------------------- the table


class AnnotatorTable:
    """The rows of the table of annotators: those with the most labels, the most accurate first."""

    def __init__(self, data: RunData) -> None:
        self._data, table = data, data.annotations
        counts = data.estimate.annotations.reshape(-1)
        pairs = data.ranked[np.sort(np.argsort(-counts[data.ranked], kind="stable")[:ROWS])].tolist()
        bad = set(data.bad_pairs)
        detailed = set(sorted(pairs, key=lambda pair: (pair not in bad, -int(counts[pair])))[:DETAILED])
        self._agreement = np.nan_to_num(share_right(table, data.labels)[0])
        pair = pairs_of(table)
        self._annotations = np.argsort(pair, kind="stable")
        self._pairs = pair[self._annotations]
        confusions = count_confusions(table, data.labels[table.item])
        self._confusions = dict(list(confusions.groupby(["annotator", "task"])))
        swapped = data.peers.rename(columns={"one": "other", "other": "one"})
        self._peers = dict(list(pd.concat([data.peers, swapped], ignore_index=True).groupby("one")))
        self.shown_items: list[int] = []
        """The items among the examples of rows that open."""
        self.rows = [self._row(pair, pair in detailed) for pair in pairs]
        self.n_detailed, self.n_left_out = len(detailed), len(data.ranked) - len(pairs)
        self.has_notes = any(row["notes"] for row in self.rows)

    def _row(self, pair: int, is_detailed: bool) -> dict[str, Any]:
        data, estimate = self._data, self._data.estimate
        at = divmod(pair, len(data.task_names))
        figures = {name: float(getattr(estimate, name)[at]) for name in ("accuracy", "low", "high", "chance")}
        kind, remarks = int(data.verdicts[at]), [data.habits[at], data.notes[at]]
        return {
            "id": f"annotator-{pair}",
            "name": clipped(visible(data.annotations.annotators[at[0]]), LONGEST_NAME),
            "task": clipped(data.task_names[at[1]], LONGEST_NAME),
            "bar": charts.small_interval(kind, **figures),
            "kind": kind,
            "n": int(estimate.annotations[at]),
            "agreement": float(self._agreement[at]),
            "expertise": float(estimate.expertise[at]),
            "notes": "; ".join(filter(None, remarks)),
            "details": self._details(*at, pair) if is_detailed else None,
            **figures,
        }

    def _details(self, annotator: int, task: int, pair: int) -> dict[str, Any]:
        rows = self._annotations[slice(*np.searchsorted(self._pairs, [pair, pair + 1]))]
        return {
            "confusion": self._confusion(annotator, task),
            "peers": self._peer_rows(annotator),
            "examples": self._examples(rows),
        }

    def _confusion(self, annotator: int, task: int) -> list[tuple[str, list[int]]]:
        """Each cleaned label with the counts of the labels given; of many labels the most frequent."""
        names = [clipped(name, 32) for name in self._data.label_names(task)]
        counts = np.zeros((len(names), len(names)), np.int64)
        frame = self._confusions[annotator, task]
        counts[frame["truth"], frame["given"]] = frame["count"]
        if len(names) > LABELS:
            frequent = np.sort(np.argsort(-(counts.sum(axis=0) + counts.sum(axis=1)), kind="stable")[: LABELS - 1])
            rest = np.setdiff1d(np.arange(len(names)), frequent)
            columns = np.vstack([counts[frequent], counts[rest].sum(axis=0)])
            counts = np.column_stack([columns[:, frequent], columns[:, rest].sum(axis=1)])
            names = [names[place] for place in frequent] + [f"{len(rest)} others"]
        return list(zip(names, counts.tolist(), strict=True))

    def _peer_rows(self, annotator: int) -> list[tuple[str, float, int]]:
        """Name, share of items with the same label and items in common of those who agree most and least."""
        if annotator not in self._peers:
            return []
        peers = self._peers[annotator]
        most, least = peers.nlargest(PEERS, "low"), peers.nsmallest(PEERS, "high").iloc[::-1]
        names = self._data.annotations.annotators
        return [
            (clipped(names[row["other"]], LONGEST_NAME), row["share"], row["shared"])
            for row in pd.concat([most, least[~least.index.isin(most.index)]]).to_dict("records")
        ]

    def _examples(self, rows: Any) -> list[tuple[str, str, str, float]]:
        """Text, label given, cleaned label and its confidence, of labels against a confident cleaned one."""
        data, table = self._data, self._data.annotations
        items = table.item[rows]
        against = np.where(table.label[rows] != data.labels[items], data.confidence[items], 0.0)
        first = np.argsort(-against, kind="stable")[:EXAMPLES]
        first = first[against[first] >= UNCLEAR]
        chosen, names = items[first].astype(np.int64), OptionNames(table)
        self.shown_items += chosen.tolist()
        given, cleaned = names(chosen, table.label[rows][first].astype(np.int64)), names(chosen, data.labels[chosen])
        texts = [clipped(table.texts[item].as_py() or "", TEXT) for item in chosen.tolist()]
        return list(zip(texts, given.tolist(), cleaned.tolist(), data.confidence[chosen].tolist(), strict=True))
