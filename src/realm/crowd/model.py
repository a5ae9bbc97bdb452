"""`AnnotatorModel`: the one model of annotators for a whole table. Training, aggregation and reports all use this.

Each task has its own annotators, fitted by `realm.crowd.engine`; what a model says of the items, where there is one,
comes in as log P, which must be out of sample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from realm.crowd import accuracy as accuracies
from realm.crowd.copies import CopyPair, copy_weights, find_task_copies
from realm.crowd.earlier import EarlierEstimates, expert_rows
from realm.crowd.engine import (
    LEAST,
    ONE_LABEL_MEAN,
    PRIORS,
    Bools,
    Fit,
    Floats,
    Ints,
    LabelTable,
    Parameters,
    Pool,
    Priors,
    fit,
    item_log_prior,
    item_scores,
    log_softmax,
    prior_parameters,
)
from realm.crowd.estimate import Estimate
from realm.crowd.shared_mistakes import HELD_BELOW, KINDS, SharedMistakes, fit_exponent, forecast_labels
from realm.crowd.starts import chosen_start
from realm.data import Annotations
from realm.errors import RealmError

TEMPERATURE_SD, HOTTEST = 0.5, 20.0
"""log T ~ N(0, .5^2) on [1, 20]: a free temperature on 50 items is spurious, and below 1 a model that has learned the
crowd's common mistakes would be made surer of them."""
HOLDING_STEPS = 20
"""Fixed-point steps of the offset that holds class shares: they are within 1e-3 after these."""
LEAST_LABELS = 5
"""Labels from which an annotator's label shares count in the mean that class shares are held at."""


