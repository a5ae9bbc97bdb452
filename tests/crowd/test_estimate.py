"""`estimate` and `AnnotatorModel`: annotators and labels of whole tables, with what else is known of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from realm.crowd.engine import log_softmax
from realm.crowd.estimate import Estimate, estimate
from realm.crowd.model import AnnotatorModel
from realm.errors import RealmError

from .crowds import coins, labelled, mixtures, simulate, table
from .label_tables import drawn

REPORTED = ("accuracy", "low", "high", "expertise", "posterior", "habits", "annotations", "chance")


def same(one: Estimate, two: Estimate, atol: float = 1e-9) -> None:
    for name in REPORTED:
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), atol=atol, err_msg=name)


def right(found: Estimate, truth: np.ndarray) -> float:
    return float((found.posterior.argmax(axis=1) == truth).mean())


# -------------------------------------------------------------------- what it finds


def test_habits_are_found_and_do_not_pass_for_expertise() -> None:
    rng = np.random.default_rng(0)
    truth = rng.choice(2, 1500, p=[0.3, 0.7])
    matrices = mixtures([0.7] * 4 + [0.1] * 4, [[0.5, 0.5]] * 4 + [[0.05, 0.95]] * 4)
    found = estimate(labelled(1, truth, matrices, 5))
    assert (found.habits[4:, 0, 1] > 0.85).all()
    assert found.expertise[:4, 0].min() > found.expertise[4:, 0].max() + 0.3
    assert found.accuracy[4:, 0].min() > 0.6, "who says the frequent label is often right"


def test_who_misses_the_rare_label_does_not_make_it_vanish() -> None:
    """Everybody misses positives far more often than they invent them: one number per annotator would drop them."""
    rng = np.random.default_rng(0)
    truth = (rng.random(3000) < 0.15).astype(np.int64)
    matrices = np.tile([[0.97, 0.03], [0.45, 0.55]], (10, 1, 1))
    found = estimate(labelled(1, truth, matrices, 5))
    assert 0.08 < found.posterior.argmax(axis=1).mean() < 0.22
    np.testing.assert_allclose(found.confusion(0, 0), matrices[0], atol=0.12)


def test_one_label_per_item_is_marked_relative_unless_gold_fixes_the_scale() -> None:
    crowd = simulate(0, per_item=1)
    assert estimate(crowd.annotations, np.exp(crowd.log_probs)).relative
    assert not estimate(simulate(0, per_item=2).annotations).relative
    for share, relative in ((0.1, True), (0.6, False)):
        gold = np.where(np.arange(len(crowd.truth)) < share * len(crowd.truth), crowd.truth, -1)
        assert estimate(crowd.annotations, np.exp(crowd.log_probs), gold=gold).relative == relative


def test_a_table_without_annotations_has_nobody_and_follows_the_model() -> None:
    made = table([], [], [], n_items=2, n_annotators=1, options=2)
    found = estimate(made, [[0.3, 0.7], [0.5, 0.5]])
    assert np.isnan(found.accuracy).all() and found.posterior.argmax(axis=1)[0] == 1
    np.testing.assert_allclose(found.posterior.sum(axis=1), 1)


def test_rows_of_nan_are_items_of_which_nothing_is_known() -> None:
    crowd = simulate(3, options=3)
    probs = np.exp(crowd.log_probs)
    probs[::2] = np.nan
    found = estimate(crowd.annotations, probs)
    assert np.isfinite(found.posterior).all() and right(found, crowd.truth) > right(
        estimate(crowd.annotations), crowd.truth
    )


# -------------------------------------------------------------------- renaming, tasks, options


def test_several_tasks_in_one_table_are_separate_tables() -> None:
    """Each task has annotators of its own; tau alone is one for all, so crowds that err independently are compared."""
    rng = np.random.default_rng(0)
    tasks = np.arange(500) % 2
    truth = rng.integers(0, np.where(tasks == 0, 3, 2))
    item = np.repeat(np.arange(500), 4)
    annotator = np.concatenate([rng.permutation(6)[:4] for _ in range(500)])
    accuracy = np.array([[0.9, 0.5], [0.85, 0.55], [0.8, 0.6], [0.6, 0.8], [0.55, 0.9], [0.5, 0.95]])
    options = np.where(tasks[item] == 0, 3, 2)
    wrong = (truth[item] + 1 + rng.integers(0, options - 1)) % options
    label = np.where(rng.random(len(item)) < accuracy[annotator, tasks[item]], truth[item], wrong)
    shape = {"n_items": 500, "n_annotators": 6, "options": np.where(tasks == 0, 3, 2).tolist()}
    whole = estimate(table(item, annotator, label, item_tasks=tasks, **shape))
    assert (whole.exponent == 1).all()
    for task in range(2):
        rows, items = tasks[item] == task, np.flatnonzero(tasks == task)
        alone = table(np.searchsorted(items, item[rows]), annotator[rows], label[rows], n_items=250, n_annotators=6,
                      options=3 - task)  # fmt: skip
        found = estimate(alone)
        np.testing.assert_allclose(whole.accuracy[:, task], found.accuracy[:, 0], atol=1e-9)
        np.testing.assert_allclose(whole.posterior[items, : 3 - task], found.posterior, atol=1e-9)
    assert np.corrcoef(whole.accuracy[:, 0], whole.accuracy[:, 1])[0, 1] < 0


def test_items_with_fewer_options_never_get_a_label_that_they_do_not_have() -> None:
    rng = np.random.default_rng(5)
    counts = rng.choice([2, 5], 900)
    truth = rng.integers(0, counts)
    item, annotator = np.repeat(np.arange(900), 3), np.tile(np.arange(3), 900)
    knows = rng.random(len(item)) < np.array([0.8, 0.6, 0.3])[annotator]
    label = np.where(knows, truth[item], rng.integers(0, counts[item]))
    made = table(item, annotator, label, n_items=900, n_annotators=3, options=counts.tolist())
    found = estimate(made)
    assert not found.posterior[np.arange(5) >= counts[:, None]].any()
    np.testing.assert_allclose(found.posterior.sum(axis=1), 1)
    assert (np.diff(found.expertise[:, 0]) < 0).all() and right(found, truth) > 0.75


# -------------------------------------------------------------------- evidence and confusion matrices


# -------------------------------------------------------------------- what is known beforehand


def colluders(seed: int = 0, n: int = 400, follow: float = 0.9):
    """Four annotators who mostly give the same wrong label on the same 40% of the items, four honest at 0.85; K = 2."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, n)
    led_astray = rng.random(n) < 0.4
    item, annotator = np.repeat(np.arange(n), 8), np.tile(np.arange(8), n)
    honest = np.where(rng.random(len(item)) < 0.85, truth[item], 1 - truth[item])
    colluding = (annotator < 4) & (rng.random(len(item)) < follow)
    label = np.where(colluding, np.where(led_astray, 1 - truth, truth)[item], honest)
    return table(item, annotator, label, n_items=n, n_annotators=8, options=2), truth


