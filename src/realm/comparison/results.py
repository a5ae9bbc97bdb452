"""A folder of finished cells, each found by its id: facts and figures as JSON, arrays as parquet.

    <id>.json               what was trained (`content`, which the id is a hash of), its metrics, settings and versions
    <id>.answers.parquet    label, gold, gold_log_prob of each test item; likewise `expertise`, `trajectory`, `curve`

Every file is written beside and renamed, the JSON last: a process killed at any moment leaves a cell whole or absent,
and several processes may fill one folder.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from realm.comparison.cells import Cell
from realm.errors import RealmError
from realm.files import read_json, reading, replacing, write_json, writing

if TYPE_CHECKING:
    import pandas as pd

    from realm.comparison.training import CellResult

SUMMARY = "results.json"
"""In the folder of a comparison: what was found, for pages and other programs."""


class Results:
    """The finished cells of a folder. Nothing is opened or created before something is read or added."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def add(self, result: CellResult) -> None:
        """Record a finished cell; a `ValueError` for one with a figure that is no number, which a file has as null."""
        figures = {name: value for name, value in result.metrics.items() if isinstance(value, float)}
        if wrong := [name for name, value in figures.items() if not math.isfinite(value)]:
            raise ValueError(f"the cell {result.cell.id} has no number for {', '.join(wrong)}")
        path = self._path(result.cell.id)
        with writing(path, advice=" Finished cells are kept: mend that, then give the same command again."):
            for name, table in result.tables.items():
                with replacing(path.with_suffix(f".{name}.parquet")) as partial:
                    table.to_parquet(partial, index=False)
            write_json(path, result.record())

    def missing(self, cells: Iterable[Cell]) -> list[Cell]:
        """The cells that are not finished, in their order."""
        return [cell for cell in cells if not self._path(cell.id).is_file()]

    def ids(self) -> list[str]:
        """The ids of all finished cells."""
        return sorted(path.stem for path in self.folder.glob("[0-9a-f]*.json"))

    def record(self, id: str) -> dict[str, Any]:
        """What the JSON file of a cell holds."""
        path = self._path(id)
        record = read_json(path)
        if not isinstance(record, dict) or record.get("id") != id or not {"content", "metrics", "data"} <= set(record):
            raise RealmError(f"{path}: not the record of cell {id}. Remove the file, and the cell is trained again.")
        return record

    def table(self, name: str, ids: Sequence[str]) -> pd.DataFrame:
        """A table of several cells below each other, with the cell's `id` in front; empty where no cell has it."""
        import pandas as pd

        tables = [pd.DataFrame({"id": []})]
        for id in ids:
            path = self._path(id).with_suffix(f".{name}.parquet")
            if path.is_file():
                with reading(path, "parquet"):
                    table = pd.read_parquet(path)
                table.insert(0, "id", id)
                tables.append(table)
        return pd.concat(tables[1:] or tables, ignore_index=True)

    def frame(self, cells: Sequence[Cell]) -> pd.DataFrame:
        """One row per finished cell, in the order of `cells`: id, its fields and settings, the metrics, seconds."""
        import pandas as pd

        rows = []
        for cell in cells:
            if not self.missing([cell]):
                record = self.record(cell.id)
                figures = {**record["metrics"], "seconds": record["seconds"]}
                rows.append({"id": cell.id, **cell.fields(), **cell.settings, **figures})
        return pd.DataFrame(rows)

    def correct(self, ids: Sequence[str]) -> npt.NDArray[np.bool_] | None:
        """Whether each answer is right, (cells, items); None where the cells have no or different items."""
        tables = [self.table("answers", [id]) for id in ids]
        if not tables or any("gold" not in table or not tables[0]["gold"].equals(table["gold"]) for table in tables):
            return None
        return np.stack([(table["label"] == table["gold"]).to_numpy() for table in tables])

    def _path(self, id: str) -> Path:
        return self.folder / f"{id}.json"


def read_summary(folder: Path) -> dict[str, Any]:
    """What `results.json` of a finished comparison holds: a record per method and per training, and the ranking."""
    path = folder / SUMMARY
    if not path.is_file():
        raise RealmError(f"{folder} holds no {SUMMARY}: it is not the folder of a finished `realm compare`.")
    summary = read_json(path)
    for name in ("methods", "trainings", "ranking"):
        if not isinstance(summary, dict) or not summary.get(name):
            raise RealmError(f"{path}: it lacks `{name}`: it is not what `realm compare` writes. Run that again.")
    return dict(summary)
