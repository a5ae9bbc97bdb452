"""Who takes one label for another is named and nobody else: no guessers, no habits, no rare labels; broken items."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest

from realm.crowd.estimate import estimate
from realm.crowd.notes import confusion_in_words
from realm.crowd.screens import Screens
from realm.crowd.suspects import IMPROBABLE, ConfusedLabel, broken_items, errors_or_more
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


# -------------------------------------------------------------------- broken items


def with_broken(broken: int = 0, n_items: int = 200, seed: int = 0) -> Annotations:
    """Six annotators who are right 95% of the time; of the first `broken` items they know nothing."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=n_items)
    rows = []
    for item in range(n_items):
        for who in range(6):
            label = who % 3 if item < broken else truth[item] if rng.random() < 0.95 else (truth[item] + 1) % 3
            rows.append((f"t{item}", f"w{who}", "abc"[label]))
    return Annotations.from_pandas(pd.DataFrame(rows, columns=["text", "annotator", "label"]), labels=list("abc"))


@pytest.mark.parametrize("least", [1, 2, 3])
def test_the_tail_is_that_of_all_outcomes(least):
    rates = np.random.default_rng(1).uniform(0.05, 0.9, size=5)
    outcomes = [np.array(outcome) for outcome in product([0, 1], repeat=5) if sum(outcome) >= least]
    expected = sum(np.prod(np.where(outcome, rates, 1 - rates)) for outcome in outcomes)
    assert errors_or_more(rates, least) == pytest.approx(expected, rel=1e-9)


def test_items_on_which_reliable_annotators_contradict_each_other_are_found() -> None:
    table = with_broken(broken=4)
    found = broken_items(table, estimate(table))
    assert set(found.items[:4].tolist()) == {0, 1, 2, 3}, "the least probable first"
    assert len(found.items) <= 4 + 200 * IMPROBABLE and (found.probability < IMPROBABLE).all()
    assert (found.against[:4] == 4).all() and (found.reliable == 6).all()


def test_an_item_on_which_the_model_alone_is_wrong_is_not_broken() -> None:
    table = with_broken()
    truth = estimate(table).posterior.argmax(axis=1)
    wrong = np.full((200, 3), 0.01)
    wrong[np.arange(200), (truth + 1) % 3] = 0.98
    assert len(broken_items(table, estimate(table, wrong)).items) <= 200 * IMPROBABLE
    fair = broken_items(table, estimate(table))
    assert len(fair.items) <= 200 * IMPROBABLE
