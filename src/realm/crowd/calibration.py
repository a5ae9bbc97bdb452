"""The temperature of the model's probabilities that the annotations support.

With several labels per item agreement shows how often the model is right, whatever it claims; P(k|Q)^(1/T), normalised,
is then a better prior for an item than P itself where the model is over-confident (T above 1) or under-confident. With
one label per item T cannot be told from the annotators' expertise, and stays 1; a few items with more move it little.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from realm.crowd.evidence import Floats, JointLikelihood, check_log_probs, log_softmax_rows, softmax_rows
from realm.crowd.habit import Habit
from realm.data import Annotations

SOFTEST, SHARPEST = 20.0, 0.2
"""The range of T that is searched. At 20 a probability of 0.999 at K=2 is 0.59, next to nothing; below 0.2 every
favourite is certain."""
ROUNDS = 30
"""More than the alternation of expertise and T has ever needed to come within `SETTLED` of where it ends."""
EM_STEPS = 5
"""EM steps for expertise between two fits of T: neither needs to be exact before the other has moved."""
SETTLED = 1e-3
"""A change of log T that alters no probability in its third decimal."""
COMMON_MISTAKES = 1.3
"""What the temperature that labels support is multiplied by in a model that learned from them: what all annotators
misread the model learns to misread, and no label contradicts it. By gold, models at the temperature of their labels
were still too sure by factors of 1.2 (SentPolarity), 1.3 to 1.7 (CEBaB) and 1.0 (24 judges of CivilComments)."""
MOSTLY_SEVERAL = 0.5
"""The share of items with several annotations from which their agreement says how sure P may be; below it there are as
many labels that stand alone, which say it too."""
SPREAD = 0.3
"""Standard deviation of log T a priori: what a handful of items say hardly moves it."""


def temperature(annotations: Annotations, log_probs: npt.ArrayLike) -> float:
    """The T that maximises the joint likelihood of all annotations together with everyone's expertise and habits.

    `log_probs` is (items, Kmax). log T is normal around 0 a priori, expertise and habits have the pool's prior; they
    and T are improved in turn. 1.0 where no item has two annotations.
    """
    shared = annotations.annotations_per_item > 1
    scores = check_log_probs(annotations, log_probs)[shared]
    if not shared.any():
        return 1.0
    annotations = annotations.take_items(np.flatnonzero(shared))
    habit = Habit.of(annotations)
    parameters, current = habit.even(), 1.0
    for _ in range(ROUNDS):
        joint = JointLikelihood(annotations, tempered(scores, current), habit)
        parameters = joint.fit(parameters, max_iter=EM_STEPS)
        evidence = habit.evidence(parameters)
        habit = habit.pooled(parameters, joint.e_step(evidence)[0], joint.position)
        best = _best_temperature(scores, evidence.item_sums(joint.position, scores.shape))
        change, current = abs(np.log(best / current)), best
        if change < SETTLED:
            break
    return current


def mostly_several(annotations: Annotations) -> bool:
    """Whether agreement says how sure P may be: more than `MOSTLY_SEVERAL` of the items have several annotations."""
    return bool((annotations.annotations_per_item > 1).mean() > MOSTLY_SEVERAL)


def tempered(log_probs: Floats, temperature: float) -> Floats:
    """log of P^(1/T), normalised. Shape (items, Kmax)."""
    return log_softmax_rows(log_probs / temperature)


def labels_temperature(
    log_probs: Floats,
    item: npt.NDArray[np.integer],
    label: npt.NDArray[np.integer],
    weight: Floats,
    least: float = 1.0,
) -> float:
    """The T of `least` or more at which P^(1/T) gives the labels the highest likelihood.

    `log_probs` is (items, Kmax); `item`, `label` and `weight` are (labels,). A label that P calls impossible counts as
    one in a million.
    """
    rows = log_probs[item]

    def loss(log_temperature: float) -> float:
        at_temperature = log_softmax_rows(rows / np.exp(log_temperature))[np.arange(len(label)), label]
        return float(-(weight * np.maximum(at_temperature, np.log(1e-6))).sum())

    lowest = float(np.log(least))
    optimum = minimize_scalar(loss, bounds=(lowest, np.log(SOFTEST)), method="bounded", options={"xatol": SETTLED})
    return float(np.exp(optimum.x)) if loss(float(optimum.x)) < loss(lowest) else least


def _best_temperature(log_probs: Floats, item_sums: Floats) -> float:
    """The most probable T, given the evidence of each item's annotations (items, Kmax)."""

    def loss(log_temperature: float) -> float:
        scores = tempered(log_probs, float(np.exp(log_temperature))) + item_sums
        return 0.5 * (log_temperature / SPREAD) ** 2 - softmax_rows(scores)

    bounds = (np.log(SHARPEST), np.log(SOFTEST))
    return float(np.exp(minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": SETTLED}).x))
