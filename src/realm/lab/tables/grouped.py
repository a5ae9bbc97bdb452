"""Tables of accuracies: methods side by side, grouped as the paper groups them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from realm.comparison import Summary
from realm.lab.spec_results import SpecResults, fullest, select
from realm.lab.tables.contrasts import between
from realm.lab.tables.layouts import Grouped, head, shown
from realm.lab.tables.published import Published
from realm.lab.tables.table import Column, Entry, Row, Table

DELTA = "Δ"
ORACLE = "oracle"


def grouped_table(of_spec: SpecResults, layout: Grouped, published: Published) -> Table:
    """The table of a spec in the shape of `layout`."""
    if layout.by_task:
        of_spec = replace(of_spec, frame=by_task(of_spec.frame), results=None)
    maker = _Maker(of_spec, layout, published)
    rows: list[Row] = []
    for part in maker.parts():
        made = [maker.row(key) for key in part]
        rows += made
        if layout.average and len(part) > 1:
            rows.append(maker.average(made, part[0]))
    constant = maker.constant()
    title = of_spec.spec.title + (f" ({constant})" if constant else "")
    stub = tuple(head(name) for name in maker.row_fields)
    return Table(title, stub, tuple(column for column, _, _ in maker.columns), tuple(rows))


def by_task(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per cell and task, with the accuracy on that task. Joined benchmarks are tasks by their own name."""
    parts = []
    for row in frame.to_dict("records"):
        for task in str(row["benchmark"]).split("+"):
            parts.append({**row, "task": task, "accuracy": row.get(f"accuracy/{task}", np.nan)})
    return pd.DataFrame(parts)


