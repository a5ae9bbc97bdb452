"""Tables of accuracies: methods side by side, grouped as the paper groups them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from realm.comparison.significance import Summary
from realm.lab.benchmark_cells import JOINED, oracle_pool
from realm.lab.paper import PaperTable
from realm.lab.spec_results import PAPER_ARM, SCALAR, SpecResults, most_specific, select
from realm.lab.tables.contrasts import compare_methods
from realm.lab.tables.table import Column, Entry, Row, Table, display, heading

DELTA = "Δ"
ORACLE = "oracle"
BASELINES = ("noisy", "majority", "dawid-skene")
RIVALS = (
    PAPER_ARM, "noisy", "majority", "soft-majority", "dawid-skene", "soft-dawid-skene", "mace", "soft-mace",
    "crowd-layer", "trace-confusion", "raykar",
)  # fmt: skip
"""What is trained without gold beside the default."""


@dataclass(frozen=True)
class AccuracyLayout:
    """The shape of a table of accuracies.

    | field | meaning |
    |---|---|
    | rows | fields whose values make the rows; those with one value go to the title |
    | columns | the field whose values make groups of columns |
    | methods | columns of each group |
    | delta | REALM minus the best of these, as a last column of each group |
    | oracle | a column in front for training on gold |
    | average | a row with the mean over this field, after each group of rows |
    | by_task | a row for each task of a joint training |
    | digits | decimals, as many as the paper gives |
    """

    rows: tuple[str, ...]
    columns: str | None = None
    methods: tuple[str, ...] = ("realm", "noisy")
    delta: tuple[str, ...] = ("noisy",)
    oracle: bool = False
    average: str | None = None
    by_task: bool = False
    digits: int = 2


ACCURACY_LAYOUTS = {
    "real": AccuracyLayout(("benchmark", "model"), "regime", ("realm", *BASELINES), BASELINES, oracle=True, digits=1),
    "uniform": AccuracyLayout(("model", "benchmark"), "pool", oracle=True, average="benchmark"),
    "noise-types": AccuracyLayout(("pool", "model", "benchmark"), "noise", oracle=True, average="benchmark"),
    "multitask": AccuracyLayout(("model", "pool"), "noise", delta=(), oracle=True),
    "multitask-tasks": AccuracyLayout(("model", "pool", "task"), "noise", delta=(), by_task=True),
    "matrix": AccuracyLayout(("benchmark", "pool"), None, ("realm", "realm-scalar", "noisy"), oracle=True),
    "annotators": AccuracyLayout(("spread", "benchmark"), "annotators", average="benchmark"),
    "expertise-rate": AccuracyLayout(("benchmark",), "rate", ("realm",), ()),
    "training-length": AccuracyLayout(("steps",), "benchmark", digits=1),
    "aggregation": AccuracyLayout(("benchmark",), None, (*BASELINES, "realm"), BASELINES, digits=1),
    "aggregation-budgets": AccuracyLayout(("benchmark",), "steps", ("realm", "dawid-skene"), (), digits=1),
    "curves": AccuracyLayout(("benchmark",), "noise"),
    "rivals": AccuracyLayout(
        ("model", "benchmark", "noise", "pool", "regime"),
        None,
        ("realm", SCALAR, *RIVALS),
        RIVALS,
        oracle=True,
        digits=1,
    ),
}
"""Tables of accuracies by the name a spec gives as `table`."""


def accuracy_table(spec_results: SpecResults, layout: AccuracyLayout, paper: PaperTable) -> Table:
    """The table of a spec in the shape of `layout`."""
    if layout.by_task:
        spec_results = replace(spec_results, frame=split_by_task(spec_results.frame), results=None)
    builder = _Builder(spec_results, layout, paper)
    rows: list[Row] = []
    for keys in builder.row_groups():
        group = [builder.row(key) for key in keys]
        rows += group
        if layout.average and len(group) > 1:
            rows.append(builder.average(group, keys[0]))
    constant = builder.constant_fields()
    title = spec_results.spec.title + (f" ({constant})" if constant else "")
    stub = tuple(heading(name) for name in builder.row_fields)
    return Table(title, stub, tuple(column for column, _, _ in builder.columns), tuple(rows))


def split_by_task(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per cell and task, with the accuracy on that task. Joined benchmarks are tasks by their own name."""
    rows = [
        {**row, "task": task, "accuracy": row.get(f"accuracy/{task}", np.nan)}
        for row in frame.to_dict("records")
        for task in str(row["benchmark"]).split(JOINED)
    ]
    return pd.DataFrame(rows)


