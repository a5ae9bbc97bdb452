"""Small label tables of one task, drawn from known confusion matrices, for the tests of the engine."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from realm.crowd.engine import PRIORS, Fit, Floats, LabelTable, Pool, Priors, fit

Ints = npt.NDArray[np.int64]
DAWID_SKENE = Priors(rows=0.02, shared=float("inf"), habit=float("inf"), form="none", classes=0.01)


def drawn(
    seed: int,
    truth: Ints,
    matrices: Floats,
    per_item: int | None = None,
    *,
    chance: float = 1.0,
    weighted: bool = False,
) -> LabelTable:
    """Labels of items of these truths by annotators of these matrices (annotators, K, K).

    `per_item` of the annotators label each item, or each of them with probability `chance`.
    """
    rng = np.random.default_rng(seed)
    people, options, _ = matrices.shape
    asked = rng.random((len(truth), people)).argsort(axis=1).argsort(axis=1) < (per_item or people)
    item, annotator = np.nonzero(asked & (rng.random(asked.shape) < chance))
    rows = matrices[annotator, truth[item]].cumsum(axis=1)
    label = np.minimum((rows < rng.random(len(item))[:, None]).sum(axis=1), options - 1)
    weight = rng.uniform(0.2, 2.0, len(item)) if weighted else None
    return LabelTable(item, annotator, label, len(truth), people, options, weight)


def run(table: LabelTable, priors: Priors = PRIORS["confusion"], **settings: object) -> Fit:
    """EM from the vote."""
    start = settings.pop("start", table.vote_shares)
    return fit(table, priors, Pool.of(table, priors), start, **settings)  # type: ignore[arg-type]


def confusions(table: LabelTable, fitted: Fit, priors: Priors) -> Floats:
    """The whole confusion matrices (annotators, truth, label), labels never given included."""
    annotator, label = (index.ravel() for index in np.indices((table.n_annotators, table.n_options)))
    evidence = fitted.parameters.evidence_of(table, annotator, label, priors)
    return np.exp(evidence).reshape(table.n_annotators, table.n_options, -1).transpose(0, 2, 1)
