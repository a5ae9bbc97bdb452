"""Writing a run: what is known when it starts, and everything it produced when it ends."""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from realm import __version__
from realm.data.write import write_table
from realm.errors import RealmError
from realm.files import MANIFEST, read_yaml, sweep, write_json, write_manifest, write_text, write_yaml, writing
from realm.metrics import evaluate
from realm.models.fingerprint import model_fingerprint
from realm.runs import folder as run_folder
from realm.runs.model_card import model_card
from realm.training import checkpoints

if TYPE_CHECKING:
    from realm.training.trainer import RealmTrainer

_TIMED = ("runtime", "per_second", "flos")
# How the effective batch is cut changes no result, so a run may go on with another number of processes.
_LAYOUT = ("per_device_train_batch_size", "gradient_accumulation_steps")


def describe(trainer: RealmTrainer) -> dict[str, Any]:
    """What `config.yaml` says of a run: it must be the same again for the run to be resumed."""
    table, gold = trainer.annotations, trainer.args.reads_gold
    said: dict[str, Any] = {
        "realm": __version__,
        "model": trainer.model_name,
        "settings": trainer.args.settings(),
        "gold": "used in training" if gold else "not read",
        "data": {
            "fingerprint": run_folder.fingerprint(table, gold),
            "items": table.n_items,
            "annotators": table.n_annotators,
            "annotations": table.n_annotations,
        },
        "versions": {name: version(name) for name in ("torch", "transformers", "peft", "accelerate")},
    }
    if (weights := model_fingerprint(trainer.model_name)) != trainer.model_name:
        said["weights"] = weights
    if trainer.test is not None:
        said["test"] = run_folder.fingerprint(trainer.test, gold=True)
    if trainer.prior is not None:
        said["prior"] = hashlib.sha256(trainer.prior.to_csv().encode()).hexdigest()[:32]
    return said


def begin(trainer: RealmTrainer, resume: bool) -> Path | None:
    """Make the run folder ready, and find the checkpoint to go on from."""
    args = trainer.args
    if args.write_run:
        run_folder.check_output(trainer.run, overwrite=args.overwrite, resume=resume)
        if resume:
            check_same(trainer)
    # A finished run stays as it is if there is nothing whole to go on from.
    found = checkpoints.newest_whole(trainer.run / "checkpoints", trainer.is_fsdp_enabled) if resume else None
    if args.write_run:
        with writing(trainer.run):
            if args.overwrite and not resume:
                run_folder.clear(trainer.run)
            write_start(trainer)
    return found


def end(trainer: RealmTrainer) -> None:
    """Write everything the run produced."""
    with writing(trainer.run):
        write_results(trainer)


def check_same(trainer: RealmTrainer) -> None:
    """Refuse to resume a run other than the one that the folder holds."""
    path = trainer.run / run_folder.CONFIG
    if not path.exists():
        return
    before, now = read_yaml(path), describe(trainer)
    if not isinstance(before, dict):
        raise RealmError(f"{path} holds no settings: it is damaged, or not the config of a run.")
    for part in ("model", "weights", "settings", "prior", "data", "test"):
        if difference := _difference(part, before.get(part), now.get(part)):
            raise RealmError(f"--resume: {trainer.run} holds a run with {difference}.")


def write_start(trainer: RealmTrainer) -> None:
    """Write `config.yaml`; until its manifest is written again, the run counts as unfinished."""
    (trainer.run / MANIFEST).unlink(missing_ok=True)
    sweep(trainer.run)
    write_yaml(trainer.run / run_folder.CONFIG, describe(trainer))


def _difference(part: str, was: Any, now: Any) -> str | None:
    if isinstance(was, dict) and isinstance(now, dict):
        other = [name for name in now if name not in _LAYOUT and was.get(name) != now[name]]
        return f"{part} {other[0]} = {was.get(other[0])}, not {now[other[0]]}" if other else None
    return None if was == now else f"another {part} ({was}, not {now})"


def write_results(trainer: RealmTrainer) -> None:
    """Everything the run produced; the manifest last, so that a run with a manifest is whole."""
    from realm.crowd.estimate import table as expertise_table
    from realm.crowd.posterior import labels_table
    from realm.runs.spreadsheet import write_csv
    from realm.training.saving import channel_state

    run = trainer.run
    run_folder.replace_folder(run / "model", lambda partial: _write_model(trainer, partial))
    write_json(run / run_folder.SCORER, _asked(trainer))
    if trainer.channel is not None:
        run_folder.write_tensors(run / checkpoints.CHANNEL, **channel_state(trainer.channel))
        trainer._write_trajectory(run)
    log_probs = trainer.scores().log_probs
    run_folder.write_tensors(run / "predictions.safetensors", log_probs=log_probs.astype(np.float32))
    write_table(trainer.annotations, run / "annotations.csv")
    write_json(run / run_folder.ANNOTATORS, list(trainer.annotations.annotators))
    estimate = trainer.estimate()
    trained = {} if trainer.channel is None else trainer.channel.summary()
    said = trainer.probabilities
    write_csv(expertise_table(trainer.annotations, estimate, trained, said), run / "expertise.csv")
    write_csv(labels_table(trainer.annotations, estimate.posterior, said), run / "labels.csv")
    metrics: dict[str, Any] = {
        "history": [
            {k: entry[k] for k in sorted(entry) if not any(part in k for part in _TIMED)}
            for entry in trainer.state.log_history
        ],
        "steps": trainer.state.global_step,
        "warnings": trainer.warnings,
        "probabilities": trainer.probabilities,
        "temperature": trainer.temperature,
    }
    if trainer.test is not None:
        metrics["test"] = evaluate(trainer.test, trainer.test_scores(answer_mass=True))
    write_json(run / "metrics.json", metrics)
    write_manifest(run, skip=("checkpoints", run_folder.REPORT))


def _write_model(trainer: RealmTrainer, folder: Path) -> None:
    scorer = trainer.scorer
    scorer.backbone.config.use_cache = True
    scorer.backbone.save_pretrained(folder)
    scorer.tokenizer.save_pretrained(folder)
    write_text(folder / "README.md", model_card(scorer, trainer.model_name, trainer.args.method))


def _asked(trainer: RealmTrainer) -> dict[str, Any]:
    scorer = trainer.scorer
    return {
        "kind": scorer.kind,
        "style": scorer.style.as_dict(),
        "tasks": [{"name": task.name, "labels": task.labels} for task in scorer.tasks],
        "max_options": int(trainer.annotations.option_counts.max()),
        **scorer.extra_state(),
    }
