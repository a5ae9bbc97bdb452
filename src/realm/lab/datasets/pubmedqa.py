"""PubMedQA, the 1,000 questions labelled by experts (PQA-L): yes, no or maybe, with the abstract as context."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd

from realm.data.readers.files import open_file
from realm.errors import RealmError
from realm.lab.datasets.base import Benchmark, Hub, find, in_hash_order, pair_of_files, places, table_pair

NAME, TITLE = "pubmedqa", "PubMedQA"
HUB = Hub("qiaojin/PubMedQA", "pqa_labeled")
LABELS = ("yes", "no", "maybe")
TRAIN_ITEMS = 450
"""As in the paper: nine of the ten folds that the authors of the set make of its 500 training questions."""


def load_pubmedqa(folder: Path | None, offline: bool) -> Benchmark:
    """Load it: 450 training questions without annotations, and the 500 test questions of the set's authors."""
    if folder is None:
        source = HUB.id
        train, test = _split([_from_hub(row) for row in HUB.rows("train", offline)])
    else:
        train, test, source = _from_folder(folder)
    train = train[train["item"].isin(in_hash_order(train["item"], NAME)[:TRAIN_ITEMS])]
    return Benchmark(NAME, TITLE, *table_pair(train, test, source=source, labels=LABELS), simulated=True)


def _from_folder(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    where = places(folder, NAME, "data")
    if whole := find(where, "ori_pqal.json", "data/ori_pqal.json"):
        content = open_file(whole).content
        if not isinstance(content, dict):
            raise RealmError(f"{whole}: a JSON object of questions by PubMed id was expected.")
        train, test = _split([_from_files(name, record, whole) for name, record in content.items()])
        return train, test, str(whole)
    halves = pair_of_files(where, ["train.jsonl"], ["test.jsonl"], f"{TITLE}: no ori_pqal.json, and")
    train, test = (pd.DataFrame([_from_plain(record, file) for record in open_file(file).records()]) for file in halves)
    return train, test, str(halves[0].parent)


def _split(asked: list[dict[str, Any]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """By the test ids that the authors of the set publish: the hub does not hold their split."""
    held_out = set(files("realm.lab.datasets").joinpath("pubmedqa_test.txt").read_text("utf-8").split())
    frame = pd.DataFrame(asked)
    is_test = frame["item"].isin(held_out)
    if is_test.all() or not is_test.any():
        raise RealmError(f"{TITLE}: {int(is_test.sum())} of {len(frame)} questions are in its test split. Is it PQA-L?")
    return frame[~is_test], frame[is_test]


def _asked(item: str, question: str, abstract: str, gold: str) -> dict[str, Any]:
    return {"item": item, "task": NAME, "text": question, "context": abstract, "gold": gold}


def _from_hub(row: dict[str, Any]) -> dict[str, Any]:
    return _asked(str(row["pubid"]), row["question"], " ".join(row["context"]["contexts"]), row["final_decision"])


def _from_files(name: str, record: dict[str, Any], file: Path) -> dict[str, Any]:
    try:
        return _asked(name, record["QUESTION"], " ".join(record["CONTEXTS"]), record["final_decision"])
    except (KeyError, TypeError):
        raise RealmError(f"{file}, question {name}: no QUESTION, CONTEXTS and final_decision.") from None


def _from_plain(record: dict[str, Any], file: Path) -> dict[str, Any]:
    try:
        item = str(record["id"]).removeprefix("pubmedqa-")
        return _asked(item, record["question"], record["context"], record["choices"][record["answer"]])
    except (KeyError, TypeError, IndexError):
        raise RealmError(f"{file}, question {record.get('id')}: no question, context, choices and answer.") from None
