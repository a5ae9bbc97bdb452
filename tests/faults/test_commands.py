"""Every command that writes, killed, stopped, refused by the disk or run twice at once: what is there is whole, and the
same command given again ends as one that was left alone."""

from __future__ import annotations

import ctypes
import errno
import os
import random
import resource
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.faults.commands import PATIENCE, Command, contents, finish, make_stage
from tests.faults.victim import realm
from tests.forked import start

NAMES = (
    *("check", "check-parquet", "simulate", "aggregate", "predict", "relabel"),
    *("report", "train", "compare", "demo", "models-get"),
)
FILES = NAMES[: NAMES.index("train")]
"""Commands that write a file or some; the others fill a folder."""
FAST = tuple(name for name in FILES if "-" not in name)


def each(*fast: str) -> list[Any]:
    """All commands; those that are not named here in the slow part only."""
    return [pytest.param(name, marks=() if name in fast else pytest.mark.slow) for name in NAMES]


@dataclass
class Whole:
    """A command that was left alone: what it wrote, and how many changes that took."""

    command: Command
    contents: dict[str, Any]
    changes: int


@dataclass
class Stage:
    """The commands, and each left alone once."""

    root: Path
    commands: dict[str, Command]
    wholes: dict[str, Whole] = field(default_factory=dict)

    def whole(self, name: str) -> Whole:
        if name not in self.wholes:
            folder, count = self.root / "whole" / name, self.root / f"{name}.count"
            folder.mkdir(parents=True)
            assert finish(self.commands[name].line(folder), folder, 0, str(count)) == 0
            self.wholes[name] = Whole(self.commands[name], contents(folder), int(count.read_text()))
        return self.wholes[name]


@pytest.fixture(scope="module")
def stage(tmp_path_factory) -> Stage:
    root = tmp_path_factory.mktemp("commands")
    return Stage(root, make_stage(root))


def check_again(whole: Whole, folder: Path, what: object) -> None:
    """The same command, given again, ends as the one that was left alone, and leaves nothing else behind."""
    said = folder.parent / "said-again"
    assert finish(whole.command.line(folder, *whole.command.again), folder, said=str(said)) == 0, (
        what,
        said.read_text(),
    )
    assert contents(folder) == whole.contents, what


def check_nothing_half(whole: Whole, folder: Path, what: object) -> None:
    """Every file of a command that writes files is whole or absent, and no other is there."""
    if whole.command.name in FILES:
        there = contents(folder)
        assert there == {name: whole.contents[name] for name in there if name in whole.contents}, what


def kill_at(whole: Whole, folder: Path, moment: int) -> None:
    folder.mkdir()
    code = finish(whole.command.line(folder), folder, moment)
    assert code == -signal.SIGKILL, (whole.command.name, moment)
    check_again(whole, folder, f"killed at change {moment} of {whole.changes}")


def moments(name: str, changes: int, count: int) -> list[int]:
    """Changes at which something happens: the first, the last, and some between."""
    chance = random.Random(name)
    if count == 1:
        return [chance.randint(1, changes)]
    return sorted({1, changes, *chance.sample(range(2, changes), min(count - 2, changes - 2))})


# -------------------------------------------------------------------- kill -9


@pytest.mark.parametrize("name", each(*FAST, "compare"))
def test_a_killed_command_may_be_given_again(name, stage, tmp_path) -> None:
    whole = stage.whole(name)
    for moment in moments(name, whole.changes, 1):
        kill_at(whole, tmp_path / str(moment), moment)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_command_may_be_killed_at_dozens_of_moments(name, stage, tmp_path) -> None:
    whole = stage.whole(name)
    chosen = moments(name, whole.changes, 25)
    for moment in chosen:
        kill_at(whole, tmp_path / str(moment), moment)
    print(f"{name}: killed at {len(chosen)} of {whole.changes} changes")


@pytest.mark.parametrize("name", ["train", "compare"])
@pytest.mark.parametrize("moment", [5, *(pytest.param(each, marks=pytest.mark.slow) for each in (3, 4, 6, 9, 12, 17))])
def test_a_command_killed_while_it_replaces_an_earlier_output(moment, name, stage, tmp_path) -> None:
    """In its first changes, when the earlier run or comparison is being removed."""
    whole = stage.whole(name)
    folder = tmp_path / "x"
    shutil.copytree(stage.root / "whole" / name, folder)
    (folder / whole.command.output / "notes.txt").write_text("mine")  # which is no reason to refuse, nor to remove
    line = whole.command.line(folder, "--overwrite")
    assert finish(line, folder, moment) == -signal.SIGKILL
    assert finish(line, folder) == 0, moment
    there = contents(folder)
    assert there.pop(f"{whole.command.output}/notes.txt") == b"mine"
    assert there == whole.contents, moment


