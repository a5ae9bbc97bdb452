"""`realm aggregate`: one label per item from several annotators, without any model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from realm.cli.emit import beside, check_outputs, emit
from realm.cli.flags import LabelsFiles, Output, Overwrite, Raw, Seed, takes
from realm.cli.progress import progress_display
from realm.cli.reading_flags import ReadingFlags
from realm.cli.terminal import ROWS, note, note_ledger, show_frame

if TYPE_CHECKING:
    import pandas as pd


@takes(ReadingFlags)
def aggregate(
    files: LabelsFiles,
    reading: ReadingFlags,
    output: Output = None,
    method: Annotated[
        str, typer.Option(metavar="TEXT", help="realm, majority, dawid-skene, one-coin or mace.")
    ] = "realm",
    use_gold: Annotated[bool, typer.Option("--use-gold", help="Take the gold labels for true.")] = False,
    judges: Annotated[bool, typer.Option("--judges", help="The annotators are language models.")] = False,
    seed: Seed = 0,
    raw: Raw = False,
    overwrite: Overwrite = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print labels and annotators as JSON.")] = False,
) -> None:
    """Estimate true labels and annotators' accuracies, without a model.

    With --output, NAME.annotators.csv has the annotators.
    """
    from realm.crowd.against_gold import aggregate_against_gold, gold_sentences
    from realm.crowd.aggregation import aggregate as aggregate_labels

    second = beside(output, "annotators")
    check_outputs(output, second, reads=[*files, *reading.files()], overwrite=overwrite)
    annotations = reading.read(files)
    kind = "models" if judges else None
    with progress_display() as progress:
        result = aggregate_labels(annotations, method, seed, use_gold=use_gold, kind=kind, progress=progress)
    labels = result.table(annotations).round({"confidence": 6})
    annotators = result.annotators.round({"accuracy": 6, "low": 6, "high": 6})
    if len(annotations.tasks) == 1:
        labels, annotators = labels.drop(columns="task"), annotators.drop(columns="task")
    note_ledger(annotations.ledger)
    for warning in result.warnings:
        note(f"note: {warning}")
    if not use_gold and (comparison := aggregate_against_gold(annotations, result)) is not None:
        for sentence in gold_sentences(comparison):
            note(f"note: {sentence}")
    figures = {"method": method, "seed": seed, "used_gold": use_gold, "warnings": result.warnings}
    figures |= {"labels": labels, "annotators": annotators}
    outputs = {output: labels, second: annotators}
    emit(labels, lambda: _show(labels, annotators, method), outputs, figures, as_json=as_json, raw=raw)


def _show(labels: pd.DataFrame, annotators: pd.DataFrame, method: str) -> None:
    busiest = annotators.sort_values("annotations", ascending=False, kind="stable")
    more = f": the {ROWS} with most annotations of {len(busiest):,}" if len(busiest) > ROWS else ""
    show_frame(f"Annotators, by {method}{more}", busiest.head(ROWS))
    unsure = labels.dropna(subset="confidence").sort_values("confidence", kind="stable").head(ROWS)
    title = f"The least certain of {len(labels):,} labels" if len(labels) > len(unsure) else "Labels"
    show_frame(title, unsure[["text", *unsure.columns.drop(["item", "text"])]])
