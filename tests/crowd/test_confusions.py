"""Who takes one label for another is named, and nobody else: not guessers, not those of a habit, not rare labels."""

from __future__ import annotations

import numpy as np
import pytest

from realm.crowd.confusions import ConfusedLabel, count_confusions
from realm.crowd.estimate import estimate
from realm.crowd.notes import confusion_in_words
from realm.crowd.screens import Screens
from realm.crowd.tables import expertise_table
from realm.data import Annotations

from .crowds import coins, labelled, mixtures, table


def adjacent(accuracy: np.ndarray, options: int) -> np.ndarray:
    """All err towards the next label, some often and some rarely. Shape (annotators, K, K)."""
    shares = np.where(np.arange(options) == 1, 4.0, 1.0) * (np.arange(options) > 0)
    shares = np.stack([np.roll(shares / shares.sum(), k) for k in range(options)])
    right = accuracy[:, None, None]
    return right * np.eye(options) + (1 - right) * shares


def confuser(options: int, share: float = 0.62) -> np.ndarray:
    """Good, but that `c0` is answered `c1`. Shape (K, K)."""
    matrix = coins([0.95], options)[0]
    matrix[0] = 0.02
    matrix[0, 1], matrix[0, 0] = share, 1 - share - 0.02 * (options - 2)
    return matrix


def confused_labels(made: Annotations) -> list[ConfusedLabel]:
    return Screens(made, estimate(made)).confused


@pytest.mark.parametrize("options", [3, 5])
def test_who_takes_one_label_for_another_is_named(options):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        matrices = coins(rng.uniform(0.75, 0.95, 10), options)
        matrices[4] = confuser(options)
        truth = rng.integers(0, options, 600)
        made = labelled(seed, truth, matrices, 5)
        (found,) = confused_labels(made)
        others = (made.annotator != 4) & (truth[made.item] == 0)
        assert found.others == pytest.approx((made.label[others] == 1).mean(), abs=0.02)
        assert (found.annotator, found.truth, found.given) == (4, 0, 1)
        assert 0.45 < found.share < 0.75 and found.others < 0.15
        words = confusion_in_words(made, found)
        assert words == (
            f"answers `c1` for {found.share:.0%} of the items that are `c0`, as others do for {found.others:.0%}"
        )
        notes = expertise_table(made, estimate(made)).set_index("annotator")["notes"]
        assert notes["a4"] == words and (notes.drop("a4") == "").all()


@pytest.mark.parametrize("kind", ["coins", "habits", "adjacent", "rare"])
def test_nobody_is_named_who_only_errs(kind):
    """Poor ones, guessers with a favourite, errors that all make, and a label that is rare."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        truth = rng.choice(4, 800, p=[0.4, 0.3, 0.2, 0.1] if kind != "rare" else [0.91, 0.03, 0.03, 0.03])
        matrices = {
            "coins": coins(rng.uniform(0.4, 0.98, 12), 4),
            "habits": mixtures(rng.choice([0.0, 0.4, 0.9], 12), rng.dirichlet(np.full(4, 0.5), 12)),
            "adjacent": adjacent(rng.uniform(0.4, 0.98, 12), 4),
            "rare": coins(rng.uniform(0.7, 0.98, 12), 4),
        }[kind]
        made = labelled(seed, truth, matrices, 6)
        assert confused_labels(made) == []


def test_two_labels_and_own_options_have_none():
    matrices = coins(np.full(6, 0.9), 2)
    matrices[0, 0] = [0.2, 0.8]
    made = labelled(0, np.random.default_rng(0).integers(0, 2, 400), matrices, 5)
    assert confused_labels(made) == []
    three = coins(np.full(6, 0.9), 3)
    three[0] = confuser(3)
    made = labelled(0, np.random.default_rng(0).integers(0, 3, 400), three, 5)
    own = table(made.item, made.annotator, made.label, n_items=400, n_annotators=6, options=[3] * 400)
    assert len(confused_labels(made)) == 1 and confused_labels(own) == []


def test_items_are_judged_by_the_others():
    """As if the annotation had not been there, with the same annotators: ten equal labels less one are nine."""
    made = labelled(1, np.random.default_rng(1).integers(0, 3, 60), coins([0.9, 0.8, 0.7, 0.6], 3), 3)
    found = estimate(made)
    others = Screens(made, found).others
    evidence = found.evidence(made)
    for row in range(made.n_annotations):
        rest = (made.item == made.item[row]) & (np.arange(made.n_annotations) != row)
        scores = found.log_prior[made.item[row]] + evidence[rest].sum(axis=0)
        without = np.exp(scores - scores.max())
        without /= without.sum()
        assert others.truth[row] == without.argmax() and others.confidence[row] == pytest.approx(without.max())
        assert others.right[row] == pytest.approx(without[made.label[row]])


def test_confusions_are_counted_as_a_loop_counts_them():
    made = labelled(2, np.random.default_rng(2).integers(0, 3, 90), coins([0.9, 0.6, 0.5], 3), 2)
    truth = np.random.default_rng(3).integers(-1, 3, made.n_annotations)
    counts = count_confusions(made, truth)
    for who in range(3):
        expected = np.zeros((3, 3), int)
        for row in np.flatnonzero((made.annotator == who) & (truth >= 0)):
            expected[truth[row], made.label[row]] += 1
        np.testing.assert_array_equal(counts.matrix(who), expected)
