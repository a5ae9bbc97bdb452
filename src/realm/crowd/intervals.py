"""The posterior of each skill on a grid, under a prior fitted to the pool, and its equal-tailed intervals.

The grid is even in the angle asin(sqrt(t)), where the posterior of a proportion after n labels has a spread of about
1/(2 sqrt(n)) wherever it lies: no Wald interval, nothing outside [0, 1], and no trouble near 0 or 1.

The pool of a task is a Beta distribution whose mean and weight are themselves unknown. Each (mean, weight) is weighted
by how well it explains all annotators of the task, and an annotator's posterior averages over them: with few annotators
a single best Beta is far too sure of itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from realm.crowd.coin import EDGE, TINY
from realm.crowd.evidence import Bools, Floats, Indices, JointLikelihood, LabelEvidence, log_softmax_rows

COVERAGE = 0.95
"""The customary 95% interval."""
POOL_WEIGHTS = (2.0, 64.0)
"""The pool's prior is worth two labels or more (two: uniform) and never over 64, however alike the annotators look."""
POOL_MEANS, POOL_WEIGHT_STEPS = 40, 20
"""Pools considered: means a fortieth of the way from chance to 1 apart, 20 spreads from 64 labels' worth to 2's."""
PAIRS_TIMES_POINTS = 20_000_000
"""Largest (pairs, grid points) array: 160 MB of float64."""
COARSEST = 64
"""Points of the coarsest grid: at most 0.025 apart in skill, finer than any interval from few labels."""
CHUNK_SIZE = 4_000_000
"""Largest (annotations, grid points) array: 32 MB of float64."""
POOL_ROWS = 4096
"""Rows of likelihoods multiplied with the pools at once: 4096 x 800 pools is 26 MB of float64."""
LARGEST_LOG_ODDS = 800.0
"""Stands for infinite log-odds: tanh(400) is 1 to the last bit, and the exponentials stay finite."""


# -------------------------------------------------------------------- the likelihood of a skill


@dataclass(frozen=True, eq=False)
class SkillLikelihood:
    """P(label) of each annotation as a straight line in its annotator's skill, everything else held fixed.

    | field | shape | meaning |
    |---|---|---|
    | at_zero, at_one | (annotations,) | P(label) at skill 0 and at skill 1 |
    | weight | (annotations,) or None | how much each annotation counts; None: 1 |
    """

    at_zero: Floats
    at_one: Floats
    weight: Floats | None = None

    def take(self, order: Indices) -> SkillLikelihood:
        """The annotations at these places, in this order."""
        weight = None if self.weight is None else self.weight[order]
        return SkillLikelihood(self.at_zero[order], self.at_one[order], weight)

    def masked(self, counted: Bools) -> SkillLikelihood:
        """The same, with a likelihood of 1 at every skill for annotations that are not `counted`."""
        return SkillLikelihood(np.where(counted, self.at_zero, 1.0), np.where(counted, self.at_one, 1.0), self.weight)

    def tempered(self, factor: Floats) -> SkillLikelihood:
        """The same, each annotation counting `factor` (annotations,) times as much."""
        return SkillLikelihood(self.at_zero, self.at_one, factor if self.weight is None else self.weight * factor)

    def on_grid(self, grid: Grid, part: slice) -> Floats:
        """P(label) of some annotations at the grid's skills. Shape (annotations of the part, size)."""
        at_zero, at_one = self.at_zero[part, None], self.at_one[part, None]
        return np.maximum(at_zero + (at_one - at_zero) * grid.points, EDGE)


class SkillLines(Protocol):
    """An annotator model with one skill behind each annotation, in which P(label) is a straight line.

    `realm.crowd.habit.HabitLines` is one, habits being given.
    """

    @property
    def weight(self) -> Floats | None:
        """How much each annotation counts (annotations,); None: 1."""

    def evidence_each(self, skill: Floats) -> LabelEvidence:
        """The evidence of all annotations, at a skill for each annotation (annotations,)."""

    def label_line(self, truth: Floats) -> tuple[Floats, Floats]:
        """P(label) at skill 0 and at skill 1, its label being true with probability `truth`. (annotations,) each"""


