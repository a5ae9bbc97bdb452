"""Two processes on one folder or file, and what a killed one leaves; the modes of what is written."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from realm import files, locks
from realm.errors import RealmError
from tests.forked import start


def hold(folder: str, told: str) -> None:
    with locks.holding(Path(folder)), files.replacing(Path(folder) / "a.csv"):
        Path(told).touch()
        time.sleep(300)


def test_a_folder_is_held_by_one_process_and_free_when_it_is_killed(tmp_path) -> None:
    folder, told = tmp_path / "run", tmp_path / "told"
    process = start(hold, str(folder), str(told))
    while not told.exists():
        assert process.exitcode is None
        process.join(0.02)
    for refused in (lambda: locks.holding(folder).__enter__(), lambda: locks.refuse_held(folder)):
        with pytest.raises(RealmError, match=r"`output` .*run: another process is writing there"):
            refused()
    files.write_text(folder / "a.csv", "second")
    assert len(files.partial_files(folder)) == 1, "what the other writes is not swept"
    process.kill()
    process.join()
    assert (folder / locks.LOCK).exists()
    with locks.holding(folder), locks.holding(folder):  # held twice by one process is held once
        locks.refuse_held(folder)
        files.remove_partial_files(folder)
    assert [path.name for path in folder.iterdir()] == ["a.csv"]
    with locks.holding(tmp_path / "new"):
        pass
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("content", ["", "{", '{"pid": -1, "host": "h"}'])
def test_a_lock_file_that_nobody_holds_stands_in_nobodys_way(content, tmp_path) -> None:
    (tmp_path / locks.LOCK).write_text(content)
    locks.refuse_held(tmp_path)
    with locks.holding(tmp_path):
        pass


def test_a_lock_that_is_a_link_is_not_followed(tmp_path) -> None:
    (tmp_path / "target").write_text("mine")
    (tmp_path / locks.LOCK).symlink_to(tmp_path / "target")
    with pytest.raises(RealmError, match="cannot be written"), files.writing(tmp_path), locks.holding(tmp_path):
        pass
    assert (tmp_path / "target").read_text() == "mine"


# -------------------------------------------------------------------- what is replaced


def filled(folder: Path, text: str) -> None:
    with files.replacing_folder(folder) as partial:
        (partial / "x").write_text(text)


def test_a_folder_is_replaced_whole(tmp_path, monkeypatch) -> None:
    """Whatever fails, and wherever a kill comes, the old or the new one is there after the next try."""
    folder = tmp_path / "model"
    filled(folder, "old")
    with pytest.raises(KeyboardInterrupt), files.replacing_folder(folder) as partial:
        (partial / "x").write_text("half")
        raise KeyboardInterrupt
    rename, calls = Path.rename, []

    def fail_at_second(path: Path, target: Path) -> Path:
        calls.append(path)
        if len(calls) == 2:
            raise OSError(5, "planted")
        return rename(path, target)

    with monkeypatch.context() as patch, pytest.raises(OSError, match="planted"):
        patch.setattr(Path, "rename", fail_at_second)
        filled(folder, "new")
    assert (folder / "x").read_text() == "old" and [path.name for path in tmp_path.iterdir()] == ["model"]
    shutil.move(folder, tmp_path / ".model.realm-previous")  # as a kill between the two renames leaves it
    files.remove_partial_files(tmp_path)
    assert (folder / "x").read_text() == "old"
    filled(folder, "new")
    assert (folder / "x").read_text() == "new" and [path.name for path in tmp_path.iterdir()] == ["model"]


def test_modes_are_those_of_any_new_file_or_of_the_one_replaced(tmp_path) -> None:
    def mode(name: str) -> int:
        return (tmp_path / name).stat().st_mode & 0o777

    before = os.umask(0o077)
    try:
        files.write_text(tmp_path / "private.csv", "x")
        filled(tmp_path / "model", "x")
        os.umask(0o022)
        files.write_text(tmp_path / "public.csv", "x")
        files.write_text(tmp_path / "private.csv", "y")
    finally:
        os.umask(before)
    assert [mode(name) for name in ("private.csv", "public.csv", "model")] == [0o600, 0o644, 0o700]
    (tmp_path / "public.csv").chmod(0o444)
    files.write_text(tmp_path / "public.csv", "z")
    assert mode("public.csv") == 0o444 and (tmp_path / "public.csv").read_text() == "z"
