"""Progress as lines: often enough, not too often, and in a log file that never stops the work."""

from __future__ import annotations

from pathlib import Path

import pytest

from realm.cli import progress, terminal
from realm.cli.progress import LATEST, SOONEST, Display, LogFile, ProgressLines, logged_to


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def lines_of(seconds_per_unit: float, total: int) -> list[str]:
    """What is written of work whose units take so long."""
    written: list[str] = []
    clock = Clock()
    lines = ProgressLines(written.append, clock)
    for done in range(total + 1):
        lines("training", done, total)
        clock.now += seconds_per_unit
    return written


def test_an_hour_has_a_line_a_minute_and_says_what_is_left() -> None:
    written = lines_of(3.6, 1000)
    assert 57 <= len(written) <= 61
    assert written[0] == "training: 17 of 1,000 (2%), about 59 min left"
    assert written[-1] == "training: done in 3600 s"


def test_minutes_have_a_line_every_twentieth() -> None:
    written = lines_of(1.0, 200)
    assert [line.split("(")[1].split(")")[0] for line in written[:-1]] == [f"{share}%" for share in range(5, 100, 5)]


def test_quick_work_is_silent() -> None:
    assert lines_of(SOONEST / 1000, 500) == []


def test_slow_units_are_told_of_one_by_one() -> None:
    assert len(lines_of(LATEST + 1, 4)) == 4


def test_work_that_begins_again_or_goes_on_from_a_checkpoint_is_timed_from_there() -> None:
    written: list[str] = []
    clock = Clock()
    lines = ProgressLines(written.append, clock)
    lines.remarks["training"] = "loss 0.5"
    lines("training", 900, 1000)
    clock.now = 100.0
    lines("training", 950, 1000)
    assert written == ["training: 950 of 1,000 (95%), about 100 min left, loss 0.5".replace("100 min", "2 min")]


def test_work_without_a_known_end_is_counted() -> None:
    written: list[str] = []
    clock = Clock()
    lines = ProgressLines(written.append, clock)
    for done in range(100, 2000, 100):
        lines.count("rows predicted", done)
        clock.now += SOONEST
    assert written[0] == "rows predicted: 200 so far" and 2 < len(written) < 10


def test_a_log_begins_with_the_work_and_holds_what_was_said(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(progress, "SOONEST", 0.0)
    monkeypatch.setattr("sys.argv", ["realm", "train", "labels.csv"])
    path = tmp_path / "progress.log"
    with logged_to(path, append=False):
        terminal.note("before")
        assert not path.exists(), "a command that is refused leaves none"
        display = Display()
        display("training", 0, 4)
        display("training", 2, 4)
        terminal.note("not for the file", is_logged=False)
    terminal.note("after")
    lines = [line.split(" ", 1)[1] for line in path.read_text().splitlines()]
    assert lines[:2] == ["realm train labels.csv", "before"]
    assert any(line.startswith("training: 2 of 4 (50%)") for line in lines)
    assert not {"after", "not for the file"} & set(lines)
    assert "training: 2 of 4" in capsys.readouterr().err
    with logged_to(path, append=True):
        Display()("training", 0, 4)
    assert path.read_text().count("realm train") == 2


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path, capsys) -> None:
    (tmp_path / "progress.log").mkdir()
    with logged_to(tmp_path / "progress.log", append=False):
        Display()("training", 0, 4)
        terminal.note("said")
    assert "said" in capsys.readouterr().err
    log = LogFile(tmp_path / "absent" / "progress.log", append=False)
    log.open()
    log.write("x")
    assert not (tmp_path / "absent").exists()


def test_how_a_command_ended_is_in_the_log(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), logged_to(tmp_path / "progress.log", append=False):
        Display()("training", 0, 4)
        raise KeyboardInterrupt
    assert "ended by KeyboardInterrupt" in (tmp_path / "progress.log").read_text()


def test_of_several_processes_the_first_alone_speaks(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(progress, "SOONEST", 0.0)
    monkeypatch.setenv("RANK", "1")
    with logged_to(tmp_path / "progress.log", append=False):
        display = Display()
        display("training", 0, 4)
        display("training", 2, 4)
    assert capsys.readouterr().err == "" and not (tmp_path / "progress.log").exists()
