"""Mutates every machine file of a run, puts it through everything that reads one, and counts what became of it.

python -m tests.faults.machine_files --mutations 2000 --checkpoints 200
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import math
import os
import random
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.machine_mutations import mutate_file
from tests.faults.outcomes import Tally, attempt, limit_memory, run_command, show, working_in

READ_BACK = (".csv", ".md", ".html")
"""Files for people, which nothing reads."""


@dataclass(frozen=True)
class Subject:
    """A finished run, a table that it can answer, and what trains it in this folder."""

    run: Path
    test: Path
    trainer: Callable[[Path], Any]

    @property
    def files(self) -> list[str]:
        """What is read of it, checkpoints aside."""
        paths = (path for path in self.run.rglob("*") if path.is_file() and "checkpoints" not in path.parts)
        return sorted(path.relative_to(self.run).as_posix() for path in paths if path.suffix not in READ_BACK)


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


def linked_copy(source: Path, place: Path) -> Path:
    """A copy of a folder whose files are links to the same bytes; what is mutated is replaced by a file of its own."""
    shutil.copytree(source, place, copy_function=os.link)
    return place


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


def commands(subject: Subject, run: Path) -> list[list[str]]:
    """Everything that reads a run."""
    out = str(run.parent / "out")
    return [
        ["report", str(run), "--output", f"{out}.html"],
        ["relabel", str(run), "--output", f"{out}.csv"],
        ["export", str(run), "--output", f"{out}.csv"],
        ["predict", str(run), str(subject.test), "--output", f"{out}.csv"],
        ["evaluate", str(run), str(subject.test), "--no-generation", "--json"],
    ]


def read_everything(folder: Path) -> Any:
    """Open a run and ask it for everything but the model."""
    from realm.runs import Run

    run = Run.open(folder)
    _ = (run.config, run.metrics, run.scorer_settings, run.gold_used, run.out_of_fold, run.probabilities, run.findings)
    _ = (run.channel_summary, run.trajectory, run.log_probs, run.relabel(5), run.contradictions(), run.expertise)
    return run.labels


def complaint_of(labels: Any) -> str | None:
    """What cannot be right about the labels of a run, whatever was in its files."""
    for value in labels["confidence"]:
        if not (isinstance(value, float) and math.isfinite(value) and 0 <= value <= 1 + 1e-6):
            return f"a confidence of {value!r}"
    return None


def wrong_numbers(path: Path) -> str | None:
    """What cannot be right about a file of answers."""
    import pandas as pd

    if not path.exists() or path.stat().st_size < 2:
        return None
    frame = pd.read_csv(path, keep_default_na=False)
    return complaint_of(frame.astype({"confidence": float})) if "confidence" in frame and len(frame) else None


def try_machine_files(numbers: range, folder: Path, subjects: list[Subject]) -> Tally:
    """One file of a run mutated for each seed, with a manifest that fits it or not, through one way of reading.

    Whoever reads the file must refuse it under the manifest that the run had, and must refuse harm (a tensor less, a
    number that is none) under one that fits; any other change may be read or refused under one that fits.
    """
    tally = Tally()
    folder.mkdir(parents=True, exist_ok=True)
    for seed in numbers:
        with working_in(folder / str(seed)) as place:
            generator = random.Random(seed)
            subject = generator.choice(subjects)
            run = linked_copy(subject.run, place / "run")
            name = generator.choice(subject.files)
            content = (run / name).read_bytes()
            (run / name).unlink()
            (run / name).write_bytes(content)
            mutation = mutate_file(run / name, generator)
            is_changed = not (run / name).is_file() or (run / name).read_bytes() != content
            is_fitting = generator.random() < 0.85 or name == "manifest.json"
            if is_fitting:
                fit_manifest(run, name)
            is_model = name.startswith("model/")
            ways = commands(subject, run)
            words = generator.choice([ways[0], *ways[3:] * 3] if is_model else [*ways, ["Run.open"], ["Run.open"]])
            outcome, complaint = _try(words, run)
            reads = words[0] in ("predict", "evaluate") if is_model else words == ["Run.open"]
            if outcome == "read" and reads and mutation.is_harm:
                outcome, complaint = "wrong", "taken for whole"
            elif outcome == "read" and is_changed and not is_fitting and not (is_model and words[0] == "report"):
                outcome, complaint = "wrong", "accepted against the manifest"
            beside = "" if is_fitting else ", against the manifest"
            tally.add(outcome, f"seed {seed}, {mutation.story}{beside}: {words[0]}: {complaint}")
    return tally


def try_checkpoints(numbers: range, folder: Path, subjects: list[Subject]) -> Tally:
    """One file of the only checkpoint mutated for each seed, and the run gone on with: it is refused."""
    from realm.files import MANIFEST

    tally = Tally()
    folder.mkdir(parents=True, exist_ok=True)
    for seed in numbers:
        with working_in(folder / str(seed)) as place:
            generator = random.Random(seed)
            subject = generator.choice(subjects)
            run = linked_copy(subject.run, place / "run")
            (run / MANIFEST).unlink()
            shutil.rmtree(run / "checkpoints" / "checkpoint-4")
            checkpoint = run / "checkpoints" / "checkpoint-2"
            name = generator.choice(sorted(path.name for path in checkpoint.iterdir()))
            content = (checkpoint / name).read_bytes()
            (checkpoint / name).unlink()
            (checkpoint / name).write_bytes(content)
            mutation = mutate_file(checkpoint / name, generator)
            is_changed = not (checkpoint / name).is_file() or (checkpoint / name).read_bytes() != content
            own = Tally()
            attempt(own, "", lambda subject=subject, run=run: resumed(subject, run))
            [outcome] = own.counts
            complaint = "".join(own.failures)
            if outcome == "read" and is_changed and name != MANIFEST:
                outcome, complaint = "wrong", "accepted against the manifest"
            tally.add(outcome, f"seed {seed}, {mutation.story}: resume: {complaint}")
    return tally


def resumed(subject: Subject, run: Path) -> None:
    """Go on with a subject's run in another folder, and read what comes of it."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        subject.trainer(run).train(resume_from_checkpoint=True)
    wrong = complaint_of(read_everything(run))
    assert wrong is None, wrong


