"""One label per item of a table from several annotators, without a language model.

The default, `realm`, is the model of annotators that every report shows; the others are `realm.crowd.estimators`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy.stats import beta

from realm.crowd.accuracy import pairs_of
from realm.crowd.engine import Bools, Floats, Ints, LabelTable, item_log_prior
from realm.crowd.estimators import ESTIMATORS, MajorityVote
from realm.crowd.model import AnnotatorModel
from realm.crowd.shared_mistakes import fit_exponent, forecast_labels
from realm.data.annotations import UNKNOWN, Annotations
from realm.data.arguments import require_annotations
from realm.display import counted
from realm.errors import RealmError
from realm.progress import Progress, ignore_progress

if TYPE_CHECKING:
    import pandas as pd

METHODS = ("realm", *ESTIMATORS)
LEAST_PAIRS = 100  # pairs of labels on one item from which agreement at chance is said: fewer could not show any
LABELS_PER_ROW = 5.0  # below, Dawid-Skene loses to the vote: .85 with one label a row (the vote .99), .94 with two


@dataclass(frozen=True, eq=False)
class Aggregate:
    """The result of an aggregation.

    | field | shape | meaning |
    |---|---|---|
    | labels | (items,) int32 | index into the item's own options; -1 for an item with no annotation |
    | confidence | (items,) | P(label is true) (`majority`: share of the annotations); NaN where not known |
    | posterior | (items, Kmax) | how probable each option is; zero beyond an item's own, and where its label is -1 |
    | annotators | DataFrame | annotator, task, accuracy with a 95% interval, annotations; group, where any |
    | warnings | list | what to know before relying on it |
    """

    labels: npt.NDArray[np.int32]
    confidence: Floats
    posterior: Floats
    annotators: pd.DataFrame
    warnings: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        labelled = int((self.labels != UNKNOWN).sum())
        who = counted(self.annotators["annotator"].nunique(), "annotator")
        warned = f"; {counted(len(self.warnings), 'warning')}" if self.warnings else ""
        return f"Aggregate({labelled:,} of {counted(len(self.labels), 'item')} labelled, {who}{warned})"

    def table(self, annotations: Annotations) -> pd.DataFrame:
        """One row per item of the table aggregated: item, task, text, label (its name), confidence, annotations."""
        import pandas as pd

        from realm.crowd.tables import OptionNames, item_columns

        names = OptionNames(annotations)(np.arange(annotations.n_items), self.labels)
        names[self.labels == UNKNOWN] = None
        columns = {"label": names, "confidence": self.confidence, "annotations": annotations.annotations_per_item}
        return pd.DataFrame({**item_columns(annotations), **columns})


def aggregate(
    annotations: Annotations,
    method: str = "realm",
    seed: int = 0,
    *,
    use_gold: bool = False,
    abstain: str | None = None,
    kind: str | None = None,
    progress: Progress = ignore_progress,
) -> Aggregate:
    """One label per item: by default those of `estimate(annotations)`, which reports show.

    | argument | meaning |
    |---|---|
    | annotations | the table; weights multiply what an annotation counts, and each group of annotators is a pool |
    | method | one of `METHODS`: realm, majority, dawid-skene, one-coin, mace |
    | seed | breaks ties at random, but for `realm` |
    | use_gold | hold items with gold to it, and judge the annotators by it too; without it gold is not looked at |
    | abstain | the label of those who did not say: an answer to `dawid-skene` and `mace`, no vote to `majority` |
    | kind | `people` or `models`, for `realm`: how often everybody may be wrong together, as for `estimate` |
    | progress | called before and after |

    A table in which no item has a second annotation (or gold in its place) is refused.

    Examples:
        >>> import pandas as pd
        >>> table = Annotations.from_pandas(pd.DataFrame(
        ...     {"text": ["a"] * 3, "annotator": ["x", "y", "z"], "label": ["no", "no", "yes"]}))
        >>> result = aggregate(table, "majority")
        >>> result.labels.tolist(), result.confidence.round(2).tolist()
        ([0], [0.67])
    """
    require_annotations(annotations, "annotations")
    if method not in METHODS:
        raise RealmError(f"no aggregation method is called {method!r}. There are: {', '.join(METHODS)}.")
    gold = annotations.gold if use_gold else None
    if use_gold and (gold is None or (gold == UNKNOWN).all()):
        raise RealmError("`use_gold`: the table has no gold labels. Name their column with `gold`.")
    labels_per_item = annotations.annotations_per_item + (0 if gold is None else gold != UNKNOWN)
    overlapping = (annotations.annotations_per_item > 0) & (labels_per_item > 1)
    if not overlapping.any():
        raise RealmError(
            f"{method}: no item has two annotations, so there is nothing to aggregate: every vote is unanimous, and "
            "Dawid-Skene and similar methods would call everybody perfect. Collect a second label for some items, "
            "or train with the methods `realm` or `noisy`, which need only one."
        )
    once = np.bincount(annotations.item_tasks, overlapping, minlength=len(annotations.tasks)) == 0
    never_true = _abstain_labels(annotations, method, abstain)
    progress("aggregating", 0, 1)
    model = AnnotatorModel(annotations, gold=gold, kind=kind, find_copies=method == "realm")
    forecasts = []
    if method == "realm":
        estimates = model.fit().estimate()
        posterior, labels = estimates.posterior, estimates.posterior.argmax(axis=1).astype(np.int32)
        accuracy, low, high = estimates.accuracy, estimates.low, estimates.high
        labels[(annotations.annotations_per_item == 0) & (model.known == UNKNOWN)] = UNKNOWN
    else:
        posterior, labels = np.zeros((annotations.n_items, model.width)), model.known.astype(np.int32)
        accuracy, low, high = np.full((3, annotations.n_annotators, len(model.tasks)), np.nan)
        for index, task in enumerate(model.tasks):
            if not len(task.rows):
                continue
            estimator = MajorityVote(seed) if once[index] else ESTIMATORS[method](seed)
            estimator.fit_table(task.table, task.known, never_true[index])
            posterior[task.items, : task.table.n_options] = estimator.posterior_
            labels[task.items], accuracy[:, index] = estimator.labels_, estimator.accuracy_
            low[:, index], high[:, index] = _interval(task.table, never_true[index], estimator.accuracy_)
            if estimator.priors and never_true[index] is None:
                log_prior = item_log_prior(None, estimator.class_shares_)
                forecasts.append(forecast_labels(task.table, estimator.parameters_.evidence, log_prior))
    accuracy[:, once], low[:, once], high[:, once] = np.nan, np.nan, np.nan
    settled = model.known != UNKNOWN
    posterior = np.where(labels[:, None] == UNKNOWN, 0.0, posterior)
    posterior[settled] = np.arange(model.width) == model.known[settled, None]
    confidence = posterior[np.arange(len(labels)), np.maximum(labels, 0)]
    confidence[(labels == UNKNOWN) | (once[annotations.item_tasks] & ~settled)] = np.nan
    progress("aggregating", 1, 1)
    warnings = _warnings(model, method, labels_per_item, once, fit_exponent(forecasts))
    return Aggregate(labels, confidence, posterior, _annotator_table(annotations, accuracy, low, high), warnings)


def _annotator_table(annotations: Annotations, accuracy: Floats, low: Floats, high: Floats) -> pd.DataFrame:
    """A row for each annotator in each task they labelled, from columns (annotators, tasks)."""
    import pandas as pd

    counts = np.bincount(pairs_of(annotations), minlength=accuracy.size).reshape(accuracy.shape)
    task, annotator = np.nonzero(counts.T)
    names, tasks = np.array(annotations.annotators, dtype=object), [each.name for each in annotations.tasks]
    figures = {"accuracy": accuracy, "low": low, "high": high, "annotations": counts}
    columns = {"annotator": names[annotator], "task": np.array(tasks, dtype=object)[task]}
    columns |= {name: values[annotator, task] for name, values in figures.items()}
    if annotations.groups is not None:
        columns["group"] = np.array(annotations.groups, dtype=object)[annotator]
    return pd.DataFrame(columns)


def _abstain_labels(annotations: Annotations, method: str, abstain: str | None) -> list[int | None]:
    """The index of the abstention among each task's labels, None where it has none. (tasks,)"""
    labels = [task.labels or () for task in annotations.tasks]
    if abstain is not None and not (method in ESTIMATORS and ESTIMATORS[method].takes_abstain):
        able = [name for name, estimator in ESTIMATORS.items() if estimator.takes_abstain]
        raise RealmError(f"`abstain`: {method} cannot handle abstentions. Use one of: {', '.join(able)}.")
    if abstain is not None and not any(abstain in names for names in labels):
        names = ", ".join(dict.fromkeys(name for names in labels for name in names)) or "each item's own"
        raise RealmError(f"`abstain`: no label is called {abstain!r}; the labels are: {names}.")
    return [names.index(abstain) if abstain in names else None for names in labels]


