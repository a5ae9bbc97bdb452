"""The charts of the pages: bars, intervals, a matrix and curves, each with its figures in words for who listens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from realm.crowd.engine import Floats, Ints
from realm.crowd.verdicts import NO_BETTER, RELIABLE, VERDICTS
from realm.report.escaping import clipped
from realm.report.svg import Picture, Plot, Span, compact, percent, percent_range

RANKED = 60
"""Most annotators of a picture, evenly over the ranks where there are more: each has a line with its name."""
ROW = 22
"""Height of a line, for text of 12 pixels."""
FIGURE_WIDTH = 8.8
"""Most that a character of the figures beside a line takes, on average: of the widest font, on a phone."""
POINTS = 240
"""Most points of a curve: two pixels apart."""

Form = Callable[[float], str]
Series = tuple[str, Sequence[float]]


# -------------------------------------------------------------------- bars


def verdict_words(counts: Sequence[int]) -> str:
    """How many there are of each verdict, in words."""
    return ", ".join(f"{count:,} {verdict}" for verdict, count in zip(VERDICTS, counts, strict=True))


def verdict_bars(rows: Sequence[tuple[str, Sequence[int]]]) -> Markup:
    """Stacked bars: how a total divides among the verdicts. Each row has a name and a count per verdict."""
    description = "; ".join(f"{name}: {verdict_words(counts)}" for name, counts in rows)
    width, height, step = 600.0, 28.0, 62.0
    picture = Picture(width, len(rows) * step, "How the annotators divide among the verdicts", description)
    for index, (name, counts) in enumerate(rows):
        y, x, total = index * step + 24, 0.0, max(sum(counts), 1)
        picture.text(0, y - 7, clipped(name, 34), "name", hint=name)
        for kind, count in enumerate(counts):
            if not count:
                continue
            span, share = width * count / total, percent(count / total)
            hint = f"{VERDICTS[kind]}: {count:,} ({share})"
            picture.add("rect", hint=hint, x=x, y=y, width=max(span - 2, 1), height=height, rx=3, class_=f"bar v{kind}")
            if span > 44:  # the figure has room inside
                picture.text(x + span / 2 - 1, y + height / 2 + 6, share, f"inside on{kind}", "middle")
            x += span
    return picture.markup("chart bars")


def bars(title: str, names: Sequence[str], series: Sequence[Series], form: Form = percent) -> Markup:
    """A group of bars for each name, one bar per series (each with its own name where there are several).

    The figure beside a group is that of the last series.
    """
    description = "; ".join(
        f"{name + ': ' if name else ''}" + ", ".join(f"{n} {form(v)}" for n, v in zip(names, values, strict=True))
        for name, values in series
    )
    left, width, bar, top = 168.0, 270.0, 9.0 if len(series) > 1 else 14.0, 28.0 if len(series) > 1 else 4.0
    step = bar * len(series) + 12
    picture = Picture(500, top + step * len(names), title, description)
    most = max((float(value) for _, values in series for value in values), default=0.0) or 1.0
    for index, (name, values) in enumerate(series):
        picture.text(left + index * 118, 12, name, f"key s{index}")
        for row, label in enumerate(names):
            hint = f"{label}{', ' + name if name else ''}: {form(values[row])}"
            box: dict[str, Any] = {"x": left, "y": top + step * row + bar * index, "height": bar - 1.5, "rx": 2.0}
            box["width"] = max(width * float(values[row]) / most, 1)
            picture.add("rect", hint=hint, class_=f"fill s{index}", **box)
    for row, label in enumerate(names):
        middle, longest = top + step * row + bar * len(series) / 2 + 4, max(float(values[row]) for _, values in series)
        picture.text(left - 10, middle, clipped(label, 18), "name", "end", hint=label)
        picture.text(left + width * longest / most + 8, middle, form(series[-1][1][row]), "figure")
    return picture.markup("chart half")


# -------------------------------------------------------------------- matrix


@dataclass(frozen=True)
class Cell:
    """A figure with how strongly its cell is coloured (0 to 1), and in which colour: `above` or `below`."""

    figure: str
    strength: float
    side: str
    hint: str
    is_unsure: bool = False


def matrix(
    title: str, description: str, rows: Sequence[str], columns: Sequence[str], cells: Sequence[Sequence[Cell | None]]
) -> Markup:
    """Named rows by named columns; a cell that is None is empty."""
    left, top, height = 140.0, 74.0, 26.0
    span = min(max(560.0 / max(len(columns), 1), 38.0), 64.0)
    picture = Picture(left + span * len(columns) + 70, top + height * len(rows) + 6, title, description)
    for column, name in enumerate(columns):
        x, y = left + span * (column + 0.5) - 6, top - 8
        picture.text(x, y, clipped(name, 14), "name", hint=name, transform=f"rotate(-32 {x:.1f} {y:.1f})")
    for row, name in enumerate(rows):
        y = top + height * row
        picture.text(left - 10, y + height / 2 + 4, clipped(name, 15), "name", "end", hint=name)
        for column, cell in enumerate(cells[row]):
            x = left + span * column
            box: dict[str, Any] = {"x": x, "y": y, "width": span - 2, "height": height - 2, "rx": 3.0}
            if cell is None:
                picture.add("rect", class_="cell none", **box)
                continue
            opacity = f"{0.06 + 0.88 * min(cell.strength, 1):.2f}"
            picture.add("rect", hint=cell.hint, class_=f"cell {cell.side}", fill_opacity=opacity, **box)
            ink = "strong" if cell.strength > 0.55 else "unsure" if cell.is_unsure else ""
            picture.text(x + span / 2 - 1, y + height / 2 + 3, cell.figure, f"heat {ink}", "middle")
    return picture.markup("chart natural")


# -------------------------------------------------------------------- intervals


@dataclass(frozen=True)
class Row:
    """One line of a picture of intervals. `kind` is the mark."""

    name: str
    middle: float
    low: float
    high: float
    note: str
    kind: int = 0


def interval_rows(
    title: str,
    description: str,
    rows: Sequence[Row],
    *,
    domain: Span,
    guide: tuple[float, str],
    zones: Sequence[tuple[float, float, str]] = (),
    form: Form = percent,
) -> Markup:
    """A line per row: a mark with its interval, the same in figures, a guide and shaded zones behind."""
    room = FIGURE_WIDTH * max(len(row.note) for row in rows) + 16
    plot = Plot((520, 72 + ROW * len(rows)), title, description, domain, margins=(30.0, room, 42.0, 140.0))
    for low, high, class_ in zones:
        x, end = plot.x(max(low, domain[0])), plot.x(min(high, domain[1]))
        plot.add("rect", x=x, y=plot.top, width=max(end - x, 0), height=plot.bottom - plot.top, class_=class_)
    plot.x_axis("", form, 4)
    plot.line(plot.x(guide[0]), plot.top - 4, plot.x(guide[0]), plot.bottom, "guide")
    plot.text(plot.x(guide[0]), plot.top - 10, guide[1], "axis", "middle")
    for index, row in enumerate(rows):
        y = plot.top + ROW * (index + 0.5)
        low, high, middle = (float(np.clip(value, *domain)) for value in (row.low, row.high, row.middle))
        plot.text(plot.left - 12, y + 4, clipped(row.name, 16), "name", "end", hint=row.name)
        plot.line(plot.x(low), y, plot.x(high), y, f"whisker v{row.kind}")
        plot.mark(plot.x(middle), y, row.kind, 4.5, hint=f"{row.name}: {row.note}")
        plot.text(plot.right + 12, y + 4, row.note, "figure")
    return plot.markup("chart wide")


def ranking(task: str, names: Sequence[str], figures: Floats, verdicts: Ints, chance: float) -> Markup:
    """The annotators of a task by accuracy, the most accurate first. `figures` is (annotators, 3): accuracy, low, high.

    `chance` is the accuracy of always giving the most frequent label.
    """
    words = verdict_words(np.bincount(verdicts, minlength=len(VERDICTS)).tolist())
    title = f"Accuracy of {len(names):,} annotators with 95% intervals" + (f", {task}" if task else "")
    constant = f"Always giving the most frequent label would be right {percent(chance)} of the time."
    drawn = np.unique(np.linspace(0, len(names) - 1, RANKED).round().astype(int)).tolist()
    rows = []
    for i in drawn:
        middle, low, high = figures[i].tolist()
        note = f"{percent(middle)}  ({percent_range(low, high)})"
        rows.append(Row(names[i], middle, low, high, note, int(verdicts[i])))
    weak, strong = (chance + (1 - chance) * share for share in (NO_BETTER, RELIABLE))
    zones = [(0.0, weak, "zone low"), (strong, 1.0, "zone high")]
    description = f"Ranked by accuracy: {words}. {constant}"
    return interval_rows(title, description, rows, domain=(0, 1), guide=(chance, "chance"), zones=zones)


def small_interval(kind: int, accuracy: float, low: float, high: float, chance: float) -> Markup:
    """The interval in a row of the table; the line across is the accuracy of always giving the most frequent label."""
    picture = Picture(140, 16, f"{percent(accuracy)}, 95% interval {percent_range(low, high)}", VERDICTS[kind])
    picture.line(6, 8, 134, 8, "track")
    picture.line(6 + 128 * chance, 3, 6 + 128 * chance, 13, "guide")
    picture.line(6 + 128 * low, 8, 6 + 128 * high, 8, f"whisker v{kind}")
    picture.mark(6 + 128 * accuracy, 8, kind, 3.6)
    return picture.markup("inline")


# -------------------------------------------------------------------- curves


@dataclass(frozen=True)
class Axis:
    """What an axis shows, how its values are written, and its range where that is not the one of the values."""

    label: str
    form: Form = compact
    range: Span | None = None


def line_chart(
    title: str,
    x: Floats,
    y: Floats,
    x_axis: Axis,
    y_axis: Axis,
    *,
    intervals: Floats | None = None,
    shares: Floats | None = None,
    hints: Sequence[str] = (),
) -> Markup:
    """A curve; what is not finite is left out. `x` and `y` are (points,).

    With `intervals` (points, 2) every point is drawn with its interval. With `shares` (points,) the area of a point
    grows with its share, and the diagonal is drawn. `hints` are shown where one points at a point.
    """
    x, y = x[np.isfinite(y)], y[np.isfinite(y)]
    low, high = float(y.min()), float(y.max())
    margin = 0.06 * (high - low) or 0.05 * abs(high) or 1.0  # a flat curve lies in the middle
    y_range = y_axis.range or (low - margin, high + margin)
    words = "; ".join(hints) or f"from {y_axis.form(float(y[0]))} to {y_axis.form(float(y[-1]))}."
    plot = Plot((500, 280), title, words, x_axis.range or (float(x.min()), float(x.max())), y_range)
    plot.y_axis(y_axis.label, y_axis.form)
    plot.x_axis(x_axis.label, x_axis.form, 4 if x_axis.form is not compact else 6)
    if shares is not None:
        plot.line(plot.left, plot.bottom, plot.right, plot.top, "guide")
    drawn = np.unique(np.linspace(0, len(x) - 1, min(len(x), POINTS)).round().astype(int))
    path = "L".join(f"{plot.x(x[i]):.1f},{plot.y(y[i]):.1f}" for i in drawn)
    plot.add("path", d=f"M{path}", class_="curve s0")
    for point, hint in enumerate(hints):
        left, bottom = plot.x(x[point]), plot.y(y[point])
        if intervals is not None:
            plot.line(left, plot.y(intervals[point, 0]), left, plot.y(intervals[point, 1]), "thread")
        radius = 3.0 if shares is None else 3 + 13 * float(np.sqrt(shares[point]))
        plot.add("circle", hint=hint, cx=left, cy=bottom, r=radius, class_="bubble")
    return plot.markup("chart half")
