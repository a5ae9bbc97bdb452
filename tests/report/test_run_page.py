from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from realm import files
from realm.crowd.estimate import estimate
from realm.crowd.screens import Screens
from realm.data import Annotations
from realm.errors import RealmError
from realm.report.escaping import visible
from realm.report.run_data import RunData, read_run, read_table
from realm.report.run_page import render, table_report_name, write_report, write_table_report
from realm.runs import Run
from tests.report.conftest import HOSTILE_NAMES, HOSTILE_TEXTS
from tests.report.folders import crowd, crowded_estimate, guessers, large, write_run
from tests.report.reader import Page, check_closed_in


@lru_cache(maxsize=8)
def page_of(folder: Path, pseudonymise: bool = False) -> Page:
    return Page(render(read_run(folder), pseudonymise=pseudonymise))


def test_a_manager_finds_the_figures_of_the_run(plain_run: Path) -> None:
    page = page_of(plain_run)
    people = pd.read_csv(plain_run / "expertise.csv")
    labels = pd.read_csv(plain_run / "labels.csv")
    reliable = int((people["verdict"] == "reliable").sum())
    assert f"{reliable} of 5 annotators are reliable" in page.text
    assert "5 annotators gave 450 labels to 150 items, 3.0 per item." in page.text
    overruled = int(labels["majority_disagrees"].sum())
    assert f"On {overruled} items ({overruled / 150:.0%}) the cleaned label is not the one with the most" in page.text
    assert f"{(labels['confidence'] >= 0.9).mean():.0%} have a confidence of 90% or more" in page.text
    assert f"about {labels['confidence'].mean():.0%} of the 150 cleaned labels are expected to be right" in page.text
    unclear = int((labels["confidence"] < 0.8).sum())
    assert f"{unclear} of 150 items are unclear (confidence below 80%)" in page.text
    assert "88% right on the test items" in page.text and "Macro F1 0.861" in page.text
    assert "3 rows without a label were left out." in page.text
    ids = [attributes.get("id") for attributes in page.tags("section")]
    questions = ["summary", "annotators-section", "unclear", "disputed"]
    assert ids == [*questions, "test", "training", "limits", "making"], "the order of a manager's questions"
    assert "sentiment" in page.text and "run sentiment · model tiny/model · " in page.text.replace(" · ", " · ")


def test_pictures_have_titles_and_descriptions(hostile_run: Path) -> None:
    page = page_of(hostile_run)
    pictures = [attributes for attributes in page.tags("svg") if "chart" in (attributes["class"] or "")]
    assert len(pictures) >= 8
    assert all(attributes["role"] == "img" for attributes in page.tags("svg"))
    assert len(re.findall(r"<svg[^>]*><title>[^<]+</title><desc>[^<]+</desc>", page.source)) == len(page.tags("svg"))


@pytest.mark.parametrize("pseudonymise", [False, True])
def test_hostile_names_and_texts_are_text(hostile_run: Path, pseudonymise: bool) -> None:
    page = page_of(hostile_run, pseudonymise=pseudonymise)
    check_closed_in(page)
    for text in HOSTILE_TEXTS:
        assert re.sub(r"\s+", " ", visible(text)) in page.text
    if not pseudonymise:
        assert {row["annotator"] for row in page.annotators} == {visible(name) for name in HOSTILE_NAMES}
        for name in HOSTILE_NAMES:
            assert re.sub(r"\s+", " ", visible(name)) in page.text
    # Marks that turn text around, invisible ones and controls are spelled out, nowhere left as they are.
    assert not re.search("[\x00-\x08\x0b-\x1f\u200e\u200f\u2028-\u202e\u2066-\u2069]", page.source)
    assert "⟨U+202E⟩" in page.text and "{{ 7 * 7 }}" in page.text
    assert "<b>Judge</b> ⟨U+202E⟩" in page.text


