from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from realm.crowd.estimate import Estimate, estimate
from realm.crowd.evidence import posterior
from realm.crowd.habit import Habit
from realm.crowd.tables import VERDICTS, expertise_table, verdicts
from realm.data import Annotations
from realm.errors import RealmError

from .crowds import simulate, table


def guided(truth: np.ndarray, counts: np.ndarray, rng: np.random.Generator, right: float = 0.6) -> np.ndarray:
    """log P of a calibrated model: it puts `right` on one option, which is the true one as often as that."""
    wrong = (truth + rng.integers(1, counts)) % counts
    favourite = np.where(rng.random(len(truth)) < right, truth, wrong)
    rest = (1 - right) / (counts - 1)
    return np.log(np.where(np.arange(counts.max()) == favourite[:, None], right, rest[:, None]))


def test_accuracies_are_recovered_and_beta_is_accuracy_above_chance():
    accuracy = np.array([0.95, 0.9, 0.8, 0.7, 0.5, 0.25, 0.1])
    crowd = simulate(0, annotators=accuracy, labels_each=600, per_item=4, options=4)
    found = estimate(crowd.annotations, crowd.log_probs)
    np.testing.assert_allclose(found.accuracy[:, 0], accuracy, atol=0.06)
    assert ((found.low[:, 0] < accuracy) & (accuracy < found.high[:, 0])).sum() >= 6
    np.testing.assert_allclose(found.accuracy, found.expertise + (1 - found.expertise) / 4, atol=1e-3)
    assert found.expertise[6, 0] < 0, "below chance is said, not cut off at 0"


def test_with_two_labels_the_posterior_is_that_of_the_habits_and_the_class_shares():
    crowd = simulate(0, annotators=np.linspace(0.5, 0.95, 8), labels_each=300, per_item=4, options=2)
    found = estimate(crowd.annotations, crowd.log_probs)
    assert found.exponent == 1
    prior = crowd.log_probs + found.class_offsets[0]
    np.testing.assert_allclose(
        found.posterior, posterior(crowd.annotations, prior, found.evidence(crowd.annotations)), rtol=1e-6, atol=1e-12
    )


def test_estimating_twice_gives_the_same_numbers():
    crowd = simulate(3)
    one, two = (estimate(crowd.annotations, crowd.log_probs) for _ in range(2))
    assert (one.accuracy == two.accuracy).all()
    assert (one.low == two.low).all()


def test_more_labels_make_a_narrower_interval():
    rng = np.random.default_rng(0)
    n = 500
    item = np.concatenate([np.arange(n), np.arange(n), np.arange(20)])
    annotator = np.repeat([0, 1, 2], [n, n, 20])
    truth = rng.integers(0, 2, n)
    label = np.where(rng.random(len(item)) < 0.85, truth[item], 1 - truth[item])
    made = table(item, annotator, label, n_items=n, n_annotators=3, options=2)
    found = estimate(made, guided(truth, np.full(n, 2), rng, 0.8))
    width = (found.high - found.low)[:, 0]
    assert width[2] > 2 * width[0]
    assert ((found.low <= found.accuracy) & (found.accuracy <= found.high)).all()


def test_with_mixed_numbers_of_options_beta_is_shared_and_accuracy_averages_chance():
    rng = np.random.default_rng(5)
    n, beta = 3000, np.array([0.8, 0.4, 0.0])
    counts = rng.choice([2, 5], n)
    truth = rng.integers(0, counts)
    item, annotator = np.repeat(np.arange(n), 3), np.tile(np.arange(3), n)
    knows = rng.random(len(item)) < beta[annotator]
    label = np.where(knows, truth[item], rng.integers(0, counts[item]))
    made = table(item, annotator, label, n_items=n, n_annotators=3, options=counts.tolist())
    found = estimate(made, guided(truth, counts, rng))
    np.testing.assert_allclose(found.expertise[:, 0], beta, atol=0.05)
    by_lot = (1 / counts).mean()
    np.testing.assert_allclose(found.accuracy, found.expertise + (1 - found.expertise) * by_lot, atol=1e-3)
    np.testing.assert_allclose(found.chance[:, 0], max(by_lot, found.posterior.mean(axis=0).max()))