def test_gold_is_taken_as_given_and_exposes_colluders() -> None:
    made, truth = colluders()
    gold = np.where(np.arange(len(truth)) % 10 == 0, truth, -1)
    found, unknown = estimate(made, gold=gold), gold == -1
    assert (found.posterior.argmax(axis=1)[unknown] == truth[unknown]).mean() > 0.9
    np.testing.assert_array_equal(found.posterior[~unknown, truth[~unknown]], 1.0)
    assert found.accuracy[:4, 0].max() < found.accuracy[4:, 0].min()


def test_an_expert_is_held_and_judges_the_others() -> None:
    made, truth = colluders()
    judged = np.arange(0, len(truth), 5)
    more = table(
        np.concatenate([made.item, judged]),
        np.concatenate([made.annotator, np.full(len(judged), 8)]),
        np.concatenate([made.label, truth[judged]]),
        n_items=len(truth), n_annotators=9, options=2,
    )  # fmt: skip
    found = estimate(more, experts=["a8"])
    assert right(found, truth) > 0.9
    assert found.low[8, 0] == found.high[8, 0] == found.accuracy[8, 0] == 0.999


def earlier(annotator: str, accuracy: float = 0.9, low: float = 0.85, high: float = 0.95) -> pd.DataFrame:
    row = {"annotator": annotator, "task": "t0", "expertise": 0.8, "accuracy": accuracy, "low": low, "high": high}
    return pd.DataFrame([row])


