"""What a row of the table of annotators opens to: confusion against the cleaned labels, peers, examples, time.

Arrays for the page's script, for as many annotators as fit: those at or below chance first, then those with the most
labels. Names are places in the table's list of names, so that pseudonyms hold here too.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from realm.crowd.tables import OptionNames
from realm.report.escaping import clipped, visible
from realm.report.run_data import RunData
from realm.report.wording import UNSURE

BYTES = 600_000
"""The details take no more than this of a page: those of some 400 annotators."""
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


def details(data: RunData, pairs: np.ndarray, limit: int = BYTES) -> tuple[list[dict[str, Any] | None], list[int]]:
    """The details of these pairs (annotator * tasks + task), None where there is no room; and the items they show.

    Whatever pairs there are, those in `RunData.bad_pairs` come first, then those with the most labels.
    """
    counts = data.estimate.annotations.reshape(-1)
    bad = set(data.bad_pairs)
    order = sorted(range(len(pairs)), key=lambda row: (int(pairs[row]) not in bad, -int(counts[pairs[row]])))
    found: list[dict[str, Any] | None] = [None] * len(pairs)
    examples, source = [], _Source(data)
    for row in order:
        entry, items = source.entry(int(pairs[row]))
        limit -= len(json.dumps(entry, ensure_ascii=False).encode()) + 1
        if limit < 0:
            break
        found[row] = entry
        examples += items
    return found, examples


class _Source:
    """The annotations by pair, and what is looked up for each."""

    def __init__(self, data: RunData) -> None:
        self._data, table = data, data.annotations
        self._n_tasks = len(table.tasks)
        pair = table.annotator.astype(np.int64) * self._n_tasks + table.item_tasks[table.item]
        self._rows = np.argsort(pair, kind="stable")
        self._pairs = pair[self._rows]
        self._options = OptionNames(table)
        self._times = {each.annotator * self._n_tasks + each.task: each for each in data.times}
        self._span = _span(table.created_at)

    def entry(self, pair: int) -> tuple[dict[str, Any], list[int]]:
        """Figures of a pair under short names, and the items among them."""
        start, stop = np.searchsorted(self._pairs, [pair, pair + 1])
        rows = self._rows[start:stop]
        examples, items = self._examples(rows)
        entry: dict[str, Any] = {"c": self._confusion(pair), "p": self._peers(pair), "e": examples}
        if habit := self._habit(pair):
            entry["h"] = habit
        if over_time := self._over_time(pair, rows):
            entry["t"] = over_time
        return entry, items

    def _confusion(self, pair: int) -> dict[str, Any]:
        """Cleaned label (row) by label given (column), as counts; of many labels the most frequent."""
        names = [clipped(visible(name), LABEL) for name in self._data.label_names(pair % self._n_tasks)]
        counts = self._data.confusions.matrix(pair)[: len(names), : len(names)]
        if len(names) > LABELS:
            frequent = np.sort(np.argsort(-(counts.sum(axis=0) + counts.sum(axis=1)), kind="stable")[: LABELS - 1])
            rest = np.setdiff1d(np.arange(len(names)), frequent)
            rows = np.vstack([counts[frequent], counts[rest].sum(axis=0)])
            counts = np.column_stack([rows[:, frequent], rows[:, rest].sum(axis=1)])
            names = [names[place] for place in frequent] + [f"{len(rest)} others"]
        return {"l": names, "n": counts.tolist()}

    def _habit(self, pair: int) -> list[list[Any]]:
        """[label, percent] of what is answered when not answering from the item; empty where all labels are read."""
        at = divmod(pair, self._n_tasks)
        names, shares = self._data.label_names(at[1]), self._data.estimate.habits[at]
        if not self._data.estimate.expertise[at] < READS or not np.isfinite(shares[: len(names)]).all():
            return []
        order = np.argsort(-shares[: len(names)], kind="stable")[:ANSWERS].tolist()
        return [[clipped(visible(names[place]), LABEL), round(100 * float(shares[place]))] for place in order]

    def _peers(self, pair: int) -> list[list[int]]:
        """[annotator, items with the same label, items in common] of those who agree most and least."""
        annotator = pair // self._n_tasks
        peers = self._data.peers
        others, rows = peers.of(annotator)
        low, high = (bound[rows] for bound in peers.bounds())
        most = np.argsort(-low, kind="stable")[:PEERS].tolist()
        least = [place for place in np.argsort(high, kind="stable")[:PEERS][::-1].tolist() if place not in most]
        return [[int(others[i]), int(peers.same[rows[i]]), int(peers.shared[rows[i]])] for i in [*most, *least]]

    def _examples(self, rows: np.ndarray) -> tuple[list[list[Any]], list[int]]:
        """[text, label given, cleaned label, confidence in percent] of labels against a sure cleaned one."""
        data, table = self._data, self._data.annotations
        items = table.item[rows]
        sure = np.where(table.label[rows] != data.labels[items], data.confidence[items], 0.0)
        first = [place for place in np.argsort(-sure, kind="stable")[:EXAMPLES].tolist() if sure[place] >= UNSURE]
        chosen = items[first].astype(np.int64)
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
        ], chosen.tolist()

    def _over_time(self, pair: int, rows: np.ndarray) -> dict[str, Any] | None:
        """Labels in each period of the table, and accuracy in stretches with its interval, in percent."""
        each, times = self._times.get(pair), self._data.annotations.created_at
        if each is None or times is None or self._span is None:
            return None
        first, last = self._span
        known = times[rows][np.isfinite(times[rows])]
        place = ((known - first) / (last - first) * PERIODS).astype(np.int64)
        counts = np.bincount(np.clip(place, 0, PERIODS - 1), minlength=PERIODS).tolist()
        stops = np.append(each.times[1:], each.last) if len(each.times) else each.times
        middles = ((each.times + stops) / 2 - first) / (last - first)
        stretches = [
            [round(1000 * float(middle)), *(round(100 * float(value)) for value in values)]
            for middle, *values in zip(middles, each.accuracy, each.low, each.high, strict=True)
        ]
        return {"n": counts, "a": stretches}


def _span(times: np.ndarray | None) -> tuple[float, float] | None:
    """The first and the last time of a table; None where there is none, or one moment only."""
    if times is None or not np.isfinite(times).any():
        return None
    first, last = float(np.nanmin(times)), float(np.nanmax(times))
    return (first, last) if last > first else None
