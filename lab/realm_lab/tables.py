"""What a table is, as Markdown, LaTeX and CSV; tables of accuracies, methods side by side as the paper groups them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from realm.comparison.significance import LEVEL, deviation
from realm_lab.cells import JOINED
from realm_lab.results import (
    ORACLE,
    PAPER_ARM,
    SCALAR,
    SpecResults,
    compare_methods,
    display,
)

DELTA = "Δ"
BASELINES = ("noisy", "majority", "dawid-skene")
RIVALS = (
    PAPER_ARM, "noisy", "majority", "soft-majority", "dawid-skene", "soft-dawid-skene", "mace", "soft-mace",
    "crowd-layer", "trace-confusion", "raykar",
)  # fmt: skip
"""What is trained without gold beside the default."""
Figure = dict[str, Any]
"""A figure of a table: its mean, std, seeds and `of_seeds` (or its `text`), what it is a figure of (`CONFIGURATION`,
method, quantity, annotator), the paper's, of a lead its `test`; and where it stands: `row` and `column`."""


@dataclass(frozen=True)
class Layout:
    """The shape of a table of accuracies.

    | field | meaning |
    |---|---|
    | rows | fields whose values make the rows; of those with one value only the last |
    | columns | the field whose values make groups of columns |
    | methods, others | columns of each group; whether methods that are not named have one, too |
    | delta | REALM's lead over the best of these, as a last column of each group |
    | oracle | a column for training on gold |
    | average | a row with the mean over benchmarks |
    | digits | decimals, as many as the paper gives |
    """

    rows: tuple[str, ...]
    columns: str | None = None
    methods: tuple[str, ...] = ("realm", "noisy")
    others: bool = False
    delta: tuple[str, ...] = ("noisy",)
    oracle: bool = False
    average: bool = False
    digits: int = 2


LAYOUTS = {
    "real": Layout(("benchmark", "model"), "regime", ("realm", *BASELINES), delta=BASELINES, oracle=True, digits=1),
    "uniform": Layout(("model", "benchmark"), "pool", oracle=True, average=True),
    "noise-types": Layout(("pool", "model", "benchmark"), "noise", oracle=True, average=True),
    "multitask": Layout(("model", "pool"), "noise", delta=(), oracle=True),
    "multitask-tasks": Layout(("model", "pool", "benchmark"), "noise", delta=()),
    "matrix": Layout(("benchmark", "pool"), None, ("realm", SCALAR, "noisy"), oracle=True),
    "annotators": Layout(("spread", "benchmark"), "annotators", average=True),
    "expertise-rate": Layout(("benchmark",), "rate", ("realm",), delta=()),
    "training-length": Layout(("steps",), "benchmark", digits=1),
    "aggregation": Layout(("benchmark",), None, (*BASELINES, "realm"), delta=BASELINES, digits=1),
    "aggregation-budgets": Layout(("benchmark",), "steps", ("realm", "dawid-skene"), delta=(), digits=1),
    "curves": Layout(("benchmark",), "noise"),
    "rivals": Layout(("model", "benchmark", "noise", "pool", "regime"), None, ("realm", SCALAR, *RIVALS), others=True,
                     delta=RIVALS, oracle=True, digits=1),
}  # fmt: skip
"""Tables of accuracies by the name a spec gives as `table`."""


@dataclass
class Table:
    """Figures under a title. `stub` heads the labels of the rows; `notes` stand below."""

    title: str
    stub: tuple[str, ...]
    figures: list[Figure]
    notes: list[str] = field(default_factory=list)

    def frame(self) -> pd.DataFrame:
        """The figures as text, in rows and columns in the order in which they first occur."""
        columns = list(dict.fromkeys(figure["column"] for figure in self.figures))
        rows: dict[tuple[str, ...], dict[Any, str]] = {}
        for figure in self.figures:
            rows.setdefault(figure["row"], {})[figure["column"]] = text_of(figure)
        heads = [*self.stub, *(" · ".join(filter(None, column[:2])) for column in columns)]
        return pd.DataFrame(
            [[*row, *(of.get(each, "") for each in columns)] for row, of in rows.items()], columns=heads
        )

    def markdown(self) -> str:
        notes = list(self.notes)
        if any("paper_mean" in figure for figure in self.figures):
            notes.append("In brackets: the paper's figure, and ours minus the paper's.")
        if any("test" in figure and figure["test"].significant for figure in self.figures):
            notes.append(f"\\*: p < {LEVEL:g}, paired t-test over seeds.")
        return "\n\n".join([f"**{self.title}**", markdown(self.frame()), *notes]) + "\n"

    def latex(self) -> str:
        frame = self.frame().map(lambda text: text.replace("**", ""))
        latex = frame.to_latex(index=False, escape=True, caption=self.title.replace("%", r"\%"), position="t")
        return str(latex).replace("±", r"$\pm$").replace(DELTA, r"$\Delta$").replace("·", r"$\cdot$")

    def csv(self) -> str:
        """A line per figure: what it is, ours, the paper's, and of leads their tests."""
        hidden = ("row", "column", "digits", "signed", "best", "text", "test")
        tests = ("p_seeds", "ahead", "behind", "low", "high", "p_items")
        rows = [
            {name: value for name, value in figure.items() if name not in hidden}
            | {name: getattr(figure["test"], name) for name in tests if "test" in figure}
            for figure in self.figures
            if "quantity" in figure
        ]
        return str(pd.DataFrame(rows).to_csv(index=False, float_format="%.6g"))