def test_at_two_options_an_earlier_table_decides_which_of_two_camps_tells_the_truth() -> None:
    """Three say one thing, three the opposite: both readings explain the labels as well."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 300)
    made = labelled(0, truth, coins([0.9] * 3 + [0.1] * 3, 2), 6)
    assert right(estimate(made, prior=earlier("a0")), truth) > 0.9
    assert right(estimate(made, prior=earlier("a5")), truth) < 0.1


def test_an_earlier_table_weighs_as_much_as_its_interval_says() -> None:
    crowd = simulate(7, annotators=np.array([0.7, 0.7, 0.7]), labels_each=60, per_item=3, options=2)
    bare = estimate(crowd.annotations).accuracy[0, 0]
    wide, narrow = (
        estimate(crowd.annotations, prior=earlier("a0", 0.97, low, high)).accuracy[0, 0]
        for low, high in ((0.8, 1.0), (0.96, 0.98))
    )
    assert bare < wide < narrow and narrow == pytest.approx(0.97, abs=0.06)


def test_what_cannot_be_used_is_refused_in_words() -> None:
    crowd = simulate(0)
    made = crowd.annotations
    with pytest.raises(RealmError, match="`experts`: no such annotator: nobody"):
        estimate(made, experts=["nobody"])
    with pytest.raises(RealmError, match=r"`prior`: it needs annotator, task, .* accuracy"):
        estimate(made, prior=pd.DataFrame({"annotator": [], "task": []}))
    with pytest.raises(RealmError, match=r"`prior`: it needs .* numbers .*could not convert"):
        estimate(made, prior=earlier("a0", "high"))  # type: ignore[arg-type]
    with pytest.raises(RealmError, match="none of its annotators"):
        estimate(made, prior=earlier("zoe"))
    with pytest.raises(RealmError, match="`gold` must hold a label"):
        estimate(made, gold=np.zeros(3, np.int64))
    with pytest.raises(RealmError, match="`pred_probs` must have shape"):
        estimate(made, np.ones((3, 3)))
    with pytest.raises(RealmError, match="`pred_probs`: probabilities of 0 or more"):
        estimate(made, crowd.log_probs)
    with pytest.raises(RealmError, match="`kind=robots`"):
        estimate(made, kind="robots")


# -------------------------------------------------------------------- files and state


def test_an_estimate_survives_its_arrays() -> None:
    crowd = simulate(0)
    before = estimate(crowd.annotations, np.exp(crowd.log_probs))
    arrays = before.to_arrays()
    after = Estimate.from_arrays({**arrays, "another": np.zeros(3)})
    for name in arrays:
        assert getattr(after, name).dtype == getattr(before, name).dtype
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
    with pytest.raises(RealmError, match="posterior"):
        Estimate.from_arrays({name: array for name, array in arrays.items() if name != "posterior"})


@pytest.mark.parametrize("per_item", [1, 3])
def test_a_model_comes_back_from_its_state_and_goes_on_as_if_nothing_had_happened(per_item: int) -> None:
    crowd = simulate(0, per_item=per_item)
    one = AnnotatorModel(crowd.annotations).fit(crowd.log_probs)
    two = AnnotatorModel(crowd.annotations)
    two.load_state(one.state())
    same(one.estimate(crowd.log_probs), two.estimate(crowd.log_probs), 0)
    for model in (one, two):
        model.update(crowd.log_probs / 2)
    same(one.estimate(crowd.log_probs), two.estimate(crowd.log_probs), 0)
    with pytest.raises(RealmError, match="another table"):
        AnnotatorModel(simulate(1, annotators=5).annotations).load_state(one.state())


def test_labels_that_tell_nothing_of_each_other_are_no_worse_than_a_vote() -> None:
    """One who knows among guessers, and weak annotators of an uneven class: EM would end in a chance solution."""
    right, votes = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        truth = (rng.random(150) < 0.2).astype(int) if seed % 2 else rng.integers(0, 6, 150)
        options = 2 if seed % 2 else 6
        made = drawn(seed, truth, coins([0.55] * 12 if seed % 2 else [0.9, 1 / 6, 1 / 6], options), 3)
        people = 12 if seed % 2 else 3
        annotations = table(made.item, made.annotator, made.label, n_items=150, n_annotators=people, options=options)
        right.append((estimate(annotations).posterior.argmax(axis=1) == truth).mean())
        shares = made.vote_shares
        tied = shares >= shares.max(axis=1, keepdims=True) - 1e-9
        votes.append((tied[np.arange(150), truth] / tied.sum(axis=1)).mean())
    assert np.mean(right) > np.mean(votes) - 0.01, (np.mean(right), np.mean(votes))


def test_guessers_stay_at_the_pool_until_a_model_predicts_their_labels() -> None:
    """One who knows among nine who guess: a model that they have taught would confirm whoever was lucky first."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 5, 300)
    made = drawn(1, truth, coins([0.9] + [0.2] * 9, 5), 4)
    annotations = table(made.item, made.annotator, made.label, n_items=300, n_annotators=10, options=5)
    model = AnnotatorModel(annotations).fit(waits=True)
    before = model.tasks[0].fitted.parameters.skill
    again = AnnotatorModel(annotations)
    again.load_state(model.state())
    for each in (model, again):
        each.update(np.log(rng.dirichlet(np.ones(5), 300)), steps=5)
        np.testing.assert_array_equal(each.tasks[0].fitted.parameters.skill, before)
    again.update(log_softmax(2.0 * np.eye(5)[truth]), steps=5)
    assert again.tasks[0].fitted.parameters.skill.argmax() == 0
    known = AnnotatorModel(annotations).fit(log_softmax(np.eye(5)[truth]), waits=True)
    assert known.tasks[0].fitted.parameters.skill.argmax() == 0, (
        "a model that knows before it is trained tells who does"
    )


