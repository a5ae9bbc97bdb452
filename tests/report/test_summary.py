"""The first screen: can the labels be used, who guesses, how the model did; states follow from figures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from realm.report import summary
from realm.report.run_page import render
from realm.report.summary import Alarm, Summary, worst_label
from realm.training import findings
from tests.report.folders import crowd, data_of, guessers
from tests.report.reader import Page


def alarm(table: Any, log_probs: Any, kind: str, **fields: Any) -> Alarm:
    [found] = [each for each in Summary(data_of(table, log_probs, **fields)).alarms if each.kind == kind]
    return found


def test_guessers_are_named_first_with_their_share_of_the_labels() -> None:
    table, log_probs = guessers()
    names = {f"worker-{who}" for who in (4, 5)}
    share = float(np.isin(table.annotator, [table.annotators.index(name) for name in names]).mean())
    found = alarm(table, log_probs, "no better than chance")
    assert {name for name, _ in found.names} == names and (found.state, found.total) == ("bad", 2)
    assert found.share == pytest.approx(share)
    first_screen = Page(render(data_of(table, log_probs))).text.split("Whom can I trust?")[0]
    assert f"2 annotators answer at chance level: together they gave {share:.0%} of all labels" in first_screen
    assert "worker-4" in first_screen and "worker-1" not in first_screen
    assert f"problem {share:.0%} of all labels are by annotators at or below chance level 2 of 6" in first_screen


def test_with_several_tasks_an_annotator_is_named_once_with_the_tasks() -> None:
    table, log_probs = crowd(n_items=900, accuracies=(0.95, 0.95, 0.95, 0.95, 1 / 3), per_item=4, tasks=2)
    found = alarm(table, log_probs, "no better than chance")
    [(name, remark)] = found.names
    share = float((table.annotator == table.annotators.index("worker-4")).mean())
    assert name == "worker-4" and found.total == 2
    assert remark in (f"{share:.0%}, in task-0, task-1", f"{share:.0%}, in task-1, task-0"), "the busier task first"


def test_a_guesser_of_one_answer_is_named_once_with_it() -> None:
    table, log_probs = guessers(guessing=())
    who = table.annotators.index("worker-5")
    table = replace(table, label=np.where(table.annotator == who, 1, table.label).astype(np.int32))
    found = Summary(data_of(table, log_probs)).alarms
    remarks = [remark for each in found for name, remark in each.names if name == "worker-5"]
    assert len(remarks) == 1 and remarks[0].endswith("%, always answers “yes”")
    assert not [each for each in found if each.kind == "pattern"]


def test_without_guessers_the_tile_is_good_and_with_weak_annotators_it_is_not() -> None:
    good = Summary(data_of(*guessers(guessing=())))
    assert not [each for each in good.alarms if "chance" in each.kind] and good.guessing_state == "good"
    table, log_probs = crowd(n_items=600, accuracies=(0.97, 0.97, 0.97, 0.97, 0.46), per_item=4, labels=tuple("abcdef"))
    weak = Summary(data_of(table, log_probs))
    accuracy = weak.data.estimate.accuracy[table.annotators.index("worker-4"), 0]
    assert weak.guessing[0] == 0 and accuracy < 0.5 and weak.guessing_state == "care"
    assert [name for each in weak.alarms if each.kind == "weak" for name, _ in each.names] == ["worker-4"]
    assert "1 annotator is wrong on more than half of the labels given" in Page(render(weak.data)).text


@pytest.mark.parametrize(
    ("accuracies", "state"), [((0.97,) * 5, "good"), ((0.8,) * 5, "care"), ((0.4, 0.45, 0.4, 0.35, 0.4), "bad")]
)
def test_the_answer_follows_from_what_is_expected_to_be_right(accuracies: tuple[float, ...], state: str) -> None:
    table, _ = crowd(n_items=300, accuracies=accuracies)
    found = Summary(data_of(table))
    posterior = found.data.estimate.posterior
    majority = []
    for item in range(300):
        votes = np.bincount(table.label[table.item == item], minlength=3)
        majority.append(posterior[item, votes == votes.max()].mean())
    clear = posterior.max(axis=1)[posterior.max(axis=1) >= 0.8]
    expected = (posterior.max(axis=1).mean(), np.mean(majority), posterior[table.item, table.label].mean())
    assert found.expected[:3] == pytest.approx(expected)
    assert found.expected.clear == pytest.approx(clear.mean() if len(clear) else 0.0)
    assert found.unclear == 300 - len(clear) and found.state == state
    assert f"about {expected[1]:.0%} of the items, and a single label as given" in Page(render(found.data)).text


def label_rows(*found: tuple[int, int]) -> list[dict[str, Any]]:
    figures = {"precision": 0.5, "f1": 0.5}
    return [{"label": f"l{i}", "recall": right / n, "support": n, **figures} for i, (right, n) in enumerate(found)]


@pytest.mark.parametrize(
    ("changed", "state", "alarm_kind"),
    [
        ({}, "good", ""),
        ({"accuracy": 0.53}, "care", ""),  # within what the base rate gives by chance
        ({"accuracy": 0.5}, "bad", ""),
        ({"labels": label_rows((154, 154), (9, 46))}, "care", "missed"),
        ({"labels": label_rows((199, 199), (0, 1))}, "care", "missed"),
        ({"labels": label_rows((100, 140), (30, 60))}, "good", ""),
        ({"macro_f1": 0.4}, "care", ""),
        ({"labels": label_rows((154, 154), (9, 46)), "by_position": True}, "good", ""),
        ({"tasks": {"t": {"labels": label_rows((154, 154), (9, 46))}}}, "care", "missed"),
        ({"macro_f1": None, "base_rate": None}, "good", ""),
    ],
)
def test_the_tile_of_the_model_is_judged_by_its_worst_label_too(
    changed: dict[str, Any], state: str, alarm_kind: str
) -> None:
    test = {"items": 200, "accuracy": 0.8, "base_rate": 0.5, "macro_f1": 0.7, **changed}
    found = Summary(data_of(*crowd(), metrics={"test": test, "steps": 400}))
    assert found.model is not None and found.model.state == state
    assert [each.kind for each in found.alarms if each.kind == "missed"] == [alarm_kind] * bool(alarm_kind)
    page = Page(render(found.data)).text
    assert f"{test['accuracy']:.0%} right on the test items" in page
    if alarm_kind:
        assert "misses most items of “l1”" in page and "“l1” found in" in page
    if test["accuracy"] == 0.8:
        assert "200 items with gold (74–85%)" in page, "Wilson's interval of 160 of 200"


def test_the_worst_label_is_the_one_with_the_lowest_recall() -> None:
    rows = [*label_rows((5, 10), (20, 30)), {"label": "never", "recall": None, "support": 0}]
    assert worst_label({"labels": rows}) == ("l0", 5, 10)
    assert worst_label({}) is None and worst_label({"labels": rows, "by_position": True}) is None


def test_a_useless_model_has_a_tile_of_its_own() -> None:
    def tile(texts: list[str]) -> summary.ModelTile | None:
        return Summary(data_of(*crowd(), metrics={"test": None, "findings": texts})).model

    failing = tile(["the model is not clearly better than the base rate: ..."])
    assert failing is not None and failing.state == "bad" and failing.is_useless
    assert tile(["`no` is more frequent among the cleaned labels."]) is None
    text = ["the model gives the same answer to all.", "so its labels rest on agreement."]
    page = Page(render(data_of(*crowd(), metrics={"findings": text}))).text
    assert "problem The model is of no use . The model gives the same answer to all. So its labels rest" in page
    assert "no say of the model in the labels" in page


def test_findings_of_training_say_what_the_report_looks_for() -> None:
    alike = np.log(np.full((200, 2), 0.5)) + np.array([0.1, 0.0])
    shares = np.tile([[1.0, 0.0], [0.0, 1.0]], (100, 1))
    texts = [findings.no_better_than_base_rate(alike, shares, ""), findings.same_answer(alike, shares, ("no", "yes"))]
    for words, text in zip(summary.MODEL_FAILS, texts, strict=True):
        assert text is not None and words in text


def test_a_short_training_is_a_banner_and_its_note_is_not_said_twice() -> None:
    note = findings.few_steps(75)
    test = {"items": 200, "accuracy": 0.8, "base_rate": 0.5}
    data = data_of(*crowd(), metrics={"steps": 75, "notes": [note], "test": test})
    assert note is not None and Summary(data).undertrained == note and Summary(data).model.state == "care"  # type: ignore[union-attr]
    page = Page(render(data)).text
    assert "take care The model was trained too little" in page and page.count("a longer training usually") == 1
    enough = replace(data, metrics={"steps": 500, "notes": []})
    assert "trained too little" not in Page(render(enough)).text


def test_the_balance_of_labels_is_counted() -> None:
    data = data_of(*crowd(n_items=60))
    labels, shares = summary.label_balance(data, 0)
    assert labels == ["no", "yes", "maybe"] and sum(shares["majority"]) == pytest.approx(1)
    np.testing.assert_allclose(shares["as given"], np.bincount(data.annotations.label, minlength=3) / 180)
    np.testing.assert_allclose(shares["cleaned"], np.bincount(data.labels, minlength=3) / 60)
    many, _ = crowd(n_items=300, labels=tuple(f"l{i}" for i in range(20)))
    labels, shares = summary.label_balance(data_of(many), 0)
    assert len(labels) == 12 and labels[-1] == "9 others" and sum(shares["as given"]) == pytest.approx(1)
