"""A forest plot: the lead of the default in every configuration, with its interval, around a line at zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from realm.lab.plot_panels import Picture

WIDTH, LABEL_WIDTH, ROW = 920.0, 390.0, 21.0
TOP, BOTTOM = 64.0, 40.0
MARKS = ("over noisy", "over the best other method without gold")
STEPS = (1, 2, 5, 10)
"""Points between the lines of the grid: the first of which no more than `MOST_LINES` are needed."""
MOST_LINES = 12


@dataclass(frozen=True)
class ForestRow:
    """A configuration: its name and two leads in points, each with its 95% interval; a heading has none."""

    name: str
    leads: tuple[tuple[float, float, float] | None, ...] = ()


def forest(title: str, rows: Sequence[ForestRow]) -> str:
    """The picture as the text of an SVG file. The first lead is a filled circle, the second a hollow square."""
    values = [value for row in rows for lead in row.leads if lead is not None for value in lead] or [0.0]
    span = max(*values, 0.0) - min(*values, 0.0)
    step = next((one for one in STEPS if span / one <= MOST_LINES), STEPS[-1])
    low, high = step * (min(*values, 0.0) // step), -step * (-max(*values, 0.0) // step) or step
    height = TOP + ROW * len(rows) + BOTTOM
    picture = Picture(WIDTH, height, title, f"{sum(bool(row.leads) for row in rows)} configurations, 95% intervals.")
    picture.add("rect", x=0.0, y=0.0, width=WIDTH, height=height, class_="paper")
    picture.text(12, 22, title, "head")

    def x(value: float) -> float:
        return LABEL_WIDTH + (value - low) / (high - low) * (WIDTH - LABEL_WIDTH - 24)

    for place, name in enumerate(MARKS):
        start = 12.0 + 150 * place
        _mark(picture, place, start + 5, 42)
        picture.text(start + 16, 46, name, "tick")
    bottom = TOP + ROW * len(rows)
    for tick in range(int(low), int(high) + 1, step):
        picture.add("line", x1=x(tick), x2=x(tick), y1=TOP - 6, y2=bottom, class_="guide" if tick == 0 else "grid")
        picture.text(x(tick), bottom + 16, f"{tick:+d}" if tick else "0", "tick", "middle")
    picture.text(x((low + high) / 2), bottom + 32, "lead in test accuracy, points", "axis", "middle")
    for place, row in enumerate(rows):
        y = TOP + ROW * (place + 0.5)
        picture.text(12 if row.leads else 8, y + 4, row.name, "" if row.leads else "head")
        for which, lead in enumerate(row.leads):
            if lead is None:
                continue
            mean, start, end = lead
            offset = y - 4 + 8 * which
            hint = f"{row.name}, {MARKS[which]}: {mean:+.1f} ({start:+.1f} to {end:+.1f})"
            picture.add("line", "", hint, x1=x(start), x2=x(end), y1=offset, y2=offset, class_=f"curve c{which}")
            _mark(picture, which, x(mean), offset, hint)
    return picture.file()


def _mark(picture: Picture, which: int, x: float, y: float, hint: str = "") -> None:
    if which == 0:
        picture.add("circle", "", hint, cx=x, cy=y, r=4.0, class_="spot c0")
    else:
        picture.add("rect", "", hint, x=x - 3.5, y=y - 3.5, width=7.0, height=7.0, class_="hollow c1")
