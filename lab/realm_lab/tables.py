"""The figures that the paper prints, those of a spec in the same words, and the table of both.

`paper_figures.csv` has every figure of the paper, transcribed once:

| column | meaning |
|---|---|
| table | the label of the table in the paper's source; for figures in running text, of the section, or `abstract` |
| model | `small`, `base` or `large` of Flan-T5 |
| benchmark | as `load_benchmark` knows it; several trained jointly are joined by `+`; `average`, `all`: over all |
| noise, pool, regime, method | as in a spec; empty where they do not apply (an oracle knows neither noise nor pool) |
| quantity | `accuracy` (percent), `delta` (points), `expertise` (sigma of omega), `spearman`, or a count by its name |
| steps, rate | training steps; learning rate of omega where the table is about it |
| annotator | `a1`, `a2`, ... in the order of the pool |
| mean, std | as printed; std is that of the population of seeds |

Where the paper does not name a field, it was filled in: the model, noise and budget of the tables of expertise and
aggregation are those of the experiments beside them (base, uniform, 200 steps).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from realm import RealmError
from realm.comparison.significance import deviation
from realm.comparison.simulation import read_pool
from realm_lab.cells import JOINED
from realm_lab.results import Contrast, Store, compare_methods, configurations, display, fields_of, load_results
from realm_lab.specs import Spec

FIELDS = ["model", "benchmark", "noise", "pool", "regime", "steps", "rate", "method", "quantity", "annotator"]
SAME_POOL = {"graded:3": "D3", "one-reliable:3": "D1"}
"""Pools that are one and the same, under the names that different tables of the paper give them."""
MOST_COLUMNS = 5
"""Annotators with a column each: a wider table does not fit a page."""
EVEN = "goemotions"
"""Real annotators of even quality, whom the paper leaves out of its counts."""
Figure = dict[str, Any]


def paper_figures(tables: str | None = None) -> pd.DataFrame:
    """The figures of a table, of several separated by commas, or all of them: a row per figure, with the columns above.

    Examples:
        >>> figures = paper_figures("tab:results_multi")
        >>> figures[figures["method"] == "oracle"]["mean"].tolist()
        [28.57, 46.05, 64.76]
    """
    file = Path(__file__).with_name("paper_figures.csv")
    figures = pd.read_csv(file, dtype={"annotator": "object", "rate": "float64", "steps": "Int64"})
    if tables is None:
        return figures
    names = [name.strip() for name in tables.split(",")]
    if unknown := [name for name in names if name not in set(figures["table"])]:
        raise RealmError(f"The paper has no table '{unknown[0]}'. There are: {', '.join(figures['table'].unique())}.")
    return figures[figures["table"].isin(names)].reset_index(drop=True)


def spec_tables(spec: Spec, store: Store | None, form: str = "md") -> str:
    """The table of a spec, as `md`, `latex` or `csv` (a line per figure). Without results all are missing.

    A row for each configuration, a column for each method, and REALM's lead over the best of the others, with its 95%
    interval over test items and a star where it is significant over seeds and over items.
    """
    frame = load_results(spec, store)
    figures = pd.DataFrame(list(_figures(spec, _with_best(frame, spec.best), store)))
    figures = _with_paper(figures.reindex(columns=[*FIELDS, "mean", "std", "seeds", "of", "test"]), spec.paper)
    if form == "csv":
        return str(figures.drop(columns="test").to_csv(index=False, float_format="%.6g"))
    rows = [name for name in FIELDS[:7] if figures[name].nunique(dropna=False) > 1] or ["benchmark"]
    names = figures["annotator"].fillna(figures["quantity"].where(figures["quantity"] != "accuracy", figures["method"]))
    records: Any = figures.to_dict("records")
    texts = [_text(figure) for figure in records]
    keys = figures[rows].astype(object).where(figures[rows].notna(), None).map(display)
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for row, head, text in zip(keys.itertuples(index=False, name=None), names.map(display), texts, strict=True):
        lines.setdefault(row, {}).setdefault(head, text)
    heads = list(dict.fromkeys(names.map(display)))
    cells = [[*row, *(line.get(head, "") for head in heads)] for row, line in lines.items()]
    table = pd.DataFrame(cells, columns=[*rows, *heads])
    if form == "latex":
        return str(table.to_latex(index=False, escape=True, caption=spec.title))
    remarks = [f"{int(frame['accuracy'].isna().sum())} of {len(frame)} trainings are missing."]
    if "base_rate" in frame:
        rates = frame.dropna(subset="base_rate").groupby("benchmark", sort=False)["base_rate"].mean()
        shown = ", ".join(f"{display(name)} {float(rate):.1%}" for name, rate in rates.items())
        remarks.append(f"Base rate, always giving the most frequent label: {shown}.")
    if spec.paper is not None:
        remarks.append("In brackets: the paper's figure, and ours minus the paper's.")
    return "\n\n".join([f"**{spec.title}**", markdown(table), *remarks]) + "\n"


def markdown(frame: pd.DataFrame) -> str:
    """A frame in Markdown."""
    lines = [f"| {' | '.join(frame.columns)} |", f"|{'---|' * len(frame.columns)}"]
    rows = ([str(cell).replace("|", "\\|") for cell in row] for row in frame.itertuples(index=False))
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _text(figure: Figure) -> str:
    """Mean and spread, or a lead with its interval; how many of the seeds there are; the paper's figure."""
    mean, std, paper, test = figure["mean"], figure["std"], figure["paper"], figure["test"]
    if isinstance(test, Contrast):
        text = str(test)
    else:
        text = "missing" if mean != mean else f"{mean:.2f}" + (f" ±{std:.2f}" if std == std else "")
        text += f" ({figure['seeds']:g} of {figure['of']:g} seeds)" if 0 < figure["seeds"] < figure["of"] else ""
    return text if paper != paper else f"{text} [{paper:.2f}" + (f", {mean - paper:+.2f}]" if mean == mean else "]")


