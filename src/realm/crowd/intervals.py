"""The posterior of each skill on a grid, under a prior fitted to the pool, and its equal-tailed intervals.

The grid is even in the angle asin(sqrt(t)), where the posterior of a proportion after n labels has a spread of about
1/(2 sqrt(n)) wherever it lies: no Wald interval, nothing outside [0, 1], and no trouble near 0 or 1.

The pool of a task is a Beta distribution whose mean and weight are themselves unknown. Each (mean, weight) is weighed
by how well it explains all annotators of the task, and an annotator's posterior averages over them: with few annotators
a single best Beta is far too sure of itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from realm.crowd.joint import Evidence, Indices
from realm.crowd.posterior import SMALLEST, Floats

COVERAGE = 0.95
POOL_WEIGHTS = (2.0, 64.0)
"""The pool's prior is worth two labels or more (two: uniform) and never over 64, however alike the annotators look."""
POOL_MEANS, POOL_STEPS = 40, 20
CELLS_TIMES_POINTS = 20_000_000
CHUNK = 4_000_000
"""Numbers held at once when annotations meet the grid."""


@dataclass(frozen=True)
class Grid:
    """`size` points on [0, 1], even in asin(sqrt(t))."""

    size: int

    @classmethod
    def fine_enough(cls, labels: int, spacing: float, largest: int, cells: int = 1) -> Grid:
        """A grid whose points lie `spacing` posterior spreads apart for an annotator with so many labels.

        With very many cells it is coarser, so that cells x points stays within a few hundred megabytes.
        """
        largest = int(np.clip(CELLS_TIMES_POINTS // max(cells, 1), 64, largest))
        return cls(int(np.clip(np.pi * np.sqrt(max(labels, 1)) / spacing, 64, largest)))

    @cached_property
    def points(self) -> Floats:
        """The middle of each of the grid's intervals. Shape (size,)."""
        return np.sin((np.arange(self.size) + 0.5) / self.size * np.pi / 2) ** 2

    def density(self, right: npt.ArrayLike, wrong: npt.ArrayLike) -> Floats:
        """Beta(right, wrong) as the probability of each grid interval. Shape (..., size)."""
        right, wrong = np.asarray(right, np.float64)[..., None], np.asarray(wrong, np.float64)[..., None]
        # The grid's own stretch sin(2 angle) is 2 sqrt(t (1 - t)): it adds half to each exponent.
        logs = (right - 0.5) * np.log(self.points) + (wrong - 0.5) * np.log1p(-self.points)
        mass: Floats = np.exp(logs - logs.max(axis=-1, keepdims=True))
        mass /= mass.sum(axis=-1, keepdims=True)
        return mass

    def quantile(self, mass: Floats, level: float) -> Floats:
        """The skill below which `level` of each row's mass lies. (cells, size) -> (cells,)"""
        total = np.cumsum(mass, axis=1)
        where = np.minimum((total < level * total[:, -1:]).sum(axis=1), self.size - 1)
        rows = np.arange(len(mass))
        inside = (level * total[:, -1] - total[rows, where] + mass[rows, where]) / np.maximum(mass[rows, where], 1e-300)
        angle = (where + np.clip(inside, 0, 1)) / self.size * np.pi / 2
        skill: Floats = np.sin(angle) ** 2
        return skill


@lru_cache(maxsize=8)
def _pools(size: int, chance: float) -> Floats:
    """Every pool considered, as the probability of each grid interval. Shape (pools, size).

    Its mean lies above chance: at two options a pool that is mostly wrong explains the labels as well as its mirror
    image that is mostly right. Any single annotator may still be found to be worse than chance.
    """
    mean = chance + (1 - chance) * (np.arange(POOL_MEANS) + 0.5) / POOL_MEANS
    # Even in 1/sqrt(weight), which goes as the spread of the pool: the usual weak prior for the rates of a group.
    weight = np.linspace(POOL_WEIGHTS[0] ** -0.5, POOL_WEIGHTS[1] ** -0.5, POOL_STEPS) ** -2
    means, weights = (axis.ravel() for axis in np.meshgrid(mean, weight))
    return Grid(size).density(means * weights, (1 - means) * weights)


def log_likelihood(grid: Grid, evidence: Evidence, cell: Indices, n_cells: int) -> Floats:
    """Log-likelihood of each cell's skill at the grid's points. `cell` (annotations,) must be sorted. (cells, size)"""
    out = np.zeros((n_cells, grid.size))
    for part in _chunks(len(cell), grid.size):
        lines = _lines(grid, evidence, part)
        np.log(lines, out=lines)
        present, first = np.unique(cell[part], return_index=True)
        out[present] += np.add.reduceat(lines, first, axis=0)
    return out


def without_own(grid: Grid, evidence: Evidence, cell: Indices, mass: Floats) -> Floats:
    """The mean skill behind each annotation, judged without that annotation. `mass` is (cells, size). (annotations,)

    An item's other labels are weighed by what their annotators do elsewhere, not by how they fared on this very item.
    """
    out = np.empty(len(cell))
    for part in _chunks(len(cell), grid.size):
        left = mass[cell[part]] / _lines(grid, evidence, part)
        out[part] = (left @ grid.points) / left.sum(axis=1)
    return out


def pooled(grid: Grid, log_likelihoods: Floats, chance: float) -> Floats:
    """The posterior of the skills of one task's annotators under a pool fitted to all of them. (cells, size)

    `chance` is the skill of a guesser.
    """
    pools = _pools(grid.size, chance)
    likelihoods = _scaled(log_likelihoods)
    blocks = [slice(start, start + 4096) for start in range(0, len(likelihoods), 4096)]
    fits = np.zeros(len(pools))
    for block in blocks:
        fits += np.log(np.maximum(likelihoods[block] @ pools.T, 1e-300)).sum(axis=0)
    plausible = np.exp(fits - fits.max())
    out = np.empty_like(likelihoods)
    for block in blocks:
        # `plausible` holds every annotator; dividing by one's own share keeps one's labels from counting twice.
        share = plausible / np.maximum(likelihoods[block] @ pools.T, 1e-300)
        out[block] = _normalised(likelihoods[block] * (share @ pools))
    return out


def with_prior(grid: Grid, log_likelihoods: Floats, right: Floats, wrong: Floats) -> Floats:
    """The posterior of skills that each have a Beta(right, wrong) prior of their own. (cells, size)"""
    return _normalised(_scaled(log_likelihoods) * grid.density(right, wrong))


def _scaled(log_likelihoods: Floats) -> Floats:
    scaled: Floats = np.exp(log_likelihoods - log_likelihoods.max(axis=1, keepdims=True, initial=-np.inf))
    return scaled


def _normalised(mass: Floats) -> Floats:
    out: Floats = mass / np.maximum(mass.sum(axis=1, keepdims=True), 1e-300)
    return out


def _lines(grid: Grid, evidence: Evidence, part: slice) -> Floats:
    worst, best = evidence.at_worst[part, None], evidence.at_best[part, None]
    return np.maximum(worst + (best - worst) * grid.points, SMALLEST)


def _chunks(n: int, width: int) -> list[slice]:
    step = max(CHUNK // width, 1)
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]
