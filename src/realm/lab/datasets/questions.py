"""Sets whose annotators are simulated over gold: ARC-Challenge, OpenBookQA, PIQA, RiddleSense and PubMedQA.

A multiple-choice question is read in any of the forms in which these sets are published:

| form | fields |
|---|---|
| plain | question, choices (a list of texts), answer (an index), optionally context |
| the sets' own files | question {stem, choices [{label, text}]}, answerKey |
| the hub | question or question_stem, choices {label [...], text [...]}, answerKey |
| PIQA | goal, sol1, sol2, label (in its own files, label stands in a second file) |

PubMedQA is the 1,000 questions labelled by experts (PQA-L): yes, no or maybe, with the abstract as context.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from realm import RealmError
from realm.lab.datasets.base import (
    PARQUET_BRANCH,
    Benchmark,
    Hub,
    SetFolder,
    build_pair,
    in_hash_order,
    parse_object,
    read_records,
)

OTHER_K = "question with another number of options"
BLANK = "question with a blank text or option"
NO_ANSWER = "question without an answer"


@dataclass(frozen=True)
class QuestionSet:
    """One set: its number of options, its files and its hub id, and how many test
    questions are taken, where it is not all of them: the paper's figures are shares of 510 of RiddleSense."""

    k: int
    hub: Hub
    train: tuple[str, ...]
    test: tuple[str, ...]
    folders: tuple[str, ...]
    hub_test: str = "test"
    test_items: int | None = None


SETS = {
    "arc": QuestionSet(
        4, Hub("allenai/ai2_arc", "ARC-Challenge"),
        train=("ARC-Challenge-Train.jsonl", "train.jsonl"),
        test=("ARC-Challenge-Test.jsonl", "test.jsonl"),
        folders=("arc_challenge", "ARC-Challenge", "ARC-V1-Feb2018-2/ARC-Challenge"),
    ),
    "obqa": QuestionSet(
        4, Hub("allenai/openbookqa", "main"),
        train=("train.jsonl",), test=("test.jsonl",),
        folders=("OpenBookQA-V1-Sep2018/Data/Main", "Data/Main"),
    ),
    "piqa": QuestionSet(
        2, Hub("ybisk/piqa", revision=PARQUET_BRANCH),
        train=("train.jsonl",), test=("valid.jsonl", "dev.jsonl", "test.jsonl"),
        folders=("physicaliqa-train-dev",), hub_test="validation",
    ),
    "riddlesense": QuestionSet(
        5, Hub("INK-USC/riddle_sense", revision=PARQUET_BRANCH),
        train=("rs_train.jsonl", "train.jsonl"), test=("rs_dev.jsonl", "test.jsonl"),
        folders=("riddle_sense",), hub_test="validation", test_items=510,
    ),
}  # fmt: skip


def load_questions(name: str, folder: Path | None, offline: bool) -> Benchmark:
    """Load one of `SETS`; its training half has gold and no annotations."""
    of = SETS[name]
    if folder is None:
        source = of.hub.id
        halves = [of.hub.rows(split, offline).to_list() for split in ("train", of.hub_test)]
    else:
        files = SetFolder.of(name, folder, *of.folders).pair(of.train, of.test)
        source = str(files[0].parent)
        halves = [_with_labels(read_records(file), file) for file in files]
    train, dropped = read_questions(halves[0], name, "train", source, of.k)
    test, _ = read_questions(halves[1], name, "test", source, of.k)
    if of.test_items is not None:
        test = test[test["item"].isin(in_hash_order(test["item"], name)[: of.test_items])]
    tables = build_pair(train, test, source=source, label_form="index", dropped=dropped)
    return Benchmark(name, *tables, simulated=True)


def read_questions(
    records: Iterable[dict[str, Any]], task: str, split: str, source: str, k: int
) -> tuple[pd.DataFrame, dict[str, list[int]]]:
    """Questions with k options (item, task, text, [context,] options, gold), and the other rows by reason."""
    questions: list[dict[str, Any]] = []
    dropped: dict[str, list[int]] = {}
    for row, record in enumerate(records, 1):
        try:
            text, options, answer = question_of(record)
        except (KeyError, TypeError, ValueError) as error:
            raise RealmError(f"{source}, {split}, row {row}: not a question that can be read ({error!r}).") from None
        if len(options) != k:
            dropped.setdefault(OTHER_K, []).append(row)
        elif not text.strip() or not all(option.strip() for option in options):
            dropped.setdefault(BLANK, []).append(row)
        elif answer is None:
            dropped.setdefault(NO_ANSWER, []).append(row)
        else:
            item = {"item": str(record.get("id") or f"{task}-{split}-{row}"), "task": task, "text": text}
            context = {"context": record["context"]} if record.get("context") else {}
            questions.append({**item, **context, "options": options, "gold": answer})
    if not questions:
        raise RealmError(f"{source}, {split}: there is no question with {k} options in it.")
    return pd.DataFrame(questions), dropped


