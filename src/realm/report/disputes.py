"""What is disputed between whom: how far every two annotators agree, and who confuses what."""

from __future__ import annotations

import numpy as np
import pandas as pd

from realm.report.charts import Cell, matrix
from realm.report.escaping import clipped
from realm.report.html import Figure
from realm.report.run_data import RunData
from realm.report.svg import percent, percent_range

MATRIX = 16
"""Most annotators of a drawn matrix: its figures stay legible."""
PAIRS, CONFUSED = 10, 15
"""Most rows of each list: what a person reads through."""
NAME, LABEL = 48, 40


def peer_pairs(data: RunData) -> tuple[list[list[str]], list[list[str]]]:
    """The pairs who clearly agree least and most: names, share of items with the same label, its interval, items."""
    least = data.peers.nsmallest(PAIRS, "high")
    most = data.peers.nlargest(PAIRS, "low")
    names = data.annotations.annotators

    def rows(pairs: pd.DataFrame) -> list[list[str]]:
        return [
            [
                f"{clipped(names[row['one']], NAME)} and {clipped(names[row['other']], NAME)}",
                percent(row["share"]),
                percent_range(row["low"], row["high"]),
                f"{row['shared']:,}",
            ]
            for row in pairs.to_dict("records")
        ]

    return rows(least), rows(most[~most.index.isin(least.index)])


def peer_matrix(data: RunData) -> Figure | None:
    """How often every two annotators gave the same label; None where there are too many, or none to compare."""
    peers, counts = data.peers, data.annotations.annotations_per_annotator
    present = np.flatnonzero(counts)
    if not len(peers) or not 2 < len(present) <= MATRIX:
        return None
    weighted = np.nansum(data.estimate.accuracy * data.estimate.annotations, axis=1) / np.maximum(counts, 1)
    order = present[np.argsort(-weighted[present], kind="stable")].tolist()
    names = [data.annotations.annotators[annotator] for annotator in order]
    low, high = float(peers["share"].min()), float(peers["share"].max())
    cells: list[list[Cell | None]] = [[None] * len(order) for _ in order]
    for row in peers.to_dict("records"):
        one, other = order.index(row["one"]), order.index(row["other"])
        hint = f"{names[one]} and {names[other]}: {percent(row['share'])} of {row['shared']:,} items"
        cell = Cell(percent(row["share"]), (row["share"] - low) / max(high - low, 1e-9), "above", hint)
        cells[one][other] = cells[other][one] = cell
    title = "How often every two annotators gave the same label"
    description = (
        f"{len(names)} annotators, the most accurate first; two of them agree on {percent(low)} to {percent(high)} of "
        "the items that both labelled."
    )
    note = "of the items that both labelled; the most accurate annotators first"
    return Figure(matrix(title, description, names, names, cells), title, note)


def confusions(data: RunData) -> list[list[str]]:
    """Who takes which label for which beyond chance, with how often, the share, and the share of all others."""
    rows, several = [], data.several_tasks
    for row in data.screens.confused.head(CONFUSED).to_dict("records"):
        labels = data.label_names(row["task"])
        name = data.annotations.annotators[row["annotator"]] + f" · {data.task_names[row['task']]}" * several
        words = [clipped(name, NAME), clipped(labels[row["truth"]], LABEL), clipped(labels[row["given"]], LABEL)]
        rows.append([*words, f"{row['count']:,} of {row['of']:,}", percent(row["share"]), percent(row["others"])])
    return rows
