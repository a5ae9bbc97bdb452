"""The section on annotators: rankings, annotator by task, over time, and the table with what its rows open to."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from realm.crowd.drift import AnnotatorOverTime
from realm.crowd.engine import Floats, Ints
from realm.crowd.tables import OptionNames
from realm.crowd.verdicts import VERDICTS
from realm.display import counted
from realm.report import charts
from realm.report.escaping import clipped, data_block, visible
from realm.report.html import Figure
from realm.report.run_data import UNCLEAR, RunData
from realm.report.summary import LONGEST_NAME, busiest
from realm.report.svg import percent, percent_range

RANKINGS = 4
"""Most tasks whose annotators are ranked: two rows of two charts."""
HEAT_ROWS, HEAT_COLUMNS = 40, 16
"""Most annotators and tasks of a heat map: it stays on one screen and its figures legible."""
TIME_CHARTS, TIME_ROWS = 12, 50
"""Most charts and rows of annotators over time: what a person looks through."""
FIRST_ROWS, ROWS, DETAILED = 50, 2_000, 400
"""Rows before "Show more" (two screens full; the page's script has the same number), rows in the file, and rows that
open: a page stays below 3 MB."""
LABELS = 8
"""Most labels of a small confusion matrix; the rarest are added up."""
PEERS, EXAMPLES = 3, 5
"""Peers at each end, and items, that are listed."""
READS = 0.9
"""Expertise from which on a habit rests on one label in ten or fewer, and is not shown."""
ANSWERS = 3
"""Most answers of a habit."""
TEXT, LABEL = 160, 32
"""Most characters of an example's text, and of a label."""
PERIODS = 12
"""Bars of the chart of labels over time."""


# -------------------------------------------------------------------- pictures


def rankings(data: RunData) -> list[tuple[Figure, Markup]]:
    """The annotators of each task, ranked: a picture, and a narrow one for a telephone."""
    figures, estimate = [], data.estimate
    for task in busiest(data, RANKINGS):
        rows = data.ranked[data.ranked % len(data.task_names) == task] // len(data.task_names)
        pool = charts.Pool(
            task=data.task_names[task] if data.several_tasks else "",
            names=[data.annotations.annotators[row] for row in rows],
            accuracy=estimate.accuracy[rows, task],
            low=estimate.low[rows, task],
            high=estimate.high[rows, task],
            verdict=data.verdicts[rows, task],
            chance=float(np.average(estimate.chance[rows, task], weights=estimate.annotations[rows, task])),
        )
        caption = f"{pool.task}: " * bool(pool.task) + f"{counted(len(rows), 'annotator')}, most accurate first"
        note = "relative values: mostly one label per item" if estimate.relative_tasks[task] else ""
        picture = Figure(charts.ranking(pool, "half" if data.several_tasks else "wide"), caption, note)
        figures.append((picture, charts.ranking(pool, "narrow")))
    return figures


def heat_map(data: RunData) -> Figure | None:
    """Annotator by task: the colour says how far above or below chance, the figure is the accuracy; None with one task.

    The note says which are drawn where there is no room for all.
    """
    if not data.several_tasks:
        return None
    estimate, counts = data.estimate, data.estimate.annotations
    tasks = busiest(data, HEAT_COLUMNS)
    rows = np.argsort(-counts.sum(axis=1), kind="stable")[:HEAT_ROWS]
    weighted = np.nansum(estimate.expertise[rows] * counts[rows], axis=1) / np.maximum(counts[rows].sum(axis=1), 1)
    rows = rows[np.argsort(-weighted, kind="stable")]
    names, titles = [data.annotations.annotators[row] for row in rows], [data.task_names[task] for task in tasks]
    cells = [[_heat_cell(data, int(row), task) for task in tasks] for row in rows]
    filled = sum(cell is not None for line in cells for cell in line)
    description = (
        f"{len(names)} annotators by {len(tasks)} tasks, {filled} cells with annotations. Blue is better than chance, "
        "orange-red worse; on figures in italics there is not enough evidence."
    )
    picture = charts.matrix("Accuracy by annotator and task", description, names, titles, cells, width=(56.0, 130.0))
    note = ""
    if len(rows) < data.annotations.n_annotators or len(tasks) < len(data.task_names):
        note = f"Shown are the {len(rows)} annotators with the most labels, in {len(tasks)} tasks."
    return Figure(picture, "Annotators by task", note)


def _heat_cell(data: RunData, row: int, task: int) -> charts.Cell | None:
    value, kind = float(data.estimate.expertise[row, task]), int(data.verdicts[row, task])
    if not np.isfinite(value):
        return None
    figure = percent(data.estimate.accuracy[row, task])
    hint = f"{data.annotations.annotators[row]}, {data.task_names[task]}: accuracy {figure}, {VERDICTS[kind]}"
    strength = value if value > 0 else -2 * value  # below chance there is less room
    is_unsure = VERDICTS[kind] == "not enough evidence"
    return charts.Cell(figure, strength, "above" if value > 0 else "below", hint, is_unsure)


class OverTime(NamedTuple):
    """A small chart of each annotator who changed, and a row for those with the most labels."""

    changed: int
    judged: int
    charts: list[Figure]
    rows: list[list[str]]
    total: int


def over_time(data: RunData) -> OverTime | None:
    """None where annotations have no times."""
    times = data.screens.times
    if not times:
        return None

    def name_of(each: AnnotatorOverTime) -> str:
        return clipped(f"{each.annotator} · {each.task}" if data.several_tasks else each.annotator, LONGEST_NAME)

    changed = sorted((each for each in times if each.changed), key=lambda each: each.p_value)
    figures = [Figure(charts.drift_chart(each), name_of(each), each.change) for each in changed[:TIME_CHARTS]]
    rows = []
    for each in sorted(times, key=lambda each: -each.labels)[:TIME_ROWS]:
        shares = each.stretches[:, 1]
        first, last = [percent(share) for share in shares[[0, -1]]] if len(shares) > 1 else ["", ""]
        per_hour = f"{each.labels_per_hour:,.0f}" if np.isfinite(each.labels_per_hour) else ""
        lead_time = f"{each.lead_time:,.0f} s" if np.isfinite(each.lead_time) else ""
        days = f"{each.first:%Y-%m-%d}", f"{each.last:%Y-%m-%d}"
        note = each.change if each.changed else ""
        rows.append([name_of(each), f"{each.labels:,}", *days, per_hour, lead_time, first, last, note])
    return OverTime(len(changed), sum(each.before is not None for each in times), figures, rows, len(times))


# -------------------------------------------------------------------- the table


class AnnotatorTable:
    """The table of annotators: its columns of words, its first rows, and all rows for the page's script."""

    def __init__(self, data: RunData) -> None:
        self.data = data
        trends = np.full(data.estimate.annotations.shape, "", dtype=object)
        names, tasks = {name: row for row, name in enumerate(data.annotations.annotators)}, data.task_names
        for each in data.screens.times:
            if each.before is not None:
                change = "fell" if each.fell else "rose"
                trends[names[each.annotator], tasks.index(each.task)] = change if each.changed else "steady"
        columns = {"trend": trends, "habit": data.habits, "notes": data.notes}
        self.words = {name: words for name, words in columns.items() if (words != "").any()}
        """The words (annotators, tasks) of the columns in which there is something to tell."""
        counts, pairs = data.estimate.annotations.reshape(-1), data.ranked
        self.pairs = pairs[np.sort(np.argsort(-counts[pairs], kind="stable")[:ROWS])]
        """The pairs in the file: those with the most labels, the most accurate first."""
        bad = set(data.bad_pairs)
        first = sorted(self.pairs.tolist(), key=lambda pair: (pair not in bad, -int(counts[pair])))[:DETAILED]
        source = Details(data)
        self.details = {pair: source.entry(pair) for pair in first}
        """What rows open to: of those at or below chance, then of those with the most labels."""
        self.shown_items = source.shown_items

    @property
    def remarks(self) -> list[Any]:
        """Habit and notes, which share a column; empty where nobody has any."""
        return [self.words[name] for name in ("habit", "notes") if name in self.words]

    def json(self) -> Markup:
        """All rows as columns; shares are whole hundredths of a percent. Names are places in the list of names."""
        data, estimate = self.data, self.data.estimate
        who, task = at = np.divmod(self.pairs, len(data.task_names))
        entries = [self.details.get(pair) for pair in self.pairs.tolist()]
        peers = [peer[0] for entry in entries if entry for peer in entry["p"]]
        present = np.unique(np.concatenate([who, np.array(peers, dtype=who.dtype)]))
        place = {int(annotator): index for index, annotator in enumerate(present)}
        figures = {name: getattr(estimate, name) for name in ("accuracy", "low", "high", "chance", "expertise")}
        figures["agreement"] = data.agreement
        if data.trained is not None:
            figures["trained"] = data.trained
        block = {
            "names": [clipped(visible(data.annotations.annotators[row]), LONGEST_NAME) for row in present],
            "tasks": [clipped(visible(name), LONGEST_NAME) for name in data.task_names],
            "verdicts": VERDICTS,
            "who": np.searchsorted(present, who).tolist(),
            "task": task.tolist(),
            "verdict": data.verdicts[at].tolist(),
            "n": estimate.annotations[at].tolist(),
            **{name: [visible(text) for text in words[at]] for name, words in self.words.items()},
            **{name: _hundredths(values[at]) for name, values in figures.items()},
            "details": [e and {**e, "p": [[place[peer], *counts] for peer, *counts in e["p"]]} for e in entries],
        }
        return data_block(block)

    def first_rows(self) -> list[dict[str, Any]]:
        """The rows that stand in the page without its script: both ends of the ranking where there are too many."""
        data, pairs = self.data, self.data.ranked.tolist()
        if len(pairs) > FIRST_ROWS:
            pairs = pairs[: FIRST_ROWS // 2] + pairs[-FIRST_ROWS // 2 :]
        rows = []
        for pair in pairs:
            at = divmod(pair, len(data.task_names))
            figures = [float(getattr(data.estimate, name)[at]) for name in ("accuracy", "low", "high", "chance")]
            rows.append(
                {
                    "name": clipped(data.annotations.annotators[at[0]], LONGEST_NAME),
                    "task": clipped(data.task_names[at[1]], LONGEST_NAME),
                    "bar": charts.small_interval(int(data.verdicts[at]), *figures),
                    "accuracy": percent(figures[0]),
                    "interval": percent_range(*figures[1:3]),
                    "kind": int(data.verdicts[at]),
                    "n": f"{data.estimate.annotations[at]:,}",
                    "agreement": percent(data.agreement[at]),
                    "trend": str(self.words["trend"][at]) if "trend" in self.words else None,
                    "notes": "; ".join(str(words[at]) for words in self.remarks if words[at]),
                }
            )
        return rows


def _hundredths(shares: Floats) -> list[int | None]:
    """Shares as whole hundredths of a percent, None for NaN."""
    return [None if np.isnan(share) else round(10_000 * share) for share in shares.tolist()]


# -------------------------------------------------------------------- what a row opens to


class Details:
    """What a row opens to: confusion against the cleaned labels, habit, peers, examples, time.

    `shown_items` are the items among the examples.
    """

    def __init__(self, data: RunData) -> None:
        self._data, table = data, data.annotations
        self._n_tasks = len(table.tasks)
        pair = table.annotator.astype(np.int64) * self._n_tasks + table.item_tasks[table.item]
        self._rows = np.argsort(pair, kind="stable")
        self._pairs = pair[self._rows]
        self._options = OptionNames(table)
        self._times = {(each.annotator, each.task): each for each in data.screens.times}
        self.shown_items: list[int] = []

    def entry(self, pair: int) -> dict[str, Any]:
        """Figures of a pair (annotator * tasks + task) under short names."""
        rows = self._rows[slice(*np.searchsorted(self._pairs, [pair, pair + 1]))]
        entry = {"c": self._confusion(pair), "p": self._peers(pair), "e": self._examples(rows)}
        more = {"h": self._habit(pair), "t": self._over_time(pair, rows)}
        return entry | {name: value for name, value in more.items() if value}

    def _confusion(self, pair: int) -> dict[str, Any]:
        """Cleaned label (row) by label given (column), as counts; of many labels the most frequent."""
        names = [clipped(visible(name), LABEL) for name in self._data.label_names(pair % self._n_tasks)]
        own = self._data.confusions.query("annotator == @pair // @self._n_tasks and task == @pair % @self._n_tasks")
        counts = np.zeros((len(names), len(names)), np.int64)
        counts[own["truth"], own["given"]] = own["count"]
        if len(names) > LABELS:
            frequent = np.sort(np.argsort(-(counts.sum(axis=0) + counts.sum(axis=1)), kind="stable")[: LABELS - 1])
            rest = np.setdiff1d(np.arange(len(names)), frequent)
            rows = np.vstack([counts[frequent], counts[rest].sum(axis=0)])
            counts = np.column_stack([rows[:, frequent], rows[:, rest].sum(axis=1)])
            names = [names[place] for place in frequent] + [f"{len(rest)} others"]
        return {"l": names, "n": counts.tolist()}

    def _habit(self, pair: int) -> list[list[Any]]:
        """[label, percent] of the answers given when not answering from the item, the most frequent first."""
        at = divmod(pair, self._n_tasks)
        names, shares = self._data.label_names(at[1]), self._data.estimate.habits[at]
        shares = shares[: len(names)]
        if not self._data.estimate.expertise[at] < READS or not np.isfinite(shares).all():
            return []
        order = np.argsort(-shares, kind="stable")[:ANSWERS].tolist()
        return [[clipped(visible(names[place]), LABEL), round(100 * float(shares[place]))] for place in order]

    def _peers(self, pair: int) -> list[list[int]]:
        """[annotator, items with the same label, items in common] of those who agree most and least."""
        annotator, peers = pair // self._n_tasks, self._data.peers
        own = peers[(peers["one"] == annotator) | (peers["other"] == annotator)]
        own = own.assign(peer=own["one"] + own["other"] - annotator)
        most = own.sort_values("low", ascending=False, kind="stable").head(PEERS)
        least = own.sort_values("high", kind="stable").head(PEERS)[::-1].drop(most.index, errors="ignore")
        return [[int(v) for v in row] for part in (most, least) for row in part[["peer", "same", "shared"]].to_numpy()]

    def _examples(self, rows: Ints) -> list[list[Any]]:
        """[text, label given, cleaned label, confidence in percent] of labels against a confident cleaned one."""
        data, table = self._data, self._data.annotations
        items = table.item[rows]
        against = np.where(table.label[rows] != data.labels[items], data.confidence[items], 0.0)
        order = np.argsort(-against, kind="stable")[:EXAMPLES]
        first = order[against[order] >= UNCLEAR]
        chosen = items[first].astype(np.int64)
        self.shown_items += chosen.tolist()
        given = self._options(chosen, table.label[rows][first].astype(np.int64))
        cleaned = self._options(chosen, data.labels[chosen])
        return [
            [
                clipped(visible(table.texts[int(item)].as_py() or ""), TEXT),
                clipped(visible(one), LABEL),
                clipped(visible(other), LABEL),
                round(100 * float(data.confidence[item])),
            ]
            for item, one, other in zip(chosen, given, cleaned, strict=True)
        ]

    def _over_time(self, pair: int, rows: Ints) -> dict[str, Any] | None:
        """Labels in each period of the table, and accuracy in stretches with its interval, in percent."""
        key = self._data.annotations.annotators[pair // self._n_tasks], self._data.task_names[pair % self._n_tasks]
        each, times = self._times.get(key), self._data.annotations.created_at
        if each is None or times is None:
            return None
        first, last = float(np.nanmin(times)), float(np.nanmax(times))
        if not last > first:  # one moment only
            return None
        known = times[rows][np.isfinite(times[rows])]
        place = ((known - first) / (last - first) * PERIODS).astype(np.int64)
        counts = np.bincount(np.clip(place, 0, PERIODS - 1), minlength=PERIODS).tolist()
        starts, *figures = each.stretches.T
        stops = np.append(starts[1:], each.last.timestamp()) if len(starts) else starts
        middles = ((starts + stops) / 2 - first) / (last - first)
        stretches = [
            [round(1000 * float(middle)), *(round(100 * float(value)) for value in values)]
            for middle, *values in zip(middles, *figures, strict=True)
        ]
        return {"n": counts, "a": stretches}