def test_a_comparison_killed_in_its_first_seconds_goes_on(stage, tmp_path) -> None:
    whole = stage.whole("compare")
    folder = tmp_path / "x" / "compared"
    folder.mkdir(parents=True)
    for name in (".realm.lock", ".results.csv.realm-a1b2c3d4.csv"):
        (folder / name).touch()
    check_again(whole, tmp_path / "x", "before its first cell was finished")
    shutil.rmtree(folder)
    (folder / "cells").mkdir(parents=True)
    assert finish(whole.command.line(tmp_path / "x", "--overwrite"), folder) == 0
    assert contents(tmp_path / "x") == whole.contents


def test_a_folder_with_something_else_is_still_refused(stage, tmp_path) -> None:
    (tmp_path / "compared").mkdir()
    (tmp_path / "compared" / "thesis.txt").write_text("mine")
    said = tmp_path / "said"
    assert finish(stage.commands["compare"].line(tmp_path), tmp_path, said=str(said)) == 2
    assert "is not empty and holds no comparison" in said.read_text()
    assert [path.name for path in (tmp_path / "compared").iterdir()] == ["thesis.txt"]


def test_what_is_swept_is_ours_alone(stage, tmp_path) -> None:
    """Half-written files of this very output go; other outputs', other people's and links stay."""
    whole = stage.whole("check")
    abandoned = tmp_path / ".table.csv.realm-a1b2c3d4.csv"
    abandoned.write_text("half")
    others = [
        *(".table.csv-a1b2c3d4.csv", ".table.csv.realm-short.csv", ".other.csv.realm-a1b2c3d4.csv", "table.csv.bak"),
        ".table.csv.realm-notes.csv",
    ]
    for name in others:
        (tmp_path / name).write_text("mine")
    (tmp_path / "target").write_text("mine")
    (tmp_path / ".table.csv.realm-linklink.csv").symlink_to(tmp_path / "target")
    assert finish(whole.command.line(tmp_path), tmp_path) == 0
    there = {path.name for path in tmp_path.iterdir()}
    assert there == {"table.csv", "target", ".table.csv.realm-linklink.csv", *others}


# -------------------------------------------------------------------- Ctrl-C


def stop_at(whole: Whole, folder: Path, moment: int) -> None:
    folder.mkdir()
    said = folder.parent / f"{folder.name}.said"
    code = finish(whole.command.line(folder), folder, moment, number=signal.SIGINT, said=str(said))
    lines = said.read_text().splitlines()
    assert code == 130, (whole.command.name, moment, code, lines)
    assert "Traceback" not in said.read_text() and "Exception ignored" not in said.read_text(), lines
    assert lines[-1] == "stopped.", lines
    check_nothing_half(whole, folder, moment)
    check_again(whole, folder, f"Ctrl-C at change {moment} of {whole.changes}")


@pytest.mark.parametrize("name", each(*FAST, "train", "compare"))
def test_ctrl_c_stops_a_command_cleanly(name, stage, tmp_path) -> None:
    whole = stage.whole(name)
    stop_at(whole, tmp_path / "x", random.Random(name).randint(1, whole.changes))


# -------------------------------------------------------------------- the disk


def refuse_at(whole: Whole, folder: Path, moment: int, error: int) -> None:
    folder.mkdir()
    said = folder.parent / f"{folder.name}.said"
    earlier = dict(whole.contents)
    for name in whole.contents if whole.command.name in FILES else ():
        earlier[name] = b"earlier"
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"earlier")
    line = whole.command.line(folder, *(("--overwrite",) if whole.command.name in FILES else ()))
    code = finish(line, folder, moment, error=error, said=str(said))
    text = said.read_text()
    assert code == 2, (whole.command.name, moment, text)
    (line,) = [each for each in text.splitlines() if each.startswith("error: ")]
    assert "Traceback" not in text and str(folder) in text.replace("\n", ""), text
    if whole.command.name in FILES:  # a command with two files may have written the first
        there = contents(folder)
        assert set(there) == set(earlier) and all(there[name] in (b"earlier", whole.contents[name]) for name in there)
        assert b"earlier" in there.values()
    check_again(whole, folder, f"error {error} at change {moment} of {whole.changes}")


