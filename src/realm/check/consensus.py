"""What the others say: a one-coin consensus, from which each annotator can be judged without their own label.

Every annotator is right with a probability of their own, else uniformly wrong (Dawid-Skene with one parameter). Only
labels that were given to an item are stored, so memory grows with the annotations, not with items x labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from realm.data.annotations import Annotations

Floats = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]
ROUNDS = 20
PRIOR_MEAN, PRIOR_WEIGHT = 0.75, 4.0


@dataclass(frozen=True)
class Consensus:
    """The fitted consensus.

    | field | shape | meaning |
    |---|---|---|
    | accuracy | (annotators,) | how often each is right, shrunk towards 0.75 |
    | weight | (annotations,) | the log odds that an annotation adds to its label |
    | cell | (annotations,) | the (item, label) pair of each annotation |
    | posterior | (cells,) | probability that the label of a pair is its item's true one |
    | others | (annotations,) | the same for an annotation's own label, had the annotator not labelled the item |
    """

    accuracy: Floats
    weight: Floats
    cell: Index
    posterior: Floats
    others: Floats


def fit_consensus(annotations: Annotations) -> Consensus:
    """Fit by expectation-maximisation, starting from the vote."""
    item, person, label = (
        column.astype(np.int64) for column in (annotations.item, annotations.annotator, annotations.label)
    )
    options = annotations.option_counts.astype(np.float64)
    width = int(annotations.option_counts.max(initial=1))
    cells, cell = np.unique(item * width + label, return_inverse=True)
    item_of_cell = cells // width
    unseen = options - np.bincount(item_of_cell, minlength=annotations.n_items)
    size = np.maximum(annotations.annotations_per_annotator, 1)
    accuracy = np.full(annotations.n_annotators, PRIOR_MEAN)
    for _ in range(ROUNDS):
        weight = _weights(accuracy[person], options[item])
        posterior = _posterior(np.bincount(cell, weight, minlength=len(cells)).astype(np.float64), item_of_cell, unseen)
        right = np.bincount(person, posterior[cell], minlength=len(size))
        accuracy = (right + PRIOR_MEAN * PRIOR_WEIGHT) / (size + PRIOR_WEIGHT)
    weight = _weights(accuracy[person], options[item])
    own = posterior[cell]
    less = own * np.exp(-weight)
    return Consensus(accuracy, weight, cell, posterior, less / (1 - own + less))


def _weights(accuracy: Floats, options: Floats) -> Floats:
    inside = np.clip(accuracy, 1e-3, 1 - 1e-3)
    return np.asarray(np.log(inside * np.maximum(options - 1, 1) / (1 - inside)))


def _posterior(score: Floats, item_of_cell: Index, unseen: Floats) -> Floats:
    """Softmax over an item's labels, of which `unseen` were given by nobody and score 0."""
    top = np.zeros(len(unseen))
    np.maximum.at(top, item_of_cell, score)
    mass = np.exp(score - top[item_of_cell])
    total = np.bincount(item_of_cell, mass, minlength=len(unseen)) + unseen * np.exp(-top)
    return np.asarray(mass / total[item_of_cell])