def test_each_task_has_a_pool_of_its_own_and_empty_cells_are_left_out():
    rng = np.random.default_rng(2)
    item = np.repeat(np.arange(400), 4)
    tasks = np.arange(400) % 2
    annotator = np.where(tasks[item] == 0, np.tile([0, 1, 2, 3], 400), np.tile([0, 1, 2, 4], 400))
    truth = rng.integers(0, 3, 400)
    accuracy = np.array([[0.9, 0.4], [0.9, 0.4], [0.85, 0.45], [0.9, 0.0], [0.0, 0.9]])
    right = rng.random(len(item)) < accuracy[annotator, tasks[item]]
    label = np.where(right, truth[item], (truth[item] + 1 + rng.integers(0, 2, len(item))) % 3)
    made = table(item, annotator, label, n_items=400, n_annotators=5, options=3, item_tasks=tasks)
    found = estimate(made, guided(truth, np.full(400, 3), rng))
    assert np.isnan(found.accuracy[3, 1])
    assert np.isnan(found.low[4, 0])
    frame = expertise_table(made, found, trained={"expertise_trained": np.full((5, 2), 0.5)})
    assert len(frame) == 8
    assert frame["annotations"].tolist() == [200] * 8
    assert (frame["expertise_trained"] == 0.5).all()
    assert not frame.isna().any().any()
    np.testing.assert_allclose(found.accuracy[:3, 0], accuracy[:3, 0], atol=0.08)
    np.testing.assert_allclose(found.accuracy[:3, 1], accuracy[:3, 1], atol=0.1)


def test_one_label_per_item_is_marked_relative_unless_gold_fixes_the_scale():
    crowd = simulate(0, per_item=1)
    found = estimate(crowd.annotations, crowd.log_probs)
    assert found.relative
    assert (expertise_table(crowd.annotations, found)["scale"] == "relative").all()
    assert not estimate(simulate(0, per_item=2).annotations, simulate(0, per_item=2).log_probs).relative
    for share, relative in ((0.1, True), (0.6, False)):
        gold = np.where(np.arange(len(crowd.truth)) < share * len(crowd.truth), crowd.truth, -1)
        assert estimate(crowd.annotations, crowd.log_probs, gold=gold).relative == relative


@pytest.mark.parametrize(("twice", "relative"), [(1, True), (100, True), (300, False)])
def test_a_few_second_labels_do_not_make_a_task_absolute(twice, relative):
    """What has one label is judged by the model alone, however many other items have two."""
    once = np.arange(400)
    item = np.concatenate([once, once[:twice]])
    annotator = np.concatenate([once % 4, (once[:twice] + 1) % 4])
    made = table(item, annotator, np.zeros(len(item), int), n_items=400, n_annotators=4, options=2)
    found = estimate(made, np.log(np.tile([0.7, 0.3], (400, 1))))
    assert found.relative == relative
    assert set(expertise_table(made, found)["scale"]) == {"relative" if relative else "absolute"}


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
    made = table(item, annotator, label, n_items=n, n_annotators=8, options=2)
    return made, np.full((n, 2), np.log(0.5)), truth


def test_copies_are_one_witness_and_do_not_vouch_for_each_other():
    """Exact copies are found out without gold: their labels count once, and they are judged by the others alone."""
    made, log_probs, truth = colluders(follow=1.0)
    found = estimate(made, log_probs)
    assert np.mean(found.posterior.argmax(axis=1) == truth) > 0.9
    right = np.bincount(made.annotator, made.label == truth[made.item]) / len(truth)
    np.testing.assert_allclose(found.accuracy[:, 0], right, atol=0.06)
    assert ((found.low[:, 0] <= right) & (right <= found.high[:, 0])).all()


def test_colluders_win_without_gold_and_lose_with_a_tenth_of_it():
    made, log_probs, truth = colluders()
    blind = estimate(made, log_probs)
    assert np.mean(blind.posterior.argmax(axis=1) == truth) < 0.75
    assert blind.accuracy[0, 0] > blind.accuracy[5, 0]
    gold = np.where(np.arange(len(truth)) % 10 == 0, truth, -1)
    found = estimate(made, log_probs, gold=gold)
    unknown = gold == -1
    assert np.mean(found.posterior.argmax(axis=1)[unknown] == truth[unknown]) > 0.9
    assert found.accuracy[0, 0] < 0.75
    np.testing.assert_allclose(found.posterior[~unknown, truth[~unknown]], 1.0)


