"""What a benchmark is, and where its data comes from: a folder, or the Hugging Face hub by id."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from realm import Annotations, RealmError

MIN_ANNOTATIONS = 100
"""Of a real annotator, to be ranked for the contrast pool. The paper gives no such number; with this one its pool of
SentPolarity has the sizes that its epochs imply (see the page on benchmarks)."""
TITLES = {
    "arc": "ARC", "obqa": "OBQA", "piqa": "PIQA", "riddlesense": "Riddle", "pubmedqa": "PubMedQA",
    "wikiattack": "WikiAttack", "wikitoxicity": "WikiToxicity", "sentpolarity": "SentPolarity",
    "goemotions": "GoEmotions", "cebab": "CEBaB", "civilcomments": "CivilComments",
}  # fmt: skip
"""What the paper calls the data sets."""
PARQUET_BRANCH = "refs/convert/parquet"
"""Where the hub keeps the Parquet files that it makes of a set published as a loading script."""


@dataclass(frozen=True)
class Benchmark:
    """A data set of the paper's kind, split in two.

    | field | meaning |
    |---|---|
    | name | what the lab calls it |
    | train | items, with gold as far as there is any; annotated, or bare where annotators are simulated |
    | test | items with gold, of the same tasks |
    | simulated | whether annotators are to be simulated over the gold of `train` |
    | contrast | m of the paper's contrast-m pool; 0 where annotators are simulated or the paper has no such set |
    | min_annotations | annotators with fewer annotations of items with gold are not ranked for the pool |
    | instruction | the sentence in front of every prompt; None for questions, which need none |
    """

    name: str
    train: Annotations
    test: Annotations
    simulated: bool
    contrast: int = 0
    min_annotations: int = 1
    instruction: str | None = None

    @property
    def title(self) -> str:
        """What the paper calls it."""
        return TITLES[self.name.partition("/")[0]]


def build_pair(
    train: pd.DataFrame,
    test: pd.DataFrame,
    *,
    source: str,
    labels: Sequence[str] | None = None,
    label_form: Any = "auto",
    dropped: Mapping[str, Iterable[int]] | None = None,
) -> tuple[Annotations, Annotations]:
    """Both halves, the test one with the tasks of the training one. `dropped` are row numbers by reason.

    Without a column of annotators the training half has items with gold and no annotations.
    """
    from_pandas = Annotations.from_pandas if "annotator" in train.columns else Annotations.test_from_pandas
    train_table = from_pandas(train, source=f"{source} (train)", labels=labels, label_form=label_form)
    for reason, rows in (dropped or {}).items():
        train_table.ledger.add(reason, rows)
    test_table = Annotations.test_from_pandas(
        test, tasks=train_table.tasks, source=f"{source} (test)", label_form=label_form
    )
    return train_table, test_table


def in_hash_order(names: Iterable[str], salt: str) -> list[str]:
    """The names in an order that depends on nothing but themselves: for splits that the paper does not give."""
    return sorted(names, key=lambda name: hashlib.sha256(f"{salt}:{name}".encode()).digest())


# -------------------------------------------------------------------- files


@dataclass(frozen=True)
class SetFolder:
    """The places in which the files of a set may lie: sub-folders of a folder, and the folder itself."""

    title: str
    places: tuple[Path, ...]

    @classmethod
    def of(cls, name: str, folder: Path, *more: str) -> SetFolder:
        """Of a set: sub-folders by its name and by `more` names."""
        if not folder.is_dir():
            raise RealmError(f"`data={folder}`: there is no such folder.")
        return cls(TITLES[name], (*(folder / each for each in (name, *more) if (folder / each).is_dir()), folder))

    def find(self, *patterns: str) -> Path | None:
        """The first file that matches, by place and then by pattern."""
        matches = (path for place in self.places for pattern in patterns for path in sorted(place.glob(pattern)))
        return next(matches, None)

    def get(self, *patterns: str) -> Path:
        """The same, and an error where there is none."""
        if (file := self.find(*patterns)) is None:
            raise self.missing(patterns[0])
        return file

    def pair(self, train: Sequence[str], test: Sequence[str]) -> tuple[Path, Path]:
        """The files of the two halves, both from one place."""
        for place in self.places:
            alone = SetFolder(self.title, (place,))
            if (first := alone.find(*train)) is not None and (second := alone.find(*test)) is not None:
                return first, second
        raise self.missing(" or ".join(train), " or ".join(test))

    def read_plain(self, labels: Sequence[str], published: str) -> tuple[Annotations, Annotations]:
        """The plain form of an annotated set, for want of the `published` file: `annotations.csv` and `test.csv`."""
        folder = SetFolder(f"{self.title}: no {published}, and", self.places)
        first, second = folder.pair(["annotations.csv"], ["test.csv"])
        train = Annotations.read(first, labels=labels)
        return train, Annotations.read_test(second, tasks=train.tasks)

    def missing(self, *names: str) -> RealmError:
        return RealmError(
            f"`data`: {self.title}: no {' and no '.join(names)} in {', '.join(map(str, self.places))}. The page on "
            "benchmarks lists the files of each set."
        )


def not_on_hub(name: str, files: str) -> RealmError:
    return RealmError(
        f"{TITLES[name]} is not on the hub with its annotators. Give a folder with {files} as `data`; the page on "
        "benchmarks says where they are published."
    )


def read_table(file: Path, columns: Sequence[str] | None = None, separator: str = ",") -> pd.DataFrame:
    """Columns of a published table (all of them by default), every value as text."""
    try:
        frame = pd.read_csv(file, sep=separator, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise RealmError(f"{file}: not a readable table ({error}).") from None
    return frame if columns is None else take_columns(frame, columns, str(file))


def take_columns(frame: pd.DataFrame, columns: Sequence[str], source: str) -> pd.DataFrame:
    if absent := [name for name in columns if name not in frame.columns]:
        raise RealmError(f"{source}: no column {', '.join(absent)}. There are: {', '.join(frame.columns)}.")
    return frame[list(columns)]


def read_records(file: Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines."""
    records = []
    with file.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                records.append(parse_object(line, f"{file}, line {number}"))
    if not records:
        raise RealmError(f"{file}: the file is empty.")
    return records


