"""Who is ahead of whom: against brute force, and that "best" is never said of a method that a label paid for."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_rel
from sklearn.metrics import f1_score

from realm.comparison import significance as module
from realm.comparison.compare import rank_metric
from realm.comparison.significance import (
    FEWEST_SEEDS,
    LEVEL,
    MethodResults,
    ScoredItems,
    holm,
    paired_bootstrap,
    paired_t_test,
    ranking,
    verdict,
)
from realm.crowd.label_figures import macro_f1, rarest_recall
from realm.data import Task
from realm.errors import RealmError
from realm.metrics import METRICS

TASKS = (Task("one", ("no", "yes")),)
GOLD = (np.arange(900) % 4 == 0).astype(np.int64)  # a quarter is `yes`


# -------------------------------------------------------------------- tests


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("seeds", "p"), [(2, 0.5), (3, 0.25), (5, 0.0625)])
def test_one_difference_on_every_seed_is_as_sure_as_a_sign_test(seeds: int, p: float) -> None:
    """Of 100 items each method gains one on every seed: no variance, and yet no proof."""
    first = np.array([0.8, 0.3, 0.5, 0.61, 0.7])[:seeds]
    assert np.ptp(first - (first - 0.1)) > 0  # one difference but for its last digit
    assert paired_t_test(first, first - 0.1) == p
    assert paired_t_test(first, first + 1e-16) == 1
    second = first - np.arange(seeds) / 10
    assert paired_t_test(first, second) == pytest.approx(ttest_rel(first, second).pvalue)
    assert paired_t_test(first[:1], second[:1]) is None


def test_items_give_an_interval_around_the_difference_and_a_p_value_that_is_never_zero() -> None:
    right = np.random.default_rng(0).random((2, 3, 400)) < np.array([0.9, 0.7])[:, None, None]
    low, high, p = paired_bootstrap(right[0], right[1])
    assert 0 < low < right[0].mean() - right[1].mean() < high and 0 < p < 1e-3
    low, high, p = paired_bootstrap(right[0], right[0])
    assert (low, high, p) == (0, 0, 1)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_rejects_what_the_step_down_procedure_rejects(p_values: list[float]) -> None:
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    rejected = set()
    for place, index in enumerate(order):
        if p_values[index] * (len(p_values) - place) >= LEVEL:
            break
        rejected.add(index)
    adjusted = holm(p_values)
    assert {index for index, p in enumerate(adjusted) if p < LEVEL} == rejected
    assert all(p <= q <= 1 for p, q in zip(p_values, adjusted, strict=True))


# -------------------------------------------------------------------- ranking


def items_of(gold: np.ndarray, tasks: tuple[Task, ...] = TASKS, task: np.ndarray | None = None) -> ScoredItems:
    return ScoredItems(gold, np.zeros(len(gold), np.int64) if task is None else task, tasks)


def answers(
    gold: np.ndarray, recalls: tuple[float, float], seed: int, sure: float = 0.8, seeds: int = 3
) -> MethodResults:
    """Answers that find each label with a given probability, all with the same confidence."""
    found = np.random.default_rng(seed).random((seeds, len(gold))) < np.array(recalls)[gold]
    return scored(gold, np.where(found, gold, 1 - gold), np.log(np.where(found, sure, 1 - sure)))


def scored(gold: np.ndarray, labels: np.ndarray, log_probs: np.ndarray) -> MethodResults:
    metrics = {
        "accuracy": (labels == gold).mean(1),
        "macro_f1": np.array([macro_f1(gold, one) for one in labels]),
        "rarest_recall": np.array([rarest_recall(gold, one) for one in labels]),
        "log_loss": -log_probs.mean(1),
        "base_rate": np.full(len(labels), np.bincount(gold).max() / len(gold)),
    }
    return MethodResults(metrics, labels, log_probs)


def summary_of(methods: dict[str, MethodResults], rank_by: str | None = None, gold: np.ndarray = GOLD) -> dict:
    items = items_of(gold)
    entries = [
        {"method": name, "figures": {key: {"mean": float(np.mean(v))} for key, v in method.metrics.items()}}
        for name, method in methods.items()
    ]
    return {"ranking": ranking(methods, items, rank_metric(rank_by, items)), "methods": entries}


def contrast_of(summary: dict, figure: str) -> dict[str, Any]:
    [contrast] = [each for each in summary["ranking"]["contrasts"] if each["figure"] == figure]
    return dict(contrast)


def test_ahead_on_everything_is_best() -> None:
    summary = summary_of({"realm": answers(GOLD, (0.95, 0.9), 0), "noisy": answers(GOLD, (0.8, 0.6), 1)})
    assert summary["ranking"]["best"] == "realm" and summary["ranking"]["by"] == "macro_f1"
    assert summary["ranking"]["order"] == ["realm", "noisy"]
    [first, rate] = verdict(summary)
    assert first.startswith(
        "Ranked by macro F1, realm is best: ahead of every other method, and behind none on accuracy"
    )
    assert rate == "Always giving the most frequent label would be right on 75.0% of the test items."
    json.dumps(summary, allow_nan=False)


@pytest.mark.parametrize("seeds", [1, 2, 3])
def test_fewer_than_three_seeds_name_nobody(seeds: int) -> None:
    """However clear it is over items: fewer seeds must not make it easier to be best."""
    methods = {name: answers(GOLD, (right, right), seeds=seeds, seed=seed) for seed, (name, right) in enumerate(
        {"realm": 0.98, "noisy": 0.6}.items())}  # fmt: skip
    summary = summary_of(methods)
    enough = seeds >= FEWEST_SEEDS
    assert (summary["ranking"]["best"] == "realm") == enough
    outcomes = {each["outcome"] for each in summary["ranking"]["contrasts"] + summary["ranking"]["label_contrasts"]}
    assert outcomes == ({"ahead"} if enough else {None})
    assert contrast_of(summary, "accuracy")["low"] > 0, "the interval over items is there all the same"
    assert ("differences are not tested" in verdict(summary)[0]) == (not enough)


def test_higher_accuracy_at_the_cost_of_a_label_is_not_best() -> None:
    """Ahead on accuracy, clearly behind on macro-F1: what accuracy alone called best."""
    methods = {"realm": answers(GOLD, (0.985, 0.3), 0), "noisy": answers(GOLD, (0.80, 0.72), 1)}
    assert methods["realm"].metrics["accuracy"].mean() > methods["noisy"].metrics["accuracy"].mean() + 0.02
    assert methods["realm"].metrics["macro_f1"].mean() < methods["noisy"].metrics["macro_f1"].mean() - 0.02
    summary = summary_of(methods, "accuracy")
    assert summary["ranking"]["leader"] == "realm" and summary["ranking"]["best"] is None
    text = " ".join(verdict(summary))
    assert "no method is called best" in text and "is best" not in text
    assert "behind on other figures: macro F1 (noisy, -" in text
    labels = {each["label"]: each["outcome"] for each in summary["ranking"]["label_contrasts"]}
    assert labels == {"no": "ahead", "yes": "behind"}
    assert summary_of(methods)["ranking"]["leader"] == "noisy", "by default it is not even the first"


def test_level_is_said_where_neither_test_sees_a_difference() -> None:
    summary = summary_of({"realm": answers(GOLD, (0.9, 0.7), 0), "noisy": answers(GOLD, (0.9, 0.7), 1)})
    assert summary["ranking"]["best"] is None
    assert {each["outcome"] for each in summary["ranking"]["contrasts"]} == {"level"}
    assert "the tests do not tell it apart from noisy" in verdict(summary)[0]


def test_tests_that_disagree_leave_it_undecided() -> None:
    """A gap over all items together that comes from one seed in three."""
    good, bad = answers(GOLD, (0.9, 0.9), 0), answers(GOLD, (0.75, 0.75), 1)
    labels = np.vstack([good.labels[:1], bad.labels[1:]])
    mixed = scored(GOLD, labels, np.log(np.where(labels == GOLD, 0.8, 0.2)))
    contrast = contrast_of(summary_of({"realm": mixed, "noisy": bad}), "accuracy")
    assert contrast["low"] > 0 and contrast["p_seeds"] > 0.05 and contrast["outcome"] == "undecided"
    assert not contrast["may_be_behind"]


def test_more_methods_need_clearer_differences() -> None:
    """The larger p-value is 0.02 of one method; with three more beside it that is undecided."""
    gold = np.arange(2000) % 2
    base = np.tile(gold, (3, 1))
    for seed, wrong in enumerate((100, 104, 111)):
        base[seed, :wrong] = 1 - gold[:wrong]
    methods = {"realm": scored(gold, np.tile(gold, (3, 1)), np.zeros((3, 2000)))}
    methods["noisy"] = scored(gold, base, np.zeros((3, 2000)))
    alone = contrast_of(summary_of(methods, gold=gold), "accuracy")
    assert alone["outcome"] == "ahead" and alone["p"] == max(alone["p_items"], alone["p_seeds"])
    same = answers(gold, (1, 1), 0)
    crowd = summary_of(methods | dict.fromkeys(("majority", "mace", "dawid-skene"), same), gold=gold)["ranking"]
    [beside] = [each for each in crowd["contrasts"] if (each["second"], each["figure"]) == ("noisy", "accuracy")]
    assert beside["p_seeds"] == alone["p_seeds"] and beside["p"] == pytest.approx(4 * alone["p"])


def test_either_test_alone_withholds_best() -> None:
    """`realm` is ahead on accuracy; its log loss is worse on every item but the seeds are too noisy to say so."""
    one, other = answers(GOLD, (0.95, 0.9), 0), answers(GOLD, (0.8, 0.6), 1)
    log_probs = one.gold_log_probs.copy()
    log_probs[0] -= 4
    summary = summary_of({"realm": scored(GOLD, one.labels, log_probs), "noisy": other})
    contrast = contrast_of(summary, "log_loss")
    assert contrast["outcome"] == "undecided" and contrast["may_be_behind"] and summary["ranking"]["best"] is None
    assert "log loss" in " ".join(verdict(summary))


def test_who_is_trained_on_gold_does_not_compete() -> None:
    methods = {"realm": answers(GOLD, (0.9, 0.85), 0), "oracle": answers(GOLD, (0.98, 0.98), 1),
               "noisy": answers(GOLD, (0.7, 0.6), 2)}  # fmt: skip
    summary = summary_of(methods)
    assert summary["ranking"]["order"][0] == "oracle"
    assert summary["ranking"]["leader"] == summary["ranking"]["best"] == "realm"
    behind = {each["second"] for each in summary["ranking"]["contrasts"] if each["outcome"] == "behind"}
    assert behind == {"oracle"}


def test_without_realm_the_leader_is_the_reference() -> None:
    summary = summary_of({"noisy": answers(GOLD, (0.7, 0.6), 0), "majority": answers(GOLD, (0.9, 0.9), 1)})
    assert summary["ranking"]["reference"] == "majority" and summary["ranking"]["best"] == "majority"


def test_one_method_is_compared_with_nobody() -> None:
    summary = summary_of({"realm": answers(GOLD, (0.9, 0.9), 0)})
    assert summary["ranking"]["best"] is None and summary["ranking"]["contrasts"] == []
    assert verdict(summary) == ["Always giving the most frequent label would be right on 75.0% of the test items."]


def test_methods_at_the_base_rate_are_named() -> None:
    summary = summary_of({"realm": answers(GOLD, (0.9, 0.9), 0), "noisy": answers(GOLD, (0.6, 0.5), 1)})
    assert verdict(summary)[-1].endswith("; no more often than that: noisy.")


def test_few_items_are_not_tested() -> None:
    """Nine items: nothing is said; of a label with nine items among many nothing about its recall."""
    gold = np.arange(9) % 2
    summary = summary_of({"realm": answers(gold, (1, 1), 0), "noisy": answers(gold, (0, 0), 1)}, gold=gold)
    assert {each["outcome"] for each in summary["ranking"]["contrasts"]} == {None}
    assert summary["ranking"]["label_contrasts"] == [] and "not tested here" in verdict(summary)[0]
    gold = np.array([1] * 9 + [0] * 200)
    ranks = summary_of({"realm": answers(gold, (0.9, 1), 0), "noisy": answers(gold, (0.9, 0), 1)}, gold=gold)["ranking"]
    assert [each["label"] for each in ranks["label_contrasts"]] == ["no"]
    assert [each["outcome"] for each in ranks["contrasts"] if each["figure"] == "rarest_recall"] == [None]


def test_figures_of_a_resample_are_those_of_the_drawn_items() -> None:
    """The bootstrap counts weights, scikit-learn scores the drawn items. Two tasks, and one without a label set."""
    generator = np.random.default_rng(0)
    n = 60
    tasks = (Task("a", ("x", "y", "z")), Task("b", ("no", "yes")), Task("own", None))
    task = np.arange(n) % 3
    width = np.array([3, 2, 4])[task]
    gold, labels = (generator.integers(width) for _ in range(2))
    log_probs = np.log(generator.random((1, n)))
    found = module._resampled({"m": MethodResults({}, labels[None], log_probs)}, items_of(gold, tasks, task))["m"]
    again = np.random.default_rng(0)
    for draw in range(20):
        rows = again.integers(n, size=n)
        parts = [rows[task[rows] == each] for each in (0, 1)]
        expected = np.mean([f1_score(gold[part], labels[part], average="macro") for part in parts])
        assert found["macro_f1"][draw] == pytest.approx(expected)
        assert found["log_loss"][draw] == pytest.approx(-log_probs[0, rows].mean())
        assert found["accuracy"][draw] == pytest.approx((labels == gold)[rows].mean())
    assert len(found["macro_f1"]) == module.WEIGHTED_DRAWS
    never = MethodResults({}, labels[None], np.where(np.arange(n) == 3, -np.inf, log_probs))
    assert "log_loss" not in module._resampled({"m": never}, items_of(gold, tasks, task))["m"], "an infinite one"


def test_recall_of_the_rarest_label_is_resampled_over_all_items() -> None:
    method = answers(GOLD, (0.9, 0.6), 0, seeds=2)
    found = module._resampled({"m": method}, items_of(GOLD))["m"]
    again = np.random.default_rng(0)
    for draw in range(20):
        rows = again.integers(len(GOLD), size=len(GOLD))
        rows = rows[GOLD[rows] == 1]
        assert found["rarest_recall"][draw] == pytest.approx((method.labels[:, rows] == 1).mean())


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**31 - 1))
def test_a_contrast_turned_around_says_the_opposite(seed: int) -> None:
    gold = np.random.default_rng(seed).integers(2, size=60)
    gold[:2] = 0, 1
    one, other = answers(gold, (0.9, 0.6), seed), answers(gold, (0.7, 0.8), seed + 1)
    turned = {"ahead": "behind", "behind": "ahead"}
    for first, second in zip(
        summary_of({"noisy": one, "realm": other}, gold=gold)["ranking"]["contrasts"],
        summary_of({"noisy": other, "realm": one}, gold=gold)["ranking"]["contrasts"],
        strict=False,
    ):
        assert (first["first"], first["figure"]) == (second["first"], second["figure"])
        assert first["difference"] == pytest.approx(-second["difference"])
        assert first["outcome"] == turned.get(second["outcome"], second["outcome"])


def test_figures_to_rank_by() -> None:
    items = items_of(GOLD)
    assert rank_metric(None, items).name == "macro_f1" and rank_metric("Log-Loss", items).name == "log_loss"
    own = items_of(GOLD, (Task("own", None),))
    assert rank_metric(None, own).name == "accuracy"
    for name, where in (("speed", items), ("base_rate", items), ("macro-f1", own)):
        with pytest.raises(RealmError, match=f"`rank_by={name}`: no such figure .* Rank by one of: accuracy, "):
            rank_metric(name, where)
    assert {metric.name for metric in METRICS.values() if metric.of_table}.isdisjoint(items.rankable)
