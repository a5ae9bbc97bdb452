"""What slips through every check: two lines, a file with the trace and without secrets, exit code 1; Ctrl-C is 130."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from realm.cli.unforeseen import redacted
from realm.errors import RealmError

CONTENT = "text,annotator,label\na,w,x\nb,w,y\n"


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A folder with a table, in which every reading of one fails in the way that is asked for."""
    (tmp_path / "t.csv").write_text(CONTENT)
    monkeypatch.chdir(tmp_path)

    def fail_with(error: BaseException) -> None:
        def read(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr("realm.data.readers.read", read)

    return fail_with


def trace_in(folder: Path) -> str:
    (path,) = folder.glob("realm-error-*.txt")
    return path.read_text()


def test_two_lines_a_file_and_exit_code_one(broken, realm_cli, tmp_path) -> None:
    broken(KeyError("nobody thought of this"))
    code, out, error = realm_cli("check", "t.csv")
    lines = error.strip().splitlines()
    assert code == 1 and out == "" and len(lines) == 2 and "Traceback" not in error
    assert "KeyError: 'nobody thought of this'" in lines[0]
    assert "realm-error-" in lines[1] and "SECURITY.md" in lines[1]
    trace = trace_in(tmp_path)
    assert "Traceback" in trace and "nobody thought of this" in trace and "realm check t.csv" in trace


def test_the_file_lies_beside_the_output(broken, realm_cli, tmp_path) -> None:
    broken(ValueError("x"))
    (tmp_path / "there").mkdir()
    assert realm_cli("import", "t.csv", "--output", "there/new.csv")[0] == 1
    assert "ValueError: x" in trace_in(tmp_path / "there")
    assert not list(tmp_path.glob("realm-error-*"))


def test_debug_shows_the_trace(broken, realm_cli) -> None:
    broken(ValueError("x"))
    code, _, error = realm_cli("--debug", "check", "t.csv")
    assert code == 1 and "Traceback (most recent call last)" in error
    broken(RealmError("mend it"))
    assert "Traceback" not in realm_cli("check", "t.csv")[2]
    code, _, error = realm_cli("--debug", "check", "t.csv")
    assert code == 2 and "Traceback" in error and "error: mend it" in error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), "not enough memory"),
        (OSError(errno.ENOSPC, "No space left on device", "out.csv"), "out.csv: No space left on device."),
        (PermissionError(errno.EACCES, "Permission denied", "x"), "x: Permission denied."),
    ],
)
def test_what_the_machine_refuses_is_no_mistake_of_ours(broken, realm_cli, tmp_path, error, message) -> None:
    broken(error)
    code, _, shown = realm_cli("check", "t.csv")
    assert code == 2 and f"error: {message}" in shown
    assert not list(tmp_path.glob("realm-error-*"))


def test_no_secret_is_in_the_file_or_on_the_screen(broken, realm_cli, tmp_path, monkeypatch) -> None:
    home = os.path.expanduser("~")
    monkeypatch.setenv("MY_SERVICE_TOKEN", "abc-secret-123")
    secrets = ["abc-secret-123", "hf_abcdefghijklmnopqrst", "user:pass", f"{home}/data", "eyJhbGciOiJIUzI1NiJ9.e30.x"]
    broken(ValueError(f"{' '.join(secrets[:2])} https://user:pass@host/x {home}/data/t.csv Bearer {secrets[4]}"))
    _, _, error = realm_cli("check", "t.csv", "--text", f"{home}/data")
    trace = trace_in(tmp_path)
    for secret in secrets:
        assert secret not in trace and secret not in error, secret
    assert "~/data/t.csv" in trace and "[$MY_SERVICE_TOKEN]" in trace
    for name, value in os.environ.items():
        assert f"{name}={value}" not in trace


def test_plain_words_are_left_alone() -> None:
    text = "row 3: the token 'yes' of /homework, authors, sk-learn, basic tokens"
    assert redacted(text) == text


def test_a_folder_that_takes_no_file(broken, realm_cli, monkeypatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    broken(ValueError("x"))
    monkeypatch.setattr("realm.cli.unforeseen.tempfile.mkstemp", refuse)
    code, _, error = realm_cli("check", "t.csv")
    assert code == 1 and "realm --debug" in error


def test_ctrl_c_in_a_command(broken, realm_cli, tmp_path) -> None:
    broken(KeyboardInterrupt())
    code, out, error = realm_cli("check", "t.csv")
    assert (code, out, error.strip()) == (130, "", "stopped.")
    assert not list(tmp_path.glob("realm-error-*"))


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGINT")
def test_ctrl_c_at_any_moment(tmp_path) -> None:
    """From the first line of ours on; a moment before, Python itself is being loaded."""
    (tmp_path / "t.csv").write_text(CONTENT)
    code = "from realm.cli.entry import main; print('on', flush=True); main()"
    for delay in (0.0, 0.1, 0.25, 0.4):
        process = subprocess.Popen(
            [sys.executable, "-c", code, "check", str(tmp_path / "t.csv")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
        assert process.returncode in (0, 130), (delay, error.decode())
        assert b"Traceback" not in error, (delay, error.decode())
