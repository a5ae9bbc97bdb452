"""`realm predict`: a run's answers for new items."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from realm.cli.flags import takes
from realm.cli.screen import interactive, note
from realm.cli.source import Source


@takes(Source)
def predict(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    file: Annotated[Path, typer.Argument(help="Table with the items to answer.")],
    source: Source,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="CSV to write; default: the screen.")] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Write cells as they are, even ones a spreadsheet would run.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per item.")] = False,
) -> None:
    """The most probable option of each item, with its probability."""
    from realm.training.run_folder import Run

    opened = Run.open(run)
    table = source.read(file, need="items", tasks=opened.tasks)

    from realm.inference.predict import predictions_table, score
    from realm.report.spreadsheet import write_csv

    scorer = opened.scorer()
    scores = score(scorer, scorer.encode(table), progress="Answering" if interactive() else None)
    frame = predictions_table(table, scores)
    if as_json:
        for record in frame.to_dict("records"):
            typer.echo(json.dumps(record, ensure_ascii=False))
    elif output is None:
        typer.echo(frame.to_csv(index=False), nl=False)
    else:
        write_csv(frame, output, raw=raw)
        note(f"{len(frame):,} answers in {output}")
