"""`realm predict`: a run's answers for new items."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from realm.cli.flags import Overwrite, Raw, RunFolder, takes
from realm.cli.output_files import check_outputs
from realm.cli.reading_flags import ReadingFlags
from realm.cli.terminal import note, progress_bar
from realm.errors import RealmError


@takes(ReadingFlags)
def predict(
    folder: RunFolder,
    file: Annotated[Path, typer.Argument(help="Table with the items to answer.")],
    reading: ReadingFlags,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="CSV to write; default: the screen.")] = None,
    raw: Raw = False,
    overwrite: Overwrite = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per item.")] = False,
) -> None:
    """The most probable option of each item, with its probability. Files of any length are answered in chunks."""
    from realm.runs import Run

    if output is not None and as_json:
        raise RealmError("--json prints to the screen and --output writes a CSV: give one of the two.")
    check_outputs(output, reads=[file], overwrite=overwrite)
    run = Run.open(folder)
    chunks = reading.stream_items(file, tasks=run.tasks)

    from realm.runs.spreadsheet import csv_in_parts, guarded

    with progress_bar() as progress:
        frames = run.predict_chunks(chunks, progress)
        if output is not None:
            answered = 0
            with csv_in_parts(output, raw=raw) as write:
                for frame in frames:
                    write(frame)
                    answered += len(frame)
            note(f"{answered:,} answers in {output}")
            return
        for index, frame in enumerate(frames):
            if as_json:
                for record in frame.to_dict("records"):
                    typer.echo(json.dumps(record, ensure_ascii=False))
            else:
                typer.echo((frame if raw else guarded(frame)).to_csv(index=False, header=index == 0), nl=False)
