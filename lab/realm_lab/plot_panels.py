"""The panels of the lab's plots as SVG: learning curves, expertise during training, and expertise against accuracy.

Colours are those of Okabe and Ito; no line or mark is told apart by its colour alone. `ElementTree` writes the
elements, and escapes every text and attribute.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt
import pandas as pd

from realm.comparison.simulation import implied_expertise
from realm.lab.tables.table import display

Floats = npt.NDArray[np.float64]
Points = Sequence[tuple[float, float]]
WIDTH, HEIGHT = 380.0, 270.0
"""Of a panel: three in a row fill a wide screen."""
TOP, BOTTOM, LEFT = 52, 42, 52
"""Margins, for the title and the labels of the axes; the right one depends on what stands there."""
COLOURS = 6
"""In the style sheet below; more lines are drawn in grey and without names."""
LINE_HEIGHT = 14.0
"""Between names beside lines, so that text of 12.5 pixels does not overlap."""
LETTER = 6.9
"""Width of a letter of other text."""
MOST_LETTERS = 26
"""Of a name beside a line: it fills half the panel then; longer ones are cut, and whole when pointed at."""
HEAD_LETTER = 7.4
"""Width of a letter of a heading: bold text of 12.5 pixels, wide letters included."""
MOST_LINES = 36
"""Of more annotators, so many of all ranks are drawn: more cannot be told apart in a panel."""
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


# -------------------------------------------------------------------- SVG


class Picture:
    """An SVG element of a given size with a title and a description."""

    def __init__(self, width: float, height: float, title: str, description: str) -> None:
        box = f"0 0 {_attribute(width)} {_attribute(height)}"
        self.root = ElementTree.Element("svg", viewBox=box, role="img", width=box.split()[2], height=box.split()[3])
        self.add("title", title)
        self.add("desc", description)

    def add(self, tag: str, text: str = "", hint: str = "", **attributes: str | float) -> None:
        """An element; `class_` is the attribute class, and `hint` shows when the element is pointed at."""
        names = {name.rstrip("_").replace("_", "-"): _attribute(value) for name, value in attributes.items()}
        element = ElementTree.SubElement(self.root, tag, names)
        if hint:
            ElementTree.SubElement(element, "title").text = _printable(hint)
            element[0].tail = _printable(text)
        else:
            element.text = _printable(text)

    def text(self, x: float, y: float, text: str, class_: str, anchor: str = "start", hint: str = "") -> None:
        self.add("text", text, hint, x=x, y=y, text_anchor=anchor, class_=class_)

    def lines(self, x: float, y: float, text: str, width: float) -> None:
        """A heading that is never cut: as many lines as this width asks for."""
        for place, line in enumerate(broken_into_lines(text, width)):
            self.text(x, y + LINE_HEIGHT * place, line, "head")

    def place(self, picture: Picture, x: float, y: float) -> None:
        """Another picture as a part of this one, its upper left corner at x, y."""
        picture.root.attrib |= {"x": _attribute(x), "y": _attribute(y)}
        self.root.append(picture.root)

    def file(self) -> str:
        """The picture as the text of an SVG file, with its style sheet."""
        style = ElementTree.Element("style")
        style.text = STYLE
        self.root.insert(0, style)
        self.root.set("xmlns", "http://www.w3.org/2000/svg")
        return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(self.root, encoding="unicode") + "\n"


def broken_into_lines(text: str, width: float) -> list[str]:
    """A heading in lines of about this width in pixels, broken between words, long words within."""
    return textwrap.wrap(_printable(text), max(int(width / HEAD_LETTER), 8)) or [""]


def _attribute(value: str | float) -> str:
    return _printable(value) if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")


def _printable(text: str) -> str:
    """Characters that XML forbids or that hide text are replaced."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


