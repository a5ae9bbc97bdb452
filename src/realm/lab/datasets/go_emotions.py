"""GoEmotions: Reddit comments and the emotions that 82 raters saw in them, as the six of Ekman plus neutral (K = 7).

Published as `goemotions_1.csv` to `goemotions_3.csv`, a row per rater and comment with a 0/1 column per emotion, and
`train.tsv`, `test.tsv` (text, numbers of the emotions that two raters or more agree on, id), which give split and gold.
On the hub these are the configurations `raw` and `simplified`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from realm.data import Annotations, Ledger
from realm.data.readers.files import open_file
from realm.data.readers.go_emotions import EMOTIONS, UNCLEAR, UNCLEAR_COLUMN
from realm.errors import RealmError
from realm.lab.datasets.base import MIN_ANNOTATIONS, Benchmark, Hub, find, missing, places, read_plain, table_pair

NAME, TITLE = "goemotions", "GoEmotions"
HUB_ID = "google-research-datasets/go_emotions"
INSTRUCTION = "Which emotion does this comment express?"
EKMAN = {
    "anger": ("anger", "annoyance", "disapproval"),
    "disgust": ("disgust",),
    "fear": ("fear", "nervousness"),
    "joy": (
        "joy", "amusement", "approval", "excitement", "gratitude", "love", "optimism", "relief", "pride", "admiration",
        "desire", "caring",
    ),
    "sadness": ("sadness", "disappointment", "embarrassment", "grief", "remorse"),
    "surprise": ("surprise", "realization", "confusion", "curiosity"),
    "neutral": ("neutral",),
}  # fmt: skip
"""The mapping that the authors of the set publish with it."""
LABELS = tuple(EKMAN)
CLASS_OF = {emotion: label for label, emotions in EKMAN.items() for emotion in emotions}
SEVERAL = "rating with emotions of several classes"
NONE = "rating without an emotion"


def load_go_emotions(folder: Path | None, offline: bool) -> Benchmark:
    """Load it: the ratings of the comments of the training split, and the test comments with one class of gold."""
    if folder is None:
        raw = Hub(HUB_ID, "raw").rows("train", offline).to_pandas()
        simplified = Hub(HUB_ID, "simplified")
        splits = [_from_hub(simplified.rows(split, offline).to_pandas()) for split in ("train", "test")]
        source = HUB_ID
    else:
        where = places(folder, NAME, "data")
        first = find(where, "goemotions_1.csv", "full_dataset/goemotions_1.csv")
        if first is None:
            train, test, _ = read_plain(where, f"{TITLE}: no goemotions_1.csv, and", labels=LABELS)
            return _benchmark(train, test)
        raw = pd.concat(
            [open_file(file).table().to_pandas() for file in sorted(first.parent.glob("goemotions_[0-9].csv"))],
            ignore_index=True,
        )
        splits, source = [_from_tsv(where, split) for split in ("train", "test")], str(first.parent)
    ratings, ledger = _ratings(raw, source)
    test_rows = splits[1][splits[1]["gold"].notna()]
    train_rows = ratings.merge(splits[0], on="item")
    if not len(train_rows) or not len(test_rows):
        raise RealmError(f"{source}: no rating is of a comment of the training split, or no test comment has gold.")
    return _benchmark(*table_pair(train_rows, test_rows, source=source, labels=LABELS, ledger=ledger))


def _benchmark(train: Annotations, test: Annotations) -> Benchmark:
    return Benchmark(
        NAME, TITLE, train, test, simulated=False, contrast=10, min_annotations=MIN_ANNOTATIONS, instruction=INSTRUCTION
    )


def _ratings(raw: pd.DataFrame, source: str) -> tuple[pd.DataFrame, Ledger]:
    """The ratings whose emotions are all of one class, with the columns item, annotator and label."""
    if absent := [name for name in ("id", "rater_id", UNCLEAR_COLUMN, *EMOTIONS) if name not in raw.columns]:
        raise RealmError(f"{source}: no column {', '.join(absent)}.")
    said = np.stack(
        [(raw[list(emotions)].astype(str) == "1").to_numpy().any(axis=1) for emotions in EKMAN.values()], axis=1
    )
    unclear = raw[UNCLEAR_COLUMN].astype(str).str.lower().isin(["true", "1"]).to_numpy()
    count = said.sum(axis=1)
    ledger = Ledger()
    for reason, which in (
        (UNCLEAR, unclear),
        (NONE, ~unclear & (count == 0)),
        (SEVERAL, ~unclear & (count > 1)),
    ):
        ledger.add(reason, (np.flatnonzero(which) + 1).tolist())
    kept = np.flatnonzero(~unclear & (count == 1))
    labels = np.array(LABELS, dtype=object)[said.argmax(axis=1)[kept]]
    people = raw["rater_id"].astype(str).to_numpy()[kept]
    return pd.DataFrame({"item": raw["id"].to_numpy()[kept], "annotator": people, "label": labels}), ledger


def _from_hub(frame: pd.DataFrame) -> pd.DataFrame:
    golds = [class_of(numbers) for numbers in frame["labels"]]
    return pd.DataFrame({"item": frame["id"], "text": frame["text"], "gold": golds})


def _from_tsv(where: list[Path], split: str) -> pd.DataFrame:
    """The published split: a text, numbers and an id on each line, without quoting or a header."""
    file = find(where, f"{split}.tsv", f"../{split}.tsv")
    if file is None:
        raise missing(where, TITLE, [f"{split}.tsv"])
    rows = []
    for number, line in enumerate(file.read_text(encoding="utf-8").split("\n"), 1):
        if not line.strip():
            continue
        cells = line.rstrip("\r").split("\t")
        if len(cells) != 3 or not all(one.isdecimal() and int(one) < len(EMOTIONS) for one in cells[1].split(",")):
            raise RealmError(f"{file}, line {number}: not a text, the numbers of its emotions and an id.")
        rows.append((cells[2], cells[0], class_of([int(one) for one in cells[1].split(",")])))
    return pd.DataFrame(rows, columns=["item", "text", "gold"])


def class_of(emotions: Iterable[int]) -> str | None:
    """The class of emotions given by number, where they are all of one."""
    classes = {CLASS_OF[EMOTIONS[number]] for number in emotions}
    return classes.pop() if len(classes) == 1 else None