def _with_best(frame: pd.DataFrame, setting: str | None) -> pd.DataFrame:
    """Of several values of a setting the one with the highest mean test accuracy, by configuration and method."""
    if setting is None or setting not in frame:
        return frame
    shared = [name for name in [*fields_of(frame), "method"] if name != setting]
    means = frame.groupby([*shared, setting], dropna=False)["accuracy"].transform("mean").fillna(-1.0)
    is_best = means == means.groupby([frame[name] for name in shared], dropna=False).transform("max")
    best = frame[setting].where(is_best).groupby([frame[name] for name in shared], dropna=False).transform("first")
    return frame[best.isna() | (frame[setting] == best)].drop(columns=setting)


def _figures(spec: Spec, frame: pd.DataFrame, store: Store | None) -> Iterator[Figure]:
    """The figures of a spec: what it is about, then accuracies, leads and their averages over benchmarks."""
    frame = frame.rename(columns={"expertise_learning_rate": "rate"})
    names, found, tests = [*fields_of(frame), "method"], list[Figure](), list[tuple[Figure, Contrast]]()
    for values, part in frame.groupby(names, sort=False, dropna=False):
        fields: Figure = dict(zip(names, values, strict=True)) | {"quantity": "accuracy"}
        for task in fields["benchmark"].split(JOINED) if "tasks" in spec.shows else [None]:
            column = "accuracy" if task is None else f"accuracy/{task}"
            accuracies = 100 * part[column].astype(float) if column in part else np.full(len(part), np.nan)
            found.append(_summary({**fields, **({} if task is None else {"benchmark": task})}, accuracies))
    for where, part in configurations(frame):
        others = part[~part["method"].isin(["realm", "oracle"])].groupby("method")["accuracy"].mean().dropna()
        test = compare_methods(store, part, str(others.idxmax())) if len(others) else None
        lead = {**where, "method": "realm", "quantity": "delta"}
        if test is not None:
            tests.append((where, test))
            found.append({**_summary(lead, 100 * test.gaps), "test": test})
        elif part["method"].nunique() > 1:
            found.append(_summary(lead, [np.nan]))
    if "expertise" in spec.shows:
        yield from _expertise(frame[frame["method"] == "realm"], store)
    if "counts" in spec.shows:
        yield from _counts(tests)
    yield from found
    averaged = pd.DataFrame(found)
    shared = [str(name) for name in averaged if name not in ("benchmark", "mean", "std", "seeds", "of", "test")]
    for values, part in averaged.groupby(shared, sort=False, dropna=False) if len(tests) != 1 else ():
        if len(part) > 1:
            fields = dict(zip(shared, values, strict=True)) | {"benchmark": "average"}
            means = {name: part[name].mean(skipna=False) for name in ("mean", "std")}
            yield {**fields, **means, "seeds": part["seeds"].min(), "of": part["of"].min()}


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
    learned = store.table("expertise", done) if store is not None else pd.DataFrame()
    learned = learned.reindex(columns=["id", "annotator", "expertise_trained"])
    for values, part in frame.groupby(fields_of(frame), sort=False, dropna=False):
        fields: Figure = dict(zip(fields_of(frame), values, strict=True)) | {"method": "realm"}
        size, alike = len(read_pool(fields["pool"])), fields["pool"].startswith("one-reliable")
        names = [f"a{place}" for place in range(1, size + 1)] if size <= MOST_COLUMNS else ["a1", "others"] * alike
        for name in names:
            mine = learned[(learned["annotator"] != "a1") if name == "others" else (learned["annotator"] == name)]
            of_cell = mine.groupby("id")["expertise_trained"].mean().reindex(part["id"])
            yield _summary({**fields, "quantity": "expertise", "annotator": name}, of_cell)
        ranks = part.reindex(columns=["pool_spearman_trained"]).iloc[:, 0]
        yield _summary({**fields, "quantity": "spearman"}, ranks.astype(float))


def _counts(tests: list[tuple[Figure, Contrast]]) -> Iterator[Figure]:
    """How often REALM is ahead of the best other method by mean over seeds, and significantly so: by benchmark, by
    model and in all."""
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
        }
        for quantity, value in numbers.items():
            yield {**group, "method": "realm", "quantity": quantity, "mean": value, "std": np.nan, "seeds": 1, "of": 1}


def _with_paper(figures: pd.DataFrame, tables: str | None) -> pd.DataFrame:
    """With the paper's figure beside each, `paper`: one that agrees in every field that its row has."""
    figures = figures.assign(paper=np.nan)
    printed = paper_figures(tables).replace({"pool": SAME_POOL}) if tables is not None else figures[:0]
    for pattern, rows in printed.groupby([printed[name].notna() for name in FIELDS], sort=False):
        names = [name for name, is_known in zip(FIELDS, pattern, strict=True) if is_known]
        means = dict(zip(rows[names].astype(object).apply(tuple, axis=1), rows["mean"], strict=True))
        ours = figures[names].astype(object).apply(tuple, axis=1).map(means)
        of_all = not {"benchmark", "model"} & set(names)  # a count over everything
        figures["paper"] = figures["paper"].fillna(ours.where(figures["benchmark"] == "all") if of_all else ours)
    return figures
