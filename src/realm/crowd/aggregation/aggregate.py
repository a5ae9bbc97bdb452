"""One label per item of an annotations table, each task on its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from realm.crowd.aggregation.dawid_skene import DawidSkene
from realm.crowd.aggregation.glad import Glad
from realm.crowd.aggregation.majority import MajorityVote, WeightedMajority
from realm.crowd.aggregation.one_coin import OneCoin
from realm.crowd.coin import weights_of
from realm.crowd.evidence import Floats, Indices
from realm.data.annotations import UNKNOWN
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

    from realm.data import Annotations

METHODS: dict[str, type[MajorityVote | WeightedMajority | DawidSkene | OneCoin | Glad]] = {
    "majority": MajorityVote,
    "weighted-majority": WeightedMajority,
    "dawid-skene": DawidSkene,
    "one-coin": OneCoin,
    "glad": Glad,
}


@dataclass(frozen=True, eq=False)
class Aggregate:
    """The result of an aggregation.

    | field | shape | meaning |
    |---|---|---|
    | labels | (items,) int32 | index into the item's own options; -1 for an item with no annotation |
    | confidence | (items,) | P(label is true) (`majority`: share of the annotations); NaN where not known |
    | annotators | DataFrame | annotator, task, accuracy (by this method's estimate), annotations |
    | warnings | list | what to know before relying on it |
    """

    labels: npt.NDArray[np.int32]
    confidence: npt.NDArray[np.float64]
    annotators: pd.DataFrame
    warnings: list[str] = field(default_factory=list)

    def table(self, annotations: Annotations) -> pd.DataFrame:
        """One row per item of the table aggregated: item, task, text, label (its name), confidence, annotations."""
        import pandas as pd

        names = np.full(annotations.n_items, None, dtype=object)
        for index, task in enumerate(annotations.tasks):
            if task.labels is not None:
                chosen = np.flatnonzero((annotations.item_tasks == index) & (self.labels != UNKNOWN))
                names[chosen] = np.array(task.labels, dtype=object)[self.labels[chosen]]
        if annotations.options is not None:
            own = annotations.options.is_valid().to_numpy(zero_copy_only=False)
            for item in np.flatnonzero(own & (self.labels != UNKNOWN)):
                names[item] = annotations.label_name(int(item), int(self.labels[item]))
        tasks = np.array([task.name for task in annotations.tasks], dtype=object)
        return pd.DataFrame(
            {
                "item": annotations.item_ids.to_pylist(),
                "task": tasks[annotations.item_tasks],
                "text": annotations.texts.to_pylist(),
                "label": names,
                "confidence": self.confidence,
                "annotations": annotations.annotations_per_item,
            }
        )


def aggregate(annotations: Annotations, method: str, seed: int = 0, *, use_gold: bool = False) -> Aggregate:
    """One label per item, each task of the table on its own.

    | argument | meaning |
    |---|---|
    | annotations | the table; weights multiply what an annotation counts |
    | method | one of `METHODS`: majority, weighted-majority, dawid-skene, one-coin, glad |
    | seed | breaks ties |
    | use_gold | hold items with gold to it, and judge the annotators by it too; without it gold is not looked at |

    A table in which no item has a second annotation (or gold in its place) is refused.

    Example:
        >>> import pandas as pd
        >>> from realm.data import Annotations
        >>> table = Annotations.from_pandas(pd.DataFrame(
        ...     {"text": ["a"] * 3, "annotator": ["x", "y", "z"], "label": ["no", "no", "yes"]}))
        >>> result = aggregate(table, "majority")
        >>> result.labels.tolist(), result.confidence.round(2).tolist()
        ([0], [0.67])
    """
    import pandas as pd

    if method not in METHODS:
        raise RealmError(f"no aggregation method is called {method!r}. There are: {', '.join(METHODS)}.")
    gold = annotations.gold if use_gold else None
    if use_gold and (gold is None or (gold == UNKNOWN).all()):
        raise RealmError("`use_gold`: the table has no gold labels. Name their column with `gold`.")
    labels_per_item = annotations.annotations_per_item.copy()
    annotated = labels_per_item > 0
    if gold is not None:
        labels_per_item[gold != UNKNOWN] += 1
    warnings = _check_overlap(annotations, method, labels_per_item, annotated)

    labels = np.full(annotations.n_items, UNKNOWN, dtype=np.int32)
    confidence = np.full(annotations.n_items, np.nan)
    rows: list[pd.DataFrame] = []
    weight = weights_of(annotations)
    task_of = annotations.item_tasks[annotations.item]
    names = np.array(annotations.annotators, dtype=object)
    for index, task in enumerate(annotations.tasks):
        chosen = np.flatnonzero(task_of == index)
        items = np.flatnonzero(annotations.item_tasks == index)
        if not len(chosen):
            if gold is not None:
                labels[items], confidence[items] = gold[items], np.where(gold[items] == UNKNOWN, np.nan, 1.0)
            continue
        present, annotator = np.unique(annotations.annotator[chosen], return_inverse=True)
        alone = not np.any((labels_per_item[items] > 1) & annotated[items])
        model = MajorityVote(seed) if alone else METHODS[method](seed=seed)
        model.fit(
            np.searchsorted(items, annotations.item[chosen]),
            annotator,
            annotations.label[chosen],
            option_counts=annotations.option_counts[items],
            gold=None if gold is None else gold[items],
            weight=None if weight is None else weight[chosen],
        )
        labels[items] = model.labels_
        known = model.labels_ != UNKNOWN
        accuracy = model.accuracy_
        if alone:
            warnings.append(
                f"task {task.name}: no item has a second annotation, so its labels are as given, "
                "without confidence or accuracies."
            )
            accuracy = np.full(len(present), np.nan)
        else:
            confidence[items[known]] = model.posterior_[known, model.labels_[known]]
        counts = np.bincount(annotator, minlength=len(present))
        low, high = _interval(accuracy, np.bincount(annotator, None if weight is None else weight[chosen]))
        columns = {"annotator": names[present], "task": task.name, "accuracy": accuracy, "low": low, "high": high}
        rows.append(pd.DataFrame({**columns, "annotations": counts}))
    return Aggregate(labels, confidence, pd.concat(rows, ignore_index=True), warnings)


def _interval(accuracy: Floats, counts: npt.NDArray[np.floating | np.integer]) -> tuple[Floats, Floats]:
    """The equal-tailed 95% interval of each accuracy under Jeffreys' prior, given that the labels found are true."""
    from scipy.stats import beta

    right = accuracy * counts
    low, high = (beta.ppf(tail, right + 0.5, counts - right + 0.5) for tail in (0.025, 0.975))
    return np.where(accuracy <= 0, 0.0, low), np.where(accuracy >= 1, 1.0, high)


def _check_overlap(
    annotations: Annotations,
    method: str,
    labels_per_item: Indices,
    annotated: npt.NDArray[np.bool_],
) -> list[str]:
    if not annotated.any():
        raise RealmError(f"{method}: the table has no annotations.")
    if not np.any((labels_per_item > 1) & annotated):
        raise RealmError(
            f"{method}: no item has two annotations, so there is nothing to aggregate: every vote is unanimous, and "
            "Dawid-Skene and its kin would call every annotator perfect. Collect a second label for some items, "
            "or train with the methods `realm` or `noisy`, which need only one."
        )
    single = int((labels_per_item[annotated] == 1).sum())
    warnings = []
    if single:
        warnings.append(
            f"{single:,} of {int(annotated.sum()):,} items ({single / annotated.sum():.0%}) have only one annotation: "
            "their label is as good as its one annotator."
        )
    if bare := int((~annotated).sum()):
        have = "item has" if bare == 1 else "items have"
        warnings.append(f"{bare:,} {have} no annotation and no label from this.")
    return warnings
