"""Locks on folders: who holds one is named, whoever is gone holds nothing; without locks the file decides."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path

import pytest

from realm import files, locks
from realm.errors import RealmError
from tests.forked import start

NOBODY = 2**22 + 1
"""A number that no process has: the largest on Linux is 2**22."""


def hold(folder: str, told: str) -> None:
    with locks.holding(Path(folder)):
        Path(told).touch()
        time.sleep(300)


def test_a_folder_is_held_by_one_process_and_free_when_it_is_killed(tmp_path) -> None:
    folder, told = tmp_path / "run", tmp_path / "told"
    process = start(hold, str(folder), str(told))
    while not told.exists():
        assert process.exitcode is None
        process.join(0.02)
    for refused in (lambda: locks.holding(folder).__enter__(), lambda: locks.refuse_held(folder)):
        with pytest.raises(RealmError, match=f"another process is writing there .process {process.pid} on "):
            refused()
    process.kill()
    process.join()
    assert (folder / locks.LOCK).exists()
    locks.refuse_held(folder)
    with locks.holding(folder), locks.holding(folder):  # held twice by one process is held once
        assert json.loads((folder / locks.LOCK).read_text())["pid"] == os.getpid()
        locks.refuse_held(folder)
    assert list(folder.iterdir()) == []
    with locks.holding(tmp_path / "new"):
        pass
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": "x"}', '{"pid": -1, "host": "h"}'])
def test_a_lock_file_that_nobody_holds_stands_in_nobodys_way(content, tmp_path) -> None:
    (tmp_path / locks.LOCK).write_text(content)
    locks.refuse_held(tmp_path)
    with locks.holding(tmp_path):
        pass


@pytest.mark.parametrize(
    ("pid", "host", "is_refused"),
    [(NOBODY, None, False), (os.getppid(), None, True), (os.getpid(), None, False), (NOBODY, "elsewhere", True)],
    ids=["gone", "another", "itself", "on another machine"],  # not by number: workers must collect the same names
)
def test_where_a_file_system_knows_no_locks_the_process_decides(pid, host, is_refused, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(locks, "claim", lambda handle: None)
    path = tmp_path / locks.LOCK
    path.write_text(json.dumps({"pid": pid, "host": host or socket.gethostname()}))
    if is_refused:
        with pytest.raises(RealmError, match=r"If it has ended, remove .*\.realm\.lock"):
            locks.refuse_held(tmp_path)
        assert path.exists()
    else:
        locks.refuse_held(tmp_path)


def test_without_locks_half_written_files_are_swept_after_a_day(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(locks, "claim", lambda handle: None)
    old, young = (tmp_path / f".a.csv.realm-{name}.csv" for name in ("aaaaaaaa", "bbbbbbbb"))
    for path in (old, young):
        path.write_text("half")
    os.utime(old, (0, 0))
    assert not files.is_being_written(tmp_path / "a.csv")
    files.write_text(tmp_path / "a.csv", "whole")
    assert {path.name for path in tmp_path.iterdir()} == {"a.csv", young.name}


def test_a_file_that_is_being_written_is_not_swept(tmp_path) -> None:
    with files.replacing(tmp_path / "a.csv") as first:
        first.write_text("first")
        assert files.is_being_written(tmp_path / "a.csv") and not files.is_being_written(tmp_path / "b.csv")
        files.write_text(tmp_path / "a.csv", "second")
        files.remove_partial_files(tmp_path)
        assert first.exists()
    assert (tmp_path / "a.csv").read_text() == "first"
    with files.replacing_folder(tmp_path / "folder") as first:
        (first / "x").write_text("x")
        files.remove_partial_files(tmp_path)
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["x"]
    assert not list(tmp_path.glob(".*"))
