from __future__ import annotations

import numpy as np
import pytest

from realm.crowd.coin import expertise_evidence
from realm.crowd.dependence import dependence, exponent
from realm.crowd.evidence import LabelEvidence, check_log_probs
from realm.data import Annotations

from .crowds import table


def panel(seed: int, copies: int, *, people: int = 4, options: int = 2, n_items: int = 600) -> Annotations:
    """Annotators who label everything, each in so many copies."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(options, size=n_items)
    beta, xi = rng.uniform(0.3, 0.8, people), rng.dirichlet(np.full(options, 3.0), people)
    guess = np.stack([rng.choice(options, n_items, p=habit) for habit in xi], axis=1)
    labels = np.where(rng.random((n_items, people)) < beta, truth[:, None], guess).repeat(copies, axis=1)
    item, annotator = (index.ravel() for index in np.indices(labels.shape))
    return table(item, annotator, labels.ravel(), n_items=n_items, n_annotators=people * copies, options=options)


@pytest.mark.parametrize("options", [2, 4])
@pytest.mark.parametrize("copies", [1, 2, 3, 5])
def test_independent_annotators_count_whole_and_copies_a_share(copies: int, options: int) -> None:
    found = [dependence(panel(seed, copies, options=options)) for seed in range(3)]
    tau = np.mean([each.exponent for each in found])
    assert tau == pytest.approx(1 / copies, rel=0.2)
    assert np.mean([each.effective for each in found]) == pytest.approx(4, abs=0.9)
    assert {each.annotations_per_item for each in found} == {4.0 * copies}
    assert str(found[0]).startswith(f"{4 * copies} annotators per item are worth about ")


def brute_force(annotations: Annotations, log_probs: np.ndarray, evidence: np.ndarray, tau: float) -> float:
    total = 0.0
    for a, item in enumerate(annotations.item):
        others = [b for b in np.flatnonzero(annotations.item == item) if b != a]
        if others:
            scores = log_probs[item] + tau * evidence[others].sum(axis=0)
            prior = np.exp(scores) / np.exp(scores).sum()
            total += np.log(prior @ np.exp(evidence[a]))
    return total


@pytest.mark.parametrize("dense", [False, True])
def test_the_exponent_maximises_what_plain_loops_sum_up(dense: bool) -> None:
    rng = np.random.default_rng(1)
    item = np.concatenate([np.repeat(np.arange(30), 4), np.arange(30, 40)])  # the last ten have one annotation
    annotator = np.concatenate([np.tile(np.arange(4), 30), rng.integers(4, size=10)])
    truth = rng.integers(3, size=40)
    shared = np.where(rng.random(40) < 0.7, truth, rng.integers(3, size=40))  # everyone copies the same mistakes
    label = np.where(rng.random(len(item)) < 0.45, shared[item], rng.integers(3, size=len(item)))
    annotations = table(item, annotator, label, n_items=40, n_annotators=4, options=3)
    log_probs = check_log_probs(annotations, np.log(rng.dirichlet(np.ones(3), 40)))
    by_label = expertise_evidence(annotations, [[0.8], [0.7], [0.75], [0.6]])
    assert isinstance(by_label, LabelEvidence)
    own, other = by_label.own[by_label.row], by_label.other[by_label.row]
    array = np.where(np.arange(3) == annotations.label[:, None], own[:, None], other[:, None])
    taus = np.linspace(0.01, 1, 200)
    best = taus[np.argmax([brute_force(annotations, log_probs, array, tau) for tau in taus])]
    assert 0.1 < best < 0.9
    assert exponent(annotations, log_probs, array if dense else by_label) == pytest.approx(best, abs=0.01)


def test_one_annotation_per_item_says_nothing() -> None:
    annotations = table(np.arange(5), [0, 1, 0, 1, 0], [0, 1, 1, 0, 1], n_items=5, n_annotators=2, options=2)
    assert dependence(annotations) is None and exponent(annotations) == 1.0


def test_a_model_that_knows_the_items_does_not_hide_the_copies() -> None:
    annotations = panel(0, 3)
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=600)  # the truth that `panel` drew first
    log_probs = np.log(np.where(np.arange(2) == truth[:, None], 0.7, 0.3))
    assert exponent(annotations, log_probs) == pytest.approx(1 / 3, abs=0.12)
