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

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from realm import RealmError
from realm_lab.datasets.base import (
    PARQUET_BRANCH,
    Benchmark,
    Files,
    Halves,
    build_pair,
    hub_rows,
    in_hash_order,
    read_records,
)

OTHER_K = "question with another number of options"
BLANK = "question with a blank text or option"
NO_ANSWER = "question without an answer"
Dropped = dict[str, list[int]]


@dataclass(frozen=True)
class QuestionSet:
    """One set: its number of options, its place on the hub and its files. `test_items` of the test questions are taken,
    where it is not all of them: the paper's figures are shares of 510 of RiddleSense."""

    k: int
    hub: str
    config: str | None = None
    revision: str | None = None
    hub_test: str = "test"
    train: tuple[str, ...] = ("train.jsonl",)
    test: tuple[str, ...] = ("test.jsonl",)
    folders: tuple[str, ...] = ()
    test_items: int | None = None


SETS = {
    "arc": QuestionSet(
        4, "allenai/ai2_arc", "ARC-Challenge",
        train=("ARC-Challenge-Train.jsonl", "train.jsonl"), test=("ARC-Challenge-Test.jsonl", "test.jsonl"),
        folders=("arc_challenge", "ARC-Challenge", "ARC-V1-Feb2018-2/ARC-Challenge"),
    ),
    "obqa": QuestionSet(4, "allenai/openbookqa", "main", folders=("OpenBookQA-V1-Sep2018/Data/Main", "Data/Main")),
    "piqa": QuestionSet(
        2, "ybisk/piqa", revision=PARQUET_BRANCH, hub_test="validation",
        test=("valid.jsonl", "dev.jsonl", "test.jsonl"), folders=("physicaliqa-train-dev",),
    ),
    "riddlesense": QuestionSet(
        5, "INK-USC/riddle_sense", revision=PARQUET_BRANCH, hub_test="validation",
        train=("rs_train.jsonl", "train.jsonl"), test=("rs_dev.jsonl", "test.jsonl"), folders=("riddle_sense",),
        test_items=510,
    ),
}  # fmt: skip


def load_questions(name: str, folder: Path | None) -> Benchmark:
    """Load one of `SETS`; its training half has gold and no annotations."""
    of = SETS[name]
    if folder is None:
        splits = {split: hub_rows(of.hub, split, of.config, of.revision) for split in ("train", of.hub_test)}
        sources = {f"{of.hub}, {split}": rows for split, rows in splits.items()}
    else:
        files = Files.of(name, folder, of.folders, "its files")
        sources = {str(path): _with_labels(path) for path in (files.get(*of.train), files.get(*of.test))}
    (train, dropped), (test, _) = (_read(rows, name, source, of.k) for source, rows in sources.items())
    if of.test_items is not None:
        test = test[test["item"].isin(in_hash_order(test["item"], name)[: of.test_items])]
    return Benchmark(name, *build_pair((train, test), label_form="index", dropped=dropped))


def _read(records: Iterable[dict[str, Any]], task: str, source: str, k: int) -> tuple[pd.DataFrame, Dropped]:
    """Questions with k options (item, task, text, [context,] options, gold), and the other rows by reason."""
    questions: list[dict[str, Any]] = []
    dropped: Dropped = {}
    for row, record in enumerate(records, 1):
        try:
            text, options, answer = question_of(record)
        except (KeyError, TypeError, ValueError) as error:
            raise RealmError(f"{source}, row {row}: not a question that can be read ({error!r}).") from None
        if len(options) != k:
            dropped.setdefault(OTHER_K, []).append(row)
        elif not text.strip() or not all(option.strip() for option in options):
            dropped.setdefault(BLANK, []).append(row)
        elif answer is None:
            dropped.setdefault(NO_ANSWER, []).append(row)
        else:
            item = {"item": str(record.get("id") or f"{task}-{Path(source).stem}-{row}"), "task": task, "text": text}
            context = {"context": record["context"]} if record.get("context") else {}
            questions.append({**item, **context, "options": options, "gold": answer})
    if not questions:
        raise RealmError(f"{source}: there is no question with {k} options in it.")
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
        choices = [{"label": name, "text": text} for name, text in zip(choices["label"], choices["text"], strict=True)]
    names, options = [str(choice["label"]) for choice in choices], [str(choice["text"]) for choice in choices]
    key = str(record.get("answerKey") or "")
    return text, options, names.index(key) if key else None


def _with_labels(file: Path) -> list[dict[str, Any]]:
    """The records of a file. PIQA keeps its labels in a file of their own, a line each."""
    records = read_records(file)
    if "goal" not in records[0] or "label" in records[0]:
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
PUBMEDQA_LABELS = ("yes", "no", "maybe")
PUBMEDQA_TRAIN_ITEMS = 450
"""As in the paper: nine of the ten folds that the authors of the set make of its 500 training questions."""
PUBMEDQA_TEST_IDS = Path(__file__).with_name("pubmedqa_test.txt")
"""The test split that the authors of the set publish; the hub does not hold it."""


def load_pubmedqa(folder: Path | None) -> Benchmark:
    """Load it: 450 training questions without annotations, and the 500 test questions of the set's authors."""
    if folder is None:
        rows = hub_rows("qiaojin/PubMedQA", "train", "pqa_labeled")
        halves = _split([(r["pubid"], r["question"], r["context"]["contexts"], r["final_decision"]) for r in rows])
    else:
        files = Files.of(PUBMEDQA, folder, ("data",), "ori_pqal.json")
        halves = _published(whole) if (whole := files.find("ori_pqal.json", "data/ori_pqal.json")) else _plain(files)
    train, test = halves
    train = train[train["item"].isin(in_hash_order(train["item"], PUBMEDQA)[:PUBMEDQA_TRAIN_ITEMS])]
    return Benchmark(PUBMEDQA, *build_pair((train, test), PUBMEDQA_LABELS))


def _published(file: Path) -> Halves:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return _split([(key, r["QUESTION"], r["CONTEXTS"], r["final_decision"]) for key, r in content.items()])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RealmError(f"{file}: no questions with QUESTION, CONTEXTS and final_decision ({error!r}).") from None


def _plain(files: Files) -> Halves:
    def half(file: Path) -> pd.DataFrame:
        questions, _ = _read(read_records(file), PUBMEDQA, str(file), len(PUBMEDQA_LABELS))
        gold = [options[answer] for options, answer in zip(questions["options"], questions["gold"], strict=True)]
        return questions.drop(columns="options").assign(
            gold=gold, item=questions["item"].str.removeprefix(f"{PUBMEDQA}-")
        )

    return half(files.get("train.jsonl")), half(files.get("test.jsonl"))


def _split(questions: Iterable[tuple[Any, str, list[str], str]]) -> Halves:
    """Questions (id, text, parts of the abstract, gold) by the test ids of the set's authors."""
    rows = [(str(item), PUBMEDQA, text, " ".join(parts), gold) for item, text, parts, gold in questions]
    frame = pd.DataFrame(rows, columns=["item", "task", "text", "context", "gold"])
    is_test = frame["item"].isin(set(PUBMEDQA_TEST_IDS.read_text("utf-8").split()))
    if is_test.all() or not is_test.any():
        raise RealmError(
            f"PubMedQA: {int(is_test.sum())} of {len(frame)} questions are in its test split. Is it PQA-L?"
        )
    return frame[~is_test], frame[is_test]
