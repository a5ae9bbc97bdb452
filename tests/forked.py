"""Processes that tests start and may kill: forked from a server that has imported everything, so that each is cheap."""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from typing import Any

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    [
        *("realm.cli.main", "realm.training.trainer", "realm.runs.writer", "realm.report.run_page", "peft"),
        *("realm.data.readers", "realm.crowd.estimate", "tests.trainers", "tests.tiny"),
    ]
)


def start(act: Callable[..., Any], *args: Any, **environment: str) -> ForkServerProcess:
    """Begin `act(*args)`, a function of a module, in a process with these environment variables."""
    environment = {"REALM_HOME": os.environ["REALM_HOME"], "OMP_NUM_THREADS": "1", **environment}
    process = _context.Process(target=_run, args=(act, args, environment), daemon=True)
    process.start()
    return process


def _run(act: Callable[..., Any], args: tuple[Any, ...], environment: dict[str, str]) -> None:
    import torch

    gc.freeze()  # a collection walks through what the process makes, not through all that it was forked with
    os.environ.update(environment)
    torch.set_num_threads(1)
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
