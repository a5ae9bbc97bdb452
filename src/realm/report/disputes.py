"""What is disputed between whom: how far every two annotators agree, which labels meet, who confuses what."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from realm.crowd.peers import DisputedLabels, disputed_labels
from realm.report.escaping import clipped
from realm.report.run_data import RunData
from realm.report.svg import Picture, number, percent, percent_range
from realm.report.wording import TENTATIVE

MATRIX = 16
"""Most annotators of a drawn matrix: its figures stay legible, and on a phone the list says the same."""
PAIRS, LABEL_PAIRS, CONFUSED = 10, 8, 15
"""Most rows of each list: what a person reads through."""
NAME, LABEL = 48, 40


@dataclass(frozen=True)
class Disputes:
    """The section as the template shows it; parts that do not apply are empty."""

    sentences: list[str]
    matrix: Markup | None
    least: list[dict[str, str]]
    most: list[dict[str, str]]
    labels: list[dict[str, str]]
    labels_more: int
    confused: list[dict[str, str]]
    confused_more: int


def disputes(data: RunData) -> Disputes:
    """Who agrees with whom, which labels are disputed, and who takes which label for which."""
    peers = data.peers
    low, high = peers.bounds()
    least = np.argsort(high, kind="stable")[:PAIRS].tolist()
    most = [row for row in np.argsort(-low, kind="stable")[:PAIRS].tolist() if row not in least]
    labels, n_labels = _labels(data)
    confused, n_confused = _confused(data)
    return Disputes(
        sentences=_sentences(data),
        matrix=_matrix(data),
        least=[_pair(data, row) for row in least],
        most=[_pair(data, row) for row in most],
        labels=labels,
        labels_more=n_labels - len(labels),
        confused=confused,
        confused_more=n_confused - len(confused),
    )


def _sentences(data: RunData) -> list[str]:
    """How far annotators agree beyond chance, and how often two of them give the same label."""
    sentences = []
    alphas = {clipped(name, 40): alpha for name, alpha in data.alpha.items() if alpha is not None}
    if alphas:
        named = [f"{name} {alpha:.2f}" if data.several_tasks else f"{alpha:.2f}" for name, alpha in alphas.items()]
        reading = "1 is full agreement, 0 what chance would give"
        if low := [name for name, alpha in alphas.items() if alpha < TENTATIVE]:
            where = "" if len(low) == len(alphas) else f" in {', '.join(low)}"
            reading += f"; below {TENTATIVE}, as here{where}, a majority vote is a weak guide"
        sentences.append(f"Agreement (Krippendorff's alpha): {', '.join(named)}. {reading}.")
    peers = data.peers
    if len(peers.first):
        share = float(peers.same.sum() / peers.shared.sum())
        sentences.append(
            f"Two annotators who labelled the same item gave the same label {percent(share)} of the time "
            f"({len(peers.first):,} pairs of annotators with 10 items in common or more)."
        )
    else:
        sentences.append("No two annotators have 10 items in common, so pairs cannot be compared.")
    return sentences


def _pair(data: RunData, row: int) -> dict[str, str]:
    peers, names = data.peers, data.annotations.annotators
    low, high = (float(bound[row]) for bound in peers.bounds())
    return {
        "first": clipped(names[peers.first[row]], NAME),
        "second": clipped(names[peers.second[row]], NAME),
        "same": percent(float(peers.share[row])),
        "interval": percent_range(low, high),
        "shared": f"{peers.shared[row]:,}",
    }


def _matrix(data: RunData) -> Markup | None:
    """Every two annotators: how often they gave the same label. None where there are too many, or none to compare."""
    peers, counts = data.peers, data.annotations.annotations_per_annotator
    present = np.flatnonzero(counts)
    if not len(peers.first) or not 2 < len(present) <= MATRIX:
        return None
    weighted = np.nansum(data.estimate.accuracy * data.estimate.annotations, axis=1) / np.maximum(counts, 1)
    order = present[np.argsort(-weighted[present], kind="stable")]
    place = {int(annotator): index for index, annotator in enumerate(order)}
    share = np.full((len(order), len(order)), np.nan)
    shared = np.zeros((len(order), len(order)), np.int64)
    for first, second, n, same in zip(peers.first, peers.second, peers.shared, peers.same, strict=True):
        a, b = place[int(first)], place[int(second)]
        share[a, b] = share[b, a] = same / n
        shared[a, b] = shared[b, a] = n
    names = [data.annotations.annotators[annotator] for annotator in order]
    return agreement_picture(names, share, shared)


def agreement_picture(names: list[str], share: np.ndarray, shared: np.ndarray) -> Markup:
    """The matrix of agreement: the darker, the more often two annotators gave the same label. (names, names) each"""
    left, top, height = 130.0, 74.0, 26.0
    width = min(max(560.0 / len(names), 40.0), 64.0)
    finite = share[np.isfinite(share)]
    lowest, highest = float(finite.min(initial=1.0)), float(finite.max(initial=0.0))
    description = f"{len(names)} annotators, the most accurate first; two of them agree on {percent(lowest)} to "
    description += f"{percent(highest)} of the items that both labelled."
    size = (left + width * len(names) + 70, top + height * len(names) + 6)
    picture = Picture(*size, "How often every two annotators gave the same label", description)
    for column, name in enumerate(names):
        x, y = left + width * (column + 0.5) - 6, top - 8
        picture.add("text", clipped(name, 14), hint=name, x=x, y=y, class_="name",
                    transform=f"rotate(-32 {number(x)} {number(y)})")  # fmt: skip
    for row, name in enumerate(names):
        y = top + height * row
        picture.text(left - 10, y + height / 2 + 4, clipped(name, 17), "name", "end", hint=name)
        for column, other in enumerate(names):
            x, value = left + width * column, float(share[row, column])
            if row == column or not np.isfinite(value):
                picture.add("rect", x=x, y=y, width=width - 2, height=height - 2, rx=3, class_="cell none")
                continue
            strength = (value - lowest) / max(highest - lowest, 1e-9)
            hint = f"{name} and {other}: {percent(value)} of {shared[row, column]:,} items"
            picture.add("rect", hint=hint, x=x, y=y, width=width - 2, height=height - 2, rx=3, class_="cell above",
                        fill_opacity=f"{0.06 + 0.86 * strength:.2f}")  # fmt: skip
            ink = "strong" if strength > 0.55 else ""
            picture.text(x + width / 2 - 1, y + height / 2 + 3, percent(value), f"heat {ink}", "middle")
    return picture.markup("chart natural")


def _labels(data: RunData) -> tuple[list[dict[str, str]], int]:
    """The labels that were given to the same items, the most frequent first, and how many such pairs there are."""
    found: DisputedLabels = disputed_labels(data.annotations, data.labels)
    rows = []
    for row in range(min(len(found.items), LABEL_PAIRS)):
        task, names = int(found.task[row]), data.label_names(int(found.task[row]))
        of_task = int(((data.annotations.item_tasks == task) & (data.annotations.annotations_per_item > 1)).sum())
        first, second = clipped(names[found.first[row]], LABEL), clipped(names[found.second[row]], LABEL)
        items = int(found.items[row])
        rows.append(
            {
                "task": clipped(data.task_names[task], LABEL),
                "first": first,
                "second": second,
                "n_items": f"{items:,}",
                "share": percent(items / max(of_task, 1)),
                "cleaned_first": percent(found.cleaned_first[row] / items),
                "cleaned_second": percent(found.cleaned_second[row] / items),
            }
        )
    return rows, len(found.items)


def _confused(data: RunData) -> tuple[list[dict[str, str]], int]:
    """Who takes which label for which beyond chance, and how many such cases there are."""
    confused = data.screens.confused
    rows = []
    for each in confused[:CONFUSED]:
        names = data.label_names(each.task)
        rows.append(
            {
                "name": clipped(data.pair_name(each.annotator * len(data.annotations.tasks) + each.task), NAME),
                "cleaned": clipped(names[each.truth], LABEL),
                "given": clipped(names[each.given], LABEL),
                "times": f"{each.times:,} of {each.of:,}",
                "share": percent(each.share),
                "others": percent(each.others),
            }
        )
    return rows, len(confused)
