"""Tables of learned expertise: what was learned of each annotator, and how well it ranks them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from realm.comparison.simulation import implied_expertise, read_pool
from realm_lab.results import SCALAR, SpecResults, Store, display
from realm_lab.tables import Figure, Table, heading, summary

MOST_COLUMNS = 5
"""Annotators with a column each: a wider table does not fit a page. A larger pool is summarised."""
OTHERS = "others"
"""All annotators but the first, where these are all alike."""
KINDS = {"trained": "expertise_trained", "reported": "expertise", "implied": "pool_accuracy"}
"""Rows of a configuration: as trained (sigma(omega) in the paper's setting), as reported, and implied by accuracy."""
RANKS = {"trained": "spearman_trained", "reported": "spearman"}
"""Rank correlations of real annotators; those of simulated ones begin with `pool_`."""


def expertise_table(results: SpecResults) -> Table:
    """Three rows for each benchmark (and what else there are several of), a group of columns per pool or budget."""
    frame = results.frame[results.frame["method"] == "realm"]
    columns = "steps" if results.spec.table == "expertise-steps" else "pool"
    unused = "rho" if columns == "steps" else "accuracy"
    rows = [n for n in results.fields if n != columns and (n == "benchmark" or frame[n].nunique() > 1)]
    finished = frame[frame["finished"]]["id"].tolist()
    expertise = pd.DataFrame(columns=["id", "annotator", *KINDS.values()])
    if results.store is not None and finished:
        expertise = results.store.table("expertise", finished).merge(options_of(results.store, finished), on="id")
    figures: list[Figure] = []
    for values, part in frame.groupby(rows, sort=False, dropna=False):
        for kind in KINDS:
            for group, cells in part.groupby(columns, sort=False):
                fields = {name: cells[name].iloc[0] for name in results.fields}
                where = {**fields, "method": "realm", "row": (*map(display, values), kind)}
                head = f"{group} steps" if columns == "steps" else display(group)
                shown = [f for f in _kind(cells, expertise, kind) if f["column"] != unused]
                figures += [{**where, **f, "column": (head, f["column"], f.get("annotator", ""))} for f in shown]
    notes = [
        "trained: sigma(omega), the paper's quantity; reported: the expertise that REALM reports; implied: the "
        "expertise that an annotator's accuracy amounts to, (a - 1/K) / (1 - 1/K), negative below chance. Columns are "
        "headed by the accuracies asked for, which the paper calls true expertise. rho: Spearman's correlation with "
        "these; in brackets the most that ties allow."
    ]
    return Table(results.spec.title, (*map(heading, rows), "Expertise"), figures, notes)


def options_of(store: Store, ids: Sequence[str]) -> pd.DataFrame:
    """K of each cell, the most options that its test items have among their true labels: id, options."""
    return (store.table("answers", ids).groupby("id")["gold"].max() + 1).rename("options").reset_index()


def _kind(cells: pd.DataFrame, expertise: pd.DataFrame, kind: str) -> list[Figure]:
    """Figures of the row `kind`: accuracy of the model, expertise of each annotator, rank correlation."""

    def figure(name: str, quantity: str, values: Any, **more: Any) -> Figure:
        quantity = quantity if kind == "trained" else f"{quantity} {kind}"  # the paper's is the trained one
        return {"column": name, "quantity": quantity, **summary(values), **more}

    found = [figure("accuracy", "accuracy", 100 * cells["accuracy"], digits=1)] if kind == "trained" else []
    accuracies = read_pool(str(cells["pool"].iloc[0])) if cells["noise"].notna().all() else ()
    names = {f"a{place}": f"{accuracy:.2g}" for place, accuracy in enumerate(accuracies, 1)}
    if len(accuracies) > MOST_COLUMNS:
        alike = len(set(accuracies[1:])) == 1
        names = {"a1": names["a1"], OTHERS: f"{OTHERS}, {names['a2']}"} if alike else {}
    for annotator, name in names.items():
        is_theirs = expertise["annotator"] != "a1" if annotator == OTHERS else expertise["annotator"] == annotator
        theirs = expertise[expertise["id"].isin(cells["id"]) & is_theirs]
        if kind == "implied":
            implied = implied_expertise(theirs["pool_accuracy"], theirs["options"]) if len(theirs) else np.zeros(0)
            text = f"{implied.mean():.2f}" if len(implied) else ""
            found.append({"column": name, "text": text, "annotator": annotator})
        else:
            by_cell = theirs.groupby("id")[KINDS[kind]].mean().reindex(cells["id"])
            found.append(figure(name, "expertise", by_cell, annotator=annotator))
    if kind == "implied":
        most = _column(cells, "pool_spearman_trained_max").max()
        return [*found, {"column": "rho", "text": "" if most != most else f"(max {most:.2f})"}]
    return [*found, figure("rho", "spearman", _column(cells, f"pool_{RANKS[kind]}"))]


def _column(rows: pd.DataFrame, name: str) -> Any:
    """A metric of cells; NaN where a cell does not have it."""
    return rows[name].astype(float) if name in rows else pd.Series(np.nan, rows.index)


def rank_tables(results: SpecResults) -> list[Table]:
    """Rank correlations of expertise with agreement with gold, a row per configuration with real annotators."""
    frame = results.frame
    real = frame[frame["method"].isin(["realm", SCALAR]) & frame["noise"].isna() & frame["finished"]]
    if not len(real) or RANKS["trained"] not in real:
        return []
    varying = [name for name in (*results.fields, "method") if real[name].nunique() > 1] or ["benchmark"]
    figures: list[Figure] = []
    for values, cells in real.groupby(varying, sort=False, dropna=False):
        row = {"row": tuple(map(display, values))}
        figures += [{**row, "column": ("", kind), **summary(_column(cells, name))} for kind, name in RANKS.items()]
        most = _column(cells, "spearman_trained_max").max()
        figures.append({**row, "column": ("", "most that ties allow"), "text": "" if most != most else f"{most:.2f}"})
    notes = ["Spearman's correlation with agreement with gold, over annotators with ten labels of such items or more."]
    return [Table("How learned expertise ranks the annotators", tuple(map(heading, varying)), figures, notes)]