class _Maker:
    """Rows and entries of one table."""

    def __init__(self, of_spec: SpecResults, layout: Grouped, published: Published) -> None:
        self.of_spec, self.layout, self.published = of_spec, layout, published
        frame = of_spec.frame
        self.frame = frame[frame["method"] != ORACLE]
        self.row_fields = [name for name in layout.rows if len(self._values(name)) > 1] or [layout.rows[-1]]
        self.row_fields = [*self._compared(), *self.row_fields]
        self.columns = self._columns()

    def _compared(self) -> list[str]:
        """Fields that the layout does not name and that entries of it would otherwise average over, like seeds."""
        named = [*self.layout.rows, *([self.layout.columns] if self.layout.columns else []), "method"]
        entries = self.frame.groupby(named, dropna=False)
        return [name for name in self.of_spec.fields if name not in named and (entries[name].nunique() > 1).any()]

    def _values(self, name: str) -> list[Any]:
        """The values of a field, as the spec lists them."""
        return list(dict.fromkeys(self.frame[name].dropna()))

    def constant(self) -> str:
        """What every row has in common, for the title."""
        fields = [name for name in ("model", "noise", "pool", "regime", "steps") if name not in self.row_fields]
        fields = [name for name in fields if name != self.layout.columns]
        said = [(name, self._values(name)) for name in fields]
        return ", ".join(
            f"{shown(values[0])} {name}" if name == "steps" else f"{name} {shown(values[0])}"
            for name, values in said
            if len(values) == 1
        )

    def parts(self) -> list[list[dict[str, Any]]]:
        """The keys of the rows, in parts that an average may follow."""
        there = self.frame.drop_duplicates(self.row_fields)[self.row_fields]
        order = {name: {value: place for place, value in enumerate(self._values(name))} for name in self.row_fields}
        keys = [dict(zip(self.row_fields, values, strict=True)) for values in there.itertuples(index=False)]
        keys = fullest(keys, self.of_spec.unread)
        keys.sort(key=lambda key: tuple(order[name].get(key[name], -1) for name in self.row_fields))
        parts: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for key in keys:
            outer = tuple(value for name, value in key.items() if name != self.layout.average)
            parts.setdefault(outer, []).append(key)
        return list(parts.values())

    def _columns(self) -> list[tuple[Column, dict[str, Any], str]]:
        """Each column with the field it fixes and its method, or `DELTA`."""
        layout, made = self.layout, []
        oracles = self.of_spec.frame[self.of_spec.frame["method"] == ORACLE] if layout.oracle else self.frame[:0]
        by_pool = layout.columns == "pool" and oracles["pool"].notna().any()
        if len(oracles) and not by_pool:
            made.append((Column("", shown(ORACLE)), dict[str, Any](), ORACLE))
        values = [None] if layout.columns is None else sorted_if_numbers(self._values(layout.columns))
        for value in values:
            fixed = {} if layout.columns is None or value is None else {layout.columns: value}
            group = self._group(value)
            there = set(self._of(fixed)["method"])
            if by_pool:
                made.append((Column(group, shown(ORACLE)), fixed, ORACLE))
            methods = [name for name in layout.methods if name in there]
            made += [(Column(group, shown(method)), fixed, method) for method in methods]
            if any(name in there for name in layout.delta):
                made.append((Column(group, DELTA), fixed, DELTA))
        return made

    def _group(self, value: Any) -> str:
        if value is None:
            return ""
        said = (
            {"annotators": f"N={value:g}", "rate": f"rate {value:g}", "steps": f"{value} steps"}
            if not isinstance(value, str)
            else {}
        )
        return said.get(str(self.layout.columns), shown(value))

    def _of(self, fields: Mapping[str, Any]) -> pd.DataFrame:
        return select(self.frame, fields, open_fields=self.of_spec.unread)

    # ---------------------------------------------------------------- rows

    def row(self, key: Mapping[str, Any]) -> Row:
        entries = [self._entry(key, fixed, method) for _, fixed, method in self.columns]
        labels = tuple(shown(key[name]) for name in self.row_fields)
        return Row(labels, tuple(self._marked(entries)))

    def _entry(self, key: Mapping[str, Any], fixed: Mapping[str, Any], method: str) -> Entry | None:
        if method == ORACLE:
            return self._accuracy(self._oracles({**key, **fixed}), ORACLE)
        rows = self._of({**key, **fixed})
        if method == DELTA:
            return self._delta(rows)
        return self._accuracy(rows[rows["method"] == method], method)

    def _oracles(self, key: Mapping[str, Any]) -> pd.DataFrame:
        # Of simulated annotators an oracle knows no pool, so that it stands beside every one.
        named = {name: value for name, value in key.items() if name not in ("noise", "regime", "spread", "annotators")}
        open_fields = ("pool", *self.of_spec.unread)
        return select(self.of_spec.frame, {"method": ORACLE, **named}, open_fields=open_fields)

    def _accuracy(self, rows: pd.DataFrame, method: str) -> Entry | None:
        if not len(rows):
            return None
        key = self._key(rows)
        ours = Summary.of(100 * rows["accuracy"].to_numpy(dtype=np.float64))
        paper = self.published.figure(method, "accuracy", **key)
        return Entry({**key, "method": method, "quantity": "accuracy"}, ours, len(rows), paper, self.layout.digits)

    def _delta(self, rows: pd.DataFrame) -> Entry | None:
        """REALM minus the best of the baselines that apply."""
        means = {name: rows[rows["method"] == name]["accuracy"].mean() for name in self.layout.delta}
        means = {name: mean for name, mean in means.items() if name in set(rows["method"])}
        realm = rows[rows["method"] == "realm"]
        if not means or not len(realm):
            return None
        best = max(means, key=lambda name: -1.0 if np.isnan(means[name]) else float(means[name]))
        found = between(self.of_spec, rows, "realm", best)
        key = self._key(realm)
        ours = None if found is None else Summary(100 * found.delta, np.nan, found.seeds)
        paper = self.published.figure("realm", "delta", **key)
        key = {**key, "method": "realm", "quantity": "delta", "against": best}
        return Entry(key, ours, len(realm), paper, self.layout.digits, signed=True, contrast=found)

    def _key(self, rows: pd.DataFrame) -> dict[str, Any]:
        """The fields in which all of these cells agree."""
        key = {}
        for name in self.of_spec.fields:
            values = rows[name].dropna().unique()
            key[name] = values[0] if len(values) == 1 else None
        if "task" in rows.columns:
            key["benchmark"] = rows["task"].iloc[0]
        return key

    def _marked(self, entries: Sequence[Entry | None]) -> list[Entry | None]:
        """With the best method of each group marked."""
        made = list(entries)
        for group in dict.fromkeys(column.group for column, _, _ in self.columns):
            rivals = {
                place: entry.ours.mean
                for place, (column, _, method) in enumerate(self.columns)
                if column.group == group and method not in (DELTA, ORACLE)
                and (entry := made[place]) is not None and entry.ours is not None
            }  # fmt: skip
            if len(rivals) > 1:
                best = max(rivals, key=lambda place: rivals[place])
                made[best] = replace(made[best], best=True)  # type: ignore[type-var]
        return made

    def average(self, rows: Sequence[Row], key: Mapping[str, Any]) -> Row:
        """The mean of each column, and (as in the paper) of its standard deviations, where every row has it."""
        entries: list[Entry | None] = []
        for place, (_, _, method) in enumerate(self.columns):
            of_column = [entry for row in rows if isinstance(entry := row.entries[place], Entry)]
            known = [entry.ours for entry in of_column if entry.ours is not None]
            if not of_column:
                entries.append(None)
                continue
            ours = _mean_of(known) if len(known) == len(rows) else None
            fields = {**of_column[0].key, "benchmark": "average"}
            named = {name: fields.get(name) for name in self.of_spec.fields}
            quantity = "delta" if method == DELTA else "accuracy"
            paper = self.published.figure("realm" if method == DELTA else method, quantity, **named)
            first = of_column[0]
            seeds = min(entry.seeds for entry in of_column)
            entries.append(Entry(fields, ours, seeds, paper, first.digits, first.signed))
        labels = tuple("Avg" if name == self.layout.average else shown(key[name]) for name in self.row_fields)
        return Row(labels, tuple(self._marked(entries)), average=True)


def _mean_of(every: Sequence[Summary]) -> Summary:
    mean, std = (float(np.mean(values)) for values in zip(*((one.mean, one.std) for one in every), strict=True))
    return Summary(mean, std, min(one.seeds for one in every))


def sorted_if_numbers(values: Sequence[Any]) -> list[Any]:
    return sorted(values) if all(not isinstance(value, str) for value in values) else list(values)