@dataclass(eq=False)
class TaskModel:
    """The annotators of one task.

    | field | meaning |
    |---|---|
    | table | the task's annotations, weights of copies included |
    | items | (task items,) their rows in the whole table |
    | own_weight | (annotations,) the weights without those of copies |
    | known | (task items,) the truth where it is given, -1 elsewhere |
    | sparse | most annotations have no other on their item: the pool's mean is held |
    | held_shares | (options,) class shares that the posterior is held at; None: free |
    | label_offset | (options,) what holds them there at the exponent tau; None: nothing |
    | bracket | (annotators, options) log pi_j / pi, where who was asked depends on the item; None elsewhere |
    """

    table: LabelTable
    items: Ints
    rows: Ints
    own_weight: Floats
    known: Ints
    priors: Priors
    pool: Pool
    copies: list[CopyPair]
    sparse: bool
    assigned: bool = False
    state: Fit | None = None
    exponent: float = 1.0
    held_shares: Floats | None = None
    label_offset: Floats | None = None
    bracket: Floats | None = None

    def run(self, start: Floats | Fit, log_prior: Floats | None = None, **settings: Any) -> Fit:
        """EM from a posterior or from an earlier fit."""
        return fit(
            self.table,
            self.priors,
            self.pool,
            start,
            log_prior=self.with_bracket(log_prior),
            known=self.known if (self.known >= 0).any() else None,
            held_shares=self.held_shares,
            **settings,
        )

    def with_bracket(self, log_prior: Floats | None) -> Floats | None:
        """log P with what who was asked says of the item."""
        if self.bracket is None or log_prior is None:
            return log_prior
        return log_prior + self.item_bracket()

    def item_bracket(self) -> Floats:
        """log pi_j / pi of whoever labelled each item; 0 for items without labels. (task items, options)"""
        out = np.zeros((self.table.n_items, self.table.n_options))
        if self.bracket is not None:
            counts = np.maximum(np.bincount(self.table.item, minlength=self.table.n_items), 1)
            np.add.at(out, self.table.item, self.bracket[self.table.annotator])
            out /= counts[:, None]
        return out

    @property
    def fitted(self) -> Fit:
        if self.state is None:
            raise RealmError("the annotator model is not fitted: call `fit` first.")
        return self.state

    # ---------------------------------------------------------------- fitting

    def start(self, log_prior: Floats | None, progress: Callable[[int, int], None] | None = None) -> None:
        """Fit from the beginning: from log P (task items, options), or from agreement where it is None."""
        if self.sparse and log_prior is None:
            parameters = prior_parameters(self.table, self.priors, self.pool)
            shares = self.table.label_shares
            if self.assigned:
                self._fit_bracket(self.table.vote_shares, shares)
            empty = np.zeros((0, self.table.n_options))
            self.state = Fit(parameters, shares, empty, -np.inf, np.zeros(self.table.n_options))
            return
        if log_prior is not None:
            informed = np.where(np.isnan(log_prior), np.log(self.table.label_shares), log_prior)
            best = self.run(np.exp(log_softmax(informed)), log_prior, progress=progress)
            if not self.sparse:
                other = self.run(self._agreement_start(None), log_prior, progress=progress)
                best = max(best, other, key=lambda each: each.log_likelihood)
            self.state = best
        else:
            self.state = self.run(self._agreement_start(progress), progress=progress)

    def forecasts(self, log_prior: Floats | None) -> Floats:
        """How well each exponent foretells the labels by agreement alone. (items, exponents)"""
        agreement = self.fitted if log_prior is None else self.run(self.fitted, max_iter=20)
        log_shares = np.log(np.maximum(agreement.class_shares, LEAST))
        return forecast_labels(self.table, agreement.parameters.evidence, log_shares)

    def temper(self, exponent: float, log_prior: Floats | None) -> None:
        """Take the exponent tau, and hold the class shares where annotators clearly err together."""
        self.exponent = exponent
        if exponent < HELD_BELOW and self.held_shares is None and not (self.known >= 0).any():
            self.held_shares = self.mean_label_shares()
            self.state = self.run(self.fitted, log_prior)
        self._hold_shares(log_prior)

    def _hold_shares(self, log_prior: Floats | None) -> None:
        """The offset of log P that holds the class shares of labels, which count to the power of tau."""
        self.label_offset = None
        if self.held_shares is None:
            return
        offset, scores = np.zeros(self.table.n_options), self.label_scores()
        prior = self.log_prior(log_prior)
        for _ in range(HOLDING_STEPS):
            shares = np.exp(log_softmax(prior + offset + scores))[self.table.labelled].mean(axis=0)
            move = np.log((self.held_shares + 1e-4) / (shares + 1e-4))
            offset += move - move.mean()
        self.label_offset = offset

    def _agreement_start(self, progress: Callable[[int, int], None] | None) -> Floats | Fit:
        """The posterior by agreement alone, from the best of three starts; of a sample of items where there are many."""

        def run(part: LabelTable, known: Ints, posterior: Floats) -> Fit:
            return replace(self, table=part, known=known, state=None).run(posterior, max_iter=100)

        return chosen_start(self.table, self.known, self.priors, run)

    def update(self, log_prior: Floats, steps: int) -> None:
        """EM steps from where the fit stands, on new log P (task items, options); NaN rows: the class shares."""
        self.state = self.run(self.fitted, log_prior, max_iter=steps, tol=0.0)
        self._hold_shares(log_prior)
        if self.assigned:
            self._fit_bracket(self.state.posterior, self.state.class_shares)

    def _fit_bracket(self, posterior: Floats, shares: Floats) -> None:
        """pi_j ~ Dirichlet(kappa * pi): the class mix of the items that each annotator was asked."""
        mix = np.zeros((self.table.n_annotators, self.table.n_options))
        np.add.at(mix, self.table.annotator, posterior[self.table.item])
        kappa = self.pool.kappa if np.isfinite(self.pool.kappa) else 1000.0
        mix = (mix + kappa * shares) / (mix.sum(axis=1, keepdims=True) + kappa)
        self.bracket = np.log(np.maximum(mix, LEAST) / np.maximum(shares, LEAST))

    def mean_label_shares(self) -> Floats:
        """The plain mean of the annotators' label shares. Shape (options,)"""
        shares = np.zeros((self.table.n_annotators, self.table.n_options))
        np.add.at(shares, (self.table.annotator, self.table.label), 1.0)
        counts = shares.sum(axis=1)
        rows = counts >= min(LEAST_LABELS, counts.max(initial=0))
        return np.asarray((shares[rows] / counts[rows, None]).mean(axis=0))

    # ---------------------------------------------------------------- what follows from it

    def log_prior(self, log_probs: Floats | None) -> Floats:
        """log P (task items, options) of items with the class-share offset; the class shares where there is none."""
        state = self.fitted
        free = None if log_probs is None else np.isnan(log_probs[:, 0])
        offset = np.zeros(self.table.n_options) if self.label_offset is None else self.label_offset
        prior = item_log_prior(log_probs, free, state.class_shares, offset)
        prior = np.broadcast_to(prior, (self.table.n_items, self.table.n_options)).copy()
        if log_probs is not None:
            prior += self.item_bracket()
        if self.table.outside is not None:
            prior[self.table.outside] = -np.inf
        return prior

    def label_scores(self) -> Floats:
        """tau times the summed evidence of each item's labels. (task items, options)"""
        zeros = np.zeros(self.table.n_options)
        scores = item_scores(self.table, self.fitted.parameters, zeros, exponent=self.exponent, priors=self.priors)
        return np.where(np.isinf(scores), 0.0, scores)


