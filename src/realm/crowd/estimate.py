"""`Estimate`: what the one model says of annotators and items; `estimate` fits it to a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from realm.crowd.accuracy import (
    annotator_accuracies,
    chance_of,
    expertise_of,
    leave_one_out,
    lowest_expertise,
    pairs_of,
    relative_tasks,
    right_by_others,
    weighted_sums,
)
from realm.crowd.earlier import EarlierEstimates
from realm.crowd.engine import LEAST, Bools, Floats, Ints, log_softmax
from realm.crowd.shared_mistakes import SharedMistakes
from realm.data import Annotations
from realm.data.arguments import require_annotations
from realm.display import counted, notebook_html
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
        annotators, tasks = self.expertise.shape
        sizes = (len(self.posterior), "item"), (annotators, "annotator"), (tasks, "task")
        return f"Estimate({', '.join(counted(*size) for size in sizes)}{'; relative' * self.relative})"

    def _repr_html_(self) -> str:
        import pandas as pd

        labelled = self.annotations > 0
        annotator, task = np.nonzero(labelled)
        columns = {
            name: getattr(self, name)[labelled] for name in ("expertise", "accuracy", "low", "high", "annotations")
        }
        table = pd.DataFrame({"annotator (row)": annotator, "task (row)": task, **columns})
        facts = {
            "mean confidence of the most probable labels": f"{self.posterior.max(axis=1).mean():.3f}",
            "scale": "relative: mostly one label per item" if self.relative else None,
        }
        return notebook_html(repr(self), facts, table)

    @property
    def relative(self) -> bool:
        """True where in every task most items have one annotation and no gold: only ratios of betas are known."""
        return bool(self.relative_tasks.all())

    def evidence(self, annotations: Annotations) -> Floats:
        """log P(label | k) of annotations by these annotators. Shape (annotations, Kmax)

        Of a label that its annotator never gave before, what is left of each row of their matrix, shared evenly.
        """
        task = annotations.item_tasks[annotations.item]
        keys, width = self._keys(*self.cells.T), self.cell_evidence.shape[1]
        wanted = self._keys(annotations.annotator.astype(np.int64), task.astype(np.int64), annotations.label)
        place = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        known = keys[place] == wanted if len(keys) else np.zeros(len(wanted), dtype=bool)
        out = np.zeros((len(wanted), width))
        out[known] = self.cell_evidence[place[known]]
        for row in np.flatnonzero(~known):
            matrix = self.confusion(int(annotations.annotator[row]), int(task[row]))
            out[row] = np.log(np.maximum(matrix[:, annotations.label[row]], 1e-12))
        return out

    def confusion(self, annotator: int, task: int) -> Floats:
        """P(label | truth) of an annotator, truth by row. Shape (Kmax, Kmax)"""
        width = self.cell_evidence.shape[1]
        keys = self._keys(*self.cells.T)
        first, last = np.searchsorted(keys, [self._keys(annotator, task, 0), self._keys(annotator, task, width)])
        matrix = np.zeros((width, width))
        labels = self.cells[first:last, 2]
        matrix[:, labels] = np.exp(self.cell_evidence[first:last]).T
        never = np.setdiff1d(np.arange(width), labels)
        if len(never):
            matrix[:, never] = np.maximum(1 - matrix.sum(axis=1, keepdims=True), 0.0) / len(never)
        return np.asarray(matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1e-12))

    def apparent(self, annotations: Annotations) -> Floats:
        """The posterior before shared mistakes are allowed for: what the labels say. Shape (items, Kmax)"""
        return np.exp(log_softmax(self.log_prior + self.label_scores(annotations)))

    def label_scores(self, annotations: Annotations) -> Floats:
        """tau times the weighted evidence of each item's labels. Shape (items, Kmax)"""
        tau = self.exponent[annotations.item_tasks[annotations.item]]
        return item_sums(self.evidence(annotations) * (tau * self.weight)[:, None], annotations)

    def without_own(self, annotations: Annotations) -> Floats:
        """log P(truth | everything but the annotation itself and its copies). Shape (annotations, Kmax)"""
        own = np.ones(annotations.n_annotations) if annotations.weight is None else annotations.weight
        return leave_one_out(self.log_prior, self.evidence(annotations), annotations.item, self.weight, own=own)

    def _keys(self, annotator: Any, task: Any, label: Any) -> Any:
        """One number for each (annotator, task, label), in the order of `cells`."""
        width = self.cell_evidence.shape[1]
        return (annotator * self.expertise.shape[1] + task) * width + label

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
    sums = [np.bincount(annotations.item, column, minlength=annotations.n_items) for column in values.T]
    return np.stack(sums, axis=1).astype(np.float64)