def markdown(frame: pd.DataFrame) -> str:
    """A frame in Markdown."""
    lines = [f"| {' | '.join(frame.columns)} |", f"|{'---|' * len(frame.columns)}"]
    rows = ([str(cell).replace("|", "\\|") for cell in row] for row in frame.itertuples(index=False))
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def text_of(figure: Figure) -> str:
    """Mean, spread, a star where a lead is significant, how many of the seeds there are, the paper's figure."""
    if "text" in figure:
        return str(figure["text"])
    sign, digits = "+" if figure.get("signed") else "", figure.get("digits", 2)
    text, mean, std = "missing", figure["mean"], figure.get("std", np.nan)
    if mean == mean:
        text = f"{mean:{sign}.{digits}f}" + (f" ±{std:.{digits}f}" if std == std else "")
        text += "*" if "test" in figure and figure["test"].significant else ""
        text += f" ({figure['seeds']} of {figure['of_seeds']} seeds)" if figure["seeds"] < figure["of_seeds"] else ""
    text = f"**{text}**" if figure.get("best") else text
    if "paper_mean" in figure:
        difference = f", {mean - figure['paper_mean']:+.{digits}f}" if mean == mean else ""
        text += f" [{figure['paper_mean']:{sign}.{digits}f}{difference}]"
    return text


def summary(values: Any) -> Figure:
    """Mean, std, seeds of the values that are not NaN, and how many values there are."""
    values = np.asarray(values, dtype=np.float64)
    finite = values[~np.isnan(values)]
    mean = float(finite.mean()) if len(finite) else np.nan
    return {"mean": mean, "std": deviation(finite), "seeds": len(finite), "of_seeds": len(values)}


def heading(name: str) -> str:
    return display(name).capitalize().replace("_", " ")


# -------------------------------------------------------------------- accuracies


def accuracy_table(results: SpecResults, layout: Layout) -> Table:
    """The table of a spec in the shape of `layout`."""
    found = accuracy_figures(results, layout)
    realm = [figure for figure in found if figure["method"] != ORACLE]
    names = (*results.fields, "spread", "annotators")
    values = {name: list(dict.fromkeys(figure[name] for figure in realm)) for name in names}
    rows = [*_unnamed(realm, layout, names), *([n for n in layout.rows if len(values[n]) > 1] or [layout.rows[-1]])]
    if layout.average and len(values["benchmark"]) > 1:
        found += averages(found)
        values["benchmark"].append("average")
    groups = values[layout.columns] if layout.columns else []
    groups = sorted(groups) if all(isinstance(value, (int, float)) for value in groups) else groups
    shown = (*layout.methods, *(f["method"] for f in realm if layout.others))
    methods = list(dict.fromkeys((*((ORACLE,) if layout.oracle else ()), *shown)))
    in_front = layout.columns != "pool" or any(figure["noise"] for figure in realm)
    place: dict[tuple[int, ...], Figure] = {}
    for figure in found:
        if (method := figure["method"]) not in methods:
            continue
        is_delta = figure["quantity"] == "delta"
        group = figure[layout.columns] if layout.columns and not (method == ORACLE and in_front) else None
        figure["row"] = tuple("Avg" if figure[name] == "average" else display(figure[name]) for name in rows)
        figure["column"] = (_group(layout.columns, group), DELTA if is_delta else display(method))
        head = (-1 if group is None else groups.index(group), len(methods) if is_delta else methods.index(method))
        place.setdefault((*(values[name].index(figure[name]) for name in rows), *head), figure)
    figures = [place[key] for key in sorted(place)]
    for row, group in dict.fromkeys((figure["row"], figure["column"][0]) for figure in figures):
        same = [f for f in figures if f["row"] == row and f["column"][0] == group and f["mean"] == f["mean"]]
        accuracies = [f for f in same if f["quantity"] == "accuracy" and f["method"] != ORACLE]
        if len(accuracies) > 1:
            max(accuracies, key=lambda figure: figure["mean"])["best"] = True
    # columns stand in their order, whatever the first row has
    heads = sorted({(*key[len(rows) :], place[key]["column"]) for key in place})
    blanks = [{"row": figures[0]["row"], "column": head[-1], "text": ""} for head in heads]
    constant = [f"{name} {display(values[name][0])}" for name in ("model", "noise", "pool", "regime", "steps")
                if len(values[name]) == 1 and values[name][0] is not None and name not in rows]  # fmt: skip
    title = results.spec.title + (f" ({', '.join(constant)})" if constant else "")
    return Table(title, tuple(map(heading, rows)), [*blanks, *figures])


