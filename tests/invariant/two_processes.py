"""The same short runs in one process and in two: what is run, and what each process does."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.trainers import DEFAULT

EFFECTIVE = 8


@dataclass(frozen=True)
class Case:
    """A configuration that must not depend on how many processes run it."""

    kind: str = "causal"
    double: bool = True
    micro: int = 4
    table: dict[str, Any] = field(
        default_factory=lambda: {"n_items": 50, "per_item": 2, "accuracies": (0.95, 0.85, 0.7)}
    )
    settings: dict[str, Any] = field(default_factory=dict)


LORA = {"lora_rank": 2}
FROZEN = {"train_layers": 1, "cache_gb": 0.0}  # the cache holds fp32, so float64 goes without it
HEAD = {"train_layers": "head", "learning_rate": 0.1}
ANNOTATION = {"batch_unit": "annotation"}
DENSE = {"expertise_optimizer": "adamw"}
GOLD = {"use_gold": True}
SHARED = {"instruction": "Which colour does the old house by the boat have?"}  # so long that a batch computes it once

CASES = {
    "full": Case("seq2seq", micro=2),
    "lora-annotation-dense": Case("causal", settings=LORA | ANNOTATION | DENSE | SHARED),
    "em-gold": Case("bert", settings={"expertise_update": "em"} | GOLD),
    "float32-cache": Case("causal", double=False, settings={"train_layers": 1}),
    "default": Case("causal", settings=DEFAULT),
    "default-sparse": Case("bert", table={"n_items": 50, "per_item": 1}, settings=DEFAULT),
}
MORE = {
    "full-dense": Case("bert", settings=DENSE),
    "full-annotation": Case("seq2seq", settings=ANNOTATION),
    "full-annotation-dense": Case("causal", micro=1, settings=ANNOTATION | DENSE),
    "lora": Case("seq2seq", settings=LORA),
    "lora-dense": Case("causal", settings=LORA | DENSE),
    "lora-annotation": Case("bert", settings=LORA | ANNOTATION),
    "frozen": Case("seq2seq", settings=FROZEN),
    "frozen-dense": Case("causal", settings=FROZEN | DENSE),
    "frozen-annotation": Case("causal", settings=FROZEN | ANNOTATION),
    "frozen-annotation-dense": Case("bert", micro=2, settings=FROZEN | ANNOTATION | DENSE),
    "head": Case("bert", settings=FROZEN | HEAD),
    "head-annotation-dense": Case("causal", settings=FROZEN | HEAD | ANNOTATION | DENSE),
    "em": Case("causal", settings={"expertise_update": "em"}),
    "em-annotation": Case("bert", settings={"expertise_update": "em"} | ANNOTATION),
    "gold": Case("causal", settings=GOLD),
    "gold-dense": Case("bert", micro=1, settings=GOLD | DENSE),
    "experts": Case("bert", settings={"experts": ["w0"]}),
    "noisy": Case("bert", settings={"method": "noisy"}),
    "tasks-cloze": Case("causal", table={"n_items": 50, "tasks": 2}, settings={"answers": "cloze"}),
    "checkpointing": Case("causal", settings={"gradient_checkpointing": True}),
    "float32": Case("causal", double=False, settings=SHARED),
    "float32-head-cache": Case("causal", double=False, settings=HEAD),
    "float32-lora": Case("causal", double=False, settings=LORA),
}


def processes() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def run_case(case: Case, models: Path, folder: Path) -> dict[str, np.ndarray]:
    """Twenty steps: the loss of each step as this process sees it, omega after each, and what they led to."""
    from tests.tiny import crowd
    from tests.trainers import trainer, trajectory

    table = crowd(**case.table)
    half = np.where(np.arange(table.n_items) % 2, -1, table.gold).astype(np.int32)
    made = trainer(
        str(models / case.kind),
        replace(table, gold=half),
        folder,
        double=case.double,
        max_steps=20,
        per_device_train_batch_size=case.micro,
        gradient_accumulation_steps=EFFECTIVE // (case.micro * processes()),
        **case.settings,
    )
    # LoRA's own parameters leave the model when they are merged at the end, so they are held here.
    trained = [parameter for parameter in made.model.parameters() if parameter.requires_grad]
    losses, omegas = trajectory(made)
    weights = np.concatenate([parameter.detach().double().numpy().ravel() for parameter in trained])
    return {"losses": losses, "omegas": omegas, "weights": weights, "scores": made.scores().log_probs}


def run_cases(names: list[str], models: Path, output: Path) -> None:
    """Run these cases in this process and save what was found."""
    rank = os.environ.get("RANK", "0")
    for name in names:
        np.savez(output / f"{name}.{rank}.npz", **run_case({**CASES, **MORE}[name], models, output / "run"))


WRITING = {
    "write_run": True, "train_layers": 1, "max_steps": 7, "save_strategy": "steps", "save_steps": 2, "logging_steps": 3,
    "per_device_train_batch_size": 4,
}  # fmt: skip


def writing_trainer(model: str, folder: Path, **settings: Any) -> Any:
    """A run of seven steps in mid-epoch, with a checkpoint every other step, a test table and a warning to print."""
    from tests.tiny import crowd
    from tests.trainers import trainer

    chosen = {**WRITING, "gradient_accumulation_steps": EFFECTIVE // (4 * processes()), **settings}
    return trainer(model, crowd(40, per_item=1), folder, test=crowd(12, seed=3), **chosen)


def write_runs(model: str, output: Path) -> None:
    """Runs with a folder. Each process is given a folder of its own, as on machines that share no disk.

    `whole` is left to finish, `stopped` is interrupted and resumed, `left` is interrupted and left to the test.
    """
    from realm.errors import RealmError
    from tests.invariant.test_resume import StopAt

    rank = os.environ["RANK"]
    os.environ["REALM_HOME"] = str(output / "home")
    told = _Told()
    logging.getLogger("realm").addHandler(told)

    def folder(name: str) -> Path:
        return output / (name if rank == "0" else f"elsewhere-{name}")

    writing_trainer(model, folder("whole")).train()
    for name in ("stopped", "left"):
        stopped = writing_trainer(model, folder(name))
        stopped.add_callback(StopAt(5))
        with contextlib.suppress(KeyboardInterrupt):
            stopped.train()
    writing_trainer(model, folder("stopped")).train(resume_from_checkpoint=True)
    try:
        writing_trainer(model, folder("whole")).train()
    except RealmError as error:
        refused = str(error)
    found = {"told": told.messages, "refused": refused}
    (output / f"found.{rank}.json").write_text(json.dumps(found))


def fail_to_write(model: str, output: Path) -> None:
    """A run whose first process finds no room for its second checkpoint; what each process ends with."""
    from realm.errors import RealmError
    from realm.training import checkpoints

    save, rank = checkpoints.write_files, os.environ["RANK"]
    saved: list[Path] = []

    def refuse(folder: Path, *parts: Any) -> None:
        if saved:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        saved.append(folder)
        save(folder, *parts)

    checkpoints.write_files = refuse
    try:
        writing_trainer(model, output / "run").train()
    except RealmError as error:
        (output / f"said.{rank}").write_text(str(error))


def run_command(words: list[str], said: Path) -> None:
    """Run the command line in this process, with what it says in files `said.RANK`."""
    from realm.cli.entry import main

    spoken = os.open(f"{said}.{os.environ['RANK']}", os.O_WRONLY | os.O_CREAT)
    os.dup2(spoken, 1)
    os.dup2(spoken, 2)
    sys.argv = ["realm", *words]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise


class _Told(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