def question_of(record: dict[str, Any]) -> tuple[str, list[str], int | None]:
    """The text, the options and the index of the answer (None where it is withheld) of a record in any form."""
    if "goal" in record:
        label = record.get("label")
        answer = None if label is None or int(label) < 0 else int(label)
        return record["goal"], [record["sol1"], record["sol2"]], answer
    question = record.get("question_stem", record.get("question"))
    choices = question["choices"] if isinstance(question, dict) else record["choices"]
    text = question["stem"] if isinstance(question, dict) else question
    if not isinstance(text, str):
        raise ValueError(f"its question is {text!r}")
    if "answer" in record:
        options, answer = [str(choice) for choice in choices], int(record["answer"])
        if not 0 <= answer < len(options):
            raise ValueError(f"answer {answer} of {len(options)} options")
        return text, options, answer
    if isinstance(choices, dict):
        names, options = [str(name) for name in choices["label"]], [str(text) for text in choices["text"]]
    else:
        names, options = [str(one["label"]) for one in choices], [str(one["text"]) for one in choices]
    key = str(record.get("answerKey") or "")
    return text, options, names.index(key) if key else None


def _with_labels(records: list[dict[str, Any]], file: Path) -> list[dict[str, Any]]:
    """PIQA keeps its labels in a file of their own, a line each."""
    if not records or "goal" not in records[0] or "label" in records[0]:
        return records
    beside = file.with_name(f"{file.stem}-labels.lst")
    if not beside.is_file():
        raise RealmError(f"{file}: its labels must lie beside it, in {beside.name}; there is no such file.")
    labels = beside.read_text(encoding="utf-8").split()
    if len(labels) != len(records):
        raise RealmError(f"{beside}: {len(labels):,} labels for the {len(records):,} questions of {file.name}.")
    return [{**record, "label": label} for record, label in zip(records, labels, strict=True)]


# -------------------------------------------------------------------- PubMedQA

PUBMEDQA = "pubmedqa"
PUBMEDQA_HUB = Hub("qiaojin/PubMedQA", "pqa_labeled")
PUBMEDQA_LABELS = ("yes", "no", "maybe")
PUBMEDQA_TRAIN_ITEMS = 450
"""As in the paper: nine of the ten folds that the authors of the set make of its 500 training questions."""
PUBMEDQA_TEST_IDS = Path(__file__).with_name("pubmedqa_test.txt")
"""The test split that the authors of the set publish; the hub does not hold it."""


def load_pubmedqa(folder: Path | None, offline: bool) -> Benchmark:
    """Load it: 450 training questions without annotations, and the 500 test questions of the set's authors."""
    if folder is None:
        source = PUBMEDQA_HUB.id
        rows = [_from_hub(row) for row in PUBMEDQA_HUB.rows("train", offline)]
        train, test = _split(rows)
    else:
        files = SetFolder.of(PUBMEDQA, folder, "data")
        if whole := files.find("ori_pqal.json", "data/ori_pqal.json"):
            source = str(whole)
            content = parse_object(whole.read_text(encoding="utf-8"), source)
            train, test = _split([_from_published(name, record, whole) for name, record in content.items()])
        else:
            plain = SetFolder(f"{files.title}: no ori_pqal.json, and", files.places)
            halves = plain.pair(["train.jsonl"], ["test.jsonl"])
            source = str(halves[0].parent)
            train, test = (
                pd.DataFrame([_from_plain(record, file) for record in read_records(file)]) for file in halves
            )
    train = train[train["item"].isin(in_hash_order(train["item"], PUBMEDQA)[:PUBMEDQA_TRAIN_ITEMS])]
    tables = build_pair(train, test, source=source, labels=PUBMEDQA_LABELS)
    return Benchmark(PUBMEDQA, *tables, simulated=True)


def _split(questions: list[dict[str, Any]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    frame = pd.DataFrame(questions)
    is_test = frame["item"].isin(set(PUBMEDQA_TEST_IDS.read_text("utf-8").split()))
    if is_test.all() or not is_test.any():
        raise RealmError(
            f"PubMedQA: {int(is_test.sum())} of {len(frame)} questions are in its test split. Is it PQA-L?"
        )
    return frame[~is_test], frame[is_test]


def _pubmedqa_row(item: str, question: str, abstract: str, gold: str) -> dict[str, Any]:
    return {"item": item, "task": PUBMEDQA, "text": question, "context": abstract, "gold": gold}


def _from_hub(row: dict[str, Any]) -> dict[str, Any]:
    abstract = " ".join(row["context"]["contexts"])
    return _pubmedqa_row(str(row["pubid"]), row["question"], abstract, row["final_decision"])


def _from_published(name: str, record: dict[str, Any], file: Path) -> dict[str, Any]:
    try:
        return _pubmedqa_row(name, record["QUESTION"], " ".join(record["CONTEXTS"]), record["final_decision"])
    except (KeyError, TypeError):
        raise RealmError(f"{file}, question {name}: no QUESTION, CONTEXTS and final_decision.") from None


def _from_plain(record: dict[str, Any], file: Path) -> dict[str, Any]:
    try:
        item = str(record["id"]).removeprefix("pubmedqa-")
        return _pubmedqa_row(item, record["question"], record["context"], record["choices"][record["answer"]])
    except (KeyError, TypeError, IndexError):
        raise RealmError(f"{file}, question {record.get('id')}: no question, context, choices and answer.") from None
