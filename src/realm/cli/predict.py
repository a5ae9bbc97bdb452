"""`realm predict`: a run's answers for new items."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from realm.cli.emit import to_json
from realm.cli.flags import Overwrite, Raw, RunFolder, takes
from realm.cli.output_files import check_outputs
from realm.cli.progress import progress_display
from realm.cli.reading_flags import OF_ANNOTATIONS, OF_GOLD, ReadingFlags
from realm.cli.terminal import note, show_table, write_out
from realm.display import counted
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

    from realm.runs import Run

LINES = (".jsonl", ".ndjson")
"""Endings of files with a JSON object to a line."""
OTHER_TABLES = (".json", ".parquet", ".tsv", ".xlsx", ".xls", ".gz", ".zip", ".feather")
"""Endings that promise something else than what is written."""


@takes(ReadingFlags, without=(*OF_ANNOTATIONS, *OF_GOLD))
def predict(
    folder: RunFolder,
    asked: Annotated[
        list[str], typer.Argument(metavar="FILE|TEXT...", help="Table with the items to predict, or texts in quotes.")
    ],
    reading: ReadingFlags,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="CSV or .jsonl file to write. Default: the screen.")
    ] = None,
    raw: Raw = False,
    overwrite: Overwrite = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per row.")] = False,
) -> None:
    """Predict the label of every row of a table, with its probability, beside the row's own columns; or of texts.

    The table is read by the column names of the training table; flags name others. Large files are read in chunks.
    Of texts, --task is the name of their task, where the run has several.
    """
    from realm.runs import Run
    from realm.runs.predictions import ANSWER, PREFIX

    file = _file(asked, reading)
    if output is not None and as_json:
        raise RealmError("--json prints to the screen and --output writes a file: give one of the two.")
    check_outputs(output, reads=[file], overwrite=overwrite)
    if output is not None and output.suffix.lower() in OTHER_TABLES:
        raise RealmError(f"--output {output}: predictions are written as .csv or .jsonl. Name such a file.")
    run = Run.open(folder)
    if file is None:
        _answer_texts(run, asked, reading.task, output, as_json, raw)
        return
    rows = 0
    with progress_display() as progress, _writer(output, as_json, raw) as write:
        for frame in run.predict_file(file, progress, **reading.arguments()):
            write(frame)
            rows += len(frame)
            progress.count("rows predicted", rows)
    names = list(frame.columns[-len(ANSWER) :])
    if renamed := [name for name in names if name.startswith(PREFIX)]:
        note(f"note: the table has columns of these names already: the predictions are in {', '.join(renamed)}")
    if output is not None:
        note(f"{counted(rows, 'prediction')} in {output}")


def _file(asked: Sequence[str], reading: ReadingFlags) -> Path | None:
    """The one file that is asked for; None where it is texts."""
    from realm.runs.predictions import refuse_file_name

    files = [each for each in asked if os.path.exists(each)]
    if files and len(asked) > 1:
        raise RealmError(f"{files[0]}: give one file alone, or texts: there are {len(asked)} arguments.")
    if files:
        return Path(files[0])
    for text in asked:
        refuse_file_name(text, "texts")
    for name in reading.arguments():
        if name != "task":
            raise RealmError(f"--{name.replace('_', '-')} is for tables, and what is asked is a text: leave it out.")
    return None


def _answer_texts(
    run: Run, texts: Sequence[str], task: str | None, output: Path | None, as_json: bool, raw: bool
) -> None:
    """The answers to texts: on the screen a table, otherwise as those to the rows of a file."""
    import pandas as pd

    from realm.runs.predictions import with_answers

    with progress_display() as progress:
        answers = run.predict(list(texts), task=task, progress=progress)
    if output is None and not as_json:
        columns = {"label": answers["label"], "probability": answers["confidence"], "text": list(texts)}
        show_table("Predictions", list(columns), zip(*columns.values(), strict=True))
        return
    with _writer(output, as_json, raw) as write:
        write(with_answers(pd.DataFrame({"text": list(texts)}), answers))
    if output is not None:
        note(f"{counted(len(texts), 'prediction')} in {output}")


@contextmanager
def _writer(output: Path | None, as_json: bool, raw: bool) -> Iterator[Callable[[pd.DataFrame], None]]:
    """A function that writes frames of answers, one after the other: to the screen, or to a file that is then whole."""
    from realm.files import replacing, writing
    from realm.runs.spreadsheet import csv_in_parts, guarded

    if output is None:
        headers = iter([True])
        if as_json:
            yield lambda frame: write_out("".join(_lines(frame)), end="")
        else:
            yield lambda frame: write_out(
                (_flat(frame) if raw else guarded(_flat(frame))).to_csv(index=False, header=next(headers, False)),
                end="",
            )
    elif output.suffix.lower() in LINES:
        with writing(output, advice=""), replacing(output) as partial, partial.open("w", encoding="utf-8") as lines:
            yield lambda frame: lines.writelines(_lines(frame))
    else:
        with csv_in_parts(output, raw=raw) as write:
            yield lambda frame: write(_flat(frame))


def _lines(frame: pd.DataFrame) -> Iterator[str]:
    """Every row as a JSON object, the probabilities by option."""
    names = list(frame.columns)
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise RealmError(f"the column '{repeated}' appears {names.count(repeated)} times. Rename one, or write a CSV.")
    for row in frame.itertuples(index=False, name=None):
        record = dict(zip(names, row, strict=True)) | {names[-1]: json.loads(row[-1])}
        yield to_json(record) + "\n"


def _flat(frame: pd.DataFrame) -> pd.DataFrame:
    """The same table with lists and objects as JSON text, which a CSV can hold."""
    flat = frame.copy(deep=False)
    for position in range(frame.shape[1]):
        cells = frame.iloc[:, position]
        if any(isinstance(cell, dict | list) for cell in cells):
            flat.isetitem(position, [_cell(cell) for cell in cells])
    return flat


def _cell(cell: Any) -> Any:
    return json.dumps(cell, ensure_ascii=False, default=str) if isinstance(cell, dict | list) else cell
