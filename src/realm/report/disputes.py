"""What is disputed between whom: how far every two annotators agree, which labels meet, who confuses what."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from markupsafe import Markup

from realm.report.charts import Cell, matrix
from realm.report.escaping import clipped
from realm.report.run_data import RunData
from realm.report.svg import percent, percent_range

MATRIX = 16
"""Most annotators of a drawn matrix: its figures stay legible, and on a phone the list says the same."""
PAIRS, CONFUSED = 10, 15
"""Most rows of each list: what a person reads through."""
NAME, LABEL = 48, 40


@dataclass(frozen=True, eq=False)
class Disputes:
    """Who agrees with whom, which labels are disputed, and who takes which label for which."""

    data: RunData

    @property
    def pairs(self) -> int:
        """How many pairs of annotators can be compared."""
        return len(self.data.peers)

    @property
    def share_same(self) -> float:
        """How often two annotators of the same item gave the same label."""
        return float(self.data.peers["same"].sum() / max(self.data.peers["shared"].sum(), 1))

    @cached_property
    def peers(self) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
        """The pairs who clearly agree least and most, each list in the order of what it shows."""
        peers = self.data.peers
        least = peers.sort_values("high", kind="stable").head(PAIRS)
        most = peers.sort_values("low", ascending=False, kind="stable").head(PAIRS).drop(least.index, errors="ignore")
        ordered = least.sort_values("share", kind="stable"), most.sort_values("share", ascending=False, kind="stable")
        return tuple([self._pair(row) for row in rows.to_dict("records")] for rows in ordered)  # type: ignore[return-value]

    def _pair(self, row: dict[Hashable, Any]) -> dict[str, str]:
        names = self.data.annotations.annotators
        return {
            "first": clipped(names[row["one"]], NAME),
            "second": clipped(names[row["other"]], NAME),
            "same": percent(row["share"]),
            "interval": percent_range(row["low"], row["high"]),
            "shared": f"{row['shared']:,}",
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
        lowest, highest = float(peers["share"].min()), float(peers["share"].max())
        cells: list[list[Cell | None]] = [[None] * len(order) for _ in order]
        for first, second, n, share in zip(
            *(peers[name].tolist() for name in ("one", "other", "shared", "share")), strict=True
        ):
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
    def confused(self) -> tuple[list[list[str]], int]:
        """Who takes which label for which beyond chance, and how many more such cases there are.

        Each row: annotator, cleaned label, label given, how often, the share, and the share of all others.
        """
        cases, rows = self.data.screens.confused, []
        for each in cases.head(CONFUSED).to_dict("records"):
            labels, name = self.data.label_names(each["task"]), self.data.pair_name(each["annotator"], each["task"])
            words = [clipped(text, LABEL) for text in (labels[each["truth"]], labels[each["given"]])]
            shares = [percent(each["share"]), percent(each["others"])]
            rows.append([clipped(name, NAME), *words, f"{each['count']:,} of {each['of']:,}", *shares])
        return rows, len(cases) - len(rows)
