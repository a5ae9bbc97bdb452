"""Tables of learned expertise: what was learned of each annotator, and how well it ranks them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from realm.comparison.significance import Summary
from realm.comparison.simulation import implied_expertise, read_pool
from realm.lab.paper import PaperTable
from realm.lab.spec_results import SCALAR, SpecResults
from realm.lab.tables.table import Column, Entry, Row, Table, display, heading, plain_columns

MOST_COLUMNS = 5
"""Annotators with a column each: a wider table does not fit a page. A larger pool is summarised."""
OTHERS = "others"
"""All annotators but the first, where these are all alike."""
KINDS = {
    "trained": "expertise_trained",
    "re-estimated": "expertise",
    "implied": "pool_accuracy",
}
"""The rows of a configuration: sigma(omega), the estimate from the joint likelihood, and what the accuracy implies."""
RANKS = {"trained": "pool_spearman_trained", "re-estimated": "pool_spearman"}
"""Rank correlations of simulated annotators."""
REAL_RANKS = {"trained": "spearman_trained", "re-estimated": "spearman"}
"""Rank correlations of real annotators."""
NEARLY_ONE = 0.999
"""From an expertise above it, 1/K cannot be computed: accuracy and expertise are both about 1."""


@dataclass(frozen=True)
class ExpertiseLayout:
    """A table of expertise: the field whose values make groups of columns, and what stands beside expertise."""

    columns: str = "pool"
    accuracy: bool = False
    ranks: bool = True


EXPERTISE_LAYOUTS = {
    "expertise": ExpertiseLayout(),
    "expertise-start": ExpertiseLayout(accuracy=True),
    "expertise-steps": ExpertiseLayout("steps", accuracy=True, ranks=False),
}
"""Tables of expertise by the name a spec gives as `table`."""


def expertise_table(spec_results: SpecResults, layout: ExpertiseLayout, paper: PaperTable) -> Table:
    """Rows are benchmarks (and what else there are several of, such as models), three for each: see `KINDS`."""
    frame = spec_results.frame[spec_results.frame["method"] == "realm"]
    expertise = expertise_by_annotator(spec_results, frame)
    row_fields = [
        name for name in spec_results.fields
        if name != layout.columns and (name == "benchmark" or frame[name].nunique() > 1)
    ]  # fmt: skip
    columns = _columns(frame, layout)
    rows = []
    for key, cells in frame.groupby(row_fields, sort=False, dropna=False):
        for kind in KINDS:
            entries = [
                _entry(cells[cells[layout.columns] == value], spec_results.fields, expertise, kind, quantity, paper)
                for _, value, quantity in columns
            ]
            rows.append(Row((*(display(value) for value in key), kind), tuple(entries)))
    notes = [
        "trained: sigma(omega), the paper's quantity; re-estimated: from EM on the joint likelihood; implied: the "
        "expertise that an annotator's accuracy amounts to, (a - 1/K) / (1 - 1/K), negative below chance. Columns are "
        "headed by the accuracies asked for, which the paper calls true expertise."
    ]
    if layout.ranks:
        notes.append("rho: Spearman's correlation with the accuracies asked for; in brackets the most that ties allow.")
    stub = (*(heading(name) for name in row_fields), "Expertise")
    return Table(spec_results.spec.title, stub, tuple(column for column, _, _ in columns), tuple(rows), notes)


def expertise_by_annotator(spec_results: SpecResults, frame: pd.DataFrame) -> pd.DataFrame:
    """One row per finished cell, annotator and task; `chance` is 1/K averaged over the annotator's items."""
    ids = frame[frame["finished"]]["id"].tolist()
    if spec_results.results is None or not ids:
        return pd.DataFrame(columns=["id", "annotator", "task", "true_accuracy", "chance", *KINDS.values()])
    expertise = spec_results.results.expertise(ids)
    # Accuracy is beta + (1 - beta) / K, from which K follows.
    beta, accuracy = expertise["expertise"].astype(float), expertise["accuracy"].astype(float)
    chance = ((accuracy - beta) / (1 - beta)).where(beta < NEARLY_ONE)
    return expertise.assign(chance=chance.groupby([expertise["id"], expertise["task"]]).transform("median"))


