"""Results as text files: the same tables as from the folder of results, and nothing of other settings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from realm import RealmError
from realm.comparison import cells as comparison_cells
from realm.comparison.results import Results
from realm_lab import Recorded, expand, make_tables
from realm_lab.recorded import CELLS, SETTINGS, record
from realm_lab.specs import Spec
from tests.lab.small_benchmark import fill, write_spec


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    methods = ["realm", "noisy", "majority", "crowd-layer", "oracle"]
    own = {"benchmark": "sentpolarity", "noise": None, "pool": "contrast:20", "regime": ["sparse", "shared"]}
    return write_spec(tmp_path, table="real", method=methods, seeds=3, **own)


@pytest.fixture
def results(spec: Spec, tmp_path: Path) -> Results:
    level = {"realm": 0.8, "noisy": 0.6, "majority": 0.5, "oracle": 0.9}
    return fill(tmp_path / "results", spec, lambda cell: None if cell.seed == 2 else level[cell.method])


@pytest.fixture
def folder(spec: Spec, results: Results, tmp_path: Path) -> Path:
    (tmp_path / "recorded").mkdir()
    for name, text in record(results, expand(spec)).items():
        (tmp_path / "recorded" / name).write_text(text, encoding="utf-8")
    return tmp_path / "recorded"


def test_tables_are_the_same_from_both(spec: Spec, results: Results, folder: Path) -> None:
    recorded = Recorded(folder)
    for form in ("md", "latex", "csv"):
        assert make_tables(spec, recorded).text(form) == make_tables(spec, results).text(form)
    ids = [cell.id for cell in expand(spec) if cell.method == "noisy" and cell.seed < 2]
    np.testing.assert_array_equal(recorded.correct(ids), results.correct(ids))
    assert recorded.correct([*ids, "unknown"]) is None and recorded.stale == {}


def test_a_changed_default_is_stale_and_a_new_setting_is_not(
    spec: Spec, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids, resolved = {cell.id for cell in expand(spec)}, comparison_cells._resolved

    def with_setting(name: str, value: object) -> Recorded:
        monkeypatch.setattr(comparison_cells, "_resolved", lambda *arguments: {**resolved(*arguments), name: value})
        return Recorded(folder)

    recorded = with_setting("a_new_setting", 3)
    changed = expand(spec)
    assert ids.isdisjoint(cell.id for cell in changed)
    assert len(recorded.frame(changed)) == 2 * 8 and not recorded.stale
    recorded = with_setting("weight_decay", 0.123)
    assert len(recorded.frame(expand(spec))) == 0 and list(recorded.stale.values()) == [["weight_decay"]] * 16


def test_what_is_no_record_is_said(tmp_path: Path) -> None:
    with pytest.raises(RealmError, match="recorded results cannot be read"):
        Recorded(tmp_path)
    (tmp_path / SETTINGS).write_text("{}")
    (tmp_path / CELLS).write_text('{"id": "1", "accuracy": 2}\n')
    with pytest.raises(RealmError, match=r"cells.jsonl, line 1: not a cell with key, effective"):
        Recorded(tmp_path)