def test_what_it_rests_on_is_said(plain_run: Path, sparse_run: Path, tmp_path: Path) -> None:
    plain, sparse = page_of(plain_run).text, page_of(sparse_run).text
    for page in (plain, sparse):
        assert "no ground for paying, promoting, punishing or dismissing" in page
        assert "A minority view looks like unreliability" in page
        assert "Seen in training" in page and "not used: neither training" in page
    assert "Relative values" in sparse and "Relative values" not in plain
    assert "Two options" in sparse and "Two options" not in plain
    assert "is not the one with the most votes" not in sparse
    table, log_probs = crowd()
    gold = np.where(np.arange(80) < 20, table.label[table.offsets[:-1]], -1).astype(np.int32)
    with_gold = replace(table, gold=gold)
    run = write_run(
        tmp_path / "gold", with_gold, log_probs, found=estimate(table, np.exp(log_probs), gold=gold), gold_used=True,
        folds=5, temperature=1.43,
    )  # fmt: skip
    page = page_of(run).text
    assert "Each item was judged by a model that was trained without it." in page and "Seen in training" not in page
    assert "used: where it is known it decides" in page
    assert "1.43: the model's probabilities were softened" in page


def test_the_labels_are_those_of_the_run(plain_run: Path, tmp_path: Path) -> None:
    table, log_probs = crowd()
    gold = np.where(np.arange(80) < 40, (table.label[table.offsets[:-1]] + 1) % 3, -1).astype(np.int32)
    found = estimate(table, np.exp(log_probs), gold=gold)
    run = write_run(tmp_path / "run", replace(table, gold=gold), log_probs, found=found, gold_used=True)
    for folder in (plain_run, run):
        data = read_run(folder)
        labels = pd.read_csv(folder / "labels.csv")
        np.testing.assert_allclose(data.confidence, labels["confidence"], atol=1e-5)
        assert [data.annotations.label_name(i, k) for i, k in enumerate(data.labels)] == labels["label"].tolist()
        assert data.overruled.tolist() == labels["majority_disagrees"].tolist()


def test_items_with_options_of_their_own_and_items_nobody_labelled(tmp_path: Path) -> None:
    rows = []
    for item in range(30):
        options = [f"ans {item}a", f"ans {item}b", f"ans {item}c"][: 2 + item % 2]
        for who in ("ann", "bob", "cy"):
            rows.append({"item": item, "text": f"q {item}", "context": f"passage {item}", "options": options,
                         "annotator": who, "label": options[(item + (who == "cy")) % 2]})  # fmt: skip
    table = Annotations.from_pandas(pd.DataFrame(rows))
    table = table.keep_annotations(table.item > 2)
    counts = table.option_counts[:, None]
    log_probs = np.where(np.arange(3) < counts, -np.log(counts), -np.inf)
    page = page_of(write_run(tmp_path / "run", table, log_probs))
    check_closed_in(page)
    assert "option 1" in page.text and "3 annotators gave 81 labels to 30 items" in page.text
    assert "passage 5" in page.text