class Panel(Picture):
    """A picture with axes. `x` and `y` turn values into coordinates."""

    def __init__(
        self, title: str, description: str, x: tuple[float, float], y: tuple[float, float], right: float = 16
    ) -> None:
        super().__init__(WIDTH, HEIGHT, title, description)
        self.x_range, self.y_range, self.right = x, y, WIDTH - right
        self.top = TOP + LINE_HEIGHT * (len(broken_into_lines(title, WIDTH - 24)) - 1)
        self.lines(12, 18, title, WIDTH - 24)

    def x(self, value: float) -> float:
        return LEFT + _share(value, *self.x_range) * (self.right - LEFT)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - _share(value, *self.y_range) * (HEIGHT - BOTTOM - self.top)

    def line(self, x1: float, y1: float, x2: float, y2: float, class_: str) -> None:
        self.add("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)

    def path(self, points: Points, class_: str, hint: str = "", closed: bool = False) -> None:
        """A line through points given by their values."""
        places = "L".join(f"{_attribute(self.x(x))},{_attribute(self.y(y))}" for x, y in points)
        self.add("path", hint=hint, d=f"M{places}{'Z' if closed else ''}", class_=class_)

    def axes(
        self, x_label: str, y_label: str, x_form: Callable[[float], str], y_form: Callable[[float], str], about: int
    ) -> None:
        """Grid lines with their values; `about` is how many the horizontal axis has."""
        for value in ticks(*self.y_range, 5):
            self.line(LEFT, self.y(value), self.right, self.y(value), "grid")
            self.text(LEFT - 7, self.y(value) + 4, y_form(value), "tick", "end")
        self.text(LEFT - 40, self.top - 16, y_label, "axis")
        for value in ticks(*self.x_range, about):
            self.line(self.x(value), self.top, self.x(value), HEIGHT - BOTTOM, "grid")
            self.text(self.x(value), HEIGHT - BOTTOM + 16, x_form(value), "tick", "middle")
        self.text((LEFT + self.right) / 2, HEIGHT - BOTTOM + 33, x_label, "axis", "middle")


def _share(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low) if high > low else 0.5


def ticks(low: float, high: float, about: int) -> list[float]:
    """Round values between low and high; about so many."""
    if high <= low:
        return [low]
    size = 10.0 ** math.floor(math.log10((high - low) / about))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= 0.999 * (high - low) / about)
    return [index * step for index in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _shortened(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"


def _one_decimal(value: float) -> str:
    return f"{value:.1f}"


def _steps(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.3g}"


# -------------------------------------------------------------------- lines over steps


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
    """Mean and one standard deviation to both sides at each step, none with one seed. `frame` has `step`, `value`."""
    by_step = frame.groupby("step")[value]
    mean, std = by_step.mean().to_numpy(dtype=np.float64), by_step.std(ddof=1).fillna(0.0).to_numpy(dtype=np.float64)
    return Line(name, colour, np.array(list(by_step.groups), dtype=np.float64), mean, mean - std, mean + std)


def lines_panel(
    title: str, lines: Sequence[Line], y_label: str, *, unit: bool = False, levels: Sequence[float] = ()
) -> Panel:
    """Lines over training steps. `unit` fixes the vertical axis to 0 to 1; `levels` are drawn as dashed guides."""
    low, high = min(float(line.low.min()) for line in lines), max(float(line.high.max()) for line in lines)
    room = 0.06 * (high - low) or 0.05  # so that no line touches the frame
    y_range = (0.0, 1.0) if unit else (max(low - room, 0.0), min(high + room, 1.0))
    first, last = (float(end(end(line.steps) for line in lines)) for end in (min, max))
    description = "; ".join(f"{line.name}: from {line.middle[0]:.3f} to {line.middle[-1]:.3f}" for line in lines)
    has_names = len(lines) <= COLOURS
    longest = max(len(line.name) for line in lines)
    margin = min(max(6 + LETTER * longest, 60.0), WIDTH / 2) if has_names else 16.0
    panel = Panel(title, description, (first, last or 1.0), y_range, right=margin)
    panel.axes("training step", y_label, _steps, _one_decimal if unit else "{:.0%}".format, about=6)
    for level in levels:
        panel.line(LEFT, panel.y(level), panel.right, panel.y(level), "guide")
    for line in lines:
        points = list(zip(line.steps, line.middle, strict=True))
        if not has_names:
            panel.path(points, "thread", hint=f"{line.name}: {line.middle[-1]:.3f} at the end")
            continue
        upper = zip(line.steps, np.minimum(line.high, y_range[1]), strict=True)
        lower = zip(line.steps[::-1], np.maximum(line.low, y_range[0])[::-1], strict=True)
        band = f"band c{line.colour}"
        panel.path([*upper, *lower], band, hint=f"{line.name}, one standard deviation", closed=True)
        panel.path(points, f"curve c{line.colour}", hint=f"{line.name}: {line.middle[-1]:.3f} at the end")
    if has_names:
        heights = spread([panel.y(line.middle[-1]) for line in lines], LINE_HEIGHT)
        for line, height in zip(lines, heights, strict=True):
            panel.text(
                panel.right + 6, height + 4, _shortened(line.name, MOST_LETTERS), f"c{line.colour}", hint=line.name
            )
    return panel


def spread(places: Sequence[float], apart: float) -> list[float]:
    """Places moved as little as it takes for all to be `apart`, in their order."""
    from scipy.optimize import isotonic_regression

    order = np.argsort(places, kind="stable")
    ladder = apart * np.arange(len(places))
    positions = np.empty(len(places))
    positions[order] = isotonic_regression(np.asarray(places, dtype=np.float64)[order] - ladder).x + ladder
    return [float(position) for position in positions]


# -------------------------------------------------------------------- the panels


def curves_panel(title: str, curves: pd.DataFrame) -> Panel:
    """Test accuracy over steps, a line per method. `curves` has method, step and accuracy."""
    by_method = dict(list(curves.groupby("method")))
    lines = [
        over_seeds(display(method), colour, by_method[method], "accuracy")
        for colour, method in enumerate(METHODS)
        if method in by_method
    ]
    return lines_panel(title, lines, "test accuracy")


def trajectory_panel(title: str, trajectories: pd.DataFrame) -> Panel:
    """Expertise as trained over steps, a line per annotator (and task); of many, a line for those of equal accuracy.

    Columns: name, accuracy, step, expertise, implied. Dashed levels are what the accuracies imply.
    """
    if trajectories["name"].nunique() > COLOURS >= trajectories["accuracy"].round(6).nunique():
        trajectories = trajectories.assign(name=[f"accuracy {value:.2g}" for value in trajectories["accuracy"]])
    names = list(dict.fromkeys(trajectories["name"]))
    if len(names) > MOST_LINES:
        last = trajectories[trajectories["step"] == trajectories["step"].max()]
        ranked = last.groupby("name")["expertise"].mean().sort_values(kind="stable").index.tolist()
        names = [ranked[place] for place in np.linspace(0, len(ranked) - 1, MOST_LINES).round().astype(int)]
    by_name = dict(list(trajectories.groupby("name")))
    lines = [over_seeds(name, place % COLOURS, by_name[name], "expertise") for place, name in enumerate(names)]
    implied = {round(float(value), 6) for value in trajectories["implied"].dropna() if 0 < value <= 1}
    return lines_panel(title, lines, "expertise as trained", unit=True, levels=sorted(implied))


def recovery_panel(title: str, expertise: pd.DataFrame) -> Panel:
    """Expertise against realised accuracy. Columns: annotator, true_accuracy, expertise_trained, expertise, chance.

    The dashed line is the expertise that an accuracy implies: 0 up to chance, then straight up to 1.
    """
    figures = expertise[["true_accuracy", "expertise_trained", "expertise"]].to_numpy(dtype=np.float64)
    chance = float(expertise["chance"].median())
    chance = chance if 0 < chance < 1 else 0.5
    implied = np.clip(implied_expertise(figures[:, 0], 1 / chance), 0, 1)
    distance = np.nanmean(np.abs(figures[:, 1:] - implied[:, None]), axis=0)
    description = (
        f"{expertise['annotator'].nunique()} annotators; mean distance from the line {distance[0]:.2f} as trained, "
        f"{distance[1]:.2f} re-estimated."
    )
    panel = Panel(title, description, (0.0, 1.0), (0.0, 1.0))
    panel.axes("accuracy against gold", "expertise", _one_decimal, _one_decimal, about=5)
    panel.path([(0, 0), (chance, 0), (1, 1)], "guide", hint="expertise implied by accuracy")
    for name, (accuracy, trained, estimate) in zip(expertise["annotator"], figures, strict=True):
        if np.isnan(accuracy):
            continue
        x, hint = panel.x(accuracy), f"{name}: accuracy {accuracy:.2f}"
        if not np.isnan(estimate):
            y = panel.y(float(np.clip(estimate, 0, 1)))
            panel.add("circle", hint=f"{hint}, re-estimated {estimate:.2f}", cx=x, cy=y, r=4.2, class_="hollow c1")
        y = panel.y(trained)
        panel.add("circle", hint=f"{hint}, as trained {trained:.2f}", cx=x, cy=y, r=3.0, class_="spot c0")
    for place, key in enumerate(("● as trained", "○ re-estimated")):
        panel.text(LEFT + 8, panel.top + 14 + LINE_HEIGHT * place, key, f"c{place}")
    return panel
