"""Ctrl-C between any two steps of what makes a file, a folder or a lock: nothing of it stays, and no signal is lost."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from realm import files, interrupts, locks
from realm.interrupts import removed_at_the_end

TRACED = {module.__file__ for module in (files, interrupts, locks, contextlib, tempfile)}
"""The modules whose steps are interrupted."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def write_file(folder: Path) -> None:
    with files.replacing(folder / "a.csv") as partial:
        partial.write_text("whole")


def write_folder(folder: Path) -> None:
    with files.replacing_folder(folder / "model") as partial:
        (partial / "weights").write_text("whole")


def hold_folder(folder: Path) -> None:
    with locks.holding(folder / "run"):
        pass


def fail_to_write(folder: Path) -> None:
    """An error of the block itself: a signal must not come between it and the removal."""
    with contextlib.suppress(OSError), files.replacing(folder / "a.csv"):
        raise OSError("full")


ACTS: dict[Callable[[Path], None], dict[str, bytes | None]] = {
    write_file: {"a.csv": b"whole"},
    write_folder: {"model": None, "model/weights": b"whole"},
    hold_folder: {},
    fail_to_write: {},
}


@pytest.fixture(autouse=True)
def _signals_as_python_has_them() -> Iterator[None]:
    """Whatever started the tests: a shell makes what runs in the background ignore Ctrl-C."""
    usual = {signal.SIGINT: signal.default_int_handler}
    before = {number: signal.signal(number, usual.get(number, signal.SIG_DFL)) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def below(folder: Path) -> dict[str, bytes | None]:
    """The content of every file, and None for every folder."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@contextlib.contextmanager
def signalled_at(step: int, number: int, event: str) -> Iterator[list[int]]:
    """Get signal `number` at this step (a line or an instruction) of the traced modules; the steps seen so far."""
    seen = [0]

    def trace(frame: FrameType, what: str, argument: Any) -> Any:
        if frame.f_code.co_filename not in TRACED:
            return None
        frame.f_trace_opcodes = event == "opcode"
        if what == event:
            seen[0] += 1
            if seen[0] == step:
                signal.raise_signal(number)
        return trace

    sys.settrace(trace)
    try:
        yield seen
    finally:
        sys.settrace(None)


def interrupt_everywhere(act: Callable[[Path], None], root: Path, number: int, event: str) -> int:
    """Interrupt `act` at every step in turn; how often. What it leaves is whole or absent, and the signal arrives."""
    whole = ({}, ACTS[act])
    handlers = {each: signal.getsignal(each) for each in SIGNALS}
    for step in itertools.count(1):
        folder = root / f"{event}-{step}"
        folder.mkdir()
        was_interrupted = False
        try:
            with signalled_at(step, number, event) as seen:
                act(folder)
        except KeyboardInterrupt:
            was_interrupted = True
        assert was_interrupted == (step <= seen[0]), f"step {step} of {seen[0]}: the signal was lost"
        there = below(folder)
        assert there in whole, f"step {step}: {sorted(there)} is left"
        with pytest.raises(KeyboardInterrupt):  # the next one is heard at once
            signal.raise_signal(number)
        for each, handler in handlers.items():
            assert signal.signal(each, handler) == handler or was_interrupted
        if not ACTS[act]:
            act(folder)  # nobody holds it any more
        if not was_interrupted:
            return step
    raise AssertionError


@pytest.mark.parametrize("act", ACTS)
def test_ctrl_c_between_any_two_lines_leaves_nothing(act, tmp_path) -> None:
    """With Python's own handler, as in a notebook."""
    assert interrupt_everywhere(act, tmp_path, signal.SIGINT, "line") > 40


# -------------------------------------------------------------------- what holds them back


def test_signals_wait_while_it_is_made_and_removed_and_only_then(tmp_path) -> None:
    steps: list[str] = []

    def make() -> str:
        signal.raise_signal(signal.SIGINT)
        steps.append("made")
        return "made"

    with pytest.raises(KeyboardInterrupt), removed_at_the_end(make, lambda made: steps.append(f"{made} removed")):
        steps.append("not reached")
    assert steps == ["made", "made removed"]

    with pytest.raises(KeyboardInterrupt), removed_at_the_end(lambda: 1, lambda _: steps.append("removed")):
        signal.raise_signal(signal.SIGINT)
        steps.append("not reached")  # in the block they do not wait
    assert steps == ["made", "made removed", "removed"]

    def remove(made: int) -> None:
        signal.raise_signal(signal.SIGINT)
        steps.append("removed late")

    with pytest.raises(KeyboardInterrupt), removed_at_the_end(lambda: 1, remove):
        pass
    assert steps[-1] == "removed late"
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler


def test_a_section_in_another_waits_for_both_to_end() -> None:
    steps: list[str] = []

    def make() -> int:
        with pytest.raises(AssertionError), removed_at_the_end(lambda: signal.raise_signal(signal.SIGINT), id):
            raise AssertionError  # reached: the outer one holds the signal back still
        steps.append("made")
        return 1

    with pytest.raises(KeyboardInterrupt), removed_at_the_end(make, lambda _: steps.append("removed")):
        steps.append("not reached")
    assert steps == ["made", "removed"]


def test_what_the_system_does_with_a_signal_is_left_to_it() -> None:
    """Ignored stays ignored, and what has no function of Python's is not touched."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in SIGNALS}
    try:
        with removed_at_the_end(lambda: [signal.getsignal(number) for number in SIGNALS], id) as handlers:
            assert handlers == [signal.SIG_IGN] * len(SIGNALS)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_other_threads_need_nothing_held_back(tmp_path) -> None:
    errors: list[BaseException] = []

    def act() -> None:
        try:
            for each in ACTS:
                each(tmp_path)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=act)
    thread.start()
    thread.join()
    assert not errors and below(tmp_path) == {**ACTS[write_file], **ACTS[write_folder]}


def test_a_claim_that_fails_leaves_no_file_and_no_folder(tmp_path, monkeypatch) -> None:
    def fail(handle: int) -> bool:
        raise OSError(5, os.strerror(5))

    monkeypatch.setattr(files, "claim", fail)
    monkeypatch.setattr(locks, "claim", fail)
    for act in (write_file, write_folder, hold_folder):
        with pytest.raises(OSError, match=os.strerror(5)):
            act(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]  # with the lock file, which may be another's
