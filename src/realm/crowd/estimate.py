"""How far each annotator can be trusted, per task: expertise and accuracy with intervals, and a verdict in words.

Whatever a model was trained with, what is reported comes from the joint likelihood with the model's P as each item's
prior (`realm.crowd.joint`), and from the posterior of each accuracy under a prior fitted to the pool (`intervals`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2

from realm.crowd import intervals
from realm.crowd.coin import expertise_evidence, level_of, pairs_of, right_probability
from realm.crowd.evidence import Bools, Floats, Indices
from realm.crowd.intervals import Grid
from realm.crowd.joint import JointLikelihood, SkillLikelihood
from realm.crowd.posterior import check_log_probs, posterior
from realm.crowd.priors import (
    EM_PRIOR,
    EarlierEstimate,
    anchored_annotations,
    expert_pairs,
    relative_tasks,
    skill_on_anchors,
    with_gold,
)
from realm.data import Annotations
from realm.data.annotations import UNKNOWN
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

EXPERT = 0.999
"""The beta at which an annotator named an expert is pinned: right but for one label in a thousand, so that a slip of
theirs is not an impossible event."""
RELIABLE = 0.5
"""Reliable: the whole interval lies above beta 0.5, half-way from chance to always right (accuracy 0.75 at K=2)."""
NO_BETTER = 0.2
"""No better than chance: the whole interval lies below beta 0.2 (accuracy 0.6 at K=2, 0.4 at K=4)."""
START = 0.5
"""The expertise that EM starts from, half-way from chance to always right: below it the flipped labelling is nearer."""
SWEEPS = 50
"""Most sweeps over the posteriors; they come to rest within 10 as a rule."""
FULL_STEPS = 10
"""Sweeps with full steps; where they oscillate instead of coming to rest, half steps after that damp them."""
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
    joint = JointLikelihood(annotations, with_gold(annotations, check_log_probs(annotations, log_probs), gold))
    coin = joint.coin
    pinned = expert_pairs(annotations, experts)
    earlier = EarlierEstimate.from_table(annotations, joint, prior)
    expertise = np.full(coin.n_pairs, START)
    if start is not None:
        starts = np.asarray(start, np.float64).reshape(-1)
        expertise = np.where(np.isfinite(starts), starts, expertise)
    skill = np.where(pinned, coin.skill(np.full(coin.n_pairs, EXPERT)), earlier.start(coin.skill(expertise)))
    anchored = anchored_annotations(joint, pinned, gold)
    if anchored.any():
        skill = skill_on_anchors(joint, skill, pinned, earlier, anchored)
    else:
        skill = joint.fit(skill, prior=earlier.prior(EM_PRIOR), fixed=pinned)
    mean, low, high = _SkillPosteriors(joint, pinned, earlier, anchored).fit(skill)
    shape = (annotations.n_annotators, len(annotations.tasks))
    mean[pinned], low[pinned], high[pinned] = skill[pinned], skill[pinned], skill[pinned]
    beta = coin.expertise(mean).reshape(shape)
    accuracy, low, high = (right_probability(coin.expertise(skills), joint.chance) for skills in (mean, low, high))
    return Estimate(
        expertise=beta,
        accuracy=accuracy.reshape(shape),
        low=low.reshape(shape),
        high=high.reshape(shape),
        chance=joint.chance.reshape(shape),
        annotations=joint.annotation_counts.reshape(shape),
        posterior=posterior(annotations, joint.log_probs, expertise_evidence(annotations, np.nan_to_num(beta))),
        relative_tasks=relative_tasks(annotations, gold),
    )


class _SkillPosteriors:
    """The posterior of the skill of every pair with annotations and no pinned expert, fitted together.

    `order` sorts the annotations by pair, leaving out those of pinned experts; `row` (annotations in that order,) is
    the row of their pair among the `free` ones.
    """

    def __init__(self, joint: JointLikelihood, pinned: Bools, earlier: EarlierEstimate, anchored: Bools) -> None:
        self.joint, self.earlier = joint, earlier
        self.free = np.flatnonzero((joint.annotation_counts > 0) & ~pinned)
        self.task = self.free % len(joint.annotations.tasks)
        row_of_pair = np.full(joint.coin.n_pairs, UNKNOWN)
        row_of_pair[self.free] = np.arange(len(self.free))
        rows = row_of_pair[joint.coin.pair]
        order = np.argsort(rows, kind="stable")
        self.order = order[rows[order] != UNKNOWN]
        self.row = rows[self.order]
        self.anchored = anchored[self.order]
        self.on_anchors = np.zeros(len(self.free), dtype=bool)
        """Whose annotations count on anchored items only. Shape (free pairs,)."""
        self.most = float(joint.coin.counts[self.free].max(initial=1))

    def fit(self, skill: Floats) -> tuple[Floats, Floats, Floats]:
        """Mean, low and high skill of each pair, NaN where it is not free, starting from `skill`. Shapes (pairs,)."""
        skill_behind = skill[self.joint.coin.pair]  # (annotations,)
        grid = Grid.fine_enough(self.most, spacing=1.0, largest=256, pairs=len(self.free))
        for sweep in range(SWEEPS):
            mass, likelihood = self.posteriors(grid, skill_behind)
            without_own = intervals.mean_without_own(grid, likelihood, self.row, mass)
            change = without_own - skill_behind[self.order]
            skill_behind[self.order] += (1.0 if sweep < FULL_STEPS else 0.5) * change
            if np.abs(change).max(initial=0.0) < SETTLED:
                break
        grid = Grid.fine_enough(self.most, spacing=0.5, largest=1024, pairs=len(self.free))
        mass, _ = self.posteriors(grid, skill_behind)
        tail = (1 - intervals.COVERAGE) / 2
        mean, low, high = (np.full(self.joint.coin.n_pairs, np.nan) for _ in range(3))
        mean[self.free] = mass @ grid.points
        low[self.free], high[self.free] = grid.quantile(mass, tail), grid.quantile(mass, 1 - tail)
        return mean, low, high

    def posteriors(self, grid: Grid, skill_behind: Floats) -> tuple[Floats, SkillLikelihood]:
        """The posterior of each free pair on the grid (free pairs, size), given the skill behind every annotation.

        An annotator whose gold items contradict what agreement says of them is from then on judged by the gold alone.
        """
        everything = self.joint.leave_one_out(skill_behind).take(self.order)
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
        own: Bools = statistic > chi2.isf(CONTRADICTION, 1)
        on_gold = np.bincount(self.row[self.anchored], minlength=len(self.free)) > 0
        for task in np.unique(self.task[on_gold]):
            rows = self.task == task
            n = int((rows & on_gold).sum())
            own[rows] |= statistic[rows & on_gold].sum() > max(chi2.isf(CONTRADICTION, n), 2 * n)
        return own

    def _posterior_mass(self, grid: Grid, likelihood: SkillLikelihood) -> Floats:
        """The posterior of each free pair under its task's pool, or under its earlier estimate. (free pairs, size)"""
        assert self.joint.coin.lowest is not None
        logs = intervals.log_likelihood(grid, likelihood, self.row, len(self.free))
        mass = np.empty_like(logs)
        for task in np.unique(self.task):
            rows = np.flatnonzero(self.task == task)
            lowest = float(self.joint.coin.lowest[self.free[rows[0]]])
            mass[rows] = intervals.pooled(grid, logs[rows], chance=float(level_of(0.0, lowest)))
        known = np.flatnonzero(self.earlier.known[self.free])
        pairs = self.free[known]
        mass[known] = intervals.with_prior(grid, logs[known], self.earlier.a[pairs], self.earlier.b[pairs])
        return mass


