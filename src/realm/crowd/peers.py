"""Who agrees with whom, and which labels meet on the same items: counts alone, with no model of annotators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from realm.crowd.engine import Floats, Ints, LabelTable
from realm.crowd.label_figures import Labels, count_rows
from realm.data.annotations import Annotations

LEAST_SHARED = 10
"""Items in common below which nothing is said of a pair: their agreement would be known to no better than 0.3."""
Z95 = 1.96


def wilson(shares: npt.ArrayLike, counts: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Wilson's 95% interval of shares of so many, at least one. Arrays of one shape, or numbers."""
    share, n = np.asarray(shares, np.float64), np.maximum(np.asarray(counts, np.float64), 1)
    middle = (share + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
    reach = Z95 / (1 + Z95**2 / n) * np.sqrt(share * (1 - share) / n + Z95**2 / (4 * n**2))
    return np.maximum(middle - reach, 0.0), np.minimum(middle + reach, 1.0)


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
        return wilson(self.share, self.shared)

    def of(self, annotator: int) -> tuple[Ints, Ints]:
        """The others that an annotator can be compared with, and the rows of the pairs."""
        rows = np.flatnonzero((self.first == annotator) | (self.second == annotator))
        return self.first[rows] + self.second[rows] - annotator, rows


def peer_agreement(annotations: Annotations, least_shared: int = LEAST_SHARED) -> PeerAgreement:
    """How often every two of the 1,000 annotators with most labels gave the same label to the same item.

    Example:
        >>> import pandas as pd
        >>> table = Annotations.from_pandas(pd.DataFrame(
        ...     {"text": list("aabbccddee"), "annotator": ["x", "y"] * 5, "label": ["no"] * 8 + ["no", "yes"]}))
        >>> peer_agreement(table, least_shared=5).share.tolist()
        [0.8]
    """
    width = int(annotations.option_counts.max(initial=1))
    columns = annotations.item, annotations.annotator, annotations.label
    pairs = LabelTable(*columns, annotations.n_items, annotations.n_annotators, width).pairs
    first, second = np.nonzero(np.triu(pairs.shared) >= max(least_shared, 1))
    counts = (each[first, second].astype(np.int64) for each in (pairs.shared, pairs.same))
    return PeerAgreement(pairs.annotators[first], pairs.annotators[second], *counts)


@dataclass(frozen=True, eq=False)
class DisputedLabels:
    """Two labels that were both given to some items. Shapes (label pairs,); the most frequent first.

    `items` is on how many, `cleaned_first` and `cleaned_second` on how many of them the cleaned label is either.
    """

    task: Ints
    first: Ints
    second: Ints
    items: Ints
    cleaned_first: Ints
    cleaned_second: Ints


def disputed_labels(annotations: Annotations, labels: Labels) -> DisputedLabels:
    """Which two labels annotators give to the same item. `labels` (items,) are the cleaned labels."""
    (item, label), _, _ = count_rows(annotations.item, annotations.label)
    steps = np.arange(1, np.bincount(item).max(initial=1))  # from a label of an item to another of the same item
    starts = [np.flatnonzero(item[step:] == item[:-step]) for step in steps]
    rows = np.concatenate([np.zeros(0, np.int64), *starts])
    others = rows + np.repeat(steps, [len(each) for each in starts])
    kinds, place, counts = count_rows(annotations.item_tasks[item[rows]], label[rows], label[others])
    cleaned = labels[item[rows]]
    by_label = (np.bincount(place, cleaned == label[each], minlength=len(counts)) for each in (rows, others))
    order = np.argsort(-counts, kind="stable")
    return DisputedLabels(*(values[order].astype(np.int64) for values in (*kinds, counts, *by_label)))
