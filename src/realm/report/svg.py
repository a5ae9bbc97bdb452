"""Pictures as inline SVG: elements, scales and axes. Colours are classes, so that the page's themes apply to them.

Every value that goes into a picture is escaped here, and every picture has a title and a description for those who
hear the page instead of seeing it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from markupsafe import Markup, escape

from realm.report.escaping import visible

Span = tuple[float, float]

MARKS = (
    "M-1,0a1,1 0 1,0 2,0a1,1 0 1,0 -2,0Z",
    "M-1.2,0l1.2,-1.2l1.2,1.2l-1.2,1.2Z",
    "M-1,0a1,1 0 1,0 2,0a1,1 0 1,0 -2,0Z",
    "M-.9,-.9h1.8v1.8h-1.8Z",
    "M-1,-1l2,2m0,-2l-2,2",
)
"""The mark of each verdict: circle, diamond, ring, square and cross, so that it is never told by colour alone."""
MARK_KINDS = ("", "", " ring", "", " cross")


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
    size = 10.0 ** math.floor(math.log10(span / about))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= span / about * 0.999)
    return [index * step for index in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def element(tag: str, inner: Markup, **attributes: str | float) -> Markup:
    """One element: `class_` is class, `stroke_width` is stroke-width. Values are escaped, `inner` is markup already."""
    start = tag
    for name, value in attributes.items():
        if value != "":
            text = visible(value) if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")
            start += f' {name.rstrip("_").replace("_", "-")}="{escape(text)}"'
    return Markup(f"<{start}>{inner}</{tag}>" if inner else f"<{start}/>")


class Picture:
    """An SVG picture of a given size, filled element by element."""

    def __init__(self, width: float, height: float, title: str, description: str) -> None:
        self.width, self.height = width, height
        self._parts = [Markup("<title>{}</title><desc>{}</desc>").format(visible(title), visible(description))]

    def add(self, tag: str, text: str = "", *, hint: str = "", **attributes: str | float) -> None:
        """An element; `hint` shows when pointed at."""
        inner = Markup(f"<title>{escape(visible(hint))}</title>") if hint else Markup("")
        self._parts.append(element(tag, inner + escape(visible(text)), **attributes))

    def line(self, x1: float, y1: float, x2: float, y2: float, class_: str) -> None:
        self.add("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)

    def text(self, x: float, y: float, text: str, class_: str, anchor: str = "start", **more: str) -> None:
        """Text from data is kept from turning its neighbours around by `unicode-bidi: isolate` in the style sheet."""
        self.add("text", text, x=x, y=y, text_anchor=anchor, class_=class_, **more)

    def mark(self, x: float, y: float, kind: int, size: float, hint: str = "") -> None:
        """The mark of a verdict."""
        place = f"translate({x:.1f} {y:.1f}) scale({size:g})"
        self.add("path", hint=hint, d=MARKS[kind], transform=place, class_=f"mark v{kind}{MARK_KINDS[kind]}")

    def markup(self, class_: str) -> Markup:
        """The whole picture. `class_` decides how it takes its place on the page."""
        size = {"viewBox": f"0 0 {self.width:g} {self.height:g}", "width": self.width, "height": self.height}
        return element("svg", Markup("").join(self._parts), role="img", **size, class_=class_)  # type: ignore[arg-type]


class Plot(Picture):
    """A picture with axes; `x` and `y` give the coordinates of values in these ranges."""

    def __init__(
        self,
        size: Span,
        title: str,
        description: str,
        x_range: Span,
        y_range: Span = (0, 1),
        margins: tuple[float, float, float, float] = (34, 36, 42, 52),  # top, right, bottom, left: room for labels
    ) -> None:
        super().__init__(*size, title, description)
        top, right, bottom, left = margins
        self.left, self.right, self.top, self.bottom = left, size[0] - right, top, size[1] - bottom
        self.x_range, self.y_range = x_range, y_range

    def x(self, value: float) -> float:
        return self.left + _share(value, self.x_range) * (self.right - self.left)

    def y(self, value: float) -> float:
        return self.bottom + _share(value, self.y_range) * (self.top - self.bottom)

    def x_axis(self, label: str, label_of: Callable[[float], str] = compact, about: int = 6) -> None:
        for value in ticks(*self.x_range, about):
            self.line(self.x(value), self.top, self.x(value), self.bottom, "grid")
            self.text(self.x(value), self.bottom + 16, label_of(value), "tick", "middle")
        self.text((self.left + self.right) / 2, self.bottom + 33, label, "axis", "middle")

    def y_axis(self, label: str, label_of: Callable[[float], str] = compact) -> None:
        for value in ticks(*self.y_range):
            self.line(self.left, self.y(value), self.right, self.y(value), "grid")
            self.text(self.left - 7, self.y(value) + 4, label_of(value), "tick", "end")
        # Upright above the axis, so that it can be read without turning one's head.
        self.text(self.left - 40, self.top - 16, label, "axis")


def _share(value: float, span: Span) -> float:
    """How far along a range a value lies; the middle of a range of one value."""
    return (value - span[0]) / (span[1] - span[0]) if span[1] > span[0] else 0.5
