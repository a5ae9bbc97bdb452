"""Results as a folder of text files that a repository can hold, so that tables are redrawn without training.

`cells.csv` has a row per cell: what it is, its metrics, and which test items it answered right. `settings.json` has the
settings that decided the results, defaults resolved: a cell is found again only as long as every one of them has the
value it had then. A setting that did not exist then is not compared.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from realm import RealmError
from realm.comparison.cells import Cell, effective_settings
from realm.comparison.results import EXPERTISE_COLUMNS, Results
from realm.files import write_text

CELLS, SETTINGS = "cells.csv", "settings.json"
PER_SEED = ("seed", "data_seed")
"""Settings that differ by seed, which a row has anyway."""
PLAIN = ("id", "key", "settings", "effective", "correct", "n_test")
"""Columns of `cells.csv` that are no figures of a cell."""


class RecordedResults:
    """What `record` wrote, read where `Results` is: by `load_spec_results` and the tables."""

    def __init__(self, cells: pd.DataFrame, settings: Mapping[str, Mapping[str, Any]]) -> None:
        rows = [{str(name): value for name, value in row.items()} for row in cells.to_dict("records")]
        self._rows = {str(row["key"]): row for row in rows}
        self._settings = settings
        self._correct = {str(row["id"]): row for row in self._rows.values()}

    @classmethod
    def open(cls, folder: str | Path) -> RecordedResults:
        folder = Path(folder)
        try:
            cells = pd.read_csv(folder / CELLS, dtype={"id": str, "key": str, "correct": str, "settings": str})
            settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RealmError(f"{folder}: no recorded results can be read there: {error}.") from None
        if missing := [name for name in ("id", "key", "effective", "correct", "accuracy") if name not in cells.columns]:
            raise RealmError(f"{folder / CELLS}: no column {', '.join(missing)}.")
        return cls(cells, settings)

    def missing(self, cells: Iterable[Cell]) -> list[Cell]:
        return [cell for cell in cells if self._row(cell) is None]

    def frame(self, cells: Sequence[Cell]) -> pd.DataFrame:
        """One row per recorded cell, in the order of `cells`: id, the fields of the cell, metrics, seconds."""
        records = [
            {**{name: value for name, value in row.items() if name not in PLAIN}, "id": cell.id, **cell.fields()}
            for cell in cells
            if (row := self._row(cell)) is not None
        ]
        return pd.DataFrame(records)

    def expertise(self, ids: Sequence[str]) -> pd.DataFrame:
        """Nothing: annotators are not recorded one by one."""
        return pd.DataFrame(columns=["id", *EXPERTISE_COLUMNS])

    def correct(self, ids: Sequence[str]) -> npt.NDArray[np.bool_] | None:
        """Whether each test item was answered right, (cells, items); None where the cells have different items."""
        answers = [_unpacked(self._correct[id]) for id in ids if id in self._correct]
        if len(answers) < len(ids) or len({len(one) for one in answers}) != 1:
            return None
        return np.stack(answers)

    def _row(self, cell: Cell) -> dict[str, Any] | None:
        row = self._rows.get(key_of(cell))
        if row is None:
            return None
        recorded, now = self._settings.get(str(row["effective"]), {}), _effective(cell)
        if not recorded or any(now.get(name) != value for name, value in recorded.items()):
            return None
        self._correct[cell.id] = row  # its id may have changed with a setting that did not exist then
        return row


def record(results: Results, cells: Sequence[Cell], folder: Path) -> int:
    """Write the finished ones of these cells to a folder; returns how many there are."""
    finished = results.frame(cells)
    by_id = {cell.id: cell for cell in cells}
    rows: list[dict[str, Any]] = []
    settings: dict[str, dict[str, Any]] = {}
    for row in finished.to_dict("records"):
        cell = by_id[row["id"]]
        effective = _effective(cell)
        digest = hashlib.blake2b(json.dumps(effective, sort_keys=True).encode(), digest_size=6).hexdigest()
        settings[digest] = effective
        labels, gold = results.predictions(cell.id)
        fields = {name: value for name, value in cell.fields().items() if name not in ("curve", "trial")}
        metrics = {name: value for name, value in results.metrics(cell.id).items() if name != "n_test"}
        rows.append(
            {
                "id": cell.id,
                **fields,
                "settings": json.dumps(dict(cell.settings), sort_keys=True),
                **metrics,
                "n_test": len(gold),
                "seconds": round(float(row["seconds"]), 1),
                "finished_at": row["finished_at"],
                "effective": digest,
                "correct": base64.b85encode(np.packbits(labels == gold).tobytes()).decode("ascii"),
                "key": key_of(cell),
            }
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / CELLS, pd.DataFrame(rows).to_csv(index=False, lineterminator="\n"))
    write_text(folder / SETTINGS, json.dumps(settings, indent=1, sort_keys=True) + "\n")
    return len(rows)


def key_of(cell: Cell) -> str:
    """A hash of what a spec says of a cell, whatever the defaults are."""
    content = {**cell.fields(), "settings": dict(cell.settings), "choose": dict(cell.choose)}
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _effective(cell: Cell) -> dict[str, Any]:
    """Every setting that decides the result, as JSON holds it."""
    effective = effective_settings(cell.method, cell.seed, cell.steps, cell.settings)
    plain = {name: value for name, value in effective.items() if name not in PER_SEED}
    return dict(json.loads(json.dumps(plain, sort_keys=True, default=str)))


def _unpacked(row: Mapping[str, Any]) -> npt.NDArray[np.bool_]:
    bits = np.unpackbits(np.frombuffer(base64.b85decode(str(row["correct"])), dtype=np.uint8))
    return bits[: int(row["n_test"])].astype(bool)
