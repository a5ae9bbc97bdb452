"""Tables of learned expertise: what was learned of each simulated annotator, and how well it ranks them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from realm.comparison import Summary, implied_expertise
from realm.lab.spec_results import SpecResults
from realm.lab.tables.layouts import head, shown
from realm.lab.tables.published import Published
from realm.lab.tables.table import Column, Entry, Row, Table

MOST = 5
"""A pool of more annotators is shown by its rank correlation alone, and by one against the others where they are."""
OTHERS = "others"
"""All annotators but the first, where these are all alike."""
KINDS = {
    "trained": "expertise_trained",
    "re-estimated": "expertise",
    "implied": "asked_accuracy",
}
"""The rows of a configuration: sigma(omega), the estimate from the joint likelihood, and what the accuracy implies."""
RANKS = {"trained": "asked_spearman_trained", "re-estimated": "asked_spearman"}


@dataclass(frozen=True)
class Expertise:
    """A table of expertise: the field whose values make groups of columns, and whether accuracy is shown beside it."""

    columns: str = "pool"
    accuracy: bool = False
    ranks: bool = True


EXPERTISE = {
    "expertise": Expertise(),
    "expertise-start": Expertise(accuracy=True),
    "expertise-steps": Expertise("steps", accuracy=True, ranks=False),
}
"""Tables of expertise by the name a spec gives as `table`."""


def expertise_table(of_spec: SpecResults, layout: Expertise, published: Published) -> Table:
    """Rows are benchmarks (and what else there are several of, such as models), three for each: see `KINDS`."""
    frame = of_spec.frame[of_spec.frame["method"] == "realm"]
    learned = learned_expertise(of_spec, frame)
    row_fields = [
        name for name in of_spec.fields
        if name != layout.columns and (name == "benchmark" or frame[name].nunique() > 1)
    ]  # fmt: skip
    groups = list(dict.fromkeys(frame[layout.columns].dropna()))
    columns = _columns(frame, groups, layout)
    rows = []
    for key, of_key in frame.groupby(row_fields, sort=False, dropna=False):
        for kind in KINDS:
            entries = [
                _entry(of_key[of_key[layout.columns] == group], of_spec.fields, learned, kind, what, published)
                for _, group, what in columns
            ]
            rows.append(Row((*(shown(value) for value in key), kind), tuple(entries)))
    stub = (*(head(name) for name in row_fields), "Expertise")
    notes = [
        "trained: sigma(omega), the paper's quantity; re-estimated: from EM on the joint likelihood; implied: the "
        "expertise that an annotator's accuracy amounts to, (a - 1/K) / (1 - 1/K), negative below chance. Columns are "
        "headed by the accuracies asked for, which the paper calls true expertise."
    ]
    if layout.ranks:
        notes.append("rho: Spearman's correlation with the accuracies asked for; in brackets the most that ties allow.")
    heads = tuple(column for column, _, _ in columns)
    return Table(of_spec.spec.title, stub, heads, tuple(rows), notes)


def learned_expertise(of_spec: SpecResults, frame: pd.DataFrame) -> pd.DataFrame:
    """One row per finished cell, annotator and task; `chance` is 1/K averaged over the annotator's items."""
    ids = frame[frame["finished"]]["id"].tolist()
    if of_spec.results is None or not ids:
        return pd.DataFrame(columns=["id", "annotator", "task", "true_accuracy", "chance", *KINDS.values()])
    learned = of_spec.results.expertise(ids)
    # Accuracy is beta + (1 - beta) / K, so a pair of both gives K away.
    with np.errstate(divide="ignore", invalid="ignore"):
        beta = learned["expertise"].astype(float)
        chance = (learned["accuracy"].astype(float) - beta) / (1 - beta)
    return learned.assign(
        chance=chance.where(beta < 0.999).groupby([learned["id"], learned["task"]]).transform("median")
    )


def _columns(frame: pd.DataFrame, groups: list[Any], layout: Expertise) -> list[tuple[Column, Any, str]]:
    from realm.comparison import read_pool

    made: list[tuple[Column, Any, str]] = []
    for group in groups:
        pools = frame[frame[layout.columns] == group]["pool"].unique()
        accuracies = read_pool(pools[0]) if len(pools) == 1 and not pools[0].startswith(("contrast", "all")) else ()
        name = f"{group} steps" if layout.columns == "steps" else shown(group)
        if layout.accuracy:
            made.append((Column(name, "accuracy"), group, "accuracy"))
        if len(accuracies) <= MOST:
            made += [(Column(name, f"{value:.2g}"), group, f"a{place + 1}") for place, value in enumerate(accuracies)]
        elif len(set(accuracies[1:])) == 1:
            heads = (f"{accuracies[0]:.2g}", f"{OTHERS}, {accuracies[1]:.2g}")
            made += [(Column(name, said), group, what) for said, what in zip(heads, ("a1", OTHERS), strict=True)]
        if layout.ranks:
            made.append((Column(name, "rho"), group, "rho"))
    return made


def _entry(
    rows: pd.DataFrame, names: Sequence[str], learned: pd.DataFrame, kind: str, what: str, published: Published
) -> Entry | str | None:
    if not len(rows):
        return None
    fields: dict[str, Any] = {name: rows[name].iloc[0] for name in names}
    if what == "accuracy":
        return _accuracy(rows, fields, published) if kind == "trained" else None
    if what == "rho":
        return _rank(rows, fields, kind, published)
    named = learned["annotator"] != "a1" if what == OTHERS else learned["annotator"] == what
    of_annotator = learned[learned["id"].isin(rows["id"]) & named]
    if kind == "implied":
        values = implied_expertise(
            of_annotator["asked_accuracy"].astype(float), 1 / of_annotator["chance"].astype(float)
        )
        return "" if not len(values) else f"{np.nanmean(values):.2f}"
    ours = Summary.of(of_annotator.groupby("id")[KINDS[kind]].mean().to_numpy(dtype=np.float64))
    paper = published.figure("realm", "expertise", annotator=what, **fields) if kind == "trained" else None
    return Entry(
        {**fields, "method": "realm", "quantity": f"expertise {kind}", "annotator": what}, ours, len(rows), paper
    )


def _accuracy(rows: pd.DataFrame, fields: Mapping[str, Any], published: Published) -> Entry:
    ours = Summary.of(100 * rows["accuracy"].to_numpy(dtype=np.float64))
    paper = published.figure("realm", "accuracy", **fields)
    return Entry({**fields, "method": "realm", "quantity": "accuracy"}, ours, len(rows), paper, digits=1)


def _rank(rows: pd.DataFrame, fields: Mapping[str, Any], kind: str, published: Published) -> Entry | str | None:
    if kind not in RANKS:
        most = rows.get(f"{RANKS['trained']}_max", pd.Series(dtype=float)).astype(float).max()
        return "" if np.isnan(most) else f"(max {most:.2f})"
    ours = Summary.of(rows.get(RANKS[kind], pd.Series(dtype=float)).to_numpy(dtype=np.float64))
    paper = published.figure("realm", "spearman", **fields) if kind == "trained" else None
    return Entry({**fields, "method": "realm", "quantity": f"spearman {kind}"}, ours, len(rows), paper)
