"""How often the annotators of an item are wrong together, and what that does to confidence and accuracy.

Labels show how often annotators agree, not how often all of them are wrong: an item that everybody misreads looks like
any other. Under independent errors a handful of equal labels is as good as certain; on real panels it is not. What
labels do show is whether annotators err together beyond what independent ones would (tau of `realm.crowd.dependence`),
and on real panels the errors that all make go with that. With q(k) what annotators see in an item, their evidence
counted to the power of tau,

    P(true label = k) = (1 - e) r(k) + e (1 - r(k)) / (K - 1),    r ~ q^(1 / T)
    T = 2 - tau,    e = 0.22 (1 - sqrt(tau))

and where tau is not clearly below 1 nothing is changed. `python -m benchmarks.shared_error` fits this to the panels at
hand and says how far each is from it: a few points of confidence. Gold, where it is used, says T and e better, and
takes over as it grows.

The mean of q over items less that of P is the shared error s: the probability that the truth of an item is another
option than the one annotators see. Annotators are then right less often than they seem,

    accuracy         = (1 - s) a + s (1 - a) / (K - 1)
    P(label | truth) = beta' [label = truth] + (1 - beta') xi'(label)

with a, beta and xi the "apparent" ones, against what annotators see: the habit's own form again, with
beta' = beta (1 - s K / (K - 1)).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.stats import gamma, norm

from realm.crowd.coin import EDGE, TINY
from realm.crowd.dependence import Dependence, dependence
from realm.crowd.evidence import Bools, Floats
from realm.crowd.intervals import Grid
from realm.data import Annotations
from realm.data.annotations import UNKNOWN

SHARE = 0.22
"""e as tau goes to 0, fitted to real panels by `benchmarks.shared_error`, like the temperature T."""
SHAPE = 4.0
"""Of the Gamma distribution of a panel's shared error: the standard deviation is half the mean, as far as real panels
lie from the formula."""
MISLED = 0.2
"""Standard deviation of how often single annotators are right where most are misled, around what the formula says: on
real panels annotators differ by as much."""
UNSEEN = (0.5, 20.0)
"""The Beta distribution of the shared error where annotators do not seem to err together, for gold to speak to."""
LARGEST, STEPS = 0.6, 120
"""The largest shared error that gold can show, and the steps of the grid up to it. Beyond it annotators are not misled
but reversed."""
TIMES, SPREAD = np.geomspace(0.4, 2.5, 23), 0.35
"""Multiples of the temperature that gold can show, and the standard deviation of their logarithm before it does: how
far real panels lie from the formula."""
HALVINGS = 20
"""Halvings of [0, 1] in the search for a quantile: to the sixth decimal."""


def _middles(number: int) -> Floats:
    """The middles of so many equal parts of [0, 1]."""
    return (np.arange(number) + 0.5) / number


PARTS = 9
"""Equally probable values that stand for a distribution in the search for a quantile."""


def _mixed(apparent: Floats, options: npt.ArrayLike, share: npt.ArrayLike) -> Floats:
    """The probability of being right, if with probability `share` another option is true. Broadcasts."""
    many = np.maximum(np.asarray(options, np.float64), 2.0)
    share = np.minimum(share, (many - 1) / many)
    return np.asarray((1 - share) * apparent + share * (1 - apparent) / (many - 1))


@dataclass(frozen=True)
class SharedError:
    """How far an item's annotators are one witness, and how often they are wrong together.

    | field | meaning |
    |---|---|
    | exponent | tau, by which the evidence of an item is multiplied; 1: annotators are independent |
    | share | e: how often even the surest label is not the truth |
    | temperature | T, by which the logarithm of what annotators see is divided |
    | mean | s: how often the truth is not what annotators see |
    """

    exponent: float = 1.0
    share: float = 0.0
    temperature: float = 1.0
    mean: float = 0.0

    @classmethod
    def of(cls, dependence: Dependence | None) -> SharedError:
        """What a panel's dependence lets expect: none, where annotators may well be independent."""
        if dependence is None or not dependence.beyond_chance:
            return cls()
        return cls(dependence.exponent, SHARE * (1 - dependence.exponent**0.5), 2 - dependence.exponent)

    def given_gold(
        self, apparent: Floats, options: npt.NDArray[np.integer], gold: npt.NDArray[np.integer]
    ) -> SharedError:
        """After some true labels were seen: e and the logarithm of T are the means of their posterior, on a grid.

        `apparent` (items, Kmax) is what annotators make of the items, `gold` (items,) is -1 where unknown.
        """
        known = np.flatnonzero(np.asarray(gold) != UNKNOWN)
        if not len(known):
            return self
        share, times = LARGEST * _middles(STEPS), TIMES if self.exponent < 1 else TIMES[TIMES >= 1]
        if self.share:
            prior = gamma.logpdf(share / self.share, SHAPE, scale=1 / SHAPE)
        else:
            prior = (UNSEEN[0] - 1) * np.log(share) + (UNSEEN[1] - 1) * np.log1p(-share)
        logs = prior - 0.5 * (np.log(times)[:, None] / SPREAD) ** 2
        many = np.maximum(options[known] - 1, 1)[:, None]
        for row, each in enumerate(times):
            tempered = replace(self, temperature=each * self.temperature)._tempered(apparent[known])
            right = tempered[np.arange(len(known)), np.asarray(gold)[known]][:, None]
            logs[row] += np.log(np.maximum((1 - share) * right + share * (1 - right) / many, EDGE)).sum(axis=0)
        mass = np.exp(logs - logs.max())
        mass /= mass.sum()
        return replace(
            self,
            share=float((mass @ share).sum()),
            temperature=self.temperature * float(np.exp(mass.sum(axis=1) @ np.log(times))),
        )

    # ---------------------------------------------------------------- items

    def posterior(self, apparent: Floats, options: npt.NDArray[np.integer]) -> Floats:
        """P(true label) of items from what annotators see. `apparent` is (items, Kmax), `options` (items,)."""
        if self.temperature == 1 and not self.share:
            return apparent
        inside = np.arange(apparent.shape[1]) < options[:, None]
        return np.where(inside, _mixed(self._tempered(apparent), options[:, None], self.share), 0.0)

    def _tempered(self, apparent: Floats) -> Floats:
        if self.temperature == 1:
            return apparent
        shares = apparent ** (1 / self.temperature)
        return np.asarray(shares / np.maximum(shares.sum(axis=1, keepdims=True), TINY))

    def among(self, apparent: Floats, posterior: Floats, options: npt.NDArray[np.integer]) -> SharedError:
        """With the mean s among these items: what brings the confidence of annotators to that of the posterior."""
        if not len(apparent):
            return self
        sure, many = apparent.max(axis=1), np.maximum(options, 2)
        surplus = sure - np.take_along_axis(posterior, apparent.argmax(axis=1)[:, None], axis=1)[:, 0]
        slope = float((sure - (1 - sure) / (many - 1)).mean())
        return replace(self, mean=float(np.clip(surplus.mean() / max(slope, EDGE), 0.0, LARGEST)))

    # ---------------------------------------------------------------- annotators

    def accuracy(self, apparent: Floats, options: Floats) -> Floats:
        """The accuracy of annotators from their apparent one. Broadcasts."""
        return _mixed(apparent, options, self.mean)

    def habit(self, expertise: Floats, habits: Floats, inside: Bools) -> tuple[Floats, Floats]:
        """beta' (pairs,) and xi' (pairs, Kmax) from the apparent ones; `inside` (pairs, Kmax) are a task's labels."""
        if not self.mean:
            return expertise, habits
        options = np.maximum(inside.sum(axis=1), 2)
        share = np.minimum(self.mean, (options - 1) / options)
        beta = expertise * (1 - share * options / (options - 1))
        by_habit = (1 - expertise)[:, None] * habits + (expertise * share / (options - 1))[:, None]
        return beta, np.where(inside, by_habit / (1 - beta)[:, None], 0.0)

    def quantile(
        self, level: float, grid: Grid, mass: Floats, line: tuple[Floats, Floats], options: Floats, labels: Floats
    ) -> Floats:
        """The accuracy below which `level` of each annotator's probability lies. Shape (pairs,).

        | argument | shape | meaning |
        |---|---|---|
        | mass | (pairs, size) | the distribution of each skill on the grid |
        | line | (pairs,) twice | the apparent accuracy at skill 0 and at skill 1 |
        | options | (pairs,) | K |
        | labels | (pairs,) | how many labels each gave: of a few items, few or many may be misleading |
        """
        variance = 1 / SHAPE + (1 - self.mean) / (self.mean * np.maximum(labels, 1.0))
        ends = []
        for part in _middles(PARTS):
            share = self.mean * variance * gamma.ppf(part, 1 / variance)
            at_zero, at_one = (_mixed(each, options, share) for each in line)
            ends += [(at_zero + share * MISLED * norm.ppf(other), at_one - at_zero) for other in _middles(PARTS)]
        low, high = np.zeros(len(mass)), np.ones(len(mass))
        cumulative = np.cumsum(mass, axis=1)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            below = np.zeros(len(mass))
            for at_zero, rise in ends:
                below += grid.below(cumulative, (middle - at_zero) / np.maximum(rise, TINY))
            enough = below >= level * len(ends)
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return np.asarray((low + high) / 2)


def too_sure(annotations: Annotations) -> list[str]:
    """What to say of confidence and intervals that take annotators to err independently: nothing, where they may."""
    found = dependence(annotations)
    if found is None or not found.beyond_chance:
        return []
    return [
        f"annotators err together: {found}. Confidence and intervals here assume independent errors and are "
        f"too sure: on panels like this about {SharedError.of(found).share:.0%} of even the surest labels are wrong. "
        "Those of a training run take it into account."
    ]
