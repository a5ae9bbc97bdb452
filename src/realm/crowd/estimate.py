"""How far each annotator can be trusted, per task: expertise and accuracy with intervals.

Whatever a model was trained with, what is reported comes from the joint likelihood with the model's P as each item's
prior (`JointLikelihood`), and from the posterior of each accuracy under a prior fitted to the pool (`intervals`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2

from realm.crowd import intervals
from realm.crowd.coin import Coin, accuracy_of, expertise_evidence
from realm.crowd.evidence import Bools, Floats, Indices, JointLikelihood, check_log_probs, posterior
from realm.crowd.intervals import Grid, SkillLikelihood, leave_one_out
from realm.crowd.priors import EM_PRIOR, START, EarlierEstimate, expert_pairs, relative_tasks, with_gold
from realm.data import Annotations
from realm.data.annotations import UNKNOWN
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
    | chance | (annotators, tasks) | accuracy of a guesser on the same items: mean(1/K) |
    | annotations | (annotators, tasks) | how many annotations each gave |
    | posterior | (items, Kmax) | P(true label = k | everything), given `expertise` |
    | relative_tasks | (tasks,) | mostly one label per item and no gold: values hang on the model's calibration |
    """

    expertise: Floats
    accuracy: Floats
    low: Floats
    high: Floats
    chance: Floats
    annotations: Indices
    posterior: Floats
    relative_tasks: Bools

    @property
    def relative(self) -> bool:
        """True where in every task most items have one annotation and no gold: only ratios of betas are known."""
        return bool(self.relative_tasks.all())

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Every field by its name, as a plain array: what a typed file holds. `from_arrays` takes them back."""
        return {name: np.ascontiguousarray(getattr(self, name)) for name in self.__dataclass_fields__}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Estimate:
        """The estimate whose `to_arrays` gave these; arrays of other names are ignored."""
        if missing := [name for name in cls.__dataclass_fields__ if name not in arrays]:
            raise RealmError(f"the stored estimate lacks {', '.join(missing)}.")
        return cls(**{name: np.asarray(arrays[name]) for name in cls.__dataclass_fields__})


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
    | log_probs | (items, Kmax) | log P(k|Q) of the model, in-sample or out of fold; ignored beyond an item's options |
    | prior | table | an earlier expertise table: its estimates take the place of the pool for the annotators it names |
    | start | (annotators, tasks) | betas to start from; NaN where unknown |
    | experts | names | annotators taken to be experts, pinned at beta 0.999 |
    | gold | (items,) | true labels where known, -1 elsewhere |

    First EM maximises the joint likelihood. Then each accuracy gets its posterior on a grid: the likelihood of the
    annotator's labels, each item's true label being judged by the model and the *other* annotations, times the pool's
    prior; the others' skills in turn are judged without the item at hand, until nothing changes. Where there is gold,
    or a pinned expert, EM runs on those items alone. An annotator whose gold items contradict what agreement says of
    them is judged by the gold alone, and so are all annotators of a task whose gold items together contradict it:
    annotators who copy from each other agree, too.

    Example:
        >>> import pandas as pd
        >>> table = Annotations.from_pandas(pd.DataFrame(
        ...     {"text": ["a", "a", "b", "b"], "annotator": ["x", "y"] * 2, "label": ["no", "no", "yes", "yes"]}))
        >>> estimates = estimate(table, np.log([[0.6, 0.4], [0.4, 0.6]]))
        >>> estimates.accuracy.shape, estimates.posterior.argmax(axis=1).tolist()
        ((2, 1), [0, 1])
    """
    earlier = EarlierEstimate.from_table(annotations, prior)
    coin = Coin.of(annotations, earlier.prior(EM_PRIOR))
    joint = JointLikelihood(annotations, with_gold(annotations, check_log_probs(annotations, log_probs), gold), coin)
    pinned = expert_pairs(annotations, experts)
    expertise = np.full(coin.n_pairs, START)
    if start is not None:
        starts = np.asarray(start, np.float64).reshape(-1)
        expertise = np.where(np.isfinite(starts), starts, expertise)
    skill = np.where(pinned, coin.skill(EXPERT), earlier.start(coin.skill(expertise)))
    anchored = _anchored_annotations(annotations, pinned[coin.pair], gold)
    skill = _fit_skills(joint, coin, skill, pinned, anchored)
    mean, low, high = _SkillPosteriors(joint, coin, pinned, earlier, anchored).fit(skill)
    for skills in (mean, low, high):
        skills[pinned] = skill[pinned]
    shape = (annotations.n_annotators, len(annotations.tasks))
    beta = coin.expertise(mean).reshape(shape)
    accuracy, low, high = (accuracy_of(coin.expertise(skills), coin.chance) for skills in (mean, low, high))
    return Estimate(
        expertise=beta,
        accuracy=accuracy.reshape(shape),
        low=low.reshape(shape),
        high=high.reshape(shape),
        chance=coin.chance.reshape(shape),
        annotations=coin.annotation_counts.reshape(shape),
        posterior=posterior(annotations, joint.log_probs, expertise_evidence(annotations, np.nan_to_num(beta))),
        relative_tasks=relative_tasks(annotations, gold),
    )


def _anchored_annotations(annotations: Annotations, by_expert: Bools, gold: npt.NDArray[np.integer] | None) -> Bools:
    """The annotations of items whose truth is known: by gold, or by the label of a pinned expert. (annotations,)"""
    items = np.zeros(annotations.n_items, dtype=bool) if gold is None else np.asarray(gold) != UNKNOWN
    items[annotations.item[by_expert]] = True
    return np.asarray(items[annotations.item])


