"""`realm predict`: a run's answers for new items."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from realm.cli.emit import check_outputs, to_json
from realm.cli.flags import Output, Overwrite, Raw, RunFolder, takes
from realm.cli.progress import progress_display
from realm.cli.reading_flags import OF_ANNOTATIONS, OF_GOLD, ReadingFlags
from realm.cli.terminal import note, show_frame, write_out
from realm.display import counted
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd


@takes(ReadingFlags, without=(*OF_ANNOTATIONS, *OF_GOLD))
def predict(
    folder: RunFolder,
    asked: Annotated[list[str], typer.Argument(metavar="TABLE|TEXT...", help="Table to predict, or texts in quotes.")],
    reading: ReadingFlags,
    output: Output = None,
    raw: Raw = False,
    overwrite: Overwrite = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per row.")] = False,
) -> None:
    """Predict the labels of a table's rows, or of texts.

    Each row of a table keeps its own columns; --output names a .csv or a .jsonl. Columns are those of the training
    table unless flags name others; of texts, --task names the task where the run has several.
    """
    import pandas as pd

    from realm.runs import Run
    from realm.runs.predictions import ANSWER, PREFIX, refuse_file_name, with_answers

    files = [each for each in asked if os.path.exists(each)]
    if files and len(asked) > 1:
        raise RealmError(f"{files[0]}: give one file alone, or texts: there are {len(asked)} arguments.")
    if not files:
        for text in asked:
            refuse_file_name(text, "texts")
    if output is not None and as_json:
        raise RealmError("--json prints to the screen and --output writes a file: give one of the two.")
    check_outputs(output, reads=[Path(file) for file in files], overwrite=overwrite)
    if output is not None and output.suffix.lower() not in (".csv", ".jsonl", ".ndjson"):
        raise RealmError(f"--output {output}: predictions are written as .csv or .jsonl. Name such a file.")
    if not files and (extra := [name for name in reading.arguments() if name != "task"]):
        raise RealmError(f"`{extra[0]}` is for tables, and what is asked is a text: leave it out.")
    run = Run.open(folder)
    rows = 0
    with progress_display() as progress, _writer(output, as_json, raw, bool(files)) as write:
        if files:
            frames = run.predict_file(Path(files[0]), progress, **reading.arguments())
        else:
            answers = run.predict(asked, task=reading.task, progress=progress)
            frames = iter([with_answers(pd.DataFrame({"text": asked}), answers)])
        for frame in frames:
            write(frame)
            rows += len(frame)
            progress("rows predicted", rows, None)
    names = list(frame.columns[-len(ANSWER) :])
    if renamed := [name for name in names if name.startswith(PREFIX)]:
        note(f"note: the table has columns of these names already: the predictions are in {', '.join(renamed)}")
    if output is not None:
        note(f"{counted(rows, 'prediction')} in {output}")


@contextmanager
def _writer(output: Path | None, as_json: bool, raw: bool, is_table: bool) -> Iterator[Callable[[pd.DataFrame], None]]:
    """A function that writes frames of answers, one after the other: to the screen, or to a file that is then whole."""
    from realm.files import replacing, writing
    from realm.runs.spreadsheet import csv_in_parts, guarded

    if output is not None and output.suffix.lower() == ".csv":
        with csv_in_parts(output, raw=raw) as write:
            yield lambda frame: write(_flat(frame))
    elif output is not None:
        with writing(output, advice=""), replacing(output) as partial, partial.open("w", encoding="utf-8") as file:
            yield lambda frame: file.writelines(_lines(frame))
    elif as_json:
        yield lambda frame: write_out("".join(_lines(frame)), end="")
    elif not is_table:
        yield lambda frame: show_frame("Predictions", frame[["label", "confidence", "text"]])
    else:
        headers = iter([True])

        def print_csv(frame: pd.DataFrame) -> None:
            part = _flat(frame) if raw else guarded(_flat(frame))
            write_out(part.to_csv(index=False, header=next(headers, False)), end="")

        yield print_csv


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

    def cell(value: Any) -> Any:
        return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, dict | list) else value

    flat = frame.copy(deep=False)
    for position in range(frame.shape[1]):
        cells = frame.iloc[:, position]
        if any(isinstance(value, dict | list) for value in cells):
            flat.isetitem(position, [cell(value) for value in cells])
    return flat
