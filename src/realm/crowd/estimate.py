"""How far each annotator can be trusted, per task: expertise and accuracy with intervals, and a verdict in words.

Training uses the paper's loss; what is reported comes from the joint likelihood with the model's P as each item's prior
(`realm.crowd.joint`), and from the posterior of each accuracy under a prior fitted to the pool (`intervals`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2

from realm.crowd import intervals
from realm.crowd.intervals import Grid
from realm.crowd.joint import Evidence, Indices, Joint
from realm.crowd.posterior import Floats, check_log_probs, posterior
from realm.crowd.priors import (
    CLIMB_PRIOR,
    Carried,
    anchored_annotations,
    from_anchors,
    pinned_cells,
    relative_tasks,
    with_gold,
)
from realm.data import Annotations
from realm.data.annotations import UNKNOWN
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

Bools = npt.NDArray[np.bool_]

EXPERT = 0.999
"""The beta at which an annotator named an expert is pinned."""
RELIABLE = 0.5
"""Reliable: the whole interval lies above beta 0.5, half-way from chance to always right (accuracy 0.75 at K=2)."""
NO_BETTER = 0.2
"""No better than chance: the whole interval lies below beta 0.2 (accuracy 0.6 at K=2, 0.4 at K=4)."""
START = 0.5
SWEEPS = 50
DISBELIEF = 0.001
"""The level at which gold and agreement contradict each other, of one annotator or of a task's annotators together."""


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
    fixed: Sequence[str] | None = None,
    gold: npt.NDArray[np.integer] | None = None,
) -> Estimate:
    """Estimate expertise on the joint likelihood, with partial pooling and intervals.

    | argument | shape | meaning |
    |---|---|---|
    | log_probs | (items, Kmax) | log P(k|Q) of the model, in-sample or out of fold; ignored beyond an item's options |
    | prior | table | an earlier expertise table: its estimates take the place of the pool for the annotators it names |
    | start | (annotators, tasks) | betas to start from; NaN where unknown |
    | fixed | names | annotators taken to be experts, pinned at beta 0.999 |
    | gold | (items,) | true labels where known, -1 elsewhere |

    EM first climbs the joint likelihood. Then each accuracy gets its posterior on a grid: the likelihood of the
    annotator's labels, each item's true label being judged by the model and the *other* annotations, times the pool's
    prior; the others' skills in turn are judged without the item at hand, until nothing moves. Where there is gold, or
    a pinned expert, it all starts from those items alone, and an annotator whose gold items contradict what agreement
    says of them, or all of a task whose gold items together do, are judged by the gold alone: annotators who copy from
    each other agree, too.
    """
    joint = Joint(annotations, with_gold(annotations, check_log_probs(annotations, log_probs), gold))
    pinned = pinned_cells(annotations, fixed)
    carried = Carried.read(annotations, joint, prior)
    begin = np.full(joint.n_cells, START)
    if start is not None:
        given = np.asarray(start, np.float64).reshape(-1)
        begin = np.where(np.isfinite(given), given, begin)
    skill = np.where(pinned, joint.skill(np.full(joint.n_cells, EXPERT)), carried.into(joint.skill(begin)))
    anchored = anchored_annotations(joint, pinned, gold)
    if anchored.any():
        skill = from_anchors(joint, skill, pinned, carried, anchored)
    else:
        skill = joint.climb(skill, prior=carried.or_else(CLIMB_PRIOR), fixed=pinned)
    mean, low, high = _Spread(joint, pinned, carried, anchored).settle(skill)
    shape = (annotations.n_annotators, len(annotations.tasks))
    mean[pinned], low[pinned], high[pinned] = skill[pinned], skill[pinned], skill[pinned]
    beta, chance = joint.beta(mean).reshape(shape), joint.chance.reshape(shape)
    return Estimate(
        expertise=beta,
        accuracy=beta + (1 - beta) * chance,
        low=_accuracy(joint, low).reshape(shape),
        high=_accuracy(joint, high).reshape(shape),
        chance=chance,
        annotations=joint.counts.reshape(shape),
        posterior=posterior(annotations, joint.log_probs, np.nan_to_num(beta)),
        relative_tasks=relative_tasks(annotations, gold),
    )


def _accuracy(joint: Joint, skill: Floats) -> Floats:
    beta = joint.beta(skill)
    return beta + (1 - beta) * joint.chance


