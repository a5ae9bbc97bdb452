"""`realm train`: annotations and a model in, a run folder out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from realm.cli.flags import takes
from realm.cli.screen import interactive, note, show_table
from realm.cli.source import Source
from realm.cli.training_flags import Training


@takes(Source, Training)
def train(
    file: Annotated[Path, typer.Argument(metavar="LABELS", help="Table or export with the annotations.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Run folder to write.")],
    source: Source,
    training: Training,
    method: Annotated[
        str, typer.Option(help="`realm`, `noisy`, `majority`, `dawid-skene` or `oracle`.", rich_help_panel="Learning")
    ] = "realm",
    test: Annotated[Path | None, typer.Option(help="Table with gold to evaluate on.")] = None,
    eval_steps: Annotated[int, typer.Option(help="Evaluate on --test every n steps.")] = 0,
    logging_steps: Annotated[int, typer.Option(help="Log the loss and the expertise every n steps.")] = 10,
    save_steps: Annotated[int, typer.Option(help="Checkpoint every n steps (default: every epoch).")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of everything that is random.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --output.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in --output.")] = False,
) -> None:
    """Fine-tune a model on annotations and learn how far each annotator can be trusted."""
    from realm.training.run_folder import check_output

    check_output(output, overwrite=overwrite, resume=resume)
    annotations = source.read(file)
    test_table = None if test is None else source.read(test, need="gold", tasks=annotations.tasks)

    from realm.training import RealmTrainer

    saving = {"save_strategy": "steps", "save_steps": save_steps} if save_steps else {}
    evaluating = {"eval_strategy": "steps", "eval_steps": eval_steps} if eval_steps and test_table is not None else {}
    config = training.config(
        output,
        method=method,
        seed=seed,
        overwrite=overwrite,
        logging_steps=logging_steps,
        disable_tqdm=not interactive(),
        **saving,
        **evaluating,
    )
    trainer = RealmTrainer(training.model, annotations, config, test=test_table)
    for warning in trainer.warnings:
        note(f"note: {warning}")
    quiet_console(trainer)
    try:
        trainer.train(resume_from_checkpoint=resume)
    except KeyboardInterrupt:
        note(f"stopped. Go on with the same command and --resume (checkpoints are in {output / 'checkpoints'}).")
        raise typer.Exit(130) from None
    if trainer.is_world_process_zero():
        _show(trainer, output)


def quiet_console(trainer: object) -> None:
    """Keep `Trainer`'s own dictionaries of figures off the screen; the progress bar and our tables say it better."""
    from transformers.trainer_callback import PrinterCallback

    trainer.remove_callback(PrinterCallback)  # type: ignore[attr-defined]


def _show(trainer: object, output: Path) -> None:
    table = trainer.expertise().sort_values("accuracy", ascending=False)  # type: ignore[attr-defined]
    shown = [name for name in ("annotator", "task", "expertise", "accuracy", "low", "high", "annotations", "verdict")]
    rows = list(table[shown].itertuples(index=False, name=None))
    show_table("How far each annotator can be trusted (in-sample)", shown, rows[:15])
    if len(rows) > 15:
        note(f"{len(rows) - 15} more in {output / 'expertise.csv'}")
    note(f"The run is in {output}: model/, expertise.csv, labels.csv. Next: realm evaluate {output} TEST")
