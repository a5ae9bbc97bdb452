"""The table of a spec: its figures in the words of `paper_figures`, the paper's beside them, and the tests behind.

Figures are one long frame (a row per accuracy, lead, expertise, rank correlation or count), which is joined with the
paper's and laid out by the spec's `table`:

| key | meaning |
|---|---|
| rows, columns | fields whose values make the rows, and the field whose values make groups of columns |
| best | a setting: of its values the one with the highest test accuracy is shown, which favours the method |
| by_task | of jointly trained benchmarks, each alone |
| expertise | what was learned of each annotator, and how well it ranks them |
| counts | how often REALM is ahead of `noisy`, over all configurations, by benchmark and by model |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from realm.comparison.significance import LEVEL, deviation
from realm.comparison.simulation import read_pool
from realm_lab.cells import JOINED
from realm_lab.paper import paper_figures
from realm_lab.results import Contrast, Store, compare_methods, configurations, display, fields_of, load_results
from realm_lab.specs import Spec

FIELDS = ["model", "benchmark", "noise", "pool", "regime", "method", "quantity", "steps", "rate", "annotator"]
"""What a figure is a figure of, as in `paper_figures`."""
SAME_POOL = {"graded:3": "D3", "one-reliable:3": "D1"}
"""Pools that are one and the same, under the names that different tables of the paper give them."""
MOST_COLUMNS = 5
"""Annotators with a column each: a wider table does not fit a page."""
EVEN = "goemotions"
"""Real annotators of even quality, whom the paper leaves out of its counts."""
FORMS = ("md", "latex", "csv")
Figure = dict[str, Any]


def spec_tables(spec: Spec, store: Store | None, form: str = "md") -> str:
    """The table of a spec and the tests behind it, as `md`, `latex` or `csv` (a line per figure). Without results it
    shows what there is to run."""
    frame = _with_best(load_results(spec, store), spec.table.get("best"))
    tests = [
        (values, test)
        for values, part in configurations(frame)
        for method in dict.fromkeys(part["method"])
        if method not in ("realm", "oracle") and (test := compare_methods(store, part, method)) is not None
    ]
    figures = pd.DataFrame(list(_figures(spec, frame, store, tests)), columns=[*FIELDS, "mean", "std", "seeds", "of"])
    figures = _with_paper(figures, spec.paper)
    if form == "csv":
        return str(figures.to_csv(index=False, float_format="%.6g"))
    tables = [_layout(figures, spec.table), *([_test_table(tests)] if tests else [])]
    if form == "latex":
        return "\n".join(table.to_latex(index=False, escape=True) for table in tables)
    remarks = [f"**{spec.title}**", markdown(tables[0]), *map(markdown, tables[1:])]
    if spec.paper:
        remarks.append("In brackets: the paper's figure, and ours minus the paper's.")
    if missing := int(frame.loc[frame["accuracy"].isna(), "method"].size):
        remarks.append(f"{missing} of {len(frame)} trainings are missing.")
    return "\n\n".join([*remarks, *_base_rates(frame)]) + "\n"


def markdown(frame: pd.DataFrame) -> str:
    """A frame in Markdown."""
    lines = [f"| {' | '.join(frame.columns)} |", f"|{'---|' * len(frame.columns)}"]
    rows = ([str(cell).replace("|", "\\|") for cell in row] for row in frame.itertuples(index=False))
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _with_best(frame: pd.DataFrame, setting: str | None) -> pd.DataFrame:
    """Of several values of a setting the one with the highest mean test accuracy, by configuration and method."""
    if setting is None or setting not in frame:
        return frame
    shared = [name for name in [*fields_of(frame), "method"] if name != setting]
    means = frame.groupby([*shared, setting], sort=False, dropna=False)["accuracy"].mean().fillna(-1.0).reset_index()
    best = means.loc[means.groupby(shared, sort=False, dropna=False)["accuracy"].idxmax(), [*shared, setting]]
    return frame.merge(best, on=[*shared, setting]).drop(columns=setting)


# -------------------------------------------------------------------- figures


def _figures(
    spec: Spec, frame: pd.DataFrame, store: Store | None, tests: list[tuple[dict[str, Any], Contrast]]
) -> Iterator[Figure]:
    frame = frame.rename(columns={"expertise_learning_rate": "rate"})
    if spec.table.get("expertise"):
        yield from _expertise(frame[frame["method"] == "realm"], store)
    if spec.table.get("counts"):
        yield from _counts([(values, test) for values, test in tests if test.second == "noisy"])
        if "rows" not in spec.table:
            return
    leads = {}
    for values, test in tests:  # over the best of the others, by its mean
        key = tuple(values.values())
        if key not in leads or test.delta < leads[key][1].delta:
            leads[key] = values, test
    found = [
        _summary({**values, "method": "realm", "quantity": "delta"}, 100 * test.gaps) for values, test in leads.values()
    ]
    for values, part in frame.groupby([*fields_of(frame), "method"], sort=False, dropna=False):
        fields: Figure = dict(zip([*fields_of(frame), "method"], values, strict=True)) | {"quantity": "accuracy"}
        for task in fields["benchmark"].split(JOINED) if spec.table.get("by_task") else [None]:
            column = "accuracy" if task is None else f"accuracy/{task}"
            accuracies = 100 * part[column].astype(float) if column in part else np.full(len(part), np.nan)
            found.append(_summary(fields if task is None else {**fields, "benchmark": task}, accuracies))
    yield from found
    averaged = pd.DataFrame(found)
    if averaged["benchmark"].nunique() > 1:
        shared = [name for name in averaged if name not in ("benchmark", "mean", "std", "seeds", "of")]
        for values, part in averaged.groupby(shared, sort=False, dropna=False):
            fields = dict(zip(shared, values, strict=True)) | {"benchmark": "average"}
            counts = {name: part[name].min() for name in ("seeds", "of")}
            yield {**fields, **counts, "mean": part["mean"].mean(skipna=False), "std": part["std"].mean(skipna=False)}


def _summary(fields: Figure, values: Any) -> Figure:
    """A figure: mean and deviation of the values that are there, how many these are, and of how many."""
    values = np.asarray(values, dtype=np.float64)
    known = values[~np.isnan(values)]
    mean = float(known.mean()) if len(known) else np.nan
    return {**fields, "mean": mean, "std": deviation(known), "seeds": len(known), "of": len(values)}


def _expertise(frame: pd.DataFrame, store: Store | None) -> Iterator[Figure]:
    """Expertise as trained of each annotator of a small pool (of one reliable among many, the others together), and its
    rank correlation with the accuracies."""
    done = frame.loc[frame["accuracy"].notna(), "id"].tolist()
    learned = store.table("expertise", done) if store is not None and done else pd.DataFrame()
    for values, part in frame.groupby(fields_of(frame), sort=False, dropna=False):
        fields = dict(zip(fields_of(frame), values, strict=True)) | {"method": "realm"}
        size, alike = len(read_pool(fields["pool"])), fields["pool"].startswith("one-reliable")
        names = [f"a{place}" for place in range(1, size + 1)] if size <= MOST_COLUMNS else ["a1", "others"] * alike
        for name in names:
            of_cell = pd.Series(np.nan, part["id"])
            if len(learned):
                mine = learned[(learned["annotator"] != "a1") if name == "others" else (learned["annotator"] == name)]
                of_cell = mine.groupby("id")["expertise_trained"].mean().reindex(part["id"])
            yield _summary({**fields, "quantity": "expertise", "annotator": name}, of_cell)
        ranks = part.get("pool_spearman_trained", pd.Series(np.nan, part.index))
        yield _summary({**fields, "quantity": "spearman"}, ranks.astype(float))


def _counts(tests: list[tuple[dict[str, Any], Contrast]]) -> Iterator[Figure]:
    """How often REALM is ahead of `noisy` by mean over seeds, and significantly so, by benchmark, model and in all."""
    groups: list[Figure] = [{"benchmark": "all"}]
    groups += [{name: value} for name in ("benchmark", "model") for value in dict.fromkeys(v[name] for v, _ in tests)]
    for group in groups:
        where = {} if group == {"benchmark": "all"} else group
        of = [test for values, test in tests if where.items() <= values.items() and values["benchmark"] != EVEN]
        sure = [test for test in of if test.significant]
        numbers = {
            "configurations": len(of),
            "wins": sum(test.delta > 0 for test in of),
            "significant-wins": sum(test.delta > 0 for test in sure),
            "significant-losses": sum(test.delta < 0 for test in sure),
            "not-significant": len(of) - len(sure),
            "ahead-on-every-seed": sum(bool((test.gaps * test.delta > 0).all()) for test in sure),
            "average-delta": 100 * float(np.mean([test.delta for test in of])) if of else np.nan,
            "best-delta": 100 * max((test.delta for test in of), default=np.nan),
        }
        for quantity, value in numbers.items():
            yield {**group, "method": "realm", "quantity": quantity, "mean": value, "seeds": 1, "of": 1}


def _with_paper(figures: pd.DataFrame, tables: str | None) -> pd.DataFrame:
    """With the paper's figure beside each, `paper`: the first that agrees in every field that its row has."""
    figures = figures.assign(paper=np.nan)
    if tables is None:
        return figures
    printed = paper_figures(tables).replace({"pool": SAME_POOL})
    known = printed[FIELDS].notna()
    for pattern, rows in printed.groupby([known[name] for name in FIELDS], sort=False):
        names = [name for name, is_known in zip(FIELDS, pattern, strict=True) if is_known]
        keys = rows[names].astype(object).apply(tuple, axis=1)
        means = dict(zip(keys, rows["mean"], strict=True))
        ours = figures[names].astype(object).apply(tuple, axis=1).map(means)
        figures["paper"] = figures["paper"].fillna(ours)
    return figures


