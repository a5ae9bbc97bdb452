"""Benchmarks of a person's own: tables beside a spec, under the key `benchmarks`.

    benchmarks:
      reviews:                           # the name that grids use
        train: reviews.csv               # annotations; the path is relative to the spec
        test: reviews-test.csv           # items with gold
        columns: {text: sentence, annotator: worker, label: answer, gold: truth}
        labels: [negative, positive]     # the label set and its order
        instruction: Is this review negative or positive?
        min_annotations: 10              # of an annotator, to be ranked for the pool contrast:m
        annotated: true                  # false for items with gold alone, whose annotators a grid simulates

Only `train` and `test` are needed. The content of both files is part of a cell's id: results of a table that has been
changed since are not found again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from realm import Annotations, RealmError
from realm.lab.datasets.base import MIN_ANNOTATIONS, Benchmark

KEYS = ("train", "test", "columns", "labels", "instruction", "min_annotations", "annotated")
COLUMNS = ("item", "task", "text", "context", "annotator", "label", "gold", "weight", "options")
"""The columns that may have another name in a file."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
"""`+` joins benchmarks and `/` stands before a task, so neither is part of a name."""
OF_ANNOTATIONS = ("annotator", "label", "weight")
"""Columns that a table of items with gold does not have."""


@dataclass(frozen=True)
class OwnBenchmark:
    """A checked entry of `benchmarks`. `digest` is a hash of both files and of how they are read."""

    name: str
    train: Path
    test: Path
    columns: tuple[tuple[str, str], ...]
    labels: tuple[str, ...] | None
    instruction: str | None
    min_annotations: int
    annotated: bool
    digest: str

    def load(self) -> Benchmark:
        columns: dict[str, Any] = dict(self.columns)
        of_items = {name: value for name, value in columns.items() if name not in OF_ANNOTATIONS}
        labels: dict[str, Any] = {} if self.labels is None else {"labels": self.labels}
        if self.annotated:
            train = Annotations.read(self.train, **columns, **labels)
        else:
            train = Annotations.read_test(self.train, **of_items, **labels)
        test = Annotations.read_test(self.test, tasks=train.tasks, optional=("item",), **of_items)
        return Benchmark(
            self.name, train, test, simulated=not self.annotated, contrast=0,
            min_annotations=self.min_annotations, instruction=self.instruction,
        )  # fmt: skip


def read_own_benchmarks(path: Path, content: Any, packaged: tuple[str, ...]) -> dict[str, OwnBenchmark]:
    """The entries of `benchmarks` of the spec at `path`, by name. Every error names the file and the key."""
    where = f"{path}: benchmarks"
    if content is None:
        return {}
    if not isinstance(content, Mapping) or not all(isinstance(entry, Mapping) for entry in content.values()):
        raise RealmError(f"{where}: must be like {{reviews: {{train: reviews.csv, test: reviews-test.csv}}}}.")
    found = {}
    for name, entry in content.items():
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise RealmError(f"{where}: {name!r}: a name has letters, digits, `_`, `-` and `.` only.")
        if name in packaged:
            raise RealmError(f"{where}: {name}: a benchmark of the package has this name; choose another.")
        found[name] = _read_entry(f"{where}: {name}", path.parent, name, entry)
    return found


def _read_entry(where: str, folder: Path, name: str, entry: Mapping[str, Any]) -> OwnBenchmark:
    if unknown := [str(key) for key in entry if key not in KEYS]:
        raise RealmError(f"{where}: unknown key {unknown[0]}. There are: {', '.join(KEYS)}.")
    files = {}
    for key in ("train", "test"):
        if not isinstance(entry.get(key), str):
            raise RealmError(f"{where}: {key} is missing; write `{key}: FILE`, a path relative to the spec.")
        files[key] = folder / entry[key]
        if not files[key].is_file():
            raise RealmError(f"{where}: {key}: there is no file {files[key]}.")
    columns, labels = entry.get("columns") or {}, entry.get("labels")
    if not isinstance(columns, Mapping) or not all(isinstance(value, str) for value in columns.values()):
        raise RealmError(f"{where}: columns: must be like {{text: sentence, label: answer}}.")
    if unknown := [str(key) for key in columns if key not in COLUMNS]:
        raise RealmError(f"{where}: columns: unknown column {unknown[0]}. There are: {', '.join(COLUMNS)}.")
    if labels is not None and (not isinstance(labels, list) or not all(isinstance(each, str) for each in labels)):
        raise RealmError(f"{where}: labels: must be a list of texts, such as [negative, positive].")
    instruction, least = entry.get("instruction"), entry.get("min_annotations", MIN_ANNOTATIONS)
    if instruction is not None and not isinstance(instruction, str):
        raise RealmError(f"{where}: instruction: must be text.")
    if isinstance(least, bool) or not isinstance(least, int) or least < 1:
        raise RealmError(f"{where}: min_annotations: must be a whole number of 1 or more, not {least!r}.")
    if not isinstance(annotated := entry.get("annotated", True), bool):
        raise RealmError(f"{where}: annotated: must be true or false, not {annotated!r}.")
    options = (tuple(sorted(columns.items())), None if labels is None else tuple(labels), instruction, least, annotated)
    digest = hashlib.blake2b(repr(options).encode(), digest_size=8)
    for file in files.values():
        digest.update(hashlib.blake2b(file.read_bytes()).digest())
    return OwnBenchmark(name, files["train"], files["test"], *options, digest=digest.hexdigest())
