"""`realm check`: what is in a table of annotations, what is wrong with it, and the command line that mends it."""

from __future__ import annotations

import json
import re
import secrets
import shlex
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from realm.cli.emit import check_outputs, print_json, write_annotations
from realm.cli.flags import AsJson, LabelsFiles, Overwrite, takes
from realm.cli.reading_flags import ReadingFlags, optional_in_test
from realm.cli.terminal import console, listed, note
from realm.display import visible
from realm.errors import RealmError

if TYPE_CHECKING:
    from realm.check import Examination
    from realm.data import Annotations, Items

MOST_FAULTS = 8
"""After so many a table is given up: each takes reading it once more."""
REMEDY = re.compile(r'`(\w+)="([^"`]+)"`')
"""The argument that an error names as what mends it."""


@takes(ReadingFlags)
def check(
    files: LabelsFiles,
    reading: ReadingFlags,
    test: Annotated[Path | None, typer.Option(metavar="FILE", help="Test table, to compare with the table.")] = None,
    write: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the corrected table, .csv or .parquet."),
    ] = None,
    pseudonymise: Annotated[bool, typer.Option("--pseudonymise", help="Write hashes in place of names.")] = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Say what a table is worth, what is wrong with it, and how to mend it.

    Exit code 2: it cannot be used as it is. Where flags mend it, the last line is that command line.
    """
    from realm.check import examine

    check_outputs(write, reads=[*files, test, *reading.files()], overwrite=overwrite)
    annotations, mended, faults = _read(reading, files)
    if annotations is None and len(faults) == 1 and not as_json:
        raise RealmError(faults[0])
    examination = None
    if annotations is not None:
        examination = examine(annotations, None if test is None else _read_test(mended, test, annotations))
    if annotations is not None and write is not None and not faults:
        if pseudonymise:
            from realm.data.pseudonyms import pseudonymise as with_hashes

            annotations = with_hashes(annotations, secrets.token_bytes(32))
        write_annotations(annotations, write)
        files, mended = [write], ReadingFlags()
    command = visible(_command_line(files, mended))
    if as_json:
        facts: dict[str, Any] = {} if examination is None else examination.as_dict()
        errors = {"error": visible(faults[0]), "errors": [visible(fault) for fault in faults]} if faults else {}
        print_json(facts | {"usable": not faults} | errors | {"command": command}, indent=2)
    else:
        for fault in faults:
            note(f"error: {fault}")
        if examination is not None:
            _show(examination)
            console().print(f"Next: {command}", markup=False)
    if faults:
        raise typer.Exit(2)


def _read(reading: ReadingFlags, files: Sequence[Path]) -> tuple[Annotations | None, ReadingFlags, list[str]]:
    """The table, the flags that it could be read with, and what is wrong.

    Where an error names the argument that mends it, this is assumed, to find what else is wrong.
    """
    faults: list[str] = []
    names = [each.name for each in fields(reading)]
    while len(faults) < MOST_FAULTS:
        try:
            return reading.read(files, keep_rows=True), reading, faults
        except RealmError as error:
            if faults and str(error).split(". ")[0] == faults[-1].split(". ")[0]:
                break  # what the error named does not mend it
            faults.append(str(error))
        remedies: dict[str, str] = {}
        for name, value in REMEDY.findall(faults[-1]):
            if name in names and name not in reading.arguments():
                remedies.setdefault(name, value)
        if not remedies:
            break
        reading = replace(reading, **remedies)  # type: ignore[arg-type]
    return None, reading, faults


def _read_test(reading: ReadingFlags, test: Path, annotations: Annotations) -> Annotations | Items:
    """The test table, or its items where it has no gold; its format is its own, all else as for the table."""
    from realm.data.readers import read_items

    labels = None if reading.threshold is None else reading.labels
    own = replace(reading, format=None, wide=None, ignore=None, exclude=None, map_annotators=None, labels=labels)
    optional = optional_in_test(annotations)
    try:
        return own.read_test(test, optional=optional)
    except RealmError as error:
        items = read_items(test, replace(own, gold=None), optional=optional)
        note(f"note: the labels of the test table are not compared with the table's: {error}")
        return items


def _command_line(files: Sequence[Path], reading: ReadingFlags) -> str:
    """How to train on the table; settings that have no flag are named as what `--config` must hold."""
    from realm.data.label_sets import join_list

    words, in_config = ["realm", "train", *map(str, files)], []
    for name, value in reading.arguments().items():
        values = value if name == "exclude" else [join_list(value) if isinstance(value, list | tuple) else str(value)]
        if name in ReadingFlags.IN_CONFIG:
            in_config.append(f"{name}: {_as_yaml(values[0])}")
        else:
            for each in values:
                words += [f"--{name.replace('_', '-')}", str(each)]
    words += ["--config", "realm.yaml"] if in_config else []
    line = shlex.join([*words, "--output", f"runs/{Path(files[0]).name.split('.')[0]}"])
    return line + (f"   (realm.yaml: {', '.join(in_config)})" if in_config else "")


def _as_yaml(value: str) -> str:
    """A text as it is written in YAML: in quotes where it would be read as another one."""
    import yaml

    from realm.files import TextLoader

    try:
        is_plain = yaml.load(value, TextLoader) == value  # noqa: S506 - a safe loader
    except yaml.YAMLError:
        is_plain = False
    return value if is_plain else json.dumps(value, ensure_ascii=False)


def _show(examination: Examination) -> None:
    """Warnings first, then what is in the table, and notes."""
    from rich.text import Text

    by_level: dict[str, list[str]] = {"warning": [], "note": []}
    for each in examination.findings:
        by_level[each.level].append(f"{each.level}: {each.message} {each.remedy}".rstrip())
    warnings, notes = by_level["warning"], by_level["note"]
    for line in [*warnings, *_facts(examination), *notes]:
        console().print(Text(visible(line), style="bold yellow" if line in warnings else ""))


def _facts(examination: Examination) -> list[str]:
    facts, ledger = examination.summary, examination.ledger
    lines = [] if ledger.format is None else [f"format: {ledger.format}"]
    lines += [f"{name}: {facts[name]:,}" for name in ("items", "annotators", "annotations")]
    for name in ("annotations_per_item", "annotations_per_annotator"):
        least, most, median, mean = (facts[name][key] for key in ("min", "max", "median", "mean"))
        lines.append(f"{name.replace('_', ' ')}: {least:,} to {most:,}, median {median:g}, mean {mean:.1f}")
    lines.append(f"items with gold: {facts['items_with_gold']:,}")
    for task, counts in examination.label_counts.items():
        of_task = f" of {task}" if len(examination.label_counts) > 1 else ""
        total, alpha = max(sum(counts.values()), 1), examination.alpha[task]
        lines.append(f"labels{of_task}: {listed([f'{label} {n / total:.1%}' for label, n in counts.items()])}")
        lines.append(f"Krippendorff's alpha{of_task}: {'undefined' if alpha is None else f'{alpha:.3f}'}")
    if examination.independence is not None:
        lines.append(f"independence: {examination.independence}")
    lines += [f"{name}: {value}" for name, value in examination.time_facts()]
    for reason, count in ledger.counts.items():
        places = ledger.places(reason)
        names_rows = ledger.source is not None and ledger.source.files  # each place has its file and the word already
        rows = "" if names_rows else "row " if len(places) == 1 else "rows "
        lines.append(f"{count:,} x {reason}" + (f" ({rows}{listed(places)})" if places else ""))
    return [*lines, f"methods that apply: {_methods(examination)}"]


def _methods(examination: Examination) -> str:
    """Which methods apply, and of the others why not, or why with care."""
    names: dict[tuple[str, str], list[str]] = {}
    for verdict in ("yes", "with care", "no"):
        for method in examination.methods:
            if method.applies == verdict:
                why = "" if verdict == "yes" else f" ({method.why})"
                names.setdefault((verdict, why), []).append(method.name)
    return "; ".join(f"{verdict}: {', '.join(methods)}{why}" for (verdict, why), methods in names.items())
