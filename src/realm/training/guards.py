"""Guards: whether a model has shown that it knows something of the items, so that it may have a say beside people.

Pure functions over arrays. What stands in for the truth never comes from the model: the posterior of an item's
annotators by agreement alone where it has several annotations, the label itself where it has one. The model's P, out of
fold where there are folds, is held against it, and against the base rate: always giving each label its share.
Differences are paired over items, so that chance does not count.

| finding | when |
|---|---|
| no better than the base rate | neither log loss (P softened as far as helps) nor accuracy is clearly better |
| a fold contradicts | both are clearly worse than the base rate in one fold: it learned something else |
| one answer | the model gives nearly all items one answer, and people clearly do not |
| expertise contradicts agreement | trained expertise ranks annotators clearly otherwise than agreement does |
| a label has moved | cleaned labels have a label a third more or less often than the annotations; only reported |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import norm, rankdata

from realm.crowd.calibration import labels_temperature, tempered
from realm.crowd.estimate import Estimate
from realm.crowd.evidence import Floats
from realm.data import Annotations

LEVEL = 0.01
"""How rarely a model that knows nothing may seem better than the base rate by chance, in either figure."""
FLIP_LEVEL = 0.001
"""For "clearly worse", which is looked for in every fold."""
NEARLY_ALL = 0.95
"""The share of items with the same answer from which a model answers nearly everything alike."""
COMMON = 0.9
"""Where people give one answer to more items than this, a model that always gives it has missed little."""
ENOUGH_LABELS = 10
"""Labels on shared items from which an annotator's rank by agreement means something."""
LEAST_CORRELATION = 0.3
"""Trained expertise follows agreement at .8 or so; that the two clearly lie below this is no accident."""
DISTINCT = 0.5
"""The share of the spread of accuracies that must not be chance: annotators who are alike have no ranks."""
MOVED = 1 / 3
"""By how much of its frequency a label may move before it is reported."""
LEAST_LOG = float(np.log(1e-6))
"""A label that P calls impossible counts as one in a million, as in calibration."""

Bools = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.integer]


@dataclass(frozen=True)
class Finding:
    """One thing that was found of a task (by index), in a sentence for the user."""

    task: int
    sentence: str


@dataclass(frozen=True)
class Comparison:
    """How well P foretells what people say of some items, beside the base rate.

    | field | meaning |
    |---|---|
    | log_loss, base_log_loss | mean of -log P(label), P softened as far as helps; of the label shares |
    | accuracy, base_accuracy | share of the items whose most probable option is right; of the most frequent label |
    | loss_z, accuracy_z | mean gain of P over the base rate, in standard errors |
    """

    items: int
    log_loss: float
    base_log_loss: float
    accuracy: float
    base_accuracy: float
    loss_z: float
    accuracy_z: float

    @property
    def better(self) -> bool:
        """Whether P is clearly better than the base rate in one of the two."""
        return max(self.loss_z, self.accuracy_z) > norm.isf(LEVEL)

    @property
    def worse(self) -> bool:
        """Whether P is clearly worse in both."""
        return max(self.loss_z, self.accuracy_z) < -norm.isf(FLIP_LEVEL)


def stand_in(annotations: Annotations, agreement: Estimate | None, trust: Floats | None = None) -> Floats:
    """What people say of each item, (items, Kmax); a row of zeros where nobody has labelled it.

    `agreement` is an estimate without a model; None where no item has two annotations. The only label of an item counts
    1, or as much as its annotator is trusted: (annotators, tasks). Gold, where the table has it, is the truth: a run
    keeps it only if it may read it.
    """
    said = np.zeros((annotations.n_items, int(annotations.option_counts.max(initial=1))))
    several = annotations.annotations_per_item > 1
    alone = ~several[annotations.item]
    item, annotator = annotations.item[alone], annotations.annotator[alone]
    said[item, annotations.label[alone]] = 1.0 if trust is None else trust[annotator, annotations.item_tasks[item]]
    if agreement is not None:
        said[several] = agreement.posterior[several]
    if annotations.gold is not None:
        known = np.flatnonzero(annotations.gold >= 0)
        said[known] = np.eye(said.shape[1])[annotations.gold[known]]
    return said


