"""`Estimate`: what the one model says of annotators and items; `estimate` fits it to a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from realm.crowd import accuracy as accuracies
from realm.crowd.accuracy import chance_of, expertise_of, leave_one_out, pairs_of, relative_tasks, sums_by
from realm.crowd.earlier import EarlierEstimates
from realm.crowd.engine import LEAST, Bools, Floats, Ints, log_softmax
from realm.crowd.shared_mistakes import SharedMistakes
from realm.data import Annotations
from realm.data.arguments import require_annotations
from realm.display import counted
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Estimate:
    """Accuracy and expertise of every annotator in every task, and the posterior of every item.

    | field | shape | meaning |
    |---|---|---|
    | expertise | (annotators, tasks) | beta: how far accuracy lies above what the annotator's habit scores |
    | accuracy, low, high | (annotators, tasks) | P(label = truth), and its 95% interval; NaN without annotations |
    | chance | (annotators, tasks) | accuracy on the same items of always giving the most frequent label |
    | annotations | (annotators, tasks) | how many annotations each gave |
    | posterior | (items, Kmax) | P(true label = k) given everything, shared mistakes allowed for |
    | relative_tasks | (tasks,) | mostly one label per item and no gold: values hang on the model's calibration |
    | habits | (annotators, tasks, Kmax) | xi: what each answers when not answering from the item |
    | cells | (cells, 3) | every (annotator, task, label) that was given, sorted |
    | cell_evidence | (cells, Kmax) | log P(label | k is true) of each |
    | log_prior | (items, Kmax) | what is known of each item but for its labels: log P, or the log class shares |
    | weight | (annotations,) | how much each annotation counts, copies of a label sharing one |
    | exponent | (tasks,) | tau: how much of an item's evidence counts, 1 where annotators err independently |
    | shared_error | (tasks,) | e: the share of items on which everybody is taken to err alike |
    | shared_error_high | (tasks,) | the e that the ends of the intervals allow for |
    """

    expertise: Floats
    accuracy: Floats
    low: Floats
    high: Floats
    chance: Floats
    annotations: Ints
    posterior: Floats
    relative_tasks: Bools
    habits: Floats
    cells: Ints
    cell_evidence: Floats
    log_prior: Floats
    weight: Floats
    exponent: Floats
    shared_error: Floats
    shared_error_high: Floats

    def __repr__(self) -> str:
        (annotators, tasks), items = self.expertise.shape, len(self.posterior)
        sizes = counted(items, "item"), counted(annotators, "annotator"), counted(tasks, "task")
        return f"Estimate({', '.join(sizes)}{'; relative' * self.relative})"

    @property
    def relative(self) -> bool:
        """True where in every task most items have one annotation and no gold: only ratios of betas are known."""
        return bool(self.relative_tasks.all())

    def evidence(self, annotations: Annotations) -> Floats:
        """log P(label | k) of annotations of the table, all or some. Shape (annotations, Kmax)"""
        task, keys = annotations.item_tasks[annotations.item], self._keys(*self.cells.T)
        wanted = self._keys(annotations.annotator.astype(np.int64), task, annotations.label)
        place = np.searchsorted(keys, wanted)
        if (np.append(keys, -1)[place] != wanted).any():
            raise RealmError("`annotations` has labels that are not in the table that was estimated.")
        return np.asarray(self.cell_evidence[place])

    def confusion(self, annotator: int, task: int) -> Floats:
        """P(label | truth) of an annotator, truth by row. Shape (Kmax, Kmax)"""
        width = self.cell_evidence.shape[1]
        own = (self.cells[:, :2] == (annotator, task)).all(axis=1)
        matrix, given = np.zeros((width, width)), self.cells[own, 2]
        matrix[:, given] = np.exp(self.cell_evidence[own]).T
        never = np.setdiff1d(np.arange(width), given)
        matrix[:, never] = np.maximum(1 - matrix.sum(axis=1, keepdims=True), 0.0) / max(len(never), 1)
        return np.asarray(matrix / np.maximum(matrix.sum(axis=1, keepdims=True), LEAST))

    def apparent(self, annotations: Annotations) -> Floats:
        """The posterior before shared mistakes are allowed for: what the labels say. Shape (items, Kmax)"""
        return np.exp(log_softmax(self.log_prior + self.label_scores(annotations)))

    def label_scores(self, annotations: Annotations) -> Floats:
        """tau times the weighted evidence of each item's labels. Shape (items, Kmax)"""
        weight = self.exponent[annotations.item_tasks[annotations.item]] * self.weight
        return item_sums(self.evidence(annotations) * weight[:, None], annotations)

    def without_own(self, annotations: Annotations) -> Floats:
        """log P(truth | everything but the annotation itself and its copies). Shape (annotations, Kmax)"""
        own = np.ones(annotations.n_annotations) if annotations.weight is None else annotations.weight
        return leave_one_out(self.log_prior, self.evidence(annotations), annotations.item, self.weight, own)

    def _keys(self, annotator: Any, task: Any, label: Any) -> Any:
        """One number for each (annotator, task, label), in the order of `cells`."""
        return (annotator * self.expertise.shape[1] + task) * self.cell_evidence.shape[1] + label

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Every field by its name, as a plain array: what a typed file holds. `from_arrays` takes them back."""
        return {name: np.asarray(getattr(self, name), order="C") for name in self.__dataclass_fields__}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Estimate:
        """The estimate whose `to_arrays` gave these; arrays of other names are ignored."""
        if missing := [name for name in cls.__dataclass_fields__ if name not in arrays]:
            raise RealmError(f"the stored estimate lacks {', '.join(missing)}.")
        return cls(**{name: np.asarray(arrays[name]) for name in cls.__dataclass_fields__})


def item_sums(values: Floats, annotations: Annotations) -> Floats:
    """The sum of `values` (annotations, Kmax) over the annotations of each item. Shape (items, Kmax)"""
    return sums_by(annotations.item, values, annotations.n_items)


def estimate_from_evidence(
    annotations: Annotations,
    evidence: Floats,
    log_prior: Floats,
    *,
    weight: Floats | None = None,
    exponent: Floats | None = None,
    known: Ints | None = None,
    experts: Bools | None = None,
    earlier: EarlierEstimates | None = None,
    kind: str | None = None,
    habits: Floats | None = None,
) -> Estimate:
    """Labels, accuracies and intervals from evidence and log P alone, whatever channel the evidence is of.

    `evidence` (annotations, Kmax) is log P(label | k) given the item's own options, `log_prior` (items, Kmax) log P out
    of sample, or log class shares, -inf beyond an item's options. `weight` (annotations,) is the table's own by
    default, `exponent` (tasks,) tau, `known` (items,) the truth where it is given, -1 elsewhere, `experts`
    (annotators,) who is held to be right, `habits` (annotators, tasks, Kmax) what each answers when not reading.
    """
    item, annotator = annotations.item, annotations.annotator
    n, n_tasks = annotations.n_annotators, len(annotations.tasks)
    own = np.ones(len(item)) if annotations.weight is None else annotations.weight.astype(np.float64)
    weight = own if weight is None else weight
    exponent = np.ones(n_tasks) if exponent is None else exponent
    known = np.full(annotations.n_items, -1) if known is None else known
    experts = np.zeros(n, dtype=bool) if experts is None else experts
    earlier = EarlierEstimates.none(annotations) if earlier is None else earlier
    item_task, counts, per_item = annotations.item_tasks, annotations.option_counts, annotations.annotations_per_item
    scores = item_sums(evidence * weight[:, None], annotations) * exponent[item_task][:, None]
    apparent = np.exp(log_softmax(scores + log_prior))
    has_truth, is_truth = known >= 0, np.arange(log_prior.shape[1]) == known[:, None]
    certain = np.where(has_truth[:, None], np.where(is_truth, 0.0, -np.inf), log_prior)
    by_others = leave_one_out(certain, evidence, item, weight, own)
    right = np.exp(by_others[np.arange(len(item)), annotations.label])
    habits = habits_of(annotations, right, weight, log_prior.shape[1]) if habits is None else habits
    posterior, by_habit = np.zeros_like(apparent), np.full((n, n_tasks), np.nan)
    mean, low, high = np.full((3, n, n_tasks), np.nan)
    errors, highest_errors = np.zeros((2, n_tasks))
    for task in range(n_tasks):
        items, rows = np.flatnonzero(item_task == task), np.flatnonzero(item_task[item] == task)
        given = items[has_truth[items] & (per_item[items] > 0)]
        shared = SharedMistakes.of(kind, float(exponent[task])).given_gold(apparent[given], known[given], counts[given])
        errors[task], highest_errors[task] = shared.mean, shared.high
        posterior[items] = shared.posterior(apparent[items], counts[items])
        if not len(rows):
            continue
        mean[:, task], low[:, task], high[:, task] = accuracies.annotator_accuracies(
            right=right[rows],
            annotator=annotator[rows],
            weight=weight[rows],
            shared=shared,
            options=float(counts[item[rows]].mean()),
            known=has_truth[item[rows]],
            group=annotations.annotator_groups,
            experts=experts,
            own_mean=earlier.mean[:, task],
            own_weight=earlier.weight[:, task],
        )
        truths = sums_by(annotator[rows], apparent[item[rows]], n)
        total = np.maximum(truths.sum(axis=1), LEAST)
        by_habit[:, task] = (truths * np.nan_to_num(habits[:, task])).sum(axis=1) / total
    posterior = np.where(has_truth[:, None], is_truth, posterior)
    lowest = accuracies.lowest_expertise(annotations).reshape(mean.shape)
    labelled = np.bincount(pairs_of(annotations), minlength=mean.size).reshape(mean.shape)
    keys, place, repeats = np.unique(
        pairs_of(annotations) * evidence.shape[1] + annotations.label, return_inverse=True, return_counts=True
    )
    pair, label = np.divmod(keys, evidence.shape[1])
    cells = np.stack([*np.divmod(pair, n_tasks), label], axis=1)
    cell_evidence = sums_by(place, evidence, len(keys)) / repeats[:, None]
    return Estimate(
        expertise=np.clip(expertise_of(mean, np.minimum(by_habit, 1 - 1e-6)), lowest, 1.0),
        accuracy=mean,
        low=low,
        high=high,
        chance=chance_of(annotations, posterior).reshape(mean.shape),
        annotations=labelled,
        posterior=posterior,
        relative_tasks=relative_tasks(annotations, has_truth),
        habits=np.where((labelled > 0)[:, :, None], habits, np.nan),
        cells=cells,
        cell_evidence=cell_evidence,
        log_prior=log_prior,
        weight=weight,
        exponent=exponent,
        shared_error=errors,
        shared_error_high=highest_errors,
    )


def habits_of(annotations: Annotations, right: Floats, weight: Floats, width: int) -> Floats:
    """What each annotator answers where the item's other labels speak against it. Shape (annotators, tasks, Kmax)"""
    shape = (annotations.n_annotators, len(annotations.tasks), width)
    cell = pairs_of(annotations) * width + annotations.label
    wrong, given = (
        np.bincount(cell, values, minlength=shape[0] * shape[1] * width).reshape(-1, width)
        for values in (weight * (1 - right), np.ones(len(cell)))
    )
    counts = wrong + given / np.maximum(given.sum(axis=1, keepdims=True), 1)  # as labels are, where nothing is wrong
    return np.asarray((counts / np.maximum(counts.sum(axis=1, keepdims=True), LEAST)).reshape(shape))


