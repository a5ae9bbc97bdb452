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

from realm import Annotations, RealmError
from realm.lab.datasets.base import MIN_ANNOTATIONS, Benchmark, Hub, SetFolder, build_pair, read_table, take_columns

NAME = "goemotions"
HUB_ID = "google-research-datasets/go_emotions"
INSTRUCTION = "Which emotion does this comment express?"
CONTRAST = 10
"""m of the paper's contrast-m pool."""
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
EMOTIONS = (*sorted(set(CLASS_OF) - {"neutral"}), "neutral")
"""In the order of their numbers in the published splits."""
UNCLEAR_COLUMN = "example_very_unclear"
UNCLEAR = "marked as very unclear"
SEVERAL = "rating with emotions of several classes"
NONE = "rating without an emotion"


def load_go_emotions(folder: Path | None, offline: bool) -> Benchmark:
    """Load it: the ratings of the comments of the training split, and the test comments with one class of gold."""
    columns = ["id", "rater_id", UNCLEAR_COLUMN, *EMOTIONS]
    if folder is None:
        source = HUB_ID
        ratings = take_columns(Hub(HUB_ID, "raw").rows("train", offline).to_pandas(), columns, source)
        simplified = Hub(HUB_ID, "simplified")
        train, test = (_from_hub(simplified.rows(split, offline).to_pandas()) for split in ("train", "test"))
    else:
        files = SetFolder.of(NAME, folder, "data")
        first = files.find("goemotions_1.csv", "full_dataset/goemotions_1.csv")
        if first is None:
            return _benchmark(*files.read_plain(LABELS, "goemotions_1.csv"))
        source = str(first.parent)
        parts = sorted(first.parent.glob("goemotions_[0-9].csv"))
        ratings = pd.concat([read_table(part, columns) for part in parts], ignore_index=True)
        train, test = (_read_split(files.get(f"{split}.tsv", f"../{split}.tsv")) for split in ("train", "test"))
    annotations, dropped = _one_class(ratings)
    train, test = annotations.merge(train, on="item"), test[test["gold"].notna()]
    if not len(train) or not len(test):
        raise RealmError(f"{source}: no rating is of a comment of the training split, or no test comment has gold.")
    return _benchmark(*build_pair(train, test, source=source, labels=LABELS, dropped=dropped))


def _benchmark(train: Annotations, test: Annotations) -> Benchmark:
    return Benchmark(
        NAME, train, test, simulated=False, contrast=CONTRAST, min_annotations=MIN_ANNOTATIONS,
        instruction=INSTRUCTION,
    )  # fmt: skip


def _one_class(ratings: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, np.ndarray]]:
    """The ratings whose emotions are all of one class (item, annotator, label), and the rows of the others."""
    classes = np.stack(
        [(ratings[list(emotions)].astype(str) == "1").to_numpy().any(axis=1) for emotions in EKMAN.values()], axis=1
    )  # (ratings, classes)
    unclear = ratings[UNCLEAR_COLUMN].astype(str).str.lower().isin(["true", "1"]).to_numpy()
    count = classes.sum(axis=1)
    reasons = {UNCLEAR: unclear, NONE: ~unclear & (count == 0), SEVERAL: ~unclear & (count > 1)}
    usable = ~unclear & (count == 1)
    annotations = pd.DataFrame(
        {
            "item": ratings["id"][usable],
            "annotator": ratings["rater_id"][usable].astype(str),
            "label": np.array(LABELS, dtype=object)[classes.argmax(axis=1)[usable]],
        }
    )
    return annotations, {reason: np.flatnonzero(rows) + 1 for reason, rows in reasons.items()}


def _from_hub(frame: pd.DataFrame) -> pd.DataFrame:
    gold = [class_of(numbers) for numbers in frame["labels"]]
    return pd.DataFrame({"item": frame["id"], "text": frame["text"], "gold": gold})


def _read_split(file: Path) -> pd.DataFrame:
    """The published split: a text, numbers and an id on each line, without quoting or a header."""
    rows = []
    for number, line in enumerate(file.read_text(encoding="utf-8").split("\n"), 1):
        if not line.strip():
            continue
        fields = line.rstrip("\r").split("\t")
        if len(fields) != 3 or not all(one.isdecimal() and int(one) < len(EMOTIONS) for one in fields[1].split(",")):
            raise RealmError(f"{file}, line {number}: not a text, the numbers of its emotions and an id.")
        rows.append((fields[2], fields[0], class_of(map(int, fields[1].split(",")))))
    return pd.DataFrame(rows, columns=["item", "text", "gold"])


def class_of(emotions: Iterable[int]) -> str | None:
    """The class of emotions given by number, where they are all of one."""
    classes = {CLASS_OF[EMOTIONS[number]] for number in emotions}
    return classes.pop() if len(classes) == 1 else None
