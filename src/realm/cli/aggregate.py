"""`realm aggregate`: one label per item from several annotators, without any model."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from realm.cli.flags import takes
from realm.cli.outputs import refuse_input
from realm.cli.screen import note, show_table
from realm.cli.source import Source

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 15
TEXT_WIDTH = 40


@takes(Source)
def aggregate(
    file: Annotated[Path, typer.Argument(metavar="LABELS", help="Table or export with the annotations.")],
    source: Source,
    method: Annotated[
        str, typer.Option(help="`majority`, `weighted-majority`, `dawid-skene`, `one-coin` or `glad`.")
    ] = "dawid-skene",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="CSV to write the labels to; the annotators go to NAME.annotators.csv."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of how ties are broken.")] = 0,
    use_gold: Annotated[
        bool, typer.Option("--use-gold", help="Hold the items with gold to it, and judge the annotators by it.")
    ] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Write cells as they are, even ones a spreadsheet would run.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print labels and annotators as JSON.")] = False,
) -> None:
    """The most probable label of each item, its confidence, and how accurate each annotator is."""
    from realm.crowd.aggregation import aggregate as find_labels
    from realm.runs.spreadsheet import guarded, write_csv

    beside = None if output is None else output.with_name(f"{output.stem}.annotators{output.suffix or '.csv'}")
    for path in (output, beside):
        if path is not None:
            refuse_input(path, file)
    annotations = source.read(file)
    found = find_labels(annotations, method, seed, use_gold=use_gold)
    labels = found.table(annotations).round({"confidence": 6})
    annotators = found.annotators.round({"accuracy": 6, "low": 6, "high": 6})
    if len(annotations.tasks) == 1:
        labels, annotators = labels.drop(columns="task"), annotators.drop(columns="task")
    for warning in [*annotations.ledger.warnings, *found.warnings]:
        note(f"note: {warning}")
    if annotations.gold is not None and not use_gold:
        known = (annotations.gold >= 0) & (found.labels >= 0)
        if known.any():
            share = float((found.labels[known] == annotations.gold[known]).mean())
            note(f"note: {share:.1%} of the {int(known.sum()):,} labels with gold agree with it (it was not used).")

    if output is not None and beside is not None:
        write_csv(labels, output, raw=raw)
        write_csv(annotators, beside, raw=raw)
        note(f"{int((found.labels >= 0).sum()):,} labels in {output}, {len(annotators):,} annotators in {beside}")
    if as_json:
        result = {"method": method, "seed": seed, "used_gold": use_gold, "warnings": found.warnings}
        typer.echo(_json({**result, "labels": _records(labels), "annotators": _records(annotators)}))
    elif sys.stdout.isatty() or output is not None:
        _show(labels, annotators, method)
    else:
        typer.echo((labels if raw else guarded(labels)).to_csv(index=False), nl=False)


def _show(labels: pd.DataFrame, annotators: pd.DataFrame, method: str) -> None:
    first = annotators.sort_values("annotations", ascending=False, kind="stable")
    title = f"Annotators, by {method}" + (f": the {SHOWN} busiest of {len(first):,}" if len(first) > SHOWN else "")
    show_table(title, [str(column) for column in first], first.head(SHOWN).itertuples(index=False, name=None))
    unsure = labels.dropna(subset="confidence").sort_values("confidence", kind="stable").head(SHOWN)
    shown = unsure.drop(columns=["item", "text"])
    shown.insert(0, "text", [_shortened(text) for text in unsure["text"]])
    title = f"The items it is least sure of, of {len(labels):,}" if len(labels) > len(unsure) else "Labels"
    show_table(title, [str(column) for column in shown], shown.itertuples(index=False, name=None))


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= TEXT_WIDTH else line[: TEXT_WIDTH - 1] + "…"


def _records(frame: pd.DataFrame) -> list[Any]:
    return list(frame.astype(object).where(frame.notna(), None).to_dict("records"))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=str)
