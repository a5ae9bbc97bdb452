"""`realm train`: annotations and a model in, a run folder out."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from realm.cli.emit import print_json, refuse_inside
from realm.cli.evaluate import show_figures, warn_of_base_rate
from realm.cli.flags import AsJson, LabelsFiles, takes
from realm.cli.models import fetch_named_model
from realm.cli.progress import Progress, logged_to, progress_display
from realm.cli.reading_flags import ReadingFlags
from realm.cli.terminal import listed, note, note_table, show_frame
from realm.cli.training_flags import TrainingFlags
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

    from realm.data import Annotations
    from realm.runs import Run
    from realm.training import RealmTrainer

BEST, WORST = 5, 10
"""Rows of a long table of annotators on the screen: those at the end are the ones to do something about."""


@takes(ReadingFlags, TrainingFlags)
def train(
    files: LabelsFiles,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Run folder to write.")],
    reading: ReadingFlags,
    training: TrainingFlags,
    test: Annotated[Path | None, typer.Option(metavar="FILE", help="Items with gold to test the model on.")] = None,
    gold_items: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Table of item and gold.", hidden=True)
    ] = None,
    save_steps: Annotated[int, typer.Option(metavar="N", help="Write a checkpoint every n steps.", hidden=True)] = 0,
    eval_steps: Annotated[int, typer.Option(metavar="N", help="Also test every n steps.", hidden=True)] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the interrupted run in --output.")] = False,
    as_json: AsJson = False,
) -> None:
    """Fine-tune a model and estimate how reliable each annotator is.

    Writes a run folder: the model, tables and a report.
    """
    from realm.data.gold import read_gold
    from realm.runs.folder import LOG, check_output
    from realm.runs.hub import PushError

    refuse_inside(output, files)
    reads = [*files, test, gold_items, training.model]
    check_output(output, overwrite=training.overwrite and not resume, resume=resume, reads=reads)
    annotations = reading.read(files)
    if gold_items is not None:
        annotations = read_gold(annotations, gold_items)
    test_table = None if test is None else reading.read_test(test, annotations)

    from realm.training import RealmTrainer, processes

    steps: dict[str, Any] = {"save_strategy": "steps", "save_steps": save_steps} if save_steps else {}
    steps |= {"eval_strategy": "steps", "eval_steps": eval_steps} if eval_steps else {}
    config = training.config(output, disable_tqdm=True, **steps)
    fetch_named_model(training.model)
    unpushed: PushError | None = None
    with logged_to(output / LOG, append=resume), progress_display() as progress:
        trainer = RealmTrainer(training.model, annotations, config, test=test_table, progress=progress)
        if trainer.is_world_process_zero():  # the trainer's own warnings are logged, and so shown already
            note_table(annotations)
        _replace_printer(trainer, progress)
        try:
            trainer.train(resume_from_checkpoint=resume)
        except PushError as error:
            unpushed = error
        except KeyboardInterrupt:
            note(f"To continue, give the same command with --resume (checkpoints are in {output / 'checkpoints'}).")
            raise typer.Exit(130) from None
        processes.part()
        if trainer.is_world_process_zero():
            _finish(trainer, annotations, as_json)
    if unpushed is not None:
        raise RealmError(f"{unpushed.what}; push it again: `realm push {output} {training.hub_model_id}`.")


def _replace_printer(trainer: RealmTrainer, progress: Progress) -> None:
    """Show the loss beside the progress and test figures as sentences, in place of Trainer's dictionaries."""
    from transformers.trainer_callback import PrinterCallback, TrainerCallback
    from transformers.utils import logging

    from realm.metrics import METRICS
    from realm.training.trainer import TRAINING

    class Figures(TrainerCallback):  # type: ignore[misc]
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> None:
            if not state.is_world_process_zero or not logs:
                return
            if "loss" in logs:
                progress.remarks[TRAINING] = f"loss {logs['loss']:.4f}"
            if "eval_accuracy" in logs:
                shown = [each for each in METRICS.values() if f"eval_{each.name}" in logs]
                figures = [f"{each.name_in_text} {format(logs[f'eval_{each.name}'], each.format)}" for each in shown]
                note(f"step {state.global_step}, on the test items: {', '.join(figures)}")

    logging.disable_progress_bar()  # of the files that are written at the end
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(Figures())


def _finish(trainer: RealmTrainer, annotations: Annotations, as_json: bool) -> None:
    """Write the report, and show what the run found: warnings first, then annotators, test figures, unused gold."""
    from realm.crowd.against_gold import estimate_against_gold, gold_sentences
    from realm.report.run_page import write_report
    from realm.runs import Run

    run = Run.open(trainer.args.output_dir, verify_model=False)
    against = None if run.gold_used else estimate_against_gold(annotations, run.estimate)
    write_report(run, against_gold=against)
    test = run.metrics.get("test") or {}
    for text in [*(f"warning: {finding}" for finding in run.findings), *trainer.notes]:
        note(text)
    if as_json:
        facts = {"run": str(run.folder), "probabilities": run.probabilities, "warnings": run.metrics["warnings"]}
        facts |= {"findings": run.findings, "notes": list(trainer.notes), "test": test or None}
        facts |= {"expertise": run.expertise, "dropped": annotations.ledger.counts}
        print_json(facts | {"against_gold": None if against is None else asdict(against)})
    else:
        show_annotators(run)
        if test:
            show_figures(test)
    warn_of_base_rate(test)
    if against is not None:
        # on the screen and in the report alone: nothing that is read back depends on gold that was not used
        note("The cleaned labels and estimates against the gold column, which the run did not read:", is_logged=False)
        for sentence in gold_sentences(against):
            note(f"  {sentence}", is_logged=False)
    page = run.folder / "report.html"
    note(f"The run is in {run.folder}: model/, expertise.csv, labels.csv. Open {page} in a browser.")


def show_annotators(run: Run) -> None:
    """The expertise table from the best to the worst, of many both ends, and who has each verdict."""
    from realm.crowd.verdicts import VERDICTS

    table = run.expertise.sort_values("accuracy", ascending=False, kind="stable")
    columns = ["annotator", "task", "accuracy", "low", "high", "expertise", "annotations", "verdict", "scale"]
    columns[2:2] = [name for name in ("group",) if name in table.columns]
    columns += [name for name in ("habit", "notes") if (table[name] != "").any()]
    title, ends = f"How reliable each annotator is ({run.probabilities})", table
    if len(table) > BEST + WORST:
        title += f": the {BEST} best and the {WORST} worst of {len(table):,}; all are in expertise.csv"
        ends = table.iloc[[*range(BEST), *range(len(table) - WORST, len(table))]]
    show_frame(title, ends[columns])
    total = max(int(table["annotations"].sum()), 1)
    for verdict in (each for each in VERDICTS if (table["verdict"] == each).any()):
        rows: pd.DataFrame = table[table["verdict"] == verdict]
        sentence = f"{verdict}: {len(rows):,} ({rows['annotations'].sum() / total:.0%} of the labels)"
        if verdict in VERDICTS[-2:]:  # those to doubt, by name
            by_labels = rows.sort_values(["annotations", "annotator"], ascending=[False, True])
            sentence += f": {listed(list(dict.fromkeys(by_labels['annotator'])))}"
        note(sentence)
