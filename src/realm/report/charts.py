"""Charts of numbers: learning curves, expertise while it was learned, calibration, confidence, label balance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from realm.crowd.engine import Floats
from realm.report.chart_data import Reliability, Series
from realm.report.escaping import clipped
from realm.report.svg import Picture, Plot, compact, percent

POINTS = 240
"""Most points of a curve: two pixels apart at the width of a page."""
LINES = 36
"""Most annotators with a line of their own while expertise was learned; more are not told apart."""
SERIES = 6
"""Most curves of a chart: the style sheet has as many colours."""


def thinned(n: int) -> npt.NDArray[np.int64]:
    """At most `POINTS` of n indices, first and last among them."""
    return np.unique(np.linspace(0, n - 1, min(n, POINTS)).round().astype(np.int64))


def line_chart(
    title: str,
    series: Sequence[Series],
    x_label: str,
    y_label: str,
    label_of: Callable[[float], str] = compact,
) -> Markup:
    """Curves over training steps, in up to six colours."""
    series = [one for one in series if len(one.x)][:SERIES]
    all_x, all_y = (np.concatenate([getattr(one, axis) for one in series]) for axis in ("x", "y"))
    all_y = all_y[np.isfinite(all_y)]
    low, high = float(all_y.min(initial=np.inf)), float(all_y.max(initial=-np.inf))
    margin = 0.06 * (high - low) or 0.05 * abs(high) or 1.0  # a flat curve lies in the middle
    ends = "; ".join(f"{one.name}: from {label_of(one.y[0])} to {label_of(one.y[-1])}" for one in series)
    x_range = (float(all_x.min()), float(all_x.max()))
    plot = Plot(500, 280, title, f"{ends}.", x=x_range, y=(low - margin, high + margin))
    plot.y_axis(y_label, label_of)
    plot.x_axis(x_label)
    for index, one in enumerate(series):
        rows = thinned(len(one.x))
        points = plot.points(one.x[rows], one.y[rows])
        plot.path(points, f"curve s{index}", hint=one.name)
        if len(points) == 1:
            plot.add("circle", cx=points[0][0], cy=points[0][1], r=4, class_=f"spot s{index}")
        if len(series) > 1:
            plot.text(plot.right - 4, plot.top + 14 + 16 * index, clipped(one.name, 28), f"key s{index}", "end")
    return plot.markup("chart half")


def fan(steps: npt.NDArray[np.int64], expertise: Floats, kinds: npt.NDArray[np.int64], names: Sequence[str]) -> Markup:
    """Expertise while it was learned: bands for a large pool, and lines for some annotators of all ranks.

    `expertise` is (steps, annotators); `kinds` (annotators,) are verdicts, -1 where not known.
    """
    rows = thinned(len(steps))
    steps, expertise = steps[rows], expertise[rows]
    last = expertise[-1]
    plot = Plot(
        500, 280, "Expertise of each annotator during training",
        f"{expertise.shape[1]:,} annotators; at the end the lower quarter is below {np.quantile(last, 0.25):.2f}, "
        f"the upper quarter above {np.quantile(last, 0.75):.2f}.",
        x=(float(steps[0]), float(steps[-1])), y=(0, 1),
    )  # fmt: skip
    plot.y_axis("expertise (trained)")
    plot.x_axis("training step")
    order = np.argsort(last, kind="stable")
    if len(order) > LINES:
        for outer, inner, class_ in ((0.05, 0.95, "band outer"), (0.25, 0.75, "band inner")):
            low, high = np.quantile(expertise, [outer, inner], axis=1)
            outline = plot.points(steps, high) + plot.points(steps[::-1], low[::-1])
            plot.path(outline, class_, closed=True, hint=f"{percent(inner - outer)} of all annotators")
        plot.path(plot.points(steps, np.median(expertise, axis=1)), "curve median", hint="median")
        order = order[np.linspace(0, len(order) - 1, LINES // 2).round().astype(int)]
    for row in order.tolist():
        class_ = f"thread v{kinds[row]}" if kinds[row] >= 0 else "thread"
        hint = f"{names[row]}: {last[row]:.2f}" if names else ""
        plot.path(plot.points(steps, expertise[:, row]), class_, hint=hint)
    return plot.markup("chart half")


def reliability(calibration: Reliability, y_label: str) -> Markup:
    """How often the model is confirmed, by how sure it is of itself; on the diagonal it is as right as it claims."""
    bins = list(zip(calibration.sure, calibration.confirmed, calibration.share, strict=True))
    description = "; ".join(
        f"confidence {percent(sure)}: {percent(r)} of {percent(share)} of items" for sure, r, share in bins
    )
    title = "Calibration: confidence of the model, and how often it is confirmed"
    plot = Plot(500, 300, title, description, x=(0, 1), y=(0, 1))
    plot.y_axis(y_label, percent)
    plot.x_axis("confidence of the model", percent, 5)
    plot.line(plot.x(0), plot.y(0), plot.x(1), plot.y(1), "guide")
    plot.path(plot.points(calibration.sure, calibration.confirmed), "curve s0 faint")
    for sure, confirmed, share in bins:
        hint = f"confidence {percent(sure)}, {percent(confirmed)} confirmed; {percent(share)} of the items"
        radius = 3 + 13 * float(np.sqrt(share))  # its area grows with the share
        plot.add("circle", hint=hint, cx=plot.x(sure), cy=plot.y(confirmed), r=radius, class_="bubble")
    return plot.markup("chart half")


def histogram(title: str, counts: npt.NDArray[np.int64], edges: Floats, x_label: str) -> Markup:
    """Bars of shares over the bins between `edges` (percentages)."""
    shares = counts / max(int(counts.sum()), 1)
    names = [f"{percent(low)} to {percent(high)}" for low, high in pairwise(edges)]
    description = ", ".join(f"{name}: {count:,}" for name, count in zip(names, counts, strict=True) if count)
    top = float(shares.max(initial=0.0)) or 1.0
    plot = Plot(500, 300, title, description, x=(float(edges[0]), float(edges[-1])), y=(0, top * 1.12))
    plot.y_axis("share of the items", percent)
    for value in edges[:: max(1, len(edges) // 6)].tolist():
        plot.text(plot.x(value), plot.bottom + 16, percent(value), "tick", "middle")
    plot.text((plot.left + plot.right) / 2, plot.bottom + 33, x_label, "axis", "middle")
    for index, share in enumerate(shares.tolist()):
        x, stop = plot.x(float(edges[index])), plot.x(float(edges[index + 1]))
        if share:
            plot.add("rect", hint=f"{names[index]}: {int(counts[index]):,} items", x=x + 1, y=plot.y(share),
                     width=stop - x - 2, height=plot.bottom - plot.y(share), rx=2, class_="fill s0")  # fmt: skip
    return plot.markup("chart half")


def dispute_bars(disputes: Sequence[tuple[str, str, int]]) -> Markup:
    """A bar for each way in which votes and model differ: what the votes say, what the model says, how many items."""
    description = "; ".join(f"votes {voted}, model {model}: {count:,}" for voted, model, count in disputes)
    left, width, height = 330.0, 330.0, 24.0
    picture = Picture(760, height * len(disputes) + 22, "What votes and model say where they differ", description)
    picture.text(left / 2 - 22, 12, "votes say", "axis", "end")
    picture.text(left / 2 + 8, 12, "model says", "axis")
    most = max(count for _, _, count in disputes)
    for row, (voted, model, count) in enumerate(disputes):
        y = 22 + height * row
        picture.text(left / 2 - 22, y + 14, clipped(voted, 22), "name", "end", hint=voted)
        picture.text(left / 2 - 7, y + 14, "→", "axis", "middle")
        picture.text(left / 2 + 8, y + 14, clipped(model, 22), "name", hint=model)
        span = max(width * count / most, 2)
        hint = f"votes {voted}, model {model}: {count:,} items"
        picture.add("rect", hint=hint, x=left, y=y + 2, width=span, height=height - 8, rx=2, class_="fill s0")
        picture.text(left + span + 8, y + 14, f"{count:,}", "figure")
    return picture.markup("chart wide")


def balance(title: str, labels: Sequence[str], series: Sequence[tuple[str, Floats]]) -> Markup:
    """Each label's share, one thin bar per series (as given, by majority, cleaned). Each series is (labels,)."""
    description = "; ".join(
        f"{name}: " + ", ".join(f"{label} {percent(share)}" for label, share in zip(labels, shares, strict=True))
        for name, shares in series
    )
    left, width, bar, gap = 150.0, 290.0, 9.0, 12.0
    height = bar * len(series) + gap
    picture = Picture(500, 30 + height * len(labels), title, description)
    top = max(float(np.max(shares, initial=0.0)) for _, shares in series) or 1.0
    for index, (name, _) in enumerate(series):
        picture.text(left + index * 118, 12, name, f"key s{index}")
    for row, label in enumerate(labels):
        y = 28 + height * row
        middle = y + bar * len(series) / 2 + 4
        picture.text(left - 10, middle, clipped(label, 20), "name", "end", hint=label)
        for index, (name, shares) in enumerate(series):
            span = max(width * float(shares[row]) / top, 1)
            picture.add("rect", hint=f"{label}, {name}: {percent(shares[row])}", x=left, y=y + bar * index, width=span,
                        height=bar - 1.5, rx=2, class_=f"fill s{index}")  # fmt: skip
        longest = max(float(shares[row]) for _, shares in series)
        picture.text(left + width * longest / top + 8, middle, percent(series[-1][1][row]), "figure")
    return picture.markup("chart half")
