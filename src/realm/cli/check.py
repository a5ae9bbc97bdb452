"""`realm check`: what is in a table of annotations, what was dropped and why, and which methods apply."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from realm.cli.emit import print_json
from realm.cli.flags import AsJson, LabelsFiles, Overwrite, takes
from realm.cli.output_files import check_outputs
from realm.cli.reading_flags import ReadingFlags, optional_in_test
from realm.cli.terminal import console, note, show_table, write_out
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
        failure = {"usable": False, "error": visible(str(error))}
        print_json(failure, indent=2)
        raise typer.Exit(2) from None
    if as_json:
        print_json(examination.as_dict(), indent=2)
    elif sys.stdout.isatty():
        _show(examination, ", ".join(map(str, files)))
    else:
        write_out("\n".join(lines(examination)))
    if write_label_map is not None:
        _write_label_map(examination, write_label_map)


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
        text_lines += [f"label ({task}): {visible(label)} {count}" for label, count in shares.items()]
    text_lines += [f"{reason}: {count} ({_rows(rows, count, 'rows ')})" for reason, count, rows in _ledger(examination)]
    text_lines += [f"method {method.name}: {method.applies} ({method.why})" for method in examination.methods]
    for finding in examination.findings:
        text_lines.append(f"{finding.level}: {visible(finding.message)} {visible(finding.remedy)}".rstrip())
    return text_lines


def _show(examination: Examination, title: str) -> None:
    """The examination for a terminal."""
    from rich.text import Text

    screen = console()
    show_table(title, ("", ""), _facts(examination))
    for task, shares in examination.label_counts.items():
        total = max(sum(shares.values()), 1)
        rows = [(visible(label), f"{count:,}", f"{count / total:.1%}") for label, count in shares.items()]
        title = "Labels" if len(examination.label_counts) == 1 else f"Labels of {visible(task)}"
        show_table(title, ("label", "given", "share"), rows)
    if ledger := _ledger(examination):
        rows = [(f"{count:,}", reason, _rows(rows, count)) for reason, count, rows in ledger]
        show_table("Dropped or changed on reading", ("count", "reason", "rows"), rows)
    verdicts = [(method.name, method.applies, method.why) for method in examination.methods]
    show_table("Methods", ("method", "applies", "why"), verdicts)
    screen.print(Text("Findings", style="bold"))
    for finding in examination.findings:
        warns = finding.level == "warning"
        mark = ("! ", "bold yellow") if warns else ("- ", "dim")
        screen.print(Text.assemble(mark, visible(finding.message), (f" {visible(finding.remedy)}".rstrip(), "dim")))
    if not examination.findings:
        screen.print(Text("Nothing stands out.", style="green"))


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
        name = f"Krippendorff's alpha ({visible(task)})" if several else "Krippendorff's alpha"
        rows.append((name, "undefined" if alpha is None else f"{alpha:.3f}"))
    if examination.independence is not None:
        rows.append(("independence", str(examination.independence)))
    return rows + examination.time_facts()


def _ledger(examination: Examination) -> list[tuple[str, int, list[str]]]:
    ledger = examination.ledger
    return [(visible(reason), count, ledger.places(reason)) for reason, count in ledger.counts.items()]


def _rows(rows: list[str], count: int, title: str = "") -> str:
    """The first rows of a reason; each has its file where there are several, and needs no title."""
    several_files = any(not row.isdecimal() for row in rows)
    separator, title = ("; ", "") if several_files else (", ", title)
    return visible(title + separator.join(rows[:NAMED]) + f"{separator}..." * (count > NAMED))
