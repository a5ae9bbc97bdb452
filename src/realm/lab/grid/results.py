"""One SQLite file with every finished cell: whole cells only, each once, whatever happens to the process.

A cell is added by one short transaction (rollback journal, `synchronous=FULL`), so that a process killed at any moment
leaves each cell there or not there. Reading executes nothing: JSON and raw bytes only, and the schema is not trusted.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from realm.errors import RealmError
from realm.lab.grid.cell import Cell

if TYPE_CHECKING:
    import pandas as pd

    from realm.lab.grid.work import CellResult

APPLICATION = 0x7265616C
"""Marks the file as ours."""
LAYOUT = 2
OLDER = 1
"""The layout without `weights`; such a file is brought to the new one when it is opened for writing."""
WAIT = 60.0
"""Seconds to wait for another process that is writing."""

TABLE = """
CREATE TABLE cells (
    id TEXT PRIMARY KEY, cell TEXT NOT NULL,
    trial INTEGER NOT NULL, model TEXT NOT NULL, benchmark TEXT NOT NULL, noise TEXT, pool TEXT, regime TEXT,
    method TEXT NOT NULL, seed INTEGER NOT NULL, steps INTEGER NOT NULL, items INTEGER, test_items INTEGER,
    settings TEXT NOT NULL, chosen TEXT NOT NULL, figures TEXT NOT NULL, expertise TEXT NOT NULL, curve TEXT NOT NULL,
    trajectory TEXT NOT NULL, config TEXT NOT NULL, data TEXT NOT NULL, seconds REAL NOT NULL,
    finished_at TEXT NOT NULL, labels BLOB NOT NULL, gold BLOB NOT NULL, weights TEXT
)
"""
PLAIN = ("trial", "model", "benchmark", "noise", "pool", "regime", "method", "seed", "steps", "items", "test_items")
BATCH = 500


class Results:
    """The finished cells of a results file. Use `open`."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path, self._connection = path, connection

    @classmethod
    def open(cls, path: str | Path, *, create: bool = False) -> Results:
        """Open a results file, to read only unless `create` (which makes it where it is not there)."""
        path = Path(path)
        if not create and not path.is_file():
            raise RealmError(f"--results {path}: no such file. `realm lab run SPEC --results {path}` makes it.")
        try:
            if create:
                path.parent.mkdir(parents=True, exist_ok=True)
            where = f"{path.resolve().as_uri()}?mode={'rwc' if create else 'ro'}"
            connection = sqlite3.connect(where, uri=True, timeout=WAIT, isolation_level=None)
            _prepare(connection, create)
        except (OSError, sqlite3.Error) as error:
            raise RealmError(f"--results {path}: cannot be used as a results file: {error}") from None
        if _pragma(connection, "application_id") != APPLICATION:
            connection.close()
            raise RealmError(f"--results {path}: is a database, but no results of `realm lab run`. Name another file.")
        if _pragma(connection, "user_version") not in (OLDER, LAYOUT):
            connection.close()
            raise RealmError(f"--results {path}: was written by another version of realm. Name another file.")
        return cls(path, connection)

    def close(self) -> None:
        self._connection.close()

    # ---------------------------------------------------------------- writing

    def add(self, result: CellResult) -> bool:
        """Keep a finished cell; False where it is there already."""
        cell = result.cell
        row: dict[str, Any] = {"id": cell.id, "cell": cell.content}
        row |= {name: getattr(cell, name) for name in PLAIN} | {"trial": int(cell.trial)}
        row |= {"settings": _json(dict(cell.settings)), "chosen": _json(dict(result.chosen))}
        row |= {
            name: _json(getattr(result, name)) for name in ("figures", "expertise", "curve", "trajectory", "config")
        }
        row |= {name: getattr(result, name) for name in ("data", "weights", "seconds", "finished_at")}
        row |= {"labels": result.labels.tobytes(), "gold": result.gold.tobytes()}
        said = f"INSERT OR IGNORE INTO cells ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})"
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            added = self._connection.execute(said, list(row.values())).rowcount
            self._connection.execute("COMMIT")
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        return added == 1

    # ---------------------------------------------------------------- reading

    def missing(self, cells: Iterable[Cell]) -> list[Cell]:
        """The cells that are not finished, in their order."""
        cells = list(cells)
        there = {row["id"] for row in self._rows([cell.id for cell in cells], "id")}
        return [cell for cell in cells if cell.id not in there]

    def frame(self, cells: Sequence[Cell]) -> pd.DataFrame:
        """One row per finished cell, in the order of `cells`.

        Columns: id, the fields of a cell, every setting (as chosen, where it was), the figures, seconds, finished_at,
        data and weights (fingerprints of the benchmark and of the model; None where the file is older than they are)
        and versions (JSON).
        """
        import pandas as pd

        weights = "weights" if self._knows_weights else "NULL AS weights"
        wanted = ("id", "cell", "chosen", "figures", "config", "data", weights, "seconds", "finished_at")
        there = {row["id"]: row for row in self._rows([cell.id for cell in cells], ", ".join(wanted))}
        records = []
        for cell in cells:
            if (row := there.get(cell.id)) is None:
                continue
            chosen = json.loads(row["chosen"])
            said = {k: v for k, v in asdict(cell).items() if k not in ("settings", "choose")}
            record = {"id": cell.id, **said, "settings": _json(dict(cell.settings)), "chosen": row["chosen"]}
            record |= {**cell.settings, **chosen, **json.loads(row["figures"])}
            record |= {name: row[name] for name in ("data", "weights", "seconds", "finished_at")}
            record["versions"] = _json(json.loads(row["config"]).get("versions", {}))
            records.append(record)
        return pd.DataFrame(records)

    def predictions(self, id: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
        """The answers of a cell and the true labels, (test items,) each."""
        row = self._row(id, "labels, gold")
        return np.frombuffer(row["labels"], dtype=np.uint8), np.frombuffer(row["gold"], dtype=np.uint8)

    def figures(self, id: str) -> dict[str, Any]:
        return dict(json.loads(self._row(id, "figures")["figures"]))

    def config(self, id: str) -> dict[str, Any]:
        """Every setting of a cell's training, the size of its data, and versions."""
        return dict(json.loads(self._row(id, "config")["config"]))

    def expertise(self, ids: Sequence[str]) -> pd.DataFrame:
        """One row per cell, annotator and task: id, annotator, task, annotations, asked_accuracy, true_accuracy
        (realised), expertise_trained, expertise and accuracy (re-estimated)."""
        import pandas as pd

        rows = [{"id": id, **record} for id, records in self._column(ids, "expertise") for record in records]
        return pd.DataFrame(rows, columns=None if rows else ["id"])

    def curves(self, ids: Sequence[str]) -> pd.DataFrame:
        """Test accuracy along the training: id, step, accuracy."""
        import pandas as pd

        rows = [(id, int(step), accuracy) for id, points in self._column(ids, "curve") for step, accuracy in points]
        return pd.DataFrame(rows, columns=["id", "step", "accuracy"])

    def trajectories(self, ids: Sequence[str]) -> pd.DataFrame:
        """Expertise as trained along the training: id, step, annotator, task, expertise."""
        import pandas as pd

        rows = [
            (id, int(step), person, task, value)
            for id, way in self._column(ids, "trajectory")
            for step, matrix in way.get("points", ())
            for person, of_person in zip(way["annotators"], matrix, strict=True)
            for task, value in zip(way["tasks"], of_person, strict=True)
        ]
        return pd.DataFrame(rows, columns=["id", "step", "annotator", "task", "expertise"])

    def data_of(self, benchmark: str) -> set[str]:
        """The fingerprints of the data that finished cells of a benchmark were trained on."""
        asked = self._connection.execute("SELECT DISTINCT data FROM cells WHERE benchmark = ?", [benchmark])
        return {row["data"] for row in asked}

    def weights_of(self, model: str) -> set[str]:
        """The fingerprints of the weights that finished cells of a model were trained from, where they are known."""
        if not self._knows_weights:
            return set()
        said = "SELECT DISTINCT weights FROM cells WHERE model = ? AND weights IS NOT NULL"
        return {row["weights"] for row in self._connection.execute(said, [model])}

    @property
    def _knows_weights(self) -> bool:
        return _pragma(self._connection, "user_version") == LAYOUT

    def _column(self, ids: Sequence[str], name: str) -> list[tuple[str, Any]]:
        there = {row["id"]: row[name] for row in self._rows(ids, f"id, {name}")}
        return [(id, json.loads(there[id])) for id in ids if id in there]

    def _row(self, id: str, columns: str) -> sqlite3.Row:
        if not (rows := self._rows([id], columns)):
            raise RealmError(f"{self.path}: no cell {id}.")
        return rows[0]

    def _rows(self, ids: Sequence[str], columns: str) -> list[sqlite3.Row]:
        found: list[sqlite3.Row] = []
        for start in range(0, len(ids), BATCH):
            part = ids[start : start + BATCH]
            said = f"SELECT {columns} FROM cells WHERE id IN ({', '.join('?' * len(part))})"
            found += self._connection.execute(said, part).fetchall()
        return found


def _prepare(connection: sqlite3.Connection, create: bool) -> None:
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA trusted_schema = OFF")
    if not create:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("BEGIN IMMEDIATE")
    if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        connection.execute(TABLE)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {LAYOUT}")
    elif (_pragma(connection, "application_id"), _pragma(connection, "user_version")) == (APPLICATION, OLDER):
        connection.execute("ALTER TABLE cells ADD COLUMN weights TEXT")
        connection.execute(f"PRAGMA user_version = {LAYOUT}")
    connection.execute("COMMIT")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=str)
