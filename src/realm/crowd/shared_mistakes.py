"""Annotators who err together: tau, how much an item's evidence counts, and e, how often everybody is wrong alike.

tau is fitted by agreement alone and used for targets, labels and confidence, never inside the fit: there everybody
confirms himself and the class shares drift. e cannot be seen in labels: it is a prior that only gold moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from realm.crowd.engine import LEAST, Floats, Ints, LabelTable, normalise

EXPONENTS = np.geomspace(0.02, 1.0, 25)  # values of tau that are compared, a fifth apart
BEYOND_CHANCE = 1.64  # standard errors by which another tau must foretell labels better: one crowd in twenty
SAMPLED = 10_000  # items on which tau is fitted at most: its standard error is a hundredth then
LEAST_SAMPLED = 1000  # fewest items of the sample where there are many options, whose number multiplies the work
HELD_BELOW = 0.5  # tau from which class shares are held: 24 judges 65.2 -> 69.3, no other table of eleven has one
KINDS = {"people": (1.0, 19.0), "models": (2.0, 6.0)}  # Beta prior on e; of 18 crowds .006 to .15, .16 to .57
INTERVAL_LEVEL = 0.9  # the quantile of e that the lower end of an interval allows for: .11 for people, .45 for models


def fit_exponent(forecasts: Sequence[Floats]) -> float:
    """tau: the power of the evidence at which an item's other labels foretell a label best; 1 unless beyond chance.

    `forecasts` are what `forecast_labels` gave for each task: annotators err together in all of them or in none.
    """
    logs = np.concatenate([np.zeros((0, len(EXPONENTS))), *forecasts])
    if not len(logs):
        return 1.0
    best = int(np.argmax(logs.sum(axis=0)))
    gain = logs[:, best] - logs[:, -1]
    return float(EXPONENTS[best]) if gain.sum() > BEYOND_CHANCE * gain.std() * np.sqrt(len(gain)) else 1.0


def forecast_labels(table: LabelTable, evidence: Floats, log_prior: Floats) -> Floats:
    """log P(each label | the item's other labels) at each exponent, summed over an item's. (items, exponents)

    From the evidence of each cell (cells, options) and the log class shares (options,).
    """
    several = np.flatnonzero(table.labels_per_item > 1)
    most = max(SAMPLED // max(table.n_options // 10, 1), LEAST_SAMPLED)
    if len(several) > most:
        several = np.sort(np.random.default_rng(0).choice(several, most, replace=False))
    table = table.take_items(several)
    own = evidence[table.cell]
    weighted, likelihood = own * table.weights[:, None], np.exp(own)
    others = np.asarray(table.matrix @ evidence)[table.item] - weighted
    outside = np.zeros_like(others, dtype=bool)
    if table.option_counts is not None:
        outside = np.arange(table.n_options) >= table.option_counts[table.item][:, None]
    sums = []
    for exponent in EXPONENTS:
        prediction = np.where(outside, -np.inf, exponent * others + log_prior)
        normalise(prediction)
        forecast = np.log(np.maximum(np.einsum("ak,ak->a", prediction, likelihood), LEAST))
        sums.append(np.bincount(table.item, forecast, minlength=len(several)))
    return np.stack(sums, axis=1)


@dataclass(frozen=True)
class SharedMistakes:
    """e ~ Beta(a, b): the share of items on which everybody errs alike, their labels being those of another class."""

    a: float
    b: float

    @classmethod
    def of(cls, kind: str | None, exponent: float) -> SharedMistakes:
        """The prior of a kind of annotator; None: people, but models where annotators clearly err together."""
        return cls(*KINDS[kind or ("models" if exponent < HELD_BELOW else "people")])

    @property
    def mean(self) -> float:
        return self.a / (self.a + self.b)

    @property
    def high(self) -> float:
        """What the lower end of an interval allows for."""
        return float(betaincinv(self.a, self.b, INTERVAL_LEVEL))

    def given_gold(self, posterior: Floats, gold: Ints, option_counts: Ints) -> SharedMistakes:
        """Moved by items with gold, from their posterior without it. Shapes (n, options), (n,), (n,)

        EM for e: an item counts as misleading as far as its labels speak for another class than the gold.
        """
        if not len(gold):
            return self
        right = posterior[np.arange(len(gold)), gold]
        wrong = (1 - right) / np.maximum(option_counts - 1, 1)
        share = self.mean
        for _ in range(50):
            misled = share * wrong / np.maximum((1 - share) * right + share * wrong, LEAST)
            share = (self.a + misled.sum()) / (self.a + self.b + len(gold))
        return SharedMistakes(self.a + float(misled.sum()), self.b + float((1 - misled).sum()))

    def posterior(self, posterior: Floats, option_counts: Ints) -> Floats:
        """(1 - e) q + e (1 - q) / (K - 1), of the posterior q (items, options); 0 beyond an item's options."""
        others = np.maximum(option_counts - 1, 1)[:, None]
        mixed = (1 - self.mean) * posterior + self.mean * (1 - posterior) / others
        mixed = np.where(option_counts[:, None] > 1, mixed, posterior)
        return np.where(np.arange(posterior.shape[1]) < option_counts[:, None], mixed, 0.0)

    def accuracy(self, accuracy: Floats, options: float, share: float | None = None) -> Floats:
        """Accuracy against the truth, from that against what annotators see. Shape as given."""
        share = self.mean if share is None else share
        return np.asarray((1 - share) * accuracy + share * (1 - accuracy) / max(options - 1, 1))
