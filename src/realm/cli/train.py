"""`realm train`: annotations and a model in, a run folder out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from realm.cli.emit import print_json
from realm.cli.evaluate import show_test, warn_of_base_rate
from realm.cli.flags import AsJson, LabelsFiles, takes
from realm.cli.models import fetch_named_model
from realm.cli.output_files import refuse_inside
from realm.cli.progress import Display, logged_to, progress_display
from realm.cli.reading_flags import ReadingFlags, optional_in_test
from realm.cli.terminal import note, note_table, show_frame
from realm.cli.training_flags import TrainingFlags
from realm.errors import RealmError
from realm.training.settings import LEARNING

if TYPE_CHECKING:
    import pandas as pd

    from realm.crowd.against_gold import AgainstGold
    from realm.data import Annotations
    from realm.runs import Run
    from realm.training import RealmTrainer

BEST, WORST = 5, 10
"""Rows of a long table of annotators on the screen: those at the end are the ones to do something about."""
NAMED = 20
"""Most annotators to doubt whose names are said: two lines."""


@takes(ReadingFlags, TrainingFlags)
def train(
    files: LabelsFiles,
    output: Annotated[Path, typer.Option("--output", "-o", help="Run folder to write: model, tables, report.")],
    reading: ReadingFlags,
    training: TrainingFlags,
    test: Annotated[Path | None, typer.Option(help="Table of items with gold to test the model on.")] = None,
    eval_steps: Annotated[int, typer.Option(help="Also test on --test every n steps. Default: at the end only.")] = 0,
    save_steps: Annotated[int, typer.Option(help="Write a checkpoint every n steps. Default: every epoch.")] = 0,
    gold_items: Annotated[
        Path | None,
        typer.Option(
            help="Table of item, [task,] gold for --use-gold, in place of a gold column.", rich_help_panel=LEARNING
        ),
    ] = None,
    report_to: Annotated[
        list[str] | None, typer.Option(help="Also log to tensorboard, wandb or trackio; may be repeated.")
    ] = None,
    prior: Annotated[
        Path | None,
        typer.Option(
            help="Folder of an earlier run whose estimates of the annotators are the prior.", rich_help_panel=LEARNING
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the interrupted run in --output from its last checkpoint.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Fine-tune a model on annotations and estimate how reliable each annotator is.

    Writes a run folder: the model, the annotators' reliability, the cleaned labels and a report.
    """
    from realm.runs.folder import check_output

    if eval_steps and test is None:
        raise RealmError("--eval-steps evaluates on the table of --test: give --test too.")
    refuse_inside(output, files)
    reads = [*files, test, prior, gold_items, training.model]
    check_output(output, overwrite=training.overwrite and not resume, resume=resume, reads=reads)
    annotations = reading.read(files)
    if gold_items is not None:
        if not training.use_gold:
            raise RealmError("--gold-items needs --use-gold: add it.")
        from realm.data.gold import read_gold

        annotations = read_gold(annotations, gold_items)
    test_table = None
    if test is not None:
        optional = optional_in_test(annotations)
        test_table = reading.read_test(test, tasks=annotations.tasks, optional=optional)

    from realm.runs.folder import LOG
    from realm.runs.hub import PushError
    from realm.training import RealmTrainer, processes

    steps: dict[str, Any] = {"save_strategy": "steps", "save_steps": save_steps} if save_steps else {}
    steps |= {"eval_strategy": "steps", "eval_steps": eval_steps} if eval_steps else {}
    steps |= {"report_to": report_to} if report_to else {}
    config = training.config(output, disable_tqdm=True, **steps)
    earlier = None if prior is None else read_prior(prior)
    unpushed: PushError | None = None
    fetch_named_model(training.model)
    with logged_to(output / LOG, append=resume), progress_display() as display:
        trainer = RealmTrainer(training.model, annotations, config, test=test_table, prior=earlier, progress=display)
        if trainer.is_world_process_zero():  # the trainer's own warnings are logged, and so shown already
            note_table(annotations)
        _replace_printer(trainer, display)
        try:
            trainer.train(resume_from_checkpoint=resume)
        except PushError as error:
            unpushed = error
        except KeyboardInterrupt:
            note(f"To continue, give the same command with --resume (checkpoints are in {output / 'checkpoints'}).")
            raise typer.Exit(130) from None
        processes.part()
        if trainer.is_world_process_zero():
            from realm.crowd.against_gold import estimate_against_gold
            from realm.report.run_page import write_report
            from realm.runs import Run

            run = Run.open(output, verify_model=False)
            against = None if run.gold_used else estimate_against_gold(annotations, run.estimate)
            write_report(run, against_gold=against)
            _show(run, annotations, trainer.notes, against, as_json)
            if training.hub_model_id is not None and unpushed is None:
                note(f"The model is on the Hugging Face hub: {training.hub_model_id}")
    if unpushed is not None:
        again = f"realm push hub {output} --id {training.hub_model_id}"
        raise RealmError(f"{unpushed.what}; push it again: `{again}`.")


