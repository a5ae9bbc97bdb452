"""Plots of a spec's results: learning curves, expertise during training, expertise against accuracy; and of leads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from realm import RealmError
from realm.comparison.results import Results
from realm.comparison.simulation import implied_expertise
from realm_lab.results import CONFIGURATION, display, load_results
from realm_lab.specs import Spec
from realm_lab.tables_of_expertise import options_of

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a5f00", "#56b4e9")
"""Of Okabe and Ito, which people who cannot tell red from green tell apart."""
STYLES = ("-", "--", ":", "-.", (0, (9, 3)), (0, (4, 4)))
"""So that no line is told by its colour alone."""
PER_ROW, MOST_PANELS = 3, 30
"""Panels side by side, as many as a wide screen shows, and of a picture, which can still be scrolled through."""
MOST_LINES = 36
"""Of more annotators, so many of all ranks are drawn: more cannot be told apart in a panel."""
BY_FILE = ("model", "noise", "regime", "steps")
"""Fields that have a file for each of their values, as the settings that a spec compares have."""
SVG = {"svg.hashsalt": "realm", "svg.fonttype": "none", "font.size": 8, "axes.spines.top": False,
       "axes.spines.right": False}  # fmt: skip


def save(figure: Figure, path: Path, description: str = "") -> None:
    """Write a picture as SVG, its text as text; the same figures give the same file."""
    with matplotlib.rc_context(SVG):
        figure.savefig(path, format="svg", metadata={"Date": None, "Description": description})


def draw_plots(spec: Spec, results: Results) -> Iterator[tuple[str, Figure]]:
    """Names and pictures of what the results of a spec have. Learning curves need a `curve` in the spec."""
    loaded = load_results(spec, results)
    cells = loaded.frame[loaded.frame["finished"]]
    if not len(cells):
        raise RealmError(f"{spec.name}: no cell is finished yet. `python -m realm_lab run {spec.word}` runs them.")
    ids = cells["id"].drop_duplicates().tolist()
    expertise, curve, trajectory = (results.table(name, ids) for name in ("expertise", "curve", "trajectory"))
    if len(expertise):
        expertise = expertise.merge(options_of(results, ids), on="id").rename(columns={"accuracy": "reported"})
        expertise["implied"] = implied_expertise(expertise["pool_accuracy"].astype(float), expertise["options"])
    if len(expertise) and len(trajectory):
        known = expertise[["id", "annotator", "task", "implied", "true_accuracy"]]
        trajectory = trajectory.merge(known, on=["id", "annotator", "task"])
    if len(expertise):
        expertise = expertise[expertise["true_accuracy"].notna()]
    kinds: list[tuple[str, pd.DataFrame, Callable[[Axes, pd.DataFrame], None]]] = [
        ("curves", curve, draw_curves), ("expertise", trajectory, draw_trajectory),
        ("recovery", expertise, draw_recovery),
    ]  # fmt: skip
    by_file = [name for name in (*BY_FILE, *loaded.settings) if cells[name].nunique(dropna=False) > 1]
    for kind, table, draw in kinds:
        if not len(table):
            continue
        rows = table.merge(cells, on="id", suffixes=("", "_of_cell"))
        by_panel = ["pool", "benchmark", *(["method"] if kind != "curves" else [])]
        for values, part in rows.groupby(by_file, sort=False, dropna=False) if by_file else [((), rows)]:
            words = [_word(name, value) for name, value in zip(by_file, values, strict=True)]
            yield "-".join([spec.name, kind, *words]) + ".svg", _sheet(spec.title, part, by_panel, draw)


def _word(name: str, value: Any) -> str:
    """A value as a part of a file's name."""
    word = "own" if value is None or value != value else display(value)
    word = re.sub("^-", "minus-", word)
    word = f"{word}-steps" if name == "steps" else word if name in CONFIGURATION else f"{name}-{word}"
    return re.sub(r"[^A-Za-z0-9.-]+", "-", word).strip("-")