def estimate_from_evidence(
    annotations: Annotations,
    evidence: Floats,
    log_prior: Floats,
    *,
    cell: Ints | None = None,
    weight: Floats | None = None,
    exponent: Floats | None = None,
    known: Ints | None = None,
    experts: Bools | None = None,
    earlier: EarlierEstimates | None = None,
    kind: str | None = None,
    habits: Floats | None = None,
) -> Estimate:
    """Labels, accuracies and intervals from evidence and log P alone, whatever channel the evidence is of.

    | argument | shape | meaning |
    |---|---|---|
    | evidence | (annotations, Kmax) | log P(label | k) of every annotation, given the item's own options |
    | log_prior | (items, Kmax) | log P out of sample, or log class shares; -inf beyond an item's options |
    | cell | (annotations,) | the row of `evidence` of each annotation, where they share rows; None: its own |
    | weight | (annotations,) | how much each counts; None: the table's own weights |
    | exponent | (tasks,) | tau; None: 1 |
    | known | (items,) | the truth where it is given, -1 elsewhere |
    | experts | (annotators,) bool | who is held to be right |
    | earlier | | an earlier table of annotators |
    | kind | | `people` or `models`; None: by tau |
    | habits | (annotators, tasks, Kmax) | what each answers when not reading; None: as their labels are where wrong |
    """
    n_tasks, n, width = len(annotations.tasks), annotations.n_annotators, log_prior.shape[1]
    ones, row = np.broadcast_to(1.0, annotations.n_annotations), slice(None) if cell is None else cell
    own = ones if annotations.weight is None else annotations.weight.astype(np.float64)
    weight = own if weight is None else weight
    exponent = np.ones(n_tasks) if exponent is None else exponent
    known = np.full(annotations.n_items, -1) if known is None else known
    experts = np.zeros(n, dtype=bool) if experts is None else experts
    earlier = EarlierEstimates.none(annotations) if earlier is None else earlier
    item_task, counts = annotations.item_tasks, annotations.option_counts
    per_item = annotations.annotations_per_item
    apparent = weighted_sums(evidence, row, annotations.item, weight, annotations.n_items)
    apparent *= exponent[item_task][:, None]
    apparent = np.exp(log_softmax(apparent + log_prior))
    truth = np.flatnonzero(known >= 0)
    certain = log_prior.copy() if len(truth) else log_prior
    certain[truth] = -np.inf
    certain[truth, known[truth]] = 0.0
    right = right_by_others(certain, evidence, row, annotations.item, annotations.label, weight, own)
    cells, cell_evidence = cells_of(annotations, evidence, row)
    posterior, shape = np.zeros_like(apparent), (n, n_tasks)
    mean, low, high, by_habit = (np.full(shape, np.nan) for _ in range(4))
    errors, highest_errors = np.zeros(n_tasks), np.zeros(n_tasks)
    habits = habits_of(annotations, right, weight, width) if habits is None else habits.copy()
    for index in range(n_tasks):
        items = np.flatnonzero(item_task == index)
        rows = slice(None) if n_tasks == 1 else np.flatnonzero(item_task[annotations.item] == index)
        given = items[(known[items] >= 0) & (per_item[items] > 0)]
        shared = SharedMistakes.of(kind, float(exponent[index])).given_gold(
            apparent[given], known[given], counts[given]
        )
        errors[index], highest_errors[index] = shared.mean, shared.high
        posterior[items] = shared.posterior(apparent[items], counts[items])
        if not per_item[items].any():
            continue
        mean[:, index], low[:, index], high[:, index] = annotator_accuracies(
            right[rows],
            annotations.annotator[rows],
            weight[rows],
            shared,
            options=float(np.average(counts[items], weights=per_item[items])),
            group=annotations.annotator_groups,
            known=(known >= 0)[annotations.item[rows]],
            experts=experts,
            prior=(earlier.mean[:, index], earlier.weight[:, index]),
        )
        columns = (column[annotations.item[rows]] for column in apparent.T)
        truths = np.stack([np.bincount(annotations.annotator[rows], column, minlength=n) for column in columns], axis=1)
        total = np.maximum(truths.sum(axis=1), LEAST)
        by_habit[:, index] = (truths * np.nan_to_num(habits[:, index])).sum(axis=1) / total
    del right, certain, apparent
    posterior[truth] = 0.0
    posterior[truth, known[truth]] = 1.0
    lowest = lowest_expertise(annotations).reshape(shape)
    labelled = np.bincount(pairs_of(annotations), minlength=n * n_tasks).reshape(shape)
    return Estimate(
        expertise=np.clip(expertise_of(mean, np.minimum(by_habit, 1 - 1e-6)), lowest, 1.0),
        accuracy=mean,
        low=low,
        high=high,
        chance=chance_of(annotations, posterior).reshape(shape),
        annotations=labelled,
        posterior=posterior,
        relative_tasks=relative_tasks(annotations, known >= 0),
        habits=np.where((labelled > 0)[:, :, None], habits, np.nan),
        cells=cells,
        cell_evidence=cell_evidence,
        log_prior=log_prior,
        weight=weight,
        exponent=exponent,
        shared_error=errors,
        shared_error_high=highest_errors,
    )


