"""What the report answers: can the labels be used, who guesses, what it costs to settle, who disagrees with whom."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from realm.crowd.estimate import estimate
from realm.data import Annotations
from realm.errors import RealmError
from realm.report import summary
from realm.report.annotator_details import details
from realm.report.disputes import disputes
from realm.report.item_lists import broken
from realm.report.run_data import RunData, read_run, read_table
from realm.report.run_page import render, table_report_name, write_table_report
from realm.report.settling import settling
from tests.report.folders import crowd, write_run
from tests.report.reader import Page, check_closed_in

LABELS = ("no", "yes", "maybe")


def data_of(table: Annotations, log_probs: np.ndarray, **fields: object) -> RunData:
    return RunData("run", {}, {}, {}, table, log_probs, estimate(table, np.exp(log_probs)), **fields)  # type: ignore[arg-type]


def guessers(n_items: int = 300, guessing: tuple[int, ...] = (4, 5)) -> tuple[Annotations, np.ndarray]:
    accuracies = tuple(1 / 3 if who in guessing else 0.9 for who in range(6))
    return crowd(n_items=n_items, accuracies=accuracies, per_item=4)


def test_guessers_are_named_first_with_their_share_of_the_labels() -> None:
    table, log_probs = guessers()
    data = data_of(table, log_probs)
    counts = table.annotations_per_annotator
    names = [f"worker-{who}" for who in (4, 5)]
    share = sum(int(counts[table.annotators.index(name)]) for name in names) / table.n_annotations
    [alarm] = [each for each in summary.alarms(data) if "chance level" in each.title]
    assert alarm.title == f"2 annotators answer at chance level: together they gave {share:.0%} of all labels"
    assert {name for name, _ in alarm.names} == set(names) and alarm.state == "bad"
    page = Page(render(data))
    first_screen = page.text.split("Whom can I trust?")[0]
    assert "worker-4" in first_screen and "worker-5" in first_screen and "worker-1" not in first_screen
    assert f"{share:.0%} of all labels are by annotators at or below chance level" in first_screen
    card = next(card for card in summary.cards(data) if "chance level" in card.what)
    assert card.state == "bad" and card.word == "problem"


def test_with_several_tasks_an_annotator_is_named_once_with_the_tasks() -> None:
    table, log_probs = crowd(n_items=900, accuracies=(0.95, 0.95, 0.95, 0.95, 1 / 3), per_item=4, tasks=2)
    found = [each for each in summary.alarms(data_of(table, log_probs)) if "chance level" in each.title]
    [alarm] = found
    [(name, remark)] = alarm.names
    share = float((table.annotator == table.annotators.index("worker-4")).mean())
    assert name == "worker-4"
    assert remark in (f"{share:.0%}, in task-0, task-1", f"{share:.0%}, in task-1, task-0"), "the busier task first"
    assert alarm.title.startswith("2 pairs of annotator and task answer at chance level: together they gave ")


def test_a_guesser_of_one_answer_is_named_once_with_it() -> None:
    table, log_probs = guessers(guessing=())
    who = table.annotators.index("worker-5")
    table = replace(table, label=np.where(table.annotator == who, 1, table.label).astype(np.int32))
    found = summary.alarms(data_of(table, log_probs))
    remarks = [remark for alarm in found for name, remark in alarm.names if name == "worker-5"]
    assert len(remarks) == 1 and remarks[0].endswith("%, always answers “yes”")
    assert not [alarm for alarm in found if "pattern" in alarm.title]


def test_without_guessers_nobody_is_named() -> None:
    table, log_probs = guessers(guessing=())
    data = data_of(table, log_probs)
    assert not [each for each in summary.alarms(data) if "chance" in each.title]
    assert next(card for card in summary.cards(data) if "chance level" in card.what).state == "good"


@pytest.mark.parametrize(
    ("accuracies", "state"), [((0.97,) * 5, "good"), ((0.8,) * 5, "care"), ((0.4, 0.45, 0.4, 0.35, 0.4), "bad")]
)
def test_the_answer_follows_from_what_is_expected_to_be_right(accuracies: tuple[float, ...], state: str) -> None:
    table, _ = crowd(n_items=300, accuracies=accuracies)
    data = data_of(table, np.zeros((300, 3)))
    expected = summary.expected_right(data)
    assert expected.cleaned == pytest.approx(data.estimate.posterior.max(axis=1).mean())
    given = data.estimate.posterior[table.item, table.label].mean()
    assert expected.given == pytest.approx(given) and expected.cleaned >= expected.majority - 1e-9
    assert summary.answer(data).state == state


def test_a_useless_model_has_a_tile_of_its_own() -> None:
    table, log_probs = crowd()
    figures = {"items": 200, "accuracy": 0.8, "base_rate": 0.5, "macro_f1": 0.7}

    def tile(test: dict | None, findings: list[str]) -> summary.Card | None:
        metrics = {"test": test, "findings": findings}
        cards = summary.cards(replace(data_of(table, log_probs), metrics=metrics))
        return cards[4] if len(cards) > 4 else None

    good, equal, worse = (tile({**figures, "accuracy": share}, []) for share in (0.8, 0.53, 0.5))
    assert good is not None and equal is not None and worse is not None
    assert (good.state, equal.state, worse.state) == ("good", "care", "bad")
    failing = tile(None, ["the model is no better than the base rate: ..."])
    assert failing is not None and failing.state == "bad" and failing.figure == "no say"
    assert tile(None, ["`no` is more frequent among the cleaned labels."]) is None


def test_findings_of_training_say_what_the_report_looks_for() -> None:
    import inspect

    from realm.training import findings

    for words in summary.MODEL_FAILS:
        assert words in inspect.getsource(findings)


def test_an_item_on_which_only_the_model_is_wrong_does_not_look_broken() -> None:
    table, _ = crowd(n_items=200, accuracies=(0.96,) * 6, per_item=6)
    votes = data_of(table, np.zeros((200, 3))).votes
    wrong = np.log(np.full((200, 3), 0.01))
    wrong[np.arange(200), votes.argmin(axis=1)] = np.log(0.98)
    data = data_of(table, wrong)
    assert broken(data).total <= 4
    page = Page(render(data))
    assert "Where the model and the majority disagree" in page.text


def test_settling_prices_more_labels_and_says_who_gives_them() -> None:
    table, log_probs = crowd(n_items=200, accuracies=(0.8, 0.75, 0.7, 0.8, 0.7, 0.8))
    data = data_of(table, log_probs)
    plan = settling(data)
    gains = [float(gain) for _, gain, _, _ in plan.rows]
    assert gains == sorted(gains) and gains[-1] > 0
    wrong = float((1 - data.confidence).sum())
    for _, gain, left, _ in plan.rows:
        assert float(gain) + float(left) == pytest.approx(wrong, abs=0.11)
    assert sum(int(count) for _, count, _ in plan.workload) == len(plan.items.items) and not plan.hours
    timed = replace(
        table, lead_time=np.full(table.n_annotations, 36.0), created_at=np.arange(table.n_annotations) * 60.0
    )
    plan = settling(data_of(timed, log_probs))
    assert plan.hours and plan.rows[0][3] == "15 min", "25 labels of 36 seconds"


def test_who_confuses_what_is_listed() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=300)
    rows = []
    for item, right in enumerate(truth):
        for who in range(5):
            label = right if rng.random() < 0.95 else rng.integers(3)
            if who == 2 and right == 0 and rng.random() < 0.7:
                label = 1
            rows.append((f"t{item}", f"w{who}", LABELS[label]))
    table = Annotations.from_pandas(pd.DataFrame(rows, columns=["text", "annotator", "label"]), labels=list(LABELS))
    found = disputes(data_of(table, np.zeros((300, 3))))
    assert [(row["name"], row["cleaned"], row["given"]) for row in found.confused] == [("w2", "no", "yes")]
    assert found.labels[0]["first"] == "no" and found.labels[0]["second"] == "yes"
    assert all("w2" in (row["first"], row["second"]) for row in found.least[:4]) and found.matrix is not None


def test_details_hold_confusion_peers_and_examples() -> None:
    table, log_probs = guessers()
    data = data_of(table, log_probs)
    found, items = details(data, data.ranked)
    assert None not in found and items
    for pair, entry in zip(data.ranked.tolist(), found, strict=True):
        assert entry is not None
        rows = table.annotator == pair
        counts = np.zeros((3, 3), int)
        np.add.at(counts, (data.labels[table.item[rows]], table.label[rows]), 1)
        assert entry["c"] == {"l": list(LABELS), "n": counts.tolist()}
        assert len(entry["p"]) == 5 and pair not in [peer for peer, _, _ in entry["p"]]
        for text, given, cleaned, confidence in entry["e"]:
            item = int(text.split()[-1])
            [row] = np.flatnonzero(rows & (table.item == item))
            assert given == LABELS[table.label[row]] and cleaned == LABELS[data.labels[item]] != given
            assert confidence == round(100 * data.confidence[item]) >= 80
        expertise = data.estimate.expertise[pair, 0]
        shown = {label: share for label, share in entry.get("h", [])}
        assert bool(shown) == (expertise < 0.9)
        for label, share in shown.items():
            assert share == round(100 * data.estimate.habits[pair, 0, LABELS.index(label)])
    few, _ = details(data, data.ranked, limit=1_500)
    kept = [pair for pair, entry in zip(data.ranked.tolist(), few, strict=True) if entry is not None]
    assert None in few and len(data.bad_pairs) == 2
    assert set(data.bad_pairs) <= set(kept), "those at chance level come first"


def test_details_name_peers_by_pseudonym() -> None:
    table, log_probs = crowd(n_items=200, names=["zoe", "yan", "xia", "wim", "kofi"])
    page = render(data_of(table, log_probs), pseudonymise=True)
    assert not [name for name in ("zoe", "yan", "xia", "wim", "kofi") if name in page]
    data = Page(page).data
    assert all(data["names"][peer[0]].startswith("Annotator ") for entry in data["details"] for peer in entry["p"])


# -------------------------------------------------------------------- a table alone


def write_table(path: Path, table: Annotations) -> Path:
    names = table.annotators
    frame = pd.DataFrame(
        {
            "item": [table.item_ids[int(i)].as_py() for i in table.item],
            "text": [table.texts[int(i)].as_py() for i in table.item],
            "annotator": [names[a] for a in table.annotator],
            "label": [LABELS[k] for k in table.label],
        }
    )
    frame.to_csv(path, index=False)
    return path


def test_a_table_alone_gets_the_same_page_without_a_model(tmp_path: Path) -> None:
    table, _ = guessers()
    file = write_table(tmp_path / "march.csv", table)
    annotations = Annotations.read(file, labels=list(LABELS))
    path = write_table_report(annotations, file, output=tmp_path / "page.html")
    page = Page(path.read_text(encoding="utf-8"))
    check_closed_in(page)
    ids = [attributes.get("id") for attributes in page.tags("section")]
    assert ids == ["summary", "annotators-section", "unclear", "disputed", "check", "limits", "making"]
    assert "march.csv" in page.text and "no model trained" in page.text
    assert "2 annotators answer at chance level" in page.text
    assert "agrees little with the others" in page.text, "what `realm check` finds"
    for words in ("The trained model", "Model:", "out of fold", "expertise.csv", "labels.csv of the run"):
        assert words not in page.text
    data = read_table(annotations, file)
    expected = estimate(annotations.without_gold())
    np.testing.assert_allclose(data.estimate.accuracy, expected.accuracy)
    np.testing.assert_allclose(data.estimate.posterior, expected.posterior)


def test_gold_of_a_table_is_used_only_if_asked_for(tmp_path: Path) -> None:
    table, _ = guessers(120)
    gold = np.where(np.arange(120) < 60, (table.label[table.offsets[:-1]] + 1) % 3, -1).astype(np.int32)
    with_gold = replace(table, gold=gold)
    without = read_table(with_gold, tmp_path / "t.csv")
    np.testing.assert_array_equal(without.estimate.posterior, read_table(table, tmp_path / "t.csv").estimate.posterior)
    used = read_table(with_gold, tmp_path / "t.csv", use_gold=True)
    assert (used.labels[:60] == gold[:60]).all() and "Gold was used" in Page(render(used)).text
    with pytest.raises(RealmError, match="needs gold labels"):
        read_table(table, tmp_path / "t.csv", use_gold=True)


def test_one_label_per_item_is_refused(tmp_path: Path) -> None:
    table, _ = crowd(per_item=1)
    with pytest.raises(RealmError, match=r"t\.csv: no item has two annotations"):
        read_table(table, tmp_path / "t.csv")


def test_pseudonyms_of_a_table_leave_no_name(tmp_path: Path) -> None:
    names = ["Ada Lovelace", "grace", "karen", "emmy", "sofia", "maryam"]
    table, _ = crowd(n_items=300, names=names, accuracies=(0.9, 0.9, 0.9, 0.9, 1 / 3, 1 / 3), per_item=4)
    file = write_table(tmp_path / "labels-of-grace.csv", table)
    annotations = Annotations.read(file, labels=list(LABELS))
    annotations.ledger.warn("Ada Lovelace labelled an item twice.")
    data = read_table(annotations, file)
    shown, hidden = render(data), render(data, pseudonymise=True)
    for name in names:
        assert name in shown and name not in hidden
    assert "Annotator 1" in hidden and "agrees little with the others" in hidden


def test_names_of_reports() -> None:
    assert table_report_name(Path("data/labels.csv")) == "labels.report.html"
    assert table_report_name(Path("labels.jsonl.gz")) == "labels.report.html"


def test_a_title_and_the_name_of_the_table(tmp_path: Path) -> None:
    table, log_probs = crowd(n_items=40)
    data = read_run(write_run(tmp_path / "sentiment", table, log_probs))
    assert data.date == "17 November 2025" and "sentiment · annotator report</title>" in render(data)
    page = Page(render(replace(data, file="march.csv"), title="Reviews, March"))
    assert "<title>Reviews, March · annotator report</title>" in page.source
    assert "march.csv" in page.text and "run sentiment" in page.text and data.date in page.text
    assert "march.csv · annotator report" in render(replace(data, file="march.csv"))


def test_over_time_is_in_the_details_and_the_trend_in_the_table() -> None:
    from tests.crowd.test_drift import crowd as drifting

    table = drifting(12, 120, slack=1, seed=4)
    log_probs = np.full((table.n_items, 2), np.log(0.5))
    page = Page(render(data_of(table, log_probs)))
    data = page.data
    trend = {data["names"][who]: word for who, word in zip(data["who"], data["trend"], strict=True)}
    assert trend.pop("a0") == "fell" and set(trend.values()) == {"steady"}
    for row, entry in enumerate(data["details"]):
        assert sum(entry["t"]["n"]) == data["n"][row]
        assert all(low <= share <= high for _, share, low, high in entry["t"]["a"])
    assert "The accuracy of 1 annotator has fallen" in page.text
    assert "trend" not in Page(render(data_of(replace(table, created_at=None), log_probs))).data


def test_a_run_remembers_what_its_table_was_called(tmp_path: Path) -> None:
    from realm.runs.writer import describe

    table, _ = crowd(n_items=20)
    annotations = Annotations.read(write_table(tmp_path / "march.csv", table))
    assert describe("owner/model", annotations, {}, gold_used=False).as_dict()["file"] == "march.csv"
    assert "file" not in describe("owner/model", table, {}, gold_used=False).as_dict(), "a table that was no file"