def leave_one_out(
    joint: JointLikelihood, lines: SkillLines, skill: Floats, witness: Floats | None = None
) -> SkillLikelihood:
    """What each annotation says of its annotator, given the skill behind every annotation (annotations,).

    The probability that its label is true comes from the model and the item's other annotations: the annotation's own
    evidence is left out, because annotators always agree with themselves; and so is that of its copies, with whom it is
    one witness. `witness` (annotations,) is its share of that one, which its weight has been multiplied by.
    """
    evidence = lines.evidence_each(skill)
    log_posterior = log_softmax_rows(joint.scores(evidence))
    shares = np.exp(log_posterior)
    # The sum over the other options is taken directly: 1 - p loses all its digits where p is nearly 1.
    rest = (shares @ (1 - np.eye(shares.shape[1]))).ravel()[joint.position]
    own = evidence.log_odds if witness is None else evidence.log_odds / witness
    with np.errstate(divide="ignore"):
        odds = log_posterior.ravel()[joint.position] - own - np.log(rest)
    odds = np.nan_to_num(odds, nan=0.0, posinf=LARGEST_LOG_ODDS, neginf=-LARGEST_LOG_ODDS)
    return SkillLikelihood(*lines.label_line(0.5 * (1 + np.tanh(0.5 * odds))), lines.weight)


# -------------------------------------------------------------------- the grid


