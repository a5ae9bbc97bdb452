"""Pictures: learning curves and learned against true expertise of a spec, and the leads of the page of results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from realm_lab.results import display, fields_of, load_results
from realm_lab.specs import Spec

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a5f00", "#56b4e9")
"""Of Okabe and Ito, which people who cannot tell red from green tell apart."""
STYLES = ("-", "--", ":", "-.", (0, (9, 3)), (0, (4, 4)))
"""So that no line is told by its colour alone."""
PER_ROW = 3
"""Panels side by side."""
SVG = {"svg.hashsalt": "realm", "svg.fonttype": "none", "font.size": 8, "axes.spines.top": False,
       "axes.spines.right": False}  # fmt: skip
MARKS = {"over noisy": "o", "over the best other method without gold": "s"}


def save(figure: Figure, path: Path, description: str = "") -> None:
    """Write a picture as SVG, its text as text; the same figures give the same file."""
    with matplotlib.rc_context(SVG):
        figure.savefig(path, format="svg", metadata={"Date": None, "Description": description})


def draw_plots(spec: Spec, results: Results) -> Iterator[tuple[str, Figure]]:
    """Names and pictures of what the results of a spec have, a panel per configuration. Learning curves need a `curve`
    in the spec."""
    frame = load_results(spec, results)
    done = frame[frame["accuracy"].notna()]
    if not len(done):
        raise RealmError(f"{spec.name}: no cell is finished yet. `python -m realm_lab run {spec.word}` runs them.")
    varying = [name for name in fields_of(done) if done[name].nunique(dropna=False) > 1] or ["benchmark"]
    for kind, table, draw in (("curves", "curve", _draw_curves), ("expertise", "expertise", _draw_expertise)):
        rows = results.table(table, done["id"].unique().tolist())
        if not len(rows):
            continue
        panels = list(rows.merge(done, on="id", suffixes=("", "_of_cell")).groupby(varying, sort=False, dropna=False))
        with matplotlib.rc_context(SVG):
            lines = -(-len(panels) // PER_ROW)
            figure = Figure(figsize=(4 * min(PER_ROW, len(panels)), 3 * lines + 0.4), layout="constrained")
            figure.suptitle(spec.title.replace("$", r"\$"), wrap=True)
            for place, (values, part) in enumerate(panels, start=1):
                axes = figure.add_subplot(lines, min(PER_ROW, len(panels)), place)
                axes.set_title(", ".join(display(value) for value in values if value == value).replace("$", r"\$"))
                draw(axes, part)
        yield f"{spec.name}-{kind}.svg", figure


def _draw_curves(axes: Axes, rows: pd.DataFrame) -> None:
    """Test accuracy over steps, a line per method: the mean over seeds with a band of one standard deviation."""
    for place, (name, part) in enumerate(rows.groupby("method", sort=False)):
        by_step = part.groupby("step")["accuracy"]
        mean, std = by_step.mean(), by_step.std(ddof=1).fillna(0.0)
        style: dict[str, Any] = {"color": COLOURS[place % len(COLOURS)], "linestyle": STYLES[place % len(STYLES)]}
        axes.plot(mean.index, mean, label=display(name), **style)
        axes.fill_between(mean.index, mean - std, mean + std, color=style["color"], alpha=0.18, linewidth=0)
    axes.set(xlabel="training step", ylabel="test accuracy")
    axes.legend(frameon=False)


def _draw_expertise(axes: Axes, rows: pd.DataFrame) -> None:
    """Expertise as trained and accuracy as reported, of every annotator, against their accuracy by gold."""
    axes.plot([0, 1], [0, 1], color="#59636e", linestyle="--", linewidth=0.8)
    for place, (name, title) in enumerate({"expertise_trained": "trained", "accuracy": "reported accuracy"}.items()):
        axes.plot(rows["true_accuracy"], rows[name], "os"[place], color=COLOURS[place], markersize=3, label=title)
    axes.set(xlabel="accuracy against gold", ylabel="as learned", xlim=(0, 1), ylim=(-0.02, 1.02))
    axes.legend(frameon=False)


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