def cells_of(annotations: Annotations, evidence: Floats, row: Ints | slice) -> tuple[Ints, Floats]:
    """Every (annotator, task, label) that was given, sorted (cells, 3), and the mean of its evidence (cells, Kmax)."""
    width, n_pairs = evidence.shape[1], annotations.n_annotators * len(annotations.tasks)
    key = pairs_of(annotations)
    key *= width
    key += annotations.label
    if n_pairs * width <= 4 * len(key) + 1024:  # counting all cells is cheaper than a sort
        place, counts = key, np.bincount(key, minlength=n_pairs * width)
        keys = np.flatnonzero(counts)
    else:
        keys, place, counts = np.unique(key, return_inverse=True, return_counts=True)
    present = counts > 0
    sums = [np.bincount(place, column[row], minlength=len(counts))[present] for column in evidence.T]
    means = np.stack(sums, axis=1) / counts[present, None]
    pair, label = np.divmod(keys, width)
    return np.stack([*np.divmod(pair, len(annotations.tasks)), label], axis=1), means


def habits_of(annotations: Annotations, right: Floats, weight: Floats, width: int) -> Floats:
    """What each annotator answers where the item's other labels speak against it. Shape (annotators, tasks, Kmax)"""
    pair, wrong = pairs_of(annotations), weight * (1 - right)
    n_pairs = annotations.n_annotators * len(annotations.tasks)
    counts = np.bincount(pair * width + annotations.label, wrong, minlength=n_pairs * width).reshape(-1, width)
    given = np.bincount(pair * width + annotations.label, minlength=n_pairs * width).reshape(-1, width)
    counts = counts + given / np.maximum(given.sum(axis=1, keepdims=True), 1)  # as labels are, where nothing is wrong
    shape = (annotations.n_annotators, len(annotations.tasks), width)
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
    probs = np.asarray(pred_probs, dtype=np.float64)
    counts = annotations.option_counts
    widest = int(counts.max(initial=0))
    if probs.ndim != 2 or probs.shape[0] != annotations.n_items or probs.shape[1] < widest:
        raise RealmError(
            f"`pred_probs` must have shape ({annotations.n_items}, {widest}): a row per item, a column per option; "
            f"it has {probs.shape}."
        )
    probs = np.where(np.arange(probs.shape[1]) < counts[:, None], probs, 0.0)
    given = probs[~np.isnan(probs).any(axis=1)]
    if (given < 0).any() or not np.isfinite(given).all() or (given.sum(axis=1) <= 0).any():
        raise RealmError("`pred_probs`: probabilities of 0 or more, of which each item has one above 0.")
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(probs, 1e-30) / np.maximum(probs.sum(axis=1, keepdims=True), 1e-30)))
