"""How far each annotator can be trusted, per task: expertise and accuracy with intervals.

Whatever a model was trained with, what is reported comes from the joint likelihood with the model's P as each item's
prior (`JointLikelihood`), and from the posterior of each accuracy under a prior fitted to the pool (`intervals`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2

from realm.crowd import intervals
from realm.crowd.class_balance import ClassBalance, fit_habits
from realm.crowd.coin import EDGE, accuracy_of, chance_of
from realm.crowd.copies import find_copies, witness_weights
from realm.crowd.dependence import dependence
from realm.crowd.evidence import (
    Bools,
    Floats,
    Indices,
    JointLikelihood,
    LabelEvidence,
    check_log_probs,
)
from realm.crowd.habit import NEVER, START, Habit, HabitLines, habit_evidence
from realm.crowd.intervals import Grid, SkillLikelihood, leave_one_out
from realm.crowd.priors import EM_PRIOR, EarlierEstimate, expert_pairs, relative_tasks
from realm.crowd.shared_confusion import confusion_sums, evidence_of_labels, shared_confusions
from realm.crowd.shared_error import SharedError
from realm.data import Annotations
from realm.data.annotations import UNKNOWN
from realm.data.arguments import require_annotations
from realm.display import counted, notebook_html
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

EXPERT = 0.999
"""The beta at which an annotator named an expert is pinned: right but for one label in a thousand, so that a slip of
theirs is not an impossible event."""
SWEEPS = 50
"""Most sweeps over the posteriors; they come to rest within 10 as a rule."""
FULL_STEPS = 10
"""Sweeps with full steps; where they oscillate instead of coming to rest, half steps after that damp them."""
SWEEP_GRID, FINAL_GRID = (1.0, 256), (0.5, 1024)
"""Posterior spreads between grid points, and most points: the sweeps need means alone, the intervals need tails."""
SETTLED = 1e-4
"""The largest change of a skill after which the sweeps stop: below the last digit that is shown."""
MOST_BY_HABIT = 2.0
"""The most that one label counts as given by habit: above 1 where beta is negative, and unbounded near its lowest."""
CONTRADICTION = 0.001
"""The level at which gold and agreement contradict each other, of one annotator or of a task's annotators together:
with a thousand honest annotators one is judged by gold alone by mistake, which only widens the interval."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """Expertise and accuracy of every annotator in every task, and the posterior of every item.

    | field | shape | meaning |
    |---|---|---|
    | expertise | (annotators, tasks) | beta: the posterior mean, on [-1/(K-1), 1]; NaN without annotations |
    | accuracy, low, high | (annotators, tasks) | P(label = truth), and its equal-tailed 95% interval |
    | chance | (annotators, tasks) | accuracy on the same items of always giving the most frequent label: `chance_of` |
    | annotations | (annotators, tasks) | how many annotations each gave |
    | posterior | (items, Kmax) | P(true label = k) given everything |
    | relative_tasks | (tasks,) | mostly one label per item and no gold: values hang on the model's calibration |
    | class_offsets | (tasks, Kmax) | what was added to the model's log P of each label (`realm.crowd.class_balance`) |
    | habits | (annotators, tasks, Kmax) | xi: what each answers when not answering from the item; NaN without any |
    | exponent | () | tau: how much of an item's evidence counts, 1 where annotators are independent |
    | shared_error | () | how often annotators are taken to be wrong together (`realm.crowd.shared_error`) |
    """

    expertise: Floats
    accuracy: Floats
    low: Floats
    high: Floats
    chance: Floats
    annotations: Indices
    posterior: Floats
    relative_tasks: Bools
    habits: Floats
    class_offsets: Floats
    exponent: Floats = field(default_factory=lambda: np.array(1.0))
    shared_error: Floats = field(default_factory=lambda: np.array(0.0))

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
            "exponent of the evidence": f"{float(self.exponent):.3f}" if self.exponent != 1 else None,
            "scale": "relative: mostly one label per item" if self.relative else None,
        }
        return notebook_html(repr(self), facts, table)

    def evidence(self, annotations: Annotations) -> LabelEvidence:
        """The evidence of annotations by these annotators (all those of the table estimated, or some).

        Where annotators err together it counts to the power of `exponent`.
        """
        evidence = habit_evidence(annotations, self.expertise, np.nan_to_num(self.habits))
        if self.exponent == 1:
            return evidence
        weight = np.ones(annotations.n_annotations) if evidence.weight is None else evidence.weight
        return replace(evidence, weight=float(self.exponent) * weight, row_weights=None)

    @property
    def relative(self) -> bool:
        """True where in every task most items have one annotation and no gold: only ratios of betas are known."""
        return bool(self.relative_tasks.all())

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Every field by its name, as a plain array: what a typed file holds. `from_arrays` takes them back."""
        return {name: np.asarray(getattr(self, name), order="C") for name in self.__dataclass_fields__}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Estimate:
        """The estimate whose `to_arrays` gave these; arrays of other names are ignored.

        Where runs were written before annotators could err together, they do not.
        """
        late = {"exponent", "shared_error"}
        if missing := [name for name in cls.__dataclass_fields__ if name not in arrays and name not in late]:
            raise RealmError(f"the stored estimate lacks {', '.join(missing)}.")
        found = {name: np.asarray(arrays[name]) for name in cls.__dataclass_fields__ if name in arrays}
        # A file may have given a single number an axis.
        return cls(**{name: values.reshape(()) if name in late else values for name, values in found.items()})


