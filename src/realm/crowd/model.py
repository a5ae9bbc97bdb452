"""`AnnotatorModel`: the one model of annotators for a whole table. Training, aggregation and reports all use this.

Each task has its own annotators (`realm.crowd.task_model`); what a model says of the items, where there is one,
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

from realm.crowd.accuracy import expertise_of, relative_tasks
from realm.crowd.assignment import ASSIGNED_Z, ASSIGNED_Z_OF_LABELS, assignment_z, assignment_z_of_labels
from realm.crowd.copies import CopyPair, copy_weights, find_task_copies
from realm.crowd.earlier import EarlierEstimates, expert_rows
from realm.crowd.engine import LEAST, ONE_LABEL_MEAN, PRIORS, Floats, Ints, LabelTable, Pool, Priors, log_softmax
from realm.crowd.estimate import Estimate, estimate_from_evidence
from realm.crowd.shared_mistakes import KINDS, SharedMistakes, fit_exponent
from realm.crowd.task_model import TaskModel, clearly_supported
from realm.crowd.temperature import SD, fit_temperature
from realm.data import Annotations
from realm.errors import RealmError

TEMPERATURE_SWEEPS = 30  # of the fixed point of the temperature: it moves by less than 0.3% after ten as a rule
FIT_STEPS, REPORT_STEPS = 20, 10  # EM steps after P was brought to a temperature; to bring a trained model to another P
READS = 0.2  # the expertise from which an annotator's labels count in the temperature: a fifth is read off the item
# what a state holds of each task: of its parameters, its fit and itself
PARAMETERS = ("skill", "habit", "shared", "evidence", "row_mass", "pool_mean")
FITTED, OF_TASK = ("class_shares", "offset"), ("exponent", "held_pool", "label_offset", "held_shares", "bracket")


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
        find_copies: bool = True,
    ) -> None:
        if kind is not None and kind not in KINDS:
            raise RealmError(f"`kind={kind}`: must be one of {', '.join(KINDS)}.")
        self.annotations, self.kind = annotations, kind
        self.width = int(annotations.option_counts.max(initial=2))
        self.known = np.full(annotations.n_items, -1) if gold is None else np.asarray(gold, dtype=np.int64)
        if len(self.known) != annotations.n_items or (self.known >= annotations.option_counts).any():
            raise RealmError(
                f"`gold` must hold a label for each of the {annotations.n_items} items: an index of its options, or -1."
            )
        self.relative_tasks = relative_tasks(annotations, self.known >= 0)
        self.expert = np.zeros(annotations.n_annotators, dtype=bool)
        self.expert[expert_rows(annotations, experts)] = True
        self.earlier = EarlierEstimates.none(annotations) if earlier is None else earlier
        self.tasks = [self._task_model(task, priors, find_copies) for task in range(len(annotations.tasks))]

    def _task_model(self, task: int, priors: Priors, find_copies: bool) -> TaskModel:
        annotations = self.annotations
        items = np.flatnonzero(annotations.item_tasks == task)
        rows = np.flatnonzero(annotations.item_tasks[annotations.item] == task).astype(np.int32)
        options = annotations.option_counts[items].astype(np.int64)
        table = LabelTable(
            item=np.searchsorted(items, annotations.item[rows]),
            annotator=annotations.annotator[rows],
            label=annotations.label[rows],
            n_items=len(items),
            n_annotators=annotations.n_annotators,
            n_options=max(int(options.max(initial=2)), 2),
            weight=None if annotations.weight is None else annotations.weight[rows].astype(np.float64),
            option_counts=options,
            group=annotations.annotator_groups,
        )
        copies = find_task_copies(table) if find_copies else []
        if copies:
            table = replace(table, weight=copy_weights(table, copies) * table.weights)
        sparse = bool(self.relative_tasks[task])
        if sparse and priors.form != "none" and priors.mean is None:
            priors = replace(priors, mean=ONE_LABEL_MEAN)
        own_mean, own_weight = self.earlier.mean[:, task], self.earlier.weight[:, task]
        pool = replace(Pool.of(table, priors), own_mean=own_mean, own_weight=own_weight, experts=self.expert)
        assigned = not sparse and priors.form == "habit" and bool(np.isfinite(priors.rows))
        assigned = assigned and assignment_z_of_labels(table) > ASSIGNED_Z_OF_LABELS
        known = self.known[items]
        return TaskModel(table, items, rows, known, priors, pool, copies=copies, sparse=sparse, assigned=assigned)

    @property
    def wants_features(self) -> bool:
        """Whether a task has one label for each item, so that only the items tell who was asked."""
        return any(task.table.one_label_each and len(task.rows) > 0 for task in self.tasks)

    def use_features(self, features: npt.NDArray[Any]) -> None:
        """Find out from features (items, d) of any kind whether who was asked depends on the item: before `fit`."""
        for task in self.tasks:
            if task.table.one_label_each and len(task.rows):
                task.assigned = assignment_z(np.asarray(features)[task.items], task.table) > ASSIGNED_Z

    def fit(self, log_probs: npt.ArrayLike | None = None, *, waits: bool = False) -> AnnotatorModel:
        """Fit from the beginning. `log_probs` (items, Kmax) is log P out of sample; None, or NaN rows: none.

        `waits`: a model will be trained, and `update` follows: where labels tell nothing of each other, everybody
        starts at the pool's mean instead of a chance solution.
        """
        tasks = [(task, self._task_log_probs(log_probs, task)) for task in self.tasks]
        for task, log_prior in tasks:
            task.start(log_prior, waits)
        tasks = [(task, log_prior) for task, log_prior in tasks if len(task.fitted.posterior)]
        exponent = fit_exponent([task.forecasts(log_prior) for task, log_prior in tasks])
        for task, log_prior in tasks:
            task.temper(exponent, log_prior, self.kind == "models")
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
        if any(task.table.pairs.beyond_chance and not task.sparse for task in self.tasks):
            by_labels = self.copy().fit()
            milder = by_labels.best_temperature(given)
            by_labels.fit(given / milder)
            score, other_score = (
                sum(task.fitted.log_likelihood for task in each.tasks) - 0.5 * (np.log(t) / SD) ** 2
                for each, t in ((model, temperature), (by_labels, milder))
            )
            supports = [
                one.support(log_prior, one.fitted, other.fitted)
                for one, other in zip(model.tasks, by_labels.tasks, strict=True)
                if (log_prior := self._task_log_probs(given, one)) is not None
            ]
            if not clearly_supported(score - other_score, supports):
                model, temperature = by_labels, milder
        self.tasks = model.tasks
        return temperature

    def update(self, log_probs: npt.ArrayLike, steps: int = 3) -> None:
        """A few EM steps from where the fit stands, on new log P (items, Kmax)."""
        for task in self.tasks:
            if (log_prior := self._task_log_probs(log_probs, task)) is not None:
                task.update(log_prior, steps)

    def _task_log_probs(self, log_probs: npt.ArrayLike | None, task: TaskModel) -> Floats | None:
        """The rows and options of a task, normalised; None where nothing is known of any of its items."""
        if log_probs is None or not len(task.items):
            return None
        part = np.asarray(log_probs, dtype=np.float64)[task.items, : task.table.n_options]
        unknown = np.isnan(part).any(axis=1)
        if unknown.all():
            return None
        inside = np.arange(part.shape[1]) < self.annotations.option_counts[task.items][:, None]
        part = log_softmax(np.where(inside, np.maximum(part, np.log(1e-30)), -np.inf))
        part[unknown] = np.nan
        return part

    @property
    def exponent(self) -> Floats:
        """tau of each task. Shape (tasks,)"""
        return np.array([task.exponent for task in self.tasks])

    @property
    def copies(self) -> list[CopyPair]:
        """The pairs who copy, in any task, the plainest of a task first; each pair once."""
        pairs = {(pair.first, pair.second): pair for task in reversed(self.tasks) for pair in reversed(task.copies)}
        return list(reversed(pairs.values()))

    @property
    def weight(self) -> Floats:
        """How much each annotation counts, copies sharing the weight of one. Shape (annotations,)"""
        out = np.ones(self.annotations.n_annotations)
        for task in self.tasks:
            out[task.rows] = task.table.weights
        return out

    def evidence(self) -> Floats:
        """log P(label | k) of every annotation, before weights and tau. Shape (annotations, Kmax)"""
        table = self.annotations
        return self.evidence_of(
            table.annotator, table.item_tasks[table.item], table.label, table.option_counts[table.item].astype(np.int64)
        )

    def evidence_of(self, annotator: Ints, task: Ints, label: Ints, option_counts: Ints) -> Floats:
        """log P(label | k) of any labels, given that they are one of the item's options. (n,) each -> (n, Kmax)"""
        out = np.zeros((len(label), self.width))
        for index, model in enumerate(self.tasks):
            rows = np.flatnonzero(np.asarray(task) == index)
            out[rows, : model.table.n_options] = model.evidence_of(annotator[rows], label[rows], option_counts[rows])
        return out

    def counted_evidence(self, item: Ints, annotator: Ints, label: Ints, weighted: bool = True) -> Floats:
        """tau w log P(label | k) of any labels of the table's items; w is 1 of those that it has not. (n, Kmax)"""
        table, task, counts = self.annotations, self.annotations.item_tasks[item], self.annotations.option_counts[item]
        if (label >= counts).any() or (annotator < 0).any() or (annotator >= table.n_annotators).any():
            raise RealmError("labels must be below the item's number of options, annotators rows of the table's.")
        weight = self.exponent[task]
        if weighted:
            keys, weights = self._annotation_weights
            wanted = (item * table.n_annotators + annotator) * self.width + label
            place = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
            weight = weight * np.where(keys[place] == wanted, weights[place], 1.0)
        return self.evidence_of(annotator, task, label, counts.astype(np.int64)) * weight[:, None]

    @cached_property
    def _annotation_weights(self) -> tuple[Ints, Floats]:
        """A number for each (item, annotator, label), sorted, and the weight of the annotation."""
        table = self.annotations
        keys = (table.item.astype(np.int64) * table.n_annotators + table.annotator) * self.width + table.label
        order = np.argsort(keys, kind="stable")
        return keys[order], self.weight[order]

    def _of_items(self, values: Callable[[TaskModel], Floats], beyond: float = 0.0) -> Floats:
        """What each task says of its items, as one array. (items, Kmax)"""
        out = np.full((self.annotations.n_items, self.width), beyond)
        for task in self.tasks:
            out[task.items, : task.table.n_options] = values(task)
        return out

    def item_offset(self) -> Floats:
        """What is added to log P of each item in the likelihood: held class shares, and who was asked. (items, Kmax)"""
        return self._of_items(lambda task: task.fitted.offset + task.item_bracket())

    def item_evidence(self) -> Floats:
        """tau times the summed evidence of all labels of each item. (items, Kmax)"""
        return self._of_items(lambda task: task.label_scores())

    def log_prior(self, log_probs: npt.ArrayLike | None = None) -> Floats:
        """What is known of items but for labels: log P with the offsets, or log class shares. (items, Kmax)"""
        return self._of_items(lambda task: task.log_prior(self._task_log_probs(log_probs, task)), -np.inf)

    def summary(self) -> dict[str, Floats]:
        """What was learned of each annotator: `expertise_trained` and `accuracy_trained`, (annotators, tasks).

        Accuracy is that of the confusion matrix at the annotator's own items; expertise how far it lies above what the
        annotator's habit would score. Of somebody without labels in a task, what the pool says.
        """
        everybody = np.arange(self.annotations.n_annotators)
        accuracy, expertise = np.zeros((2, len(everybody), len(self.tasks)))
        for index, task in enumerate(self.tasks):
            table, parameters = task.table, task.fitted.parameters
            truths = parameters.row_mass + table.n_options * LEAST + task.fitted.class_shares * 1e-6
            truths = truths / truths.sum(axis=1, keepdims=True)
            for k in range(table.n_options):
                matrix = parameters.evidence_of(table, everybody, np.full(len(everybody), k), task.priors)
                accuracy[:, index] += truths[:, k] * np.exp(matrix[:, k])
            by_habit = (truths * parameters.habit).sum(axis=1)
            expertise[:, index] = expertise_of(accuracy[:, index], np.minimum(by_habit, 1 - 1e-6))
        return {"expertise_trained": expertise, "accuracy_trained": accuracy}

    def best_temperature(self, log_probs: npt.ArrayLike, *, in_sample: bool = False) -> float:
        """T >= 1 at which P^(1/T) is as sure of the items as labels and P together, shared mistakes allowed for.

        The fixed point of q ~ P^(1/T) exp(sum w E) and T, where P^(1/T) is closest to (1 - e) q + e (1 - q) / (K - 1).
        At most the temperature at which P predicts single labels of annotators who read them: about the truth P is as
        sure as about labels, or surer. `in_sample`: P has seen the labels, agrees with them, and only that bound is
        taken. `log_probs` (items, Kmax); NaN rows say nothing; a known truth is its own target.
        """
        table = self.annotations
        given = np.asarray(log_probs, dtype=np.float64)[:, : self.width]
        reads = self.summary()["expertise_trained"][table.annotator, table.item_tasks[table.item]] >= READS
        shares = np.zeros((table.n_items, self.width))
        np.add.at(shares, (table.item, table.label), reads)
        has_truth = (self.known >= 0)[:, None]
        shares = np.where(has_truth, np.arange(self.width) == self.known[:, None], shares)
        rows = np.flatnonzero((shares.sum(axis=1) > 0) & ~np.isnan(given[:, 0]))
        shares, has_truth, counts = shares[rows], has_truth[rows], table.option_counts[rows][:, None]
        inside = np.arange(self.width) < counts
        logits = np.where(inside, np.maximum(given[rows], np.log(1e-30)), -np.inf)
        most = temperature = fit_temperature(logits, shares / shares.sum(axis=1, keepdims=True))
        if in_sample:
            return most
        scores = self._of_items(lambda task: task.label_scores(exponent=1.0))[rows]
        error = np.array([SharedMistakes.of(self.kind, tau).mean for tau in self.exponent])[
            table.item_tasks[rows], None
        ]
        for _ in range(TEMPERATURE_SWEEPS):
            q = np.exp(log_softmax(logits / temperature + scores))
            target = np.where(inside, (1 - error) * q + error * (1 - q) / np.maximum(counts - 1, 1), 0.0)
            before = temperature
            temperature = min(fit_temperature(logits, np.where(has_truth, shares, target)), most)
            if abs(np.log(temperature / before)) < 0.003:
                break
        return temperature

    def estimate(self, log_probs: npt.ArrayLike | None = None) -> Estimate:
        """Labels, accuracies and intervals by this model, with log P (items, Kmax) out of sample where there is any."""
        habits = np.full((self.annotations.n_annotators, len(self.tasks), self.width), np.nan)
        for index, task in enumerate(self.tasks):
            habits[:, index, : task.table.n_options] = task.fitted.parameters.habit
        return estimate_from_evidence(
            self.annotations,
            self.evidence(),
            self.log_prior(log_probs),
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
        model.tasks = [copy.copy(task) for task in self.tasks]
        return model

    def brought_to(self, log_probs: npt.ArrayLike, *, in_sample: bool = False) -> tuple[AnnotatorModel, float, Floats]:
        """A copy that is brought to another log P (items, Kmax), the temperature of P, and log P at it.

        `in_sample`: P was recorded in training, not out of fold. It has seen the labels, and where an item has several
        they speak for themselves, through the annotators as they are: its row of log P is NaN.
        """
        model, given = self.copy(), np.array(log_probs, dtype=np.float64)
        if in_sample:
            given[self.annotations.annotations_per_item > 1] = np.nan
            for task in model.tasks:
                task.hold_shares(self._task_log_probs(given, task))
        else:
            model.update(log_probs, REPORT_STEPS)
        temperature = model.best_temperature(log_probs, in_sample=in_sample)
        if not in_sample and temperature > 1:
            model.update(given / temperature, REPORT_STEPS)
        return model, temperature, given / temperature

    def estimate_at(self, log_probs: npt.ArrayLike, *, in_sample: bool = False) -> Estimate:
        """`estimate` of a copy that is brought to another log P (items, Kmax)."""
        model, _, tempered = self.brought_to(log_probs, in_sample=in_sample)
        return model.estimate(tempered)

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """What a checkpoint holds: every fitted array by name, for `load_state`; what is None is left out."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        for index, task in enumerate(self.tasks):
            for owner, names in ((task.fitted.parameters, PARAMETERS), (task.fitted, FITTED), (task, OF_TASK)):
                values = {name: getattr(owner, name) for name in names}
                given = {f"{index}.{name}": value for name, value in values.items() if value is not None}
                arrays |= {name: np.array(value, order="C", ndmin=1) for name, value in given.items()}
        return arrays

    def load_state(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Put back what `state` gave; another shape means another table."""
        for index, task in enumerate(self.tasks):
            start = f"{index}."
            own = {name.removeprefix(start): np.array(arrays[name]) for name in arrays if name.startswith(start)}
            if "evidence" not in own or own["evidence"].shape != task.fitted.parameters.evidence.shape:
                raise RealmError("the stored annotator model belongs to another table.")
            parameters = replace(task.fitted.parameters, **{name: own[name] for name in PARAMETERS})
            task.fitted = replace(
                task.fitted, parameters=parameters, class_shares=own["class_shares"], offset=own["offset"]
            )
            task.exponent, task.held_pool = float(own["exponent"][0]), bool(own["held_pool"][0])
            task.label_offset, task.held_shares = own.get("label_offset"), own.get("held_shares")
            task.bracket, task.assigned = own.get("bracket"), "bracket" in own
