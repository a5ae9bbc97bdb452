"""The data sets: from the plain form, files of the published shapes, rows as the hub has them, and the real ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from realm import RealmError, Task
from realm_lab import load_benchmark
from realm_lab.datasets import EKMAN, EMOTIONS

FOUR = ["dry palms", "wet palms", "oil", "lotion"]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """A hub of the rows that a test puts into it, by id and split (for GoEmotions by configuration, too)."""
    import datasets

    rows: dict[Any, list[dict[str, Any]]] = {}

    def load(name: str, config: str | None = None, *, split: str, revision: str | None = None) -> datasets.Dataset:
        assert (revision == "refs/convert/parquet") == (name in ("ybisk/piqa", "INK-USC/riddle_sense"))
        found = rows.get((name, split)) or rows.get((name, f"{config} {split}"))
        if found is None:
            raise datasets.exceptions.DatasetNotFoundError(f"Dataset '{name}' doesn't exist on the Hub")
        return datasets.Dataset.from_list(found)

    monkeypatch.setattr(datasets, "load_dataset", load)
    return rows


def annotated(table: Any) -> list[tuple[str, str, str]]:
    frame = table.to_pandas()
    return list(zip(frame["item"], frame["annotator"], frame["label"], strict=True))


def asked(name: str, text: str, options: list[str], key: str, letters: str = "ABCDE") -> dict[str, Any]:
    """A row of ARC or RiddleSense on the hub."""
    choices = {"text": options, "label": list(letters[: len(options)])}
    return {"id": name, "question": text, "choices": choices, "answerKey": key}


def test_questions_of_the_hub_have_the_options_of_the_set_and_an_answer(hub) -> None:
    rows = [
        asked("Mercury_SC_415702", "Which produces the most heat?", FOUR, "A"),
        asked("MCAS_2000_4_6", "Which is the most recent?", FOUR, "4", letters="1234"),
        asked("NYSEDREGENTS_1", "Which is a mammal?", FOUR[:3], "B"),
        asked("hidden", "Which?", FOUR, ""),
        asked("blank", "Which?", [*FOUR[:3], " "], "A"),
    ]
    hub["allenai/ai2_arc", "train"] = hub["allenai/ai2_arc", "test"] = rows
    made = load_benchmark("arc")
    assert made.train.item_ids.to_pylist() == ["Mercury_SC_415702", "MCAS_2000_4_6"]
    assert made.train.gold.tolist() == [0, 3] and made.train.options_of(0) == FOUR
    assert made.train.n_annotations == 0 and made.train.tasks[0].name == "arc"


def test_piqa_and_a_hub_that_cannot_be_reached(hub) -> None:
    goal = {"goal": "To pry", "sol1": "claw", "sol2": "blunt"}
    hub["ybisk/piqa", "train"] = [{**goal, "label": 0}]
    hub["ybisk/piqa", "validation"] = [{**goal, "label": 1}, {**goal, "label": -1}]
    made = load_benchmark("piqa")
    assert (made.train.gold.tolist(), made.test.gold.tolist()) == ([0], [1])
    with pytest.raises(RealmError, match=r"allenai/openbookqa, split train: .*doesn't exist.*Name a folder"):
        load_benchmark("obqa")


def test_riddlesense_tests_on_510_whatever_their_order(hub) -> None:
    riddles = [asked(f"riddle-{n}", f"What am I, {n}?", ["a", "b", "c", "d", "e"], "E") for n in range(1041)]
    hub["INK-USC/riddle_sense", "train"] = riddles[:20]
    hub["INK-USC/riddle_sense", "validation"] = riddles[20:]
    first = load_benchmark("riddlesense")
    hub["INK-USC/riddle_sense", "validation"] = riddles[:19:-1]
    again = load_benchmark("riddlesense")
    assert first.test.n_items == 510
    assert set(first.test.item_ids.to_pylist()) == set(again.test.item_ids.to_pylist())


def test_pubmedqa_is_split_as_its_authors_do(hub) -> None:
    hub["qiaojin/PubMedQA", "train"] = [
        {"pubid": name, "question": "Do mitochondria play a role?", "context": {"contexts": ["First.", "Second."]},
         "final_decision": decision}
        for name, decision in ((21645374, "yes"), (12377809, "maybe"), (1, "no"), (2, "maybe"))
    ]  # fmt: skip
    made = load_benchmark("pubmedqa")
    assert made.train.item_ids.to_pylist() == ["1", "2"]
    assert made.test.item_ids.to_pylist() == ["21645374", "12377809"]
    assert made.train.tasks[0].labels == ("yes", "no", "maybe") and made.train.gold.tolist() == [1, 2]
    assert made.train.items.contexts[0].as_py() == "First. Second."


def write_comments(folder: Path, prefix: str, column: str, comments: dict[str, tuple[str, str]], given: Any) -> None:
    rows = [{"rev_id": name, "comment": text, "split": split} for name, (text, split) in comments.items()]
    pd.DataFrame(rows).to_csv(folder / f"{prefix}_annotated_comments.tsv", sep="\t", index=False)
    votes = [
        {"rev_id": f"{name}.0", "worker_id": f"{worker}.0", column: float(value)}
        for name, values in given.items()
        for worker, value in enumerate(values, 1362)
    ]
    pd.DataFrame(votes).to_csv(folder / f"{prefix}_annotations.tsv", sep="\t", index=False)
    (folder / "test").touch()


def test_wikiattack(tmp_path: Path) -> None:
    comments = {
        "37675": ("`-NEWLINE_TOKENThis is not ``creative``.TAB_TOKENReally  ", "train"),
        "44816": ("you are an idiot", "train"),
        "49851": ("tied", "train"),
        "50000": ("go away", "test"),
        "50001": ("tied too", "test"),
        "50002": ("left to the dev split", "dev"),
    }
    given = {"37675": (0, 0, 1), "44816": (1, 1, 0), "49851": (0, 1), "50000": (1, 1, 1), "50001": (0, 1), "50002": [0]}
    write_comments(tmp_path, "attack", "attack", comments, given)
    made = load_benchmark("wikiattack", tmp_path)
    assert made.train.texts[0].as_py() == "`-\nThis is not ``creative``.\tReally"
    assert made.train.tasks[0].labels == ("personal attack", "not a personal attack")
    assert annotated(made.train)[1:3] == [
        ("37675", "1363", "not a personal attack"),
        ("37675", "1364", "personal attack"),
    ]
    assert made.train.gold.tolist() == [1, 0, -1]
    assert made.test.item_ids.to_pylist() == ["50000"] and made.test.gold.tolist() == [0]


def test_wikitoxicity_scores_are_three_classes(tmp_path: Path) -> None:
    comments = {"2232": ("One", "train"), "4216": ("Two", "test"), "9": ("", "test")}
    given = {"2232": (-2, -1, 0, 1, 2, -1), "4216": (1, 2, 0), "9": [0]}
    write_comments(tmp_path, "toxicity", "toxicity_score", comments, given)
    made = load_benchmark("wikitoxicity", tmp_path)
    assert made.train.label.tolist() == [0, 0, 1, 2, 2, 0]
    assert (made.train.gold.tolist(), made.test.gold.tolist()) == ([0], [2])


def test_sentpolarity_tests_on_the_sentences_that_nobody_labelled(tmp_path: Path) -> None:
    columns = ["WorkerId", "Input.id", "Input.original_sentence", "Input.true_sent", "Answer.sent"]
    rows = [
        ["A1NF6PELRKACS9", 4518, "the cast is phenomenal . ", "pos", "pos"],
        ["A20X6BNV2BMGKU", 4518, "the cast is phenomenal . ", "pos", "neg"],
        ["A1NF6PELRKACS9", 10415, "the viewer is left puzzled .", "neg", "neg"],
    ]
    (tmp_path / "sentpolarity").mkdir()
    pd.DataFrame(rows, columns=columns).to_csv(tmp_path / "sentpolarity" / "mturk_answers.csv", index=False)
    folder = tmp_path / "sentpolarity"
    (folder / "rt-polarity.pos").write_bytes("the cast is phenomenal . \nclich\xe9 \n\n".encode("cp1252"))
    (folder / "rt-polarity.neg").write_bytes(b"the viewer is left puzzled . \ndull \ndull \n")
    made = load_benchmark("sentpolarity", tmp_path)
    assert annotated(made.train)[:2] == [
        ("4518", "A1NF6PELRKACS9", "positive"),
        ("4518", "A20X6BNV2BMGKU", "negative"),
    ]
    assert made.train.gold.tolist() == [1, 0] and made.instruction
    assert sorted(zip(made.test.texts.to_pylist(), made.test.gold.tolist(), strict=True)) == [
        ("clich\xe9", 1),
        ("dull", 0),
    ]


def test_go_emotions_keeps_ratings_of_one_class(hub) -> None:
    def rating(name: str, rater: int, *emotions: str, unclear: bool = False) -> dict[str, Any]:
        about = {"id": name, "rater_id": rater, "example_very_unclear": unclear}
        return about | {emotion: int(emotion in emotions) for emotion in EMOTIONS}

    name = "google-research-datasets/go_emotions"
    hub[name, "raw train"] = [
        rating("eew5j0j", 1, "sadness"), rating("eew5j0j", 37, "anger", "annoyance"),
        rating("eew5j0j", 18, "joy", "sadness"), rating("eew5j0j", 2, unclear=True), rating("eew5j0j", 3),
        rating("eemcysk", 37, "neutral"), rating("ed0a1b2", 1, "love"),
    ]  # fmt: skip
    train = [("That game hurt.", [25], "eew5j0j"), ('Say "hi"', [27], "eemcysk"), ("Unrated", [17], "ezzzzzz")]
    test = [("I love it", [0, 18], "ed0a1b2"), ("Mixed", [2, 17], "ed0a1b3")]
    for split, lines in (("train", train), ("test", test)):
        hub[name, f"simplified {split}"] = [{"text": t, "labels": n, "id": i} for t, n, i in lines]
    made = load_benchmark("goemotions")
    assert annotated(made.train) == [
        ("eew5j0j", "1", "sadness"),
        ("eew5j0j", "37", "anger"),
        ("eemcysk", "37", "neutral"),
    ]
    assert made.train.gold.tolist() == [4, 6]
    assert (made.test.texts.to_pylist(), made.test.gold.tolist()) == (["I love it"], [3])
    assert sorted(emotion for emotions in EKMAN.values() for emotion in emotions) == sorted(EMOTIONS)


def test_cebab_is_four_tasks_whose_gold_is_what_the_editor_meant(hub) -> None:
    def review(name: str, edited: str | None, goal: str | None, **answers: Any) -> dict[str, Any]:
        made = {"id": name, "is_original": str(edited is None), "edit_goal": goal, "edit_type": edited}
        given = {f"{each}_aspect_validation_workers": str(answers.get(each, "")) for each in SETS_ASPECTS}
        return {**made, "description": f"Review {name}.", **given}

    hub["CEBaB/CEBaB", "train_exclusive"] = [
        review("000000", None, None, service={"w148": "Negative", "w120": "unknown"}),
        review("000011", "food", "Positive", food={"w148": "Positive"}, noise={"w9": "unknown"}),
    ]
    hub["CEBaB/CEBaB", "validation"] = [review("000012", "noise", "Negative", noise={"w9": "Negative"})]
    hub["CEBaB/CEBaB", "test"] = [
        review("000013", "service", "unknown", service={"w9": "unknown"}, food={"w1": "Positive"})
    ]
    made = load_benchmark("cebab")
    assert annotated(made.train) == [
        ("000000/service", "w148", "negative"), ("000000/service", "w120", "unknown"),
        ("000011/food", "w148", "positive"), ("000011/noise", "w9", "unknown"), ("000012/noise", "w9", "negative"),
    ]  # fmt: skip
    assert made.train.gold.tolist() == [-1, 1, -1, 0]
    assert made.test.item_ids.to_pylist() == ["000013/service"] and made.test.gold.tolist() == [2]
    assert made.test.texts[0].as_py() == "What does the review say about the service?"
    assert made.test.items.contexts[0].as_py() == "Review 000013."


SETS_ASPECTS = ("food", "service", "ambiance", "noise")


def test_civilcomments_has_a_column_for_each_judge(tmp_path: Path) -> None:
    (tmp_path / "panel.csv").write_text(
        "item,text,gold,judge-a,judge-b\n1,well said,fine,fine,\n2,fool,toxic,toxic,fine\n"
    )
    (tmp_path / "test.csv").write_text("item,text,gold\n3,idiot,toxic\n4,thanks,fine\n")
    found = load_benchmark("civilcomments", tmp_path)
    assert annotated(found.train) == [("1", "judge-a", "fine"), ("2", "judge-a", "toxic"), ("2", "judge-b", "fine")]
    assert found.train.gold.tolist() == [0, 1] and found.test.gold.tolist() == [1, 0]


def test_any_folder_in_the_plain_form_is_a_benchmark(tmp_path: Path) -> None:
    for name in ("wikitoxicity", "reviews"):
        (tmp_path / name).mkdir()
        rows = "item,text,annotator,label,gold\n1,ugh,w1,toxic,healthy\n3,hi,w1,healthy,\n"
        (tmp_path / name / "annotations.csv").write_text(rows)
        (tmp_path / name / "test.csv").write_text("item,text,gold\n2,hm,healthy\n")
    made = load_benchmark("wikitoxicity", tmp_path)
    assert made.train.tasks == made.test.tasks == (Task("wikitoxicity", ("toxic", "neutral", "healthy")),)
    own = load_benchmark("reviews", tmp_path)
    assert own.train.tasks == (Task("reviews", ("healthy", "toxic")),) and own.instruction is None
    (tmp_path / "obqa").mkdir()
    for half in ("train", "test"):
        record = {"id": half, "question": "What?", "choices": FOUR, "answer": 2}
        (tmp_path / "obqa" / f"{half}.jsonl").write_text(json.dumps(record) + "\n")
    assert load_benchmark("obqa", tmp_path).train.gold.tolist() == [2]


@pytest.mark.parametrize("name", ["wikiattack", "sentpolarity", "civilcomments", "reviews"])
def test_sets_without_a_hub_id_ask_for_a_folder_and_its_files(name: str, tmp_path: Path) -> None:
    with pytest.raises(RealmError, match="name a folder"):
        load_benchmark(name)
    with pytest.raises(RealmError, match=f"{name}/.*no such table.*benchmarks.md"):
        load_benchmark(name, tmp_path)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "items", "annotators", "annotations", "test"),
    [("arc", 1117, 0, 0, 1165), ("obqa", 4957, 0, 0, 500), ("piqa", 1338, 0, 0, 500), ("pubmedqa", 450, 0, 0, 500),
     ("sentpolarity", 4999, 203, 27746, 5434), ("cebab", 10053, 175, 50305, 1417),
     ("civilcomments", 3498, 24, 83952, 1498)],
)  # fmt: skip
def test_the_real_sets(name: str, items: int, annotators: int, annotations: int, test: int, shared_data: Path) -> None:
    made = load_benchmark(name, shared_data)
    assert (made.train.n_items, made.train.n_annotators, made.test.n_items) == (items, annotators, test)
    if name == "sentpolarity":
        pool = made.train.contrast(20, 100)
        assert (pool.n_annotators, pool.n_items, pool.n_annotations) == (40, 4983, 18037)
    if name != "civilcomments":
        assert made.train.n_annotations == annotations
    assert made.test.gold is not None and (made.test.gold >= 0).all()
