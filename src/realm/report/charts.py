"""Pictures of figures: learning curves, expertise while it was learned, calibration, confidence, label balance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from realm.crowd.evidence import Floats
from realm.report.svg import Picture, Plot, compact, percent, shortened

POINTS = 240
"""A curve has at most so many points."""
LINES = 36
"""So many annotators have a line of their own while expertise was learned."""
SERIES = 6


@dataclass(frozen=True)
class Series:
    """One curve. Shapes (points,)."""

    name: str
    x: Floats
    y: Floats


def thinned(n: int) -> npt.NDArray[np.int64]:
    """At most `POINTS` of n indices, first and last among them."""
    return np.unique(np.linspace(0, n - 1, min(n, POINTS)).round().astype(np.int64))


def line_chart(
    title: str,
    series: Sequence[Series],
    x_label: str,
    y_label: str,
    shown: Callable[[float], str] = compact,
    unit: bool = False,
) -> Markup:
    """Curves over training steps, in up to six colours. `unit` fixes the vertical axis to 0 to 1."""
    series = [one for one in series if len(one.x)][:SERIES]
    every_x, every_y = (np.concatenate([getattr(one, axis) for one in series]) for axis in ("x", "y"))
    every_y = every_y[np.isfinite(every_y)]
    low, high = (0.0, 1.0) if unit else (float(every_y.min(initial=np.inf)), float(every_y.max(initial=-np.inf)))
    room = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
    ends = "; ".join(f"{one.name}: from {shown(one.y[0])} to {shown(one.y[-1])}" for one in series)
    plot = Plot(
        500, 280, title, f"{ends}.", x=(float(every_x.min()), float(every_x.max())),
        y=(low, high) if unit else (low - room, high + room),
    )  # fmt: skip
    plot.y_axis(y_label, shown)
    plot.x_axis(x_label)
    for index, one in enumerate(series):
        kept = thinned(len(one.x))
        points = [(plot.x(x), plot.y(y)) for x, y in zip(one.x[kept], one.y[kept], strict=True) if np.isfinite(y)]
        plot.path(points, f"curve s{index}", hint=one.name)
        if len(points) == 1:
            plot.add("circle", cx=points[0][0], cy=points[0][1], r=4, class_=f"spot s{index}")
        if len(series) > 1:
            plot.text(plot.right - 4, plot.top + 14 + 16 * index, shortened(one.name, 28), f"key s{index}", "end")
    return plot.markup("chart half")


def fan(steps: npt.NDArray[np.int64], expertise: Floats, kinds: npt.NDArray[np.int64], names: Sequence[str]) -> Markup:
    """Expertise while it was learned: bands for a large pool, and lines for some annotators of all ranks.

    `expertise` is (steps, annotators); `kinds` (annotators,) are verdicts, -1 where not known.
    """
    kept = thinned(len(steps))
    steps, expertise = steps[kept], expertise[kept]
    last = expertise[-1]
    plot = Plot(
        500, 280, "Expertise of each annotator during training",
        f"{expertise.shape[1]:,} annotators; at the end the lower quarter is below {np.quantile(last, 0.25):.2f}, "
        f"the upper quarter above {np.quantile(last, 0.75):.2f}.",
        x=(float(steps[0]), float(steps[-1])), y=(0, 1),
    )  # fmt: skip
    plot.y_axis("expertise (trained)")
    plot.x_axis("training step")
    if expertise.shape[1] > LINES:
        for outer, inner, class_ in ((0.05, 0.95, "band outer"), (0.25, 0.75, "band inner")):
            low, high = np.quantile(expertise, [outer, inner], axis=1)
            there = [(plot.x(x), plot.y(y)) for x, y in zip(steps, high, strict=True)]
            back = [(plot.x(x), plot.y(y)) for x, y in zip(steps[::-1], low[::-1], strict=True)]
            plot.path(there + back, class_, closed=True, hint=f"{percent(inner - outer)} of all annotators")
        middle = np.median(expertise, axis=1)
        plot.path([(plot.x(x), plot.y(y)) for x, y in zip(steps, middle, strict=True)], "curve median", hint="median")
    order = np.argsort(last, kind="stable")
    drawn = order if len(order) <= LINES else order[np.linspace(0, len(order) - 1, LINES // 2).round().astype(int)]
    for person in drawn.tolist():
        points = [(plot.x(x), plot.y(y)) for x, y in zip(steps, expertise[:, person], strict=True)]
        class_ = f"thread v{kinds[person]}" if kinds[person] >= 0 else "thread"
        plot.path(points, class_, hint=f"{names[person]}: {last[person]:.2f}" if names else "")
    return plot.markup("chart half")


def reliability(sure: Floats, right: Floats, share: Floats, y_label: str) -> Markup:
    """How often the model is confirmed, by how sure it is of itself; on the diagonal it is as right as it claims.

    All have shape (bins,): mean confidence, how often confirmed, share of the items.
    """
    said = "; ".join(
        f"{percent(s)} sure: {percent(r)} of {percent(h)} of items" for s, r, h in zip(sure, right, share, strict=True)
    )
    plot = Plot(500, 300, "Calibration: how sure the model is, and how often it is confirmed", said, x=(0, 1), y=(0, 1))
    plot.y_axis(y_label, percent)
    plot.x_axis("how sure the model is", percent, 5)
    plot.line(plot.x(0), plot.y(0), plot.x(1), plot.y(1), "guide")
    plot.path([(plot.x(s), plot.y(r)) for s, r in zip(sure, right, strict=True)], "curve s0 faint")
    for s, r, h in zip(sure, right, share, strict=True):
        hint = f"{percent(s)} sure, {percent(r)} confirmed; {percent(h)} of the items"
        plot.add("circle", hint=hint, cx=plot.x(s), cy=plot.y(r), r=3 + 13 * float(np.sqrt(h)), class_="bubble")
    return plot.markup("chart half")


def histogram(title: str, counts: npt.NDArray[np.int64], edges: Floats, x_label: str) -> Markup:
    """Bars of shares over the bins between `edges` (percentages)."""
    shares = counts / max(int(counts.sum()), 1)
    said = ", ".join(
        f"{percent(edges[i])} to {percent(edges[i + 1])}: {counts[i]:,}" for i in range(len(counts)) if counts[i]
    )
    top = float(shares.max(initial=0.0)) or 1.0
    plot = Plot(500, 300, title, said, x=(float(edges[0]), float(edges[-1])), y=(0, top * 1.12))
    plot.y_axis("share of the items", percent)
    for value in edges[:: max(1, len(edges) // 6)]:
        plot.text(plot.x(float(value)), plot.bottom + 16, percent(float(value)), "tick", "middle")
    plot.text((plot.left + plot.right) / 2, plot.bottom + 33, x_label, "axis", "middle")
    for index, share in enumerate(shares.tolist()):
        x, stop = plot.x(float(edges[index])), plot.x(float(edges[index + 1]))
        hint = f"{percent(edges[index])} to {percent(edges[index + 1])}: {int(counts[index]):,} items"
        if share:
            plot.add("rect", hint=hint, x=x + 1, y=plot.y(share), width=stop - x - 2,
                     height=plot.bottom - plot.y(share), rx=2, class_="fill s0")  # fmt: skip
    return plot.markup("chart half")


def dispute_bars(disputes: Sequence[tuple[str, str, int]]) -> Markup:
    """A bar for each way in which votes and model differ: what the votes say, what the model says, how many items."""
    said = "; ".join(f"votes {voted}, model {model}: {count:,}" for voted, model, count in disputes)
    left, width, tall = 330.0, 330.0, 24.0
    picture = Picture(760, tall * len(disputes) + 22, "What votes and model say where they differ", said)
    picture.text(left / 2 - 22, 12, "votes say", "axis", "end")
    picture.text(left / 2 + 8, 12, "model says", "axis")
    most = max(count for _, _, count in disputes)
    for row, (voted, model, count) in enumerate(disputes):
        y = 22 + tall * row
        picture.text(left / 2 - 22, y + 14, shortened(voted, 22), "name", "end", hint=voted)
        picture.text(left / 2 - 7, y + 14, "→", "axis", "middle")
        picture.text(left / 2 + 8, y + 14, shortened(model, 22), "name", hint=model)
        span = max(width * count / most, 2)
        hint = f"votes {voted}, model {model}: {count:,} items"
        picture.add("rect", hint=hint, x=left, y=y + 2, width=span, height=tall - 8, rx=2, class_="fill s0")
        picture.text(left + span + 8, y + 14, f"{count:,}", "figure")
    return picture.markup("chart wide")


def balance(title: str, labels: Sequence[str], series: Sequence[tuple[str, Floats]]) -> Markup:
    """Each label's share, one thin bar per series (as given, by majority, cleaned). Each series is (labels,)."""
    said = "; ".join(
        f"{name}: " + ", ".join(f"{label} {percent(share)}" for label, share in zip(labels, shares, strict=True))
        for name, shares in series
    )
    left, width, bar, gap = 150.0, 290.0, 9.0, 12.0
    tall = bar * len(series) + gap
    picture = Picture(500, 30 + tall * len(labels), title, said)
    top = max(float(np.max(shares, initial=0.0)) for _, shares in series) or 1.0
    for index, (name, _) in enumerate(series):
        picture.text(left + index * 118, 12, name, f"key s{index}")
    for row, label in enumerate(labels):
        y = 28 + tall * row
        picture.text(left - 10, y + bar * len(series) / 2 + 4, shortened(label, 20), "name", "end", hint=label)
        for index, (name, shares) in enumerate(series):
            span = max(width * float(shares[row]) / top, 1)
            picture.add("rect", hint=f"{label}, {name}: {percent(shares[row])}", x=left, y=y + bar * index, width=span,
                        height=bar - 1.5, rx=2, class_=f"fill s{index}")  # fmt: skip
        picture.text(left + width * max(float(s[row]) for _, s in series) / top + 8, y + bar * len(series) / 2 + 4,
                     percent(series[-1][1][row]), "figure")  # fmt: skip
    return picture.markup("chart half")
