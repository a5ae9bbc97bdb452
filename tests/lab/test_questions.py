"""Multiple choice and PubMedQA, from files made in exactly the published shapes, the plain form and the hub's rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realm import RealmError
from realm_lab.datasets import NAMES, load_benchmark
from realm_lab.datasets.base import in_hash_order
from realm_lab.datasets.questions import BLANK, NO_ANSWER, OTHER_K, question_of


def write_lines(path: Path, records: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def published(name: str, stem: str, options: list[str], key: str, letters: str = "ABCDE") -> dict[str, Any]:
    """A line of ARC, OpenBookQA or RiddleSense as their authors publish it."""
    choices = [{"text": text, "label": label} for text, label in zip(options, letters, strict=False)]
    return {"id": name, "question": {"stem": stem, "choices": choices}, "answerKey": key}


def on_the_hub(record: dict[str, Any], stem: str = "question") -> dict[str, Any]:
    """The same as the hub holds it."""
    choices = record["question"]["choices"]
    parts = {part: [choice[part] for choice in choices] for part in ("text", "label")}
    return {"id": record["id"], stem: record["question"]["stem"], "choices": parts, "answerKey": record["answerKey"]}


FOUR = ["dry palms", "wet palms", "oil", "lotion"]
ARC = [
    published("Mercury_SC_415702", "Which skin surface will produce the most heat?", FOUR, "A"),
    published("MCAS_2000_4_6", "Which technology was developed most recently?", FOUR, "4", letters="1234"),
    published("NYSEDREGENTS_1", "Which is a mammal?", FOUR[:3], "B"),
]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str | None, str], list[dict[str, Any]]]:
    """A hub of the rows that a test puts into it, by id, configuration and split."""
    import datasets

    rows: dict[tuple[str, str | None, str], list[dict[str, Any]]] = {}

    def load(name: str, config: str | None = None, *, split: str, revision: str | None = None) -> datasets.Dataset:
        if (name, config, split) not in rows:
            raise datasets.exceptions.DatasetNotFoundError(f"Dataset '{name}' doesn't exist on the Hub")
        assert (revision == "refs/convert/parquet") == (name in ("ybisk/piqa", "INK-USC/riddle_sense"))
        return datasets.Dataset.from_list(rows[name, config, split])

    monkeypatch.setattr(datasets, "load_dataset", load)
    return rows


# -------------------------------------------------------------------- ARC and OpenBookQA


def test_arc_keeps_the_questions_with_four_options(tmp_path: Path) -> None:
    write_lines(tmp_path / "ARC-Challenge-Train.jsonl", ARC)
    write_lines(tmp_path / "ARC-Challenge-Test.jsonl", ARC[:1])
    arc = load_benchmark("arc", tmp_path)
    assert (arc.train.n_annotations, arc.contrast) == (0, 0)
    assert arc.train.item_ids.to_pylist() == ["Mercury_SC_415702", "MCAS_2000_4_6"]
    assert arc.train.gold is not None
    assert arc.train.gold.tolist() == [0, 3]
    assert arc.train.options_of(1) == FOUR
    assert arc.train.n_annotations == 0
    assert arc.train.ledger.counts == {OTHER_K: 1}
    assert [task.name for task in arc.test.tasks] == ["arc"]


def test_the_hub_gives_the_same_table_as_the_files(tmp_path: Path, hub: dict[Any, Any]) -> None:
    write_lines(tmp_path / "arc" / "ARC-Challenge-Train.jsonl", ARC)
    write_lines(tmp_path / "arc" / "ARC-Challenge-Test.jsonl", ARC[:1])
    hub["allenai/ai2_arc", "ARC-Challenge", "train"] = [on_the_hub(record) for record in ARC]
    hub["allenai/ai2_arc", "ARC-Challenge", "test"] = [on_the_hub(ARC[0])]
    files, rows = load_benchmark("arc", tmp_path), load_benchmark("arc")
    for half in ("train", "test"):
        assert getattr(files, half).to_pandas().equals(getattr(rows, half).to_pandas())


def test_openbookqa_files_share_their_names_with_the_plain_form(tmp_path: Path, hub: dict[Any, Any]) -> None:
    records = [published("7-980", "The sun is responsible for", ["a", "b", "c", "d"], "D")]
    write_lines(tmp_path / "OpenBookQA-V1-Sep2018/Data/Main/train.jsonl", records)
    write_lines(tmp_path / "OpenBookQA-V1-Sep2018/Data/Main/test.jsonl", records)
    hub["allenai/openbookqa", "main", "train"] = [on_the_hub(record, "question_stem") for record in records]
    hub["allenai/openbookqa", "main", "test"] = [on_the_hub(record, "question_stem") for record in records]
    for made in (load_benchmark("obqa", tmp_path), load_benchmark("obqa")):
        assert made.train.texts.to_pylist() == ["The sun is responsible for"]
        assert made.test.gold is not None
        assert made.test.gold.tolist() == [3]


def test_the_plain_form(tmp_path: Path) -> None:
    record = {"id": "obqa-0", "question": "The sun?", "choices": ["w", "x", "y", "z"], "answer": 2}
    write_lines(tmp_path / "train.jsonl", [record])
    write_lines(tmp_path / "test.jsonl", [record])
    for folder in (tmp_path, str(tmp_path)):
        made = load_benchmark("obqa", folder)
        assert made.train.gold is not None
        assert made.train.gold.tolist() == [2]


# -------------------------------------------------------------------- PIQA and RiddleSense


def test_piqa_reads_its_labels_from_the_file_beside(tmp_path: Path, hub: dict[Any, Any]) -> None:
    goals = [
        {"goal": "To pry a nail out,", "sol1": "use the claw end", "sol2": "use the blunt end"},
        {"goal": "How to paint a wall", "sol1": "with a stick", "sol2": "with a roller"},
        {"goal": "", "sol1": "one", "sol2": "other"},
    ]
    for split in ("train", "valid"):
        write_lines(tmp_path / "piqa" / f"{split}.jsonl", goals)
        (tmp_path / "piqa" / f"{split}-labels.lst").write_text("0\n1\n0\n")
    hub["ybisk/piqa", None, "train"] = [{**goal, "label": k} for goal, k in zip(goals, (0, 1, 0), strict=True)]
    hub["ybisk/piqa", None, "validation"] = hub["ybisk/piqa", None, "train"] + [{**goals[0], "label": -1}]
    for made in (load_benchmark("piqa", tmp_path), load_benchmark("piqa")):
        assert made.train.gold is not None
        assert made.test.gold is not None
        assert made.train.gold.tolist() == made.test.gold.tolist() == [0, 1]
        assert made.train.options_of(1) == ["with a stick", "with a roller"]
        assert made.train.ledger.counts == {BLANK: 1}


@pytest.mark.parametrize(("labels", "said"), [(None, "dev-labels.lst"), ("0\n1\n", "2 labels for the 1 questions")])
def test_piqa_without_its_labels(tmp_path: Path, labels: str | None, said: str) -> None:
    goal = {"goal": "To pry", "sol1": "claw", "sol2": "blunt"}
    write_lines(tmp_path / "train.jsonl", [{**goal, "label": 0}])
    write_lines(tmp_path / "dev.jsonl", [goal])
    if labels is not None:
        (tmp_path / "dev-labels.lst").write_text(labels)
    with pytest.raises(RealmError, match=said):
        load_benchmark("piqa", tmp_path)


def test_riddlesense_tests_on_510_of_the_published_questions(tmp_path: Path, hub: dict[Any, Any]) -> None:
    def riddle(number: int) -> dict[str, Any]:
        return published(f"riddle-{number}", f"What am I, {number}?", ["a", "b", "c", "d", "e"], "E")

    train, dev = [riddle(n) for n in range(20)], [riddle(n) for n in range(20, 1041)]
    write_lines(tmp_path / "rs_train.jsonl", [*train, published("r", "Hidden?", ["a", "b", "c", "d", "e"], "")])
    write_lines(tmp_path / "rs_dev.jsonl", dev)
    hub["INK-USC/riddle_sense", None, "train"] = [on_the_hub(record) for record in train]
    hub["INK-USC/riddle_sense", None, "validation"] = [on_the_hub(record) for record in reversed(dev)]
    files, rows = load_benchmark("riddlesense", tmp_path), load_benchmark("riddlesense")
    assert (files.train.n_items, files.test.n_items) == (20, 510)
    assert set(files.train.option_counts) == {5}
    assert files.train.ledger.counts == {NO_ANSWER: 1}
    assert set(files.test.item_ids.to_pylist()) == set(rows.test.item_ids.to_pylist())


@given(st.lists(st.text(min_size=1), unique=True))
def test_hash_order_depends_on_the_names_alone(names: list[str]) -> None:
    assert in_hash_order(names, "x") == in_hash_order(reversed(names), "x")
    assert set(in_hash_order(names, "x")) == set(names)


# -------------------------------------------------------------------- PubMedQA


def test_pubmedqa_is_split_as_its_authors_do(tmp_path: Path, hub: dict[Any, Any]) -> None:
    def asked(decision: str) -> dict[str, Any]:
        return {
            "QUESTION": "Do mitochondria play a role?", "CONTEXTS": ["First.", "Second."],
            "LABELS": ["BACKGROUND", "RESULTS"], "MESHES": [], "YEAR": "2011", "reasoning_required_pred": "yes",
            "reasoning_free_pred": "yes", "final_decision": decision, "LONG_ANSWER": "Results depicted.",
        }  # fmt: skip

    records = {"21645374": asked("yes"), "12377809": asked("maybe"), "1": asked("no"), "2": asked("maybe")}
    (tmp_path / "ori_pqal.json").write_text(json.dumps(records))
    hub["qiaojin/PubMedQA", "pqa_labeled", "train"] = [
        {
            "pubid": int(name), "question": record["QUESTION"],
            "context": {"contexts": record["CONTEXTS"], "labels": record["LABELS"], "meshes": [""]},
            "long_answer": record["LONG_ANSWER"], "final_decision": record["final_decision"],
        }
        for name, record in records.items()
    ]  # fmt: skip
    for made in (load_benchmark("pubmedqa", tmp_path), load_benchmark("pubmedqa")):
        assert made.train.item_ids.to_pylist() == ["1", "2"]
        assert made.test.item_ids.to_pylist() == ["21645374", "12377809"]
        assert made.train.tasks[0].labels == ("yes", "no", "maybe")
        assert made.train.gold is not None
        assert made.train.gold.tolist() == [1, 2]
        assert made.train.items.contexts is not None
        assert made.train.items.contexts[0].as_py() == "First. Second."


def test_pubmedqa_refuses_another_part_of_the_set(tmp_path: Path) -> None:
    record = {"QUESTION": "?", "CONTEXTS": ["."], "final_decision": "yes"}
    (tmp_path / "ori_pqal.json").write_text(json.dumps({"1": record, "2": record}))
    with pytest.raises(RealmError, match="Is it PQA-L"):
        load_benchmark("pubmedqa", tmp_path)


# -------------------------------------------------------------------- mistakes


def test_an_unknown_name_lists_the_known(tmp_path: Path) -> None:
    with pytest.raises(RealmError, match=", ".join(NAMES)):
        load_benchmark("squad", tmp_path)


def test_a_missing_folder_or_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RealmError, match=r"`data=.*nowhere`: there is no such folder"):
        load_benchmark("arc", tmp_path / "nowhere")
    for name in NAMES:
        with pytest.raises(RealmError, match=str(tmp_path)):
            load_benchmark(name, tmp_path)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"question": "What?"}, "KeyError"),
        ({"question": "What?", "choices": ["a", "b", "c", "d"], "answer": 4}, "answer 4 of 4 options"),
        ({"question": None, "choices": ["a", "b", "c", "d"], "answer": 1}, "its question is None"),
        (published("x", "What?", FOUR, "Z"), "ValueError"),
    ],
)
def test_a_record_that_is_no_question_is_named_by_its_row(tmp_path: Path, record: dict[str, Any], said: str) -> None:
    write_lines(tmp_path / "train.jsonl", [ARC[0], record])
    write_lines(tmp_path / "test.jsonl", ARC[:1])
    with pytest.raises(RealmError, match=f"train.jsonl, row 2: .*{said}"):
        load_benchmark("obqa", tmp_path)


def test_a_hub_that_cannot_be_reached_names_the_argument(hub: dict[Any, Any]) -> None:
    with pytest.raises(RealmError, match=r"allenai/openbookqa, split train: .*doesn't exist.*Give a folder"):
        load_benchmark("obqa")


def test_question_of_answers_by_the_label_of_the_choice() -> None:
    assert question_of(published("x", "?", FOUR, "3", letters="1234")) == ("?", FOUR, 2)
    assert question_of({**published("x", "?", FOUR, "A"), "answerKey": ""})[2] is None


# -------------------------------------------------------------------- real data


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "k", "train", "test"),
    [("arc", 4, 1117, 1165), ("obqa", 4, 4957, 500), ("piqa", 2, 1338, 500), ("pubmedqa", 3, 450, 500)],
)
def test_the_real_sets(shared_data: Path, name: str, k: int, train: int, test: int) -> None:
    made = load_benchmark(name, shared_data)
    assert (made.train.n_items, made.test.n_items) == (train, test)
    assert set(made.train.option_counts) == set(made.test.option_counts) == {k}
    assert made.train.n_annotations == 0
    for half in (made.train, made.test):
        assert half.gold is not None
        assert (half.gold >= 0).all()
        assert len(set(half.gold)) == k
    assert not set(made.train.item_ids.to_pylist()) & set(made.test.item_ids.to_pylist())