def estimate(
    annotations: Annotations,
    log_probs: npt.ArrayLike,
    *,
    prior: pd.DataFrame | None = None,
    start: npt.ArrayLike | None = None,
    experts: Sequence[str] | None = None,
    gold: npt.NDArray[np.integer] | None = None,
) -> Estimate:
    """Estimate expertise on the joint likelihood, with partial pooling and intervals.

    | argument | shape | meaning |
    |---|---|---|
    | annotations | | who labelled what; a weight multiplies the evidence of its annotation |
    | log_probs | (items, Kmax) | log P(option) of the model, in-sample or out of fold; ignored beyond its options |
    | prior | table | an earlier expertise table: its estimates take the place of the pool for the annotators it names |
    | start | (annotators, tasks) | betas to start from; NaN where unknown |
    | experts | names | annotators taken to be experts, pinned at beta 0.999 |
    | gold | (items,) | true labels where known, -1 elsewhere |

    The annotator model is `realm.crowd.habit`: accuracy is beta, and where the annotator does not answer from the item,
    how often the habit happens to be right. First EM maximises the joint likelihood. Then each beta gets its posterior
    on a grid, its habit being given: the likelihood of the annotator's labels, each item's true label being judged by
    the model and the *other* annotations, times the pool's prior; the others' skills and habits in turn are judged
    without the item at hand, until nothing changes. Intervals are widened by what the labels leave open of the habit.
    Where there is gold,
    or a pinned expert, EM runs on those items alone. An annotator whose gold items contradict what agreement says of
    them is judged by the gold alone, and so are all annotators of a task whose gold items together contradict
    it: annotators who copy from each other agree, too. The pool is all annotators of a task, or where the table has
    `groups` each group of them.

    Examples:
        >>> import pandas as pd
        >>> table = Annotations.from_pandas(pd.DataFrame(
        ...     {"text": ["a", "a", "b", "b"], "annotator": ["x", "y"] * 2, "label": ["no", "no", "yes", "yes"]}))
        >>> estimates = estimate(table, np.log([[0.6, 0.4], [0.4, 0.6]]))
        >>> estimates.accuracy.shape, estimates.posterior.argmax(axis=1).tolist()
        ((2, 1), [0, 1])
    """
    require_annotations(annotations, "annotations")
    return _estimate(annotations, log_probs, prior, start, experts, gold)[0]


def estimate_with_evidence(
    annotations: Annotations,
    log_probs: npt.ArrayLike,
    *,
    experts: Sequence[str] | None = None,
    gold: npt.NDArray[np.integer] | None = None,
) -> tuple[Estimate, Floats]:
    """What `estimate` returns, and the evidence that each annotation brought to it. Shape (annotations, Kmax).

    It is the evidence of what annotators see, before what all miss is allowed for, without weights: the item's label is
    that with the largest sum of log P, and to the power of `exponent` its class offset and the evidence.
    """
    result, habit, parameters, confusions = _estimate(annotations, log_probs, None, None, experts, gold)
    return result, evidence_of_labels(annotations, habit, parameters, confusions)


