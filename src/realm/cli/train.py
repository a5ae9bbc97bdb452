"""`realm train`: annotations and a model in, a run folder out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from realm.cli.evaluate import show_test
from realm.cli.flags import LabelsFiles, takes
from realm.cli.models import fetch_named_model
from realm.cli.output_files import refuse_inside
from realm.cli.reading_flags import ReadingFlags
from realm.cli.terminal import ROWS, interactive, note, progress_bar, show_frame
from realm.cli.training_flags import TrainingFlags
from realm.errors import RealmError
from realm.training.settings import LEARNING

if TYPE_CHECKING:
    import pandas as pd

    from realm.data import Annotations
    from realm.runs import Run


@takes(ReadingFlags, TrainingFlags)
def train(
    files: LabelsFiles,
    output: Annotated[Path, typer.Option("--output", "-o", help="Run folder to write.")],
    reading: ReadingFlags,
    training: TrainingFlags,
    test: Annotated[Path | None, typer.Option(help="Table with gold to evaluate on.")] = None,
    eval_steps: Annotated[int, typer.Option(help="Evaluate on --test every n steps.")] = 0,
    save_steps: Annotated[int, typer.Option(help="Checkpoint every n steps (default: every epoch).")] = 0,
    gold_items: Annotated[
        Path | None, typer.Option(help="Table of item, [task,] gold, for --use-gold.", rich_help_panel=LEARNING)
    ] = None,
    report_to: Annotated[
        list[str] | None, typer.Option(help="Also log to tensorboard, wandb or trackio; may be repeated.")
    ] = None,
    start_from: Annotated[
        Path | None,
        typer.Option(
            "--from", help="Folder of an earlier run to go on from: its model, its settings, and what it knows."
        ),
    ] = None,
    prior: Annotated[
        Path | None,
        typer.Option(help="Folder of an earlier run whose estimate is carried in.", rich_help_panel=LEARNING),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --output.")] = False,
) -> None:
    """Fine-tune a model on annotations and learn how far each annotator can be trusted."""
    from realm.data.alignment import aligned
    from realm.runs.folder import check_output

    if eval_steps and test is None:
        raise RealmError("--eval-steps evaluates on the table of --test: give --test too.")
    refuse_inside(output, files)
    check_output(output, overwrite=training.overwrite, resume=resume)
    earlier_run = None if start_from is None else _open_earlier(start_from, output)
    if earlier_run is None:
        if "replay" in training.typed:
            raise RealmError("--replay is for going on from an earlier run: give --from too.")
        annotations = reading.read(files)
    else:
        training.take_over(earlier_run)
        known = earlier_run.annotations
        annotations = reading.read(files, trained=earlier_run.trained_columns)
        annotations = aligned(annotations, known.tasks, known.annotators, str(earlier_run.folder), known.groups)
    if gold_items is not None:
        if not training.use_gold:
            raise RealmError("--gold-items is read only under --use-gold; add it.")
        from realm.data.gold import read_gold

        annotations = read_gold(annotations, gold_items)
    test_table = None if test is None else reading.read_test(test, tasks=annotations.tasks)

    from transformers.trainer_callback import PrinterCallback

    from realm.runs.hub import PushError
    from realm.training import RealmTrainer

    steps: dict[str, Any] = {"save_strategy": "steps", "save_steps": save_steps} if save_steps else {}
    steps |= {"eval_strategy": "steps", "eval_steps": eval_steps} if eval_steps else {}
    steps |= {"report_to": report_to} if report_to else {}
    config = training.config(output, disable_tqdm=not interactive(), **steps)
    earlier = None if prior is None else read_prior(prior)
    unpushed: PushError | None = None
    if earlier_run is None:
        fetch_named_model(training.model)
    with progress_bar() as progress:
        model = training.model if earlier_run is None else earlier_run
        trainer = RealmTrainer(model, annotations, config, test=test_table, prior=earlier, progress=progress)
        for warning in trainer.warnings if trainer.is_world_process_zero() else []:
            note(f"note: {warning}")
        trainer.remove_callback(PrinterCallback)  # the progress bar and our tables take the place of its dictionaries
        try:
            trainer.train(resume_from_checkpoint=resume)
        except PushError as error:
            unpushed = error
        except KeyboardInterrupt:
            note(f"Go on with the same command and --resume (checkpoints are in {output / 'checkpoints'}).")
            raise typer.Exit(130) from None
    if trainer.is_world_process_zero():
        from realm.report.run_page import write_report
        from realm.runs import Run

        run = Run.open(output, verify_model=False)
        for text in run.findings:
            note(f"warning: {text}")
        for text in trainer.notes:
            note(text)
        write_report(run)
        _show(run)
        for text in run.changes.sentences() if run.changes else ():
            note(text)
        show_test(run.metrics)
        _show_against_gold(run, annotations)
        if training.hub_model_id is not None and unpushed is None:
            note(f"The model is on the Hugging Face hub: {training.hub_model_id}")
    if unpushed is not None:
        again = f"realm push hub {output} --id {training.hub_model_id}"
        raise RealmError(f"{unpushed.what}; push it again: `{again}`.")


def _open_earlier(path: Path, output: Path) -> Run:
    """The run to go on from, which must not be the one that is written."""
    from realm.runs import Run

    if path.resolve() == output.resolve():
        raise RealmError(f"--from {path}: it is also the --output. Name another folder, so that both can be compared.")
    try:
        return Run.open(path)
    except RealmError as error:
        raise RealmError(f"--from: {error}") from None


def read_prior(path: Path) -> pd.DataFrame:
    """The expertise table of an earlier run."""
    from realm.runs import Run

    if path.is_file():
        raise RealmError(f"--prior {path}: a file. Give the folder of an earlier run: its CSV files are for people.")
    try:
        return Run.open(path, verify_model=False).expertise
    except RealmError as error:
        raise RealmError(f"--prior: {error}") from None


def _show_against_gold(run: Run, annotations: Annotations) -> None:
    """How labels and estimates did against gold that the table has and the run did not read.

    On the screen alone: nothing in the run folder depends on gold that was not used.
    """
    from realm.crowd.against_gold import estimate_against_gold

    if run.gold_used or (comparison := estimate_against_gold(annotations, run.estimate)) is None:
        return
    note("The cleaned labels and estimates against the gold column (on the screen only; no file holds it):")
    for sentence in comparison.sentences():
        note(f"  {sentence}")


def _show(run: Run) -> None:
    """The expertise table of the run, as it was written."""
    table = run.expertise.sort_values("accuracy", ascending=False)
    columns = ["annotator", "task", "expertise", "accuracy", "low", "high", "annotations", "verdict", "scale"]
    columns[2:2] = [name for name in ("group",) if name in table.columns]
    columns += [name for name in ("habit", "notes") if (table[name] != "").any()]
    show_frame(f"How far each annotator can be trusted ({run.probabilities})", table[columns].head(ROWS))
    if len(table) > ROWS:
        note(f"{len(table) - ROWS} more in {run.folder / 'expertise.csv'}")
    page = run.folder / "report.html"
    note(f"The run is in {run.folder}: model/, expertise.csv, labels.csv. Open {page} in a browser.")
