"""How sure of itself the model should be: the temperature of its probabilities that the annotations bear out.

With several labels per item agreement shows how often the model is right, whatever it claims; P(k|Q)^(1/T), normalised,
then makes a better prior for an item than P itself where the model is too sure (T above 1) or not sure enough. With one
label per item T cannot be told from the annotators' expertise, and stays 1; a few items with more move it little.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from realm.crowd.joint import Joint
from realm.crowd.posterior import Floats, check_log_probs, log_normalise, log_odds, log_scores
from realm.data import Annotations

SOFTEST, SHARPEST = 20.0, 0.2
ROUNDS = 30
SPREAD = 0.3
"""How far log T is expected to lie from 0 before anything is seen: what a handful of items say is not believed."""


def temperature(annotations: Annotations, log_probs: npt.ArrayLike, *, start: float = 0.5) -> float:
    """The T that maximises the joint likelihood of all annotations together with everyone's expertise, times a prior.

    `log_probs` is (items, Kmax); `start` the beta to start from. log T is normal around 0 beforehand. Expertise and T
    are improved in turn, so the product never falls. 1.0 where no item has two annotations.
    """
    scores = check_log_probs(annotations, log_probs)
    shared = annotations.take_items(np.flatnonzero(annotations.annotations_per_item > 1))
    if not shared.n_items:
        return 1.0
    scores = scores[annotations.annotations_per_item > 1]
    joint = Joint(shared, scores)
    skill = joint.skill(np.full(joint.n_cells, start))
    current = 1.0
    for _ in range(ROUNDS):
        joint = Joint(shared, tempered(scores, current))
        skill = joint.climb(skill, prior=(2.0, 2.0), max_iter=5)
        found = _best(shared, scores, joint.beta(skill))
        moved, current = abs(np.log(found / current)), found
        if moved < 1e-3:
            break
    return current


def softening(annotations: Annotations, log_probs: npt.ArrayLike) -> float:
    """The T that probabilities out of fold are brought to: what agreement bears out, and 1 at least.

    T below 1 would say that the model is better than it claims: so do the crowd's common mistakes, once it has learnt
    them.
    """
    return max(temperature(annotations, log_probs), 1.0)


def tempered(log_probs: Floats, temperature: float) -> Floats:
    """log of P^(1/T), normalised. Shape (items, Kmax)."""
    return log_normalise(log_probs / temperature)


def _best(annotations: Annotations, log_probs: Floats, beta: Floats) -> float:
    shape = (annotations.n_annotators, len(annotations.tasks))
    votes = log_scores(annotations, np.zeros_like(log_probs), log_odds(annotations, beta.reshape(shape)))

    def loss(log_temperature: float) -> float:
        prior = tempered(log_probs, float(np.exp(log_temperature)))
        both = prior + votes
        top = both.max(axis=1)
        likelihood = float((top + np.log(np.exp(both - top[:, None]).sum(axis=1))).sum())
        return 0.5 * (log_temperature / SPREAD) ** 2 - likelihood

    bounds = (np.log(SHARPEST), np.log(SOFTEST))
    return float(np.exp(minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-3}).x))
