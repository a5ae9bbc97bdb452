"""Statistics of a comparison: mean and spread over seeds, paired tests over seeds and items, rank correlation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

LEVEL = 0.05
"""A p-value below it is called significant, as in the paper."""
ROUNDING = 1e-12
"""Differences over seeds that lie closer than this are one difference: what remains are the last digits of sums."""
DRAWS = 10_000
"""Resamples of the bootstrap: the 2.5% quantile then rests on 250 of them."""


def deviation(values: Sequence[float] | Floats) -> float:
    """The sample standard deviation over seeds (divided by n - 1); NaN with fewer than two."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")


@dataclass(frozen=True)
class Summary:
    """Mean and standard deviation over seeds (NaN with one seed), and how many seeds there are."""

    mean: float
    std: float
    seeds: int

    @classmethod
    def of(cls, values: Sequence[float] | Floats) -> Summary | None:
        """Of the values that are not NaN; None if there are none."""
        finite = np.asarray(values, dtype=np.float64)
        finite = finite[~np.isnan(finite)]
        return cls(float(finite.mean()), deviation(finite), len(finite)) if len(finite) else None


# -------------------------------------------------------------------- two methods


@dataclass(frozen=True)
class Contrast:
    """`first` against `second` in one configuration, paired by seed.

    | field | meaning |
    |---|---|
    | delta | mean difference of accuracy over the seeds both have |
    | seeds, ahead, behind | how many seeds, and on how many of them `first` is better or worse |
    | p_seeds | two-sided paired t-test over seeds (the paper's); None with one seed |
    | low, high, p_items | paired bootstrap over test items, 95%; None without predictions |
    """

    first: str
    second: str
    delta: float
    seeds: int
    ahead: int
    behind: int
    p_seeds: float | None = None
    low: float | None = None
    high: float | None = None
    p_items: float | None = None

    @property
    def significant(self) -> bool:
        return self.p_seeds is not None and self.p_seeds < LEVEL

    @property
    def unanimous(self) -> bool:
        """Whether one method is ahead on every seed: the strongest outcome that so few seeds can show."""
        return max(self.ahead, self.behind) == self.seeds

    @property
    def signs(self) -> str:
        """Such as `+4 -1`; seeds without a difference are left out."""
        return " ".join(f"{sign}{count}" for sign, count in (("+", self.ahead), ("-", self.behind)) if count) or "0"


def contrast(
    names: tuple[str, str], first: Floats, second: Floats, correct: tuple[Bools, Bools] | None = None
) -> Contrast | None:
    """Compare two methods. `first` and `second` are accuracies (seeds,) of the same seeds, NaN where missing.

    `correct` tells for each whether its answers were right, (seeds, items), for the seeds that both have. None is
    returned where no seed has both.
    """
    both = ~(np.isnan(first) | np.isnan(second))
    if not both.any():
        return None
    gaps = (first - second)[both]
    ahead, behind = int((gaps > 0).sum()), int((gaps < 0).sum())
    p_seeds = paired_t_test(first[both], second[both])
    over_seeds = Contrast(*names, float(gaps.mean()), len(gaps), ahead, behind, p_seeds)
    if correct is None:
        return over_seeds
    low, high, p_items = paired_bootstrap(*correct)
    return replace(over_seeds, low=low, high=high, p_items=p_items)


def paired_t_test(first: Floats, second: Floats) -> float | None:
    """p-value of the two-sided paired t-test over seeds (the paper's test). None with fewer than two seeds.

    Where every seed shows the same difference there is no variance to test against: p is 0, or 1 for no difference.
    """
    from scipy.stats import ttest_rel

    gaps = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    if len(gaps) < 2:
        return None
    if np.ptp(gaps) <= ROUNDING:
        return 1.0 if abs(gaps[0]) <= ROUNDING else 0.0
    return float(ttest_rel(first, second).pvalue)


def paired_bootstrap(
    first: Bools | Floats, second: Bools | Floats, seed: int = 0, draws: int = DRAWS
) -> tuple[float, float, float]:
    """95% interval of the difference and its p-value, resampling test items; (seeds, items) whether each is right.

    Any figure that is averaged over items will do in place of whether an answer is right, such as the log-probability
    of the truth. The p-value is the two-sided share of draws whose difference lies on the other side of zero.
    """
    gaps = first.mean(0) - second.mean(0)
    generator = np.random.default_rng(seed)
    # Items with the same gap are exchangeable, so a draw is a multinomial count of each gap that occurs.
    values, counts = np.unique(gaps, return_counts=True)
    means = generator.multinomial(len(gaps), counts / len(gaps), size=draws) @ values / len(gaps)
    low, high = np.quantile(means, [0.025, 0.975])
    p = 2 * min((means <= 0).mean(), (means >= 0).mean())
    return float(low), float(high), float(min(p, 1.0))


# -------------------------------------------------------------------- many configurations


@dataclass(frozen=True)
class Wins:
    """How often the first method is ahead, over configurations.

    | field | meaning |
    |---|---|
    | configurations | how many were compared |
    | ahead, behind | by mean over seeds; the rest are equal |
    | better, worse | significantly so, by the t-test over seeds |
    | unanimous | of the significant ones, where the winner is ahead on every seed |
    """

    configurations: int
    ahead: int
    behind: int
    better: int
    worse: int
    unanimous: int

    @property
    def undecided(self) -> int:
        return self.configurations - self.better - self.worse


def count_wins(contrasts: Iterable[Contrast]) -> Wins:
    """Count over configurations."""
    contrasts = list(contrasts)
    significant = [one for one in contrasts if one.significant]
    return Wins(
        configurations=len(contrasts),
        ahead=sum(one.delta > 0 for one in contrasts),
        behind=sum(one.delta < 0 for one in contrasts),
        better=sum(one.delta > 0 for one in significant),
        worse=sum(one.delta < 0 for one in significant),
        unanimous=sum(one.unanimous for one in significant),
    )


# -------------------------------------------------------------------- ranking annotators


def rank_correlation(truth: npt.ArrayLike, estimates: npt.ArrayLike) -> tuple[float, float] | tuple[None, None]:
    """Spearman's correlation of estimates with the truth, and the greatest value that ties in the truth allow.

    Both of shape (annotators,). None where there are fewer than three (two are always in perfect or reverse order), or
    either is constant.

    Examples:
        >>> rank_correlation([0.9, 0.1, 0.1], [0.8, 0.3, 0.2])[1].__round__(3)
        0.866
    """
    from scipy.stats import spearmanr

    truth, estimates = np.asarray(truth, dtype=np.float64), np.asarray(estimates, dtype=np.float64)
    if len(truth) < 3 or np.ptp(truth) == 0 or np.ptp(estimates) == 0:
        return None, None
    ranks = np.empty(len(truth))
    ranks[np.argsort(truth, kind="stable")] = np.arange(len(truth))
    return float(spearmanr(truth, estimates).statistic), float(spearmanr(truth, ranks).statistic)