class AnnotatorModel:
    """The annotators of a table: how each turns the truth of an item into the label they give.

    | argument | meaning |
    |---|---|
    | annotations | who labelled what |
    | priors | `PRIORS["confusion"]` by default; others make it Dawid-Skene, MACE and so on |
    | gold | (items,) true labels where known, -1 elsewhere |
    | experts | names of annotators who are held to be right |
    | earlier | an earlier table of annotators, in place of the pool for those it names |
    | kind | `people` or `models`: how often everybody may be wrong together; None: people, but models where annotators \
clearly err together |
    | features | (items, d) anything that describes the items; where items have one label each it decides whether who was \
asked depends on the item |
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
                f"`gold` must hold one label for each of the {annotations.n_items} items: an index of its options, or -1."
            )
        self.relative_tasks = accuracies.relative_tasks(annotations, self.known >= 0)
        self.expert = np.zeros(annotations.n_annotators, dtype=bool)
        self.expert[expert_rows(annotations, experts)] = True
        self.earlier = EarlierEstimates.none(annotations) if earlier is None else earlier
        self.tasks = [self._task_model(task, priors, features, find_copies) for task in range(len(annotations.tasks))]

    def _task_model(self, task: int, priors: Priors, features: npt.NDArray[Any] | None, find_copies: bool) -> TaskModel:
        annotations = self.annotations
        items = np.flatnonzero(annotations.item_tasks == task)
        place = np.full(annotations.n_items, -1)
        place[items] = np.arange(len(items))
        rows = np.flatnonzero(place[annotations.item] >= 0)
        options = annotations.option_counts[items].astype(np.int64)
        weight = None if annotations.weight is None else annotations.weight[rows].astype(np.float64)
        table = LabelTable(
            place[annotations.item[rows]],
            annotations.annotator[rows],
            annotations.label[rows],
            len(items),
            annotations.n_annotators,
            max(int(options.max(initial=2)), 2),
            weight,
            options,
            annotations.annotator_groups,
        )
        own_weight = np.ones(len(rows)) if weight is None else weight
        copies = find_task_copies(table) if find_copies else []
        if copies:
            table = replace(table, weight=own_weight * copy_weights(table, copies))
        sparse = bool(self.relative_tasks[task])
        if sparse and priors.form != "none" and priors.mean is None:
            priors = replace(priors, mean=ONE_LABEL_MEAN)
        pool = replace(
            Pool.of(table, priors),
            own_mean=self.earlier.mean[:, task],
            own_weight=self.earlier.weight[:, task],
            experts=self.expert,
        )
        assigned = False
        if table.one_label_each and features is not None and len(rows):
            assigned = assignment_gain(np.asarray(features)[items], table) > 0
        return TaskModel(table, items, rows, own_weight, self.known[items], priors, pool, copies, sparse, assigned)

    # ---------------------------------------------------------------- fitting

    def fit(
        self, log_probs: npt.ArrayLike | None = None, progress: Callable[[int, int], None] | None = None
    ) -> AnnotatorModel:
        """Fit from the beginning. `log_probs` (items, Kmax) is log P out of sample; None, or NaN rows: none."""
        log_priors = [self._task_log_probs(log_probs, task) for task in self.tasks]
        for task, log_prior in zip(self.tasks, log_priors, strict=True):
            task.start(log_prior, progress)
        several = [(task, log_prior) for task, log_prior in zip(self.tasks, log_priors, strict=True) if not task.sparse]
        if several:
            exponent = fit_exponent([task.forecasts(log_prior) for task, log_prior in several])
            for task, log_prior in several:
                task.temper(exponent, log_prior)
        return self

    def update(self, log_probs: npt.ArrayLike, steps: int = 3) -> None:
        """A few EM steps from where the fit stands, on new log P (items, Kmax)."""
        for task in self.tasks:
            task_log_probs = self._task_log_probs(log_probs, task)
            if task_log_probs is not None:
                task.update(task_log_probs, steps)

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
        out = np.ones(self.annotations.n_annotations)
        for task in self.tasks:
            out[task.rows] = 1.0 if task.table.weight is None else task.table.weight
        return out

    def evidence(self) -> Floats:
        """log P(label | k) of every annotation, unweighted. Shape (annotations, Kmax); 0 beyond the task's options."""
        out = np.zeros((self.annotations.n_annotations, self.width))
        for task in self.tasks:
            out[task.rows, : task.table.n_options] = task.fitted.parameters.evidence[task.table.cell]
        return out

    def item_offset(self) -> Floats:
        """What is added to log P of each item in the likelihood: held class shares, and who was asked. (items, Kmax)"""
        out = np.zeros((self.annotations.n_items, self.width))
        for task in self.tasks:
            offset = 0.0 if task.label_offset is None else task.label_offset
            out[task.items, : task.table.n_options] = offset + task.item_bracket()
        return out

    def cells(self) -> tuple[Ints, Floats]:
        """Every (annotator, task, label) that was given (cells, 3), sorted, and its evidence (cells, Kmax)."""
        names, values = [], []
        for index, task in enumerate(self.tasks):
            table = task.table
            names.append(np.stack([table.cell_annotator, np.full(len(table.cell_label), index), table.cell_label], 1))
            evidence = np.zeros((len(table.cell_label), self.width))
            evidence[:, : table.n_options] = task.fitted.parameters.evidence
            values.append(evidence)
        cells, evidence = np.concatenate(names), np.concatenate(values)
        order = np.lexsort((cells[:, 2], cells[:, 1], cells[:, 0]))
        return cells[order], evidence[order]

    def summary(self) -> dict[str, Floats]:
        """What was learned of each annotator, as columns (annotators, tasks): `expertise_trained` and `accuracy_trained`.

        Accuracy is that of the confusion matrix at the annotator's own items; expertise how far it lies above what the
        annotator's habit would score.
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
            labelled = table.annotator_weight > 0
            by_habit = (truths * parameters.habit).sum(axis=1)
            accuracy[:, index] = np.where(labelled, (truths * diagonal).sum(axis=1), np.nan)
            expertise[:, index] = accuracies.expertise_of(accuracy[:, index], np.minimum(by_habit, 1 - 1e-6))
        return {"expertise_trained": expertise, "accuracy_trained": accuracy}

    # ---------------------------------------------------------------- posterior, temperature, estimate

    def posterior(self, log_probs: npt.ArrayLike | None = None) -> Floats:
        """P(truth = k) of every item before shared mistakes are allowed for; known truths as they are. (items, Kmax)"""
        out = np.zeros((self.annotations.n_items, self.width))
        for task in self.tasks:
            prior = task.log_prior(self._task_log_probs(log_probs, task))
            scores = np.exp(log_softmax(prior + task.label_scores()))
            out[task.items, : task.table.n_options] = _with_known(scores, task.known)
        return out

    def best_temperature(self, log_probs: npt.ArrayLike) -> float:
        """T >= 1 at which P^(1/T) best explains the labels through the annotators; log T ~ N(0, .5^2).

        `log_probs` (items, Kmax) must be out of sample; items without P and items without labels say nothing.
        """
        parts = []
        for task in self.tasks:
            part = self._task_log_probs(log_probs, task)
            if part is None:
                continue
            rows = np.flatnonzero(~np.isnan(part[:, 0]) & (task.table.labelled | (task.known >= 0)))
            scores = task.label_scores()[rows]
            known = task.known[rows]
            truth = np.flatnonzero(known >= 0)
            scores[truth] = -np.inf
            scores[truth, known[truth]] = 0.0
            parts.append((part[rows], scores))
        if not any(len(rows) for rows, _ in parts):
            return 1.0

        def loss(log_t: float) -> float:
            total = 0.5 * (log_t / TEMPERATURE_SD) ** 2
            for log_prob, scores in parts:
                tempered = log_softmax(np.where(np.isinf(log_prob), -np.inf, log_prob / np.exp(log_t)))
                both = tempered + scores
                top = both.max(axis=1)
                total -= float((top + np.log(np.exp(both - top[:, None]).sum(axis=1))).sum())
            return total

        best = minimize_scalar(loss, bounds=(0.0, float(np.log(HOTTEST))), method="bounded", options={"xatol": 1e-3})
        return float(np.exp(best.x)) if best.fun < loss(0.0) else 1.0

    def shared_mistakes(self, task: TaskModel, log_probs: Floats | None = None) -> SharedMistakes:
        """e of a task: the prior of its kind of annotator, moved by gold."""
        kind = self.kind or ("models" if task.exponent < HELD_BELOW else "people")
        prior = SharedMistakes(*KINDS[kind])
        truth = np.flatnonzero((task.known >= 0) & task.table.labelled)
        if not len(truth):
            return prior
        without_gold = np.exp(log_softmax(task.log_prior(log_probs) + task.label_scores()))[truth]
        return prior.given_gold(without_gold, task.known[truth], self.annotations.option_counts[task.items][truth])

    def estimate(self, log_probs: npt.ArrayLike | None = None) -> Estimate:
        """Labels, accuracies and intervals by this model, with log P (items, Kmax) out of sample where there is any."""
        annotations = self.annotations
        posterior = np.zeros((annotations.n_items, self.width))
        shape = (annotations.n_annotators, len(self.tasks))
        mean, low, high, expertise = (np.full(shape, np.nan) for _ in range(4))
        habits = np.full((*shape, self.width), np.nan)
        errors = []
        for index, task in enumerate(self.tasks):
            part, counts = self._task_log_probs(log_probs, task), annotations.option_counts[task.items]
            prior, scores, table = task.log_prior(part), task.label_scores(), task.table
            shared = self.shared_mistakes(task, part)
            errors.append(shared.mean)
            final = shared.posterior(np.exp(log_softmax(prior + scores)), counts)
            posterior[task.items, : table.n_options] = _with_known(final, task.known)
            if not len(table.item):
                continue
            known = prior.copy()
            truth = np.flatnonzero(task.known >= 0)
            known[truth] = -np.inf
            known[truth, task.known[truth]] = 0.0
            mean[:, index], low[:, index], high[:, index] = self._accuracies(task, known, shared)
            parameters = task.fitted.parameters
            labelled = table.annotator_weight > 0
            habits[labelled, index, : table.n_options] = parameters.habit[labelled]
            truths = parameters.row_mass + LEAST + 1e-6 * task.fitted.class_shares
            by_habit = (truths * parameters.habit).sum(axis=1) / truths.sum(axis=1)
            lowest = -1 / (table.n_options - 1)
            beta = accuracies.expertise_of(mean[:, index], np.minimum(by_habit, 1 - 1e-6))
            expertise[:, index] = np.clip(beta, lowest, 1.0)
        cells, evidence = self.cells()
        pair = accuracies.pairs_of(annotations)
        return Estimate(
            expertise=expertise,
            accuracy=mean,
            low=low,
            high=high,
            chance=accuracies.chance_of(annotations, posterior).reshape(shape),
            annotations=np.bincount(pair, minlength=shape[0] * shape[1]).reshape(shape),
            posterior=posterior,
            relative_tasks=self.relative_tasks,
            habits=habits,
            cells=cells,
            cell_evidence=evidence,
            exponent=self.exponent,
            shared_error=np.array(errors),
        )

    def _accuracies(self, task: TaskModel, log_prior: Floats, shared: SharedMistakes) -> tuple[Floats, Floats, Floats]:
        """Mean and interval of each annotator's accuracy in a task. Shapes (annotators,)"""
        table = task.table
        weight = np.ones(len(table.item)) if table.weight is None else table.weight
        evidence = task.fitted.parameters.evidence[table.cell]
        return annotator_accuracies(
            table,
            accuracies.leave_one_out(log_prior, evidence, table.item, weight, own=task.own_weight),
            weight,
            shared,
            known=task.known[table.item] >= 0,
            experts=self.expert,
            prior=(task.pool.own_mean, task.pool.own_weight),
        )

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
            task.exponent = float(own["exponent"][0])
            task.label_offset = np.array(own["label_offset"]) if own["label_offset"].size else None
            task.held_shares = np.array(own["held_shares"]) if own["held_shares"].size else None
            task.bracket = np.array(own["bracket"]) if own["bracket"].size else None

    @property
    def copies(self) -> list[CopyPair]:
        """The pairs who copy, in any task, the plainest of a task first; each pair once."""
        pairs = {(pair.first, pair.second): pair for task in reversed(self.tasks) for pair in reversed(task.copies)}
        return list(reversed(pairs.values()))