class _Builder:
    """Rows and entries of one table."""

    def __init__(self, spec_results: SpecResults, layout: AccuracyLayout, paper: PaperTable) -> None:
        self.spec_results, self.layout, self.paper = spec_results, layout, paper
        is_oracle = spec_results.frame["method"] == ORACLE
        self.frame, self.oracles = spec_results.frame[~is_oracle], spec_results.frame[is_oracle]
        several = [name for name in layout.rows if len(self._values(name)) > 1]
        self.row_fields = [*self._unnamed_fields(), *(several or [layout.rows[-1]])]
        self.columns = self._columns()

    def _unnamed_fields(self) -> list[str]:
        """Fields that the layout does not name and that its entries would otherwise average over, like seeds."""
        own = [*self.layout.rows, *([self.layout.columns] if self.layout.columns else []), "method"]
        entries = self.frame.groupby(own, dropna=False)
        return [name for name in self.spec_results.fields if name not in own and (entries[name].nunique() > 1).any()]

    def _values(self, name: str) -> list[Any]:
        """The values of a field, as the spec lists them."""
        return list(dict.fromkeys(self.frame[name].dropna()))

    def constant_fields(self) -> str:
        """What every row has in common, for the title."""
        fields = {name: self._values(name) for name in ("model", "noise", "pool", "regime", "steps")}
        return ", ".join(
            f"{display(values[0])} {name}" if name == "steps" else f"{name} {display(values[0])}"
            for name, values in fields.items()
            if len(values) == 1 and name not in self.row_fields and name != self.layout.columns
        )

    def row_groups(self) -> list[list[dict[str, Any]]]:
        """The keys of the rows, in groups that an average may follow."""
        distinct = self.frame.drop_duplicates(self.row_fields)[self.row_fields]
        order = {name: {value: place for place, value in enumerate(self._values(name))} for name in self.row_fields}
        keys = [dict(zip(self.row_fields, values, strict=True)) for values in distinct.itertuples(index=False)]
        keys = most_specific(keys, self.spec_results.unread)
        keys.sort(key=lambda key: tuple(order[name].get(key[name], -1) for name in self.row_fields))
        groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for key in keys:
            outer = tuple(value for name, value in key.items() if name != self.layout.average)
            groups.setdefault(outer, []).append(key)
        return list(groups.values())

    def _columns(self) -> list[tuple[Column, dict[str, Any], str]]:
        """Each column with the field it fixes and its method, or `DELTA`."""
        layout = self.layout
        columns: list[tuple[Column, dict[str, Any], str]] = []
        oracles = self.oracles if layout.oracle else self.oracles[:0]
        oracle_by_pool = layout.columns == "pool" and bool(oracles["pool"].notna().any())
        if len(oracles) and not oracle_by_pool:
            columns.append((Column("", display(ORACLE)), {}, ORACLE))
        for value in [None] if layout.columns is None else _sorted_numbers(self._values(layout.columns)):
            fixed = {} if layout.columns is None or value is None else {layout.columns: value}
            group = self._group_name(value)
            present = set(self._select(fixed)["method"])
            methods = [name for name in layout.methods if name in present]
            methods = [ORACLE, *methods] if oracle_by_pool else methods
            columns += [(Column(group, display(method)), fixed, method) for method in methods]
            if any(name in present for name in layout.delta):
                columns.append((Column(group, DELTA), fixed, DELTA))
        return columns

    def _group_name(self, value: Any) -> str:
        if value is None or isinstance(value, str):
            return display(value)
        names = {"annotators": f"N={value:g}", "rate": f"rate {value:g}", "steps": f"{value} steps"}
        return names.get(str(self.layout.columns), display(value))

    def _select(self, fields: Mapping[str, Any]) -> pd.DataFrame:
        return select(self.frame, fields, open_fields=self.spec_results.unread)

    # ---------------------------------------------------------------- rows

    def row(self, key: Mapping[str, Any]) -> Row:
        entries = [self._entry({**key, **fixed}, method) for _, fixed, method in self.columns]
        return Row(tuple(display(key[name]) for name in self.row_fields), tuple(self._mark_best(entries)))

    def _entry(self, key: Mapping[str, Any], method: str) -> Entry | None:
        if method == ORACLE:
            return self._accuracy(self._select_oracles(key), ORACLE)
        rows = self._select(key)
        return self._delta(rows) if method == DELTA else self._accuracy(rows[rows["method"] == method], method)

    def _select_oracles(self, key: Mapping[str, Any]) -> pd.DataFrame:
        # Of simulated annotators an oracle knows no pool, so that it stands beside every one.
        fields = {name: value for name, value in key.items() if name not in ("noise", "regime", "spread", "annotators")}
        if "pool" in fields:
            fields["pool"] = oracle_pool(fields["pool"])
        return select(self.oracles, fields, open_fields=("pool", *self.spec_results.unread))

    def _accuracy(self, rows: pd.DataFrame, method: str) -> Entry | None:
        if not len(rows):
            return None
        key = self._common_fields(rows)
        summary = Summary.of(100 * rows["accuracy"].to_numpy(dtype=np.float64))
        paper = self.paper.figure(method, "accuracy", **key)
        return Entry({**key, "method": method, "quantity": "accuracy"}, summary, len(rows), paper, self.layout.digits)

    def _delta(self, rows: pd.DataFrame) -> Entry | None:
        """REALM minus the best of the baselines that apply."""
        means = rows.groupby("method")["accuracy"].mean().fillna(-1.0)  # an unfinished method is no baseline
        baselines = [name for name in self.layout.delta if name in means.index]
        realm = rows[rows["method"] == "realm"]
        if not baselines or not len(realm):
            return None
        best = max(baselines, key=lambda name: float(means[name]))
        contrast = compare_methods(self.spec_results, rows, "realm", best)
        key = self._common_fields(realm)
        summary = None if contrast is None else Summary(100 * contrast.delta, np.nan, contrast.seeds)
        paper = self.paper.figure("realm", "delta", **key)
        key |= {"method": "realm", "quantity": "delta", "against": best}
        return Entry(key, summary, len(realm), paper, self.layout.digits, signed=True, contrast=contrast)

    def _common_fields(self, rows: pd.DataFrame) -> dict[str, Any]:
        """The fields in which all of these cells agree; None for the others."""
        key = {}
        for name in self.spec_results.fields:
            values = rows[name].dropna().unique()
            key[name] = values[0] if len(values) == 1 else None
        if "task" in rows.columns:
            key["benchmark"] = rows["task"].iloc[0]
        return key

    def _mark_best(self, entries: list[Entry | None]) -> list[Entry | None]:
        """With the best method of each group marked."""
        for group in dict.fromkeys(column.group for column, _, _ in self.columns):
            means = {
                place: entry.summary.mean
                for place, (column, _, method) in enumerate(self.columns)
                if column.group == group and method not in (DELTA, ORACLE)
                and (entry := entries[place]) is not None and entry.summary is not None
            }  # fmt: skip
            if len(means) > 1:
                best = max(means, key=lambda place: means[place])
                entries[best] = replace(entries[best], best=True)  # type: ignore[type-var]
        return entries

    def average(self, rows: Sequence[Row], key: Mapping[str, Any]) -> Row:
        """The mean of each column, and (as in the paper) of its standard deviations, where every row has it."""
        entries: list[Entry | None] = []
        for place, (_, _, method) in enumerate(self.columns):
            column = [entry for row in rows if isinstance(entry := row.entries[place], Entry)]
            if not column:
                entries.append(None)
                continue
            summaries = [entry.summary for entry in column if entry.summary is not None]
            summary = _mean_of(summaries) if len(summaries) == len(rows) else None
            first = column[0]
            fields = {**first.key, "benchmark": "average"}
            configuration = {name: fields.get(name) for name in self.spec_results.fields}
            quantity, method = ("delta", "realm") if method == DELTA else ("accuracy", method)
            paper = self.paper.figure(method, quantity, **configuration)
            seeds = min(entry.seeds for entry in column)
            entries.append(Entry(fields, summary, seeds, paper, first.digits, first.signed))
        labels = tuple("Avg" if name == self.layout.average else display(key[name]) for name in self.row_fields)
        return Row(labels, tuple(self._mark_best(entries)), average=True)


def _mean_of(summaries: Sequence[Summary]) -> Summary:
    mean, std = (float(np.mean([getattr(one, name) for one in summaries])) for name in ("mean", "std"))
    return Summary(mean, std, min(one.seeds for one in summaries))


def _sorted_numbers(values: list[Any]) -> list[Any]:
    """Numbers in rising order, text as the spec lists it."""
    return values if any(isinstance(value, str) for value in values) else sorted(values)
