"""Shell manners: quick help, no colour where none is wanted, clean ends, JSON that parses."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from realm import RealmError, Run
from realm.data.write import write_table
from tests.contracts.commands import all_flags
from tests.forked import PATIENCE, call, command_line, realm, start
from tests.tiny import crowd, save_tiny

REALM = [sys.executable, "-c", "import sys; from realm.cli.entry import main; sys.argv[0] = 'realm'; main()"]
ESCAPE = "\x1b["
COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3\d|4\d|9\d)(?:;\d+)*m")

# Import graph rather than clock: what takes time at start is torch and its friends.
HEAVY = ("torch", "transformers", "datasets", "accelerate", "peft", "scipy", "pandas", "pyarrow", "sklearn")

EVERY_HELP = f"""
import json, sys
import typer
from typer.testing import CliRunner
from realm.cli.main import app

def paths(command, path=()):
    yield path
    for name, child in sorted(getattr(command, "commands", {{}}).items()):
        yield from paths(child, (*path, name))

found = {{}}
for path in paths(typer.main.get_command(app)):
    result = CliRunner().invoke(app, [*path, "--help"])
    loaded = [name for name in {HEAVY!r} if name in sys.modules]
    found[" ".join(path)] = [result.exit_code, result.output, loaded]
print(json.dumps(found))
"""

WITHOUT_HELP = """
import json, typer
from realm.cli.main import app

