"""One label per item of an annotations table, each task on its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from realm.crowd.aggregation.base import Aggregator, EMAggregator
from realm.crowd.aggregation.dawid_skene import DawidSkene
from realm.crowd.aggregation.fitted import FittedAnnotators, FittedTask, WarmStart, check_method
from realm.crowd.aggregation.glad import Glad
from realm.crowd.aggregation.mace import Mace
from realm.crowd.aggregation.majority import MajorityVote, WeightedMajority
from realm.crowd.aggregation.one_coin import OneCoin
from realm.crowd.coin import weights_of
from realm.crowd.evidence import Bools, Floats, Indices
from realm.data.annotations import UNKNOWN
from realm.data.arguments import require_annotations
from realm.display import counted, notebook_html
from realm.errors import RealmError
from realm.progress import Progress, ignore_progress

if TYPE_CHECKING:
    import pandas as pd

    from realm.data import Annotations, Task

METHODS: dict[str, type[MajorityVote | WeightedMajority | DawidSkene | OneCoin | Glad | Mace]] = {
    "majority": MajorityVote,
    "weighted-majority": WeightedMajority,
    "dawid-skene": DawidSkene,
    "one-coin": OneCoin,
    "glad": Glad,
    "mace": Mace,
}


@dataclass(frozen=True, eq=False)
class Aggregate:
    """The result of an aggregation.

    | field | shape | meaning |
    |---|---|---|
    | labels | (items,) int32 | index into the item's own options; -1 for an item with no annotation |
    | confidence | (items,) | P(label is true) (`majority`: share of the annotations); NaN where not known |
    | posterior | (items, Kmax) | how probable each option is; zero beyond an item's own, and where its label is -1 |
    | annotators | DataFrame | annotator, task, accuracy (by this method's estimate), annotations; group, where any |
    | warnings | list | what to know before relying on it |
    | fitted | | what was learned of annotators, to start from another time; None where the method has none |
    """

    labels: npt.NDArray[np.int32]
    confidence: npt.NDArray[np.float64]
    posterior: npt.NDArray[np.float64]
    annotators: pd.DataFrame
    warnings: list[str] = field(default_factory=list)
    fitted: FittedAnnotators | None = None

    def __repr__(self) -> str:
        labelled = int((self.labels != UNKNOWN).sum())
        who = counted(self.annotators["annotator"].nunique(), "annotator")
        warned = f"; {counted(len(self.warnings), 'warning')}" if self.warnings else ""
        return f"Aggregate({labelled:,} of {counted(len(self.labels), 'item')} labelled, {who}{warned})"

    def _repr_html_(self) -> str:
        known = self.confidence[np.isfinite(self.confidence)]
        facts = {
            "mean confidence": f"{known.mean():.3f}" if len(known) else None,
            "warnings": "; ".join(self.warnings),
            "labels by name": "table(annotations)",
        }
        return notebook_html(repr(self), facts, self.annotators)

    def table(self, annotations: Annotations) -> pd.DataFrame:
        """One row per item of the table aggregated: item, task, text, label (its name), confidence, annotations."""
        import pandas as pd

        from realm.crowd.tables import OptionNames, item_columns

        names = OptionNames(annotations)(np.arange(annotations.n_items), self.labels)
        names[self.labels == UNKNOWN] = None
        return pd.DataFrame(
            {
                **item_columns(annotations),
                "label": names,
                "confidence": self.confidence,
                "annotations": annotations.annotations_per_item,
            }
        )


def aggregate(
    annotations: Annotations,
    method: str,
    seed: int = 0,
    *,
    use_gold: bool = False,
    abstain: str | None = None,
    start_from: FittedAnnotators | None = None,
    progress: Progress = ignore_progress,
) -> Aggregate:
    """One label per item, each task of the table on its own.

    | argument | meaning |
    |---|---|
    | annotations | the table; weights multiply what an annotation counts, and `mace` pools each of its groups |
    | method | one of `METHODS`: majority, weighted-majority, dawid-skene, one-coin, glad, mace |
    | seed | breaks ties |
    | use_gold | hold items with gold to it, and judge the annotators by it too; without it gold is not looked at |
    | abstain | the label of annotators (labelling functions, say) who did not say: an answer of its own to \
`dawid-skene` and `mace`, no vote to `majority`, and never the truth |
    | start_from | the `fitted` of an earlier result by the same method: EM goes on from there |
    | progress | called with how many iterations of EM are done |

    A table in which no item has a second annotation (or gold in its place) is refused.

    Examples:
        >>> import pandas as pd
        >>> from realm.data import Annotations
        >>> table = Annotations.from_pandas(pd.DataFrame(
        ...     {"text": ["a"] * 3, "annotator": ["x", "y", "z"], "label": ["no", "no", "yes"]}))
        >>> result = aggregate(table, "majority")
        >>> result.labels.tolist(), result.confidence.round(2).tolist()
        ([0], [0.67])
    """
    import pandas as pd

    require_annotations(annotations, "annotations")
    if method not in METHODS:
        raise RealmError(f"no aggregation method is called {method!r}. There are: {', '.join(METHODS)}.")
    if start_from is not None:
        _check_start(start_from, method)
    abstain_labels = _abstain_labels(annotations, method, abstain)
    gold = annotations.gold if use_gold else None
    if use_gold and (gold is None or (gold == UNKNOWN).all()):
        raise RealmError("`use_gold`: the table has no gold labels. Name their column with `gold`.")
    annotated = annotations.annotations_per_item > 0
    labels_per_item = annotations.annotations_per_item + (0 if gold is None else gold != UNKNOWN)
    overlapping = annotated & (labels_per_item > 1)
    _check_overlap(method, annotated, overlapping)

    labels = np.full(annotations.n_items, UNKNOWN, dtype=np.int32)
    confidence = np.full(annotations.n_items, np.nan)
    posterior = np.zeros((annotations.n_items, int(annotations.option_counts.max(initial=1))))
    rows: list[pd.DataFrame] = []
    fitted: list[FittedTask] = []
    warnings = _overlap_warnings(annotated, labels_per_item)
    weight = weights_of(annotations)
    task_of = annotations.item_tasks[annotations.item]
    names = np.array(annotations.annotators, dtype=object)
    for index, task in enumerate(annotations.tasks):
        of_task = np.flatnonzero(task_of == index)
        items = np.flatnonzero(annotations.item_tasks == index)
        if not len(of_task):
            if gold is not None:
                labels[items], confidence[items] = gold[items], np.where(gold[items] == UNKNOWN, np.nan, 1.0)
                known = items[gold[items] != UNKNOWN]
                posterior[known, gold[known]] = 1.0
            continue
        present, annotator = np.unique(annotations.annotator[of_task], return_inverse=True)
        task_weight = None if weight is None else weight[of_task]
        overlaps = bool(overlapping[items].any())
        who = [annotations.annotators[row] for row in present]
        start = _start(start_from, task, who, annotations.option_counts[items], warnings) if overlaps else None
        model = _estimator(method, seed, progress) if overlaps else MajorityVote(seed)
        if isinstance(model, Mace) and annotations.groups is not None:
            model.groups = annotations.annotator_groups[present]
        model.fit(
            np.searchsorted(items, annotations.item[of_task]),
            annotator,
            annotations.label[of_task],
            option_counts=annotations.option_counts[items],
            gold=None if gold is None else gold[items],
            weight=task_weight,
            abstain=abstain_labels[index],
            start=start,
        )
        if overlaps and isinstance(model, EMAggregator) and model.takes_start:
            fitted.append(FittedTask(task.name, task.labels, tuple(who), model.parameters_, model.priors_))
        task_labels = model.labels_
        if method == "majority" and abstain_labels[index] is not None:
            voted = annotations.item[of_task][annotations.label[of_task] != abstain_labels[index]]
            known = np.isin(items, voted) | (False if gold is None else gold[items] != UNKNOWN)
            task_labels = np.where(known, task_labels, UNKNOWN).astype(np.int32)
        labels[items] = task_labels
        accuracy, known = model.accuracy_, task_labels != UNKNOWN
        posterior[items[known], : model.posterior_.shape[1]] = model.posterior_[known]
        if overlaps:
            confidence[items[known]] = model.posterior_[known, task_labels[known]]
        else:
            warnings.append(
                f"task {task.name}: no item has a second annotation, so its labels are as given, "
                "without confidence or accuracies."
            )
            accuracy = np.full(len(present), np.nan)
        voted = annotations.label[of_task] != (UNKNOWN if abstain_labels[index] is None else abstain_labels[index])
        low, high = _interval(accuracy, np.bincount(annotator, voted if task_weight is None else voted * task_weight))
        columns = {"annotator": names[present], "task": task.name, "accuracy": accuracy, "low": low, "high": high}
        group = {} if annotations.groups is None else {"group": np.array(annotations.groups, dtype=object)[present]}
        rows.append(pd.DataFrame({**columns, "annotations": np.bincount(annotator), **group}))
    learned = FittedAnnotators(method, tuple(fitted)) if fitted else None
    return Aggregate(labels, confidence, posterior, pd.concat(rows, ignore_index=True), warnings, learned)


def _check_start(start_from: FittedAnnotators, method: str) -> None:
    if not METHODS[method].takes_start:
        able = ", ".join(name for name, estimator in METHODS.items() if estimator.takes_start)
        raise RealmError(f"`start_from`: {method} cannot start from an earlier aggregation. Use one of: {able}.")
    check_method(start_from, method)


def _start(
    earlier: FittedAnnotators | None,
    task: Task,
    annotators: list[str],
    counts: npt.NDArray[np.integer],
    warnings: list[str],
) -> WarmStart | None:
    """Where EM starts in a task; from scratch, with a warning, where labels or annotators are all others."""
    if earlier is None:
        return None
    known = earlier.of(task.name, task.labels)
    start = None if known is None else known.start(annotators, int(counts.max()))
    if start is None:
        warnings.append(f"task {task.name}: its labels or annotators are others than before; it starts from scratch.")
    return start


def _abstain_labels(annotations: Annotations, method: str, abstain: str | None) -> list[int | None]:
    """The index of the abstention among each task's labels, None where it has none. (tasks,)"""
    labels = [task.labels or () for task in annotations.tasks]
    if abstain is None:
        return [None] * len(labels)
    if not METHODS[method].takes_abstain:
        able = ", ".join(name for name, estimator in METHODS.items() if estimator.takes_abstain)
        raise RealmError(f"`abstain`: {method} cannot handle abstentions. Use one of: {able}.")
    if not any(abstain in names for names in labels):
        known = dict.fromkeys(name for names in labels for name in names)
        reason = f"the labels are: {', '.join(known)}" if known else "items with options of their own have none"
        raise RealmError(f"`abstain`: no label is called {abstain!r}; {reason}.")
    return [names.index(abstain) if abstain in names else None for names in labels]


def _interval(accuracy: Floats, counts: npt.NDArray[np.floating | np.integer]) -> tuple[Floats, Floats]:
    """The equal-tailed 95% interval of each accuracy under Jeffreys' prior, if the aggregated labels are true."""
    from scipy.stats import beta

    right = accuracy * counts
    low, high = (beta.ppf(tail, right + 0.5, counts - right + 0.5) for tail in (0.025, 0.975))
    return np.where(accuracy <= 0, 0.0, low), np.where(accuracy >= 1, 1.0, high)


def _estimator(method: str, seed: int, progress: Progress) -> Aggregator:
    estimator = METHODS[method]
    return estimator(seed=seed, progress=progress) if issubclass(estimator, EMAggregator) else estimator(seed=seed)


def _check_overlap(method: str, annotated: Bools, overlapping: Bools) -> None:
    if not annotated.any():
        raise RealmError(f"{method}: the table has no annotations.")
    if not overlapping.any():
        raise RealmError(
            f"{method}: no item has two annotations, so there is nothing to aggregate: every vote is unanimous, and "
            "Dawid-Skene and similar methods would call everybody perfect. Collect a second label for some items, "
            "or train with the methods `realm` or `noisy`, which need only one."
        )


def _overlap_warnings(annotated: Bools, labels_per_item: Indices) -> list[str]:
    warnings, n = [], int(annotated.sum())
    if single := int((labels_per_item[annotated] == 1).sum()):
        warnings.append(
            f"{single:,} of {n:,} items ({single / n:.0%}) have only one annotation: "
            "their label is as good as its one annotator."
        )
    if bare := len(annotated) - n:
        warnings.append(
            f"{counted(bare, 'item')} {'has' if bare == 1 else 'have'} no annotation and no label from this."
        )
    return warnings
