from __future__ import annotations

import json
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
from realm.data import Annotations
from realm.errors import RealmError
from realm.report import annotator_table
from realm.report.chart_data import Calibration
from realm.report.escaping import coded, visible
from realm.report.run_data import RunData, read_run
from realm.report.run_page import render, write_report
from realm.report.wording import calibration_text
from realm.runs import Run
from realm.runs.run import Trajectory
from tests.crowd.crowds import coins, known_estimate
from tests.report.conftest import HOSTILE_NAMES, HOSTILE_TEXTS
from tests.report.folders import crowd, crowded_estimate, large, write_run
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


def test_the_table_holds_what_expertise_csv_holds(plain_run: Path) -> None:
    page = page_of(plain_run)
    data = page.data
    people = pd.read_csv(plain_run / "expertise.csv").sort_values("accuracy", ascending=False)
    assert [data["names"][who] for who in data["who"]] == people["annotator"].tolist()
    assert [data["verdicts"][kind] for kind in data["verdict"]] == people["verdict"].tolist()
    for column, name in (("accuracy", "accuracy"), ("low", "low"), ("high", "high"), ("expertise", "expertise"),
                         ("agreement", "agreement"), ("trained", "expertise_trained")):  # fmt: skip
        np.testing.assert_allclose(np.array(data[column]) / 10_000, people[name], atol=6e-5, err_msg=column)
    assert data["n"] == people["annotations"].tolist()
    # The head of the table stands in the page too, for who has no JavaScript.
    for name in people["annotator"]:
        assert f"<bdi>{name}</bdi>" in page.source


def test_pictures_have_titles_and_descriptions(hostile_run: Path) -> None:
    page = page_of(hostile_run)
    pictures = [attributes for attributes in page.tags("svg") if "chart" in (attributes["class"] or "")]
    assert len(pictures) >= 10
    assert all(attributes["role"] == "img" for attributes in page.tags("svg"))
    assert len(re.findall(r"<svg[^>]*><title>[^<]+</title><desc>[^<]+</desc>", page.source)) == len(page.tags("svg"))


def test_tasks_get_a_heat_map_and_a_single_task_none(hostile_run: Path, plain_run: Path) -> None:
    assert "Annotators by task" in page_of(hostile_run).text
    assert "Annotators by task" not in page_of(plain_run).text


@pytest.mark.parametrize("pseudonymise", [False, True])
def test_hostile_names_and_texts_are_text(hostile_run: Path, pseudonymise: bool) -> None:
    page = page_of(hostile_run, pseudonymise=pseudonymise)
    check_closed_in(page)
    for text in HOSTILE_TEXTS:
        assert re.sub(r"\s+", " ", visible(text)) in page.text
    if not pseudonymise:
        assert sorted(page.data["names"]) == sorted(visible(name) for name in HOSTILE_NAMES)
        for name in HOSTILE_NAMES:
            assert re.sub(r"\s+", " ", visible(name)) in page.text
    # Marks that turn text around, invisible ones and controls are spelled out, nowhere left as they are.
    assert not re.search("[\x00-\x08\x0b-\x1f\u200e\u200f\u2028-\u202e\u2066-\u2069]", page.source)
    assert "⟨U+202E⟩" in page.text and "{{ 7 * 7 }}" in page.text
    assert "<b>Judge</b> ⟨U+202E⟩" in page.text


def test_pages_are_closed_in(plain_run: Path, sparse_run: Path) -> None:
    for run in (plain_run, sparse_run):
        check_closed_in(page_of(run))


def test_pseudonyms_leave_no_name_anywhere(tmp_path: Path) -> None:
    names = ["Ada Lovelace", "grace", "Karen <Jones>", "emmy", "7"]
    table, log_probs = crowd(names=names)
    run = write_run(
        tmp_path / "run-of-grace", table, log_probs, trained=np.full((5, 1), 0.5), trajectory=np.full((3, 5, 1), 0.5),
        settings={"experts": ["Ada Lovelace"], "scorer": "emmy's own", "seed": 7},
        metrics={"warnings": ["Karen <Jones> labelled item i3 twice.", "2 rows were left out."]},
    )  # fmt: skip
    open_page, page = page_of(run), page_of(run, pseudonymise=True)
    for name in ("Ada Lovelace", "grace", "Karen", "emmy"):
        assert name in open_page.source
        assert name not in page.source
    assert sorted(page.data["names"]) == [f"Annotator {place}" for place in range(1, 6)]
    assert "2 rows were left out." in page.text and "labelled item i3" not in page.text
    assert "Seed 7" in page.text


