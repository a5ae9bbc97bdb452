"""How many independent annotators a panel is worth.

Annotators who err together (LLM judges of one family, people with the same misunderstanding) are fewer witnesses than
they are. The exponent tau on the evidence of an item's other annotations says how many: it is the one at which each
annotation is best foretold by the others of its item,

    maximise over tau  sum_a w_a log sum_k softmax_k(log P(k|Q) + tau sum_{b != a} w_b E[b, k]) exp E[a, k]

Where annotators are independent given the truth the exact posterior foretells best, and tau is 1; of k copies of each
annotator tau is about 1/k (less where many others foretell an annotation as well as its copies do). n annotations of
an item are then worth 1 + tau (n - 1). Chance brings tau below 1, too: what it gains over 1 is compared with its
standard error, items being the independent draws.

The evidence is that of habits and of the confusions that all annotators share (`realm.crowd.shared_confusion`):
everybody taking one label for its neighbour is no dependence.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from realm.crowd.class_balance import ClassBalance, fit_habits
from realm.crowd.coin import TINY
from realm.crowd.evidence import (
    Floats,
    LabelEvidence,
    check_log_probs,
    label_positions,
    log_softmax_rows,
)
from realm.crowd.habit import Habit
from realm.crowd.shared_confusion import evidence_of_labels, shared_confusions
from realm.data import Annotations

LOWEST = 0.01
"""The lowest exponent considered: a hundred annotators worth one."""
SAMPLED = 10_000
"""Items that a panel's dependence is found on at most."""
SETTLED = 1e-3
"""How exactly the exponent is searched for: no number of annotators changes in its first decimal."""
FIRST_LOOK = np.geomspace(LOWEST, 1.0, 12)
"""Exponents that are looked at before the search between the neighbours of the best: there may be two maxima."""
BEYOND_CHANCE = 1.64
"""Standard errors by which an exponent below 1 must gain: hardly one panel of independent annotators in a hundred
does."""


@dataclass(frozen=True)
class Dependence:
    """How far the annotations of an item are witnesses of their own.

    | field | meaning |
    |---|---|
    | exponent | tau, in (0, 1]; 1: independent |
    | annotations_per_item | n, the mean over items with two annotations or more |
    | standard_errors | by how many standard errors the exponent foretells annotations better than 1 does |
    """

    exponent: float
    annotations_per_item: float
    standard_errors: float

    @property
    def beyond_chance(self) -> bool:
        """Whether annotators err together more than independent ones would by chance."""
        return self.standard_errors > BEYOND_CHANCE

    @property
    def effective(self) -> float:
        """How many independent annotators the annotations of an item are worth: 1 + tau (n - 1)."""
        return 1 + self.exponent * (self.annotations_per_item - 1)

    def __str__(self) -> str:
        n, worth = f"{self.annotations_per_item:.3g}", f"{self.effective:.2g}"
        return f"{n} annotators per item are worth about {worth} independent {'one' if worth == '1' else 'ones'}"