def _unnamed(figures: list[Figure], layout: Layout, names: Sequence[str]) -> list[str]:
    """Fields that the layout does not name and in which figures differ that would share a place."""
    places: dict[Any, list[Figure]] = {}
    for figure in figures:
        key = [figure[name] for name in (*layout.rows, *filter(None, [layout.columns]), "method", "quantity")]
        places.setdefault(tuple(key), []).append(figure)
    return [name for name in names if any(len({f[name] for f in same}) > 1 for same in places.values())]


def accuracy_figures(results: SpecResults, layout: Layout) -> list[Figure]:
    """The accuracy of each method in each configuration, and the lead of REALM over the best of `layout.delta`."""
    found: list[Figure] = []
    by_task = results.spec.table == "multitask-tasks"
    names = [*results.fields, "spread", "annotators"]
    for values, rows in results.frame.groupby(names, sort=False, dropna=False):
        fields = {name: None if value != value else value for name, value in zip(names, values, strict=True)}
        for task in str(fields["benchmark"]).split(JOINED) if by_task else [None]:
            of = fields | ({"benchmark": task} if task else {})
            column = f"accuracy/{task}" if task else "accuracy"
            for method, cells in rows.groupby("method", sort=False):
                accuracies = 100 * cells[column].to_numpy(float) if column in cells else np.full(len(cells), np.nan)
                found.append({**of, "method": method, "quantity": "accuracy", **summary(accuracies)})
        means = rows.groupby("method")["accuracy"].mean().fillna(-1.0)  # an unfinished method is no baseline
        if (baselines := [name for name in layout.delta if name in means]) and "realm" in means:
            best = max(baselines, key=lambda name: float(means[name]))
            test = compare_methods(results.store, rows, best)
            lead = {**fields, "method": "realm", "quantity": "delta", "against": best, "signed": True}
            lead |= {"mean": np.nan, "seeds": 0, "of_seeds": int((rows["method"] == "realm").sum())}
            lead |= {"mean": 100 * test.delta, "seeds": test.seeds, "test": test} if test else {}
            found.append(lead)
    return [{**figure, "digits": layout.digits} for figure in found]


def averages(figures: list[Figure]) -> list[Figure]:
    """The mean over benchmarks of each figure, and (as in the paper) of its standard deviation."""
    groups: dict[Any, list[Figure]] = {}
    for figure in figures:
        hidden = ("benchmark", "mean", "std", "seeds", "of_seeds", "test", "against")
        groups.setdefault(str({name: v for name, v in figure.items() if name not in hidden}), []).append(figure)
    found = []
    for members in groups.values():
        means = {name: np.mean([figure.get(name, np.nan) for figure in members]) for name in ("mean", "std")}
        counts = {name: min(figure[name] for figure in members) for name in ("seeds", "of_seeds")}
        shared = {name: value for name, value in members[0].items() if name not in ("test", "against")}
        found.append({**shared, **means, **counts, "benchmark": "average"})
    return found


def _group(name: str | None, value: Any) -> str:
    if value is None or isinstance(value, str):
        return display(value)
    return {"annotators": f"N={value:g}", "rate": f"rate {value:g}", "steps": f"{value} steps"}[str(name)]
