"""What an aggregation has learned of annotators, kept in a file so that the next one goes on from there.

EM that starts where it ended before needs two or three iterations when little is new, and ends at the same maximum as
far as its tolerance tells. An annotator who is new starts as the mean of the others.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from realm.crowd.evidence import Floats
from realm.errors import RealmError
from realm.files import reading, replacing, writing

KEY = b"realm aggregate"
FORMAT = 1
SCHEMA = pa.schema({"task": pa.int32(), "annotator": pa.large_string(), "parameters": pa.large_list(pa.float64())})


@dataclass(frozen=True, eq=False)
class WarmStart:
    """Where EM starts: `parameters` (annotators, width), NaN for those not known; `class_shares` (options,)."""

    parameters: Floats
    class_shares: Floats


@dataclass(frozen=True, eq=False)
class FittedTask:
    """The annotators of a task: `parameters` (annotators, width) as the method has them, `class_shares` (options,)."""

    name: str
    labels: tuple[str, ...] | None
    annotators: tuple[str, ...]
    parameters: Floats
    class_shares: Floats

    def start(self, annotators: list[str], options: int) -> WarmStart | None:
        """The start for these annotators; None where the options are others, or nobody is known."""
        if options != len(self.class_shares):
            return None
        row = {name: index for index, name in enumerate(self.annotators)}
        rows = np.array([row.get(name, -1) for name in annotators])
        if (rows < 0).all():
            return None
        parameters = np.where((rows < 0)[:, None], np.nan, self.parameters[rows])
        return WarmStart(parameters, self.class_shares)


@dataclass(frozen=True, eq=False)
class FittedAnnotators:
    """What a method has learned, task by task. `write` and `read` keep it in a parquet file."""

    method: str
    tasks: tuple[FittedTask, ...]

    def of(self, name: str, labels: tuple[str, ...] | None) -> FittedTask | None:
        """The task of this name, where its labels are the same in the same order."""
        return next((task for task in self.tasks if task.name == name and task.labels == labels), None)

    def write(self, path: Path) -> None:
        described = [
            {"name": task.name, "labels": task.labels, "class_shares": task.class_shares.tolist()}
            for task in self.tasks
        ]
        entries = {"format": FORMAT, "method": self.method, "tasks": described}
        columns = {
            "task": np.repeat(
                np.arange(len(self.tasks), dtype=np.int32), [len(task.annotators) for task in self.tasks]
            ),
            "annotator": [name for task in self.tasks for name in task.annotators],
            "parameters": [row for task in self.tasks for row in task.parameters],
        }
        table = pa.table(columns, schema=SCHEMA.with_metadata({KEY: json.dumps(entries).encode()}))
        with writing(path, advice=""), replacing(path) as partial, partial.open("wb") as file:
            pq.write_table(table, file, compression="zstd")

    @classmethod
    def read(cls, path: Path) -> FittedAnnotators:
        """The file that `write` wrote; anything else is an error that names it."""
        kind = "the annotators of an earlier aggregation"
        with reading(path, kind, pa.ArrowException, ValueError, KeyError, TypeError):
            with pq.ParquetFile(path) as file:
                table = file.read()
            table.validate(full=True)
            entries = json.loads((table.schema.metadata or {})[KEY])
            if entries["format"] != FORMAT or not table.schema.remove_metadata().equals(SCHEMA):
                raise ValueError("it was written by another version, or by something else")
            task = table["task"].to_numpy()
            names, rows = table["annotator"].to_pylist(), table["parameters"].to_pylist()
            return cls(
                str(entries["method"]),
                tuple(_task(i, each, task, names, rows) for i, each in enumerate(entries["tasks"])),
            )


def _task(index: int, entry: dict[str, Any], task: np.ndarray, names: list[str], rows: list[list[float]]) -> FittedTask:
    own = np.flatnonzero(task == index)
    parameters = np.array([rows[row] for row in own], dtype=np.float64).reshape(len(own), -1)
    shares = np.array(entry["class_shares"], dtype=np.float64)
    annotators = tuple(str(names[row]) for row in own)
    if not np.isfinite(parameters).all() or not np.isfinite(shares).all() or (shares < 0).any() or not len(own):
        raise ValueError(f"the numbers of task {index} are not what an aggregation leaves")
    if len(set(annotators)) < len(annotators):
        raise ValueError(f"two annotators of task {index} have one name")
    labels = entry["labels"]
    return FittedTask(str(entry["name"]), None if labels is None else tuple(labels), annotators, parameters, shares)


def check_method(fitted: FittedAnnotators, method: str) -> None:
    """Refuse what another method has learned: its parameters mean something else."""
    if fitted.method != method:
        raise RealmError(
            f"`start_from` was learned by {fitted.method}, and `method={method}` has other parameters. Use "
            f"`method={fitted.method}`, or leave out `start_from`."
        )
