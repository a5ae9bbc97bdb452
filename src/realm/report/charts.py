"""The charts of the pages: bars, intervals, matrices and curves, each with its figures in words for who listens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from realm.crowd.drift import AnnotatorOverTime
from realm.crowd.engine import Floats, Ints
from realm.crowd.verdicts import NO_BETTER, RELIABLE, VERDICTS
from realm.report.escaping import clipped
from realm.report.svg import Picture, Plot, compact, percent, percent_range

LISTED, LISTED_BESIDE = 60, 15
"""Up to so many annotators have a line with their name (where one pool is drawn, where several are); more, a curve."""
DRAWN = 320
"""Of a large pool so many annotators are drawn, evenly over the ranks."""
ROW = 22
"""Height of a line, for text of 12 pixels."""
FIGURE_WIDTH = 7.4
"""Most that a character of the figures beside a line takes, on average, in the widest of the page's fonts."""
POINTS = 240
"""Most points of a curve: two pixels apart at the width of a page."""
LINES = 36
"""Most annotators with a line of their own while expertise was learned; more are not told apart."""


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


def bars(
    title: str,
    names: Sequence[str],
    series: Sequence[tuple[str, Sequence[float] | Floats]],
    label_of: Callable[[float], str] = percent,
) -> Markup:
    """A group of bars for each name, one bar per series (each with its own name where there are several).

    The figure beside a group is that of the last series.
    """
    description = "; ".join(
        f"{name + ': ' if name else ''}" + ", ".join(f"{n} {label_of(v)}" for n, v in zip(names, values, strict=True))
        for name, values in series
    )
    left, width, bar, top = 168.0, 270.0, 9.0 if len(series) > 1 else 14.0, 28.0 if len(series) > 1 else 4.0
    step = bar * len(series) + 12
    picture = Picture(500, top + step * len(names), title, description)
    most = max((float(value) for _, values in series for value in values), default=0.0) or 1.0
    if len(series) > 1:
        for index, (name, _) in enumerate(series):
            picture.text(left + index * 118, 12, name, f"key s{index}")
    for row, label in enumerate(names):
        y, longest = top + step * row, max(float(values[row]) for _, values in series)
        middle = y + bar * len(series) / 2 + 4
        picture.text(left - 10, middle, clipped(label, 18), "name", "end", hint=label)
        for index, (name, values) in enumerate(series):
            hint = f"{label}{', ' + name if name else ''}: {label_of(values[row])}"
            picture.add("rect", hint=hint, x=left, y=y + bar * index, width=max(width * float(values[row]) / most, 1),
                        height=bar - 1.5, rx=2, class_=f"fill s{index}")  # fmt: skip
        picture.text(left + width * longest / most + 8, middle, label_of(series[-1][1][row]), "figure")
    return picture.markup("chart half")


# -------------------------------------------------------------------- matrices


@dataclass(frozen=True)
class Cell:
    """A figure with how strongly its cell is coloured (0 to 1), and in which colour: `above`, `below` or `none`."""

    figure: str
    strength: float
    side: str
    hint: str
    is_unsure: bool = False


def matrix(
    title: str,
    description: str,
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Sequence[Sequence[Cell | None]],
    width: tuple[float, float] = (38.0, 64.0),
) -> Markup:
    """Named rows by named columns; a cell that is None is empty. `width` is the least and the most of a column."""
    left, top, height = 140.0, 74.0, 26.0
    span = min(max(560.0 / max(len(columns), 1), width[0]), width[1])
    picture = Picture(left + span * len(columns) + 70, top + height * len(rows) + 6, title, description)
    for column, name in enumerate(columns):
        picture.tilted(left + span * (column + 0.5) - 6, top - 8, clipped(name, 14), name)
    for row, name in enumerate(rows):
        y = top + height * row
        picture.text(left - 10, y + height / 2 + 4, clipped(name, 15), "name", "end", hint=name)
        for column, cell in enumerate(cells[row]):
            x, box = left + span * column, {"y": y, "width": span - 2, "height": height - 2, "rx": 3.0}
            if cell is None:
                picture.add("rect", "", x=x, **box, class_="cell none")  # type: ignore[arg-type]
                continue
            opacity = f"{0.06 + 0.88 * min(cell.strength, 1):.2f}"
            side = f"cell {cell.side}"
            picture.add("rect", hint=cell.hint, x=x, **box, class_=side, fill_opacity=opacity)  # type: ignore[arg-type]
            ink = "strong" if cell.strength > 0.55 else "unsure" if cell.is_unsure else ""
            picture.text(x + span / 2 - 1, y + height / 2 + 3, cell.figure, f"heat {ink}", "middle")
    return picture.markup("chart natural")


# -------------------------------------------------------------------- annotators, each with an interval


@dataclass(frozen=True)
class Row:
    """One line of a picture of intervals. `kind` is the mark; `dots` are single values (one per seed)."""

    name: str
    middle: float
    low: float
    high: float
    note: str
    kind: int = 0
    dots: Sequence[float] = field(default=())


