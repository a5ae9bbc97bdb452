"""Whether one method beats another: paired over seeds, and paired over test items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Paired:
    """A difference of means with its two-sided p-value and, for the bootstrap, a 95% interval."""

    difference: float
    p_value: float | None
    low: float | None = None
    high: float | None = None


def paired_t_test(first: Floats, second: Floats) -> Paired:
    """Two-sided paired t-test over seeds (the paper's test). p is None with fewer than two seeds.

    Where every seed shows the same difference there is no variance to test against: p is 0, or 1 for no difference.
    """
    from scipy.stats import ttest_rel

    gaps = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    mean = float(gaps.mean())
    if len(gaps) < 2:
        return Paired(mean, None)
    if np.ptp(gaps) == 0:
        return Paired(mean, 1.0 if mean == 0 else 0.0)
    return Paired(mean, float(ttest_rel(first, second).pvalue))


def paired_bootstrap(first: Bools, second: Bools, seed: int = 0, draws: int = 10_000) -> Paired:
    """Resample test items; `first` and `second` are (seeds, items), whether each answer was right.

    The p-value is the two-sided share of draws whose difference lies on the other side of zero.
    """
    gaps = first.mean(0) - second.mean(0)
    generator = np.random.default_rng(seed)
    # Items with the same gap are exchangeable, so a draw is a multinomial count of each gap that occurs.
    values, counts = np.unique(gaps, return_counts=True)
    means = generator.multinomial(len(gaps), counts / len(gaps), size=draws) @ values / len(gaps)
    low, high = np.quantile(means, [0.025, 0.975])
    p = 2 * min((means <= 0).mean(), (means >= 0).mean())
    return Paired(float(gaps.mean()), float(min(p, 1.0)), float(low), float(high))
