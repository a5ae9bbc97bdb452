"""The consensus of all annotators, from which each annotator can be judged without their own labels.

A one-coin model (`realm.crowd.coin`): every annotator has one accuracy. Only labels that were given to an item are
stored, so memory grows with the annotations, not with items x options.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from realm.crowd.coin import Coin, weights_of
from realm.crowd.evidence import Floats, Indices
from realm.data.annotations import Annotations

ITERATIONS = 20
"""EM iterations: enough for a screening; more change no accuracy by a hundredth."""
PRIOR_MEAN, PRIOR_WEIGHT = 0.75, 4.0
"""Accuracies are shrunk to 0.75, an ordinary annotator's, by as much as four labels would."""
EDGE = 1e-3
"""Accuracies are kept this far from 0 and 1, so that one annotator never outvotes a handful of others."""


@dataclass(frozen=True)
class Consensus:
    """The fitted consensus. A slot is an (item, label) that somebody gave.

    | field | shape | meaning |
    |---|---|---|
    | accuracy | (annotators,) | how often each is right, shrunk towards 0.75 |
    | log_odds | (annotations,) | what an annotation adds to the log-odds of its label |
    | slot | (annotations,) | the slot of each annotation |
    | posterior | (slots,) | probability that the label of a slot is its item's true one |
    | others | (annotations,) | the same for an annotation's own label, had the annotator not labelled the item |
    """

    accuracy: Floats
    log_odds: Floats
    slot: Indices
    posterior: Floats
    others: Floats


def fit_consensus(annotations: Annotations) -> Consensus:
    """Fit by EM, starting from the same accuracy for everybody."""
    item, annotator, label = (
        column.astype(np.int64) for column in (annotations.item, annotations.annotator, annotations.label)
    )
    width = int(annotations.option_counts.max(initial=1))
    slots, slot = np.unique(item * width + label, return_inverse=True)
    item_of_slot = slots // width
    unseen = annotations.option_counts - np.bincount(item_of_slot, minlength=annotations.n_items)
    coin = Coin(
        annotator,
        annotations.n_annotators,
        annotations.option_counts[annotations.item],
        weight=weights_of(annotations),
        prior=(1 + PRIOR_MEAN * PRIOR_WEIGHT, 1 + (1 - PRIOR_MEAN) * PRIOR_WEIGHT),
        edge=EDGE,
    )
    accuracy = np.full(annotations.n_annotators, PRIOR_MEAN)
    for _ in range(ITERATIONS):
        scores = np.bincount(slot, coin.evidence(accuracy).log_odds, minlength=len(slots)).astype(np.float64)
        posterior = _posterior(scores, item_of_slot, unseen)
        accuracy = coin.update(accuracy, posterior, slot)
    log_odds = coin.evidence(accuracy).log_odds
    without = posterior[slot] * np.exp(-log_odds)
    return Consensus(accuracy, log_odds, slot, posterior, without / (1 - posterior[slot] + without))


def _posterior(scores: Floats, item_of_slot: Indices, unseen: Indices) -> Floats:
    """Softmax over an item's options, of which `unseen` (items,) were given by nobody and score 0. Shape (slots,)."""
    top = np.zeros(len(unseen))
    np.maximum.at(top, item_of_slot, scores)
    mass = np.exp(scores - top[item_of_slot])
    total = np.bincount(item_of_slot, mass, minlength=len(unseen)) + unseen * np.exp(-top)
    return np.asarray(mass / total[item_of_slot])
