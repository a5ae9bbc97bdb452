"""Pictures as inline SVG: elements, scales and axes. Colours are classes, so that the page's themes apply to them.

Every value that goes into a picture is escaped here, and every picture has a title and a description for those who
hear the page instead of seeing it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from realm.report.escaping import visible

MARKS = (
    "M-1,0a1,1 0 1,0 2,0a1,1 0 1,0 -2,0Z",
    "M-1.2,0l1.2,-1.2l1.2,1.2l-1.2,1.2Z",
    "M-1,0a1,1 0 1,0 2,0a1,1 0 1,0 -2,0Z",
    "M-.9,-.9h1.8v1.8h-1.8Z",
    "M-1,-1l2,2m0,-2l-2,2",
)
"""The mark of each verdict: circle, diamond, ring, square and cross, so that it is never told by colour alone."""
MARK_KINDS = ("", "", " ring", "", " cross")


def number(value: float) -> str:
    """A coordinate in as few characters as it needs."""
    return f"{value:.1f}".removesuffix(".0")


def percent(share: float) -> str:
    return f"{100 * share:.0f}%"


def percent_range(low: float, high: float) -> str:
    return f"{100 * low:.0f}–{percent(high)}"


def compact(value: float) -> str:
    """A tick's label: 0.5, 20, 1,500."""
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.3g}"


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round values that cover low to high; about so many."""
    span = high - low
    if not math.isfinite(span) or span <= 0:
        return [low]
    rough = span / max(about, 1)
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


@dataclass(frozen=True)
class Scale:
    """A straight line from values to coordinates."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        span = self.high - self.low
        share = (value - self.low) / span if span else 0.5
        return self.start + share * (self.stop - self.start)


def element(tag: str, inner: Markup, **attributes: str | float) -> Markup:
    """One element: `class_` is class, `stroke_width` is stroke-width. Values are escaped, `inner` is markup already."""
    start = tag
    for name, value in attributes.items():
        if value != "":
            text = visible(value) if isinstance(value, str) else number(value)
            start += f' {name.rstrip("_").replace("_", "-")}="{escape(text)}"'
    return Markup(f"<{start}>{inner}</{tag}>" if inner else f"<{start}/>")


class Picture:
    """An SVG picture of a given size, filled element by element."""

    def __init__(self, width: float, height: float, title: str, description: str) -> None:
        self.width, self.height = width, height
        self._head = Markup("<title>{}</title><desc>{}</desc>").format(visible(title), visible(description))
        self._parts: list[Markup] = []

    def add(self, tag: str, text: str = "", *, hint: str = "", **attributes: str | float) -> None:
        """An element; `hint` shows when pointed at."""
        inner = escape(visible(text))
        if hint:
            inner = Markup(f"<title>{escape(visible(hint))}</title>{inner}")
        self._parts.append(element(tag, inner, **attributes))

    def line(self, x1: float, y1: float, x2: float, y2: float, class_: str) -> None:
        self.add("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)

    def text(self, x: float, y: float, text: str, class_: str = "", anchor: str = "start", hint: str = "") -> None:
        """Text from data is kept from turning its neighbours around by `unicode-bidi: isolate` in the style sheet."""
        self.add("text", text, hint=hint, x=x, y=y, text_anchor=anchor, class_=class_)

    def tilted(self, x: float, y: float, text: str, hint: str) -> None:
        """The heading of a narrow column."""
        turn = f"rotate(-32 {number(x)} {number(y)})"
        self.add("text", text, hint=hint, x=x, y=y, class_="name", transform=turn)

    def path(self, points: Sequence[tuple[float, float]], class_: str, *, closed: bool = False, hint: str = "") -> None:
        coordinates = "L".join(f"{number(x)},{number(y)}" for x, y in points)
        self.add("path", hint=hint, d=f"M{coordinates}{'Z' if closed else ''}", class_=class_)

    def mark(self, x: float, y: float, kind: int, size: float = 4.0, hint: str = "") -> None:
        """The mark of a verdict."""
        place = f"translate({number(x)} {number(y)}) scale({size:g})"
        self.add("path", hint=hint, d=MARKS[kind], transform=place, class_=f"mark v{kind}{MARK_KINDS[kind]}")

    def markup(self, class_: str = "chart") -> Markup:
        """The whole picture. `class_` decides how it takes its place on the page."""
        box = f"0 0 {number(self.width)} {number(self.height)}"
        inner = self._head + Markup("").join(self._parts)
        return element("svg", inner, viewBox=box, role="img", width=self.width, height=self.height, class_=class_)


class Plot(Picture):
    """A picture with axes: `x` and `y` are its scales."""

    def __init__(
        self,
        width: float,
        height: float,
        title: str,
        description: str,
        *,
        x: tuple[float, float],
        y: tuple[float, float],
        margins: tuple[float, float, float, float] = (34, 24, 42, 52),  # top, right, bottom, left: room for labels
    ) -> None:
        super().__init__(width, height, title, description)
        top, right, bottom, left = margins
        self.left, self.right, self.top, self.bottom = left, width - right, top, height - bottom
        self.x = Scale(*x, self.left, self.right)
        self.y = Scale(*y, self.bottom, self.top)

    def points(self, x: Iterable[float], y: Iterable[float]) -> list[tuple[float, float]]:
        """The coordinates of values; those that are not finite are left out."""
        return [(self.x(a), self.y(b)) for a, b in zip(x, y, strict=True) if math.isfinite(b)]

    def zone(self, x: tuple[float, float], y: tuple[float, float], class_: str) -> None:
        """A shaded rectangle, as far as it lies within the axes."""
        left, right = (self.x(min(max(value, self.x.low), self.x.high)) for value in x)
        bottom, top = (self.y(min(max(value, self.y.low), self.y.high)) for value in y)
        self.add("rect", x=left, y=top, width=max(right - left, 0), height=max(bottom - top, 0), class_=class_)

    def x_axis(self, label: str, label_of: Callable[[float], str] = compact, about: int = 6) -> None:
        for value in ticks(self.x.low, self.x.high, about):
            self.line(self.x(value), self.top, self.x(value), self.bottom, "grid")
            self.text(self.x(value), self.bottom + 16, label_of(value), "tick", "middle")
        self.text((self.left + self.right) / 2, self.bottom + 33, label, "axis", "middle")

    def y_axis(self, label: str, label_of: Callable[[float], str] = compact, about: int = 5) -> None:
        for value in ticks(self.y.low, self.y.high, about):
            self.line(self.left, self.y(value), self.right, self.y(value), "grid")
            self.text(self.left - 7, self.y(value) + 4, label_of(value), "tick", "end")
        # Upright above the axis, so that it can be read without turning one's head.
        self.text(self.left - 40, self.top - 16, label, "axis")
