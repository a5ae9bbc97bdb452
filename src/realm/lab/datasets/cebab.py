"""CEBaB: restaurant reviews, and what they say of food, service, ambiance and noise. Four tasks, the same annotators.

Not a set of the paper: it is here because it is a real annotator x task matrix. Published as `train_exclusive.json`,
`dev.json` and `test.json`, a review a line. The annotators are the five who judged each aspect; gold is what the editor
of the review meant it to say, so it is known of one aspect of each edited review, and of no original.
"""

from __future__ import annotations

from ast import literal_eval
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from realm.data import Annotations
from realm.data.readers.files import open_file
from realm.errors import RealmError
from realm.lab.datasets.base import MIN_ANNOTATIONS, Benchmark, Hub, find, missing, places, read_plain, table_pair

NAME, TITLE = "cebab", "CEBaB"
HUB = Hub("CEBaB/CEBaB")
ASPECTS = ("food", "service", "ambiance", "noise")
LABELS = ("negative", "positive", "unknown")


def load_cebab(folder: Path | None, offline: bool) -> Benchmark:
    """Load it. The review is the context of the item, whose text asks about one aspect."""
    if folder is None:
        halves = [
            [row for split in splits for row in HUB.rows(split, offline)]
            for splits in (("train_exclusive", "validation"), ("test",))
        ]
        source = HUB.id
    else:
        where = places(folder, NAME, "cebab_aspects", "CEBaB-v1.1")
        if find(where, "train_exclusive.json") is None:
            train, test, _ = read_plain(where, f"{TITLE}: no train_exclusive.json, and", labels=LABELS)
            return _benchmark(_asked(train), _asked(test))
        halves, source = _from_files(where)
    train_rows, test_rows = (pd.DataFrame([row for review in half for row in _rows(review)]) for half in halves)
    test_rows = test_rows[test_rows["gold"].notna()].drop(columns=["annotator", "label"])
    train, test = table_pair(train_rows, test_rows.drop_duplicates("item"), source=source, labels=LABELS)
    return _benchmark(_asked(train), _asked(test))


def _benchmark(train: Annotations, test: Annotations) -> Benchmark:
    return Benchmark(NAME, TITLE, train, test, simulated=False, min_annotations=MIN_ANNOTATIONS)


def _from_files(where: list[Path]) -> tuple[list[list[dict[str, Any]]], str]:
    read: list[list[dict[str, Any]]] = []
    for name in ("train_exclusive.json", "dev.json", "test.json"):
        file = find(where, name)
        if file is None:
            raise missing(where, TITLE, [name])
        read.append(open_file(file, "jsonl").records())
        source = str(file.parent)
    return [read[0] + read[1], read[2]], source


def _rows(review: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each answer about each aspect of a review."""
    made = []
    for aspect in ASPECTS:
        given = _answers(review, aspect)
        edited = str(review["is_original"]).lower() != "true" and review["edit_type"] == aspect
        meant = review["edit_goal"] if edited else None
        shown = {"item": f"{review['id']}/{aspect}", "task": aspect, "text": review["description"]}
        for annotator, label in given.items():
            made.append({**shown, "annotator": annotator, "label": label, "gold": meant and meant.lower()})
    return made


def _answers(review: dict[str, Any], aspect: str) -> dict[str, str]:
    """Who said what of an aspect. The files hold an object, the hub the same as text; empty if nobody was asked."""
    given = review[f"{aspect}_aspect_validation_workers"] or {}
    try:
        given = literal_eval(given) if isinstance(given, str) else given
        return {name: label.lower() for name, label in given.items() if label}
    except (ValueError, SyntaxError, AttributeError):
        raise RealmError(f"{TITLE}, review {review['id']}: the workers of {aspect} are not an object.") from None


def _asked(table: Annotations) -> Annotations:
    """The review as the context of a question about its aspect: four tasks on one text need telling apart."""
    aspects = [table.tasks[task].name for task in table.item_tasks]
    asked = pa.array([f"What does the review say about the {aspect}?" for aspect in aspects], pa.large_string())
    return replace(table, items=replace(table.items, texts=asked, contexts=table.items.texts))
