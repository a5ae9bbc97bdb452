"""Charts of annotators: how many have which verdict, each with an interval, and annotator by task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from realm.crowd.engine import Floats
from realm.crowd.verdicts import VERDICTS
from realm.report.chart_data import Pool
from realm.report.escaping import clipped
from realm.report.svg import Picture, Plot, number, percent, percent_range

LISTED, LISTED_BESIDE = 60, 15
"""Up to so many annotators have a line with their name (where one pool is drawn, where several are); more, a curve."""
DRAWN = 320
"""Of a large pool so many annotators are drawn, evenly over the ranks."""
HEAT_ROWS, HEAT_COLUMNS = 40, 16
"""Most annotators and tasks of a heat map: it stays on one screen and its figures legible."""
UNSURE = VERDICTS.index("not enough evidence")
ROW = 22
"""Height of a line, for text of 12 pixels."""
FIGURE_WIDTH = 7.4
"""Most that a character of the figures beside a line takes, on average, in the widest of the page's fonts."""


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


def verdict_bars(rows: Sequence[tuple[str, Sequence[int]]]) -> Markup:
    """Stacked bars: how a total divides among the verdicts. Each row has a name and a count per verdict."""
    description = "; ".join(f"{name}: {verdict_words(counts)}" for name, counts in rows)
    left, width, height, gap = 122.0, 480.0, 28.0, 9.0
    title = "How the annotators divide among the verdicts"
    picture = Picture(left + width + 4, len(rows) * (height + gap), title, description)
    for index, (name, counts) in enumerate(rows):
        y, x, total = index * (height + gap), left, max(sum(counts), 1)
        picture.text(left - 12, y + height / 2 + 5, clipped(name, 17), "name", "end", hint=name)
        for kind, count in enumerate(counts):
            if not count:
                continue
            span, share = width * count / total, percent(count / total)
            hint = f"{VERDICTS[kind]}: {count:,} ({share})"
            picture.add("rect", hint=hint, x=x, y=y, width=max(span - 2, 1), height=height, rx=3, class_=f"bar v{kind}")
            if span > 34:  # the figure has room inside
                picture.text(x + span / 2 - 1, y + height / 2 + 5, share, f"inside on{kind}", "middle")
            x += span
    return picture.markup("chart bars")


def verdict_words(counts: Sequence[int]) -> str:
    """How many there are of each verdict, in words."""
    return ", ".join(f"{count:,} {verdict}" for verdict, count in zip(VERDICTS, counts, strict=True))


def interval_rows(
    title: str,
    description: str,
    rows: Sequence[Row],
    *,
    domain: tuple[float, float],
    guides: Sequence[tuple[float, str]] = (),
    zones: Sequence[tuple[float, float, str]] = (),
    label_of: Callable[[float], str] = percent,
    beside: bool = False,
    narrow: bool = False,
) -> Markup:
    """A line per row: a mark with its interval, the same in figures, guides and shaded zones behind."""
    margins = (30.0, 118.0, 42.0, 134.0) if beside else (30.0, 158.0, 42.0, 168.0)
    width, letters = (500, 16) if beside else (760, 22)
    if narrow:
        margins, width, letters = (30.0, 122.0, 42.0, 88.0), 350, 11
    elif not beside:
        longest = max((len(row.note) for row in rows), default=0)
        margins = (margins[0], max(margins[1], FIGURE_WIDTH * longest + 16.0), *margins[2:])
    height = margins[0] + ROW * len(rows) + margins[2]
    plot = Plot(width, height, title, description, x=domain, y=(0, 1), margins=margins)
    for low, high, class_ in zones:
        first, last = plot.x(max(low, domain[0])), plot.x(min(high, domain[1]))
        plot.add("rect", x=first, y=plot.top, width=max(last - first, 0), height=plot.bottom - plot.top, class_=class_)
    plot.x_axis("", label_of, 3 if narrow else 6)
    for value, name in guides:
        plot.line(plot.x(value), plot.top - 4, plot.x(value), plot.bottom, "guide")
        plot.text(plot.x(value), plot.top - 10, name, "axis", "middle")
    for index, row in enumerate(rows):
        y = plot.top + ROW * (index + 0.5)
        low, high = (float(np.clip(value, *domain)) for value in (row.low, row.high))
        plot.text(plot.left - 12, y + 4, clipped(row.name, letters), "name", "end", hint=row.name)
        plot.line(plot.x(low), y, plot.x(high), y, f"whisker v{row.kind}")
        for value in row.dots:
            plot.add("circle", cx=plot.x(value), cy=y, r=2.6, class_="dot")
        plot.mark(plot.x(float(np.clip(row.middle, *domain))), y, row.kind, 4.5, hint=f"{row.name}: {row.note}")
        plot.text(plot.right + 12, y + 4, row.note, "figure")
    return plot.markup("chart narrow" if narrow else "chart half" if beside else "chart wide")


