"""CEBaB: restaurant reviews, and what they say of food, service, ambiance and noise. Four tasks, the same annotators.

Not a set of the paper: it is here because it is a real annotator x task matrix. Published as `train_exclusive.json`,
`dev.json` and `test.json`, a review a line. The annotators are the five who judged each aspect; gold is what the editor
of the review meant it to say: there is gold for one aspect of each edited review, and for no original.
"""

from __future__ import annotations

from ast import literal_eval
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from realm import Annotations, RealmError
from realm.lab.datasets.base import MIN_ANNOTATIONS, Benchmark, Hub, SetFolder, build_pair, read_records

NAME = "cebab"
HUB = Hub("CEBaB/CEBaB")
ASPECTS = ("food", "service", "ambiance", "noise")
LABELS = ("negative", "positive", "unknown")
SPLITS = {"train_exclusive": "train_exclusive.json", "validation": "dev.json", "test": "test.json"}
"""The splits on the hub, and the published file of each."""


def load_cebab(folder: Path | None, offline: bool) -> Benchmark:
    """Load it. The review is the context of the item, whose text asks about one aspect."""
    if folder is None:
        source, splits = HUB.id, [list(HUB.rows(split, offline)) for split in SPLITS]
    else:
        files = SetFolder.of(NAME, folder, "cebab_aspects", "CEBaB-v1.1")
        if files.find(SPLITS["train_exclusive"]) is None:
            return _benchmark(*files.read_plain(LABELS, SPLITS["train_exclusive"]))
        paths = [files.get(name) for name in SPLITS.values()]
        source, splits = str(paths[-1].parent), [read_records(path) for path in paths]
    train, validation, test = splits
    train_rows, test_rows = (
        pd.DataFrame([row for review in reviews for row in _rows(review)]) for reviews in (train + validation, test)
    )
    test_rows = test_rows[test_rows["gold"].notna()].drop(columns=["annotator", "label"]).drop_duplicates("item")
    return _benchmark(*build_pair(train_rows, test_rows, source=source, labels=LABELS))


def _benchmark(train: Annotations, test: Annotations) -> Benchmark:
    train, test = _with_questions(train), _with_questions(test)
    return Benchmark(NAME, train, test, simulated=False, min_annotations=MIN_ANNOTATIONS)


def _rows(review: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each answer about each aspect of a review."""
    rows = []
    for aspect in ASPECTS:
        edited = str(review["is_original"]).lower() != "true" and review["edit_type"] == aspect
        gold = review["edit_goal"].lower() if edited and review["edit_goal"] else None
        item = {"item": f"{review['id']}/{aspect}", "task": aspect, "text": review["description"], "gold": gold}
        rows += [{**item, "annotator": name, "label": label} for name, label in _answers(review, aspect).items()]
    return rows


def _answers(review: dict[str, Any], aspect: str) -> dict[str, str]:
    """The label of each annotator for an aspect, if any. The files hold an object, the hub the same as text."""
    answers = review[f"{aspect}_aspect_validation_workers"] or {}
    try:
        answers = literal_eval(answers) if isinstance(answers, str) else answers
        return {name: label.lower() for name, label in answers.items() if label}
    except (ValueError, SyntaxError, AttributeError):
        raise RealmError(f"CEBaB, review {review['id']}: the workers of {aspect} are not an object.") from None


def _with_questions(table: Annotations) -> Annotations:
    """The review as the context of a question about its aspect: four tasks on one text need telling apart."""
    aspects = [table.tasks[task].name for task in table.item_tasks]
    questions = pa.array([f"What does the review say about the {aspect}?" for aspect in aspects], pa.large_string())
    return replace(table, items=replace(table.items, texts=questions, contexts=table.items.texts))
