"""What a benchmark is, and where its data comes from: a folder, or the hub by id."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from realm.data import Annotations, Ledger
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

MIN_ANNOTATIONS = 100
"""Of a real annotator, to be ranked for the contrast pool. The paper gives no such number; with this one its pool of
SentPolarity has the sizes that its epochs imply (see the page on benchmarks)."""


@dataclass(frozen=True)
class Benchmark:
    """A data set of the paper's kind, split in two.

    | field | meaning |
    |---|---|
    | name, title | what the lab calls it, and what the paper does |
    | train | items, with gold as far as it is known; annotated, or bare where annotators are simulated |
    | test | items with gold, of the same tasks |
    | simulated | whether annotators are to be simulated over the gold of `train` |
    | contrast | m of the paper's contrast-m pool; 0 where annotators are simulated or the paper has no such set |
    | min_annotations | annotators with fewer annotations of items with gold are not ranked for the pool |
    | instruction | the sentence in front of every prompt; None for questions, which need none |
    """

    name: str
    title: str
    train: Annotations
    test: Annotations
    simulated: bool
    contrast: int = 0
    min_annotations: int = 1
    instruction: str | None = None


def table_pair(train: pd.DataFrame, test: pd.DataFrame, *, source: str, **how: Any) -> tuple[Annotations, Annotations]:
    """Both halves, the test one with the tasks of the training one. Further arguments are those of `build`.

    Without a column of annotators the training half is bare: items with gold.
    """
    from_pandas = Annotations.from_pandas if "annotator" in train.columns else Annotations.test_from_pandas
    made = from_pandas(train, source=f"{source} (train)", **how)
    how = {name: value for name, value in how.items() if name not in ("labels", "ledger")}
    return made, Annotations.test_from_pandas(test, tasks=made.tasks, source=f"{source} (test)", **how)


def in_hash_order(names: Iterable[str], salt: str) -> list[str]:
    """The names in an order that depends on nothing but themselves: for splits that the paper does not give."""
    return sorted(names, key=lambda name: hashlib.sha256(f"{salt}:{name}".encode()).digest())


# -------------------------------------------------------------------- folders


def places(folder: Path, *names: str) -> list[Path]:
    """Where the files of a set may lie: in a sub-folder of one of these names, or directly in the folder."""
    if not folder.is_dir():
        raise RealmError(f"--data {folder}: there is no such folder.")
    return [*(folder / name for name in names if (folder / name).is_dir()), folder]


def find(where: Sequence[Path], *patterns: str) -> Path | None:
    """The first file that matches, by place and then by pattern."""
    for place in where:
        for pattern in patterns:
            if found := sorted(place.glob(pattern)):
                return found[0]
    return None


def pair_of_files(where: Sequence[Path], train: Sequence[str], test: Sequence[str], title: str) -> tuple[Path, Path]:
    """The files of the two halves, both from one place."""
    for place in where:
        first, second = find([place], *train), find([place], *test)
        if first is not None and second is not None:
            return first, second
    raise missing(where, title, [" or ".join(train), " or ".join(test)])


def read_plain(where: Sequence[Path], title: str, **how: Any) -> tuple[Annotations, Annotations, str]:
    """The plain form of an annotated set: `annotations.csv` and `test.csv`, and where they lie.

    Further arguments are those of `Annotations.read`.
    """
    first, second = pair_of_files(where, ["annotations.csv"], ["test.csv"], title)
    train = Annotations.read(first, **how)
    return train, Annotations.read_test(second, tasks=train.tasks), str(first.parent)


def missing(where: Sequence[Path], title: str, wanted: Sequence[str]) -> RealmError:
    searched = ", ".join(str(place) for place in where)
    return RealmError(
        f"--data: {title}: no {' and no '.join(wanted)} in {searched}. The page on benchmarks lists each set's files."
    )


# -------------------------------------------------------------------- the hub


@dataclass(frozen=True)
class Hub:
    """A data set on the hub: its id, configuration and revision.

    Sets that are published as a loading script are read from the branch of Parquet files that the hub makes of them:
    nothing that comes from the hub is run.
    """

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
                f"{self.id}, split {split}: {why}. Give a folder with the data by --data FOLDER; the page on "
                "benchmarks lists the files of each set."
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


PARQUET_BRANCH = "refs/convert/parquet"


def dropped(reasons: dict[str, list[int]]) -> Ledger:
    """A ledger of the rows that a loader left out."""
    ledger = Ledger()
    for reason, rows in reasons.items():
        ledger.add(reason, rows)
    return ledger