def _estimate(
    annotations: Annotations,
    log_probs: npt.ArrayLike,
    prior: pd.DataFrame | None,
    start: npt.ArrayLike | None,
    experts: Sequence[str] | None,
    gold: npt.NDArray[np.integer] | None,
) -> tuple[Estimate, Habit, Floats, Floats]:
    """The estimate; habits, their parameters (pairs, 1 + Kmax) and shared confusions against what annotators see."""
    copies = find_copies(annotations)
    witness = witness_weights(annotations, copies)
    if witness is not None:
        annotations = replace(annotations, weight=witness * (1.0 if annotations.weight is None else annotations.weight))
    earlier = EarlierEstimate.from_table(annotations, prior)
    habit = _with_earlier(Habit.of(annotations), earlier)
    balance = ClassBalance.of(annotations, check_log_probs(annotations, log_probs), gold)
    pinned = expert_pairs(annotations, experts)
    expertise = np.full(habit.n_pairs, START)
    if start is not None:
        starts = np.asarray(start, np.float64).reshape(-1)
        expertise = np.where(np.isfinite(starts), starts, expertise)
    expertise = np.where(earlier.present, habit.lowest + (1 - habit.lowest) * earlier.start(expertise), expertise)
    anchored = _anchored_annotations(annotations, pinned[habit.pair], gold)
    parameters = habit.even(np.where(pinned, EXPERT, np.maximum(expertise, habit.lowest)))
    balance, habit, parameters = _fit_habits(balance, habit, parameters, pinned, anchored)
    originals = annotations.keep_annotations(~np.isin(annotations.annotator, [pair.second for pair in copies]))
    shared = SharedError.of(dependence(originals))
    joint = JointLikelihood(annotations, balance.prior, habit)
    skills = _SkillPosteriors(joint, habit, parameters, pinned, earlier, anchored, witness)
    skills.fit()
    labelled = habit.weights > 0
    beta = np.where(pinned & labelled, EXPERT, skills.expertise(skills.mean))
    xi = np.where(labelled[:, None], skills.xi, np.nan)
    fitted = np.nan_to_num(np.column_stack([beta, xi]))
    sums = habit.evidence(fitted).item_sums(joint.position, joint.log_probs.shape)
    confusions = shared_confusions(annotations, joint.log_probs, habit, fitted)
    sums += confusion_sums(annotations, confusions)
    apparent = balance.posterior(sums, shared.exponent)
    if gold is not None:
        without_gold = replace(balance, gold=None).posterior(sums, shared.exponent)
        shared = shared.given_gold(without_gold, annotations.option_counts, gold)
    known = np.zeros(annotations.n_items, dtype=bool)
    known[annotations.item[anchored]] = True
    final = np.where(known[:, None], apparent, shared.posterior(apparent, annotations.option_counts))
    unknown = np.flatnonzero(~known)
    shared = shared.among(apparent[unknown], final[unknown], annotations.option_counts[unknown])
    by_habit = skills.by_habit(apparent)
    accuracy, low, high = skills.accuracies(by_habit, shared)
    beta, xi = skills.against_the_truth(beta, xi, shared)
    shape = (annotations.n_annotators, len(annotations.tasks))
    result = Estimate(
        expertise=beta.reshape(shape),
        accuracy=accuracy.reshape(shape),
        low=low.reshape(shape),
        high=high.reshape(shape),
        chance=chance_of(annotations, final).reshape(shape),
        annotations=np.bincount(habit.pair, minlength=habit.n_pairs).reshape(shape),
        posterior=final,
        relative_tasks=relative_tasks(annotations, gold),
        habits=xi.reshape(*shape, -1),
        class_offsets=balance.offset,
        exponent=np.array(shared.exponent),
        shared_error=np.array(shared.mean),
    )
    return result, habit, fitted, confusions


def _with_earlier(habit: Habit, earlier: EarlierEstimate) -> Habit:
    """Habits whose skills have the prior of an earlier estimate where there is one."""
    right, wrong = (np.maximum(count - 1, 0.0) for count in earlier.prior(EM_PRIOR))
    return habit.with_prior(replace(habit.prior, right=right, wrong=wrong, own=earlier.present))