def _columns(frame: pd.DataFrame, layout: ExpertiseLayout) -> list[tuple[Column, Any, str]]:
    """Each column with the value of the layout's field and its quantity: an annotator, `accuracy` or `rho`."""
    columns: list[tuple[Column, Any, str]] = []
    for value in dict.fromkeys(frame[layout.columns].dropna()):
        pools = frame[frame[layout.columns] == value]["pool"].unique()
        accuracies = read_pool(pools[0]) if len(pools) == 1 and not pools[0].startswith(("contrast", "all")) else ()
        quantities = {"accuracy": "accuracy"} if layout.accuracy else {}
        if len(accuracies) <= MOST_COLUMNS:
            quantities |= {f"a{place}": f"{accuracy:.2g}" for place, accuracy in enumerate(accuracies, 1)}
        elif len(set(accuracies[1:])) == 1:
            quantities |= {"a1": f"{accuracies[0]:.2g}", OTHERS: f"{OTHERS}, {accuracies[1]:.2g}"}
        quantities |= {"rho": "rho"} if layout.ranks else {}
        group = f"{value} steps" if layout.columns == "steps" else display(value)
        columns += [(Column(group, name), value, quantity) for quantity, name in quantities.items()]
    return columns


def _entry(
    rows: pd.DataFrame, fields: Sequence[str], expertise: pd.DataFrame, kind: str, quantity: str, paper: PaperTable
) -> Entry | str | None:
    """An entry of the row `kind`: the expertise of an annotator, the accuracy of the model, or a rank correlation."""
    if not len(rows):
        return None
    key: dict[str, Any] = {name: rows[name].iloc[0] for name in fields}
    if quantity == "accuracy":
        if kind != "trained":
            return None
        summary = Summary.of(100 * rows["accuracy"].to_numpy(dtype=np.float64))
        printed = paper.figure("realm", "accuracy", **key)
        return Entry({**key, "method": "realm", "quantity": "accuracy"}, summary, len(rows), printed, digits=1)
    if quantity == "rho":
        if kind not in RANKS:
            most = _greatest(rows, f"{RANKS['trained']}_max")
            return f"(max {most})" if most else ""
        summary = Summary.of(_column(rows, RANKS[kind]))
        printed = paper.figure("realm", "spearman", **key) if kind == "trained" else None
        return Entry({**key, "method": "realm", "quantity": f"spearman {kind}"}, summary, len(rows), printed)
    is_annotator = expertise["annotator"] != "a1" if quantity == OTHERS else expertise["annotator"] == quantity
    annotator = expertise[expertise["id"].isin(rows["id"]) & is_annotator]
    if kind == "implied":
        implied = implied_expertise(annotator["pool_accuracy"].astype(float), 1 / annotator["chance"].astype(float))
        return "" if not len(implied) else f"{np.nanmean(implied):.2f}"
    summary = Summary.of(annotator.groupby("id")[KINDS[kind]].mean().to_numpy(dtype=np.float64))
    printed = paper.figure("realm", "expertise", annotator=quantity, **key) if kind == "trained" else None
    key |= {"method": "realm", "quantity": f"expertise {kind}", "annotator": quantity}
    return Entry(key, summary, len(rows), printed)


def _column(rows: pd.DataFrame, name: str) -> npt.NDArray[np.float64]:
    """A metric of cells, (cells,); NaN where a cell does not have it."""
    return rows[name].to_numpy(dtype=np.float64) if name in rows.columns else np.full(len(rows), np.nan)


def _greatest(rows: pd.DataFrame, name: str) -> str:
    values = _column(rows, name)
    return "" if np.isnan(values).all() else f"{np.nanmax(values):.2f}"


def rank_table(spec_results: SpecResults) -> Table | None:
    """Rank correlations of expertise with agreement with gold, a row per configuration with real annotators.

    None where the spec has none, or none finished.
    """
    frame = spec_results.frame
    real = frame[frame["method"].isin(["realm", SCALAR]) & frame["noise"].isna() & frame["finished"]]
    if not len(real) or REAL_RANKS["trained"] not in real.columns:
        return None
    varying = [name for name in (*spec_results.fields, "method") if real[name].nunique() > 1] or ["benchmark"]
    rows = []
    for key, cells in real.groupby(varying, sort=False, dropna=False):
        entries: list[Entry | str | None] = [
            Entry({"quantity": name}, Summary.of(_column(cells, name)), len(cells)) for name in REAL_RANKS.values()
        ]
        entries.append(_greatest(cells, f"{REAL_RANKS['trained']}_max"))
        rows.append(Row(tuple(display(value) for value in key), tuple(entries)))
    notes = [
        "Spearman's correlation of expertise with agreement with gold, over annotators with ten annotations of such "
        "items or more; trained: sigma(omega); re-estimated: from EM on the joint likelihood."
    ]
    columns = plain_columns(*REAL_RANKS, "most that ties allow")
    stub = tuple(heading(name) for name in varying)
    return Table("How learned expertise ranks the annotators", stub, columns, tuple(rows), notes)