@pytest.mark.parametrize("options", [2, 4])
def test_a_model_that_is_sure_and_knows_nothing_does_no_harm(options: int) -> None:
    """Guessers explain its probabilities as well as a table of good annotators explains their agreement."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        truth = rng.choice(options, 1000, p=np.arange(options, 0, -1) / np.arange(options, 0, -1).sum())
        made = drawn(seed, truth, coins(list(rng.uniform(0.55, 0.95, 20)), options), 5)
        annotations = table(made.item, made.annotator, made.label, n_items=1000, n_annotators=20, options=options)
        alone = estimate(annotations)
        heard = estimate(annotations, rng.dirichlet(np.full(options, 0.3), 1000) + 1e-9)
        assert right(heard, truth) > right(alone, truth) - 0.03
        np.testing.assert_allclose(heard.accuracy, alone.accuracy, atol=0.06)


def test_a_model_that_knows_turns_round_a_crowd_that_is_mostly_wrong() -> None:
    """At two labels agreement fits the flipped truth as well; what tells is a model that was not trained on them."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 400)
    made = drawn(1, truth, coins([0.9, 0.1, 0.15, 0.2], 2), 4)
    annotations = table(made.item, made.annotator, made.label, n_items=400, n_annotators=4, options=2)
    probs = np.where(rng.random(400) < 0.75, truth, 1 - truth)
    assert right(estimate(annotations), truth) < 0.1
    assert right(estimate(annotations, np.where(np.eye(2)[probs] > 0, 0.75, 0.25)), truth) > 0.9