@pytest.mark.parametrize("seed", range(5))
def test_those_whom_gold_finds_out_only_together_are_found_out(seed):
    """Each colluder has too few gold items to be contradicted alone, and three who are left vouch for each other."""
    rng = np.random.default_rng(seed)
    n, options, colluding = 800, 4, np.arange(7) < 4
    truth = rng.integers(0, options, n)
    lie = np.where(rng.random(n) < 0.4, (truth + 1) % options, truth)
    item = np.repeat(np.arange(n), 5)
    annotator = np.concatenate([np.sort(rng.permutation(7)[:5]) for _ in range(n)])
    slip = np.where(rng.random(len(item)) < 0.3, rng.integers(1, options, len(item)), 0)
    follows = colluding[annotator] & (rng.random(len(item)) < 0.9)
    label = np.where(follows, lie[item], (truth[item] + slip) % options)
    made = table(item, annotator, label, n_items=n, n_annotators=7, options=options)
    right = np.bincount(annotator, label == truth[item]) / np.bincount(annotator)
    blind = estimate(made, np.zeros((n, options)))
    assert blind.accuracy[colluding, 0].min() > blind.accuracy[~colluding, 0].max()
    found = estimate(made, np.zeros((n, options)), gold=np.where(np.arange(n) % 10 == 0, truth, -1))
    assert found.accuracy[~colluding, 0].mean() > found.accuracy[colluding, 0].mean()
    assert not (verdicts(made, found)[colluding] == VERDICTS.index("reliable")).any()
    assert ((found.low[:, 0] < right) & (right < found.high[:, 0])).sum() >= 6


def test_gold_that_agrees_with_agreement_leaves_it_in_force():
    """Honest annotators: a tenth of gold must not cost what nine tenths of the labels say."""
    crowd = simulate(5, annotators=np.linspace(0.5, 0.95, 30), labels_each=100, per_item=5, options=4)
    truth = crowd.truth
    gold = np.where(np.arange(len(truth)) % 10 == 0, truth, -1)
    with_it, without = (estimate(crowd.annotations, crowd.log_probs, gold=some) for some in (gold, None))
    width = [np.nanmean(one.high - one.low) for one in (with_it, without)]
    assert width[0] < 1.05 * width[1]


def test_one_pinned_expert_on_a_fifth_of_the_items_exposes_colluders():
    made, log_probs, truth = colluders()
    n = len(truth)
    judged = np.arange(0, n, 5)
    item = np.concatenate([made.item, judged])
    annotator = np.concatenate([made.annotator, np.full(len(judged), 8)])
    label = np.concatenate([made.label, truth[judged]])
    more = table(item, annotator, label, n_items=n, n_annotators=9, options=2)
    unpinned = estimate(more, log_probs)
    assert np.mean(unpinned.posterior.argmax(axis=1) == truth) < 0.75
    found = estimate(more, log_probs, experts=["a8"])
    assert np.mean(found.posterior.argmax(axis=1) == truth) > 0.9
    assert found.expertise[8, 0] == pytest.approx(0.999)
    assert found.low[8, 0] == found.high[8, 0]


def test_at_two_options_a_prior_decides_which_of_two_camps_tells_the_truth():
    """Three say one thing, three the opposite, the model knows nothing: both readings explain the labels as well."""
    rng = np.random.default_rng(0)
    n = 300
    truth = rng.integers(0, 2, n)
    item, annotator = np.repeat(np.arange(n), 6), np.tile(np.arange(6), n)
    right = rng.random(len(item)) < np.where(annotator < 3, 0.9, 0.1)
    label = np.where(right, truth[item], 1 - truth[item])
    made = table(item, annotator, label, n_items=n, n_annotators=6, options=2)
    log_probs = np.full((n, 2), np.log(0.5))
    before = pd.DataFrame(
        {"annotator": ["a0"], "task": ["t0"], "expertise": [0.8], "accuracy": [0.9], "low": [0.85], "high": [0.95]}
    )
    flipped = before.assign(annotator="a5")
    assert np.mean(estimate(made, log_probs, prior=before).posterior.argmax(axis=1) == truth) > 0.9
    assert np.mean(estimate(made, log_probs, prior=flipped).posterior.argmax(axis=1) == truth) < 0.1


def test_a_handful_of_labels_and_no_model_still_follow_the_votes():
    made = table([0, 0, 1, 1, 2, 2], [0, 1, 0, 2, 1, 2], [1, 1, 0, 1, 0, 1], n_items=3, n_annotators=3, options=2)
    found = estimate(made, np.zeros((3, 2)))
    assert found.posterior[0, 1] > 0.7, "two of two votes"
    assert found.accuracy[0, 0] > found.accuracy[2, 0], "the third agrees with nobody"
    assert (verdicts(made, found) == VERDICTS.index("not enough evidence")).all()


