"""Finished runs whose machine files a test damages, with a manifest that fits what was done."""

from __future__ import annotations

import contextlib
import functools
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Subject:
    """A finished run, a table that it can answer, and what trains it in this folder."""

    run: Path
    test: Path
    trainer: Callable[[Path], Any]


def make_subjects(folder: Path) -> list[Subject]:
    """A small causal run, and a run of a classifier with two tasks, weights and gold that it used."""
    from tests.tiny import crowd, save_tiny
    from tests.trainers import trainer

    subjects = []
    for kind, tasks in (("causal", 1), ("bert", 2)):
        place = folder / kind
        model = save_tiny(place / "model", kind, layers=1, width=16)
        table, test = crowd(20, tasks=tasks), crowd(8, seed=5, tasks=tasks)
        columns = [name for name in ("item", "task", "text", "gold") if name in test.to_pandas()]
        test.to_pandas()[columns].drop_duplicates().to_csv(place / "test.csv", index=False)
        settings: dict[str, Any] = {"write_run": True, "save_strategy": "steps", "save_steps": 2, "max_steps": 4}
        make = functools.partial(trainer, model, table, test=test, use_gold=kind == "bert", **settings)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            make(place / "run").train()
        subjects.append(Subject(place / "run", place / "test.csv", make))
    return subjects


def fit_manifest(run: Path, name: str) -> None:
    """Make the manifest say of one file what it is now."""
    import json

    from realm.files import MANIFEST, sha256

    if name == MANIFEST:
        return
    path = run / MANIFEST
    hashes = json.loads(path.read_text())
    if (run / name).is_file():
        hashes["sha256"][name] = sha256(run / name)
    else:
        hashes["sha256"].pop(name, None)
    path.unlink()
    path.write_text(json.dumps(hashes))


def resumed(subject: Subject, run: Path) -> None:
    """Go on with a subject's run in another folder."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        subject.trainer(run).train(resume_from_checkpoint=True)
