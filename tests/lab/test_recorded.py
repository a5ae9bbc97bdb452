"""Results as text files: the same tables as from the results file, and nothing of other settings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from realm.lab.recorded import CELLS, RecordedResults, record
from realm.lab.spec import Spec, expand, load_spec
from realm.lab.tables import make_tables

from realm import RealmError
from realm.comparison import cells as comparison_cells
from realm.comparison.cells import Cell
from realm.comparison.results import Results
from tests.lab.small_benchmark import SMALL
from tests.lab.tables.fake_results import fill


@pytest.fixture
def spec() -> Spec:
    return load_spec(SMALL / "real-small.yaml")


@pytest.fixture
def results(spec: Spec, tmp_path: Path) -> Results:
    return fill(tmp_path / "r.sqlite", spec, lambda cell: None if cell.seed == 2 else 0.6 + 0.01 * len(cell.method))


def write_record(results: Results, cells: list[Cell], folder: Path) -> int:
    """Write the record to a folder; how many cells it has."""
    folder.mkdir()
    files = record(results, cells)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return len(files[CELLS].splitlines())


def test_tables_are_the_same_from_both(spec: Spec, results: Results, tmp_path: Path) -> None:
    cells = expand(spec)
    assert write_record(results, cells, tmp_path / "recorded") == 14
    recorded = RecordedResults.open(tmp_path / "recorded")
    assert recorded.missing(cells) == results.missing(cells) and len(recorded.missing(cells)) == 7
    for form in ("md", "latex", "csv"):
        assert make_tables(spec, recorded).text(form) == make_tables(spec, results).text(form)
    ids = [cell.id for cell in cells if cell.method == "noisy" and cell.seed < 2]
    np.testing.assert_array_equal(recorded.correct(ids), results.correct(ids))
    assert recorded.correct([*ids, "unknown"]) is None


def test_a_changed_default_is_another_cell_and_a_new_setting_is_not(
    spec: Spec, results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = expand(spec)
    write_record(results, cells, tmp_path / "recorded")
    resolved = comparison_cells._resolved

    def with_setting(name: str, value: object) -> None:
        monkeypatch.setattr(comparison_cells, "_resolved", lambda *arguments: {**resolved(*arguments), name: value})

    with_setting("a_new_setting", 3)
    recorded = RecordedResults.open(tmp_path / "recorded")
    changed = expand(load_spec(spec.path))
    assert {cell.id for cell in changed}.isdisjoint(cell.id for cell in cells)
    assert len(recorded.missing(changed)) == 7
    assert recorded.correct([cell.id for cell in changed if cell.seed < 2 and cell.method == "noisy"]) is not None
    with_setting("weight_decay", 0.123)
    assert len(RecordedResults.open(tmp_path / "recorded").missing(expand(load_spec(spec.path)))) == 21


def test_what_is_no_record_is_said(tmp_path: Path) -> None:
    with pytest.raises(RealmError, match="recorded results cannot be read"):
        RecordedResults.open(tmp_path)
    (tmp_path / "settings.json").write_text("{}")
    (tmp_path / "cells.jsonl").write_text('{"id": "1", "accuracy": 2}\n')
    with pytest.raises(RealmError, match=r"cells.jsonl, line 1: not a cell with id, key, effective"):
        RecordedResults.open(tmp_path)
    (tmp_path / "cells.jsonl").write_text("")
    (tmp_path / "settings.json").write_text("[]")
    with pytest.raises(RealmError, match=r"settings.json: not an object"):
        RecordedResults.open(tmp_path)