@dataclass(frozen=True)
class Grid:
    """`size` points on [0, 1], even in asin(sqrt(t))."""

    size: int

    @classmethod
    def fine_enough(cls, labels: float, spacing: float, largest: int, pairs: int = 1) -> Grid:
        """A grid whose points lie `spacing` posterior spreads apart for an annotator with so many labels.

        With very many pairs it is coarser, so that pairs x points stays within `PAIRS_TIMES_POINTS`.
        """
        largest = int(np.clip(PAIRS_TIMES_POINTS // max(pairs, 1), COARSEST, largest))
        return cls(int(np.clip(np.pi * np.sqrt(max(labels, 1)) / spacing, COARSEST, largest)))

    @cached_property
    def points(self) -> Floats:
        """The middle of each of the grid's intervals. Shape (size,)."""
        return np.sin((np.arange(self.size) + 0.5) / self.size * np.pi / 2) ** 2

    def density(self, a: npt.ArrayLike, b: npt.ArrayLike) -> Floats:
        """Beta(a, b) as the probability of each grid interval. Shape (..., size)."""
        a, b = np.asarray(a, np.float64)[..., None], np.asarray(b, np.float64)[..., None]
        # The grid's own stretch sin(2 angle) is 2 sqrt(t (1 - t)): it adds half to each exponent.
        logs = (a - 0.5) * np.log(self.points) + (b - 0.5) * np.log1p(-self.points)
        mass: Floats = np.exp(logs - logs.max(axis=-1, keepdims=True))
        mass /= mass.sum(axis=-1, keepdims=True)
        return mass

    def quantile(self, mass: Floats, level: float) -> Floats:
        """The skill below which `level` of each row's mass lies. (pairs, size) -> (pairs,)"""
        total = np.cumsum(mass, axis=1)
        where = np.minimum((total < level * total[:, -1:]).sum(axis=1), self.size - 1)
        rows = np.arange(len(mass))
        inside = (level * total[:, -1] - total[rows, where] + mass[rows, where]) / np.maximum(mass[rows, where], TINY)
        angle = (where + np.clip(inside, 0, 1)) / self.size * np.pi / 2
        return np.asarray(np.sin(angle) ** 2)

    def below(self, cumulative: Floats, skill: Floats) -> Floats:
        """The probability that each skill is below the given one, from the cumulated mass (pairs, size). (pairs,)"""
        place = np.arcsin(np.sqrt(np.clip(np.nan_to_num(skill), 0.0, 1.0))) / (np.pi / 2) * self.size
        whole = np.minimum(place.astype(np.int64), self.size - 1)
        rows = np.arange(len(cumulative))
        before = np.where(whole > 0, cumulative[rows, np.maximum(whole - 1, 0)], 0.0)
        return np.asarray(before + (place - whole) * (cumulative[rows, whole] - before))


# -------------------------------------------------------------------- posteriors on the grid


@lru_cache(maxsize=8)
def pool_densities(size: int, chance: float) -> tuple[Floats, Floats, Floats]:
    """The mean and weight of every pool considered (pools,), and it as the probability of each grid interval.

    Its mean lies above chance: at two options a pool that is mostly wrong explains the labels as well as its mirror
    image that is mostly right. Any single annotator may still be found to be worse than chance. The last is (pools,
    size).
    """
    mean = chance + (1 - chance) * (np.arange(POOL_MEANS) + 0.5) / POOL_MEANS
    # Even in 1/sqrt(weight), which goes as the spread of the pool: the usual weak prior for the rates of a group.
    weight = np.linspace(POOL_WEIGHTS[0] ** -0.5, POOL_WEIGHTS[1] ** -0.5, POOL_WEIGHT_STEPS) ** -2
    means, weights = (axis.ravel() for axis in np.meshgrid(mean, weight))
    return means, weights, Grid(size).density(means * weights, (1 - means) * weights)


def log_likelihood(grid: Grid, likelihood: SkillLikelihood, pair: Indices, n_pairs: int) -> Floats:
    """Log-likelihood of each pair's skill at the grid's points. `pair` (annotations,) must be sorted. (pairs, size)"""
    out = np.zeros((n_pairs, grid.size))
    for part in _chunks(len(pair), grid.size):
        logs = likelihood.on_grid(grid, part)
        np.log(logs, out=logs)
        if likelihood.weight is not None:
            logs *= likelihood.weight[part, None]
        present, first = np.unique(pair[part], return_index=True)
        out[present] += np.add.reduceat(logs, first, axis=0)
    return out


def mean_without_own(grid: Grid, likelihood: SkillLikelihood, pair: Indices, mass: Floats) -> Floats:
    """The mean skill behind each annotation, judged without that annotation. `mass` is (pairs, size). (annotations,)

    An item's labels are weighted by what their annotators do on other items, not by how they fared on this very item.
    """
    out = np.empty(len(pair))
    for part in _chunks(len(pair), grid.size):
        own = likelihood.on_grid(grid, part)
        if likelihood.weight is not None:
            own **= likelihood.weight[part, None]
        rest = mass[pair[part]] / own
        out[part] = (rest @ grid.points) / rest.sum(axis=1)
    return out


def pooled(grid: Grid, log_likelihoods: Floats, chance: float) -> Floats:
    """The posterior of the skills of one task's annotators under a pool fitted to all of them. (pairs, size)

    `chance` is the skill of a guesser.
    """
    pools = pool_densities(grid.size, chance)[2]
    likelihoods = scaled(log_likelihoods)
    blocks = [slice(start, start + POOL_ROWS) for start in range(0, len(likelihoods), POOL_ROWS)]
    fits = np.zeros(len(pools))
    for block in blocks:
        fits += np.log(np.maximum(likelihoods[block] @ pools.T, TINY)).sum(axis=0)
    plausible = np.exp(fits - fits.max())
    out = np.empty_like(likelihoods)
    for block in blocks:
        # `plausible` holds every annotator; dividing by one's own share keeps one's labels from counting twice.
        share = plausible / np.maximum(likelihoods[block] @ pools.T, TINY)
        out[block] = _normalised(likelihoods[block] * (share @ pools))
    return out


def with_prior(grid: Grid, log_likelihoods: Floats, a: Floats, b: Floats) -> Floats:
    """The posterior of skills that each have a Beta(a, b) prior of their own. (pairs, size)"""
    return _normalised(scaled(log_likelihoods) * grid.density(a, b))


def scaled(log_likelihoods: Floats) -> Floats:
    """Likelihoods whose largest of each row is 1. (pairs, size)"""
    return np.asarray(np.exp(log_likelihoods - log_likelihoods.max(axis=1, keepdims=True, initial=-np.inf)))


def _normalised(mass: Floats) -> Floats:
    return np.asarray(mass / np.maximum(mass.sum(axis=1, keepdims=True), TINY))


def _chunks(n: int, width: int) -> list[slice]:
    step = max(CHUNK_SIZE // width, 1)
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]
