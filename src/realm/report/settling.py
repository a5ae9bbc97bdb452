"""What is unclear and what it would cost to settle: more labels, how many they put right, and who gives them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from realm.crowd.engine import Floats
from realm.crowd.relabel import relabel_queue, summarise_queue
from realm.display import counted
from realm.report.escaping import clipped
from realm.report.item_lists import TO_RELABEL, Listed, to_relabel
from realm.report.run_data import RunData
from realm.report.svg import percent
from realm.report.wording import UNSURE

MOST = 1_000
"""Labels that are planned at most: beyond, the answers to the first have changed what is worth asking."""
BUDGETS = (25, 50, 100, 250, 500, 1_000)
"""Numbers of labels that are priced: what teams order."""
NEARLY_ALL = 0.98
"""The share of what all planned labels correct from which on more are not priced: the rest goes to sure items."""
WORKLOAD = 12
"""Annotators of the plan that are named."""
NAME = 64


@dataclass(frozen=True)
class Settling:
    """The section as the template shows it: sentences, rows (labels, put right, left wrong, hours) and a workload."""

    sentences: list[str]
    rows: list[tuple[str, str, str, str]]
    hours: bool
    workload: list[tuple[str, str, str]]
    workload_more: int
    items: Listed


def settling(data: RunData) -> Settling:
    """What more labels are expected to buy, by the posterior of each item."""
    unclear = int((data.confidence < UNSURE).sum())
    queue = relabel_queue(data.annotations, data.log_probs, data.estimate, MOST)
    wrong = float((1 - data.confidence).sum())
    gains = np.cumsum(queue["gain_labels"].to_numpy(dtype=np.float64))
    seconds = _seconds_per_label(data)
    sizes = _sizes(gains)
    rows = [
        (
            f"{size:,}",
            f"{gains[size - 1]:,.1f}",
            f"{max(wrong - gains[size - 1], 0.0):,.1f}",
            "" if seconds is None else _duration(size * seconds),
        )
        for size in sizes
    ]
    first = queue.head(TO_RELABEL)
    work = summarise_queue(first, data.estimate).workload
    accuracy = dict(zip(first["ask"], first["ask_accuracy"], strict=True))
    workload = [
        (clipped(name, NAME), f"{count:,}", percent(accuracy[name]))
        for name, count in zip(work["annotator"], work["annotations"], strict=True)
    ]
    return Settling(
        sentences=_sentences(data, unclear, wrong, len(queue)),
        rows=rows,
        hours=seconds is not None,
        workload=workload[:WORKLOAD],
        workload_more=max(len(workload) - WORKLOAD, 0),
        items=to_relabel(data, first),
    )


def _sizes(gains: Floats) -> list[int]:
    """The numbers of labels that are priced, up to that from which on more correct next to nothing."""
    if not len(gains):
        return []
    enough = int(np.searchsorted(gains, NEARLY_ALL * gains[-1])) + 1
    return [*(size for size in BUDGETS if size < enough), enough]


def _sentences(data: RunData, unclear: int, wrong: float, asked: int) -> list[str]:
    n_items = data.annotations.n_items
    below = f"{counted(unclear, 'item')} ({percent(unclear / max(n_items, 1))}) {'has' if unclear == 1 else 'have'}"
    sentences = [
        f"{below} a cleaned label with a confidence below {percent(UNSURE)}."
        if unclear
        else f"Every cleaned label has a confidence of {percent(UNSURE)} or more.",
        f"About {wrong:,.0f} of {counted(n_items, 'cleaned label')} are expected to be wrong.",
    ]
    if not asked:
        sentences.append("Nobody is left to ask: no annotator who is better than chance has an item left to label.")
    if asked and (data.estimate.exponent < 1).any():
        sentences.append(
            "Annotators make the same mistakes here: another label from them tells less than one by somebody else."
        )
    return sentences


def _seconds_per_label(data: RunData) -> float | None:
    """The median time that one label takes, over annotators: lead times, else labels per hour of sessions."""
    leads = np.array([each.lead_time for each in data.times], dtype=np.float64)
    rates = np.array([each.per_hour for each in data.times], dtype=np.float64)
    if np.isfinite(leads).any():
        return float(np.nanmedian(leads))
    if (usable := rates[np.isfinite(rates) & (rates > 0)]).size:
        return float(3600 / np.median(usable))
    return None


def _duration(seconds: float) -> str:
    if seconds < 5400:
        return f"{max(seconds / 60, 1):,.0f} min"
    return f"{seconds / 3600:,.1f} h"
