"""The run folder: one training with everything it produced, and how to read it back.

    model/                plain Hugging Face checkpoint, no trace of annotators
    scorer.json           how items are asked: kind of scorer, prompt, label names
    config.yaml           every setting, the data's fingerprint, whether gold was read
    expertise.csv         how reliable each annotator is, with an interval
    labels.csv            the most probable true label of every item
    metrics.json          losses and evaluations during training
    channel.safetensors   omega;   trajectory.safetensors   omega at every logging step
    annotators.json       their names, in the order of omega's rows
    annotations.csv       the table as it was trained on;   predictions.safetensors   the model's log P for its items
    manifest.json         SHA-256 of every file, written last

Nothing here depends on gold unless the run was told to use it, and nothing holds a time of day.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file, save_file

from realm.data import Annotations, Task
from realm.errors import RealmError
from realm.files import left_behind, read_json, read_yaml, verify_manifest, write_atomically
from realm.scorers.prompts import PromptStyle

CONFIG = "config.yaml"
SCORER = "scorer.json"
ANNOTATORS = "annotators.json"
REPORT = "report.html"
WRITTEN = (
    *(CONFIG, SCORER, ANNOTATORS, REPORT, "manifest.json", "metrics.json", "expertise.csv", "labels.csv"),
    *("annotations.csv", "channel.safetensors", "trajectory.safetensors", "predictions.safetensors"),
)
"""The files of a run, beside the folders model/ and checkpoints/."""
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib")
CODE = (".py", ".pyc", ".so")


def holds_run(folder: Path) -> bool:
    """Whether a run was begun in the folder: its `config.yaml` is the first file that a run writes."""
    path = folder / CONFIG
    return path.is_file() and path.read_bytes().startswith(b"realm:")


def check_output(folder: Path, *, overwrite: bool = False, resume: bool = False) -> None:
    """Refuse to write over another run, or over a folder that is something else."""
    if folder.exists() and not folder.is_dir():
        raise RealmError(f"--output {folder}: a file stands there; name a folder.")
    if not folder.exists() or set(folder.iterdir()) <= set(left_behind(folder)):
        return
    if holds_run(folder):
        if overwrite or resume:
            return
        raise RealmError(f"--output {folder} already holds a run. Use --resume to go on with it or --overwrite.")
    raise RealmError(f"--output {folder} is not empty and holds no run. Name another folder.")


def refuse_code(folder: Path) -> None:
    """Refuse a run with files that could run code when they are loaded: no run of ours has any outside checkpoints/."""
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).parts
        if inside[0] == "checkpoints" or not path.is_file():
            continue
        if path.suffix in PICKLES or (inside[0] == "model" and path.suffix in CODE):
            raise RealmError(
                f"{path}: a file of this kind can run code when it is loaded, and a run has none. If you know what it "
                "is, move it elsewhere; if somebody else gave you the run, do not use it."
            )


def clear(folder: Path) -> None:
    """Remove a run (its own files only) so that another can take its place."""
    for name in ("model", "checkpoints"):
        shutil.rmtree(folder / name, ignore_errors=True)
    for name in WRITTEN:
        (folder / name).unlink(missing_ok=True)


def replace_folder(folder: Path, write: Any) -> None:
    """Let `write(partial)` make a folder beside its place, then put it there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        write(partial)
        partial.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def write_tensors(path: Path, **arrays: npt.NDArray[Any]) -> None:
    write_atomically(path, lambda partial: save_file({k: np.ascontiguousarray(v) for k, v in arrays.items()}, partial))


def fingerprint(annotations: Annotations, gold: bool = False) -> str:
    """A hash of items, annotators and annotations; of gold only if asked for."""
    digest = hashlib.blake2b(digest_size=16)
    if gold and annotations.gold is not None:
        digest.update(np.ascontiguousarray(annotations.gold).tobytes())
    for array in (annotations.item_tasks, annotations.item, annotations.annotator, annotations.label):
        digest.update(np.ascontiguousarray(array).tobytes())
    for strings in (annotations.item_ids, annotations.texts, annotations.contexts, annotations.options):
        for value in [] if strings is None else strings.to_pylist():
            digest.update(repr(value).encode("utf-8", "surrogatepass"))
    digest.update(repr((annotations.tasks, annotations.annotators)).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


@dataclass(frozen=True)
class Run:
    """A finished run, read back from its folder. Only safetensors, JSON, CSV and YAML (safely) are read."""

    folder: Path

    @classmethod
    def open(cls, folder: str | Path, verify: bool = True) -> Run:
        folder = Path(folder)
        if not folder.is_dir():
            raise RealmError(f"{folder}: no such run folder.")
        if not (folder / "manifest.json").exists():
            unfinished = holds_run(folder)
            raise RealmError(
                f"{folder}: the run did not finish; go on with `realm train ... --output {folder} --resume`."
                if unfinished
                else f"{folder} is not a run folder (it has no manifest.json)."
            )
        refuse_code(folder)
        if verify:
            verify_manifest(folder)
        return cls(folder)

    @cached_property
    def config(self) -> dict[str, Any]:
        return dict(read_yaml(self.folder / CONFIG))

    @cached_property
    def metrics(self) -> dict[str, Any]:
        return dict(read_json(self.folder / "metrics.json"))

    @cached_property
    def asked(self) -> dict[str, Any]:
        """What `scorer.json` holds."""
        return dict(read_json(self.folder / SCORER))

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        listed = self.asked["tasks"]
        return tuple(Task(t["name"], None if t["labels"] is None else tuple(t["labels"])) for t in listed)

    def scorer(self) -> Any:
        """The trained scorer, ready to answer."""
        from realm.scorers import build_scorer

        asked = self.asked
        return build_scorer(
            str(self.folder / "model"),
            asked["kind"],
            PromptStyle(**asked["style"]),
            self.tasks,
            int(asked["max_options"]),
            cloze_scale=float(asked.get("cloze_scale", 10.0)),
            use_safetensors=True,
        )

    def annotations(self) -> Annotations:
        """The table the run was trained on: items in the order of `log_probs()`, annotators in that of omega."""
        table = Annotations.read(self.folder / "annotations.csv", tasks=self.tasks, missing="drop")
        names = tuple(str(name) for name in read_json(self.folder / ANNOTATORS))
        place = {name: row for row, name in enumerate(names)}
        if missing := [name for name in table.annotators if name not in place]:
            raise RealmError(f"{self.folder / ANNOTATORS} does not name {missing[0]!r}, who is in annotations.csv.")
        rows = np.array([place[name] for name in table.annotators], dtype=np.int32)
        return replace(table, annotators=names, annotator=rows[table.annotator])

    def log_probs(self) -> npt.NDArray[np.float64]:
        """The model's log P(option) for the items of `annotations()`. (items, K)"""
        stored: npt.NDArray[np.float32] = load_file(self.folder / "predictions.safetensors")["log_probs"]
        return stored.astype(np.float64)

    def trained_expertise(self) -> npt.NDArray[np.float64] | None:
        """sigmoid(omega), (annotators, tasks), where the method learns it."""
        path = self.folder / "channel.safetensors"
        if not path.exists():
            return None
        omega = load_file(path)["omega"].astype(np.float64)
        return np.asarray(1 / (1 + np.exp(-omega)))
