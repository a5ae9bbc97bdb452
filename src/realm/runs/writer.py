"""Writing a run: its description when it starts, its results when it ends. Both are plain data."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from realm.crowd.estimate import Estimate
from realm.crowd.tables import expertise_table, labels_table
from realm.data import Annotations
from realm.data.readers import EXPORTS
from realm.errors import RealmError
from realm.files import (
    MANIFEST,
    remove_partial_files,
    replacing_folder,
    write_json,
    write_manifest,
    write_tensors,
    write_text,
    write_yaml,
    writing,
)
from realm.models.store import model_fingerprint
from realm.runs import folder as layout
from realm.runs.annotations_file import write_annotations
from realm.runs.machine_files import Metrics, RunDescription, ScorerSettings, read_config
from realm.runs.spreadsheet import write_csv

if TYPE_CHECKING:
    import pandas as pd

    from realm.scorers.base import Scorer

Floats = npt.NDArray[np.float64]

_TIMED = ("runtime", "per_second", "flos")
"""Entries of `Trainer`'s log that differ from one run to the next, so that equal runs have equal files."""
_LAYOUT = ("per_device_train_batch_size", "gradient_accumulation_steps")
"""How the effective batch is cut changes no result, so a run may go on with another number of processes."""


_RECORDED = ("steps", "warnings", "notes", "findings", "probabilities", "folds", "temperature", "test")
"""What `metrics.json` takes over from the results."""


def describe(
    model: str,
    annotations: Annotations,
    settings: dict[str, Any],
    *,
    gold_used: bool,
    test: Annotations | None = None,
    prior: pd.DataFrame | None = None,
) -> RunDescription:
    """The description of a run that trains `model` on `annotations` with these settings."""
    weights = model_fingerprint(model)
    return RunDescription(
        model=model,
        settings=settings,
        gold_used=gold_used,
        data={
            "fingerprint": annotations.fingerprint(gold=gold_used),
            "items": annotations.n_items,
            "annotators": annotations.n_annotators,
            "annotations": annotations.n_annotations,
        },
        weights=None if weights == model else weights,
        test=None if test is None else test.fingerprint(gold=True),
        prior=None if prior is None else hashlib.sha256(prior.to_csv().encode()).hexdigest()[:32],
        columns=dict(annotations.columns),
        export=annotations.ledger.format if annotations.ledger.format in EXPORTS else None,
        exclude=list(annotations.corrections.exclude) or None,
        map_labels=dict(annotations.corrections.map_labels) or None,
        map_annotators=dict(annotations.corrections.map_annotators) or None,
        file=annotations.ledger.file,
    )


@dataclass(frozen=True, eq=False)
class ChannelResults:
    """What a learned channel leaves behind: its parameters by name, and its columns of the expertise table.

    `summary` has (annotators, tasks) of each column, `trajectory` (steps, annotators, tasks) at the logging `steps`.
    """

    name: str
    state: Mapping[str, npt.NDArray[Any]]
    summary: Mapping[str, Floats]
    steps: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    trajectory: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class RunResults:
    """What a training produced; from `history` on as in `Metrics`.

    `model` and `method` are the names for the model card. `annotations` have gold only if the run used it. `log_probs`
    is (items, Kmax), in-sample or out of fold.
    """

    scorer: Scorer
    model: str
    method: str
    annotations: Annotations
    log_probs: Floats
    estimate: Estimate
    channel: ChannelResults | None
    history: list[dict[str, Any]]
    steps: int
    warnings: list[str]
    notes: list[str]
    findings: list[str] = field(default_factory=list)
    probabilities: str = layout.BEFORE_TRAINING
    folds: int = 0
    temperature: float = 1.0
    test: dict[str, Any] | None = None


def write_start(folder: Path, description: RunDescription, *, overwrite: bool = False) -> None:
    """Write `config.yaml`; until its manifest is written again, the run counts as unfinished."""
    with writing(folder):
        if overwrite:
            layout.clear(folder)
        (folder / MANIFEST).unlink(missing_ok=True)
        remove_partial_files(folder)
        write_yaml(folder / layout.CONFIG, description.as_dict())