def ranking(pool: Pool, *, beside: bool = False, narrow: bool = False) -> Markup:
    """The annotators of a task by accuracy: with names where they are few, as a curve where they are many.

    `beside` makes the picture smaller, to stand beside those of other tasks; `narrow` is for a telephone.
    """
    words = verdict_words([int((pool.verdict == kind).sum()) for kind in range(len(VERDICTS))])
    title = f"Accuracy of {len(pool.names):,} annotators with 95% intervals" + (f", {pool.task}" if pool.task else "")
    constant = f"Always giving the most frequent label would be right {percent(pool.chance)} of the time."
    description = f"Ranked by accuracy: {words}. {constant}"
    weak, strong = pool.thresholds
    zones = [(0.0, weak, "zone low"), (strong, 1.0, "zone high")]
    if len(pool.names) <= (LISTED_BESIDE if beside else LISTED):
        rows = []
        for i, name in enumerate(pool.names):
            accuracy, low, high = float(pool.accuracy[i]), float(pool.low[i]), float(pool.high[i])
            note = f"{percent(accuracy)}  ({percent_range(low, high)})"
            rows.append(Row(name, accuracy, low, high, note, int(pool.verdict[i])))
        guides = [(pool.chance, "chance")]
        return interval_rows(
            title, description, rows, domain=(0, 1), guides=guides, zones=zones, beside=beside, narrow=narrow
        )
    return _curve(pool, title, description, zones, beside or narrow, narrow)


def _curve(
    pool: Pool, title: str, description: str, zones: Sequence[tuple[float, float, str]], beside: bool, narrow: bool
) -> Markup:
    width = 350 if narrow else 500 if beside else 1000
    plot = Plot(width, 280 if beside else 380, title, description, x=(1, len(pool.names)), y=(0, 1))
    for low, high, class_ in zones:
        plot.add("rect", x=plot.left, y=plot.y(high), width=plot.right - plot.left, height=plot.y(low) - plot.y(high),
                 class_=class_)  # fmt: skip
    plot.y_axis("accuracy", percent)
    plot.x_axis("annotators, from the most to the least accurate", about=4 if narrow else 6)
    most = DRAWN // 4 if narrow else DRAWN // 2 if beside else DRAWN
    ranks = np.unique(np.linspace(0, len(pool.names) - 1, most).round().astype(int)).tolist()
    for i in ranks:
        plot.line(plot.x(i + 1), plot.y(pool.low[i]), plot.x(i + 1), plot.y(pool.high[i]), f"hair v{pool.verdict[i]}")
    plot.line(plot.left, plot.y(pool.chance), plot.right, plot.y(pool.chance), "guide")
    plot.text(plot.left + 8, plot.y(pool.chance) - 5, "chance", "axis")
    for i in ranks:
        name = clipped(pool.names[i], 48)
        hint = f"{name}: {percent(pool.accuracy[i])} ({percent(pool.low[i])} to {percent(pool.high[i])})"
        plot.mark(plot.x(i + 1), plot.y(pool.accuracy[i]), int(pool.verdict[i]), 2.6, hint=hint)
    return plot.markup("chart narrow" if narrow else "chart half" if beside else "chart full")


def heat_map(
    names: Sequence[str], tasks: Sequence[str], beta: Floats, accuracy: Floats, verdict: npt.NDArray[np.int64]
) -> Markup:
    """Annotator by task: the colour says how far above or below chance, the figure is the accuracy. (names, tasks)"""
    left, top, height = 180.0, 70.0, 24.0
    width = min(max(620.0 / max(len(tasks), 1), 56.0), 130.0)  # of a cell: they share a page, and hold a figure
    filled = int(np.isfinite(beta).sum())
    picture = Picture(
        left + width * len(tasks) + 60,
        top + height * len(names) + 6,
        "Accuracy by annotator and task",
        f"{len(names)} annotators by {len(tasks)} tasks, {filled} cells with annotations. "
        "Blue is better than chance, orange-red worse; on figures in italics there is not enough evidence.",
    )
    for column, task in enumerate(tasks):
        x, y = left + width * (column + 0.5) - 6, top - 10
        picture.add("text", clipped(task, 16), hint=task, x=x, y=y, class_="name",
                    transform=f"rotate(-32 {number(x)} {number(y)})")  # fmt: skip
    for row, name in enumerate(names):
        y = top + height * row
        picture.text(left - 12, y + height / 2 + 4, clipped(name, 24), "name", "end", hint=name)
        for column, task in enumerate(tasks):
            x = left + width * column
            value = float(beta[row, column])
            if not np.isfinite(value):
                picture.add("rect", x=x, y=y, width=width - 3, height=height - 3, rx=3, class_="cell none")
                continue
            kind = int(verdict[row, column])
            strength = min(abs(value) if value > 0 else 2 * abs(value), 1.0)  # below chance there is less room
            figure = percent(accuracy[row, column])
            hint = f"{name}, {task}: accuracy {figure}, {VERDICTS[kind]}"
            side = "above" if value > 0 else "below"
            picture.add("rect", hint=hint, x=x, y=y, width=width - 3, height=height - 3, rx=3, class_=f"cell {side}",
                        fill_opacity=f"{0.06 + 0.9 * strength:.2f}")  # fmt: skip
            ink = "strong" if strength > 0.55 else "unsure" if kind == UNSURE else ""
            picture.text(x + width / 2 - 1.5, y + height / 2 + 3, figure, f"heat {ink}", "middle")
    return picture.markup("chart natural")


def small_interval(accuracy: float, low: float, high: float, chance: float, kind: int) -> Markup:
    """The interval bar in a row of the table; the page's script draws the same."""
    title = f"{percent(accuracy)}, 95% interval {percent(low)} to {percent(high)}"
    picture = Picture(140, 16, title, f"Always the most frequent label: right {percent(chance)} of the time.")
    picture.line(6, 8, 134, 8, "track")
    picture.line(6 + 128 * chance, 3, 6 + 128 * chance, 13, "guide")
    picture.line(6 + 128 * low, 8, 6 + 128 * high, 8, f"whisker v{kind}")
    picture.mark(6 + 128 * accuracy, 8, kind, 3.6)
    return picture.markup("inline")
