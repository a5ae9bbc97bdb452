"""Judges who were asked twice, with the options in two orders: one annotator each, and how often the order decided.

One answer in both orders is one annotation. If the answers differ, the order decided, and they say nothing of the item:
neither is kept, and they are counted. The labels of both orders must be in the order of the table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from realm.data.annotations import Annotations
from realm.data.ledger import ROWS_KEPT
from realm.data.roles import listed
from realm.errors import RealmError

Counts = npt.NDArray[np.int64]
SAME = "asked in two orders, with the same answer: one annotation"
TORN = "asked in two orders, with different answers: neither is kept"


@dataclass(frozen=True)
class OrderHabits:
    """What the order of the options did to each annotator. Shapes (annotators,)."""

    asked_twice: Counts  # items that the annotator labelled in both orders
    torn: Counts  # of these, items with another answer in the other order
    first_shown: Counts  # of the torn ones with two options, those where the first shown was taken both times


def join_orders(annotations: Annotations, suffix: str) -> tuple[Annotations, OrderHabits]:
    """Make one annotator of NAME and NAME + `suffix`, whose options were shown in the other order."""
    names = annotations.annotators
    is_swapped = np.array([bool(suffix) and name.endswith(suffix) and name != suffix for name in names])
    if not is_swapped.any():
        there = listed(names)
        raise RealmError(f'`order_suffix="{suffix}"`: the name of no annotator ends so. There are: {there}.')
    own = [name.removesuffix(suffix) if swapped else name for name, swapped in zip(names, is_swapped, strict=True)]
    joined = {name: index for index, name in enumerate(dict.fromkeys(own))}
    annotator = np.array([joined[name] for name in own], dtype=np.int32)[annotations.annotator]
    pair = annotations.item.astype(np.int64) * len(joined) + annotator
    order = np.lexsort((is_swapped[annotations.annotator], pair))
    starts = np.flatnonzero(pair[order[:-1]] == pair[order[1:]])
    plain, other = order[starts], order[starts + 1]
    torn = annotations.label[plain] != annotations.label[other]
    keep = np.ones(annotations.n_annotations, dtype=bool)
    keep[other] = keep[plain[torn]] = False
    if not keep.any():
        raise RealmError(f'`order_suffix="{suffix}"`: no answer is the same in both orders: nothing is left.')
    ledger = annotations.ledger.copy()
    for reason, mask in ((SAME, ~torn), (TORN, torn)):
        source = annotations.source_rows
        rows = [] if source is None else np.sort(source[other[mask]])[:ROWS_KEPT].tolist()
        ledger.add(reason, rows, int(mask.sum()))
    two = annotations.option_counts[annotations.item[plain]] == 2
    first = torn & two & (annotations.label[plain] == 0)  # the first of the table, and then the first of the other
    habits = OrderHabits(
        asked_twice=np.bincount(annotator[plain], minlength=len(joined)),
        torn=np.bincount(annotator[plain[torn]], minlength=len(joined)),
        first_shown=np.bincount(annotator[plain[first]], minlength=len(joined)),
    )
    groups = None
    if annotations.groups is not None:
        groups = tuple(dict(zip(reversed(own), reversed(annotations.groups), strict=True))[name] for name in joined)
    table = replace(annotations, annotators=tuple(joined), annotator=annotator, ledger=ledger, groups=groups)
    return table.keep_annotations(keep), habits