def _anchored_annotations(annotations: Annotations, by_expert: Bools, gold: npt.NDArray[np.integer] | None) -> Bools:
    """The annotations of items whose truth is known: by gold, or by the label of a pinned expert. (annotations,)"""
    items = np.zeros(annotations.n_items, dtype=bool) if gold is None else np.asarray(gold) != UNKNOWN
    items[annotations.item[by_expert]] = True
    return np.asarray(items[annotations.item])


def _fit_habits(
    balance: ClassBalance, habit: Habit, start: Floats, pinned: Bools, anchored: Bools
) -> tuple[ClassBalance, Habit, Floats]:
    """Pooled habits by EM, on the items whose truth is known alone where there are any. Parameters (pairs, 1 + Kmax).

    If all items counted at once, annotators who agree on the same wrong labels would outvote everyone from the first
    step of EM.
    """
    if not anchored.any():
        return fit_habits(balance, habit, start, fixed=pinned)
    on_anchors = balance.take_items(np.unique(balance.annotations.item[anchored]))
    part = Habit.of(on_anchors.annotations, habit.widest).with_prior(habit.prior)
    on_anchors, part, fitted = fit_habits(on_anchors, part, start, fixed=pinned)
    return replace(balance, offset=on_anchors.offset), habit.with_prior(part.prior), fitted