def _fit_skills(joint: JointLikelihood, coin: Coin, skill: Floats, pinned: Bools, anchored: Bools) -> Floats:
    """Skills by EM from `skill`, on the items whose truth is known alone where there are any. Shape (pairs,).

    If all items counted at once, annotators who agree on the same wrong labels would outvote everyone from the first
    step of EM.
    """
    if not anchored.any():
        return joint.fit(skill, fixed=pinned)
    items = np.unique(joint.annotations.item[anchored])
    annotations = joint.annotations.take_items(items)
    part = Coin.of(annotations, coin.prior)
    start = part.skill(coin.expertise(skill))
    fitted = JointLikelihood(annotations, joint.log_probs[items], part).fit(start, fixed=pinned)
    return coin.skill(part.expertise(fitted))


class _SkillPosteriors:
    """The posterior of the skill of every pair with annotations and no pinned expert, fitted together.

    `order` sorts the annotations by pair, leaving out those of pinned experts; `row` (annotations in that order,) is
    the row of their pair among the `free` ones.
    """

    def __init__(
        self, joint: JointLikelihood, coin: Coin, pinned: Bools, earlier: EarlierEstimate, anchored: Bools
    ) -> None:
        self.joint, self.coin, self.earlier = joint, coin, earlier
        self.free = np.flatnonzero((coin.annotation_counts > 0) & ~pinned)
        self.task = self.free % len(joint.annotations.tasks)
        row_of_pair = np.full(coin.n_pairs, UNKNOWN)
        row_of_pair[self.free] = np.arange(len(self.free))
        rows = row_of_pair[coin.pair]
        order = np.argsort(rows, kind="stable")
        self.order = order[rows[order] != UNKNOWN]
        self.row = rows[self.order]
        self.anchored = anchored[self.order]
        self.on_anchors = np.zeros(len(self.free), dtype=bool)
        """Whose annotations count on anchored items only. Shape (free pairs,)."""
        self.most = float(coin.weights[self.free].max(initial=1))

    def fit(self, skill: Floats) -> tuple[Floats, Floats, Floats]:
        """Mean, low and high skill of each pair, NaN where it is not free, starting from `skill`. Shapes (pairs,)."""
        skill_behind = skill[self.coin.pair]  # (annotations,)
        grid = Grid.fine_enough(self.most, *SWEEP_GRID, pairs=len(self.free))
        for sweep in range(SWEEPS):
            mass, likelihood = self.posteriors(grid, skill_behind)
            without_own = intervals.mean_without_own(grid, likelihood, self.row, mass)
            change = without_own - skill_behind[self.order]
            skill_behind[self.order] += (1.0 if sweep < FULL_STEPS else 0.5) * change
            if np.abs(change).max(initial=0.0) < SETTLED:
                break
        grid = Grid.fine_enough(self.most, *FINAL_GRID, pairs=len(self.free))
        mass, _ = self.posteriors(grid, skill_behind)
        tail = (1 - intervals.COVERAGE) / 2
        mean, low, high = (np.full(self.coin.n_pairs, np.nan) for _ in range(3))
        mean[self.free] = mass @ grid.points
        low[self.free], high[self.free] = grid.quantile(mass, tail), grid.quantile(mass, 1 - tail)
        return mean, low, high

    def posteriors(self, grid: Grid, skill_behind: Floats) -> tuple[Floats, SkillLikelihood]:
        """The posterior of each free pair on the grid (free pairs, size), given the skill behind every annotation.

        An annotator whose gold items contradict what agreement says of them is from then on judged by the gold alone.
        """
        everything = leave_one_out(self.joint, self.coin, skill_behind).take(self.order)
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

    def _contradicted(self, statistic: Floats) -> Bools:
        """Whose gold items contradict agreement, from twice a log-likelihood ratio for each. Shapes (free pairs,).

        All annotators of a task are, where their statistics together are beyond chance and so large (2 each, as in AIC)
        that fewer labels of known truth say more than many that agreement judges: annotators who copy from each other
        agree with each other, and each alone may have too few gold items to show it.
        """
        contradicted: Bools = statistic > chi2.isf(CONTRADICTION, 1)
        on_gold = np.bincount(self.row[self.anchored], minlength=len(self.free)) > 0
        for task in np.unique(self.task[on_gold]):
            rows = self.task == task
            n = int((rows & on_gold).sum())
            contradicted[rows] |= statistic[rows & on_gold].sum() > max(chi2.isf(CONTRADICTION, n), 2 * n)
        return contradicted

    def _posterior_mass(self, grid: Grid, likelihood: SkillLikelihood) -> Floats:
        """The posterior of each free pair under its task's pool, or under its earlier estimate. (free pairs, size)"""
        logs = intervals.log_likelihood(grid, likelihood, self.row, len(self.free))
        mass, chance = np.empty_like(logs), self.coin.skill(0.0)
        for task in np.unique(self.task):
            rows = np.flatnonzero(self.task == task)
            mass[rows] = intervals.pooled(grid, logs[rows], chance=float(chance[self.free[rows[0]]]))
        rows = np.flatnonzero(self.earlier.present[self.free])
        pairs = self.free[rows]
        mass[rows] = intervals.with_prior(grid, logs[rows], self.earlier.a[pairs], self.earlier.b[pairs])
        return mass