def parse_object(text: str, source: str) -> dict[str, Any]:
    """A JSON object; `source` begins the error where there is none."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise RealmError(f"{source}: not readable JSON ({error}).") from None
    if not isinstance(value, dict):
        raise RealmError(f"{source}: not a JSON object but {type(value).__name__}.")
    return value


# -------------------------------------------------------------------- the hub


@dataclass(frozen=True)
class Hub:
    """A data set on the hub: its id, configuration and revision. Nothing that comes from the hub is run."""

    id: str
    config: str | None = None
    revision: str | None = None

    def rows(self, split: str, offline: bool) -> Any:
        """One split as a `datasets.Dataset`; with `offline`, from the hub's cache on this machine only."""
        from datasets import load_dataset

        try:
            with _hub_closed(offline):
                return load_dataset(self.id, self.config, split=split, revision=self.revision)
        except Exception as error:  # the hub's client raises whatever its network library does
            reason = str(error).strip().split("\n", 1)[0][:200] or type(error).__name__
            why = "is not in the cache, and network calls are forbidden" if offline else f"cannot be had ({reason})"
            raise RealmError(
                f"{self.id}, split {split}: {why}. Give a folder with its files as `data`; the page on benchmarks "
                "lists the files of each set."
            ) from None


@contextmanager
def _hub_closed(closed: bool) -> Iterator[None]:
    """Forbid network calls for a while, although both libraries have read their environment already."""
    from datasets import config
    from huggingface_hub import constants

    before = config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE
    if closed:
        config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = before