def _replace_printer(trainer: RealmTrainer, display: Display) -> None:
    """Show the loss beside the progress and test figures as sentences, in place of Trainer's dictionaries."""
    from transformers.trainer_callback import PrinterCallback, TrainerCallback
    from transformers.utils import logging

    from realm.training.trainer import TRAINING

    class Figures(TrainerCallback):  # type: ignore[misc]
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> None:
            if not state.is_world_process_zero or not logs:
                return
            if "loss" in logs:
                display.remark(TRAINING, f"loss {logs['loss']:.4f}")
            if "eval_accuracy" in logs:
                note(f"step {state.global_step}, on the test items: {_test_figures(logs)}")

    logging.disable_progress_bar()  # of the files that are written at the end
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(Figures())


def _test_figures(logs: Mapping[str, float]) -> str:
    """The figures of one evaluation during training, accuracy beside the base rate first."""
    from realm.metrics import METRICS

    first = [name for name in ("accuracy", "base_rate") if f"eval_{name}" in logs]
    names = [*first, *(name for name in METRICS if name not in first and f"eval_{name}" in logs)]
    return ", ".join(f"{METRICS[n].name_in_text} {format(logs[f'eval_{n}'], METRICS[n].format)}" for n in names)


def read_prior(path: Path) -> pd.DataFrame:
    """The expertise table of an earlier run."""
    from realm.runs import Run

    if path.is_file():
        raise RealmError(f"--prior {path}: a file. Give the folder of an earlier run: its CSV files are for people.")
    try:
        return Run.open(path, verify_model=False).expertise
    except RealmError as error:
        raise RealmError(f"--prior: {error}") from None


def _show(run: Run, annotations: Annotations, notes: Sequence[str], against: AgainstGold | None, as_json: bool) -> None:
    """What the run found: warnings first, then annotators, changes since an earlier run, test figures, unused gold."""
    from realm.crowd.against_gold import gold_sentences

    for text in run.findings:
        note(f"warning: {text}")
    for text in notes:
        note(text)
    if as_json:
        entries: dict[str, Any] = {"run": str(run.folder), "probabilities": run.probabilities}
        entries |= {"warnings": run.metrics["warnings"], "findings": run.findings, "notes": list(notes)}
        entries |= {"test": run.metrics.get("test"), "expertise": run.expertise}
        entries |= {"dropped": annotations.ledger.counts}
        entries |= {"against_gold": None if against is None else asdict(against)}
        print_json(entries)
    else:
        show_annotators(run.expertise, run.probabilities)
    if as_json:
        warn_of_base_rate(run.metrics.get("test") or {})
    else:
        show_test(run.metrics)
    if against is not None:
        # on the screen and in the report alone: nothing that is read back depends on gold that was not used
        title = "The cleaned labels and estimates against the gold column, which the run did not read:"
        for sentence in (title, *(f"  {each}" for each in gold_sentences(against))):
            note(sentence, is_logged=False)
    page = run.folder / "report.html"
    note(f"The run is in {run.folder}: model/, expertise.csv, labels.csv. Open {page} in a browser.")


def show_annotators(expertise: pd.DataFrame, probabilities: str) -> None:
    """The expertise table from the best to the worst, of many both ends, and how many there are of each verdict."""
    table = expertise.sort_values("accuracy", ascending=False, kind="stable")
    columns = ["annotator", "task", "accuracy", "low", "high", "expertise", "annotations", "verdict", "scale"]
    columns[2:2] = [name for name in ("group",) if name in table.columns]
    columns += [name for name in ("habit", "notes") if (table[name] != "").any()]
    title = f"How reliable each annotator is ({probabilities})"
    if len(table) > BEST + WORST:
        title += f": the {BEST} best and the {WORST} worst of {len(table):,}; all are in expertise.csv"
        table = table.iloc[[*range(BEST), *range(len(table) - WORST, len(table))]]
    show_frame(title, table[columns])
    for sentence in verdict_counts(expertise):
        note(sentence)


def verdict_counts(table: pd.DataFrame) -> list[str]:
    """How many annotators have each verdict and what share of the labels they gave; those to doubt by name."""
    from realm.crowd.verdicts import VERDICTS

    counts, total = table["verdict"].value_counts(), max(int(table["annotations"].sum()), 1)
    sentences = []
    for verdict in (each for each in VERDICTS if each in counts):
        rows = table[table["verdict"] == verdict]
        sentence = f"{verdict}: {len(rows):,} ({rows['annotations'].sum() / total:.0%} of the labels)"
        if verdict in VERDICTS[-2:]:
            by_labels = rows.sort_values(["annotations", "annotator"], ascending=[False, True])
            names = list(dict.fromkeys(by_labels["annotator"]))
            sentence += f": {', '.join(names[:NAMED])}" + (", ..." if len(names) > NAMED else "")
        sentences.append(sentence)
    return sentences