found, pending = [], [("realm", typer.main.get_command(app))]
while pending:
    path, command = pending.pop()
    pending += [(f"{path} {name}", child) for name, child in getattr(command, "commands", {}).items()]
    found += [] if command.help else [path]
    found += [f"{path} {each.name}" for each in command.params if not getattr(each, "help", None)]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def every_help() -> dict[str, tuple[int, str, list[str]]]:
    """Every command's --help, asked in one process: exit code, what was shown, which heavy modules it had loaded."""
    done = subprocess.run(
        [sys.executable, "-c", EVERY_HELP], capture_output=True, text=True, timeout=PATIENCE,
        env={**os.environ, "COLUMNS": "80"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {name: tuple(entry) for name, entry in json.loads(done.stdout).items()}


def test_help_of_every_command_loads_nothing_heavy(every_help: dict[str, tuple[int, str, list[str]]]) -> None:
    commands = "check aggregate judges train evaluate predict relabel report push compare simulate demo"
    assert [name for name in every_help if name and " " not in name] == sorted([*commands.split(), "label-studio",
                                                                                "models"])  # fmt: skip
    assert {name: loaded for name, (_, _, loaded) in every_help.items() if loaded} == {}


def test_help_fits_on_a_screen_and_says_what_every_command_and_flag_does(every_help) -> None:
    for name, (code, shown, _) in every_help.items():
        assert code == 0 and f"Usage: {' '.join(['realm', *name.split()])} [OPTIONS]" in shown, name
        assert len(shown.splitlines()) < 40 and max(map(len, shown.splitlines())) <= 80, name
        parent = every_help[" ".join(name.split()[:-1])][1]
        assert not name or re.search(rf"^  {name.split()[-1]} +\w", parent, re.MULTILINE), f"{name} is listed"
    done = subprocess.run([sys.executable, "-c", WITHOUT_HELP], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


def test_help_all_has_the_flags_that_help_leaves_out(realm_cli) -> None:
    _, common, _ = realm_cli("train", "--help")
    code, every, _ = realm_cli("train", "--help-all")
    assert code == 0 and "--batch-size" in every and "--batch-size" not in common
    assert realm_cli("train", "--help")[1] == common


def test_the_flags_are_few() -> None:
    assert len(all_flags()) <= 75


def test_completion_knows_the_commands_and_loads_nothing_heavy() -> None:
    asked = {"_REALM_COMPLETE": "complete_bash", "COMP_WORDS": "realm ", "COMP_CWORD": "1"}
    watched = f"import sys, atexit; atexit.register(lambda: print([m for m in {HEAVY!r} if m in sys.modules]))\n"
    done = subprocess.run(
        [sys.executable, "-c", watched + REALM[2]], capture_output=True, text=True, env={**os.environ, **asked}
    )
    assert {"train", "check", "demo"} <= set(done.stdout.split())
    assert done.stdout.splitlines()[-1] == "[]"


# -------------------------------------------------------------------- colour


def test_a_pipe_gets_no_colour(tmp_path: Path) -> None:
    write_table(crowd(12), tmp_path / "labels.csv")
    for done in (realm("--help"), realm("check", tmp_path / "labels.csv"), realm("check", tmp_path / "none.csv")):
        assert ESCAPE not in done.stdout + done.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["check", "none.csv"], ["train", "--nonsense"], ["models"]])
def test_no_color_is_respected_in_a_terminal(arguments: list[str], tmp_path: Path) -> None:
    shown = in_terminal([*REALM, *arguments], tmp_path, NO_COLOR="1")
    assert shown.strip()
    assert not COLOUR.search(shown)


def test_a_terminal_gets_colour(tmp_path: Path) -> None:
    assert COLOUR.search(in_terminal([*REALM, "check", "none.csv"], tmp_path))


def test_training_shows_in_a_terminal_how_far_the_frozen_layers_are(tmp_path: Path) -> None:
    write_table(crowd(12), tmp_path / "labels.csv")
    model = save_tiny(tmp_path / "tiny", "bert", layers=2, width=16)
    words = ["train", "labels.csv", "--model", model, "--output", "run", "--steps", "1", "--train-layers", "1"]
    parent, child = pty.openpty()
    process = start(in_this_terminal, os.ttyname(child), words, str(tmp_path), **TERMINAL, REALM_HOME=str(tmp_path))
    shown, is_over = "", False
    while not is_over:
        is_over = not process.is_alive()  # before the last look, not after it
        while select.select([parent], [], [], 0.05)[0]:
            shown += os.read(parent, 65536).decode()
    assert process.exitcode == 0, shown
    os.close(parent)
    os.close(child)
    assert "computing the frozen layers" in shown and "expertise.csv" in shown
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h")  # the cursor is back


TERMINAL = {"TERM": "xterm-256color", "COLUMNS": "100"}
NO_TERMINAL = ("NO_COLOR", "FORCE_COLOR", "CI", "GITHUB_ACTIONS")


def in_this_terminal(name: str, words: list[str], folder: str) -> None:
    """A command whose three streams are this terminal."""
    for stream in range(3):
        os.dup2(os.open(name, os.O_RDWR | os.O_NOCTTY), stream)
    for variable in NO_TERMINAL:
        os.environ.pop(variable, None)
    os.chdir(folder)
    command_line(words)


def in_terminal(command: list[str], folder: Path, **environment: str) -> str:
    """What a command shows in a terminal of its own."""
    parent, child = pty.openpty()
    surroundings = {name: value for name, value in os.environ.items() if name not in NO_TERMINAL}
    surroundings |= {**TERMINAL, "REALM_HOME": str(folder), **environment}
    process = subprocess.Popen(command, stdin=child, stdout=child, stderr=child, cwd=folder, env=surroundings)
    os.close(child)
    shown = b""
    while True:
        ready, _, _ = select.select([parent], [], [], PATIENCE)
        try:
            chunk = os.read(parent, 65536) if ready else b""
        except OSError:  # the terminal is gone, as it should be when the command has ended
            break
        if not chunk:
            break
        shown += chunk
    process.wait(timeout=PATIENCE)
    os.close(parent)
    return shown.decode()


# -------------------------------------------------------------------- ends


def test_a_mistake_ends_with_two_and_no_traceback() -> None:
    done = realm("check", "no-such-file.csv")
    assert done.returncode == 2
    assert "no-such-file.csv" in done.stderr and "Traceback" not in done.stderr


def heed_interrupts() -> None:
    """A shell starts background jobs with interrupts ignored, which their children inherit; a terminal does not."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def interrupted_after_a_checkpoint(words: list[str]) -> None:
    """A command that gets Ctrl-C as soon as a checkpoint is whole: from itself, so that no clock has a part in it."""
    from realm.training.trainer import RealmTrainer

    write = RealmTrainer._save_checkpoint

    def interrupted(*arguments):
        write(*arguments)
        os.kill(os.getpid(), signal.SIGINT)

    RealmTrainer._save_checkpoint = interrupted
    signal.signal(signal.SIGINT, signal.default_int_handler)
    command_line(words)


def test_ctrl_c_in_training_says_how_to_resume_and_resuming_finishes(tmp_path: Path) -> None:
    write_table(crowd(40), tmp_path / "labels.csv")
    model = save_tiny(tmp_path / "tiny", "causal")
    output = tmp_path / "run"
    command = ["train", tmp_path / "labels.csv", "--model", model, "--output", output]
    # one checkpoint half-way: a run that began again instead of going on would write it again
    command += ["--steps", 20, "--save-steps", 10, "--batch-size", 8, "--micro-batch-size", 8]
    checkpoint = output / "checkpoints" / "checkpoint-10"
    stopped = call(interrupted_after_a_checkpoint, [str(word) for word in command])
    assert stopped.returncode == 130
    assert "--resume" in stopped.stderr and str(output / "checkpoints") in stopped.stderr.replace("\n", "")
    assert "Traceback" not in stopped.stderr
    with pytest.raises(RealmError, match="did not finish"):
        Run.open(output)

    before = times(checkpoint)
    done = realm(*command, "--resume")
    assert done.returncode == 0, done.stderr
    assert times(checkpoint) == before, "went on from the checkpoint"
    run = Run.open(output)
    assert run.metrics["steps"] == 20
    assert f"{run.expertise['accuracy'].max():.3f}" in done.stdout


def times(folder: Path) -> dict[str, int]:
    """When each file of a folder was written."""
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_ctrl_c_elsewhere_ends_cleanly(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "labels.csv")
    process = subprocess.Popen(
        [*REALM, "check", str(tmp_path / "labels.csv")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    writer = None
    while writer is None:
        try:  # refused until the command has opened it for reading
            writer = os.open(tmp_path / "labels.csv", os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
    said = None
    while said is None:  # an interrupt right before Python begins to read waits for data: a person presses again
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            _, said = process.communicate(timeout=1)
    os.close(writer)
    assert process.returncode == 130
    assert "Traceback" not in said


# -------------------------------------------------------------------- JSON


def test_what_a_script_reads_is_json_and_nothing_else(tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    write_table(crowd(24), labels)
    for arguments in (
        ["check", labels, "--json"],
        ["aggregate", labels, "--json"],
        ["judges", labels, "--json"],
        ["simulate", labels, "--output", tmp_path / "made.csv", "--json"],
        ["models", "--json"],
    ):
        done = realm(*arguments, REALM_HOME=str(tmp_path / "home"))
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)