def test_writing_is_whole_repeatable_and_leaves_the_run_verified(
    plain_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_report(plain_run)
    assert path == plain_run / "report.html"
    first = path.read_bytes()
    Run.open(plain_run)
    assert write_report(plain_run, output=tmp_path / "new" / "other.html").read_bytes() == first

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", fail)
    with pytest.raises(RealmError, match=r"report\.html: cannot be written: No space left"):
        write_report(plain_run, pseudonymise=True)
    assert path.read_bytes() == first
    assert not list(plain_run.glob(".report*"))


def test_five_thousand_annotators_and_a_hundred_thousand_items_stay_small() -> None:
    table, log_probs, accuracy = large(per_item=3)
    found = crowded_estimate(table, log_probs, accuracy)
    data = RunData("large", Screens(table, found), log_probs)
    page = Page(render(data))
    assert len(page.source.encode()) < 4_000_000
    assert "1,800 annotators with the fewest labels have no details" in page.text
    assert "3,000 more, those with the fewest labels, are not in this file" in page.text
    assert len(page.annotators) == 2_000 and "5,000 annotators gave" in page.text
    assert page.source.split('id="apart-list"')[1].split("</ul>")[0].count("<li ") == 200


def test_a_trained_run_gets_a_report(tmp_path: Path, tiny_model: Callable[[str], str]) -> None:
    """What training writes is what the report reads."""
    from tests.tiny import crowd as coloured
    from tests.trainers import trainer

    table = coloured(n_items=48, tasks=3, accuracies=(0.95, 0.6, 0.25))
    made = trainer(
        tiny_model("bert"), table, tmp_path / "run", write_run=True, max_steps=6, per_device_train_batch_size=16,
        gradient_accumulation_steps=1, test=coloured(n_items=24, tasks=3, seed=7),
    )  # fmt: skip
    made.train()
    page = Page(write_report(tmp_path / "run").read_text(encoding="utf-8"))
    check_closed_in(page)
    data = read_run(tmp_path / "run")
    np.testing.assert_allclose(data.labels, made.estimate().posterior.argmax(axis=1))
    assert "3 annotators gave 144 labels to 48 items in 3 tasks" in page.text
    assert "Learning curve" in page.text
    assert f"The model is right on {data.metrics['test']['accuracy']:.1%} of the items" in page.text
    Run.open(tmp_path / "run")


# -------------------------------------------------------------------- a table alone


def test_a_table_alone_gets_the_same_page_without_a_model(tmp_path: Path) -> None:
    table, _ = guessers()
    file = tmp_path / "march.csv"
    page = Page(write_table_report(table, file, output=tmp_path / "page.html").read_text(encoding="utf-8"))
    check_closed_in(page)
    ids = [attributes.get("id") for attributes in page.tags("section")]
    assert ids == ["summary", "annotators-section", "unclear", "disputed", "check", "limits", "making"]
    assert "march.csv" in page.text and "no model trained" in page.text and "No gold was read" in page.text
    assert "2 annotators answer at chance level" in page.text
    assert "What the check of the table found" in page.text
    for words in ("The trained model", "Model:", "out of fold", "expertise.csv", "labels.csv of the run"):
        assert words not in page.text
    data, expected = read_table(table, file), estimate(table)
    np.testing.assert_allclose(data.estimate.accuracy, expected.accuracy)
    np.testing.assert_allclose(data.estimate.posterior, expected.posterior)
    assert (
        table_report_name(Path("data/labels.csv")) == table_report_name(Path("labels.jsonl.gz")) == "labels.report.html"
    )


def test_gold_of_a_table_is_a_check_and_used_only_if_asked_for(tmp_path: Path) -> None:
    table, _ = guessers(120)
    truth = estimate(table).posterior.argmax(axis=1)
    gold = np.where(np.arange(120) < 60, np.where(np.arange(120) < 4, (truth + 1) % 3, truth), -1).astype(np.int32)
    with_gold = replace(table, gold=gold)
    without = read_table(with_gold, tmp_path / "t.csv")
    np.testing.assert_array_equal(without.estimate.posterior, read_table(table, tmp_path / "t.csv").estimate.posterior)
    against = without.against_gold
    assert against is not None and (against.n_right, against.items) == (56, 60)
    page = Page(render(without)).text
    assert "56 of 60 cleaned labels are right, 93% (95% interval 84–97%); of the majority votes" in page
    assert "56 of 60 cleaned labels with gold are right 84–97%" in page and "Gold was held apart" in page
    assert "93.3% of the 60 labels with gold are right" in page and "No gold" not in page
    used = read_table(with_gold, tmp_path / "t.csv", use_gold=True)
    assert used.against_gold is None and (used.labels[:60] == gold[:60]).all()
    assert "Gold was used" in Page(render(used)).text
    with pytest.raises(RealmError, match="needs gold labels"):
        read_table(table, tmp_path / "t.csv", use_gold=True)


def test_one_label_per_item_is_refused(tmp_path: Path) -> None:
    table, _ = crowd(per_item=1)
    with pytest.raises(RealmError, match=r"t\.csv: no item has two annotations"):
        read_table(table, tmp_path / "t.csv")


def test_the_title_the_table_and_the_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, log_probs = crowd(n_items=40)
    run = write_run(tmp_path / "sentiment", table, log_probs)
    data = read_run(run)
    assert data.date == "17 November 2025" and "sentiment · annotator report</title>" in render(data)
    page = Page(render(replace(data, file="march.csv"), title="Reviews, March"))
    assert "<title>Reviews, March · annotator report</title>" in page.source
    assert "march.csv" in page.text and "run sentiment" in page.text and data.date in page.text
    assert "march.csv · annotator report" in render(replace(data, file="march.csv"))
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    (run / "progress.log").write_text("2024-02-28T23:00:00+01:00 realm train\n2024-02-29T01:00:00+01:00 done\n")
    assert read_run(run).date == "29 February 2024", "not the day on which the folder was copied"
