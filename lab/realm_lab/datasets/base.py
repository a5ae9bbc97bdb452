"""What a benchmark is, and the files of a data set in a folder or on the Hugging Face hub."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from realm import Annotations, RealmError

MIN_ANNOTATIONS = 100
"""Of a real annotator, to be ranked for the contrast pool. The paper gives no such number; with this one its pool of
SentPolarity has the sizes that its epochs imply (docs/benchmarks.md)."""
TITLES = {
    "arc": "ARC", "obqa": "OBQA", "piqa": "PIQA", "riddlesense": "Riddle", "pubmedqa": "PubMedQA",
    "wikiattack": "WikiAttack", "wikitoxicity": "WikiToxicity", "sentpolarity": "SentPolarity",
    "goemotions": "GoEmotions", "cebab": "CEBaB", "civilcomments": "CivilComments",
}  # fmt: skip
"""What the paper calls the data sets."""
PARQUET_BRANCH = "refs/convert/parquet"
"""Where the hub keeps the Parquet files that it makes of a set published as a loading script."""
Halves = tuple[pd.DataFrame, pd.DataFrame]


@dataclass(frozen=True)
class Benchmark:
    """A data set in two halves.

    | field | meaning |
    |---|---|
    | name | what the lab calls it |
    | train | items, with gold as far as there is any; annotated, or bare where annotators are simulated |
    | test | items with gold, of the same tasks |
    | contrast | m of the paper's contrast-m pool; 0 where the paper has no such pool |
    | min_annotations | annotators with fewer annotations of items with gold are not ranked for that pool |
    | instruction | the sentence in front of every prompt; None for questions, which need none |
    """

    name: str
    train: Annotations
    test: Annotations
    contrast: int = 0
    min_annotations: int = MIN_ANNOTATIONS
    instruction: str | None = None


def build_pair(
    halves: Halves,
    labels: Sequence[str] | None = None,
    label_form: Literal["auto", "index"] = "auto",
    dropped: Mapping[str, Iterable[int]] | None = None,
) -> tuple[Annotations, Annotations]:
    """Both halves as tables, the second with the tasks of the first. `dropped` are row numbers by reason.

    A first half without a column of annotators has items with gold and no annotations.
    """
    read = Annotations.from_pandas if "annotator" in halves[0].columns else Annotations.test_from_pandas
    train = read(halves[0], labels=labels, label_form=label_form)
    for reason, rows in (dropped or {}).items():
        train.ledger.add(reason, rows)
    return train, Annotations.test_from_pandas(halves[1], tasks=train.tasks, label_form=label_form)


def in_hash_order(names: Iterable[str], salt: str) -> list[str]:
    """The names in an order that depends on nothing but themselves: for splits that the paper does not give."""
    return sorted(names, key=lambda name: hashlib.sha256(f"{salt}:{name}".encode()).digest())


@dataclass(frozen=True)
class Files:
    """The places in which the files of a set may lie: sub-folders of a folder, and the folder itself."""

    title: str
    places: tuple[Path, ...]

    @classmethod
    def of(cls, name: str, folder: Path | None, subfolders: Sequence[str], published: str) -> Files:
        """Of the set `name`; `published` says in an error which files are asked for where there is no folder."""
        if folder is None:
            raise RealmError(f"{TITLES[name]} is not on the hub with its annotators. Give a folder with {published}.")
        if not folder.is_dir():
            raise RealmError(f"`data={folder}`: there is no such folder.")
        return cls(TITLES[name], (*(folder / each for each in (name, *subfolders) if (folder / each).is_dir()), folder))

    def find(self, *patterns: str) -> Path | None:
        """The first file that matches, by place and then by pattern."""
        matches = (path for place in self.places for pattern in patterns for path in sorted(place.glob(pattern)))
        return next(matches, None)

    def get(self, *patterns: str) -> Path:
        """The same, and an error where there is none."""
        if (file := self.find(*patterns)) is None:
            places = ", ".join(map(str, self.places))
            raise RealmError(
                f"`data`: {self.title}: no {' and no '.join(patterns)} in {places}. docs/benchmarks.md lists the files "
                "of each set."
            )
        return file


def read_table(file: Path, columns: Sequence[str] | None = None, separator: str = ",") -> pd.DataFrame:
    """Columns of a published table (all of them by default), every value as text."""
    try:
        frame = pd.read_csv(file, sep=separator, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise RealmError(f"{file}: not a readable table ({error}).") from None
    if absent := [name for name in columns or () if name not in frame.columns]:
        raise RealmError(f"{file}: no column {', '.join(absent)}. There are: {', '.join(frame.columns)}.")
    return frame if columns is None else frame[list(columns)]


def read_records(file: Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines."""
    records = []
    for number, line in enumerate(file.read_text(encoding="utf-8-sig").split("\n"), 1):
        if not line.strip():
            continue
        try:
            records.append(dict(json.loads(line)))
        except (ValueError, TypeError) as error:
            raise RealmError(f"{file}, line {number}: not a JSON object ({error}).") from None
    if not records:
        raise RealmError(f"{file}: the file is empty.")
    return records


def hub_rows(name: str, split: str, config: str | None = None, revision: str | None = None) -> list[dict[str, Any]]:
    """One split of a set on the hub. Nothing that comes from the hub is run; HF_HUB_OFFLINE=1 asks its cache alone."""
    from datasets import load_dataset

    try:
        return list(load_dataset(name, config, split=split, revision=revision))
    except Exception as error:  # the hub's client raises whatever its network library does
        reason = str(error).strip().split("\n", 1)[0][:200] or type(error).__name__
        raise RealmError(
            f"{name}, split {split}: cannot be had ({reason}). Give a folder with its files; docs/benchmarks.md lists "
            "the files of each set."
        ) from None