# -------------------------------------------------------------------- layout


def _layout(figures: pd.DataFrame, table: Any) -> pd.DataFrame:
    """Rows and groups of columns; fields that the layout does not name and that vary make rows, too."""
    column = {"expertise_learning_rate": "rate"}.get(table.get("columns", ""), table.get("columns"))
    varying = [name for name in FIELDS if name not in ("method", "quantity", "annotator", column)]
    varying = [name for name in varying if figures[name].nunique(dropna=False) > 1]
    first = [name for name in table.get("rows", []) if name in varying]
    rows = [*first, *(name for name in varying if name not in first)] or ["benchmark"]
    methods, groups = list(dict.fromkeys(figures["method"])), list(dict.fromkeys(figures[column])) if column else []
    placed = []
    for figure in figures.to_dict("records"):
        group = figure[column] if column and figure["method"] != "oracle" else None
        is_accuracy = figure["quantity"] == "accuracy"
        name = display(figure["method"] if is_accuracy else figure["annotator"] or figure["quantity"])
        place = (groups.index(group) if group in groups else -1, methods.index(figure["method"]), not is_accuracy)
        head = name if group is None else f"{display(group)} · {name}"
        placed.append((place, head, tuple(display(figure[field]) for field in rows), _text(figure)))
    heads = list(dict.fromkeys(head for _, head, _, _ in sorted(placed, key=lambda each: each[0])))
    texts: dict[tuple[str, ...], dict[str, str]] = {}
    for _, head, row, text in placed:
        texts.setdefault(row, {})[head] = text
    lines = [[*row, *(of.get(head, "") for head in heads)] for row, of in texts.items()]
    return pd.DataFrame(lines, columns=[*map(str.capitalize, map(display, rows)), *heads])


