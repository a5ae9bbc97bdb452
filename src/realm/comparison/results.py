"""One SQLite file with every finished cell: whole cells only, each once, whatever happens to the process.

A cell is added by one short transaction (rollback journal, `synchronous=FULL`), so that a process killed at any moment
leaves each cell there or not there. Reading executes nothing: JSON and raw bytes only, and the database's own schema is
not trusted. Every column has a schema of ours: a cell comes back as it was written or is refused, naming it.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from realm.comparison.cells import Cell
from realm.errors import RealmError
from realm.files import parse_json, reading

if TYPE_CHECKING:
    import pandas as pd

    from realm.comparison.training import CellResult

APPLICATION = 0x7265616C
"""Marks the file as ours: `real` in ASCII."""
LAYOUT = 5
"""Of the table below, counted up with every change of it; a file of another layout is refused."""
BUSY_TIMEOUT = 60.0
"""Seconds to wait for another process that is writing; a transaction takes milliseconds."""
CHUNK = 500
"""Ids in one query: below 999, the limit of parameters in SQLite before 3.32."""

TABLE = """
CREATE TABLE cells (
    id TEXT PRIMARY KEY, content TEXT NOT NULL, trial INTEGER NOT NULL, model TEXT NOT NULL, origin TEXT NOT NULL,
    method TEXT NOT NULL, seed INTEGER NOT NULL, selected_settings TEXT NOT NULL, metrics TEXT NOT NULL,
    expertise TEXT NOT NULL, curve TEXT NOT NULL, trajectory TEXT NOT NULL, config TEXT NOT NULL, data TEXT NOT NULL,
    weights TEXT NOT NULL, seconds REAL NOT NULL, finished_at TEXT NOT NULL, labels BLOB NOT NULL, gold BLOB NOT NULL,
    gold_log_probs BLOB NOT NULL
)
"""
JSON_COLUMNS = ("selected_settings", "metrics", "expertise", "curve", "trajectory", "config")
PLAIN_COLUMNS = ("data", "weights", "seconds", "finished_at")
EXPERTISE_COLUMNS = (
    *("annotator", "task", "annotations", "pool_accuracy", "true_accuracy"),
    *("expertise_trained", "expertise", "accuracy"),
)
"""Of an annotator and task: the configured accuracy of a simulated annotator, the realised one (against gold), sigma
of omega, and expertise and accuracy re-estimated on the joint likelihood."""


class Results:
    """The finished cells of a results file. Use `open`."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path, self._connection = path, connection

    @classmethod
    def open(cls, path: str | Path, *, create: bool = False) -> Results:
        """Open a results file, read-only unless `create` (which creates it where it does not exist)."""
        path = Path(path)
        if not create and not path.is_file():
            raise RealmError(f"{path}: no such file, so there are no results.")
        try:
            if create:
                path.parent.mkdir(parents=True, exist_ok=True)
            elif os.path.exists(f"{path}-journal"):
                _undo_half(path)
            connection = _connect(path, "rwc" if create else "ro")
            _prepare(connection, create)
        except (OSError, sqlite3.Error) as error:
            raise RealmError(f"{path}: cannot be used as a results file: {error}") from None
        if _pragma(connection, "application_id") != APPLICATION:
            connection.close()
            raise RealmError(f"{path}: is a database, but not a results file of REALM. Name another file.")
        if _pragma(connection, "user_version") != LAYOUT:
            connection.close()
            raise RealmError(f"{path}: was written by another version of realm. Name another file.")
        return cls(path, connection)

    def close(self) -> None:
        self._connection.close()

    # ---------------------------------------------------------------- writing

    def add(self, result: CellResult) -> bool:
        """Record a finished cell; False where it is recorded already."""
        cell = result.cell
        row: dict[str, Any] = {"id": cell.id, "content": cell.content, "trial": int(cell.trial), "model": cell.model}
        row |= {"origin": cell.data.origin, "method": cell.method, "seed": cell.seed}
        row |= {name: _json(getattr(result, name)) for name in JSON_COLUMNS}
        row |= {name: getattr(result, name) for name in PLAIN_COLUMNS}
        row |= {"labels": _bytes(result.labels), "gold": _bytes(result.gold)}
        row |= {"gold_log_probs": np.ascontiguousarray(result.gold_log_probs, dtype="<f4").tobytes()}
        statement = f"INSERT OR IGNORE INTO cells ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})"
        return self._write(statement, list(row.values())) == 1

    def clear(self) -> None:
        """Forget every cell."""
        self._write("DELETE FROM cells")

    def _write(self, statement: str, values: Sequence[Any] = ()) -> int:
        """One transaction with one statement; how many rows it changed."""
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                changed = connection.execute(statement, values).rowcount
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # a full disk may have ended the transaction already
                    connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise RealmError(
                f"{self.path}: cannot be written: {error}. Finished cells are kept: mend that, then give the same "
                "command again."
            ) from None
        return changed

    # ---------------------------------------------------------------- reading

    def missing(self, cells: Iterable[Cell]) -> list[Cell]:
        """The cells that are not finished, in their order."""
        cells = list(cells)
        finished = {row["id"] for row in self._rows([cell.id for cell in cells], "id")}
        return [cell for cell in cells if cell.id not in finished]

    def frame(self, cells: Sequence[Cell]) -> pd.DataFrame:
        """One row per finished cell, in the order of `cells`.

        Columns: id, the fields of a cell, its settings (those selected by trials included), the metrics, seconds,
        finished_at, data and weights (fingerprints of the data and of the model), and versions (JSON).
        """
        import pandas as pd

        columns = ("id", "trial", "selected_settings", "metrics", "config", *PLAIN_COLUMNS)
        rows = {row["id"]: row for row in self._rows([cell.id for cell in cells], ", ".join(columns))}
        records = []
        for cell in cells:
            if (row := rows.get(cell.id)) is None:
                continue
            record = {"id": cell.id, **cell.fields(), "settings": _json(dict(cell.settings))}
            record["selected_settings"] = row["selected_settings"]
            record |= {**cell.settings, **self._decoded(row, "selected_settings"), **self._decoded(row, "metrics")}
            record |= {name: row[name] for name in PLAIN_COLUMNS}
            record["versions"] = _json(self._decoded(row, "config").get("versions", {}))
            records.append(record)
        return pd.DataFrame(records)

    def predictions(self, id: str) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """The answers of a cell and the true labels, (test items with gold,) each."""
        row = self._row(id, "id, labels, gold")
        labels, gold = (self._array(row, name, "<i4") for name in ("labels", "gold"))
        if len(labels) != len(gold) or (labels < 0).any() or (gold < 0).any():
            raise self._damaged(id, "labels", "are not an answer for every true label")
        return labels, gold

    def gold_log_probs(self, id: str) -> npt.NDArray[np.float32]:
        """The model's log-probability of each true label, (test items with gold,)."""
        log_probs = self._array(self._row(id, "id, gold_log_probs"), "gold_log_probs", "<f4")
        if np.isnan(log_probs).any() or (log_probs > 1e-6).any():
            raise self._damaged(id, "gold_log_probs", "holds what is no log-probability")
        return log_probs

    def correct(self, ids: Sequence[str]) -> npt.NDArray[np.bool_] | None:
        """Whether each answer is right, (cells, items); None where the cells have no or different items."""
        predictions = [self.predictions(id) for id in ids]
        if not predictions or not all(len(gold) and np.array_equal(gold, predictions[0][1]) for _, gold in predictions):
            return None
        return np.stack([labels == gold for labels, gold in predictions])

    def metrics(self, id: str) -> dict[str, Any]:
        return dict(self._decoded(self._row(id, "id, trial, metrics"), "metrics"))

    def config(self, id: str) -> dict[str, Any]:
        """Every setting of a cell's training, the size of its data, versions and warnings."""
        return dict(self._decoded(self._row(id, "id, config"), "config"))

    def expertise(self, ids: Sequence[str]) -> pd.DataFrame:
        """One row per cell, annotator and task: id and `EXPERTISE_COLUMNS`."""
        import pandas as pd

        rows = [{"id": id, **record} for id, records in self._column(ids, "expertise") for record in records]
        return pd.DataFrame(rows, columns=["id", *EXPERTISE_COLUMNS])

    def curves(self, ids: Sequence[str]) -> pd.DataFrame:
        """Test accuracy during training: id, step, accuracy."""
        import pandas as pd

        rows = [(id, int(step), accuracy) for id, points in self._column(ids, "curve") for step, accuracy in points]
        return pd.DataFrame(rows, columns=["id", "step", "accuracy"])

    def trajectories(self, ids: Sequence[str]) -> pd.DataFrame:
        """Expertise as trained during training: id, step, annotator, task, expertise."""
        import pandas as pd

        rows = [
            (id, int(step), annotator, task, value)
            for id, trajectory in self._column(ids, "trajectory")
            for step, matrix in trajectory.get("points", ())
            for annotator, values in zip(trajectory["annotators"], matrix, strict=True)
            for task, value in zip(trajectory["tasks"], values, strict=True)
        ]
        return pd.DataFrame(rows, columns=["id", "step", "annotator", "task", "expertise"])

    def ids(self, method: str, seed: int) -> set[str]:
        """The finished cells of a method and seed, without trials."""
        query = "SELECT id FROM cells WHERE method = ? AND seed = ? AND NOT trial"
        return {row["id"] for row in self._query(query, [method, seed])}

    def data_of(self, origin: str) -> set[str]:
        """The fingerprints of the data that finished cells of an origin were trained on."""
        query = "SELECT DISTINCT data FROM cells WHERE origin = ?"
        return {row["data"] for row in self._query(query, [origin])}

    def data_folders(self) -> list[str]:
        """The folders that the data of finished cells came from, the last first."""
        rows = self._query("SELECT id, config FROM cells ORDER BY rowid DESC", [])
        folders = (self._decoded(row, "config").get("data_folder") for row in rows)
        return list(dict.fromkeys(folder for folder in folders if folder))

    def weights_of(self, model: str) -> set[str]:
        """The fingerprints of the weights that finished cells of a model were trained from."""
        query = "SELECT DISTINCT weights FROM cells WHERE model = ?"
        return {row["weights"] for row in self._query(query, [model])}

    def _column(self, ids: Sequence[str], name: str) -> list[tuple[str, Any]]:
        rows = {row["id"]: row for row in self._rows(ids, f"id, {name}")}
        return [(id, self._decoded(rows[id], name)) for id in ids if id in rows]

    def _row(self, id: str, columns: str) -> sqlite3.Row:
        if not (rows := self._rows([id], columns)):
            raise RealmError(f"{self.path}: no cell {id}.")
        return rows[0]

    def _rows(self, ids: Sequence[str], columns: str) -> list[sqlite3.Row]:
        rows: list[sqlite3.Row] = []
        for start in range(0, len(ids), CHUNK):
            chunk = ids[start : start + CHUNK]
            query = f"SELECT {columns} FROM cells WHERE id IN ({', '.join('?' * len(chunk))})"
            rows += self._query(query, chunk)
        return rows

    def _query(self, statement: str, values: Sequence[Any]) -> list[sqlite3.Row]:
        try:
            return self._connection.execute(statement, values).fetchall()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise RealmError(f"{self.path}: cannot be read: {error}. The file is damaged.") from None

    # ---------------------------------------------------------------- what a column holds

    def _decoded(self, row: sqlite3.Row, name: str) -> Any:
        """The JSON of a column, which must fit its schema."""
        place = f"{name} of cell {row['id']}"
        with reading(self.path, f"JSON in {place}", TypeError):
            value = parse_json(row[name])
        if problem := _misfit(name, value):
            raise self._damaged(row["id"], name, problem)
        return value

    def _array(self, row: sqlite3.Row, name: str, dtype: str) -> npt.NDArray[Any]:
        content = row[name]
        if not isinstance(content, bytes) or len(content) % np.dtype(dtype).itemsize:
            raise self._damaged(row["id"], name, "holds no numbers")
        return np.frombuffer(content, dtype=dtype)

    def _damaged(self, id: str, name: str, problem: str) -> RealmError:
        return RealmError(f"{self.path}: `{name}` of cell {id} {problem}. The file is damaged.")


def _misfit(name: str, value: Any) -> str | None:
    """What a schema cannot say of a column: the lengths of its lists."""
    if name == "curve" and any(len(point) != 2 for point in value):
        return "holds a point that is not a step and an accuracy"
    if name == "trajectory" and value:
        shape = (len(value.get("annotators", ())), len(value.get("tasks", ())))
        for point in value.get("points", ()):
            if len(point) != 2 or not isinstance(point[0], int) or not isinstance(point[1], list):
                return "holds a point that is not a step and a matrix"
            if (len(point[1]), *{len(row) for row in point[1]}) != shape:
                return "holds a matrix that has not a row for every annotator and a column for every task"
    return None


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"{path.resolve().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT, isolation_level=None)


def _undo_half(path: Path) -> None:
    """Take back what a process that was killed had written of a transaction, which only a writer may do."""
    with suppress(sqlite3.Error), closing(_connect(path, "rw")) as connection:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()


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
    connection.execute("COMMIT")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _bytes(labels: npt.NDArray[Any]) -> bytes:
    return np.ascontiguousarray(labels, dtype="<i4").tobytes()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=str)