# -------------------------------------------------------------------- verdicts and the expertise table


def verdicts(estimate: Estimate) -> npt.NDArray[np.object_]:
    """A verdict in words for each pair: a claim that holds over the whole interval. Shape (annotators, tasks).

    | verdict | the whole interval lies |
    |---|---|
    | reliable | above beta 0.5, half-way from chance to always right |
    | worse than chance | below chance (beta 0) |
    | no better than chance | below beta 0.2 |
    | uncertain | none of these: more labels are needed, or the annotator is middling |
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        low, high = level_of(estimate.low, estimate.chance), level_of(estimate.high, estimate.chance)
        claims = [low > RELIABLE, high < 0, high < NO_BETTER]
    words = np.array(["reliable", "worse than chance", "no better than chance", "uncertain"], dtype=object)
    verdict: npt.NDArray[np.object_] = words[np.select(claims, [0, 1, 2], 3)]
    return verdict


def table(
    annotations: Annotations,
    estimate: Estimate,
    trained: Mapping[str, npt.ArrayLike] | None = None,
    probabilities: str | None = None,
) -> pd.DataFrame:
    """One row per annotator and task with annotations, the most accurate first within a task.

    Columns: annotator, task, expertise (re-estimated), what the channel learned (`trained`: name to (annotators,
    tasks), such as `expertise_trained`), accuracy, low, high, annotations, agreement (share of the labels that are the
    posterior's), verdict, scale (`absolute`, or `relative` with mostly one label per item), and `probabilities` as
    given (`in-sample` or `out of fold`: what the model's P was when it judged them).
    """
    import pandas as pd

    annotator, task = pair = np.nonzero(estimate.annotations)
    counts = estimate.annotations
    agreed = estimate.posterior.argmax(axis=1)[annotations.item] == annotations.label
    agreement = np.bincount(pairs_of(annotations), agreed, minlength=counts.size).reshape(counts.shape)
    columns = {
        "annotator": np.array(annotations.annotators, dtype=object)[annotator],
        "task": np.array([t.name for t in annotations.tasks], dtype=object)[task],
        "expertise": estimate.expertise[pair],
    }
    for name, values in (trained or {}).items():
        columns[name] = np.asarray(values, np.float64).reshape(counts.shape)[pair]
    columns |= {
        "accuracy": estimate.accuracy[pair],
        "low": estimate.low[pair],
        "high": estimate.high[pair],
        "annotations": counts[pair],
        "agreement": agreement[pair] / counts[pair],
        "verdict": verdicts(estimate)[pair],
        "scale": np.where(estimate.relative_tasks, "relative", "absolute")[task],
    }
    if probabilities is not None:
        columns["probabilities"] = np.full(len(task), probabilities, dtype=object)
    order = np.lexsort((annotator, -estimate.accuracy[pair], task))
    return pd.DataFrame(columns).iloc[order].reset_index(drop=True)
