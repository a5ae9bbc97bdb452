from __future__ import annotations

import numpy as np
import pytest

from realm.crowd.class_balance import ClassBalance, fit_habits
from realm.crowd.estimate import estimate
from realm.crowd.evidence import check_log_probs
from realm.crowd.habit import Habit
from realm.crowd.shared_confusion import confusion_sums, evidence_of_labels, shared_confusions
from realm.data import Annotations

from .crowds import simulate, table


def neighbours(seed: int = 0, n: int = 600, options: int = 4) -> tuple[Annotations, np.ndarray]:
    """Fifteen annotators, five for each item, who take a label for the next one and for no other."""
    rng = np.random.default_rng(seed)
    truth, accuracy = rng.integers(options, size=n), rng.beta(8, 3, 15)
    item = np.repeat(np.arange(n), 5)
    annotator = rng.random((n, 15)).argsort(axis=1)[:, :5].ravel()
    right = rng.random(len(item)) < accuracy[annotator]
    label = np.where(right, truth[item], (truth[item] + 1) % options)
    return table(item, annotator, label, n_items=n, n_annotators=15, options=options), truth


def fitted(annotations: Annotations, options: int) -> tuple[np.ndarray, Habit, np.ndarray]:
    flat = check_log_probs(annotations, np.zeros((annotations.n_items, options)))
    balance, habit, parameters = fit_habits(ClassBalance.of(annotations, flat), Habit.of(annotations))
    return balance.prior, habit, parameters


def test_neighbours_that_all_mistake_are_seen_and_mend_the_labels() -> None:
    annotations, truth = neighbours()
    prior, habit, parameters = fitted(annotations, 4)
    (ratio,) = shared_confusions(annotations, prior, habit, parameters)
    for k in range(4):
        others = [y for y in range(4) if y not in (k, (k + 1) % 4)]
        assert ratio[k, (k + 1) % 4] > 0.5 > -0.5 > ratio[k, others].max()
    found = estimate(annotations, np.zeros((600, 4)))
    right = (found.posterior.argmax(axis=1) == truth).mean()
    by_habit = (np.log(np.maximum(found.posterior, 1e-300)) - confusion_sums(annotations, ratio[None])).argmax(axis=1)
    assert right > 0.95 and right > (by_habit == truth).mean() + 0.01


@pytest.mark.parametrize("options", [2, 3])
def test_even_errors_and_two_labels_have_nothing_to_share(options: int) -> None:
    crowd = simulate(1, annotators=np.linspace(0.5, 0.95, 20), labels_each=300, per_item=5, options=options)
    prior, habit, parameters = fitted(crowd.annotations, options)
    (ratio,) = shared_confusions(crowd.annotations, prior, habit, parameters)
    assert np.abs(ratio).max() < (1e-12 if options == 2 else 0.25)


def test_the_sums_are_those_of_the_evidence_of_every_label() -> None:
    annotations, _ = neighbours(1, n=60)
    prior, habit, parameters = fitted(annotations, 4)
    ratios = shared_confusions(annotations, prior, habit, parameters)
    both, habits = (evidence_of_labels(annotations, habit, parameters, each) for each in (ratios, np.zeros((1, 4, 4))))
    sums = np.zeros((60, 4))
    np.add.at(sums, annotations.item, both - habits)
    np.testing.assert_allclose(confusion_sums(annotations, ratios), sums, atol=1e-12)
