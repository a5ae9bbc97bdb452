"""Multiple choice: ARC-Challenge, OpenBookQA, PIQA and RiddleSense. Annotators are simulated over their gold.

A question is read in any of the forms in which these sets are published:

| form | fields |
|---|---|
| plain | question, choices (a list of texts), answer (an index), optionally context |
| the sets' own files | question {stem, choices [{label, text}]}, answerKey |
| the hub | question or question_stem, choices {label [...], text [...]}, answerKey |
| PIQA | goal, sol1, sol2, label (in its own files, label stands in a second file) |
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from realm.data.readers.files import open_file
from realm.errors import RealmError
from realm.lab.datasets.base import (
    PARQUET_BRANCH,
    Benchmark,
    Hub,
    dropped,
    in_hash_order,
    pair_of_files,
    places,
    table_pair,
)

OTHER_K = "question with another number of options"
BLANK = "question with a blank text or option"
NO_ANSWER = "question without an answer"


@dataclass(frozen=True)
class QuestionSet:
    """One set: its number of options, its files and its hub id, and how many test questions are taken."""

    name: str
    title: str
    k: int
    hub: Hub
    train: tuple[str, ...]
    test: tuple[str, ...]
    folders: tuple[str, ...]
    hub_test: str = "test"
    most_test: int | None = None


SETS = {
    "arc": QuestionSet(
        "arc", "ARC", 4, Hub("allenai/ai2_arc", "ARC-Challenge"),
        train=("ARC-Challenge-Train.jsonl", "train.jsonl"),
        test=("ARC-Challenge-Test.jsonl", "test.jsonl"),
        folders=("arc", "arc_challenge", "ARC-Challenge", "ARC-V1-Feb2018-2/ARC-Challenge"),
    ),
    "obqa": QuestionSet(
        "obqa", "OBQA", 4, Hub("allenai/openbookqa", "main"),
        train=("train.jsonl",), test=("test.jsonl",),
        folders=("obqa", "OpenBookQA-V1-Sep2018/Data/Main", "Data/Main"),
    ),
    "piqa": QuestionSet(
        "piqa", "PIQA", 2, Hub("ybisk/piqa", revision=PARQUET_BRANCH),
        train=("train.jsonl",), test=("valid.jsonl", "dev.jsonl", "test.jsonl"),
        folders=("piqa", "physicaliqa-train-dev"), hub_test="validation",
    ),
    "riddlesense": QuestionSet(
        "riddlesense", "Riddle", 5, Hub("INK-USC/riddle_sense", revision=PARQUET_BRANCH),
        train=("rs_train.jsonl", "train.jsonl"), test=("rs_dev.jsonl", "test.jsonl"),
        folders=("riddlesense", "riddle_sense"), hub_test="validation", most_test=510,
    ),
}  # fmt: skip


def load_questions(name: str, folder: Path | None, offline: bool) -> Benchmark:
    """Load one of `SETS`; its training half has gold and no annotations."""
    of = SETS[name]
    if folder is None:
        source = of.hub.id
        halves = [of.hub.rows(split, offline).to_list() for split in ("train", of.hub_test)]
    else:
        files = pair_of_files(places(folder, *of.folders), of.train, of.test, of.title)
        source = str(files[0].parent)
        halves = [_with_labels(open_file(file).records(), file) for file in files]
    (train, left_out), (test, _) = (
        read_questions(half, name, split, source, of.k) for half, split in zip(halves, ("train", "test"), strict=True)
    )
    if of.most_test is not None:
        chosen = set(in_hash_order(test["item"], name)[: of.most_test])
        test = test[test["item"].isin(chosen)]
    made = table_pair(train, test, source=source, label_form="index", ledger=dropped(left_out))
    return Benchmark(name, of.title, *made, simulated=True)


def read_questions(
    records: Iterable[dict[str, Any]], task: str, split: str, source: str, k: int
) -> tuple[pd.DataFrame, dict[str, list[int]]]:
    """Questions with k options as a table (item, task, text, [context,] options, gold), and the rows left out."""
    kept: list[dict[str, Any]] = []
    left_out: dict[str, list[int]] = {}
    for row, record in enumerate(records, 1):
        try:
            text, options, answer = question_of(record)
        except (KeyError, TypeError, ValueError) as error:
            raise RealmError(f"{source}, {split}, row {row}: not a question that can be read ({error!r}).") from None
        if len(options) != k:
            left_out.setdefault(OTHER_K, []).append(row)
        elif not text.strip() or not all(option.strip() for option in options):
            left_out.setdefault(BLANK, []).append(row)
        elif answer is None:
            left_out.setdefault(NO_ANSWER, []).append(row)
        else:
            asked = {"item": str(record.get("id") or f"{task}-{split}-{row}"), "task": task, "text": text}
            if record.get("context"):
                asked["context"] = record["context"]
            kept.append({**asked, "options": options, "gold": answer})
    if not kept:
        raise RealmError(f"{source}, {split}: there is no question with {k} options in it.")
    return pd.DataFrame(kept), left_out


def question_of(record: dict[str, Any]) -> tuple[str, list[str], int | None]:
    """The text, the options and the index of the answer (None where it is withheld) of a record in any form."""
    if "goal" in record:
        label = record.get("label")
        said = None if label is None or int(label) < 0 else int(label)
        return record["goal"], [record["sol1"], record["sol2"]], said
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
