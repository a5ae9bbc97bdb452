"""Who is ahead of whom: against brute force, and that "best" is never said of a method that a label paid for."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from realm.comparison import ranking as module
from realm.comparison.ranking import MethodResults, ScoredItems, method_labels, rank_metric, ranking
from realm.comparison.verdict import pairs, verdict
from realm.crowd.label_figures import macro_f1, rarest_recall
from realm.data import Task
from realm.errors import RealmError
from realm.metrics import METRICS

TASKS = (Task("one", ("no", "yes")),)


def items_of(gold: np.ndarray, tasks: tuple[Task, ...] = TASKS, task: np.ndarray | None = None) -> ScoredItems:
    return ScoredItems(gold, np.zeros(len(gold), np.int64) if task is None else task, tasks)


def answers(
    gold: np.ndarray, recalls: tuple[float, float], seed: int, sure: float = 0.8, seeds: int = 3
) -> MethodResults:
    """Answers that find each label with a given probability, all with the same confidence."""
    found = np.random.default_rng(seed).random((seeds, len(gold))) < np.array(recalls)[gold]
    labels = np.where(found, gold, 1 - gold)
    log_probs = np.log(np.where(found, sure, 1 - sure))
    metrics = {
        "accuracy": (labels == gold).mean(1),
        "macro_f1": np.array([macro_f1(gold, one) for one in labels]),
        "rarest_recall": np.array([rarest_recall(gold, one) for one in labels]),
        "log_loss": -log_probs.mean(1),
        "base_rate": np.full(seeds, np.bincount(gold).max() / len(gold)),
    }
    return MethodResults(metrics, labels, log_probs)


GOLD = (np.arange(900) % 4 == 0).astype(np.int64)  # a quarter is `yes`


def summary_of(methods: dict[str, MethodResults], rank_by: str | None = None, gold: np.ndarray = GOLD) -> dict:
    items = items_of(gold)
    ranks = ranking(methods, items, rank_metric(rank_by, items))
    entries = [
        {"method": name, "figures": {key: {"mean": float(np.mean(v)), "std": 0.0} for key, v in method.metrics.items()}}
        for name, method in methods.items()
    ]
    return {"ranking": ranks, "methods": entries}


def test_ahead_on_everything_is_best() -> None:
    summary = summary_of({"realm": answers(GOLD, (0.95, 0.9), 0), "noisy": answers(GOLD, (0.8, 0.6), 1)})
    assert summary["ranking"]["best"] == "realm" and summary["ranking"]["by"] == "macro_f1"
    assert summary["ranking"]["order"] == ["realm", "noisy"]
    [first, rate] = verdict(summary)
    assert first.startswith(
        "Ranked by macro F1, realm is best: ahead of every other method, and behind none on accuracy"
    )
    assert rate == "Always giving the most frequent label would be right on 75.0% of the test items."
    [against] = pairs(summary)
    assert against.startswith("realm against noisy: ahead on accuracy (+")
    json.dumps(summary, allow_nan=False)


def test_a_figure_that_was_not_tested_is_not_said_to_be_behind_none() -> None:
    summary = summary_of({"realm": answers(GOLD, (0.95, 0.9), 0), "noisy": answers(GOLD, (0.8, 0.6), 1)})
    named = verdict(summary)[0]
    for contrast in summary["ranking"]["contrasts"]:
        if contrast["figure"] == "log_loss":
            contrast["outcome"] = None
    assert "log loss" in named and "log loss" not in verdict(summary)[0]


def test_higher_accuracy_at_the_cost_of_a_label_is_not_best() -> None:
    """Ahead on accuracy, clearly behind on macro-F1: what accuracy alone called best."""
    methods = {"realm": answers(GOLD, (0.985, 0.3), 0), "noisy": answers(GOLD, (0.80, 0.72), 1)}
    assert methods["realm"].mean("accuracy") > methods["noisy"].mean("accuracy") + 0.02
    assert methods["realm"].mean("macro_f1") < methods["noisy"].mean("macro_f1") - 0.02
    summary = summary_of(methods, "accuracy")
    assert summary["ranking"]["leader"] == "realm" and summary["ranking"]["best"] is None
    text = " ".join(verdict(summary))
    assert "no method is called best" in text and "is best" not in text
    assert "behind on other figures: macro F1" in text and "of noisy" in text
    labels = {each["label"]: each["outcome"] for each in summary["ranking"]["label_contrasts"]}
    assert labels == {"no": "ahead", "yes": "behind"}
    assert summary_of(methods)["ranking"]["leader"] == "noisy", "by default it is not even the first"


def test_methods_that_the_tests_do_not_separate_are_level() -> None:
    summary = summary_of({"realm": answers(GOLD, (0.9, 0.7), 0), "noisy": answers(GOLD, (0.9, 0.7), 1)})
    assert summary["ranking"]["best"] is None
    assert {each["outcome"] for each in summary["ranking"]["contrasts"]} == {"level"}
    assert "is level with" in verdict(summary)[0]
    assert pairs(summary)[0].startswith("realm against noisy: level on accuracy (")


def test_the_seeds_must_agree_too_once_there_are_three() -> None:
    """A gap over all items together that comes from one seed in three."""
    good, bad = answers(GOLD, (0.9, 0.9), 0), answers(GOLD, (0.75, 0.75), 1)
    mixed = MethodResults(
        {name: np.array([values[0], *bad.metrics[name][1:]]) for name, values in good.metrics.items()},
        np.vstack([good.labels[:1], bad.labels[1:]]),
        np.vstack([good.gold_log_probs[:1], bad.gold_log_probs[1:]]),
    )
    [contrast] = [
        each
        for each in summary_of({"realm": mixed, "noisy": bad})["ranking"]["contrasts"]
        if each["figure"] == "accuracy"
    ]
    assert contrast["low"] > 0 and contrast["p_seeds"] > 0.05 and contrast["outcome"] == "level"
    assert not contrast["may_be_behind"]


def test_either_test_alone_withholds_best() -> None:
    """`realm` is ahead on accuracy; its log loss is worse on every item but the seeds are too noisy to say so."""
    one, other = answers(GOLD, (0.95, 0.9), 0), answers(GOLD, (0.8, 0.6), 1)
    log_probs = one.gold_log_probs.copy()
    log_probs[0] -= 4
    metrics = {**one.metrics, "log_loss": -log_probs.mean(1)}
    summary = summary_of({"realm": MethodResults(metrics, one.labels, log_probs), "noisy": other})
    [contrast] = [each for each in summary["ranking"]["contrasts"] if each["figure"] == "log_loss"]
    assert contrast["outcome"] == "level" and contrast["may_be_behind"] and summary["ranking"]["best"] is None
    assert "log loss" in " ".join(verdict(summary))


def test_who_is_trained_on_gold_does_not_compete() -> None:
    methods = {"realm": answers(GOLD, (0.9, 0.85), 0), "oracle": answers(GOLD, (0.98, 0.98), 1),
               "noisy": answers(GOLD, (0.7, 0.6), 2)}  # fmt: skip
    summary = summary_of(methods)
    assert summary["ranking"]["order"][0] == "oracle"
    assert summary["ranking"]["leader"] == summary["ranking"]["best"] == "realm"
    assert any(text.startswith("realm against oracle: behind on") for text in pairs(summary))


def test_without_realm_the_leader_is_the_reference() -> None:
    summary = summary_of({"noisy": answers(GOLD, (0.7, 0.6), 0), "majority": answers(GOLD, (0.9, 0.9), 1)})
    assert summary["ranking"]["reference"] == "majority" and summary["ranking"]["best"] == "majority"
    assert len(pairs(summary)) == 1


def test_one_method_is_compared_with_nobody() -> None:
    summary = summary_of({"realm": answers(GOLD, (0.9, 0.9), 0)})
    assert summary["ranking"]["best"] is None and summary["ranking"]["contrasts"] == []
    assert verdict(summary) == ["Always giving the most frequent label would be right on 75.0% of the test items."]


def test_methods_at_the_base_rate_are_named() -> None:
    summary = summary_of({"realm": answers(GOLD, (0.9, 0.9), 0), "noisy": answers(GOLD, (0.6, 0.5), 1)})
    assert verdict(summary)[-1].endswith("; no more often than that: noisy.")


def test_few_items_are_not_tested() -> None:
    """Nine items: nothing is said over items; of a label with nine items among many nothing about its recall."""
    gold = np.arange(9) % 2
    summary = summary_of(
        {"realm": answers(gold, (1, 1), 0, seeds=1), "noisy": answers(gold, (0, 0), 1, seeds=1)}, gold=gold
    )
    assert {each["outcome"] for each in summary["ranking"]["contrasts"]} == {None}
    assert summary["ranking"]["label_contrasts"] == [] and "too few test items" in verdict(summary)[0]
    gold = np.array([1] * 9 + [0] * 200)
    methods = {"realm": answers(gold, (0.9, 1), 0, seeds=1), "noisy": answers(gold, (0.9, 0), 1, seeds=1)}
    ranks = summary_of(methods, gold=gold)["ranking"]
    assert [each["label"] for each in ranks["label_contrasts"]] == ["no"]
    assert [each["outcome"] for each in ranks["contrasts"] if each["figure"] == "rarest_recall"] == [None]


def test_macro_f1_of_a_resample_is_that_of_the_drawn_items() -> None:
    """The bootstrap counts weights, scikit-learn scores the drawn items. Two tasks, and one without a label set."""
    generator = np.random.default_rng(0)
    n = 60
    tasks = (Task("a", ("x", "y", "z")), Task("b", ("no", "yes")), Task("own", None))
    task = np.arange(n) % 3
    width = np.array([3, 2, 4])[task]
    gold, labels = (generator.integers(width) for _ in range(2))
    log_probs = np.log(generator.random((1, n)))
    method = MethodResults({}, labels[None], log_probs)
    found = module._resampled({"m": method}, items_of(gold, tasks, task))["m"]
    again = np.random.default_rng(0)
    for draw in range(20):
        rows = again.integers(n, size=n)
        parts = [rows[task[rows] == each] for each in (0, 1)]
        expected = np.mean([f1_score(gold[part], labels[part], average="macro") for part in parts])
        assert found["macro_f1"][draw] == pytest.approx(expected)
        assert found["log_loss"][draw] == pytest.approx(-log_probs[0, rows].mean())
    assert len(found["macro_f1"]) == module.DRAWS
    never = MethodResults({}, labels[None], np.where(np.arange(n) == 3, -np.inf, log_probs))
    assert "log_loss" not in module._resampled({"m": never}, items_of(gold, tasks, task))["m"], (
        "an infinite one has none"
    )


def test_recall_of_the_rarest_label_is_resampled_over_all_items() -> None:
    method = answers(GOLD, (0.9, 0.6), 0, seeds=2)
    found = module._resampled({"m": method}, items_of(GOLD))["m"]
    again = np.random.default_rng(0)
    for draw in range(20):
        rows = again.integers(len(GOLD), size=len(GOLD))
        rows = rows[GOLD[rows] == 1]
        assert found["rarest_recall"][draw] == pytest.approx((method.labels[:, rows] == 1).mean())


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31 - 1))
def test_a_contrast_turned_around_says_the_opposite(seed: int) -> None:
    gold = np.random.default_rng(seed).integers(2, size=60)
    gold[:2] = 0, 1
    one, other = answers(gold, (0.9, 0.6), seed), answers(gold, (0.7, 0.8), seed + 1)
    items, opposite = items_of(gold), {"ahead": "behind", "behind": "ahead", "level": "level", None: None}
    methods = {"a": one, "b": other}
    draws = module._resampled(methods, items)
    for metric in (METRICS["accuracy"], METRICS["log_loss"], METRICS["macro_f1"]):
        there, back = (module._contrast(methods, pair, metric, items, draws) for pair in (("a", "b"), ("b", "a")))
        assert there is not None and back is not None
        assert there["difference"] == pytest.approx(-back["difference"])
        if min(abs(there[end]) for end in ("low", "high")) > 0.01:  # the draws differ
            assert there["outcome"] == opposite[back["outcome"]]


def test_figures_of_labels_are_means_over_seeds_and_matrices_sums() -> None:
    method = answers(GOLD, (0.9, 0.6), 0)
    [task] = method_labels(method, items_of(GOLD))
    assert (task["task"], task["by_position"]) == ("one", False)
    no, yes = task["labels"]
    assert yes["recall"] == pytest.approx(np.mean([(one[GOLD == 1] == 1).mean() for one in method.labels]))
    assert yes["precision"] == pytest.approx(np.mean([(GOLD[one == 1] == 1).mean() for one in method.labels]))
    assert yes["support"] == (GOLD == 1).sum() and no["support"] == (GOLD == 0).sum()
    assert np.sum(task["confusion"]) == 3 * len(GOLD)
    assert np.trace(task["confusion"]) == (method.labels == GOLD).sum()
    [own] = method_labels(method, items_of(GOLD, (Task("own", None),)))
    assert own["by_position"] and [row["label"] for row in own["labels"]] == ["option 1", "option 2"]


@pytest.mark.parametrize("name", ["macro-f1", "Macro_F1", "log-loss", "accuracy", "rarest recall", "calibration-error"])
def test_a_figure_may_be_named_as_people_write_it(name: str) -> None:
    assert rank_metric(name, items_of(GOLD)).name == name.lower().replace("-", "_").replace(" ", "_")


def test_a_figure_that_cannot_be_ranked_by_is_an_error_with_the_list() -> None:
    own = items_of(GOLD, (Task("own", None),))
    for name, items, message in (
        ("speed", items_of(GOLD), "no such figure.*accuracy, macro-f1, rarest-recall, calibration-error, log-loss"),
        ("base-rate", items_of(GOLD), "is the same for every method"),
        ("macro-f1", own, "not defined on these test items.*accuracy, calibration-error, log-loss"),
    ):
        with pytest.raises(RealmError, match=message):
            rank_metric(name, items)
    assert rank_metric(None, own).name == "accuracy" and rank_metric(None, items_of(GOLD)).name == "macro_f1"


def test_results_without_the_figure_are_an_error_and_without_others_are_not() -> None:
    """Cells of an earlier version lack what it did not measure."""
    one, other = answers(GOLD, (0.9, 0.9), 0), answers(GOLD, (0.8, 0.6), 1)
    old = MethodResults({"accuracy": other.metrics["accuracy"]}, other.labels, other.gold_log_probs)
    with pytest.raises(RealmError, match="earlier version"):
        summary_of({"realm": one, "noisy": old})
    ranks = summary_of({"realm": one, "noisy": old}, "accuracy")["ranking"]
    assert [each["figure"] for each in ranks["contrasts"]] == ["accuracy"] and ranks["best"] == "realm"
