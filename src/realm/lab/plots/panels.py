"""One panel each: learning curves with bands, expertise on its way, and expertise against accuracy.

Colours are those of Okabe and Ito; no line or mark is told apart by its colour alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from realm.comparison import implied_expertise
from realm.lab.tables.layouts import shown
from realm.report.svg import Plot, percent, shortened

Floats = npt.NDArray[np.float64]
WIDTH, HEIGHT = 380.0, 270.0
COLOURS = 6
KEY_HEIGHT = 14.0
MOST_LINES = 36
"""Of more annotators, so many of all ranks are drawn."""
METHODS = ("realm", "noisy", "majority", "dawid-skene", "oracle", "realm-scalar")
"""The colour of a method is its place here."""

STYLE = """
svg { font: 12.5px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
  --card: #fff; --ink: #1b2026; --soft: #59636e; --line: #dde2e8;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #cc79a7; --c4: #8a5f00; --c5: #56b4e9; }
@media (prefers-color-scheme: dark) { svg { --card: #1a2027; --ink: #e9ecef; --soft: #a3adb8; --line: #323b45;
  --c0: #56b4e9; --c1: #f4793b; --c2: #2fc39a; --c3: #dd9cc0; --c4: #e69f00; --c5: #9fd4f5; } }
.paper { fill: var(--card); } text { fill: var(--ink); unicode-bidi: isolate; } .head { font-weight: 600; }
.tick, .axis { fill: var(--soft); font-size: 11.5px; } .grid { stroke: var(--line); }
.guide { fill: none; stroke: var(--soft); stroke-width: 1.4; stroke-dasharray: 5 3; }
.curve { fill: none; stroke-width: 2; stroke-linejoin: round; } .band { stroke: none; fill-opacity: .18; }
.thread { fill: none; stroke: var(--soft); stroke-width: 1.3; stroke-opacity: .7; } .spot { fill-opacity: .75; }
.hollow { fill: none; stroke-width: 1.6; }
""" + "\n".join(
    f".curve.c{i}, .hollow.c{i} {{ stroke: var(--c{i}); }} .curve.c{i} {{ stroke-dasharray: {dashes}; }} "
    f".band.c{i}, .spot.c{i}, text.c{i} {{ fill: var(--c{i}); }}"
    for i, dashes in enumerate(("none", "7 3", "2 3", "9 3 2 3", "12 4", "4 4"))
)


@dataclass(frozen=True)
class Line:
    """A line with its band, over the same steps. Shapes (steps,); `colour` is a place in the palette."""

    name: str
    colour: int
    steps: Floats
    middle: Floats
    low: Floats
    high: Floats


def over_seeds(name: str, colour: int, frame: pd.DataFrame, value: str) -> Line:
    """Mean and one population standard deviation to both sides at each step. `frame` has `step` and `value`."""
    by_step = frame.groupby("step")[value]
    middle, spread = by_step.mean(), by_step.std(ddof=0)
    steps = middle.index.to_numpy(dtype=np.float64)
    mean, std = middle.to_numpy(dtype=np.float64), spread.to_numpy(dtype=np.float64)
    return Line(name, colour, steps, mean, mean - std, mean + std)


def lines_panel(
    head: str, lines: Sequence[Line], y_label: str, *, unit: bool = False, levels: Sequence[float] = ()
) -> Plot:
    """Lines over training steps. `unit` fixes the vertical axis to 0 to 1; `levels` are drawn as dashed guides."""
    low, high = min(float(one.low.min()) for one in lines), max(float(one.high.max()) for one in lines)
    room = 0.06 * (high - low) or 0.05
    last = max(float(one.steps.max()) for one in lines)
    said = "; ".join(f"{one.name}: from {one.middle[0]:.3f} to {one.middle[-1]:.3f}" for one in lines)
    keyed = len(lines) <= COLOURS
    first, around = min(float(one.steps.min()) for one in lines), (max(low - room, 0.0), min(high + room, 1.0))
    plot = _panel(head, said, (first, last or 1.0), (0.0, 1.0) if unit else around, 96 if keyed else 16)
    plot.y_axis(y_label, (lambda value: f"{value:.1f}") if unit else percent)
    plot.x_axis("training step")
    for level in levels:
        plot.line(plot.left, plot.y(level), plot.right, plot.y(level), "guide")
    for one in lines:
        class_ = f"c{one.colour}" if keyed else ""
        there = [(plot.x(x), plot.y(min(y, plot.y.high))) for x, y in zip(one.steps, one.high, strict=True)]
        back = [(plot.x(x), plot.y(max(y, plot.y.low))) for x, y in zip(one.steps, one.low, strict=True)][::-1]
        if keyed:
            plot.path(there + back, f"band {class_}", closed=True, hint=f"{one.name}, one standard deviation")
        points = [(plot.x(x), plot.y(y)) for x, y in zip(one.steps, one.middle, strict=True)]
        plot.path(points, f"curve {class_}" if keyed else "thread", hint=f"{one.name}: {one.middle[-1]:.3f} at the end")
    if keyed:
        heights = spread([plot.y(one.middle[-1]) for one in lines], KEY_HEIGHT)
        for one, y in zip(lines, heights, strict=True):
            plot.text(plot.right + 6, y + 4, shortened(one.name, 16), f"c{one.colour}", hint=one.name)
    return plot


def spread(places: Sequence[float], apart: float) -> list[float]:
    """Places moved as little as it takes for all to be `apart`, in their order (pool adjacent violators)."""
    order = np.argsort(places, kind="stable")
    blocks: list[list[float]] = []  # each the sum and number of places less those of a ladder
    for rung, index in enumerate(order):
        blocks.append([places[index] - rung * apart, 1])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] >= blocks[-1][0] / blocks[-1][1]:
            total, count = blocks.pop()
            blocks[-1][0] += total
            blocks[-1][1] += count
    levels = [total / count for total, count in blocks for _ in range(int(count))]
    moved = [0.0] * len(places)
    for rung, index in enumerate(order):
        moved[index] = levels[rung] + rung * apart
    return moved


def curves_panel(head: str, curves: pd.DataFrame) -> Plot:
    """Test accuracy over steps, a line per method. `curves` has method, step and accuracy."""
    methods = [method for method in METHODS if method in set(curves["method"])]
    lines = [
        over_seeds(shown(method), METHODS.index(method), curves[curves["method"] == method], "accuracy")
        for method in methods
    ]
    return lines_panel(head, lines, "test accuracy")


def trajectory_panel(head: str, trajectories: pd.DataFrame) -> Plot:
    """Expertise as trained over steps, a line per annotator (and task); of many, a line for those of equal accuracy.

    Columns: name, said (accuracy), step, expertise, implied. Dashed levels are what the accuracies imply.
    """
    if trajectories["name"].nunique() > COLOURS >= trajectories["said"].round(6).nunique():
        trajectories = trajectories.assign(name=[f"accuracy {value:.2g}" for value in trajectories["said"]])
    names = list(dict.fromkeys(trajectories["name"]))
    if len(names) > MOST_LINES:
        last = trajectories[trajectories["step"] == trajectories["step"].max()]
        ranked = last.groupby("name")["expertise"].mean().sort_values(kind="stable").index.tolist()
        names = [ranked[place] for place in np.linspace(0, len(ranked) - 1, MOST_LINES).round().astype(int)]
    lines = [
        over_seeds(name, place % COLOURS, trajectories[trajectories["name"] == name], "expertise")
        for place, name in enumerate(names)
    ]
    implied = {round(float(value), 6) for value in trajectories["implied"].dropna() if 0 < value <= 1}
    return lines_panel(head, lines, "expertise as trained", unit=True, levels=sorted(implied))


def recovery_panel(head: str, learned: pd.DataFrame) -> Plot:
    """Expertise against realised accuracy. Columns: annotator, true_accuracy, expertise_trained, expertise, chance.

    The dashed line is the expertise that an accuracy implies: 0 up to chance, then straight up to 1.
    """
    chance = float(learned["chance"].median())
    chance = chance if 0 < chance < 1 else 0.5
    said = (
        f"{learned['annotator'].nunique()} annotators; mean distance from the line "
        f"{_distance(learned, 'expertise_trained', chance):.2f} as trained, "
        f"{_distance(learned, 'expertise', chance):.2f} re-estimated."
    )
    plot = _panel(head, said, (0.0, 1.0), (0.0, 1.0), 16)
    plot.y_axis("expertise", lambda value: f"{value:.1f}")
    plot.x_axis("accuracy against gold", lambda value: f"{value:.1f}", 5)
    corner = (plot.x(chance), plot.y(0))
    plot.path([(plot.x(0), plot.y(0)), corner, (plot.x(1), plot.y(1))], "guide", hint="expertise implied by accuracy")
    figures = learned[["true_accuracy", "expertise_trained", "expertise"]].to_numpy(dtype=np.float64)
    for name, (accuracy, trained, again) in zip(learned["annotator"], figures, strict=True):
        if np.isnan(accuracy):
            continue
        x, said = plot.x(accuracy), f"{name}: accuracy {accuracy:.2f}"
        if not np.isnan(again):
            drawn = plot.y(float(np.clip(again, 0, 1)))
            plot.add("circle", hint=f"{said}, re-estimated {again:.2f}", cx=x, cy=drawn, r=4.2, class_="hollow c1")
        plot.add("circle", hint=f"{said}, as trained {trained:.2f}", cx=x, cy=plot.y(trained), r=3, class_="spot c0")
    for place, key in enumerate(("● as trained", "○ re-estimated")):
        plot.text(plot.left + 8, plot.top + 14 + KEY_HEIGHT * place, key, f"c{place}")
    return plot


def _distance(learned: pd.DataFrame, column: str, chance: float) -> float:
    line = np.clip(implied_expertise(learned["true_accuracy"].to_numpy(dtype=np.float64), 1 / chance), 0, 1)
    return float(np.nanmean(np.abs(learned[column].to_numpy(dtype=np.float64) - line)))


def _panel(head: str, said: str, x: tuple[float, float], y: tuple[float, float], right: float) -> Plot:
    plot = Plot(WIDTH, HEIGHT, head, said, x=x, y=y, margins=(52, right, 42, 52))
    plot.text(12, 18, shortened(head, 52), "head", hint=head)
    return plot
