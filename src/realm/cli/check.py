"""`realm check`: what is in a table of annotations, what was dropped and why, and which methods apply."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from realm.cli.flags import AsJson, LabelsFiles, Overwrite, takes
from realm.cli.messages import with_flags
from realm.cli.output_files import check_outputs
from realm.cli.reading_flags import ReadingFlags, optional_in_test
from realm.cli.terminal import console, note, write_json_out, write_out
from realm.display import counted
from realm.errors import RealmError
from realm.report.escaping import visible

if TYPE_CHECKING:
    from realm.check import Examination
    from realm.data import Annotations, Items

NAMED = 8
"""Rows that are named for each reason: enough to look at some, on one line."""


@takes(ReadingFlags)
def check(
    files: LabelsFiles,
    reading: ReadingFlags,
    test: Annotated[
        Path | None, typer.Option("--test", help="Test table, to compare its labels and texts with the table's.")
    ] = None,
    write_label_map: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write labels that look alike to a CSV, to be edited and given as --map-labels."
        ),
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Say what a table of annotations is worth, before any training. Exit code 2: it cannot be used as it is."""
    from realm.check import examine

    reads = [*files, test, *reading.files()]
    check_outputs(write_label_map, reads=reads, overwrite=overwrite, flag="--write-label-map")
    try:
        annotations = reading.read(files, keep_rows=True)
        examination = examine(annotations, None if test is None else _read_test(reading, test, annotations))
    except RealmError as error:
        if not as_json:
            raise
        failure = {"usable": False, "error": visible(with_flags(str(error)))}
        write_json_out(failure, indent=2)
        raise typer.Exit(2) from None
    if as_json:
        write_json_out(_with_flags(examination.as_dict()), indent=2)
    elif sys.stdout.isatty():
        _show(examination, ", ".join(map(str, files)))
    else:
        write_out("\n".join(lines(examination)))
    if write_label_map is not None:
        _write_label_map(examination, write_label_map)


def _with_flags(told: dict[str, Any]) -> dict[str, Any]:
    """The examination as JSON, with flags in place of arguments in what it says."""
    for finding in told["findings"]:
        finding |= {name: with_flags(finding[name]) for name in ("message", "remedy")}
    return {**told, "warnings": [with_flags(warning) for warning in told["warnings"]]}


def _read_test(reading: ReadingFlags, test: Path, annotations: Annotations) -> Annotations | Items:
    """The test table, or its items where it has no gold; its format is its own, all else as for the table."""
    names = ("text", "item", "task", "options", "context", "gold", "map_labels", "unanswered", "encoding")
    names += ("label_form", "exact_labels", *(("threshold", "labels") if reading.threshold is not None else ()))
    own = ReadingFlags(**{name: getattr(reading, name) for name in names})
    optional = optional_in_test(annotations)
    try:
        return own.read_test(test, optional=optional)
    except RealmError as error:
        items = replace(own, gold=None).read_items(test, optional)
        note(f"note: the labels of the test table are not compared with the table's: {error}")
        return items


def _write_label_map(examination: Examination, path: Path) -> None:
    """Each spelling of labels that look alike, and the one that was given most often."""
    import pandas as pd

    from realm.runs.spreadsheet import write_csv

    if not (entries := examination.label_map()):
        note("No labels look alike: no label map was written.")
        return
    write_csv(pd.DataFrame(entries.items(), columns=["from", "to"]), path, raw=True)
    note(f"{counted(len(entries), 'spelling')} in {path}: check the column to, and give it as --map-labels {path}")


def lines(examination: Examination) -> list[str]:
    """The examination for a pipe: one fact per line, no colour, no boxes."""
    text_lines = [f"{name}: {value}" for name, value in _facts(examination)]
    for task, shares in examination.label_counts.items():
        text_lines += [f"label ({task}): {_clean(label)} {count}" for label, count in shares.items()]
    text_lines += [f"{reason}: {count} ({_rows(rows, count, 'rows ')})" for reason, count, rows in _ledger(examination)]
    text_lines += [f"method {method.name}: {method.applies} ({method.why})" for method in examination.methods]
    for finding in examination.findings:
        text_lines.append(f"{finding.level}: {_finding(finding.message)} {_finding(finding.remedy)}".rstrip())
    return text_lines