class _Spread:
    """The posterior of every free cell's skill, and the sweeps that settle them together."""

    def __init__(self, joint: Joint, pinned: Bools, carried: Carried, anchored: Bools) -> None:
        self.joint, self.carried = joint, carried
        self.free = np.flatnonzero((joint.counts > 0) & ~pinned)
        self.task = self.free % len(joint.annotations.tasks)
        row = np.full(joint.n_cells, UNKNOWN)
        row[self.free] = np.arange(len(self.free))
        rows = row[joint.cell]
        order = np.argsort(rows, kind="stable")
        self.order = order[rows[order] != UNKNOWN]
        self.row = rows[self.order]
        self.anchored = anchored[self.order]
        self.on_anchors = np.zeros(len(self.free), dtype=bool)
        self.most = int(joint.counts[self.free].max(initial=1))

    def settle(self, skill: Floats) -> tuple[Floats, Floats, Floats]:
        """Mean, low and high skill of each cell, NaN where it has none. Shapes (cells,)."""
        behind = skill[self.joint.cell]
        grid = Grid.fine_enough(self.most, spacing=1.0, largest=256, cells=len(self.free))
        for sweep in range(SWEEPS):
            mass, evidence = self.posteriors(grid, behind)
            elsewhere = intervals.without_own(grid, evidence, self.row, mass)
            moved = np.abs(elsewhere - behind[self.order]).max(initial=0.0)
            # Sweeps that circle instead of settling are brought in by taking half steps.
            pace = 1.0 if sweep < 10 else 0.5
            behind[self.order] += pace * (elsewhere - behind[self.order])
            if moved < 1e-4:
                break
        grid = Grid.fine_enough(self.most, spacing=0.5, largest=1024, cells=len(self.free))
        mass, _ = self.posteriors(grid, behind)
        tail = (1 - intervals.COVERAGE) / 2
        found = np.full((3, self.joint.n_cells), np.nan)
        found[:, self.free] = mass @ grid.points, grid.quantile(mass, tail), grid.quantile(mass, 1 - tail)
        return found[0], found[1], found[2]

    def posteriors(self, grid: Grid, behind: Floats) -> tuple[Floats, Evidence]:
        """The posterior of each free cell on the grid, given the skill behind every annotation. (free cells, size)

        An annotator whose gold items contradict what agreement says of them is from then on judged by the gold alone.
        """
        everything = self.joint.leave_one_out(behind).take(self.order)
        evidence = everything.where(self.anchored | ~self.on_anchors[self.row])
        mass = self._weigh(grid, evidence)
        if self.anchored.any():
            logs = intervals.log_likelihood(grid, everything.where(self.anchored), self.row, len(self.free))
            at_mean = np.abs(grid.points - (mass @ grid.points)[:, None]).argmin(axis=1)
            doubt = 2 * (logs.max(axis=1) - logs[np.arange(len(logs)), at_mean])
            fresh = self._disbelieved(doubt) & ~self.on_anchors
            if fresh.any():
                self.on_anchors |= fresh
                return self.posteriors(grid, behind)
        return mass, evidence

    def _disbelieved(self, doubt: Floats) -> Bools:
        """Whose gold items contradict agreement, from twice a log-likelihood ratio for each. Shapes (free cells,).

        All annotators of a task are, where their doubts together are beyond chance and so large (2 each, as in AIC)
        that fewer labels of known truth say more than many that agreement judges: people who copy from each other
        vouch for each other, and each alone has too few gold items to be found out.
        """
        own: Bools = doubt > chi2.isf(DISBELIEF, 1)
        judged = np.bincount(self.row[self.anchored], minlength=len(self.free)) > 0
        for task in np.unique(self.task[judged]):
            rows = self.task == task
            n = int((rows & judged).sum())
            own[rows] |= doubt[rows & judged].sum() > max(chi2.isf(DISBELIEF, n), 2 * n)
        return own

    def _weigh(self, grid: Grid, evidence: Evidence) -> Floats:
        logs = intervals.log_likelihood(grid, evidence, self.row, len(self.free))
        mass = np.empty_like(logs)
        for task in np.unique(self.task):
            rows = np.flatnonzero(self.task == task)
            lowest = float(self.joint.lowest[self.free[rows[0]]])
            mass[rows] = intervals.pooled(grid, logs[rows], chance=-lowest / (1 - lowest))
        known = np.flatnonzero(self.carried.known[self.free])
        cells = self.free[known]
        mass[known] = intervals.with_prior(grid, logs[known], self.carried.right[cells], self.carried.wrong[cells])
        return mass


# -------------------------------------------------------------------- the table people read


def verdicts(estimate: Estimate) -> npt.NDArray[np.object_]:
    """A verdict in words for each cell: a claim that holds over the whole interval. Shape (annotators, tasks).

    | verdict | the whole interval lies |
    |---|---|
    | reliable | above beta 0.5, half-way from chance to always right |
    | worse than chance | below chance (beta 0) |
    | no better than chance | below beta 0.2 |
    | uncertain | none of these: more labels are needed, or the annotator is middling |
    """
    scale = 1 - estimate.chance
    with np.errstate(invalid="ignore", divide="ignore"):
        low, high = 1 - (1 - estimate.low) / scale, 1 - (1 - estimate.high) / scale
        claims = [low > RELIABLE, high < 0, high < NO_BETTER]
    words = np.array(["reliable", "worse than chance", "no better than chance", "uncertain"], dtype=object)
    chosen: npt.NDArray[np.object_] = words[np.select(claims, [0, 1, 2], 3)]
    return chosen


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

    person, task = np.nonzero(estimate.annotations)
    agreed = estimate.posterior.argmax(axis=1)[annotations.item] == annotations.label
    cell = annotations.annotator.astype(np.int64) * len(annotations.tasks) + annotations.item_tasks[annotations.item]
    agreement = np.bincount(cell, agreed, minlength=estimate.annotations.size).reshape(estimate.annotations.shape)
    columns = {
        "annotator": np.array(annotations.annotators, dtype=object)[person],
        "task": np.array([t.name for t in annotations.tasks], dtype=object)[task],
        "expertise": estimate.expertise[person, task],
    }
    for name, values in (trained or {}).items():
        columns[name] = np.asarray(values, np.float64).reshape(estimate.annotations.shape)[person, task]
    columns |= {
        "accuracy": estimate.accuracy[person, task],
        "low": estimate.low[person, task],
        "high": estimate.high[person, task],
        "annotations": estimate.annotations[person, task],
        "agreement": agreement[person, task] / estimate.annotations[person, task],
        "verdict": verdicts(estimate)[person, task],
        "scale": np.where(estimate.relative_tasks, "relative", "absolute")[task],
    }
    if probabilities is not None:
        columns["probabilities"] = np.full(len(person), probabilities, dtype=object)
    order = np.lexsort((person, -estimate.accuracy[person, task], task))
    return pd.DataFrame(columns).iloc[order].reset_index(drop=True)
