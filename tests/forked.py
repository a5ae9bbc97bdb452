"""Processes that tests start and may kill: forked from a server that has imported everything, so that each is cheap."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

PATIENCE = 300
"""Seconds after which a process counts as one that hangs: many times what it needs on a busy machine."""

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.preloaded"])


def start(act: Callable[..., Any], *args: Any, may_start_others: bool = False, **environment: str) -> ForkServerProcess:
    """Begin `act(*args)`, a function of a module, in a process with these environment variables."""
    environment = {"REALM_HOME": os.environ["REALM_HOME"], "OMP_NUM_THREADS": "1", **environment}
    process = _context.Process(target=_run, args=(act, args, environment), daemon=not may_start_others)
    process.start()
    return process


def _run(act: Callable[..., Any], args: tuple[Any, ...], environment: dict[str, str]) -> None:
    import torch

    gc.freeze()  # a collection walks through what the process makes, not through all that it was forked with
    os.environ.update(environment)
    torch.set_num_threads(1)
    act(*args)


@dataclass(frozen=True)
class Ended:
    """A process that has ended: its exit code and what it printed."""

    returncode: int | None
    stdout: str
    stderr: str


def call(act: Callable[..., Any], *args: Any, **environment: str) -> Ended:
    """Run `act(*args)` in a process with these environment variables, and wait until it has ended."""
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder) / name) for name in ("stdout", "stderr")]
        process = start(_printing_to, act, args, files, **environment)
        process.join(PATIENCE)
        assert process.exitcode is not None, "the process hangs"
        return Ended(process.exitcode, *(Path(file).read_text() for file in files))


def realm(*words: object, **environment: str) -> Ended:
    """Run a command in a process with these environment variables, and wait until it has ended."""
    return call(command_line, [str(word) for word in words], **environment)


def command_line(words: list[str]) -> None:
    """The command line, in this process."""
    from realm.cli.entry import main

    sys.argv = ["realm", *words]
    main()


def _printing_to(act: Callable[..., Any], args: tuple[Any, ...], files: list[str]) -> None:
    for number, file in enumerate(files, 1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), number)
    act(*args)


def run_together(act: Callable[..., Any], *args: Any, world: int = 2, timeout: float = 300) -> None:
    """Run `act(*args)` in `world` processes that find each other as those of `torchrun` do; fail if one fails."""
    from torch.distributed import TCPStore

    # Hosted here, on a port the system picks, as by `torchrun`'s agent: a port that is looked up, given back and taken
    # again by one of the processes may be somebody else's by then.
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    shared = {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)}
    shared["TORCHELASTIC_USE_AGENT_STORE"] = "True"
    ranks = [start(act, *args, **shared, RANK=str(r), LOCAL_RANK=str(r)) for r in range(world)]
    try:
        for process in ranks:
            process.join(timeout)
        assert [process.exitcode for process in ranks] == [0] * world
    finally:
        for process in ranks:
            process.kill()