def check_same(folder: Path, description: RunDescription) -> None:
    """Refuse to resume a run other than the one that the folder holds."""
    if not (folder / layout.CONFIG).exists():
        return
    before, now = read_config(folder), description.as_dict()
    same_weights = "weights" in now and before.get("weights") == now["weights"]  # its folder may be called anything
    for part in (*(() if same_weights else ("model", "weights")), "settings", "prior", "data", "test"):
        one, other = before.get(part), now.get(part)
        if isinstance(one, dict) and isinstance(other, dict):
            for name in other:
                if name not in _LAYOUT and one.get(name) != other[name]:
                    difference = f"{part} {name} = {one.get(name)}, not {other[name]}"
                    raise RealmError(f"`resume`: {folder} holds a run with {difference}.")
        elif one != other:
            raise RealmError(f"`resume`: {folder} holds a run with another {part} ({one}, not {other}).")


def write_results(folder: Path, results: RunResults) -> None:
    """Write everything the run produced; the manifest last, so that a run with a manifest is whole.

    Nothing is written of a run whose numbers are not finite.
    """
    _check_finite(folder, results)
    with writing(folder):
        _write_model(folder / layout.MODEL, results)
        write_tables(folder, results)
        own = {*layout.RUN_FILES, layout.MODEL} - {layout.REPORT}
        write_manifest(folder, skip=tuple(path.name for path in folder.iterdir() if path.name not in own))


def _check_finite(folder: Path, results: RunResults) -> None:
    from realm.scorers.model_folder import first_not_finite  # imports torch, which reading a run does not

    seen = results.estimate.annotations > 0
    arrays = {"log_probs": results.log_probs, "posterior": results.estimate.posterior}
    arrays |= {name: getattr(results.estimate, name)[seen] for name in ("expertise", "accuracy", "low", "high")}
    broken = first_not_finite(results.scorer.backbone.named_parameters())
    broken = broken or next((name for name, array in arrays.items() if np.isnan(array).any()), None)
    if broken is not None:
        raise RealmError(
            f"{folder}: {broken} holds values that are not a number: training diverged, and its results are not "
            "written. Lower `learning_rate` and begin again with `overwrite`."
        )


def write_tables(folder: Path, results: RunResults) -> None:
    """Write everything but the model and the manifest: typed files for machines, CSV files for people."""
    annotations, estimate, channel, scorer = results.annotations, results.estimate, results.channel, results.scorer
    style = ScorerSettings(scorer.kind, scorer.style, list(scorer.tasks), int(annotations.option_counts.max()))
    settings = {**asdict(style), **scorer.extra_state()}
    write_json(folder / layout.SCORER, {name: value for name, value in settings.items() if value is not None})
    write_annotations(annotations, folder / layout.ANNOTATIONS)
    write_json(folder / layout.ANNOTATORS, list(annotations.annotators))
    write_tensors(folder / layout.PREDICTIONS, log_probs=results.log_probs.astype(np.float32))
    write_tensors(folder / layout.ESTIMATE, **estimate.to_arrays())
    summary = {} if channel is None else dict(channel.summary)
    if channel is not None:
        if channel.state:
            write_tensors(folder / layout.CHANNEL, **channel.state)
        write_tensors(folder / layout.SUMMARY, **summary)
        if len(channel.steps):
            write_tensors(folder / layout.TRAJECTORY, steps=channel.steps, **channel.trajectory)
    expertise = expertise_table(annotations, estimate, summary, results.probabilities)
    write_csv(expertise, folder / layout.EXPERTISE_CSV)
    write_csv(labels_table(annotations, estimate.posterior, results.probabilities), folder / layout.LABELS_CSV)
    metrics = Metrics(
        history=[
            {name: entry[name] for name in sorted(entry) if not any(part in name for part in _TIMED)}
            for entry in results.history
        ],
        channel=None if channel is None else channel.name,
        out_of_fold=results.folds > 0,
        **{name: getattr(results, name) for name in _RECORDED},
    )
    write_json(folder / layout.METRICS, asdict(metrics))


def _write_model(folder: Path, results: RunResults) -> None:
    from realm.runs.model_card import model_card  # imports torch, which reading a run does not

    scorer = results.scorer
    with replacing_folder(folder) as partial:
        scorer.backbone.config.use_cache = True
        scorer.backbone.save_pretrained(partial)
        scorer.tokenizer.save_pretrained(partial)
        card = model_card(scorer, results.model, results.method, results.annotations, results.findings, results.test)
        write_text(partial / "README.md", card)