def _interval(table: LabelTable, never_true: int | None, accuracy: Floats) -> tuple[Floats, Floats]:
    """The equal-tailed 95% interval of each accuracy under Jeffreys' prior, if the aggregated labels are true."""
    votes = table.cell_weight * (table.cell_label != (UNKNOWN if never_true is None else never_true))
    counts = np.asarray(table.of_annotators @ votes)
    low, high = (beta.ppf(tail, accuracy * counts + 0.5, (1 - accuracy) * counts + 0.5) for tail in (0.025, 0.975))
    return np.where(accuracy <= 0, 0.0, low), np.where(accuracy >= 1, 1.0, high)


def _warnings(model: AnnotatorModel, method: str, labels_per_item: Ints, once: Bools, exponent: float) -> list[str]:
    """What to know before relying on an aggregation."""
    annotated, warnings = model.annotations.annotations_per_item > 0, []
    n, single = int(annotated.sum()), int((labels_per_item[annotated] == 1).sum())
    if single:
        warnings.append(
            f"{single:,} of {n:,} items ({single / n:.0%}) have only one annotation: "
            "their label is as good as its one annotator."
        )
    if bare := len(annotated) - n:
        warnings.append(
            f"{counted(bare, 'item')} {'has' if bare == 1 else 'have'} no annotation and no label from this."
        )
    for task, labelled_once, model_of_task in zip(model.annotations.tasks, once, model.tasks, strict=True):
        table = model_of_task.table
        rows = np.count_nonzero(table.annotator_weight) * len(np.unique(table.cell_label))
        if labelled_once and rows:
            warnings.append(
                f"task {task.name}: no item has a second annotation, so its labels are as given, "
                "without confidence or accuracies."
            )
        if not labelled_once and table.pairs.shared.sum() / 2 >= LEAST_PAIRS and not table.pairs.beyond_chance:
            warnings.append(
                f"task {task.name}: annotators agree no more than their label shares give by chance, so nothing tells "
                "who is right, whatever the confidence says. `realm check` shows who agrees with whom."
            )
        if not labelled_once and method == "dawid-skene" and len(table.item) < LABELS_PER_ROW * rows:
            warnings.append(
                f"task {task.name}: {len(table.item) / rows:.1f} labels for each row of a confusion matrix "
                "are too few for dawid-skene, which may be worse than a vote. Use the method `realm`."
            )
    if exponent < 1:
        warnings.append(
            f"confidence is too sure: an item's labels foretell another best where they count {exponent:.2f} of what "
            "this method takes them for, as where annotators err together. The method `realm` allows for it."
        )
    return warnings