def interval_rows(
    title: str,
    description: str,
    rows: Sequence[Row],
    *,
    domain: tuple[float, float],
    guides: Sequence[tuple[float, str]] = (),
    zones: Sequence[tuple[float, float, str]] = (),
    label_of: Callable[[float], str] = percent,
    size: str = "wide",
) -> Markup:
    """A line per row: a mark with its interval, the same in figures, guides and shaded zones behind.

    `size` is `wide`, `half` (to stand beside another) or `narrow` (for a telephone).
    """
    note_width = FIGURE_WIDTH * max((len(row.note) for row in rows), default=0) + 16
    width, letters, right, left = {
        "wide": (760, 22, max(158.0, note_width), 168.0),
        "half": (500, 16, 118.0, 134.0),
        "narrow": (350, 11, 122.0, 96.0),
    }[size]
    height = 72.0 + ROW * len(rows)
    plot = Plot(width, height, title, description, x=domain, y=(0, 1), margins=(30.0, right, 42.0, left))
    for low, high, class_ in zones:
        plot.zone((low, high), (0, 1), class_)
    plot.x_axis("", label_of, 3 if size == "narrow" else 6)
    for value, name in guides:
        plot.line(plot.x(value), plot.top - 4, plot.x(value), plot.bottom, "guide")
        plot.text(plot.x(value), plot.top - 10, name, "axis", "middle")
    for index, row in enumerate(rows):
        y = plot.top + ROW * (index + 0.5)
        low, high, middle = (float(np.clip(value, *domain)) for value in (row.low, row.high, row.middle))
        plot.text(plot.left - 12, y + 4, clipped(row.name, letters), "name", "end", hint=row.name)
        plot.line(plot.x(low), y, plot.x(high), y, f"whisker v{row.kind}")
        for value in row.dots:
            plot.add("circle", cx=plot.x(value), cy=y, r=2.6, class_="dot")
        plot.mark(plot.x(middle), y, row.kind, 4.5, hint=f"{row.name}: {row.note}")
        plot.text(plot.right + 12, y + 4, row.note, "figure")
    return plot.markup(f"chart {size}")


@dataclass(frozen=True)
class Pool:
    """The annotators of one task, most accurate first. Shapes (annotators,); `chance` is that of always giving
    the most frequent label."""

    task: str
    names: list[str]
    accuracy: Floats
    low: Floats
    high: Floats
    verdict: Ints
    chance: float