def _show(examination: Examination, title: str) -> None:
    """The examination for a terminal."""
    from rich.text import Text

    screen = console()
    _grid(_clean(title), (), "lr", _facts(examination))
    for task, shares in examination.label_counts.items():
        total = max(sum(shares.values()), 1)
        rows = [(_clean(label), f"{count:,}", f"{count / total:.1%}") for label, count in shares.items()]
        title = "Labels" if len(examination.label_counts) == 1 else f"Labels of {_clean(task)}"
        _grid(title, ("label", "given", "share"), "lrr", rows)
    if ledger := _ledger(examination):
        rows = [(reason, f"{count:,}", _rows(rows, count)) for reason, count, rows in ledger]
        _grid("Dropped or changed on reading", ("reason", "count", "rows"), "lrl", rows)
    verdicts = [(method.name, method.applies, method.why) for method in examination.methods]
    _grid("Methods", ("method", "applies", "why"), "lll", verdicts)
    screen.print(Text("Findings", style="bold"))
    for finding in examination.findings:
        warns = finding.level == "warning"
        mark = ("! ", "bold yellow") if warns else ("- ", "dim")
        screen.print(Text.assemble(mark, _finding(finding.message), (f" {_finding(finding.remedy)}".rstrip(), "dim")))
    if not examination.findings:
        screen.print(Text("Nothing stands out.", style="green"))


def _grid(title: str, header: Sequence[str], sides: str, rows: Iterable[Sequence[str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    screen = console()
    table = Table(box=None, show_header=bool(header), header_style="dim", pad_edge=False, padding=(0, 3, 0, 0))
    for index, side in enumerate(sides):
        justify: Literal["left", "right"] = "right" if side == "r" else "left"
        table.add_column(header[index] if header else "", justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    screen.print(Text(title, style="bold"))
    screen.print(table)
    screen.print()


def _facts(examination: Examination) -> list[tuple[str, str]]:
    facts = examination.summary
    rows = [] if examination.ledger.format is None else [("format", examination.ledger.format)]
    rows += [(name, f"{facts[name]:,}") for name in ("items", "annotators", "annotations")]
    rows.append(("tasks", f"{len(facts['tasks']):,}"))
    for name in ("annotations_per_item", "annotations_per_annotator"):
        least, most, median, mean = (facts[name][key] for key in ("min", "max", "median", "mean"))
        rows.append((name.replace("_", " "), f"{least:,} to {most:,}, median {median:g}, mean {mean:.1f}"))
    rows.append(("items with gold", f"{facts['items_with_gold']:,}"))
    rows.append(("connected groups", f"{len(examination.groups):,}"))
    several = len(examination.alpha) > 1
    for task, alpha in examination.alpha.items():
        name = f"Krippendorff's alpha ({_clean(task)})" if several else "Krippendorff's alpha"
        rows.append((name, "undefined" if alpha is None else f"{alpha:.3f}"))
    if examination.independence is not None:
        rows.append(("independence", str(examination.independence)))
    return rows + examination.time_facts()


def _ledger(examination: Examination) -> list[tuple[str, int, list[str]]]:
    ledger = examination.ledger
    return [(_clean(reason), count, ledger.places(reason)) for reason, count in ledger.counts.items()]


def _rows(rows: list[str], count: int, title: str = "") -> str:
    """The first rows of a reason; each has its file where there are several, and needs no title."""
    several_files = any(not row.isdecimal() for row in rows)
    separator, title = ("; ", "") if several_files else (", ", title)
    return _clean(title + separator.join(rows[:NAMED]) + f"{separator}..." * (count > NAMED))


def _finding(text: str) -> str:
    """What the library says of a table, its arguments as flags."""
    return _clean(with_flags(text))


def _clean(text: str) -> str:
    """Text from the data as a terminal may show it: nothing that moves the cursor or changes colours."""
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text)
