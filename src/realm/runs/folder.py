"""The run folder: one training with everything it produced. docs/reference/run-folder.md says what each file holds.

`config.yaml` is written first and the manifest last. The CSV files are for people and never read back; nothing but the
log holds the time of the run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from realm.errors import RealmError
from realm.files import MANIFEST, partial_files
from realm.locks import LOCK, refuse_held

FORMAT = 2
"""The version of the layout above. It is raised when a file of a run changes its meaning."""
OUT_OF_FOLD, BEFORE_TRAINING, AGREEMENT = "out of fold", "before each step", "agreement alone"
"""What labels and reliability rest on: models of folds, the forward before each step, or a table without a model."""
CONFIG, SCORER, METRICS = "config.yaml", "scorer.json", "metrics.json"
ANNOTATIONS, ANNOTATORS = "annotations.parquet", "annotators.json"
PREDICTIONS, ESTIMATE, CHANNEL = "predictions.safetensors", "estimate.safetensors", "channel.safetensors"
SUMMARY, TRAJECTORY = "summary.safetensors", "trajectory.safetensors"
EXPERTISE_CSV, LABELS_CSV, REPORT = "expertise.csv", "labels.csv", "report.html"
LOG = "progress.log"
"""What the command line said while it worked, with the time; the one file that holds the time of a run."""
MODEL, CHECKPOINTS = "model", "checkpoints"
RUN_FILES = (
    *(CONFIG, SCORER, ANNOTATIONS, ANNOTATORS, PREDICTIONS, ESTIMATE, CHANNEL, SUMMARY, TRAJECTORY, METRICS),
    *(EXPERTISE_CSV, LABELS_CSV, MANIFEST, REPORT),
)
"""The files of a run, beside the folders model/ and checkpoints/."""
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib")
"""Endings of files that run code when they are unpickled."""
CODE = (".py", ".pyc", ".so")
"""Endings of code that transformers could import from a model folder."""


def holds_run(folder: Path) -> bool:
    """Whether a run was begun in the folder: its `config.yaml` is the first file that a run writes."""
    path = folder / CONFIG
    return path.is_file() and path.read_bytes()[:6] == b"realm:"


def check_output(
    folder: Path, *, overwrite: bool = False, resume: bool = False, reads: Iterable[str | Path | None] = ()
) -> None:
    """Refuse to write over another run, over a folder that is something else, or over what the same command `reads`."""
    if folder.exists() and not folder.is_dir():
        raise RealmError(f"`output` {folder}: a file stands there; name a folder.")
    if not folder.exists():
        return
    refuse_held(folder)
    if set(folder.iterdir()) <= {folder / LOCK, *partial_files(folder)}:
        return
    if not holds_run(folder):
        raise RealmError(f"`output` {folder} is not empty and holds no run. Name another folder.")
    if not (overwrite or resume):
        raise RealmError(
            f"`output` {folder} already holds a run. Use `resume` to go on with it or `overwrite` to replace it."
        )
    own = [folder.resolve() / name for name in (*RUN_FILES, MODEL, CHECKPOINTS)]
    if overwrite:
        for path in reads:
            place = Path(path or os.sep).expanduser().resolve()
            if place == folder.resolve() or any(place.is_relative_to(part) for part in own):
                raise RealmError(
                    f"`output` {folder}: `overwrite` would delete {path}, which is read. Name another folder for the "
                    "output, or copy what is read."
                )


def is_read(name: str) -> bool:
    """Whether a file of this name, relative to the run, is read by us or by what loads the model."""
    if not name.startswith(f"{MODEL}/"):
        return name in RUN_FILES and name not in (MANIFEST, REPORT, EXPERTISE_CSV, LABELS_CSV)
    return name.endswith((".safetensors", ".json", ".model", ".txt", ".jinja"))


def refuse_code(folder: Path) -> None:
    """Refuse a run with files that could run code when they are loaded: no run of ours has any outside checkpoints/."""
    for path in sorted(folder.rglob("*")):
        top = path.relative_to(folder).parts[0]
        if top != CHECKPOINTS and path.is_file() and path.suffix in (PICKLES + CODE if top == MODEL else PICKLES):
            raise RealmError(
                f"{path}: a file of this kind can run code when it is loaded, and a run has none. If you know what it "
                "is, move it elsewhere; if somebody else gave you the run, do not use it."
            )


def clear(folder: Path) -> None:
    """Remove a run (its own files only) so that another can take its place.

    First what makes it count as finished. Its `config.yaml` stays until it is replaced, so that whatever happens
    meanwhile the folder still holds a run, and the same command may be given again.
    """
    (folder / MANIFEST).unlink(missing_ok=True)
    for name in (MODEL, CHECKPOINTS):
        shutil.rmtree(folder / name, ignore_errors=True)
    for name in RUN_FILES:
        if name != CONFIG:
            (folder / name).unlink(missing_ok=True)