def ranking(pool: Pool, size: str = "wide") -> Markup:
    """The annotators of a task by accuracy: with names where they are few, as a curve where they are many."""
    words = verdict_words([int((pool.verdict == kind).sum()) for kind in range(len(VERDICTS))])
    title = f"Accuracy of {len(pool.names):,} annotators with 95% intervals" + (f", {pool.task}" if pool.task else "")
    constant = f"Always giving the most frequent label would be right {percent(pool.chance)} of the time."
    description = f"Ranked by accuracy: {words}. {constant}"
    weak, strong = (pool.chance + (1 - pool.chance) * share for share in (NO_BETTER, RELIABLE))
    zones = [(0.0, weak, "zone low"), (strong, 1.0, "zone high")]
    figures = [(float(a), float(b), float(c)) for a, b, c in zip(pool.accuracy, pool.low, pool.high, strict=True)]
    notes = [f"{percent(middle)}  ({percent_range(low, high)})" for middle, low, high in figures]
    if len(pool.names) <= (LISTED_BESIDE if size == "half" else LISTED):
        columns = zip(pool.names, figures, notes, pool.verdict.tolist(), strict=True)
        rows = [Row(name, *values, note, kind) for name, values, note, kind in columns]
        guides = [(pool.chance, "chance")]
        return interval_rows(title, description, rows, domain=(0, 1), guides=guides, zones=zones, size=size)
    width, height, most = {
        "wide": (1000, 380, DRAWN),
        "half": (500, 280, DRAWN // 2),
        "narrow": (350, 280, DRAWN // 4),
    }[size]
    plot = Plot(width, height, title, description, x=(1, len(pool.names)), y=(0, 1))
    for low, high, class_ in zones:
        plot.zone((1, len(pool.names)), (low, high), class_)
    plot.y_axis("accuracy", percent)
    plot.x_axis("annotators, from the most to the least accurate", about=4 if size == "narrow" else 6)
    ranks = np.unique(np.linspace(0, len(pool.names) - 1, most).round().astype(int)).tolist()
    for i in ranks:
        plot.line(
            plot.x(i + 1), plot.y(figures[i][1]), plot.x(i + 1), plot.y(figures[i][2]), f"hair v{pool.verdict[i]}"
        )
    plot.line(plot.left, plot.y(pool.chance), plot.right, plot.y(pool.chance), "guide")
    plot.text(plot.left + 8, plot.y(pool.chance) - 5, "chance", "axis")
    for i in ranks:
        hint = f"{clipped(pool.names[i], 48)}: {notes[i]}"
        plot.mark(plot.x(i + 1), plot.y(figures[i][0]), int(pool.verdict[i]), 2.6, hint=hint)
    return plot.markup("chart full" if size == "wide" else f"chart {size}")


def small_interval(
    kind: int, accuracy: float = 0.0, low: float = 0.0, high: float = 0.0, chance: float = 0.0
) -> Markup:
    """The interval bar in a row of the table; the page's script moves the parts of a copy."""
    title = f"{percent(accuracy)}, 95% interval {percent(low)} to {percent(high)}"
    picture = Picture(140, 16, title, "The line across: always giving the most frequent label.")
    picture.line(6, 8, 134, 8, "track")
    picture.line(6 + 128 * chance, 3, 6 + 128 * chance, 13, "guide")
    picture.line(6 + 128 * low, 8, 6 + 128 * high, 8, f"whisker v{kind}")
    picture.mark(6 + 128 * accuracy, 8, kind, 3.6)
    return picture.markup("inline")


def drift_chart(each: AnnotatorOverTime) -> Markup:
    """Accuracy in stretches of time with its interval, and where it changed."""
    assert each.changed_at and each.before and each.after
    first, last, change = (moment.timestamp() for moment in (each.first, each.last, each.changed_at))
    starts, shares, lows, highs = each.stretches.T
    lowest = min(float(lows.min(initial=1.0)), each.before[1], each.after[1])
    span = (first, max(last, first + 1))
    plot = Plot(320, 190, "Accuracy over time", f"{each.change}.", x=span, y=(max(lowest - 0.05, 0), 1))
    plot.y_axis("accuracy", percent, about=4)
    for moment, anchor in ((each.first, "start"), (each.last, "end")):
        plot.text(plot.x(moment.timestamp()), plot.bottom + 16, f"{moment:%Y-%m-%d}", "tick", anchor)
    for start, end, (share, low, high) in ((first, change, each.before), (change, last, each.after)):
        plot.zone((start, end), (low, high), "band outer")
        plot.line(plot.x(start), plot.y(share), plot.x(end), plot.y(share), "curve s0")
    for x, share, low, high in zip((starts + np.append(starts[1:], last)) / 2, shares, lows, highs, strict=True):
        plot.line(plot.x(x), plot.y(low), plot.x(x), plot.y(high), "thread")
        plot.add("circle", hint=f"{percent(share)}, {percent_range(low, high)}", cx=plot.x(x), cy=plot.y(share), r=3,
                 class_="spot s0")  # fmt: skip
    return plot.markup("chart times")


# -------------------------------------------------------------------- training


def thinned(n: int) -> npt.NDArray[np.int64]:
    """At most `POINTS` of n indices, first and last among them."""
    return np.unique(np.linspace(0, n - 1, min(n, POINTS)).round().astype(np.int64))


def line_chart(
    title: str, x: Floats, y: Floats, x_label: str, y_label: str, label_of: Callable[[float], str] = compact
) -> Markup:
    """A curve. `x` and `y` are (points,); what is not finite is left out."""
    x, y = x[np.isfinite(y)], y[np.isfinite(y)]
    low, high = float(y.min()), float(y.max())
    margin = 0.06 * (high - low) or 0.05 * abs(high) or 1.0  # a flat curve lies in the middle
    x_range = (float(x.min()), float(x.max()))
    ends = f"from {label_of(float(y[0]))} to {label_of(float(y[-1]))}."
    plot = Plot(500, 280, title, ends, x=x_range, y=(low - margin, high + margin))
    plot.y_axis(y_label, label_of)
    plot.x_axis(x_label)
    rows = thinned(len(x))
    plot.path(plot.points(x[rows], y[rows]), "curve s0")
    return plot.markup("chart half")


def reliability(sure: Floats, confirmed: Floats, share: Floats, y_label: str) -> Markup:
    """How often the model is confirmed, by how sure it is of itself, and which share of the items that is. (bins,)

    On the diagonal it is as right as it claims.
    """
    bins = list(zip(sure.tolist(), confirmed.tolist(), share.tolist(), strict=True))
    description = "; ".join(f"confidence {percent(a)}: {percent(b)} of {percent(c)} of items" for a, b, c in bins)
    title = "Calibration: confidence of the model, and how often it is confirmed"
    plot = Plot(500, 300, title, description, x=(0, 1), y=(0, 1))
    plot.y_axis(y_label, percent)
    plot.x_axis("confidence of the model", percent, 5)
    plot.line(plot.x(0), plot.y(0), plot.x(1), plot.y(1), "guide")
    plot.path(plot.points(sure, confirmed), "curve s0 faint")
    for a, b, c in bins:
        hint = f"confidence {percent(a)}, {percent(b)} confirmed; {percent(c)} of the items"
        radius = 3 + 13 * float(np.sqrt(c))  # its area grows with the share
        plot.add("circle", hint=hint, cx=plot.x(a), cy=plot.y(b), r=radius, class_="bubble")
    return plot.markup("chart half")
