"""The E-step's last line: log-probabilities to posteriors, in place."""

from __future__ import annotations

import numpy as np

from realm.aggregation.votes import Floats, Votes


def normalise(logits: Floats, found: Votes) -> float:
    """Turn log P(truth = k, labels) (items, options) into the posterior, in place; return the log-likelihood.

    Options that an item lacks, and those that its gold rules out, get nothing.
    """
    if found.restricted is not None:
        rows, barred = found.restricted
        logits[rows] += barred
    peak = logits[:, 0].copy()
    for option in range(1, logits.shape[1]):
        np.maximum(peak, logits[:, option], out=peak)
    logits -= peak[:, None]
    np.exp(logits, out=logits)
    total = logits[:, 0].copy()
    for option in range(1, logits.shape[1]):
        total += logits[:, option]
    logits /= total[:, None]
    return float(peak.sum() + np.log(total).sum())