def compare_with_base_rate(log_probs: Floats, said: Floats) -> Comparison:
    """P against always giving each option its share. `log_probs` and `said` (items, Kmax), of one task.

    -inf in `log_probs` marks what is not among an item's options; shares are taken over the options of the item.
    """
    rows = np.arange(len(said))
    inside = np.isfinite(log_probs) | (said > 0)
    shares = np.where(inside, said.sum(axis=0), 0.0)
    shares = np.where(shares.sum(axis=1, keepdims=True) > 0, shares, inside)
    with np.errstate(divide="ignore"):
        base = np.log(shares / shares.sum(axis=1, keepdims=True))
    item, label = np.nonzero(said)
    softened = tempered(log_probs, labels_temperature(log_probs, item, label, said[item, label]))
    weights = said > 0
    loss, base_loss = (-(said * np.where(weights, np.maximum(p, LEAST_LOG), 0.0)).sum(axis=1) for p in (softened, base))
    right, base_right = (said[rows, p.argmax(axis=1)] for p in (log_probs, base))
    return Comparison(
        items=len(said),
        log_loss=float(loss.mean()),
        base_log_loss=float(base_loss.mean()),
        accuracy=float(right.mean()),
        base_accuracy=float(base_right.mean()),
        loss_z=_z(base_loss - loss),
        accuracy_z=_z(right - base_right),
    )


def model_findings(
    annotations: Annotations,
    log_probs: Floats,
    agreement: Estimate | None,
    trained: Floats | None = None,
    fold_of_item: Indices | None = None,
) -> list[Finding]:
    """What speaks against the model, task by task; empty where nothing does.

    | argument | shape | meaning |
    |---|---|---|
    | log_probs | (items, Kmax) | the model's log P, out of fold where `fold_of_item` (items,) is given |
    | agreement | | an estimate without the model; None where no item has two annotations |
    | trained | (annotators, tasks) | expertise as training learned it; None where the method learns none |
    """
    said = stand_in(annotations, agreement)
    log_probs = np.asarray(log_probs, np.float64)[:, : said.shape[1]]
    found = []
    for task in range(len(annotations.tasks)):
        items = np.flatnonzero((annotations.item_tasks == task) & (said.sum(axis=1) > 0))
        if not len(items):
            continue
        sentences = _of_predictions(annotations, task, items, log_probs, said, fold_of_item)
        if (
            trained is not None
            and agreement is not None
            and (text := _expertise(annotations, agreement, trained, task))
        ):
            sentences.append(text)
        found += [Finding(task, _about(annotations, task) + sentence) for sentence in sentences]
    return found


def _of_predictions(
    annotations: Annotations,
    task: int,
    items: Indices,
    log_probs: Floats,
    said: Floats,
    fold_of_item: Indices | None,
) -> list[str]:
    """What P itself shows, of the items of a task."""
    sentences = []
    figures = compare_with_base_rate(log_probs[items], said[items])
    where = "in-sample" if fold_of_item is None else "on items that it was not trained on"
    if not figures.better:
        sentences.append(
            f"the model is no better than the base rate: {where} its log loss is {figures.log_loss:.3f} and its "
            f"accuracy {figures.accuracy:.1%}; predicting the label frequencies gives {figures.base_log_loss:.3f} and "
            f"{figures.base_accuracy:.1%} ({len(items):,} items)."
        )
    elif fold_of_item is not None:
        for fold in np.unique(fold_of_item[items]):
            part = items[fold_of_item[items] == fold]
            if compare_with_base_rate(log_probs[part], said[part]).worse:
                sentences.append(
                    f"the model trained without fold {fold + 1} contradicts the others: on the items of that fold it "
                    "is worse than the base rate."
                )
    answers = log_probs[items].argmax(axis=1)
    answer = int(np.bincount(answers).argmax())
    same, people = answers == answer, said[items, answer]
    if same.mean() >= NEARLY_ALL and people.mean() <= COMMON and _z(same - people) > norm.isf(LEVEL):
        sentences.append(
            f"the model gives the same answer ({_name(annotations, task, answer)}) to {same.mean():.0%} of the items; "
            f"annotators give it to {people.mean():.0%}."
        )
    return sentences


