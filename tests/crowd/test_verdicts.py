"""The chance level that annotators are held against, and the verdicts that follow from their intervals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from realm.crowd.accuracy import chance_of, expertise_of
from realm.crowd.estimate import estimate
from realm.crowd.tables import expertise_table
from realm.crowd.verdicts import RELIABLE, VERDICTS, false_discoveries, right_by_others, verdicts

from .crowds import Floats, coins, known_estimate, labelled, mixed, mixtures, table


@pytest.mark.parametrize("seed", range(3))
def test_chance_agrees_with_one_annotator_at_a_time(seed):
    made = mixed(seed)
    rng = np.random.default_rng(seed)
    posterior = np.where(np.arange(4) < made.option_counts[:, None], rng.random((made.n_items, 4)), 0.0)
    posterior /= posterior.sum(axis=1, keepdims=True)
    found = chance_of(made, posterior).reshape(made.n_annotators, len(made.tasks))
    for task in range(len(made.tasks)):
        frequent = posterior[made.item_tasks == task].sum(axis=0).argmax()
        for annotator in range(made.n_annotators):
            items = made.item[(made.annotator == annotator) & (made.item_tasks[made.item] == task)]
            expected = max(posterior[items, frequent].mean(), (1 / made.option_counts[items]).mean())
            assert found[annotator, task] == pytest.approx(expected)


# -------------------------------------------------------------------- verdicts


def verdict(
    low: float, high: float, chance: float = 0.5, *, by_habit: float | None = None, labels: tuple[int, ...] = (0, 1)
) -> str:
    """The verdict on one annotator with this interval, whose habit scores `by_habit` (chance, unless said)."""
    made = table(np.arange(len(labels)), [0] * len(labels), labels, n_items=len(labels), n_annotators=1,
                 options=max(round(1 / chance), 2) if by_habit is None else 2)  # fmt: skip
    accuracy = (low + high) / 2
    figures = {"accuracy": accuracy, "low": low, "high": high, "chance": chance}
    figures["expertise"] = float(expertise_of(np.array(accuracy), np.array(chance if by_habit is None else by_habit)))
    found = known_estimate(made, mixtures([0.5], np.full(max(labels) + 1 if max(labels) else 2, 0.5)))
    found = replace(found, **{name: np.full((1, 1), value) for name, value in figures.items()})
    return VERDICTS[verdicts(made, found)[0, 0]]


@pytest.mark.parametrize(
    ("low", "high", "chance", "expected"),
    [
        (0.76, 0.99, 0.5, "reliable"),
        (0.74, 0.99, 0.5, "not enough evidence"),
        (0.63, 0.70, 0.25, "reliable"),
        (0.10, 0.49, 0.5, "worse than chance"),
        (0.48, 0.49, 0.5, "no better than chance"),  # hardly below it
        (0.30, 0.51, 0.5, "no better than chance"),
        (0.45, 0.59, 0.5, "no better than chance"),
        (0.45, 0.61, 0.5, "not enough evidence"),
        (0.26, 0.39, 0.25, "no better than chance"),
        (0.05, 0.22, 0.25, "worse than chance"),
        (0.64, 0.69, 0.5, "middling"),  # 1,674 labels
        (0.40, 0.88, 0.5, "not enough evidence"),  # 10 labels
        (0.72, 0.78, 0.5, "middling"),  # on the bound itself, but known well enough
        (0.70, 0.81, 0.5, "not enough evidence"),
        (0.51, 0.74, 0.5, "middling"),
        (0.49, 0.74, 0.5, "not enough evidence"),
        (0.955, 0.98, 0.9, "reliable"),
        (0.93, 0.97, 0.9, "not enough evidence"),
    ],
)
def test_a_verdict_holds_over_the_whole_interval(low, high, chance, expected):
    assert verdict(low, high, chance) == expected


def test_who_finds_the_rare_label_is_better_than_chance_however_often_they_are_right():
    """90% negative. Right 93% of the time by finding positives: above what their own habit scores, not above 95%."""
    assert verdict(0.92, 0.94, 0.9, by_habit=0.75) == "middling"
    assert verdict(0.87, 0.89, 0.9, by_habit=0.7) == "middling", "less often right than `no` to everything, and useful"
    assert verdict(0.89, 0.91, 0.9, by_habit=0.9) == "no better than chance"


def test_one_answer_always_is_never_reliable():
    assert verdict(0.97, 1.0, 0.5, labels=(1, 1, 1)) == "not enough evidence", "they may have got such items only"
    assert verdict(0.89, 0.91, 0.9, labels=(0, 0, 0)) == "no better than chance"
    assert verdict(0.09, 0.11, 0.9, by_habit=0.1, labels=(1, 1, 1)) == "no better than chance"
    assert verdict(0.64, 0.69, 0.5, labels=(0, 0)) == "not enough evidence"


def truly(annotations, truth: np.ndarray, matrices: Floats) -> tuple[Floats, Floats]:
    """How often each annotator is right on their own items, in expectation, and chance by the true labels."""
    item, who = annotations.item, annotations.annotator
    right = np.bincount(who, matrices[who, truth[item], truth[item]]) / np.bincount(who)
    return right, chance_of(annotations, np.eye(matrices.shape[1])[truth])


RATES = zip(np.linspace(0.0, 0.12, 12), np.linspace(0.3, 0.95, 12), strict=True)
CROWDS = {
    "coins of two options": ([0.5, 0.5], coins(np.linspace(0.4, 0.97, 12), 2)),
    "coins of four options": ([0.25] * 4, coins(np.linspace(0.2, 0.97, 12), 4)),
    "habits, 90% negative": ([0.9, 0.1], mixtures(np.linspace(0.0, 0.95, 12), [[0.8, 0.2]] * 12)),
    "positives missed, 90% negative": ([0.9, 0.1], np.array([[[1 - f, f], [1 - s, s]] for f, s in RATES])),
    "four who always answer the same": (
        [0.7, 0.3],
        mixtures([0.0] * 4 + [0.85] * 4, [[1.0, 0.0]] * 3 + [[0.0, 1.0]] + [[0.5, 0.5]] * 4),
    ),
}


@pytest.mark.parametrize("name", CROWDS)
def test_the_reliable_are_and_nobody_reliable_is_called_no_better_than_chance(name):
    shares, matrices = CROWDS[name]
    called = wrong = 0
    for n_items in (100, 400, 1500):
        for seed in range(3):
            truth = np.random.default_rng(seed).choice(len(shares), n_items, p=shares)
            made = labelled(seed, truth, matrices, 6)
            kinds = verdicts(made, estimate(made))[:, 0]
            right, chance = truly(made, truth, matrices)
            reliable = right > chance + (1 - chance) * RELIABLE
            called += int((kinds == VERDICTS.index("reliable")).sum())
            wrong += int(((kinds == VERDICTS.index("reliable")) & ~reliable).sum())
            assert not (reliable & (kinds >= VERDICTS.index("no better than chance"))).any()
            if "always" in name:
                enough = kinds[:4] if n_items >= 400 else kinds[:4][kinds[:4] != VERDICTS.index("not enough evidence")]
                assert (enough == VERDICTS.index("no better than chance")).all()
    assert wrong <= max(0.05 * called, 1)
    assert called or "90% negative" in name, "hardly anybody is surely right more than 95% of the time"


def test_each_verdict_is_given_to_somebody_and_is_in_the_table():
    truth = np.random.default_rng(4).integers(0, 2, 900)
    made = labelled(4, truth, coins(np.linspace(0.1, 0.97, 20), 2), 5)
    few = made.keep_annotations((made.annotator != 19) | (np.arange(made.n_annotations) < 100))
    frame = expertise_table(few, estimate(few, np.where(truth[:, None] == np.arange(2), 0.7, 0.3)))
    assert set(frame["verdict"]) == set(VERDICTS)


# -------------------------------------------------------------------- labels by the others


def test_items_are_judged_by_the_others():
    """As if the annotation had not been there, with the same annotators: ten equal labels less one are nine."""
    made = labelled(1, np.random.default_rng(1).integers(0, 3, 60), coins([0.9, 0.8, 0.7, 0.6], 3), 3)
    found = estimate(made)
    right = right_by_others(made, found)
    evidence = found.evidence(made)
    for row in range(made.n_annotations):
        rest = (made.item == made.item[row]) & (np.arange(made.n_annotations) != row)
        scores = found.log_prior[made.item[row]] + evidence[rest].sum(axis=0)
        without = np.exp(scores - scores.max())
        without /= without.sum()
        assert right[row] == pytest.approx(without[made.label[row]])


def test_benjamini_and_hochberg_by_hand() -> None:
    p_values = np.array([0.01, 0.9, 0.03, np.nan, 0.02])
    assert false_discoveries(p_values).tolist() == [True, False, True, False, True]
    assert not false_discoveries(np.array([0.2, 0.3])).any() and not false_discoveries(np.zeros(0)).any()
    assert false_discoveries(np.array([0.02, 0.001]), tests=10).tolist() == [False, True], "of ten tests"
