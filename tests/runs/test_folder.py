"""Where a run may be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from realm.errors import RealmError
from realm.runs.folder import check_output


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run" / "model").mkdir(parents=True)
    (tmp_path / "run" / "config.yaml").write_text("realm: 1")
    (tmp_path / "run" / "mine.csv").write_text("mine")
    return tmp_path / "run"


@pytest.mark.parametrize("read", [".", "model", "annotations.parquet", "checkpoints/checkpoint-2", "../link/model"])
def test_overwrite_does_not_delete_what_is_read(read: str, run: Path) -> None:
    (run.parent / "link").symlink_to(run)
    with pytest.raises(RealmError, match=r"`overwrite` would delete .*, which is read"):
        check_output(run, overwrite=True, reads=[None, "bert-base", run / read])
    check_output(run, resume=True, reads=[run / read])


def test_what_stays_may_be_read(run: Path) -> None:
    check_output(
        run, overwrite=True, reads=[None, "model", run / "mine.csv", run.parent / "other" / "model", run.parent]
    )


def test_a_folder_in_use_needs_a_word(run: Path, tmp_path: Path) -> None:
    with pytest.raises(RealmError, match="already holds a run"):
        check_output(run)
    with pytest.raises(RealmError, match="holds no run"):
        check_output(tmp_path, overwrite=True)
    with pytest.raises(RealmError, match="a file stands there"):
        check_output(run / "mine.csv")
    check_output(tmp_path / "new")