def _text(figure: Figure) -> str:
    """Mean, spread, how many of the seeds there are, the paper's figure."""
    mean, std = figure["mean"], figure["std"]
    text = "missing" if mean != mean else f"{mean:.2f}" + (f" ±{std:.2f}" if std == std else "")
    text += f" ({figure['seeds']} of {figure['of']} seeds)" if 0 < figure["seeds"] < figure["of"] else ""
    if figure["paper"] == figure["paper"]:
        text += f" [{figure['paper']:.2f}" + (f", {mean - figure['paper']:+.2f}]" if mean == mean else "]")
    return text


def _test_table(tests: list[tuple[dict[str, Any], Contrast]]) -> pd.DataFrame:
    """REALM against each other method, with the tests over seeds and over items."""
    varying = [name for name in tests[0][0] if len({values[name] for values, _ in tests}) > 1]
    rows = []
    for values, test in tests:
        row = {display(name).capitalize(): display(values[name]) for name in varying} | {
            "Against": display(test.second)
        }
        row["difference"] = f"{100 * test.delta:+.2f}{'*' if test.significant else ''}"
        row["seeds ahead"] = f"{(test.gaps > 0).sum()} of {len(test.gaps)}"
        row["p over seeds"] = "-" if test.p_seeds is None else f"{test.p_seeds:.3f}"
        items = test.low is not None and test.high is not None and test.p_items is not None
        row["95% over items"] = f"{100 * test.low:+.1f} to {100 * test.high:+.1f}" if items else ""  # type: ignore[operator]
        row["p over items"] = f"{test.p_items:.3f}" if items else "-"
        rows.append(row)
    return pd.DataFrame(rows).rename(columns={"difference": f"difference (*: p < {LEVEL:g} over seeds)"})


def _base_rates(frame: pd.DataFrame) -> list[str]:
    """What an accuracy is to be read beside."""
    if "base_rate" not in frame:  # no cell is finished
        return []
    known = frame.dropna(subset="base_rate").groupby("benchmark", sort=False)["base_rate"].mean()
    rates = (f"{display(name)} {float(rate):.1%}" for name, rate in known.items())
    return [f"Base rate, always giving the most frequent label: {', '.join(rates)}."]
