"""Who agrees with whom, and which labels meet on the same items: counts alone, with no model of annotators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from realm.crowd.engine import Floats, Ints, LabelTable
from realm.crowd.starts import PairAgreement
from realm.data.annotations import Annotations

LEAST_SHARED = 10
"""Items in common below which nothing is said of a pair: their agreement would be known to no better than 0.3."""
Z95 = 1.96


@dataclass(frozen=True, eq=False)
class PeerAgreement:
    """Pairs of annotators with `LEAST_SHARED` items in common or more. Shapes (pairs,); `first` < `second`."""

    first: Ints
    second: Ints
    shared: Ints
    same: Ints

    @property
    def share(self) -> Floats:
        """The share of the items in common on which both gave the same label."""
        return np.asarray(self.same / np.maximum(self.shared, 1))

    def bounds(self) -> tuple[Floats, Floats]:
        """Wilson's 95% interval of `share`."""
        n, share = np.maximum(self.shared, 1).astype(np.float64), self.share
        middle = (share + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
        reach = Z95 / (1 + Z95**2 / n) * np.sqrt(share * (1 - share) / n + Z95**2 / (4 * n**2))
        return middle - reach, middle + reach

    def of(self, annotator: int) -> tuple[Ints, Ints]:
        """The others that an annotator can be compared with, and the rows of the pairs."""
        rows = np.flatnonzero((self.first == annotator) | (self.second == annotator))
        return np.where(self.first[rows] == annotator, self.second[rows], self.first[rows]), rows


def peer_agreement(annotations: Annotations, least_shared: int = LEAST_SHARED) -> PeerAgreement:
    """How often every two annotators gave the same label to the same item; in each task the 1,000 with most labels.

    Example:
        >>> import pandas as pd
        >>> table = Annotations.from_pandas(pd.DataFrame(
        ...     {"text": list("aabbccddee"), "annotator": ["x", "y"] * 5, "label": ["no"] * 8 + ["no", "yes"]}))
        >>> peer_agreement(table, least_shared=5).share.tolist()
        [0.8]
    """
    task, n = annotations.item_tasks[annotations.item], annotations.n_annotators
    width = int(annotations.option_counts.max(initial=1))
    keys, counts = [np.zeros(0, np.int64)], [np.zeros((2, 0))]
    for index in range(len(annotations.tasks)):
        item, annotator, label = (
            column[task == index] for column in (annotations.item, annotations.annotator, annotations.label)
        )
        pairs = PairAgreement(LabelTable(item, annotator, label, annotations.n_items, n, width))
        first, second = np.nonzero(np.triu(pairs.shared))
        keys.append(pairs.annotators[first] * n + pairs.annotators[second])
        counts.append(np.stack([pairs.shared[first, second], pairs.same[first, second]]))
    key, place = np.unique(np.concatenate(keys), return_inverse=True)
    shared, same = (np.bincount(place, each, minlength=len(key)) for each in np.concatenate(counts, axis=1))
    enough = shared >= least_shared
    columns = (key // n, key % n, shared, same)
    return PeerAgreement(*(values[enough].astype(np.int64) for values in columns))


@dataclass(frozen=True, eq=False)
class DisputedLabels:
    """Two labels that were both given to some items. Shapes (label pairs,); the most frequent first.

    | field | meaning |
    |---|---|
    | task, first, second | the task and the two labels |
    | items | on how many items somebody gave the one and somebody the other |
    | cleaned_first, cleaned_second | on how many of them the cleaned label is the one, and the other |
    """

    task: Ints
    first: Ints
    second: Ints
    items: Ints
    cleaned_first: Ints
    cleaned_second: Ints


def disputed_labels(annotations: Annotations, labels: npt.NDArray[np.integer]) -> DisputedLabels:
    """Which two labels annotators give to the same item. `labels` (items,) are the cleaned labels."""
    width = int(annotations.option_counts.max(initial=1))
    slots = np.unique(annotations.item.astype(np.int64) * width + annotations.label)
    item, label = np.divmod(slots, width)
    places = [(np.flatnonzero(item[step:] == item[:-step]), step) for step in range(1, width)]
    at = np.concatenate([at for at, _ in places] or [np.zeros(0, np.int64)])
    other = np.concatenate([at + step for at, step in places] or [np.zeros(0, np.int64)])
    task = annotations.item_tasks[item[at]].astype(np.int64)
    kinds, kind, counts = np.unique(
        (task * width + label[at]) * width + label[other], return_inverse=True, return_counts=True
    )
    cleaned = np.asarray(labels)[item[at]]
    by_first, by_second = (
        np.bincount(kind, cleaned == label[rows], minlength=len(kinds)).astype(np.int64) for rows in (at, other)
    )
    rest, second = np.divmod(kinds, width)
    order = np.argsort(-counts, kind="stable")
    columns = (rest // width, rest % width, second, counts.astype(np.int64), by_first, by_second)
    return DisputedLabels(*(values[order] for values in columns))