@pytest.mark.parametrize("name", each(*FAST, "compare"))
def test_a_disk_that_refuses_is_one_line_and_the_earlier_file_stays(name, stage, tmp_path) -> None:
    whole = stage.whole(name)
    chance = random.Random(f"{name} disk")
    error = chance.choice([errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT, errno.EIO])
    refuse_at(whole, tmp_path / "x", chance.randint(1, max(whole.changes - 5, 1)), error)


def _with_little_room(words: list[str], folder: str, room: int, said: str) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    realm(words, folder, said=said)


def _without_rights(words: list[str], folder: str, room: int, said: str) -> None:
    _drop_overrides()
    realm(words, folder, said=said)


def _drop_overrides() -> None:
    """Take from root what lets it write where nobody may."""
    if os.geteuid() != 0:
        return
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)()
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.capget(header, sets) == 0
    for index in (0, 1, 2):  # effective, permitted, inheritable: CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
        sets[index] &= ~0b110
    assert libc.capset(header, sets) == 0


def run_to_its_end(act: Callable[..., None], *args: Any) -> int:
    process = start(act, *args)
    process.join(PATIENCE)
    assert process.exitcode is not None
    return process.exitcode


@pytest.mark.parametrize("name", each("check", "predict", "compare"))
def test_a_disk_that_is_full_in_the_middle_of_a_file(name, stage, tmp_path) -> None:
    """No file may be longer than some bytes: the write fails, not the opening."""
    whole = stage.whole(name)
    folder = tmp_path / "x"
    folder.mkdir()
    room = min((len(each) for each in whole.contents.values() if isinstance(each, bytes)), default=0)
    room = max(room // 2, 150) if name in FILES else 3000
    code = run_to_its_end(_with_little_room, whole.command.line(folder), str(folder), room, os.devnull)
    assert code == 2
    there = contents(folder) if name in FILES else {}
    assert there == {each: whole.contents[each] for each in there}
    check_again(whole, folder, room)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "capset"), reason="needs Linux, to take rights from root")
@pytest.mark.parametrize("name", each("check", "predict", "report", "train", "compare"))
def test_a_folder_in_which_nothing_may_be_written(name, stage, tmp_path) -> None:
    whole = stage.whole(name)
    folder, said = tmp_path / "x", tmp_path / "said"
    folder.mkdir()
    folder.chmod(0o555)
    code = run_to_its_end(_without_rights, whole.command.line(folder), str(folder), 0, str(said))
    assert code == 2 and "Permission denied" in said.read_text() and str(folder) in said.read_text().replace("\n", "")
    assert "Traceback" not in said.read_text() and not list(folder.iterdir())
    folder.chmod(0o755)


# -------------------------------------------------------------------- two at once


def hold(folder: str, path: str, told: str) -> None:
    """Hold a folder, and a file that is being written, until killed."""
    import time

    from realm.files import replacing
    from realm.locks import holding

    with holding(Path(folder)), replacing(Path(path)):
        Path(told).touch()
        time.sleep(300)


def test_a_second_process_is_refused_until_the_first_is_gone(stage, tmp_path) -> None:
    for name in ("train", "compare", "predict"):
        whole, folder = stage.whole(name), tmp_path / name
        folder.mkdir()
        output, told, said = folder / whole.command.output, tmp_path / f"{name}.told", tmp_path / f"{name}.said"
        held = tmp_path / "elsewhere" if name == "predict" else output
        written = output if name == "predict" else tmp_path / f"{name}.other"
        first = start(hold, str(held), str(written), str(told))
        try:
            while not told.exists():
                assert first.exitcode is None
                first.join(0.02)
            code = finish(whole.command.line(folder, *whole.command.again), folder, said=str(said))
            assert code == 2 and "another process is writing" in said.read_text(), said.read_text()
        finally:
            first.kill()
        first.join()
        check_again(whole, folder, "the first was killed")


@pytest.mark.slow
def test_of_two_equal_commands_at_once_one_may_be_refused_and_the_output_is_whole(stage, tmp_path) -> None:
    for name in ("train", "compare"):
        whole, folder = stage.whole(name), tmp_path / name
        folder.mkdir()
        line = whole.command.line(folder)
        both = [start(realm, line, str(folder)) for _ in range(2)]
        codes = []
        for process in both:
            process.join(PATIENCE)
            codes.append(process.exitcode)
        # a comparison that is finished when the second begins is only read
        assert sorted(codes) in ([0, 2], [0, 0] if name == "compare" else [0, 2]), codes
        assert contents(folder) == whole.contents