def _sheet(title: str, rows: pd.DataFrame, by_panel: list[str], draw: Callable[[Axes, pd.DataFrame], None]) -> Figure:
    """Panels side by side under a title."""
    fields = [name for name in by_panel if rows[name].nunique(dropna=False) > 1] or ["benchmark"]
    panels = list(rows.groupby(fields, sort=False, dropna=False))[:MOST_PANELS]
    columns, lines = min(PER_ROW, len(panels)), -(-len(panels) // PER_ROW)
    with matplotlib.rc_context(SVG):
        figure = Figure(figsize=(4 * columns, 3 * lines + 0.4), layout="constrained")
        figure.suptitle(title.replace("$", r"\$"), wrap=True)
        for place, (values, part) in enumerate(panels, start=1):
            axes = figure.add_subplot(lines, columns, place)
            axes.set_title(", ".join(display(value) for value in values if value == value).replace("$", r"\$"))
            draw(axes, part)
    return figure


def _lines(axes: Axes, rows: pd.DataFrame, names: str, value: str) -> None:
    """A line per name, mean over seeds, with a band of one standard deviation; of many, thin lines of all ranks."""
    parts = list(rows.groupby(names, sort=False))
    axes.set_xlabel("training step")
    if len(parts) > len(COLOURS):
        parts.sort(key=lambda part: float(part[1].sort_values("step")[value].iloc[-1]))
        for place in np.unique(np.linspace(0, len(parts) - 1, MOST_LINES).round().astype(int)):
            mean = parts[place][1].groupby("step")[value].mean()
            axes.plot(mean.index, mean, color="#59636e", linewidth=0.7, alpha=0.7)
        return
    for place, (name, part) in enumerate(parts):
        by_step = part.groupby("step")[value]
        mean, std = by_step.mean(), by_step.std(ddof=1).fillna(0.0)
        axes.plot(mean.index, mean, color=COLOURS[place], linestyle=STYLES[place], label=display(name))
        axes.fill_between(mean.index, mean - std, mean + std, color=COLOURS[place], alpha=0.18, linewidth=0)
    axes.legend(frameon=False)


def draw_curves(axes: Axes, rows: pd.DataFrame) -> None:
    """Test accuracy over steps, a line per method."""
    _lines(axes, rows, "method", "accuracy")
    axes.set_ylabel("test accuracy")


def draw_trajectory(axes: Axes, rows: pd.DataFrame) -> None:
    """Expertise as trained over steps, a line per annotator (and task); dashed, what their accuracies imply."""
    named = rows["annotator"] + ((" " + rows["task"]) if rows["task"].nunique() > 1 else "")
    shown = rows.get("true_accuracy", pd.Series(np.nan, rows.index)).groupby(named).transform("mean")
    _lines(axes, rows.assign(name=named + shown.map(" ({:.2g})".format).where(shown.notna(), "")), "name", "expertise")
    for level in sorted({round(float(v), 6) for v in rows.get("implied", pd.Series()).dropna() if 0 < v <= 1}):
        axes.axhline(level, color="#59636e", linestyle="--", linewidth=0.8)
    axes.set(ylabel="expertise as trained", ylim=(0, 1))


def draw_recovery(axes: Axes, rows: pd.DataFrame) -> None:
    """Expertise against realised accuracy; dashed, what an accuracy implies: 0 up to chance, then straight up to 1."""
    chance = 1 / float(rows["options"].median())
    axes.plot([0, chance, 1], [0, 0, 1], color="#59636e", linestyle="--", linewidth=0.8)
    axes.plot(rows["true_accuracy"], rows["expertise_trained"], "o", color=COLOURS[0], markersize=3, label="as trained")
    reported = rows["expertise"].clip(0, 1)
    axes.plot(rows["true_accuracy"], reported, "o", color=COLOURS[1], markersize=5, fillstyle="none", label="reported")
    axes.set(xlabel="accuracy against gold", ylabel="expertise", xlim=(0, 1), ylim=(-0.02, 1.02))
    axes.legend(frameon=False)


# -------------------------------------------------------------------- leads

MARKS = {"over noisy": "o", "over the best other method without gold": "s"}


@dataclass(frozen=True)
class ForestRow:
    """A configuration: its name and two leads in points, each with its 95% interval; a heading has none."""

    name: str
    leads: tuple[tuple[float, float, float] | None, ...] = ()

    def __str__(self) -> str:
        leads = (f"{lead[0]:+.1f} ({lead[1]:+.1f} to {lead[2]:+.1f})" for lead in self.leads if lead is not None)
        return f"{self.name}: {', '.join(leads)}"


def forest(title: str, rows: Sequence[ForestRow]) -> Figure:
    """The lead of the default in every configuration, with its interval, around a line at zero."""
    with matplotlib.rc_context(SVG):
        figure = Figure(figsize=(9.2, 0.22 * len(rows) + 1), layout="constrained")
        axes = figure.add_subplot(title=title, xlabel="lead in test accuracy, points")
        axes.axvline(0, color="#59636e", linewidth=0.8)
        for which, (name, mark) in enumerate(MARKS.items()):
            found = [(place, row.leads[which]) for place, row in enumerate(rows) if row.leads and row.leads[which]]
            mean, low, high = np.array([lead for _, lead in found]).T.reshape(3, -1)
            heights = [place - 0.15 + 0.3 * which for place, _ in found]
            style: dict[str, Any] = {"fmt": mark, "color": COLOURS[which], "markersize": 4, "label": name}
            style["fillstyle"] = "none" if which else "full"
            axes.errorbar(mean, heights, xerr=[mean - low, high - mean], **style)
        axes.set_yticks(range(len(rows)), [row.name for row in rows])
        for label, row in zip(axes.get_yticklabels(), rows, strict=True):
            label.set_fontweight("normal" if row.leads else "bold")
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", linewidth=0.4)
        figure.legend(frameon=False, loc="outside lower center", ncols=2)
    return figure
