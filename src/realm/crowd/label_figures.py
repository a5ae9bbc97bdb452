"""Labels counted: against a truth, and those of different annotators against each other. No model has a say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from realm.crowd.accuracy import pairs_of
from realm.crowd.engine import Floats, Ints, LabelTable
from realm.data.annotations import UNKNOWN, Annotations
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

Labels = npt.NDArray[np.integer]
LEAST_SHARED = 10
"""Items in common below which nothing is said of a pair: their agreement would be known to no better than 0.3."""
Z95 = 1.96


def wilson(shares: npt.ArrayLike, counts: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Wilson's 95% interval of shares of so many, at least one. Arrays of one shape, or numbers."""
    share, n = np.asarray(shares, np.float64), np.maximum(np.asarray(counts, np.float64), 1)
    middle = (share + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
    reach = Z95 / (1 + Z95**2 / n) * np.sqrt(share * (1 - share) / n + Z95**2 / (4 * n**2))
    return np.maximum(middle - reach, 0.0), np.minimum(middle + reach, 1.0)


def macro_f1(truth: Labels, answer: Labels) -> float:
    """Mean F1 over the labels that occur in either, as scikit-learn averages."""
    width = int(max(truth.max(), answer.max())) + 1
    hits, true, answered = (np.bincount(x, minlength=width) for x in (truth[truth == answer], truth, answer))
    present = true + answered > 0
    return float(np.mean(2 * hits[present] / (true + answered)[present]))


def rarest_label(truth: Labels) -> int:
    """The true label with the fewest items; the first of several."""
    counts = np.bincount(truth)
    return int(np.where(counts > 0, counts, len(truth) + 1).argmin())


def rarest_recall(truth: Labels, answer: Labels) -> float:
    """Share of the items of the rarest true label that are found: what accuracy hides where labels are uneven."""
    rarest = rarest_label(truth)
    return float(np.mean(answer[truth == rarest] == rarest))


def base_rate(truth: Labels, task: Labels) -> float:
    """Accuracy of always giving a task's most frequent true label. `truth` and `task` are (items,)."""
    return sum(int(np.bincount(truth[task == each]).max()) for each in np.unique(task)) / len(truth)


def main_mistake(matrix: npt.ArrayLike, label: int) -> tuple[int, float] | None:
    """The wrong answer that a label is given most often and its share of the label's items; None without mistakes.

    `matrix` is the confusion matrix, (labels, labels).
    """
    row = np.array(matrix, dtype=np.float64)[label]
    total, row[label] = row.sum(), 0.0
    return (int(row.argmax()), float(row.max() / total)) if row.any() else None


def count_confusions(annotations: Annotations, truth: Labels) -> pd.DataFrame:
    """How often each annotator gave which label where which is true: annotator, task, truth, given, count (sorted).

    `truth` (annotations,) is the label of the annotation's item, -1 where it is not known.
    """
    import pandas as pd

    rows = np.flatnonzero(truth != UNKNOWN)
    task = annotations.item_tasks[annotations.item[rows]]
    columns = {"annotator": annotations.annotator[rows], "task": task, "truth": truth[rows]}
    frame = pd.DataFrame(columns | {"given": annotations.label[rows]}, dtype=np.int64)
    return frame.groupby(list(frame)).size().reset_index(name="count")


def share_right(annotations: Annotations, truth: Labels) -> tuple[Floats, Ints]:
    """The share of each annotator's labels that equal `truth` (items,), NaN for none, and how many are compared.

    -1 where the truth of an item is not known. Shapes (annotators, tasks).
    """
    shape, of_item = (annotations.n_annotators, len(annotations.tasks)), truth[annotations.item]
    compared, right = (
        np.bincount(pairs_of(annotations), mask, minlength=shape[0] * shape[1]).reshape(shape)
        for mask in (of_item != UNKNOWN, of_item == annotations.label)
    )
    with np.errstate(invalid="ignore"):
        return np.asarray(right / compared), compared.astype(np.int64)


def accuracy_by_gold(annotations: Annotations) -> tuple[Floats, Ints]:
    """`share_right` by gold."""
    if annotations.gold is None:
        raise RealmError("realised accuracies need gold.")
    return share_right(annotations, annotations.gold)


def peer_agreement(annotations: Annotations, least_shared: int = LEAST_SHARED) -> pd.DataFrame:
    """On how many items every two of the 1,000 annotators with most labels gave the same label.

    Columns: one, other (annotators, by index), shared (items), same, share, low, high (its 95% interval).
    """
    import pandas as pd

    columns = annotations.item, annotations.annotator, annotations.label
    width = int(annotations.option_counts.max(initial=1))
    pairs = LabelTable(*columns, annotations.n_items, annotations.n_annotators, width).pairs
    at = one, other = np.nonzero(np.triu(pairs.shared) >= max(least_shared, 1))
    names = {"one": pairs.annotators[one], "other": pairs.annotators[other], "shared": pairs.shared[at]}
    frame = pd.DataFrame(names | {"same": pairs.same[at]}).astype(np.int64)
    frame["share"] = frame["same"] / frame["shared"]
    frame["low"], frame["high"] = wilson(frame["share"], frame["shared"])
    return frame
