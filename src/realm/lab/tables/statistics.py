"""The numbers in the tables: mean and spread over seeds, paired tests, sign patterns and win counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from realm.compare.significance import Bools, Floats, paired_bootstrap, paired_t_test

LEVEL = 0.05
"""A p-value below it is called significant, as in the paper."""


@dataclass(frozen=True)
class Summary:
    """Mean and population standard deviation over seeds, and how many seeds there are."""

    mean: float
    std: float
    seeds: int

    @classmethod
    def of(cls, values: Sequence[float] | Floats) -> Summary | None:
        """Of the values that are there (not NaN); None if none is."""
        known = np.asarray(values, dtype=np.float64)
        known = known[~np.isnan(known)]
        if not len(known):
            return None
        return cls(float(known.mean()), float(known.std()), len(known))


@dataclass(frozen=True)
class Contrast:
    """`first` against `second` in one configuration, paired by seed.

    | field | meaning |
    |---|---|
    | delta | mean difference of accuracy over the seeds both have |
    | seeds, ahead, behind | how many seeds, and on how many of them `first` is better or worse |
    | p_seeds | two-sided paired t-test over seeds (the paper's); None with one seed |
    | low, high, p_items | paired bootstrap over test items, 95%; None where predictions are not at hand |
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
    names: tuple[str, str], first: Floats, second: Floats, right: tuple[Bools, Bools] | None = None
) -> Contrast | None:
    """Compare two methods. `first` and `second` are accuracies (seeds,) of the same seeds, NaN where missing.

    `right` says of each whether its answers were right, (seeds, items), for the seeds that both have. None is returned
    where no seed has both.
    """
    both = ~(np.isnan(first) | np.isnan(second))
    if not both.any():
        return None
    gaps = (first - second)[both]
    seeds = paired_t_test(first[both], second[both])
    ahead, behind = int((gaps > 0).sum()), int((gaps < 0).sum())
    made = Contrast(*names, float(gaps.mean()), len(gaps), ahead, behind, seeds.p_value)
    if right is None:
        return made
    items = paired_bootstrap(*right)
    return Contrast(
        *names, made.delta, made.seeds, ahead, behind, made.p_seeds, items.low, items.high, items.p_value
    )  # fmt: skip


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
    every = list(contrasts)
    decided = [one for one in every if one.significant]
    return Wins(
        configurations=len(every),
        ahead=sum(one.delta > 0 for one in every),
        behind=sum(one.delta < 0 for one in every),
        better=sum(one.delta > 0 for one in decided),
        worse=sum(one.delta < 0 for one in decided),
        unanimous=sum(one.unanimous for one in decided),
    )
