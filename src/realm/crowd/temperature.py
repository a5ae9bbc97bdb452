"""The temperature of a model's probabilities: one number, fitted to what the labels bear out."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar

from realm.crowd.engine import Floats, log_softmax

SD, HOTTEST = 0.5, 20.0  # log T ~ N(0, .5^2) on [1, 20]: below 1, common mistakes that P has learned would be surer


def fit_temperature(log_probs: Floats, targets: Floats) -> float:
    """T >= 1 at which P^(1/T) has the least cross-entropy to the targets. Both are (items, options).

    Log-probabilities are -inf beyond an item's options, where targets are 0.
    """
    if not len(log_probs):
        return 1.0
    inside = np.isfinite(log_probs)

    def loss(log_t: float) -> float:
        tempered = log_softmax(log_probs / np.exp(log_t))
        return float(0.5 * (log_t / SD) ** 2 - (targets[inside] * tempered[inside]).sum())

    best = minimize_scalar(loss, bounds=(0.0, float(np.log(HOTTEST))), method="bounded", options={"xatol": 1e-3})
    return float(np.exp(best.x)) if best.fun < loss(0.0) else 1.0
