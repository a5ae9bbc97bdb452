"""How a command ends: what the user can fix is 2, a bug 1, Ctrl-C 130, each with one line."""

from __future__ import annotations

import errno
import logging
import os
import signal
from pathlib import Path

import pytest

from realm.cli.progress import Progress, logged_to
from realm.errors import RealmError


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A folder with a table, in which every reading of one fails in the way that is asked for."""
    (tmp_path / "t.csv").write_text("text,annotator,label\na,w,x\nb,w,y\n")
    monkeypatch.chdir(tmp_path)

    def fail_with(error: BaseException) -> None:
        def read(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr("realm.data.readers.read", read)

    return fail_with


def test_a_bug_is_one_line_without_the_home_folder(broken, realm_cli) -> None:
    broken(KeyError(f"nobody thought of {os.path.expanduser('~')}/data"))
    code, out, error = realm_cli("check", "t.csv")
    assert code == 1 and out == "" and error.count("\n") == 1 and "Traceback" not in error
    assert "KeyError: 'nobody thought of ~/data'" in error and "realm --debug" in error


def test_a_bug_at_work_names_the_log_which_has_the_traceback(tmp_path, monkeypatch, realm_cli) -> None:
    from realm.models import store

    def fail() -> None:
        with logged_to(tmp_path / "progress.log", append=False):
            Progress()("training", 0, 4)
            raise ZeroDivisionError("by zero")

    monkeypatch.setattr(store, "models", fail)
    code, _, error = realm_cli("models")
    assert code == 1 and f"The log is {tmp_path / 'progress.log'}" in error
    assert "Traceback" in (tmp_path / "progress.log").read_text()


def test_debug_shows_the_trace(broken, realm_cli) -> None:
    broken(ValueError("x"))
    code, _, error = realm_cli("--debug", "check", "t.csv")
    assert code == 1 and "Traceback (most recent call last)" in error
    broken(RealmError("fix it"))
    assert "Traceback" not in realm_cli("check", "t.csv")[2]
    code, _, error = realm_cli("--debug", "check", "t.csv")
    assert code == 2 and "Traceback" in error and "error: fix it" in error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), "not enough memory"),
        (OSError(errno.ENOSPC, "No space left on device", "out.csv"), "out.csv: No space left on device."),
        (PermissionError(errno.EACCES, "Permission denied", "x"), "x: Permission denied."),
    ],
)
def test_what_the_machine_refuses_is_no_bug(broken, realm_cli, error, message) -> None:
    broken(error)
    code, _, shown = realm_cli("check", "t.csv")
    assert code == 2 and f"error: {message}" in shown


def test_ctrl_c_in_a_command(broken, realm_cli) -> None:
    broken(KeyboardInterrupt())
    before = signal.getsignal(signal.SIGINT)
    try:
        assert realm_cli("check", "t.csv") == (130, "", "stopped.\n")
    finally:
        signal.signal(signal.SIGINT, before)


def test_notes_and_logged_warnings_are_shown_once(realm_cli, monkeypatch) -> None:
    from realm.cli.terminal import note
    from realm.models import store

    def fail(*_: object, **__: object) -> None:
        note("a note")
        logging.getLogger("realm.models").warning("a warning")
        raise RealmError("an error")

    monkeypatch.setattr(store, "models", fail)
    assert realm_cli("models") == (2, "", "a note\na warning\nerror: an error\n")
