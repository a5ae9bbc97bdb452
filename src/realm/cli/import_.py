"""`realm import`: an annotation tool's export as the canonical table, so that it is read once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from realm.cli.flags import Overwrite, takes
from realm.cli.output_files import check_outputs, note_labels
from realm.cli.reading_flags import ReadingFlags
from realm.cli.terminal import note, note_ledger
from realm.display import counted
from realm.errors import RealmError


@takes(ReadingFlags)
def import_(
    exports: Annotated[
        list[Path],
        typer.Argument(metavar="EXPORT", help="The export, or any table of annotations; several are one table."),
    ],
    reading: ReadingFlags,
    output: Annotated[Path, typer.Option("--output", "-o", help="Table to write: .csv or .parquet.")],
    pseudonymise: Annotated[
        bool, typer.Option("--pseudonymise", help="Replace the annotators' names by keyed hashes.")
    ] = False,
    key_file: Annotated[
        Path | None,
        typer.Option("--key-file", help="Key of the hashes; made if absent. Without it, the key is forgotten."),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Write the canonical table of an export: item, task, text, annotator, label, gold, and nothing else."""
    from realm.data.pseudonyms import pseudonymise as with_hashes
    from realm.data.pseudonyms import read_key
    from realm.data.write import write_table

    if key_file is not None and not pseudonymise:
        raise RealmError("--key-file is for --pseudonymise: give both or neither.")
    check_outputs(output, reads=[*exports, key_file, *reading.files()], overwrite=overwrite)
    annotations = reading.read(exports)
    names = annotations.annotators
    if pseudonymise:
        annotations = with_hashes(annotations, read_key(key_file))
    write_table(annotations, output)
    note_ledger(annotations.ledger)
    if not pseudonymise and any("@" in name for name in names):
        note("Annotators are named by e-mail addresses: --pseudonymise leaves the names behind.")
    note_labels(annotations)
    note(f"{counted(annotations.n_annotations, 'annotation')} of {counted(annotations.n_items, 'item')} in {output}")