def test_a_prior_weighs_as_much_as_its_interval_says():
    crowd = simulate(7, annotators=np.array([0.7, 0.7, 0.7]), labels_each=30, per_item=3, options=2)
    bare = estimate(crowd.annotations, crowd.log_probs)

    def carried(low: float, high: float) -> float:
        row = {"annotator": "a0", "task": "t0", "expertise": 0.9, "accuracy": 0.95, "low": low, "high": high}
        return float(estimate(crowd.annotations, crowd.log_probs, prior=pd.DataFrame([row])).accuracy[0, 0])

    assert carried(0.94, 0.96) == pytest.approx(0.95, abs=0.01)
    assert bare.accuracy[0, 0] < carried(0.8, 1.0) < 0.95


def test_what_cannot_be_used_is_refused_in_words():
    crowd = simulate(0)
    with pytest.raises(RealmError, match="`experts`: no such annotator: nobody"):
        estimate(crowd.annotations, crowd.log_probs, experts=["nobody"])
    with pytest.raises(RealmError, match="`prior`: the table lacks expertise"):
        estimate(crowd.annotations, crowd.log_probs, prior=pd.DataFrame({"annotator": [], "task": []}))
    with pytest.raises(RealmError, match="must be numbers"):
        row = {"annotator": "a0", "task": "t0", "expertise": "high", "accuracy": 1, "low": 0, "high": 1}
        estimate(crowd.annotations, crowd.log_probs, prior=pd.DataFrame([row]))
    with pytest.raises(RealmError, match="`gold` must hold one label"):
        estimate(crowd.annotations, crowd.log_probs, gold=np.zeros(3, np.int64))


@pytest.mark.shared
def test_sentpolarity_without_a_model_is_cleaned_better_than_by_majority(shared_data):
    made = Annotations.read(shared_data / "sentpolarity" / "annotations.csv")
    found = estimate(made.without_gold(), np.zeros((made.n_items, 2)))
    assert np.mean(found.posterior.argmax(axis=1) == made.gold) > 0.91, "majority vote with random ties: 0.886"
    frame = expertise_table(made, found)
    worst = frame[frame["verdict"] == "no better than chance"]["annotator"].tolist()
    index = [made.annotators.index(name) for name in worst]
    right = [np.mean(made.label[made.annotator == i] == made.gold[made.item[made.annotator == i]]) for i in index]
    assert len(worst) >= 3 and max(right) <= 0.6


def test_a_table_without_annotations_gives_an_empty_table_and_the_models_word():
    made = table([], [], [], n_items=2, n_annotators=1, options=2)
    found = estimate(made, np.log([[0.3, 0.7], [0.5, 0.5]]))
    assert len(expertise_table(made, found)) == 0
    np.testing.assert_allclose(found.posterior, [[0.3, 0.7], [0.5, 0.5]])


def test_an_estimate_survives_its_arrays():
    crowd = simulate(0)
    before = estimate(crowd.annotations, crowd.log_probs)
    arrays = before.to_arrays()
    after = Estimate.from_arrays({**arrays, "another": np.zeros(3)})
    for name in arrays:
        assert getattr(after, name).dtype == getattr(before, name).dtype
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
    with pytest.raises(RealmError, match="posterior"):
        Estimate.from_arrays({name: array for name, array in arrays.items() if name != "posterior"})


# -------------------------------------------------------------------- habits


def judges(seed: int, n: int = 1500, share: float = 0.3):
    """Eight judges of two labels: four read and are even, four hardly read and nearly always answer 1."""
    rng = np.random.default_rng(seed)
    truth = (rng.random(n) < share).astype(int)
    item, annotator = (index.ravel() for index in np.indices((n, 8)))
    beta, xi = np.repeat([0.7, 0.15], 4), np.repeat([0.5, 0.93], 4)
    guess = (rng.random(len(item)) < xi[annotator]).astype(int)
    label = np.where(rng.random(len(item)) < beta[annotator], truth[item], guess)
    made = table(item, annotator, label, n_items=n, n_annotators=8, options=2)
    return made, truth, beta, xi


