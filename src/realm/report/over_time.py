"""The section on annotators over time: a small chart of each who changed, and who labels how fast."""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup

from realm.crowd.drift import AnnotatorOverTime
from realm.crowd.notes import day, drift_in_words
from realm.report.escaping import clipped
from realm.report.html import Figure
from realm.report.run_data import RunData
from realm.report.svg import Plot, percent, percent_range

CHARTS, ROWS = 12, 50
"""Most charts and rows: what a person looks through."""
NAME = 64
WIDTH, HEIGHT = 320, 190
"""A small chart: three in a row on a wide screen."""


def time_section(data: RunData) -> dict[str, Any] | None:
    """What the template shows; None where annotations have no times."""
    rows = data.times
    if not rows:
        return None
    changed = [each for each in rows if each.drift is not None and each.drift.flagged]
    changed.sort(key=lambda each: each.drift.p_value if each.drift is not None else 1.0)
    judged = sum(each.drift is not None for each in rows)
    return {
        "text": f"The accuracy of {len(changed):,} of {judged:,} annotators with enough labels to tell has changed "
        "by more than chance explains.",
        "charts": [_chart(data, each) for each in changed[:CHARTS]],
        "more": max(len(changed) - CHARTS, 0),
        "rows": [_row(data, each) for each in sorted(rows, key=lambda each: -each.labels)[:ROWS]],
        "rows_more": max(len(rows) - ROWS, 0),
    }


def _name(data: RunData, each: AnnotatorOverTime) -> str:
    return clipped(data.pair_name(each.annotator * len(data.annotations.tasks) + each.task), NAME)


def _chart(data: RunData, each: AnnotatorOverTime) -> Figure:
    assert each.drift is not None
    return Figure(drift_chart(each), _name(data, each), drift_in_words(each.drift))


def drift_chart(each: AnnotatorOverTime) -> Markup:
    """Accuracy in stretches of time with its interval, and where it changed."""
    assert each.drift is not None
    middles = np.append(each.times[1:], each.last)
    middles = (each.times + middles) / 2
    lowest = min(float(each.low.min(initial=1.0)), each.drift.before[1], each.drift.after[1])
    plot = Plot(
        WIDTH, HEIGHT, "Accuracy over time", f"{drift_in_words(each.drift)}.",
        x=(each.first, max(each.last, each.first + 1)), y=(max(lowest - 0.05, 0.0), 1.0),
    )  # fmt: skip
    plot.y_axis("accuracy", percent, about=4)
    for seconds, anchor in ((each.first, "start"), (each.last, "end")):
        plot.text(plot.x(seconds), plot.bottom + 16, day(seconds), "tick", anchor)
    for start, end, (share, low, high) in (
        (each.first, each.drift.time, each.drift.before),
        (each.drift.time, each.last, each.drift.after),
    ):
        outline = [(start, high), (end, high), (end, low), (start, low)]
        plot.path([(plot.x(x), plot.y(y)) for x, y in outline], "band outer", closed=True)
        plot.line(plot.x(start), plot.y(share), plot.x(end), plot.y(share), "curve s0")
    for x, share, low, high in zip(middles, each.accuracy, each.low, each.high, strict=True):
        plot.line(plot.x(x), plot.y(low), plot.x(x), plot.y(high), "thread")
        plot.add("circle", hint=f"{percent(share)}, {percent_range(low, high)}", cx=plot.x(x), cy=plot.y(share), r=3,
                 class_="spot s0")  # fmt: skip
    return plot.markup("chart times")


def _row(data: RunData, each: AnnotatorOverTime) -> dict[str, str]:
    shares = [percent(share) for share in each.accuracy[[0, -1]]] if len(each.accuracy) > 1 else ["", ""]
    return {
        "name": _name(data, each),
        "labels": f"{each.labels:,}",
        "from": day(each.first),
        "to": day(each.last),
        "per_hour": f"{each.per_hour:,.0f}" if np.isfinite(each.per_hour) else "",
        "lead_time": f"{each.lead_time:,.0f} s" if np.isfinite(each.lead_time) else "",
        "first": shares[0],
        "last": shares[1],
        "notes": drift_in_words(each.drift) if each.drift is not None and each.drift.flagged else "",
    }