def test_names_that_the_texts_hold_are_reported(tmp_path: Path) -> None:
    table, log_probs = crowd(names=["alice", "bob", "carol", "dave", "eve"], texts=["thanks to alice"] * 80)
    page = page_of(write_run(tmp_path / "run", table, log_probs), pseudonymise=True)
    assert "1 annotator name also occurs in the items' own texts" in page.text


def test_what_it_rests_on_is_said(plain_run: Path, sparse_run: Path, tmp_path: Path) -> None:
    plain, sparse = page_of(plain_run).text, page_of(sparse_run).text
    for page in (plain, sparse):
        assert "no ground for paying, promoting, punishing or dismissing" in page
        assert "A minority view looks like unreliability" in page
        assert "In-sample" in page and "not used: neither training" in page
    assert "Relative values" in sparse and "Relative values" not in plain
    assert "Two options" in sparse and "Two options" not in plain
    assert "If the model were as accurate as it claims" in sparse
    assert "is not the one with the most votes" not in sparse
    table, log_probs = crowd()
    gold = np.where(np.arange(80) < 20, table.label[table.offsets[:-1]], -1).astype(np.int32)
    with_gold = replace(table, gold=gold)
    run = write_run(
        tmp_path / "gold", with_gold, log_probs, found=estimate(table, np.exp(log_probs), gold=gold), gold_used=True,
        folds=5, temperature=1.43,
    )  # fmt: skip
    page = page_of(run).text
    assert "Each item was judged by a model that was trained without it." in page and "In-sample" not in page
    assert "used: where it is known it decides" in page and "Compared with gold, the model" in page
    assert "1.43: the model's probabilities were softened" in page
    in_sample = write_run(
        tmp_path / "seen", with_gold, log_probs, found=estimate(table, np.exp(log_probs), gold=gold), gold_used=True
    )
    assert "Compared with gold, the model" not in page_of(in_sample).text, "the model was trained on that gold"