def dependence(annotations: Annotations) -> Dependence | None:
    """How far the annotators of a table are witnesses of their own; None where no item has two annotations.

    By their labels alone: a model that is too modest about what it knows would look like dependence. With very many
    items a part of them is looked at: the exponent is one number.
    """
    several = np.flatnonzero(annotations.annotations_per_item > 1)
    if not len(several):
        return None
    mean = float(annotations.annotations_per_item[several].mean())
    sample = several[:: -(-len(several) // SAMPLED)]
    table = annotations.take_items(sample)
    scores = check_log_probs(table, np.zeros(_shape(table)))
    balance, habit, parameters = fit_habits(ClassBalance.of(table, scores), Habit.of(table))
    confusions = shared_confusions(table, balance.prior, habit, parameters)
    forecast = _Forecast(table, balance.prior, evidence_of_labels(table, habit, parameters, confusions))
    tau = _best_exponent(forecast)
    gains = np.bincount(table.item[forecast.counted], forecast.terms(tau) - forecast.terms(1.0))
    error = float(gains.std() * len(gains) ** 0.5)
    return Dependence(tau, mean, float(gains.sum()) / error if error > 0 else 0.0)


def exponent(
    annotations: Annotations,
    log_probs: npt.ArrayLike | None = None,
    evidence: LabelEvidence | npt.ArrayLike | None = None,
) -> float:
    """The exponent tau on an item's evidence at which each annotation is best foretold by the others of its item.

    | argument | shape | meaning |
    |---|---|---|
    | log_probs | (items, Kmax) or None | log P(k|Q) of a model; None: the class shares of each task |
    | evidence | of all annotations | a `LabelEvidence`, or E[a, k] without weights as an array (annotations, Kmax); \
None: habits fitted by EM |

    1.0 where no item has two annotations.

    Examples:
        >>> import pandas as pd
        >>> rng = np.random.default_rng(0)
        >>> truth, ease = rng.integers(2, size=500), rng.beta(2, 1, size=500)  # some items mislead everybody
        >>> rows = [(str(i), a, str(t if rng.random() < ease[i] else 1 - t))
        ...         for i, t in enumerate(truth) for a in "stuvwxyz"]
        >>> table = Annotations.from_pandas(pd.DataFrame(rows, columns=["text", "annotator", "label"]))
        >>> bool(exponent(table) < 0.7)
        True
    """
    several = np.flatnonzero(annotations.annotations_per_item > 1)
    if not len(several):
        return 1.0
    if evidence is None:
        log_probs, evidence = _fitted(annotations, log_probs)
    scores = check_log_probs(annotations, np.zeros(_shape(annotations)) if log_probs is None else log_probs)
    if isinstance(evidence, LabelEvidence):
        return _best_exponent(_LabelForecast(annotations, scores, evidence))
    return _best_exponent(_Forecast(annotations, scores, np.asarray(evidence, np.float64)))


def _best_exponent(forecast: _LabelForecast | _Forecast) -> float:
    """The exponent with the highest forecast, 1.0 unless a lower one is better."""
    values = [forecast(float(tau)) for tau in FIRST_LOOK]
    best = int(np.argmax(values))
    low, high = FIRST_LOOK[max(best - 1, 0)], FIRST_LOOK[min(best + 1, len(FIRST_LOOK) - 1)]
    optimum = minimize_scalar(
        lambda tau: -forecast(float(tau)), bounds=(low, high), method="bounded", options={"xatol": SETTLED}
    )
    return float(optimum.x) if -optimum.fun > values[-1] else 1.0


class _LabelForecast:
    """The log-probability of all annotations, each foretold by the others of its item, at an exponent."""

    def __init__(self, annotations: Annotations, log_probs: Floats, evidence: LabelEvidence) -> None:
        counted = (annotations.annotations_per_item > 1)[annotations.item]
        own, other = evidence.own, evidence.other
        if evidence.row is not None:
            own, other = own[evidence.row], other[evidence.row]
        self.log_probs, position = log_probs, label_positions(annotations, log_probs.shape[1])
        self.sums = evidence.item_sums(position, log_probs.shape)
        self.position, self.log_odds = position[counted], evidence.log_odds[counted]
        self.own, self.other = np.exp(own[counted]), np.exp(other[counted])
        self.weight = None if evidence.weight is None else evidence.weight[counted]

    def __call__(self, tau: float) -> float:
        log_posterior = log_softmax_rows(self.log_probs + tau * self.sums)
        shares = np.exp(log_posterior)
        # The sum over the other options is taken directly: 1 - p loses all its digits where p is nearly 1.
        rest = (shares @ (1 - np.eye(shares.shape[1]))).ravel()[self.position]
        with np.errstate(divide="ignore", invalid="ignore"):
            odds = log_posterior.ravel()[self.position] - tau * self.log_odds - np.log(rest)
        truth = 0.5 * (1 + np.tanh(0.5 * np.nan_to_num(odds, nan=0.0)))
        logs = np.log(truth * self.own + (1 - truth) * self.other)
        return float(logs.sum() if self.weight is None else logs @ self.weight)


class _Forecast:
    """The same of any evidence (annotations, Kmax). `counted` are the annotations whose item has another."""

    def __init__(self, annotations: Annotations, log_probs: Floats, evidence: Floats) -> None:
        self.counted = counted = np.flatnonzero((annotations.annotations_per_item > 1)[annotations.item])
        weight = np.ones(annotations.n_annotations) if annotations.weight is None else annotations.weight
        inside = np.isfinite(log_probs)
        evidence = np.where(inside[annotations.item], evidence[:, : log_probs.shape[1]], 0.0)
        sums = np.zeros(log_probs.shape)
        np.add.at(sums, annotations.item, weight[:, None] * evidence)
        others = (sums[annotations.item] - weight[:, None] * evidence)[counted]
        # Options first: numpy reduces over a few long rows far faster than over many short ones.
        self.others = np.ascontiguousarray(others.T)
        self.likelihood = np.ascontiguousarray(np.exp(evidence[counted]).T)
        self.log_probs = np.ascontiguousarray(log_probs[annotations.item[counted]].T)
        self.weight = weight[counted]

    def terms(self, tau: float) -> Floats:
        """The log-probability of each counted annotation, times its weight. Shape (counted,)."""
        scores = self.log_probs + tau * self.others
        scores -= scores.max(axis=0)
        np.exp(scores, out=scores)
        total = scores.sum(axis=0)
        scores *= self.likelihood
        return np.asarray((np.log(np.maximum(scores.sum(axis=0), TINY)) - np.log(total)) * self.weight)

    def __call__(self, tau: float) -> float:
        return float(self.terms(tau).sum())


def _fitted(annotations: Annotations, log_probs: npt.ArrayLike | None) -> tuple[Floats, LabelEvidence]:
    """P of every item, and the evidence of habits fitted to all annotations under it."""
    scores = check_log_probs(annotations, np.zeros(_shape(annotations)) if log_probs is None else log_probs)
    balance, habit, parameters = fit_habits(ClassBalance.of(annotations, scores), Habit.of(annotations))
    return balance.prior, habit.evidence(parameters)


def _shape(annotations: Annotations) -> tuple[int, int]:
    return annotations.n_items, int(annotations.option_counts.max(initial=2))