def estimate(
    annotations: Annotations,
    pred_probs: npt.ArrayLike | None = None,
    *,
    gold: npt.NDArray[np.integer] | None = None,
    experts: Sequence[str] | None = None,
    prior: pd.DataFrame | None = None,
    kind: str | None = None,
) -> Estimate:
    """Annotators and labels of a table, with or without a model's probabilities.

    | argument | shape | meaning |
    |---|---|---|
    | annotations | | who labelled what; a weight multiplies the evidence of its annotation |
    | pred_probs | (items, Kmax) | P(option) by a model that was not trained on the item; None: labels alone |
    | gold | (items,) | true labels where known, -1 elsewhere |
    | experts | names | annotators taken to be right |
    | prior | table | an earlier table of annotators, in place of the pool for those it names |
    | kind | | `people` or `models` (LLM judges): how often everybody may be wrong together; None: by tau |

    The probabilities are brought to the temperature that the labels bear out (`AnnotatorModel.fit_tempered`).

    Examples:
        >>> import pandas as pd
        >>> table = Annotations.from_pandas(pd.DataFrame(
        ...     {"text": ["a", "a", "b", "b"], "annotator": ["x", "y"] * 2, "label": ["no", "no", "yes", "yes"]}))
        >>> estimates = estimate(table, [[0.6, 0.4], [0.4, 0.6]])
        >>> estimates.accuracy.shape, estimates.posterior.argmax(axis=1).tolist()
        ((2, 1), [0, 1])
    """
    from realm.crowd.model import AnnotatorModel

    require_annotations(annotations, "annotations")
    earlier = None if prior is None else EarlierEstimates.from_table(annotations, prior)
    model = AnnotatorModel(annotations, gold=gold, experts=experts or (), earlier=earlier, kind=kind)
    if pred_probs is None:
        return model.fit().estimate()
    log_probs = checked_log_probs(annotations, pred_probs)
    return model.estimate(log_probs / model.fit_tempered(log_probs))


def checked_log_probs(annotations: Annotations, pred_probs: npt.ArrayLike) -> Floats:
    """The logarithm of probabilities of the right shape; a row of NaN: nothing is known of the item. (items, Kmax)"""
    probs, counts = np.asarray(pred_probs, dtype=np.float64), annotations.option_counts
    shape = (annotations.n_items, int(counts.max(initial=0)))
    if probs.ndim != 2 or probs.shape[0] != shape[0] or probs.shape[1] < shape[1]:
        raise RealmError(f"`pred_probs` must have shape {shape}, items and options; it has {probs.shape}.")
    probs = np.where(np.arange(probs.shape[1]) < counts[:, None], probs, 0.0)
    given = probs[~np.isnan(probs).any(axis=1)]
    if (given < 0).any() or not np.isfinite(given).all() or (given.sum(axis=1) <= 0).any():
        raise RealmError("`pred_probs`: probabilities of 0 or more, of which each item has one above 0.")
    return np.asarray(np.log(np.maximum(probs, 1e-30) / np.maximum(probs.sum(axis=1, keepdims=True), 1e-30)))