def test_a_table_without_room_leaves_out_those_with_the_fewest_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not those at the end of the ranking, who are looked for."""
    table, log_probs, _ = large(400, 60, 3)
    few = (table.annotator >= 30) & (np.arange(len(table.annotator)) % 4 > 0)
    table = table.keep_annotations(~few)
    run = write_run(tmp_path / "run", table, log_probs, found=estimate(table, np.exp(log_probs)))
    monkeypatch.setattr(annotator_table, "ROWS_BYTES", 2500)
    data = read_run(run)
    table_rows = annotator_table.rows(data)
    kept, left_out = json.loads(table_rows.json), table_rows.left_out
    shown, counts = kept["n"], np.sort(data.estimate.annotations[data.estimate.annotations > 0])[::-1]
    assert 0 < left_out == len(counts) - len(shown) and sorted(shown, reverse=True) == counts[: len(shown)].tolist()
    assert kept["accuracy"] == sorted(kept["accuracy"], reverse=True)


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


def test_the_items_judged_in_sample_are_counted(tmp_path: Path) -> None:
    table, log_probs = crowd()
    first = np.zeros(table.n_annotations, dtype=bool)
    first[table.offsets[:-1]] = True
    mixed = table.keep_annotations(first | (table.item >= 7))
    data = read_run(write_run(tmp_path / "run", mixed, log_probs))
    partly = replace(data, metrics={**data.metrics, "probabilities": "agreement alone, in-sample with one label"})
    page = Page(render(partly)).text
    assert "7 of 80 items have one label: they are judged by a model that was trained on that label" in page
    assert "Items with several labels rest on agreement alone." in page
    assert "it judges items with one label only" in page
    assert "The model that judges these labels was trained on them" in Page(render(data)).text


@pytest.mark.parametrize(("sure", "word"), [(0.8, "well calibrated"), (0.6, "underconfident"), (0.95, "overconfident")])
def test_calibration_is_said_in_one_way(sure: float, word: str) -> None:
    one = np.ones(1)
    text = calibration_text(Calibration(sure * one, 0.8 * one, one, "annotators", 0.8, 0.8))
    assert f"the model is {word}" in text
    assert ("never sharpened" in text) == (word == "underconfident")


def test_what_stands_between_backticks_is_code_and_escaped() -> None:
    assert coded("with `exclude`, <b>`<i>`") == "with <code>exclude</code>, &lt;b&gt;<code>&lt;i&gt;</code>"
    assert coded("one ` alone") == "one ` alone"


def test_disagreements_show_texts_votes_and_whom_the_label_follows(plain_run: Path) -> None:
    page, data = page_of(plain_run), read_run(plain_run)
    favourite = data.model_probs.argmax(axis=1)
    rows = np.arange(150)
    apart = np.flatnonzero(data.votes.max(axis=1) > data.votes[rows, favourite])
    assert f"On {len(apart)} items" in page.text
    listed = page.source.split('id="apart-list"')[1].split("</ul>")[0]
    assert listed.count("<li ") == len(apart)
    for item in apart:
        assert f"review number {item}</p>" in listed
    followed = (data.labels[apart] == favourite[apart]).sum()
    assert listed.count("as the model") == followed


def test_expertise_during_training_is_drawn_for_the_right_annotators(plain_run: Path) -> None:
    """The annotators are not in the order in which the table meets them; names and verdicts must not be mixed up."""
    data = read_run(plain_run)
    assert data.trajectory is not None and data.trained is not None
    np.testing.assert_allclose(data.trajectory.columns["expertise_trained"][-1], data.trained, atol=1e-6)
    people = pd.read_csv(plain_run / "expertise.csv").set_index("annotator")["expertise_trained"]
    page = page_of(plain_run)
    for name, value in people.items():
        assert f"<title>{name}: {value:.2f}</title>" in page.source


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


def test_one_annotator_makes_a_page(tmp_path: Path) -> None:
    table, log_probs = crowd(accuracies=(0.9,), per_item=1, n_items=12)
    page = page_of(write_run(tmp_path / "run", table, log_probs))
    assert "There is one annotator, so there is nobody to compare with." in page.text


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


def test_a_damaged_run_is_refused(tmp_path: Path) -> None:
    table, log_probs = crowd(n_items=20)
    run = write_run(tmp_path / "run", table, log_probs)
    with pytest.raises(RealmError, match="name a file"):
        write_report(run, output=tmp_path)
    names = (run / "annotators.json").read_text()
    (run / "annotators.json").write_text(names.replace("worker-0", "worker-9"))
    with pytest.raises(RealmError, match=r"annotators\.json was changed or damaged"):
        write_report(run)
    (run / "annotators.json").unlink()
    with pytest.raises(RealmError, match=r"annotators\.json is missing"):
        write_report(run)
    (run / "manifest.json").unlink()
    with pytest.raises(RealmError, match="did not finish"):
        write_report(run)


def test_five_thousand_annotators_and_a_hundred_thousand_items_stay_small() -> None:
    table, log_probs, accuracy = large(per_item=3)
    found = crowded_estimate(table, log_probs, accuracy)
    moving = Trajectory(np.arange(50), {"expertise_trained": np.random.default_rng(0).random((50, 5_000, 1))})
    trained = np.clip(found.expertise, 0, 1)
    data = RunData("large", {}, {}, {}, table, log_probs, found, trained=trained, trajectory=moving)
    page = Page(render(data))
    assert len(page.source.encode()) < 2_600_000
    details = page.data["details"]
    assert len(details) == 5_000 and 100 < sum(entry is not None for entry in details) < 2_000
    assert f"{details.count(None):,} annotators with the fewest labels have no details" in page.text
    assert len(page.data["who"]) == 5_000 and "5,000 annotators gave" in page.text
    assert page.source.split('id="apart-list"')[1].split("</ul>")[0].count("<li ") == 200


def test_very_long_names_and_many_tasks_do_not_burst_the_page(tmp_path: Path) -> None:
    names = [f"{'<&>' * 40}{i}" for i in range(4_000)]
    rng = np.random.default_rng(0)
    rows = {
        "item": np.repeat(np.arange(4_000), 2).astype(str),
        "annotator": [names[i] for i in rng.permutation(8_000) % 4_000],
    }
    frame = pd.DataFrame({**rows, "text": rows["item"], "label": rng.choice(["a", "b"], 8_000)})
    table = Annotations.from_pandas(frame.assign(task=[f"t{int(i) % 8}" for i in frame["item"]]))
    found = known_estimate(table, coins(np.full(4_000, 0.9), 2))
    n = found.annotations
    page = Page(render(RunData("long", {}, {}, {}, table, np.log(np.full((4_000, 2), 0.5)), found)))
    assert len(page.source.encode()) < 3_000_000
    assert (
        f"{(n > 0).sum() - len(page.data['who']):,} more, those with the fewest labels, are not in this file"
        in page.text
    )


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
    assert data.trajectory is not None and len(data.trajectory.steps) >= 6
    np.testing.assert_allclose(data.labels, made.estimate().posterior.argmax(axis=1))
    assert "3 annotators gave 144 labels to 48 items in 3 tasks" in page.text
    assert "Learning curve" in page.text and "How expertise was learned" in page.text
    assert f"The model is right on {data.metrics['test']['accuracy']:.1%} of the items" in page.text
    Run.open(tmp_path / "run")


def test_habits_dependence_agreement_and_copies_are_told_in_words() -> None:
    """Two judges who nearly always say `toxic`, and four who read, each with two copies."""
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=600)
    read = rng.random((600, 6)) < np.array([0.2, 0.2, 0.6, 0.7, 0.75, 0.65])
    guess = np.where(np.arange(6) < 2, rng.random((600, 6)) < 0.95, rng.random((600, 6)) < 0.5).astype(int)
    label = np.where(read, truth[:, None], guess)[:, [0, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5]]
    rows = [(str(i), f"judge {a}", ["fine", "toxic"][label[i, a]]) for i in range(600) for a in range(14)]
    table = Annotations.from_pandas(pd.DataFrame(rows, columns=["text", "annotator", "label"]))
    log_probs = np.log(np.full((600, 2), 0.5))
    page = Page(render(RunData("judges", {}, {}, {}, table, log_probs, estimate(table, np.exp(log_probs)))))
    assert "of the time when not answering from the item" in page.text and "answers “toxic” 9" in page.text
    assert "Annotators make the same mistakes: 14 annotators per item are worth about " in page.text
    assert sum(words != "" for words in page.data["habit"]) == 2
    assert "Agreement (Krippendorff's alpha): 0." in page.text and "1 is full agreement, 0 what chance" in page.text
    assert "The labels of 12 annotators show a pattern" in page.text
    notes = {page.data["names"][who]: words for who, words in zip(page.data["who"], page.data["notes"], strict=True)}
    assert (notes["judge 0"], notes["judge 1"]) == ("", "")
    assert notes["judge 2"].startswith("gives the same labels as “judge 3” on 100% of 600 shared items")


def test_without_anything_to_note_there_is_no_column_of_notes(plain_run: Path) -> None:
    page = Page(write_report(plain_run).read_text(encoding="utf-8"))
    assert "notes" not in page.data and "show a pattern" not in page.text
    assert "Agreement (Krippendorff's alpha): " in page.text


def test_pseudonyms_hide_whom_somebody_copies() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=300)
    label = np.where(rng.random((300, 6)) < 0.75, truth[:, None], 1 - truth[:, None])[:, [0, 0, 1, 2, 3, 4, 5]]
    names = ["zoe", "yan", "xia", "wim", "vic", "una", "tom"]
    rows = [(f"text {i}", names[a], ["no", "yes"][label[i, a]]) for i in range(300) for a in range(7)]
    table = Annotations.from_pandas(pd.DataFrame(rows, columns=["text", "annotator", "label"]))
    log_probs = np.log(np.full((300, 2), 0.5))
    data = RunData("run", {}, {}, {}, table, log_probs, estimate(table, np.exp(log_probs)))
    assert "gives the same labels as “yan”" in render(data)
    hidden = render(data, pseudonymise=True)
    assert "gives the same labels as “Annotator" in hidden and "yan" not in Page(hidden).text
