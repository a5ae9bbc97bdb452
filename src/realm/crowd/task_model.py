"""`TaskModel`: the annotators of one task, from the first fit to what training and labels take from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from realm.crowd.copies import CopyPair
from realm.crowd.engine import (
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
from realm.errors import RealmError

ASSIGNED_SWEEPS = 10
"""Turns of EM and of the annotators' class mixes from the fit by agreement: labels no longer change after these."""
HOLDING_STEPS = 20
"""Fixed-point steps of the offset that holds class shares: they are within 1e-3 after these."""
PREDICTS_Z = 5.0
"""Standard errors over items from which a model predicts labels. One expert among nine guessers, four labels each: with
annotators fitted from the first step on 36% right after 12 epochs, held to the end 31%, until then 45%, the
labels alone 31%; after 3 epochs 20, 25, 25 and 33%. Of 3 to 6 any is as good."""
SUPPORT_Z = 3.0
"""Standard errors over items by which P names the labels of one fit rather than another's: 3 and 5 did the same where P
knows nothing, and a model right on 63% of 200 items reaches 3.7."""
LEAST_LABELS = 5
"""Labels from which an annotator's label shares count in the mean that class shares are held at."""


@dataclass(eq=False)
class TaskModel:
    """The annotators of one task.

    | field | meaning |
    |---|---|
    | table | the task's annotations, weights of copies included |
    | items | (task items,) their rows in the whole table |
    | rows | (task annotations,) theirs |
    | known | (task items,) the truth where it is given, -1 elsewhere |
    | sparse | most annotations have no other on their item: the pool is held |
    | models | the annotators are said to be language models, which err together |
    | held_shares | (options,) class shares that the posterior is held at; None: free |
    | label_offset | (options,) what holds them there at the exponent tau; None: nothing |
    | held_pool | everybody stays at the pool's mean: labels tell nothing of each other, and the model nothing of them |
    | bracket | (annotators, options) log pi_j / pi, where who was asked depends on the item; None elsewhere |
    """

    table: LabelTable
    items: Ints
    rows: npt.NDArray[np.int32]
    known: Ints
    priors: Priors
    pool: Pool
    copies: list[CopyPair]
    sparse: bool
    assigned: bool = False
    models: bool = False
    state: Fit | None = None
    exponent: float = 1.0
    held_shares: Floats | None = None
    label_offset: Floats | None = None
    bracket: Floats | None = None
    held_pool: bool = False

    def run(self, start: Floats | Fit, log_prior: Floats | None = None, **settings: Any) -> Fit:
        """EM from a posterior or from an earlier fit."""
        return fit(
            self.table,
            self.priors,
            self.pool,
            start,
            log_prior=self.with_bracket(log_prior),
            known=self.known if (self.known >= 0).any() else None,
            held_shares=self.held_shares,
            **settings,
        )

    def with_bracket(self, log_prior: Floats | None) -> Floats | None:
        """log P with what who was asked says of the item."""
        if self.bracket is None:
            return log_prior
        shares = self.table.label_shares if self.state is None else self.state.class_shares
        log_shares = np.log(np.maximum(shares, LEAST))
        if log_prior is None:
            return log_shares + self.item_bracket()
        return np.where(np.isnan(log_prior), log_shares, log_prior) + self.item_bracket()

    def item_bracket(self) -> Floats:
        """log pi_j / pi, summed over those who labelled the item; 0 for items without labels. (task items, options)"""
        out = np.zeros((self.table.n_items, self.table.n_options))
        if self.bracket is not None:
            np.add.at(out, self.table.item, self.bracket[self.table.annotator])
        return out

    @property
    def fitted(self) -> Fit:
        if self.state is None:
            raise RealmError("the annotator model is not fitted: call `fit` first.")
        return self.state

    # ---------------------------------------------------------------- fitting

    @property
    def anchored(self) -> bool:
        """Whether some truth is given: by gold, or by an expert."""
        return bool((self.known >= 0).any() or self.pool.experts[self.table.annotator].any())

    @property
    def told(self) -> bool:
        """Whether the labels tell anything of each other."""
        return self.table.pairs.beyond_chance

    def start(
        self, log_prior: Floats | None, progress: Callable[[int, int], None] | None = None, *, waits: bool = False
    ) -> None:
        """Fit from the beginning: from log P (task items, options), or from agreement where it is None.

        Where agreement tells nothing, EM would end in a chance solution, below the vote: one step is taken from the
        vote, or, where a model is to follow (`waits`), everybody is at the pool's mean, and stays there until the model
        predicts labels.
        """
        if log_prior is None and (self.sparse or (waits and not self.told)) and not self.anchored:
            self.held_pool = not self.sparse
            parameters = prior_parameters(self.table, self.priors, self.pool)
            shares = self.table.label_shares
            if self.assigned:
                self._fit_bracket(self.table.vote_shares, shares)
            empty = np.zeros((0, self.table.n_options))
            self.state = Fit(parameters, shares, empty, -np.inf, np.zeros(self.table.n_options))
            return
        if log_prior is not None:
            informed = np.where(np.isnan(log_prior), np.log(self.table.label_shares), log_prior)
            best = self.run(np.exp(log_softmax(informed)), log_prior, progress=progress)
            if not self.sparse:
                other = self.run(self._agreement_start(None), log_prior, progress=progress)
                gain = best.log_likelihood - other.log_likelihood
                doubted = self.told and not waits  # before training P is an opinion that was tested
                takes = clearly_supported(gain, [self.support(log_prior, best, other)]) if doubted else gain > 0
                best = best if takes else other
            self.state = best
        elif not (self.told or self.anchored):
            self.state = self.run(self.table.vote_shares, max_iter=1)
        else:
            self.state = self.run(self._agreement_start(progress), progress=progress)
        for _ in range(ASSIGNED_SWEEPS if self.assigned else 0):
            self._fit_bracket(self.fitted.posterior, self.fitted.class_shares)
            self.state = self.run(self.fitted, log_prior, max_iter=3, tol=0.0)

    def support(self, log_prior: Floats, one: Fit, other: Fit) -> Floats:
        """How much more log P gives to the labels of one fit than to those of another, by annotations alone. (n,)"""
        labels = []
        for fitted in (one, other):
            shares = np.log(np.maximum(fitted.class_shares, LEAST))
            labels.append(item_scores(self.table, fitted.parameters, shares, priors=self.priors).argmax(axis=1))
        rows = np.flatnonzero(self.table.labelled & ~np.isnan(log_prior[:, 0]) & (labels[0] != labels[1]))
        return np.asarray(log_prior[rows, labels[0][rows]] - log_prior[rows, labels[1][rows]])

    def forecasts(self, log_prior: Floats | None) -> Floats:
        """How well each exponent foretells the labels by agreement alone. (items, exponents)"""
        agreement = self.fitted if log_prior is None else self.run(self.fitted, max_iter=20)
        log_shares = np.log(np.maximum(agreement.class_shares, LEAST))
        return forecast_labels(self.table, agreement.parameters.evidence, log_shares)

    def temper(self, exponent: float, log_prior: Floats | None) -> None:
        """Take the exponent tau, and hold the class shares where annotators clearly err together."""
        self.exponent = exponent
        if (self.models or exponent < HELD_BELOW) and self.held_shares is None and not (self.known >= 0).any():
            self.held_shares = self.mean_label_shares()
            self.state = self.run(self.fitted, log_prior)
        self.hold_shares(log_prior)

    def hold_shares(self, log_prior: Floats | None) -> None:
        """The offset of log P that holds the class shares of labels, which count to the power of tau."""
        self.label_offset = None
        if self.held_shares is None:
            return
        offset, scores = np.zeros(self.table.n_options), self.label_scores()
        prior = self.log_prior(log_prior)
        for _ in range(HOLDING_STEPS):
            shares = np.exp(log_softmax(prior + offset + scores))[self.table.labelled].mean(axis=0)
            move = np.log((self.held_shares + 1e-4) / (shares + 1e-4))
            offset += move - move.mean()
        self.label_offset = offset

    def _agreement_start(self, progress: Callable[[int, int], None] | None) -> Floats | Fit:
        """The posterior by agreement alone, from the best of three starts, on a sample where there are many items."""

        def run(part: LabelTable, known: Ints, posterior: Floats) -> Fit:
            return replace(self, table=part, known=known, state=None).run(posterior, max_iter=100)

        return chosen_start(self.table, self.known, self.priors, run)

    def update(self, log_prior: Floats, steps: int) -> None:
        """EM steps from where the fit stands, on new log P (task items, options); NaN rows: the class shares."""
        self.held_pool = self.held_pool and not predicts_labels(self.table, log_prior)
        self.state = self.run(self.fitted, log_prior, max_iter=0 if self.held_pool else steps, tol=0.0)
        self.hold_shares(log_prior)
        if self.assigned:
            self._fit_bracket(self.state.posterior, self.state.class_shares)

    def _fit_bracket(self, posterior: Floats, shares: Floats) -> None:
        """pi_j ~ Dirichlet(kappa * pi): the class mix of the items that each annotator was asked."""
        mix = np.zeros((self.table.n_annotators, self.table.n_options))
        np.add.at(mix, self.table.annotator, posterior[self.table.item])
        kappa = self.pool.kappa if np.isfinite(self.pool.kappa) else 1000.0
        mix = (mix + kappa * shares) / (mix.sum(axis=1, keepdims=True) + kappa)
        self.bracket = np.log(np.maximum(mix, LEAST) / np.maximum(shares, LEAST))

    def mean_label_shares(self) -> Floats:
        """The plain mean of the annotators' label shares. Shape (options,)"""
        shares = np.zeros((self.table.n_annotators, self.table.n_options))
        np.add.at(shares, (self.table.annotator, self.table.label), 1.0)
        counts = shares.sum(axis=1)
        rows = counts >= min(LEAST_LABELS, counts.max(initial=0))
        return np.asarray((shares[rows] / counts[rows, None]).mean(axis=0))

    # ---------------------------------------------------------------- what follows from it

    def log_prior(self, log_probs: Floats | None) -> Floats:
        """log P (task items, options) of items with the class-share offset; the class shares where there is none."""
        state = self.fitted
        free = None if log_probs is None else np.isnan(log_probs[:, 0])
        offset = np.zeros(self.table.n_options) if self.label_offset is None else self.label_offset
        prior = item_log_prior(log_probs, free, state.class_shares, offset)
        prior = np.broadcast_to(prior, (self.table.n_items, self.table.n_options)).copy()
        prior += self.item_bracket()
        if self.table.outside is not None:
            prior[self.table.outside] = -np.inf
        return prior

    def label_scores(self, exponent: float | None = None) -> Floats:
        """The summed evidence of each item's labels, times tau or another exponent. (task items, options)"""
        zeros, tau = np.zeros(self.table.n_options), self.exponent if exponent is None else exponent
        scores = item_scores(self.table, self.fitted.parameters, zeros, exponent=tau, priors=self.priors)
        return np.where(np.isinf(scores), 0.0, scores)

    def evidence_of(self, annotator: Ints, label: Ints, option_counts: Ints) -> Floats:
        """log P(label | k) of any labels by any annotators, of items with so many options. (n,) each -> (n, options)"""
        table, parameters = self.table, self.fitted.parameters
        out = parameters.any_evidence(annotator, label, self.priors)
        keys = table.cell_annotator * table.n_options + table.cell_label
        wanted = np.asarray(annotator, np.int64) * table.n_options + label
        place = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        given = np.flatnonzero(keys[place] == wanted) if len(keys) else np.zeros(0, np.int64)
        out[given] = parameters.evidence[place[given]]
        for count in np.unique(option_counts[option_counts < table.n_options]):
            rows = np.flatnonzero(option_counts == count)
            out[rows] -= np.log(inside_mass(table, parameters, self.priors, int(count)))[annotator[rows]]
        return out


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