def annotator_accuracies(
    table: LabelTable,
    others: Floats,
    weight: Floats,
    shared: SharedMistakes,
    *,
    known: Bools,
    experts: Bools,
    prior: tuple[Floats, Floats],
) -> tuple[Floats, Floats, Floats]:
    """Mean and 95% interval of each annotator's accuracy, NaN for those without labels. Shapes (annotators,)

    `others` (annotations, options) is `leave_one_out`; `known` (annotations,) where the truth is given, so that no
    shared mistake can hide there; `prior` an earlier mean and weight of each annotator, NaN: none.
    """
    right = np.exp(others[np.arange(len(table.label)), table.label])
    n, options = table.n_annotators, float(table.n_options if table.option_counts is None else
                                           table.option_counts[table.item].mean())  # fmt: skip
    counts = accuracies.histogram(right, table.annotator.astype(np.int64), n, weight)
    group = np.zeros(n, dtype=np.int64) if table.group is None else table.group
    posterior = accuracies.accuracy_posterior(counts, options, 1 / options, group, *prior)
    labelled = table.annotator_weight > 0
    mean, low, high = posterior.mean, posterior.quantile(0.025), posterior.quantile(0.975)
    share_known = np.bincount(table.annotator, weight * known, minlength=n) / np.maximum(table.annotator_weight, LEAST)
    judged_by_others = labelled & (share_known < 0.5) & ~experts
    mean = np.where(judged_by_others, shared.accuracy(mean, options), mean)
    low = np.where(judged_by_others, np.minimum(low, shared.accuracy(low, options, shared.high)), low)
    mean, low, high = (np.where(labelled, each, np.nan) for each in (mean, low, high))
    return np.clip(mean, low, high), low, high


