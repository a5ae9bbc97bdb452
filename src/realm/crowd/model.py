"""`AnnotatorModel`: the one model of annotators for a whole table. Training, aggregation and reports all use this.

Each task has its own annotators, fitted by `realm.crowd.engine`; what a model says of the items, where there is one,
comes in as log P, which must be out of sample.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from realm.crowd import accuracy as accuracies
from realm.crowd.assignment import ASSIGNED_Z, ASSIGNED_Z_OF_LABELS, assignment_z, assignment_z_of_labels
from realm.crowd.copies import CopyPair, copy_weights, find_task_copies
from realm.crowd.earlier import EarlierEstimates, expert_rows
from realm.crowd.engine import (
    LEAST,
    ONE_LABEL_MEAN,
    PRIORS,
    Fit,
    Floats,
    Ints,
    LabelTable,
    Parameters,
    Pool,
    Priors,
    log_softmax,
)
from realm.crowd.estimate import Estimate, estimate_from_evidence
from realm.crowd.shared_mistakes import KINDS, SharedMistakes, fit_exponent
from realm.crowd.task_model import TaskModel, clearly_supported
from realm.crowd.temperature import SD, fit_temperature
from realm.data import Annotations
from realm.errors import RealmError

TEMPERATURE_SWEEPS = 30
"""Sweeps of the fixed point of the temperature at most; it moves by less than 0.3% after ten as a rule."""
FIT_STEPS = 20
"""EM steps after P was brought to a temperature."""
REPORT_STEPS = 10
"""EM steps that bring a trained model of annotators to another P: it has moved little since the last update."""
READS = 0.2
"""The expertise from which an annotator's labels count in the temperature: a fifth of them is read off the item."""


