"""How learned expertise ranks real annotators: Spearman's correlation with how often they agree with gold."""

from __future__ import annotations

import numpy as np
import pandas as pd

from realm.comparison import Summary
from realm.lab.spec_results import SCALAR, SpecResults
from realm.lab.tables.layouts import head, shown
from realm.lab.tables.table import Column, Entry, Row, Table

FIGURES = {"trained": "spearman_trained", "re-estimated": "spearman"}


def rank_table(of_spec: SpecResults) -> Table | None:
    """A row per configuration with the benchmark's own annotators; None where the spec has none, or none finished."""
    frame = of_spec.frame
    own = frame[frame["method"].isin(["realm", SCALAR]) & frame["noise"].isna() & frame["finished"]]
    if not len(own) or FIGURES["trained"] not in own.columns:
        return None
    varying = [name for name in (*of_spec.fields, "method") if own[name].nunique() > 1] or ["benchmark"]
    rows = [
        Row(tuple(shown(value) for value in key), _entries(part))
        for key, part in own.groupby(varying, sort=False, dropna=False)
    ]
    columns = (Column("", "trained"), Column("", "re-estimated"), Column("", "most that ties allow"))
    notes = [
        "Spearman's correlation of expertise with agreement with gold, over annotators with ten annotations of such "
        "items or more; trained: sigma(omega); re-estimated: from EM on the joint likelihood."
    ]
    stub = tuple(head(name) for name in varying)
    return Table("How learned expertise ranks the annotators", stub, columns, tuple(rows), notes)


def _entries(part: pd.DataFrame) -> tuple[Entry | str | None, ...]:
    made: list[Entry | str | None] = [
        Entry({"quantity": name}, Summary.of(part[name].to_numpy(dtype=np.float64)), len(part))
        for name in FIGURES.values()
        if name in part.columns
    ]
    most = part[f"{FIGURES['trained']}_max"].astype(float).max()
    return (*made, "" if np.isnan(most) else f"{most:.2f}")
