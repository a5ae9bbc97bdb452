"""Results as a folder of text files that a repository can hold, so that tables are redrawn without training.

`cells.jsonl` has a line per cell: what it is, its metrics, and which test items it answered right. `settings.json` has
the settings that decided the results, defaults resolved: a cell is found again only as long as each of them has the
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
from realm.lab.spec import specified

CELLS, SETTINGS = "cells.jsonl", "settings.json"
PER_SEED = ("seed", "data_seed")
"""Settings that differ by seed, which a row has anyway."""
PLAIN = ("id", "key", "settings", "effective", "correct", "n_test")
"""Fields of a line that are no figures of a cell."""


class RecordedResults:
    """What `record` wrote, read where `Results` is: by `load_spec_results` and the tables."""

    def __init__(self, rows: Sequence[dict[str, Any]], settings: Mapping[str, Mapping[str, Any]]) -> None:
        self._rows = {str(row["key"]): row for row in rows}
        self._settings = settings
        self._correct = {str(row["id"]): row for row in self._rows.values()}

    @classmethod
    def open(cls, folder: str | Path) -> RecordedResults:
        folder = Path(folder)
        try:
            lines = (folder / CELLS).read_text(encoding="utf-8").splitlines()
            rows = [json.loads(line) for line in lines]
            settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise RealmError(f"{folder}: the recorded results cannot be read: {error}.") from None
        needed = ("id", "key", "effective", "correct", "n_test", "accuracy")
        for number, row in enumerate(rows, start=1):
            if not isinstance(row, dict) or any(name not in row for name in needed):
                raise RealmError(f"{folder / CELLS}, line {number}: not a cell with {', '.join(needed)}.")
        if not isinstance(settings, dict):
            raise RealmError(f"{folder / SETTINGS}: not an object of settings.")
        return cls(rows, settings)

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


def record(results: Results, cells: Sequence[Cell]) -> dict[str, str]:
    """The files that record the finished ones of these cells, by name."""
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
                "settings": dict(cell.settings),
                **metrics,
                "n_test": len(gold),
                "seconds": round(float(row["seconds"]), 1),
                "finished_at": row["finished_at"],
                "effective": digest,
                "correct": base64.b85encode(np.packbits(labels == gold).tobytes()).decode("ascii"),
                "key": key_of(cell),
            }
        )
    return {
        CELLS: "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows),
        SETTINGS: json.dumps(settings, indent=1, sort_keys=True) + "\n",
    }


def key_of(cell: Cell) -> str:
    """A hash of what a spec says of a cell, whatever the defaults are."""
    text = json.dumps(specified(cell), sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _effective(cell: Cell) -> dict[str, Any]:
    """Every setting that decides the result, as JSON holds it."""
    effective = effective_settings(cell.method, cell.seed, cell.steps, cell.settings)
    plain = {name: value for name, value in effective.items() if name not in PER_SEED}
    return dict(json.loads(json.dumps(plain, sort_keys=True, default=str)))


def _unpacked(row: Mapping[str, Any]) -> npt.NDArray[np.bool_]:
    bits = np.unpackbits(np.frombuffer(base64.b85decode(str(row["correct"])), dtype=np.uint8))
    return bits[: int(row["n_test"])].astype(bool)
