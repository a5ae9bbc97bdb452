"""`TaskModel`: the annotators of one task, from the first fit to what training and labels take from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from realm.crowd.copies import CopyPair
from realm.crowd.engine import (
    EXPERT,
    LEAST,
    Fit,
    Floats,
    Ints,
    LabelTable,
    Pool,
    Priors,
    fit,
    inside_mass,
    item_log_prior,
    item_scores,
    log_softmax,
    prior_parameters,
    standard_errors,
)
from realm.crowd.shared_mistakes import HELD_BELOW, forecast_labels
from realm.crowd.starts import PAIR_GAIN, chosen_start

ASSIGNED_SWEEPS = 10  # turns of EM and of class mixes from the fit by agreement: labels no longer change after these
HOLDING_STEPS = 20  # fixed-point steps of the offset that holds class shares: they are within 1e-3 after these
PREDICTS_Z = 5.0  # standard errors over items from which a model predicts labels: of 3 to 6 any is as good
SUPPORT_Z = 3.0  # by which P names the labels of one fit rather than another: a model right on 63% of 200 items has 3.7
LEAST_LABELS = 5  # labels from which an annotator's label shares count in the mean that class shares are held at


@dataclass(eq=False)
class TaskModel:
    """The annotators of one task. At first everybody is at the pool's mean."""

    table: LabelTable  # weights of copies included
    items: Ints  # (task items,), where these are in the whole table
    rows: Ints  # (task annotations,), where these are
    known: Ints  # (task items,), the truth where it is given, -1 elsewhere
    priors: Priors
    pool: Pool
    copies: list[CopyPair]
    sparse: bool  # most annotations have no other on their item: the pool is held
    assigned: bool = False  # who was asked depends on the item
    fitted: Fit = field(init=False)
    exponent: float = 1.0  # tau
    held_shares: Floats | None = None  # (options,), class shares that the posterior is held at; None: free
    label_offset: Floats | None = None  # (options,), what holds them there at the exponent tau
    bracket: Floats | None = None  # (annotators, options), log pi_j / pi where `assigned`
    held_pool: bool = False  # everybody stays at the pool's mean until the model predicts labels

    def __post_init__(self) -> None:
        self.fitted = self._at_pool_mean()

    def _at_pool_mean(self) -> Fit:
        parameters, options = prior_parameters(self.table, self.priors, self.pool), self.table.n_options
        parameters = replace(parameters, skill=np.where(self.pool.experts, EXPERT, parameters.skill))
        return Fit(parameters, self.table.label_shares, np.zeros((0, options)), -np.inf, np.zeros(options))

    def run(self, start: Floats | Fit, log_prior: Floats | None = None, **settings: Any) -> Fit:
        """EM from a posterior or from an earlier fit."""
        if self.bracket is not None:
            log_prior = item_log_prior(log_prior, self.fitted.class_shares) + self.item_bracket()
        settings |= {"log_prior": log_prior, "known": self.known, "held_shares": self.held_shares}
        return fit(self.table, self.priors, self.pool, start, **settings)

    def start(self, log_prior: Floats | None, waits: bool = False) -> None:
        """Fit from the beginning: from log P (task items, options), or from agreement where it is None.

        Where agreement tells nothing, EM would end in a chance solution, below the vote: one step is taken from the
        vote, or, where a model is to follow (`waits`), everybody is at the pool's mean, and stays there until the model
        predicts labels.
        """
        agrees = self.table.pairs.beyond_chance
        anchored = bool((self.known >= 0).any() or self.pool.experts[self.table.annotator].any())
        if log_prior is None and (self.sparse or (waits and not agrees)) and not anchored:
            self.held_pool = not self.sparse
            if self.assigned:
                self._fit_bracket(self.table.vote_shares, self.table.label_shares)
            self.fitted = self._at_pool_mean()
            return
        if log_prior is not None:
            informed = np.where(np.isnan(log_prior), np.log(self.table.label_shares), log_prior)
            best = self.run(np.exp(log_softmax(informed)), log_prior)
            if not self.sparse:
                other = self.run(self._agreement_start(), log_prior)
                gain = best.log_likelihood - other.log_likelihood
                doubted = agrees and not waits  # before training P is an opinion that was tested
                takes = clearly_supported(gain, [self.support(log_prior, best, other)]) if doubted else gain > 0
                best = best if takes else other
            self.fitted = best
        elif not (agrees or anchored):
            self.fitted = self.run(self.table.vote_shares, max_iter=1)
        else:
            self.fitted = self.run(self._agreement_start())
        for _ in range(ASSIGNED_SWEEPS if self.assigned else 0):
            self._fit_bracket(self.fitted.posterior, self.fitted.class_shares)
            self.fitted = self.run(self.fitted, log_prior, max_iter=3, tol=0.0)

    def _agreement_start(self) -> Fit:
        """By agreement alone, from the best of three starts, on a sample where there are many items."""
        return chosen_start(
            self.table, self.known, lambda part, known, posterior: replace(self, table=part, known=known).run(posterior)
        )

    def support(self, log_prior: Floats, one: Fit, other: Fit) -> Floats:
        """How much more log P gives to the labels of one fit than to those of another, by annotations alone. (n,)"""
        table = self.table
        first, second = (
            item_scores(table, each.parameters, item_log_prior(None, each.class_shares), self.priors).argmax(axis=1)
            for each in (one, other)
        )
        rows = np.flatnonzero(table.labelled & ~np.isnan(log_prior[:, 0]) & (first != second))
        return np.asarray(log_prior[rows, first[rows]] - log_prior[rows, second[rows]])

    def forecasts(self, log_prior: Floats | None) -> Floats:
        """How well each exponent foretells the labels by agreement alone. (items, exponents)"""
        agreement = self.fitted if log_prior is None else self.run(self.fitted, max_iter=20)
        return forecast_labels(self.table, agreement.parameters.evidence, item_log_prior(None, agreement.class_shares))

    def temper(self, exponent: float, log_prior: Floats | None, models: bool) -> None:
        """Take the exponent tau, and hold the class shares where annotators clearly err together, as `models` do."""
        self.exponent = exponent
        if (models or exponent < HELD_BELOW) and self.held_shares is None and not (self.known >= 0).any():
            counts = self.table.label_counts
            enough = counts.sum(axis=1) >= min(LEAST_LABELS, counts.sum(axis=1).max(initial=0))
            self.held_shares = (counts[enough] / counts[enough].sum(axis=1, keepdims=True)).mean(axis=0)
            self.fitted = self.run(self.fitted, log_prior)
        self.hold_shares(log_prior)

    def hold_shares(self, log_prior: Floats | None) -> None:
        """The offset of log P that holds the class shares of labels, which count to the power of tau."""
        self.label_offset = None
        if self.held_shares is None:
            return
        offset, scores = np.zeros(self.table.n_options), self.log_prior(log_prior) + self.label_scores()
        for _ in range(HOLDING_STEPS):
            shares = np.exp(log_softmax(scores + offset))[self.table.labelled].mean(axis=0)
            move = np.log((self.held_shares + 1e-4) / (shares + 1e-4))
            offset += move - move.mean()
        self.label_offset = offset

    def update(self, log_prior: Floats, steps: int) -> None:
        """EM steps from where the fit stands, on new log P (task items, options); NaN rows: the class shares."""
        self.held_pool = self.held_pool and not predicts_labels(self.table, log_prior)
        self.fitted = self.run(self.fitted, log_prior, max_iter=0 if self.held_pool else steps, tol=0.0)
        self.hold_shares(log_prior)
        if self.assigned:
            self._fit_bracket(self.fitted.posterior, self.fitted.class_shares)

    def _fit_bracket(self, posterior: Floats, shares: Floats) -> None:
        """pi_j ~ Dirichlet(kappa * pi): the class mix of the items that each annotator was asked."""
        mix = np.zeros((self.table.n_annotators, self.table.n_options))
        np.add.at(mix, self.table.annotator, posterior[self.table.item])
        kappa = self.pool.kappa if np.isfinite(self.pool.kappa) else 1000.0
        mix = (mix + kappa * shares) / (mix.sum(axis=1, keepdims=True) + kappa)
        self.bracket = np.log(np.maximum(mix, LEAST) / np.maximum(shares, LEAST))

    def item_bracket(self) -> Floats:
        """log pi_j / pi, summed over those who labelled the item; 0 for items without labels. (task items, options)"""
        out = np.zeros((self.table.n_items, self.table.n_options))
        if self.bracket is not None:
            np.add.at(out, self.table.item, self.bracket[self.table.annotator])
        return out

    def log_prior(self, log_probs: Floats | None) -> Floats:
        """log P (task items, options) of items with the class-share offset; the class shares where there is none."""
        offset = 0.0 if self.label_offset is None else self.label_offset
        prior = item_log_prior(log_probs, self.fitted.class_shares, offset) + self.item_bracket()
        if self.table.outside is not None:
            prior[self.table.outside] = -np.inf
        return prior

    def label_scores(self, exponent: float | None = None) -> Floats:
        """The summed evidence of each item's labels, times tau or another exponent. (task items, options)"""
        tau, zeros = self.exponent if exponent is None else exponent, np.zeros(self.table.n_options)
        scores = item_scores(self.table, self.fitted.parameters, zeros, self.priors, tau)
        return np.where(np.isinf(scores), 0.0, scores)

    def evidence_of(self, annotator: Ints, label: Ints, option_counts: Ints) -> Floats:
        """log P(label | k) of any labels by any annotators, of items with so many options. (n,) each -> (n, options)"""
        parameters = self.fitted.parameters
        evidence = parameters.evidence_of(self.table, annotator, label, self.priors)
        for count in np.unique(option_counts[option_counts < self.table.n_options]):
            rows, mass = option_counts == count, inside_mass(self.table, parameters, self.priors, int(count))
            evidence[rows] -= np.log(mass)[annotator[rows]]
        return evidence


def clearly_supported(gain: float, supports: Sequence[Floats]) -> bool:
    """Whether a fit from P is to replace the one from agreement: more likely, and its labels are those that P names.

    The likelihood alone prefers mirrored labels now and then, and guessers to annotators who contradict a sure model.
    """
    return gain > PAIR_GAIN and standard_errors(np.concatenate(supports)) > SUPPORT_Z


def predicts_labels(table: LabelTable, log_prior: Floats) -> bool:
    """Whether log P (items, options) gives the labels of items more than those of others, beyond chance."""
    known = ~np.isnan(log_prior[:, 0])
    probs = np.where(known[:, None], np.exp(log_prior), 0.0)
    rows = known[table.item]
    item, label = table.item[rows], table.label[rows]
    usual = probs.sum(axis=0) / max(known.sum(), 1)
    gain = np.bincount(item, probs[item, label] - usual[label], minlength=table.n_items)
    return standard_errors(gain) > PREDICTS_Z
