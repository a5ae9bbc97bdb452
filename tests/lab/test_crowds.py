"""The sets with real annotators, from files made in exactly the published shapes, and the real ones in plain form."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from realm import RealmError, Task
from realm.scorers.prompts import PromptStyle, render
from realm_lab import load_benchmark
from realm_lab.datasets.crowds import EKMAN, EMOTIONS, NONE, SEVERAL, UNCLEAR


def write_table(path: Path, rows: list[list[object]], delimiter: str = ",") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter, lineterminator="\n").writerows(rows)


def annotated(table: Any) -> list[tuple[str, str, str]]:
    frame = table.to_pandas()
    return list(zip(frame["item"], frame["annotator"], frame["label"], strict=True))


# -------------------------------------------------------------------- Wikipedia talk pages

COMMENT_COLUMNS = ["rev_id", "comment", "year", "logged_in", "ns", "sample", "split"]


def write_comments(folder: Path, prefix: str, comments: dict[str, tuple[str, str]]) -> None:
    rows: list[list[object]] = [
        [name, text, 2002, False, "article", "random", s] for name, (text, s) in comments.items()
    ]
    write_table(folder / f"{prefix}_annotated_comments.tsv", [COMMENT_COLUMNS, *rows], "\t")


ATTACK_COLUMNS = [
    "rev_id", "worker_id", "quoting_attack", "recipient_attack", "third_party_attack", "other_attack", "attack",
]  # fmt: skip


def test_wikiattack(tmp_path: Path) -> None:
    comments = {
        "37675": ("`-NEWLINE_TOKENThis is not ``creative``.TAB_TOKENReally  ", "train"),
        "44816": ("you are an idiot", "train"),
        "49851": ("tied", "train"),
        "50000": ("go away", "test"),
        "50001": ("tied too", "test"),
        "50002": ("left to the dev split", "dev"),
    }
    write_comments(tmp_path / "attack", "attack", comments)
    said = {"37675": (0, 0, 1), "44816": (1, 1, 0), "49851": (0, 1), "50000": (1, 1, 1), "50001": (0, 1), "50002": (0,)}
    rows: list[list[object]] = [
        [f"{name}.0", f"{worker}.0", 0.0, float(attack), 0.0, 0.0, float(attack)]
        for name, attacks in said.items()
        for worker, attack in enumerate(attacks, 1362)
    ]
    write_table(tmp_path / "attack" / "attack_annotations.tsv", [ATTACK_COLUMNS, *rows], "\t")
    made = load_benchmark("wikiattack", tmp_path)
    assert made.contrast == 150
    assert made.train.texts[0].as_py() == "`-\nThis is not ``creative``.\tReally"
    assert made.train.tasks[0].labels == ("personal attack", "not a personal attack")
    assert annotated(made.train)[:3] == [
        ("37675", "1362", "not a personal attack"),
        ("37675", "1363", "not a personal attack"),
        ("37675", "1364", "personal attack"),
    ]
    assert made.train.item_ids.to_pylist() == ["37675", "44816", "49851"]
    assert made.train.gold is not None
    assert made.train.gold.tolist() == [1, 0, -1]
    assert made.test.item_ids.to_pylist() == ["50000"]
    assert made.test.gold is not None
    assert made.test.gold.tolist() == [0]


def test_wikitoxicity_scores_are_three_classes(tmp_path: Path) -> None:
    write_comments(tmp_path, "toxicity", {"2232": ("One", "train"), "4216": ("Two", "test"), "9": ("", "test")})
    scores = {"2232": (-2.0, -1.0, 0.0, 1.0, 2.0, -1.0), "4216": (1.0, 2.0, 0.0), "9": (0.0,)}
    rows: list[list[object]] = [
        [f"{name}.0", worker, int(score < 0), score]
        for name, given in scores.items()
        for worker, score in enumerate(given)
    ]
    columns: list[object] = ["rev_id", "worker_id", "toxicity", "toxicity_score"]
    write_table(tmp_path / "toxicity_annotations.tsv", [columns, *rows], "\t")
    made = load_benchmark("wikitoxicity", tmp_path)
    assert made.train.tasks[0].labels == ("toxic", "neutral", "healthy")
    assert made.train.label.tolist() == [0, 0, 1, 2, 2, 0]
    assert made.train.gold is not None
    assert made.test.gold is not None
    assert (made.train.gold.tolist(), made.test.gold.tolist()) == ([0], [2])


def test_wikiattack_with_half_of_its_files(tmp_path: Path) -> None:
    write_comments(tmp_path, "attack", {"1": ("One", "train")})
    with pytest.raises(RealmError, match=r"no attack_annotations\.tsv in"):
        load_benchmark("wikiattack", tmp_path)
    write_table(tmp_path / "attack_annotations.tsv", [["rev_id", "worker_id"], [1, 2]], "\t")
    with pytest.raises(RealmError, match="no column attack"):
        load_benchmark("wikiattack", tmp_path)
    write_table(tmp_path / "attack_annotations.tsv", [["rev_id", "worker_id", "attack"], [1, 2, "no"]], "\t")
    with pytest.raises(RealmError, match="row 1: 'attack' is not a number"):
        load_benchmark("wikiattack", tmp_path)
    write_table(tmp_path / "attack_annotations.tsv", [["rev_id", "worker_id", "attack"], [1, 2, "1.0"]], "\t")
    with pytest.raises(RealmError, match="1 annotations for training and 0 test items"):
        load_benchmark("wikiattack", tmp_path)


@pytest.mark.parametrize("name", ["wikiattack", "wikitoxicity", "sentpolarity"])
def test_sets_without_a_hub_id_ask_for_a_folder(name: str) -> None:
    with pytest.raises(RealmError, match="Give a folder with"):
        load_benchmark(name)


# -------------------------------------------------------------------- SentPolarity


def test_sentpolarity_tests_on_the_sentences_that_nobody_labelled(tmp_path: Path) -> None:
    columns: list[object] = [
        "WorkerId", "Input.id", "Input.original_sentence", "Input.stemmed_sentence", "Input.true_sent", "Answer.sent",
    ]  # fmt: skip
    rows: list[list[object]] = [
        ["A1NF6PELRKACS9", 4518, "the cast is phenomenal , especially the women . ", "cast phenomen", "pos", "pos"],
        ["A20X6BNV2BMGKU", 4518, "the cast is phenomenal , especially the women . ", "cast phenomen", "pos", "neg"],
        ["A1NF6PELRKACS9", 10415, "too often , the viewer is left puzzled .", "often", "neg", "neg"],
    ]
    write_table(tmp_path / "sentpolarity" / "mturk_answers.csv", [columns, *rows])
    data = tmp_path / "sentpolarity" / "rt-polaritydata"
    data.mkdir()
    (data / "rt-polarity.pos").write_bytes(
        "the cast is phenomenal , especially the women . \nclich\xe9 \n\n".encode("cp1252")
    )
    (data / "rt-polarity.neg").write_bytes(b"too often , the viewer is left puzzled . \ndull \ndull \n")
    made = load_benchmark("sentpolarity", tmp_path)
    assert annotated(made.train)[:2] == [
        ("4518", "A1NF6PELRKACS9", "positive"),
        ("4518", "A20X6BNV2BMGKU", "negative"),
    ]
    assert made.train.gold is not None
    assert made.test.gold is not None
    assert made.train.gold.tolist() == [1, 0]
    assert sorted(zip(made.test.texts.to_pylist(), made.test.gold.tolist(), strict=True)) == [
        ("clich\xe9", 1),
        ("dull", 0),
    ]
    assert (made.contrast, made.train.tasks[0].labels) == (20, ("negative", "positive"))


def test_sentpolarity_with_a_file_that_is_another(tmp_path: Path) -> None:
    write_table(tmp_path / "mturk_answers.csv", [["WorkerId", "text"], ["A1", "x"]])
    with pytest.raises(RealmError, match=r"mturk_answers.csv: no column Input.id"):
        load_benchmark("sentpolarity", tmp_path)


# -------------------------------------------------------------------- GoEmotions


def rating(name: str, rater: int, *emotions: str, unclear: bool = False) -> dict[str, Any]:
    said: dict[str, Any] = {
        "text": "That game hurt.", "id": name, "author": "Brdd9", "subreddit": "nrl", "link_id": "t3_ajis4z",
        "parent_id": "t1_eew18eq", "created_utc": 1548381039.0, "rater_id": rater, "example_very_unclear": unclear,
    }  # fmt: skip
    return said | {emotion: int(emotion in emotions) for emotion in EMOTIONS}


RATINGS = [
    rating("eew5j0j", 1, "sadness"),
    rating("eew5j0j", 37, "anger", "annoyance"),
    rating("eew5j0j", 18, "joy", "sadness"),
    rating("eew5j0j", 2, unclear=True),
    rating("eew5j0j", 3),
    rating("eemcysk", 37, "neutral"),
    rating("ed0a1b2", 1, "love"),
]
PUBLISHED = {
    "train": [("That game hurt.", [25], "eew5j0j"), ('Say "hi"', [27], "eemcysk"), ("Unrated", [17], "ezzzzzz")],
    "test": [("I love it", [0, 18], "ed0a1b2"), ("Mixed", [2, 17], "ed0a1b3")],
}


def test_go_emotions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    columns = list(RATINGS[0])
    for part, rows in ((1, RATINGS[:4]), (2, RATINGS[4:5]), (3, RATINGS[5:])):
        write_table(tmp_path / "full_dataset" / f"goemotions_{part}.csv", [columns, *([*r.values()] for r in rows)])
    for split, lines in PUBLISHED.items():
        text = "".join(f"{text}\t{','.join(map(str, numbers))}\t{name}\n" for text, numbers, name in lines)
        (tmp_path / f"{split}.tsv").write_text(text, encoding="utf-8")

    def load(name: str, config: str, *, split: str, revision: str | None = None) -> datasets.Dataset:
        assert name == "google-research-datasets/go_emotions"
        if config == "raw":
            return datasets.Dataset.from_list(RATINGS)
        rows = [{"text": text, "labels": numbers, "id": name} for text, numbers, name in PUBLISHED[split]]
        return datasets.Dataset.from_list(rows)

    monkeypatch.setattr(datasets, "load_dataset", load)
    for made in (load_benchmark("goemotions", tmp_path), load_benchmark("goemotions")):
        assert annotated(made.train) == [
            ("eew5j0j", "1", "sadness"),
            ("eew5j0j", "37", "anger"),
            ("eemcysk", "37", "neutral"),
        ]
        assert made.train.tasks[0].labels == ("anger", "disgust", "fear", "joy", "sadness", "surprise", "neutral")
        assert made.train.gold is not None
        assert made.test.gold is not None
        assert made.train.gold.tolist() == [4, 6]
        assert made.train.texts.to_pylist() == ["That game hurt.", 'Say "hi"']
        assert (made.test.texts.to_pylist(), made.test.gold.tolist()) == (["I love it"], [3])
        assert made.train.ledger.counts == {UNCLEAR: 1, NONE: 1, SEVERAL: 1}
        assert made.contrast == 10


def test_every_emotion_has_one_class() -> None:
    mapped = [emotion for emotions in EKMAN.values() for emotion in emotions]
    assert sorted(mapped) == sorted(EMOTIONS)
    assert len(EKMAN) == 7


def test_go_emotions_without_its_splits(tmp_path: Path) -> None:
    write_table(tmp_path / "goemotions_1.csv", [list(RATINGS[0]), *([*r.values()] for r in RATINGS)])
    with pytest.raises(RealmError, match=r"no train\.tsv"):
        load_benchmark("goemotions", tmp_path)
    (tmp_path / "train.tsv").write_text("That game hurt.\t28\teew5j0j\n")
    with pytest.raises(RealmError, match=r"train\.tsv, line 1: not a text"):
        load_benchmark("goemotions", tmp_path)


# -------------------------------------------------------------------- CEBaB


def review(name: str, *, edited: str | None, goal: str | None, **answers: dict[str, str] | str) -> dict[str, Any]:
    made: dict[str, Any] = {
        "id": name, "original_id": name[:6], "edit_id": name[7:], "is_original": edited is None, "edit_goal": goal,
        "edit_type": edited, "edit_worker": None if edited is None else "w17", "description": f"Review {name}.",
        "review_majority": "2", "review_label_distribution": {"2": 4, "4": 1}, "review_workers": {"w168": "2"},
    }  # fmt: skip
    for aspect in ("food", "ambiance", "service", "noise"):
        made[f"{aspect}_aspect_majority"] = ""
        made[f"{aspect}_aspect_label_distribution"] = ""
        made[f"{aspect}_aspect_validation_workers"] = answers.get(aspect, "")
    return made


REVIEWS = {
    "train_exclusive": [
        review("000000_000000", edited=None, goal=None, service={"w148": "Negative", "w120": "unknown"}),
        review("000011_000005", edited="food", goal="Positive", food={"w148": "Positive"}, noise={"w9": "unknown"}),
    ],
    "dev": [review("000012_000001", edited="noise", goal="Negative", noise={"w9": "Negative"})],
    "test": [
        review("000013_000001", edited="service", goal="unknown", service={"w9": "unknown"}, food={"w1": "Positive"})
    ],
}


def test_cebab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    for split, reviews in REVIEWS.items():
        path = tmp_path / "CEBaB-v1.1" / f"{split}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps(one) + "\n" for one in reviews))

    def load(name: str, config: None, *, split: str, revision: None) -> datasets.Dataset:
        """The hub holds every object as text."""
        assert name == "CEBaB/CEBaB"
        reviews = REVIEWS[{"validation": "dev"}.get(split, split)]
        return datasets.Dataset.from_list([{k: v if v is None else str(v) for k, v in one.items()} for one in reviews])

    monkeypatch.setattr(datasets, "load_dataset", load)
    for made in (load_benchmark("cebab", tmp_path), load_benchmark("cebab")):
        assert annotated(made.train) == [
            ("000000_000000/service", "w148", "negative"),
            ("000000_000000/service", "w120", "unknown"),
            ("000011_000005/food", "w148", "positive"),
            ("000011_000005/noise", "w9", "unknown"),
            ("000012_000001/noise", "w9", "negative"),
        ]
        assert made.train.gold is not None
        assert made.train.gold.tolist() == [-1, 1, -1, 0]
        assert made.test.item_ids.to_pylist() == ["000013_000001/service"]
        assert made.test.gold is not None
        assert made.test.gold.tolist() == [2]
        _, text, context, options = next(iter(made.test.items))
        assert render(PromptStyle(), text, context, options) == (
            "Review 000013_000001.\nWhat does the review say about the service?\n"
            "a) negative\nb) positive\nc) unknown\nAnswer:"
        )


# -------------------------------------------------------------------- the plain form, and real data


def test_the_plain_form_of_an_annotated_set(tmp_path: Path) -> None:
    rows: list[list[object]] = [["item", "text", "annotator", "label", "gold"], ["1", "ugh", "w1", "toxic", "healthy"]]
    write_table(tmp_path / "wikitoxicity" / "annotations.csv", rows)
    write_table(tmp_path / "wikitoxicity" / "test.csv", [["item", "text", "gold"], ["2", "hm", "neutral"]])
    made = load_benchmark("wikitoxicity", tmp_path)
    assert made.train.tasks == made.test.tasks == (Task("wikitoxicity", ("toxic", "neutral", "healthy")),)
    assert made.test.gold is not None
    assert made.test.gold.tolist() == [1]


@pytest.mark.shared
def test_the_real_sentpolarity(shared_data: Path) -> None:
    made = load_benchmark("sentpolarity", shared_data)
    assert (made.train.n_items, made.train.n_annotators, made.train.n_annotations) == (4999, 203, 27746)
    assert made.test.n_items == 5434
    assert set(made.test.option_counts) == {2}
    pool = made.train.contrast(made.contrast, made.min_annotations)
    assert (pool.n_annotators, pool.n_items, pool.n_annotations) == (40, 4983, 18037)
    # "7-39 epochs": 3,000 steps of 64 over one label per item, 2,000 over all labels.
    assert (round(3000 * 64 / pool.n_items), round(2000 * 64 / pool.n_annotations)) == (39, 7)


@pytest.mark.shared
def test_the_real_cebab(shared_data: Path) -> None:
    made = load_benchmark("cebab", shared_data)
    assert (made.train.n_items, made.train.n_annotators, made.train.n_annotations) == (10053, 175, 50305)
    assert made.test.n_items == 1417
    assert {task.name for task in made.train.tasks} == {"food", "service", "ambiance", "noise"}
    assert set(made.test.option_counts) == {3}
    assert made.test.gold is not None
    assert (made.test.gold >= 0).all()


# -------------------------------------------------------------------- CivilComments


def write_panel(folder: Path) -> None:
    write_table(
        folder / "panel.csv",
        [["item", "text", "gold", "judge-a", "judge-b"], ["1", "well said", "fine", "fine", ""],
         ["2", "you fool", "toxic", "toxic", "fine"]],
    )  # fmt: skip
    write_table(folder / "test.csv", [["item", "text", "gold"], ["3", "idiot", "toxic"], ["4", "thanks", "fine"]])


def test_civilcomments_has_a_column_for_each_judge(tmp_path: Path) -> None:
    write_panel(tmp_path / "civilcomments")
    found = load_benchmark("civilcomments", tmp_path)
    assert annotated(found.train) == [("1", "judge-a", "fine"), ("2", "judge-a", "toxic"), ("2", "judge-b", "fine")]
    assert found.train.gold.tolist() == [0, 1] and found.test.gold.tolist() == [1, 0]
    assert found.train.tasks == found.test.tasks and found.train.n_annotations == 3


def test_civilcomments_without_a_column_or_a_folder(tmp_path: Path) -> None:
    write_panel(tmp_path)
    write_table(tmp_path / "panel.csv", [["item", "text", "judge"], ["1", "well said", "fine"]])
    with pytest.raises(RealmError, match=r"panel.csv: no column gold"):
        load_benchmark("civilcomments", tmp_path)
    with pytest.raises(RealmError, match=r"panel.csv, test.csv"):
        load_benchmark("civilcomments")