def test_habits_are_found_and_do_not_pass_for_expertise():
    made, truth, beta, xi = judges(0)
    found = estimate(made, np.zeros((made.n_items, 2)))
    np.testing.assert_allclose(found.expertise[:, 0], beta, atol=0.09)
    np.testing.assert_allclose(found.habits[:, 0, 1], xi, atol=0.1)
    np.testing.assert_allclose(found.habits.sum(axis=2), 1.0)
    right = (made.label == truth[made.item]).reshape(-1, 8).mean(axis=0)
    assert ((found.low[:, 0] < right) & (right < found.high[:, 0])).sum() >= 7
    assert (found.posterior.argmax(axis=1) == truth).mean() > 0.93


def test_who_misses_the_rare_label_does_not_make_it_vanish():
    """Everybody misses positives far more often than they invent them: one number per annotator would drop them."""
    rng = np.random.default_rng(1)
    truth = (rng.random(2000) < 1 / 3).astype(int)
    item, annotator = np.repeat(np.arange(2000), 5), np.argsort(rng.random((2000, 40)), axis=1)[:, :5].ravel()
    recall = np.stack([rng.beta(30, 2, 40), rng.beta(9, 6, 40)], axis=1)
    right = rng.random(len(item)) < recall[annotator, truth[item]]
    made = table(
        item, annotator, np.where(right, truth[item], 1 - truth[item]), n_items=2000, n_annotators=40, options=2
    )
    found = estimate(made, np.zeros((2000, 2)))
    labels = found.posterior.argmax(axis=1)
    votes = np.bincount(made.item, made.label) > 2.5
    assert (labels[truth == 1] == 1).mean() > votes[truth == 1].mean() + 0.1
    assert (labels == truth).mean() > (votes == truth).mean() + 0.02
    mine = np.bincount(annotator, recall[annotator, truth[item]]) / np.bincount(annotator)
    assert ((found.low[:, 0] < mine) & (mine < found.high[:, 0])).mean() > 0.85


def test_a_judge_who_prefers_the_first_answer_is_seen_by_position():
    rng = np.random.default_rng(2)
    counts = rng.integers(2, 5, 1200)
    truth = rng.integers(0, counts)
    item, annotator = (index.ravel() for index in np.indices((1200, 4)))
    read = rng.random(len(item)) < np.array([0.8, 0.7, 0.75, 0.2])[annotator]
    first = rng.random(len(item)) < 0.9
    guess = np.where((annotator == 3) & first, 0, rng.integers(0, counts[item]))
    made = table(
        item, annotator, np.where(read, truth[item], guess), n_items=1200, n_annotators=4, options=counts.tolist()
    )
    found = estimate(made, guided(truth, counts, rng, 0.5))
    assert found.habits[3, 0, 0] > 0.8 and found.habits[:3, 0, 0].max() < 0.6
    assert found.expertise[3, 0] == pytest.approx(0.2, abs=0.06)


def test_the_interval_is_as_wide_as_the_information_that_labels_have_on_beta_and_habit():
    """Against the inverse of the whole information matrix, constrained to habits that sum to one."""
    rng = np.random.default_rng(3)
    n, k = 400, 3
    made = table(np.arange(n), np.zeros(n), rng.integers(k, size=n), n_items=n, n_annotators=1, options=k)
    habit = Habit.of(made)
    beta, xi = np.array([0.55]), rng.dirichlet(np.full(k, 5.0))[None]
    truth, weight = rng.random(n), rng.uniform(0.5, 2, n)
    shares = rng.dirichlet(np.ones(k))
    guess = xi[0, made.label]
    probability = beta * truth + (1 - beta) * guess
    found = habit.spread_of_habits(beta, xi, truth, probability, weight, shares[None, None])
    slopes = np.column_stack([truth - guess, (1 - beta) * (np.arange(k) == made.label[:, None])]) / probability[:, None]
    information = slopes.T @ (weight[:, None] * slopes) + np.diag([0, *(habit.prior.habit[0] / xi[0] ** 2)])
    tangent = np.linalg.svd(np.array([[0, *np.ones(k)]]))[2][1:].T  # directions in which the habit still sums to one
    covariance = tangent @ np.linalg.inv(tangent.T @ information @ tangent) @ tangent.T
    slope = np.array([1 - shares @ xi[0], *((1 - beta) * shares)])
    assert found[0] == pytest.approx(slope @ covariance @ slope / (slope[0] ** 2 / information[0, 0]), rel=1e-6)
