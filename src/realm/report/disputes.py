"""What is disputed between whom: how far every two annotators agree, which labels meet, who confuses what."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from markupsafe import Markup

from realm.crowd.peers import disputed_labels
from realm.report.charts import Cell, matrix
from realm.report.escaping import clipped
from realm.report.run_data import RunData
from realm.report.svg import percent, percent_range

MATRIX = 16
"""Most annotators of a drawn matrix: its figures stay legible, and on a phone the list says the same."""
PAIRS, LABEL_PAIRS, CONFUSED = 10, 8, 15
"""Most rows of each list: what a person reads through."""
NAME, LABEL = 48, 40


@dataclass(frozen=True, eq=False)
class Disputes:
    """Who agrees with whom, which labels are disputed, and who takes which label for which."""

    data: RunData

    @property
    def pairs(self) -> int:
        """How many pairs of annotators can be compared."""
        return len(self.data.peers.first)

    @property
    def share_same(self) -> float:
        """How often two annotators of the same item gave the same label."""
        return float(self.data.peers.same.sum() / max(self.data.peers.shared.sum(), 1))

    @cached_property
    def peers(self) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
        """The pairs who clearly agree least and most, each list in the order of what it shows."""
        low, high = self.data.peers.bounds()
        least = np.argsort(high, kind="stable")[:PAIRS].tolist()
        most = [row for row in np.argsort(-low, kind="stable")[:PAIRS].tolist() if row not in least]
        share = self.data.peers.share
        ordered = sorted(least, key=lambda row: share[row]), sorted(most, key=lambda row: -share[row])
        return tuple([self._pair(row) for row in rows] for rows in ordered)  # type: ignore[return-value]

    def _pair(self, row: int) -> dict[str, str]:
        peers, names = self.data.peers, self.data.annotations.annotators
        low, high = (float(bound[row]) for bound in peers.bounds())
        return {
            "first": clipped(names[peers.first[row]], NAME),
            "second": clipped(names[peers.second[row]], NAME),
            "same": percent(float(peers.share[row])),
            "interval": percent_range(low, high),
            "shared": f"{peers.shared[row]:,}",
        }

    def matrix(self) -> Markup | None:
        """How often every two annotators gave the same label; None where there are too many, or none to compare."""
        data, peers, counts = self.data, self.data.peers, self.data.annotations.annotations_per_annotator
        present = np.flatnonzero(counts)
        if not self.pairs or not 2 < len(present) <= MATRIX:
            return None
        weighted = np.nansum(data.estimate.accuracy * data.estimate.annotations, axis=1) / np.maximum(counts, 1)
        order = present[np.argsort(-weighted[present], kind="stable")]
        place = {int(annotator): index for index, annotator in enumerate(order)}
        names = [data.annotations.annotators[annotator] for annotator in order]
        lowest, highest = float(peers.share.min()), float(peers.share.max())
        cells: list[list[Cell | None]] = [[None] * len(order) for _ in order]
        for first, second, n, share in zip(peers.first, peers.second, peers.shared, peers.share, strict=True):
            a, b = place[int(first)], place[int(second)]
            strength, figure = (share - lowest) / max(highest - lowest, 1e-9), percent(share)
            for row, column in ((a, b), (b, a)):
                hint = f"{names[row]} and {names[column]}: {figure} of {n:,} items"
                cells[row][column] = Cell(figure, float(strength), "above", hint)
        description = (
            f"{len(names)} annotators, the most accurate first; two of them agree on {percent(lowest)} to "
            f"{percent(highest)} of the items that both labelled."
        )
        return matrix("How often every two annotators gave the same label", description, names, names, cells)

    @cached_property
    def labels(self) -> tuple[list[dict[str, str]], int]:
        """The labels that were given to the same items, the most frequent first, and how many more there are."""
        data, found = self.data, disputed_labels(self.data.annotations, self.data.labels)
        rows = []
        for row in range(min(len(found.items), LABEL_PAIRS)):
            task, items = int(found.task[row]), int(found.items[row])
            names = data.label_names(task)
            of_task = (data.annotations.item_tasks == task) & (data.annotations.annotations_per_item > 1)
            rows.append(
                {
                    "task": clipped(data.task_names[task], LABEL),
                    "first": clipped(names[found.first[row]], LABEL),
                    "second": clipped(names[found.second[row]], LABEL),
                    "n_items": f"{items:,}",
                    "share": percent(items / max(int(of_task.sum()), 1)),
                    "cleaned_first": percent(found.cleaned_first[row] / items),
                    "cleaned_second": percent(found.cleaned_second[row] / items),
                }
            )
        return rows, len(found.items) - len(rows)

    @cached_property
    def confused(self) -> tuple[list[list[str]], int]:
        """Who takes which label for which beyond chance, and how many more such cases there are.

        Each row: annotator, cleaned label, label given, how often, the share, and the share of all others.
        """
        cases, rows = self.data.screens.confused, []
        for each in cases[:CONFUSED]:
            labels, name = self.data.label_names(each.task), self.data.pair_name(each.annotator, each.task)
            words = [clipped(name, NAME), clipped(labels[each.truth], LABEL), clipped(labels[each.given], LABEL)]
            times = f"{each.times:,} of {each.of:,}"
            rows.append([*words, times, percent(each.share), percent(each.others)])
        return rows, len(cases) - len(rows)
