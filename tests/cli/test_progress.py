"""Progress as lines: often enough, not too often, and in a log file that never stops the work."""

from __future__ import annotations

from pathlib import Path

import pytest

from realm.cli import progress, terminal
from realm.cli.progress import SOONEST, Progress, logged_to


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def lines_of(capsys, seconds_per_unit: float, total: int, is_known: bool = True) -> list[str]:
    """What is written of work whose units take so long."""
    clock = Clock()
    report = Progress(clock)
    report.remarks["training"] = "loss 0.5"
    for done in range(total + 1):
        report("training", done, total if is_known else None)
        clock.now += seconds_per_unit
    return capsys.readouterr().err.splitlines()


def test_an_hour_has_some_dozens_of_lines_and_says_what_is_left(capsys) -> None:
    lines = lines_of(capsys, 3.6, 1000)
    assert 30 <= len(lines) <= 80
    assert lines[0] == "training: 2 of 1,000 (0%), about 60 min left, loss 0.5"
    assert lines[-1] == "training: done in 3600 s, loss 0.5"


def test_quick_work_is_silent_and_slow_units_are_told_of_one_by_one(capsys) -> None:
    assert lines_of(capsys, SOONEST / 1000, 500) == []
    assert len(lines_of(capsys, 100, 4)) == 4


def test_work_without_a_known_end_is_counted(capsys) -> None:
    lines = lines_of(capsys, SOONEST, 30, is_known=False)
    assert lines[0] == "training: 1 so far, loss 0.5" and 2 < len(lines) <= 30


def test_a_log_begins_with_the_work_and_holds_what_was_said(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(progress, "SOONEST", 0.0)
    monkeypatch.setattr("sys.argv", ["realm", "train", "labels.csv"])
    path = tmp_path / "progress.log"
    with logged_to(path, append=False):
        terminal.note("before")
        assert not path.exists(), "a command that is refused leaves none"
        report = Progress()
        report("training", 0, 4)
        report("training", 2, 4)
        terminal.note("not for the file", is_logged=False)
    terminal.note("after")
    lines = [line.split(" ", 1)[1] for line in path.read_text().splitlines()]
    assert lines[:2] == ["realm train labels.csv", "before"]
    assert any(line.startswith("training: 2 of 4 (50%)") for line in lines)
    assert not {"after", "not for the file"} & set(lines)
    assert "training: 2 of 4" in capsys.readouterr().err
    with pytest.raises(KeyboardInterrupt), logged_to(path, append=True):
        Progress()("training", 0, 4)
        raise KeyboardInterrupt
    assert path.read_text().count("realm train") == 2 and "ended by KeyboardInterrupt" in path.read_text()


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path, capsys) -> None:
    (tmp_path / "progress.log").mkdir()
    with logged_to(tmp_path / "progress.log", append=False):
        Progress()("training", 0, 4)
        terminal.note("said")
    assert "said" in capsys.readouterr().err


def test_of_several_processes_the_first_alone_speaks(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(progress, "SOONEST", 0.0)
    monkeypatch.setenv("RANK", "1")
    with logged_to(tmp_path / "progress.log", append=False):
        report = Progress()
        report("training", 0, 4)
        report("training", 2, 4)
    assert capsys.readouterr().err == "" and not (tmp_path / "progress.log").exists()