def assignment_gain(features: npt.NDArray[Any], table: LabelTable, dims: int = 16, folds: int = 5) -> float:
    """Can one tell from an item who labelled it? Held-out gain of log P(who | item) over the annotators' shares, per label.

    Shrunk centroids of the annotators in the leading principal components. Above 0, annotators saw different items,
    and their label shares may be those of the items; at or below, the shares are habits.
    """
    shrink = 20.0  # items that "the same as everybody" is worth
    centred = np.asarray(features, dtype=np.float64) - np.mean(features, axis=0)
    left = np.linalg.svd(centred, full_matrices=False)[0][:, :dims]
    whitened = left * np.sqrt(len(left))
    fold = np.random.default_rng(0).permutation(table.n_items) % folds
    gain = 0.0
    for each in range(folds):
        trained, held = fold[table.item] != each, fold[table.item] == each
        counts = np.bincount(table.annotator[trained], minlength=table.n_annotators)
        centre = np.zeros((table.n_annotators, whitened.shape[1]))
        np.add.at(centre, table.annotator[trained], whitened[table.item[trained]])
        centre /= (counts + shrink)[:, None]
        log_share = np.log((counts + 0.5) / (counts + 0.5).sum())
        logs = log_softmax(whitened[table.item[held]] @ centre.T - 0.5 * (centre**2).sum(axis=1) + log_share)
        who = table.annotator[held]
        gain += float((logs[np.arange(len(who)), who] - log_share[who]).sum())
    return gain / max(len(table.item), 1)


def _with_known(posterior: Floats, known: Ints) -> Floats:
    """The posterior with certainty where the truth is known. (items, options), (items,)"""
    truth = np.flatnonzero(known >= 0)
    posterior[truth] = 0.0
    posterior[truth, known[truth]] = 1.0
    return posterior