class _SkillPosteriors:
    """The posterior of the skill of every pair with annotations and no pinned expert, and the habits, fitted together.

    `order` sorts the annotations by pair, leaving out those of pinned experts; `row` (annotations in that order,) is
    the row of their pair among the `free` ones. `xi` (pairs, Kmax) are the habits as they stand.
    """

    def __init__(
        self,
        joint: JointLikelihood,
        habit: Habit,
        parameters: Floats,
        pinned: Bools,
        earlier: EarlierEstimate,
        anchored: Bools,
        witness: Floats | None,
    ) -> None:
        self.witness = witness
        self.joint, self.habit, self.earlier, self._pinned = joint, habit, earlier, pinned
        self.beta, self.xi = parameters[:, 0], parameters[:, 1:]
        self.free = np.flatnonzero((np.bincount(habit.pair, minlength=habit.n_pairs) > 0) & ~pinned)
        self.task, self.pool = habit.task[self.free], habit.pool[self.free]
        row_of_pair = np.full(habit.n_pairs, UNKNOWN)
        row_of_pair[self.free] = np.arange(len(self.free))
        rows = row_of_pair[habit.pair]
        order = np.argsort(rows, kind="stable")
        self.order = order[rows[order] != UNKNOWN]
        self.row = rows[self.order]
        self.is_free = rows != UNKNOWN
        self.anchored, self.anchored_annotations = anchored[self.order], anchored
        self.on_anchors = np.zeros(len(self.free), dtype=bool)
        """Whose annotations count on anchored items only. Shape (free pairs,)."""
        self.most = float(habit.weights[self.free].max(initial=1))
        self.lines = HabitLines(
            habit.habits(self.xi).reshape(-1)[habit.row], habit.lowest[habit.pair], weight=habit.weight
        )
        self.truths = habit.truth_shares(joint.e_step(habit.evidence(parameters))[0], joint.annotations.item)
        self.spread = np.ones(habit.n_pairs)
        """How much more uncertain an accuracy is than it would be if the habit were known (variances). (pairs,)"""

    def expertise(self, skill: Floats) -> Floats:
        """Skill as expertise beta, (pairs,) each."""
        return np.asarray(self.habit.lowest + (1 - self.habit.lowest) * skill)

    def fit(self) -> None:
        """Fit `mass` (free pairs, size), the posterior of each skill on `grid`, and its `mean` (pairs,), or NaN."""
        lowest = self.habit.lowest
        skill_behind = ((self.beta - lowest) / (1 - lowest))[self.habit.pair]  # (annotations,)
        grid = Grid.fine_enough(self.most, *SWEEP_GRID, pairs=len(self.free))
        for sweep in range(SWEEPS):
            mass, likelihood = self.posteriors(grid, skill_behind)
            without_own = intervals.mean_without_own(grid, likelihood, self.row, mass)
            change = without_own - skill_behind[self.order]
            skill_behind[self.order] += (1.0 if sweep < FULL_STEPS else 0.5) * change
            self.beta[self.free] = self.expertise(self._of_pairs(mass @ grid.points))[self.free]
            self._update_habits(skill_behind)
            if np.abs(change).max(initial=0.0) < SETTLED:
                break
        self.grid = Grid.fine_enough(self.most, *FINAL_GRID, pairs=len(self.free))
        self.mass, likelihood = self.posteriors(self.grid, skill_behind)
        self.mean = self._of_pairs(self.mass @ self.grid.points)
        best = self._log_likelihood(self.grid, likelihood).argmax(axis=1)
        self.always, self.never = (self._of_pairs(best == end) == 1 for end in (self.grid.size - 1, 0))

    def accuracies(self, by_habit: Floats, shared: SharedError) -> tuple[Floats, Floats, Floats]:
        """Accuracy, and the ends of its interval, from how often each pair's habit is right. Shapes (pairs,).

        Where the labels are best explained by being right always, the interval ends at 1; and at 0, if by never.
        """
        lowest, free = self.habit.lowest, self.free
        options = self.habit.widest[self.habit.task].astype(np.float64)
        misled = self._misled
        beta = np.where(self._pinned, EXPERT, self.expertise(self.mean))
        apparent = accuracy_of(beta, by_habit)
        accuracy = np.where(misled, shared.accuracy(apparent, options), apparent)
        ends = []
        for level in ((1 - intervals.COVERAGE) / 2, (1 + intervals.COVERAGE) / 2):
            skill = self._of_pairs(self.grid.quantile(self.mass, level))
            end = np.where(self._pinned, apparent, accuracy_of(self.expertise(skill), by_habit))
            if shared.mean:
                line = accuracy_of(lowest[free], by_habit[free]), np.ones(len(free))
                wide = self._of_pairs(
                    shared.quantile(level, self.grid, self.mass, line, options[free], self.habit.weights[free])
                )
                end = np.where(misled, wide, end)
            ends.append(end)
        low, high = (np.clip(end, 0.0, 1.0) for end in ends)  # a grid's cell may reach beyond what a habit allows
        return np.clip(accuracy, 0.0, 1.0), np.where(self.never, 0.0, low), np.where(self.always, 1.0, high)

    @property
    def _misled(self) -> Bools:
        """Who is judged by what annotators see, and not by gold or as an expert. Shape (pairs,)."""
        misled = ~self._pinned
        misled[self.free[self.on_anchors]] = False
        return misled

    def by_habit(self, posterior: Floats) -> Floats:
        """How often each pair's habit alone would be right on the items it is judged by. Shape (pairs,)."""
        habit, item = self.habit, self.joint.annotations.item
        right = habit.accuracy_of_habit(self.xi, posterior, item)
        if self.on_anchors.any():
            on_gold = habit.accuracy_of_habit(self.xi, posterior, item, counted=self.anchored_annotations)
            pairs = self.free[self.on_anchors]
            right[pairs] = on_gold[pairs]
        return right

    def against_the_truth(self, beta: Floats, xi: Floats, shared: SharedError) -> tuple[Floats, Floats]:
        """beta (pairs,) and xi (pairs, Kmax) against the truth, from those against what annotators see."""
        misled = self._misled
        other_beta, other_xi = shared.habit(beta, xi, self.habit.inside)
        return np.where(misled, other_beta, beta), np.where(misled[:, None], other_xi, xi)

    def _of_pairs(self, values: Floats) -> Floats:
        """Values (free pairs,) as (pairs,), NaN where a pair is not free."""
        out = np.full(self.habit.n_pairs, np.nan)
        out[self.free] = values
        return out

    def posteriors(self, grid: Grid, skill_behind: Floats) -> tuple[Floats, SkillLikelihood]:
        """The posterior of each free pair on the grid (free pairs, size), given the skill behind every annotation.

        An annotator whose gold items contradict what agreement says of them is from then on judged by the gold alone.
        """
        everything = leave_one_out(self.joint, self.lines, skill_behind, self.witness).take(self.order)
        everything = everything.tempered(1 / self.spread[self.free][self.row])
        likelihood = everything.masked(self.anchored | ~self.on_anchors[self.row])
        mass = self._posterior_mass(grid, likelihood)
        if self.anchored.any():
            logs = intervals.log_likelihood(grid, everything.masked(self.anchored), self.row, len(self.free))
            at_mean = np.abs(grid.points - (mass @ grid.points)[:, None]).argmin(axis=1)
            statistic = 2 * (logs.max(axis=1) - logs[np.arange(len(logs)), at_mean])
            contradicted = self._contradicted(statistic) & ~self.on_anchors
            if contradicted.any():
                self.on_anchors |= contradicted
                return self.posteriors(grid, skill_behind)
        return mass, likelihood

    def _update_habits(self, skill_behind: Floats) -> None:
        """Habits from the labels that were probably not read off the item, and how far they leave accuracy open.

        As with skills, an item's labels are weighted by what their annotators do on other items: an annotation's own
        count is taken out of the habit behind it.
        """
        habit, pair, label = self.habit, self.habit.pair, self.joint.annotations.label
        truth = leave_one_out(self.joint, self.lines, skill_behind, self.witness).at_one
        counted = self.is_free.copy()
        counted[self.order] &= self.anchored | ~self.on_anchors[self.row]
        weight = counted * (1.0 if habit.weight is None else habit.weight)
        beta, guess = self.beta[pair], self.lines.guess
        probability = np.maximum(beta * truth + (1 - beta) * guess, EDGE)
        by_habit = np.minimum((1 - beta) * guess / probability, MOST_BY_HABIT) * weight
        counts = habit.prior.habit + habit.with_redraws(self.xi, habit.row_sums(by_habit))
        self.xi = np.where(habit.inside, counts / counts.sum(axis=1, keepdims=True), 0.0)
        totals = np.cumsum(counts, axis=1)[pair, self.joint.annotations.option_counts[self.joint.annotations.item] - 1]
        own = np.maximum(counts[pair, label] - by_habit, habit.prior.habit[pair, label])
        self.lines = replace(self.lines, guess=np.clip(own / np.maximum(totals - by_habit, own), NEVER, 1.0))
        self.spread = habit.spread_of_habits(self.beta, self.xi, truth, probability, weight, self.truths)

    def _contradicted(self, statistic: Floats) -> Bools:
        """Whose gold items contradict agreement, from twice a log-likelihood ratio for each. Shapes (free pairs,).

        All annotators of a task are, of whatever group, where their statistics together are beyond chance and so large
        (2 each, as in AIC) that fewer labels of known truth say more than many that agreement judges: annotators who
        copy from each other agree with each other, and each alone may have too few gold items to show it.
        """
        contradicted: Bools = statistic > chi2.isf(CONTRADICTION, 1)
        on_gold = np.bincount(self.row[self.anchored], minlength=len(self.free)) > 0
        for task in np.unique(self.task[on_gold]):
            rows = self.task == task
            n = int((rows & on_gold).sum())
            contradicted[rows] |= statistic[rows & on_gold].sum() > max(chi2.isf(CONTRADICTION, n), 2 * n)
        return contradicted

    def _log_likelihood(self, grid: Grid, likelihood: SkillLikelihood) -> Floats:
        """The log-likelihood of each free pair's skill, -inf where its habit does not allow it. (free pairs, size)

        Below a habit's own least beta one label would have a negative probability, and another more than 1.
        """
        logs = intervals.log_likelihood(grid, likelihood, self.row, len(self.free))
        lowest, least = self.habit.lowest[self.free], self.habit.least_beta(self.xi)[self.free]
        logs[grid.points < ((least - lowest) / (1 - lowest))[:, None]] = -np.inf
        return logs

    def _posterior_mass(self, grid: Grid, likelihood: SkillLikelihood) -> Floats:
        """The posterior of each free pair under its pool, or under its earlier estimate. (free pairs, size)"""
        logs = self._log_likelihood(grid, likelihood)
        mass, lowest = np.empty_like(logs), self.habit.lowest
        for pool in np.unique(self.pool):
            rows = np.flatnonzero(self.pool == pool)
            low = float(lowest[self.free[rows[0]]])
            mass[rows] = intervals.pooled(grid, logs[rows], chance=-low / (1 - low))
        rows = np.flatnonzero(self.earlier.present[self.free])
        pairs = self.free[rows]
        mass[rows] = intervals.with_prior(grid, logs[rows], self.earlier.a[pairs], self.earlier.b[pairs])
        return mass