class AnnotatorModel:
    """The annotators of a table: how each turns the truth of an item into the label they give.

    | argument | meaning |
    |---|---|
    | annotations | who labelled what |
    | priors | `PRIORS["confusion"]` by default; others make it Dawid-Skene, MACE and so on |
    | gold | (items,) true labels where known, -1 elsewhere |
    | experts | names of annotators who are held to be right |
    | earlier | an earlier table of annotators, in place of the pool for those it names |
    | kind | `people` or `models`: how often everybody may be wrong together; None: by tau |
    | features | (items, d) of any kind: with one label per item they tell whether who was asked depends on the item |
    | find_copies | whether annotators who copy count once |
    """

    def __init__(
        self,
        annotations: Annotations,
        priors: Priors = PRIORS["confusion"],
        *,
        gold: npt.NDArray[np.integer] | None = None,
        experts: Sequence[str] = (),
        earlier: EarlierEstimates | None = None,
        kind: str | None = None,
        features: npt.NDArray[Any] | None = None,
        find_copies: bool = True,
    ) -> None:
        if kind is not None and kind not in KINDS:
            raise RealmError(f"`kind={kind}`: must be one of {', '.join(KINDS)}.")
        self.annotations, self.kind = annotations, kind
        self.known = np.full(annotations.n_items, -1) if gold is None else np.asarray(gold, dtype=np.int64)
        if len(self.known) != annotations.n_items or (self.known >= annotations.option_counts).any():
            raise RealmError(
                f"`gold` must hold a label for each of the {annotations.n_items} items: an index of its options, or -1."
            )
        self.relative_tasks = accuracies.relative_tasks(annotations, self.known >= 0)
        self.expert = np.zeros(annotations.n_annotators, dtype=bool)
        self.expert[expert_rows(annotations, experts)] = True
        self.earlier = EarlierEstimates.none(annotations) if earlier is None else earlier
        self.tasks = [self._task_model(task, priors, find_copies) for task in range(len(annotations.tasks))]
        if features is not None:
            self.use_features(features)

    def _task_model(self, task: int, priors: Priors, find_copies: bool) -> TaskModel:
        annotations = self.annotations
        items = np.flatnonzero(annotations.item_tasks == task)
        place = np.full(annotations.n_items, -1, dtype=np.int32)
        place[items] = np.arange(len(items))
        rows = np.flatnonzero(place[annotations.item] >= 0).astype(np.int32)
        options = annotations.option_counts[items].astype(np.int64)
        weight = None if annotations.weight is None else annotations.weight[rows].astype(np.float64)
        whole = len(annotations.tasks) == 1  # then nothing is copied
        table = LabelTable(
            annotations.item if whole else place[annotations.item[rows]],
            annotations.annotator if whole else annotations.annotator[rows],
            annotations.label if whole else annotations.label[rows],
            len(items),
            annotations.n_annotators,
            max(int(options.max(initial=2)), 2),
            weight,
            options,
            annotations.annotator_groups,
        )
        copies = find_task_copies(table) if find_copies else []
        if copies:
            table = replace(table, weight=copy_weights(table, copies) * (1.0 if weight is None else weight))
        sparse = bool(self.relative_tasks[task])
        if sparse and priors.form != "none" and priors.mean is None:
            priors = replace(priors, mean=ONE_LABEL_MEAN)
        pool = replace(
            Pool.of(table, priors),
            own_mean=self.earlier.mean[:, task],
            own_weight=self.earlier.weight[:, task],
            experts=self.expert,
        )
        assigned = not sparse and priors.form == "habit" and bool(np.isfinite(priors.rows))
        assigned = assigned and assignment_z_of_labels(table) > ASSIGNED_Z_OF_LABELS
        known, models = self.known[items], self.kind == "models"
        return TaskModel(table, items, rows, known, priors, pool, copies, sparse, assigned, models)

    @property
    def wants_features(self) -> bool:
        """Whether a task has one label for each item, so that only the items tell who was asked."""
        return any(task.table.one_label_each and len(task.rows) > 0 for task in self.tasks)

    def use_features(self, features: npt.NDArray[Any]) -> None:
        """Find out from features (items, d) of any kind whether who was asked depends on the item: before `fit`."""
        for task in self.tasks:
            if task.table.one_label_each and len(task.rows):
                task.assigned = assignment_z(np.asarray(features)[task.items], task.table) > ASSIGNED_Z

    # ---------------------------------------------------------------- fitting

    def fit(
        self,
        log_probs: npt.ArrayLike | None = None,
        progress: Callable[[int, int], None] | None = None,
        *,
        waits: bool = False,
    ) -> AnnotatorModel:
        """Fit from the beginning. `log_probs` (items, Kmax) is log P out of sample; None, or NaN rows: none.

        `waits`: a model will be trained, and `update` follows: where labels tell nothing of each other, everybody
        starts at the pool's mean instead of a chance solution.
        """
        log_priors = [self._task_log_probs(log_probs, task) for task in self.tasks]
        for task, log_prior in zip(self.tasks, log_priors, strict=True):
            task.start(log_prior, progress, waits=waits)
        several = [
            (task, log_prior)
            for task, log_prior in zip(self.tasks, log_priors, strict=True)
            if len(task.fitted.posterior)
        ]
        if several:
            exponent = fit_exponent([task.forecasts(log_prior) for task, log_prior in several])
            for task, log_prior in several:
                task.temper(exponent, log_prior)
        return self

    def fit_tempered(self, log_probs: npt.ArrayLike) -> float:
        """Fit to labels and to log P (items, Kmax) of unknown quality; the temperature of P.

        Where labels tell something of each other, from these alone, with P at the temperature that they bear out: a
        model that is sure and wrong would else make guessers of all who contradict it. From P as it is where they do
        not, or where that is clearly better supported (`clearly_supported`).
        """
        given = np.asarray(log_probs, dtype=np.float64)
        model = self.copy().fit(given)
        temperature = model.best_temperature(given)
        if temperature > 1:
            model.update(given / temperature, steps=FIT_STEPS)
        if any(task.told and not task.sparse for task in self.tasks):
            by_labels = self.copy().fit()
            milder = by_labels.best_temperature(given)
            by_labels.fit(given / milder)
            scores = [
                sum(task.fitted.log_likelihood for task in each.tasks) - 0.5 * (np.log(t) / SD) ** 2
                for each, t in ((model, temperature), (by_labels, milder))
            ]
            supports = [
                one.support(log_prior, one.fitted, other.fitted)
                for one, other in zip(model.tasks, by_labels.tasks, strict=True)
                if (log_prior := self._task_log_probs(given, one)) is not None
            ]
            if not clearly_supported(scores[0] - scores[1], supports):
                model, temperature = by_labels, milder
        self.tasks = model.tasks
        return temperature

    def update(self, log_probs: npt.ArrayLike, steps: int = 3) -> None:
        """A few EM steps from where the fit stands, on new log P (items, Kmax)."""
        for task in self.tasks:
            task_log_probs = self._task_log_probs(log_probs, task)
            if task_log_probs is not None:
                task.update(task_log_probs, steps)

    def hold_shares(self, log_probs: npt.ArrayLike) -> None:
        """Bring what holds the class shares, where they are held, to another P (items, Kmax); the rest stays."""
        for task in self.tasks:
            task.hold_shares(self._task_log_probs(log_probs, task))

    def _task_log_probs(self, log_probs: npt.ArrayLike | None, task: TaskModel) -> Floats | None:
        """The rows and options of a task, normalised; None where nothing is known of any of its items."""
        if log_probs is None or not len(task.items):
            return None
        part = np.asarray(log_probs, dtype=np.float64)[task.items, : task.table.n_options]
        unknown = np.isnan(part).any(axis=1)
        if unknown.all():
            return None
        inside = np.arange(part.shape[1]) < self.annotations.option_counts[task.items][:, None]
        part = np.where(inside, np.maximum(part, np.log(1e-30)), -np.inf)
        out = np.full(part.shape, np.nan)
        out[~unknown] = log_softmax(part[~unknown])
        return out

    # ---------------------------------------------------------------- for training

    @property
    def width(self) -> int:
        """The most options of an item."""
        return int(self.annotations.option_counts.max(initial=2))

    @property
    def exponent(self) -> Floats:
        """tau of each task. Shape (tasks,)"""
        return np.array([task.exponent for task in self.tasks])

    @property
    def weight(self) -> Floats:
        """How much each annotation counts, copies sharing one witness. Shape (annotations,)"""
        if all(task.table.weight is None for task in self.tasks):
            return np.broadcast_to(1.0, self.annotations.n_annotations)
        out = np.ones(self.annotations.n_annotations)
        for task in self.tasks:
            out[task.rows] = 1.0 if task.table.weight is None else task.table.weight
        return out

    def evidence(self) -> Floats:
        """log P(label | k) of every annotation, before weights and tau. Shape (annotations, Kmax)"""
        out = np.zeros((self.annotations.n_annotations, self.width))
        for task in self.tasks:
            table = task.table
            for option, column in enumerate(task.fitted.parameters.evidence.T):  # no second array of this size
                out[task.rows, option] = column[table.cell]
            if table.narrow:
                assert table.option_counts is not None
                rows = np.flatnonzero(table.option_counts[table.item] < table.n_options)
                counts = table.option_counts[table.item[rows]]
                own = task.evidence_of(table.annotator[rows], table.label[rows], counts)
                out[task.rows[rows], : table.n_options] = own
        return out

    def evidence_of(self, annotator: Ints, task: Ints, label: Ints, option_counts: Ints) -> Floats:
        """log P(label | k) of any labels, given or never given before, of items with so many options.

        Of an item with fewer options than its task, given that the label is one of these. (n,) each -> (n, Kmax)
        """
        out = np.zeros((len(label), self.width))
        for index, model in enumerate(self.tasks):
            rows = np.flatnonzero(np.asarray(task) == index)
            out[rows, : model.table.n_options] = model.evidence_of(annotator[rows], label[rows], option_counts[rows])
        return out

    def _shared_evidence(self) -> tuple[Floats, Ints | None]:
        """Evidence by cell (cells, Kmax) and the cell of each annotation; by annotation where options differ."""
        if any(task.table.narrow for task in self.tasks):
            return self.evidence(), None
        cell, values = np.empty(self.annotations.n_annotations, dtype=np.int32), list[Floats]()
        for task in self.tasks:
            cell[task.rows] = task.table.cell + sum(len(each) for each in values)
            own = task.fitted.parameters.evidence
            values.append(np.pad(own, ((0, 0), (0, self.width - own.shape[1]))))
        return np.concatenate(values), cell

    def item_offset(self) -> Floats:
        """What is added to log P of each item in the likelihood: held class shares, and who was asked. (items, Kmax)"""
        out = np.zeros((self.annotations.n_items, self.width))
        for task in self.tasks:
            out[task.items, : task.table.n_options] = task.fitted.offset + task.item_bracket()
        return out

    def item_evidence(self) -> Floats:
        """tau times the summed evidence of all labels of each item. (items, Kmax)"""
        out = np.zeros((self.annotations.n_items, self.width))
        for task in self.tasks:
            out[task.items, : task.table.n_options] = task.label_scores()
        return out

    def counted_evidence(self, item: Ints, annotator: Ints, label: Ints, weighted: bool = True) -> Floats:
        """tau w log P(label | k) of any labels of the table's items; w is 1 of those that it has not. (n, Kmax)"""
        task, counts = self.annotations.item_tasks[item], self.annotations.option_counts[item].astype(np.int64)
        if (label >= counts).any() or (annotator < 0).any() or (annotator >= self.annotations.n_annotators).any():
            raise RealmError("labels must be below the item's number of options, annotators rows of the table's.")
        keys, weights = self._sorted_weights
        wanted = (item * self.annotations.n_annotators + annotator) * self.width + label
        place = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        weight = self.exponent[task]
        if weighted and len(keys):
            weight = np.where(keys[place] == wanted, weights[place], 1.0) * weight
        return self.evidence_of(annotator, task.astype(np.int64), label, counts) * weight[:, None]

    @cached_property
    def _sorted_weights(self) -> tuple[Ints, Floats]:
        """A number for each (item, annotator, label), sorted, and the weight of the annotation."""
        table = self.annotations
        keys = (table.item.astype(np.int64) * table.n_annotators + table.annotator) * self.width + table.label
        order = np.argsort(keys, kind="stable")
        return keys[order], self.weight[order]

    def summary(self) -> dict[str, Floats]:
        """What was learned of each annotator: `expertise_trained` and `accuracy_trained`, (annotators, tasks).

        Accuracy is that of the confusion matrix at the annotator's own items; expertise how far it lies above what the
        annotator's habit would score. Of somebody without labels in a task, what the pool says.
        """
        shape = (self.annotations.n_annotators, len(self.tasks))
        accuracy, expertise = np.full(shape, np.nan), np.full(shape, np.nan)
        for index, task in enumerate(self.tasks):
            table, parameters = task.table, task.fitted.parameters
            everybody = np.arange(table.n_annotators)
            truths = parameters.row_mass + table.n_options * LEAST + task.fitted.class_shares * 1e-6
            truths = truths / truths.sum(axis=1, keepdims=True)
            diagonal = np.stack(
                [
                    np.exp(parameters.any_evidence(everybody, np.full(table.n_annotators, k), task.priors)[:, k])
                    for k in range(table.n_options)
                ],
                axis=1,
            )
            own = parameters.evidence[np.arange(len(table.cell_label)), table.cell_label]
            diagonal[table.cell_annotator, table.cell_label] = np.exp(own)
            by_habit = (truths * parameters.habit).sum(axis=1)
            accuracy[:, index] = (truths * diagonal).sum(axis=1)
            expertise[:, index] = accuracies.expertise_of(accuracy[:, index], np.minimum(by_habit, 1 - 1e-6))
        return {"expertise_trained": expertise, "accuracy_trained": accuracy}

    # ---------------------------------------------------------------- temperature and estimate

    def best_temperature(self, log_probs: npt.ArrayLike, *, in_sample: bool = False) -> float:
        """T >= 1 at which P^(1/T) is as sure of the items as labels and P together, shared mistakes allowed for.

        The fixed point of q ~ P^(1/T) exp(sum w E) and T, where P^(1/T) is closest to (1 - e) q + e (1 - q) / (K - 1).
        At most the temperature at which P predicts single labels of annotators who read them: about the truth P is as
        sure as about labels, or surer. `in_sample`: P has seen the labels, agrees with them, and only that bound is
        taken. `log_probs` (items, Kmax); NaN rows say nothing; a known truth is its own target.
        """
        table = self.annotations
        given = np.asarray(log_probs, dtype=np.float64)[:, : self.width]
        expertise = self.summary()["expertise_trained"][table.annotator, table.item_tasks[table.item]]
        reads = (expertise >= READS).astype(np.float64)
        shares = np.zeros((table.n_items, self.width))
        np.add.at(shares, (table.item, table.label), reads)
        truth = np.flatnonzero(self.known >= 0)
        shares[truth] = 0.0
        shares[truth, self.known[truth]] = 1.0
        rows = np.flatnonzero((shares.sum(axis=1) > 0) & ~np.isnan(given[:, 0]))
        inside = np.arange(self.width) < table.option_counts[rows][:, None]
        logits = np.where(inside, np.maximum(given[rows], np.log(1e-30)), -np.inf)
        most = temperature = fit_temperature(logits, shares[rows] / shares[rows].sum(axis=1, keepdims=True))
        if in_sample:
            return most
        scores, errors = np.zeros((table.n_items, self.width)), np.zeros(table.n_items)
        for task in self.tasks:
            scores[task.items, : task.table.n_options] = task.label_scores(exponent=1.0)
            errors[task.items] = SharedMistakes.of(self.kind, task.exponent).mean
        error, others = errors[rows][:, None], np.maximum(table.option_counts[rows] - 1, 1)[:, None]
        for _ in range(TEMPERATURE_SWEEPS):
            posterior = np.exp(log_softmax(logits / temperature + scores[rows]))
            target = np.where(inside, (1 - error) * posterior + error * (1 - posterior) / others, 0.0)
            target = np.where((self.known[rows] >= 0)[:, None], shares[rows], target)
            before, temperature = temperature, min(fit_temperature(logits, target), most)
            if abs(np.log(temperature / before)) < 0.003:
                break
        return temperature

    def log_prior(self, log_probs: npt.ArrayLike | None = None) -> Floats:
        """What is known of each item but for its labels: log P with the offsets, or the log class shares. (items, Kmax)

        Not normalised; -inf beyond an item's options.
        """
        out = np.full((self.annotations.n_items, self.width), -np.inf)
        for task in self.tasks:
            out[task.items, : task.table.n_options] = task.log_prior(self._task_log_probs(log_probs, task))
        return out

    def estimate(self, log_probs: npt.ArrayLike | None = None) -> Estimate:
        """Labels, accuracies and intervals by this model, with log P (items, Kmax) out of sample where there is any."""
        habits = np.full((self.annotations.n_annotators, len(self.tasks), self.width), np.nan)
        for index, task in enumerate(self.tasks):
            habits[:, index, : task.table.n_options] = task.fitted.parameters.habit
        evidence, cell = self._shared_evidence()
        return estimate_from_evidence(
            self.annotations,
            evidence,
            self.log_prior(log_probs),
            cell=cell,
            weight=self.weight,
            exponent=self.exponent,
            known=self.known,
            experts=self.expert,
            earlier=self.earlier,
            kind=self.kind,
            habits=habits,
        )

    def copy(self) -> AnnotatorModel:
        """The same model, to be fitted further while this one stays as it is."""
        model = copy.copy(self)
        model.tasks = [replace(task) for task in self.tasks]
        return model

    def brought_to(self, log_probs: npt.ArrayLike, *, in_sample: bool = False) -> tuple[AnnotatorModel, float, Floats]:
        """A copy that is brought to another log P (items, Kmax), the temperature of P, and log P at it.

        `in_sample`: P was recorded in training, not out of fold. It has seen the labels, and where an item has several
        they speak for themselves, through the annotators as they are: its row of log P is NaN.
        """
        model = self.copy()
        heard = np.array(log_probs, dtype=np.float64)
        if in_sample:
            heard[self.annotations.annotations_per_item > 1] = np.nan
            model.hold_shares(heard)
        else:
            model.update(log_probs, REPORT_STEPS)
        temperature = model.best_temperature(log_probs, in_sample=in_sample)
        if not in_sample and temperature > 1:
            model.update(heard / temperature, REPORT_STEPS)
        return model, temperature, heard / temperature

    def estimate_at(self, log_probs: npt.ArrayLike, *, in_sample: bool = False) -> Estimate:
        """`estimate` of a copy that is brought to another log P (items, Kmax)."""
        model, _, heard = self.brought_to(log_probs, in_sample=in_sample)
        return model.estimate(heard)

    # ---------------------------------------------------------------- state

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """What a checkpoint holds: every fitted array by name, for `load_state`."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        for index, task in enumerate(self.tasks):
            state, parameters = task.fitted, task.fitted.parameters
            fields = {
                **{name: getattr(parameters, name) for name in Parameters.__dataclass_fields__},
                "class_shares": state.class_shares,
                "offset": state.offset,
                "exponent": np.array([task.exponent]),
                "held_pool": np.array([task.held_pool]),
                "label_offset": np.zeros(0) if task.label_offset is None else task.label_offset,
                "held_shares": np.zeros(0) if task.held_shares is None else task.held_shares,
                "bracket": np.zeros((0, 0)) if task.bracket is None else task.bracket,
            }
            arrays.update({f"{index}.{name}": np.ascontiguousarray(value) for name, value in fields.items()})
        return arrays

    def load_state(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Put back what `state` gave; another shape means another table."""
        for index, task in enumerate(self.tasks):
            own = {name.partition(".")[2]: value for name, value in arrays.items() if name.startswith(f"{index}.")}
            expected = (len(task.table.cell_label), task.table.n_options)
            if "evidence" not in own or own["evidence"].shape != expected:
                raise RealmError("the stored annotator model belongs to another table.")
            parameters = Parameters(**{name: np.array(own[name]) for name in Parameters.__dataclass_fields__})
            empty = np.zeros((0, task.table.n_options))
            task.state = Fit(parameters, np.array(own["class_shares"]), empty, -np.inf, np.array(own["offset"]))
            task.exponent, task.held_pool = float(own["exponent"][0]), bool(own["held_pool"][0])
            task.label_offset = np.array(own["label_offset"]) if own["label_offset"].size else None
            task.held_shares = np.array(own["held_shares"]) if own["held_shares"].size else None
            task.bracket = np.array(own["bracket"]) if own["bracket"].size else None
            task.assigned = task.bracket is not None

    @property
    def copies(self) -> list[CopyPair]:
        """The pairs who copy, in any task, the plainest of a task first; each pair once."""
        pairs = {(pair.first, pair.second): pair for task in reversed(self.tasks) for pair in reversed(task.copies)}
        return list(reversed(pairs.values()))