def _expertise(annotations: Annotations, agreement: Estimate, trained: Floats, task: int) -> str | None:
    """Whether trained expertise ranks annotators clearly otherwise than agreement does, where those differ at all."""
    shared = (annotations.annotations_per_item > 1) & (annotations.item_tasks == task)
    counts = np.bincount(annotations.annotator[shared[annotations.item]], minlength=annotations.n_annotators)
    column = np.broadcast_to(trained, agreement.expertise.shape)[:, task]
    judged = (counts >= ENOUGH_LABELS) & np.isfinite(column) & np.isfinite(agreement.expertise[:, task])
    n = int(judged.sum())
    if n < 4:  # the interval of a rank correlation needs more than three
        return None
    accuracy, low, high = (each[judged, task] for each in (agreement.accuracy, agreement.low, agreement.high))
    sampling = float((((high - low) / (2 * norm.isf(0.025))) ** 2).mean())
    if accuracy.var() * (1 - DISTINCT) < sampling or np.ptp(column[judged]) == 0:
        return None
    correlation = _rank_correlation(column[judged], agreement.expertise[judged, task])
    highest = np.tanh(np.arctanh(np.clip(correlation, -0.999, 0.999)) + norm.isf(LEVEL) * 1.06 / np.sqrt(n - 3))
    if highest >= LEAST_CORRELATION:
        return None
    return (
        f"trained expertise contradicts agreement: over the {n:,} annotators with at least {ENOUGH_LABELS} labels on "
        f"shared items, their rank correlation is {correlation:.2f}."
    )


def moved_labels(annotations: Annotations, posterior: Floats) -> list[Finding]:
    """Labels that are a third more or less frequent among cleaned labels than among annotations, item by item."""
    width = posterior.shape[1]
    found = []
    votes = np.zeros((annotations.n_items, width))
    np.add.at(votes, (annotations.item, annotations.label), 1.0 if annotations.weight is None else annotations.weight)
    total = votes.sum(axis=1)
    cleaned = np.eye(width)[posterior.argmax(axis=1)]
    for task, description in enumerate(annotations.tasks):
        items = np.flatnonzero((annotations.item_tasks == task) & (total > 0))
        if description.labels is None or not len(items):
            continue  # positions of options that each item lists for itself have no frequency to speak of
        shares = votes[items] / total[items, None]
        for label in range(len(description.labels)):
            difference = cleaned[items, label] - shares[:, label]
            before, after = shares[:, label].mean(), cleaned[items, label].mean()
            if abs(after - before) < MOVED * before or abs(_z(difference)) < norm.isf(LEVEL / width):
                continue
            found.append(
                Finding(
                    task,
                    f"{_about(annotations, task)}{_name(annotations, task, label)} is "
                    f"{'more' if after > before else 'less'} frequent among the cleaned labels ({after:.1%}) than "
                    f"among the annotations ({before:.1%}).",
                )
            )
    return found


# -------------------------------------------------------------------- figures and words


def _z(differences: npt.NDArray[np.floating]) -> float:
    """The mean in standard errors; where all are equal there is no error, and the sign decides."""
    mean, error = float(differences.mean()), float(differences.std(ddof=1)) if len(differences) > 1 else np.inf
    if error < 1e-12:  # rounding
        return float(np.sign(mean) * np.inf) if abs(mean) > 1e-12 else 0.0
    return float(mean / (error / np.sqrt(len(differences))))


def _rank_correlation(first: Floats, second: Floats) -> float:
    """Spearman's, of values that are not all alike."""
    return float(np.corrcoef(rankdata(first), rankdata(second))[0, 1])


def _about(annotations: Annotations, task: int) -> str:
    return f'task "{annotations.tasks[task].name}": ' if len(annotations.tasks) > 1 else ""


def _name(annotations: Annotations, task: int, label: int) -> str:
    labels = annotations.tasks[task].labels
    return f"option {label + 1}" if labels is None else f'"{labels[label]}"'