def _try(words: list[str], run: Path) -> tuple[str, str]:
    """The outcome of one way of reading a run, and what was wrong."""
    if words == ["Run.open"]:
        own = Tally()
        attempt(own, "", lambda: read_everything(run), complaint_of)
        [outcome] = own.counts
        return outcome, "".join(own.failures)
    code, out, error = run_command(words)
    if code == -1:
        return "hang", ""
    if code not in (0, 2) or "Traceback" in out + error:
        return "traceback", error[-600:]
    if code == 2:
        wrote = [path.name for path in run.parent.glob("out.*")]
        return ("wrong", f"refused, and wrote {wrote}") if wrote else ("refused", error)
    if "NaN" in out or "Infinity" in out:
        return "wrong", "printed what is no number"
    wrong = wrong_numbers(run.parent / "out.csv")
    return ("wrong", wrong) if wrong else ("read", "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutations", type=int, default=1000)
    parser.add_argument("--checkpoints", type=int, default=200, help="runs gone on with from a mutated checkpoint")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--show", type=int, default=20)
    parser.add_argument("--memory-gb", type=float, default=8, help="addresses that the process may have")
    flags = parser.parse_args()
    limit_memory(flags.memory_gb)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    with tempfile.TemporaryDirectory() as folder:
        subjects = make_subjects(Path(folder))
        numbers = range(flags.first, flags.first + flags.mutations)
        resumes = range(flags.first, flags.first + flags.checkpoints)
        for title, tally in (
            ("mutated machine files", try_machine_files(numbers, Path(folder) / "tries", subjects)),
            ("mutated checkpoints", try_checkpoints(resumes, Path(folder) / "checkpoints", subjects)),
        ):
            show(title, tally, flags.show)


if __name__ == "__main__":
    main()
