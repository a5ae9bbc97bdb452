"""Annotators who are left out, and names of annotators and labels that are spelled in several ways.

Labels that differ in nothing but case and spaces are one even where the user says nothing, and so are annotators that
differ in nothing but spaces around them and 1.0 for 1. All of it is counted in the ledger.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from realm.data.columns import as_text, cell_text
from realm.data.long_table import SourceRows
from realm.data.roles import Corrections, listed
from realm.data.source import Source
from realm.errors import RealmError, other_name
from realm.files import TextLoader, read_yaml

EXCLUDED = "annotator excluded"
"""How the ledger begins the reason of an annotation that was left out; the annotator follows."""
SPELLED = "annotator in another spelling (spaces, 1.0 for 1), read as the most frequent one"
"""The reason in the ledger of annotators that are one; that of labels names them."""
TABLES = (".csv", ".tsv", ".jsonl", ".parquet")
REMEDIES = {"map_labels": "`unanswered`", "map_annotators": "`exclude`"}
"""What leaves out a name that is not to become another."""


BLANKS = " \t\r\n\xa0"
"""What may stand around a name by mistake."""
_POINT_ZERO = re.compile(r"(-?[0-9]+)\.0+")


def plain(name: str) -> str:
    """A name without the spaces around it, and 1 for 1.0."""
    match = _POINT_ZERO.fullmatch(name := name.strip(BLANKS))
    return match[1] if match else name


def folded(name: str) -> str:
    """A name without regard to case and spaces."""
    return " ".join(name.casefold().split())


def look_alikes(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Groups of names that differ only in case, spacing, Unicode form or in characters that are not shown."""

    def shown(name: str) -> str:
        name = unicodedata.normalize("NFKC", name)
        return folded("".join(each for each in name if unicodedata.category(each) != "Cf"))

    return [group for group in groups(names, shown) if len(group) > 1]


def groups(names: Sequence[str], key: Callable[[str], str]) -> list[tuple[str, ...]]:
    """The names that have one key together, in order of appearance."""
    by_key: dict[str, list[str]] = {}
    for name in names:
        by_key.setdefault(key(name), []).append(name)
    return [tuple(group) for group in by_key.values()]


def correct_annotators(rows: SourceRows) -> None:
    """Rename and leave out annotators. What is corrected: as the options say, else as in the run of the table."""
    options = rows.options
    trained = Corrections() if options.trained is None else options.trained.corrections
    maps = {name: getattr(options, name) for name in ("map_labels", "map_annotators")}
    maps = {name: getattr(trained, name) if each is None else read_map(each, name) for name, each in maps.items()}
    rows.corrections = Corrections(trained.exclude, **maps)
    if not options.wants_annotations:
        return
    rename(rows, ("annotator",), maps["map_annotators"], "map_annotators")
    rows.columns["annotator"] = rows.columns["annotator"].null_where(rows.columns["annotator"].missing())
    rows.rename("annotator", _one_spelling(rows.columns["annotator"].counts(), plain, ()), SPELLED)
    there = {plain(name): name for name in rows.columns["annotator"].counts()}
    names: list[tuple[str, Any]] = [(name, options.trained) for name in trained.exclude]
    if options.exclude is not None:
        names = _names(options.exclude, there)
        rows.corrections = Corrections(tuple(dict.fromkeys(name for name, _ in names)), **maps)
    left_out, absent = list[str](), list[str]()
    for name, source in names:
        both = (plain(name), plain(name + (options.order_suffix or "")))
        left_out += (matching := [there[key] for key in both if key in there])
        if not matching and source is None:
            hint = other_name(name, there, {}) or f"There are: {listed(list(there))}."
            raise rows.source.error(f'`exclude="{name}"`: there is no such annotator. {hint}')
        absent += [name] if not matching and options.exclude is not None else []
    if absent:
        shown = listed(absent)
        rows.ledger.warn(f"`exclude`: the file names {len(absent):,} who are not among the annotators: {shown}.")
    if left_out and options.exclude is None and options.trained is not None:
        shown = listed(left_out)
        rows.ledger.warn(f"left out as in the run {options.trained.run}: {shown}. Name others with `exclude`.")
    _exclude(rows, list(dict.fromkeys(left_out)))


def _exclude(rows: SourceRows, names: Sequence[str]) -> None:
    """Leave out the annotations of these annotators. An item that nobody else labelled goes too, unless it has gold."""
    for name in names:
        rows.record(f"{EXCLUDED}: {name}", rows.columns["annotator"].where([name]))
    excluded = rows.columns["annotator"].where(names)
    if excluded.all() and len(excluded):
        raise rows.source.error("`exclude` leaves nobody: every annotation is by an excluded annotator.")
    has_gold = np.zeros(len(rows), dtype=bool)
    if "gold" in rows.columns:
        has_gold = ~rows.columns["gold"].missing(label=True)
    for role in ("annotator", "label"):
        rows.columns[role] = rows.columns[role].null_where(excluded)
    rows.annotated = rows.annotated & ~excluded
    rows.leave_out(excluded & ~has_gold)


def _names(exclude: Sequence[str | Path] | str | Path, annotators: Collection[str]) -> list[tuple[str, Any]]:
    """Each name to be left out with the file it comes from: an entry is a file where no annotator is called so.

    A file has a name on each line, or is a table with the column `annotator`.
    """
    names: list[tuple[str, Any]] = []
    for entry in [exclude] if isinstance(exclude, str | Path) else exclude:
        path = Path(entry)
        if isinstance(entry, str) and (plain(entry) in annotators or not os.path.isfile(entry)):
            names += [(entry, None)] if entry.strip() else []
        elif path.suffix.lower() in TABLES:
            names += [(name, path) for name in _text_columns(path, ["annotator"], "exclude")[0] if name]
        else:
            try:
                lines = path.read_text(encoding="utf-8-sig").splitlines()
            except (OSError, UnicodeDecodeError) as error:
                raise RealmError(f"`exclude`: {path} cannot be read ({error}).") from None
            names += [(line.strip(), path) for line in lines if line.strip()]
    return names


def _text_columns(path: Path, names: Sequence[str], argument: str) -> list[list[str | None]]:
    from realm.data.readers.files import open_file

    table = open_file(path).table()
    for name in names:
        if table.column_names.count(name) != 1:
            needed = f"the column{'s' * (len(names) > 1)} {' and '.join(names)}"
            raise RealmError(f"`{argument}`: {path} must have {needed}; it has: {listed(table.column_names)}.")
    return [as_text(table.column(name), name, Source(str(path))).to_pylist() for name in names]


def read_map(names: Mapping[Any, Any] | str | Path, argument: str) -> dict[str, str]:
    """The name that each spelling stands for, from a mapping or from a file.

    A file is YAML or JSON with `spelling: name` entries, or a table with the columns `from` and `to`.
    """
    where, what = f"`{argument}`", argument.removeprefix("map_").removesuffix("s")
    entries: Iterable[tuple[Any, Any]]
    if isinstance(names, Mapping):
        entries = names.items()
    elif not os.path.isfile(names):
        raise RealmError(f"{where}: {names}: there is no such file.")
    elif (path := Path(names)).suffix.lower() in (".yaml", ".yml", ".json"):
        content = read_yaml(path, TextLoader)
        where = f"{where}: {path}"
        if not isinstance(content, dict):
            raise RealmError(f"{where}: must hold `spelling: {what}` entries.")
        entries = content.items()
    else:
        where = f"{where}: {path}"
        entries = zip(*_text_columns(path, ["from", "to"], argument), strict=True)
    mapping: dict[str, str] = {}
    for old, new in ((cell_text(old) or "", new) for old, new in entries):
        name = None if isinstance(new, list | dict | tuple) else cell_text(new)
        if name is None or not name.strip():
            raise RealmError(f"{where}: {old!r} has no {what} to become. What is none goes to {REMEDIES[argument]}.")
        if mapping.setdefault(old, name) != name:
            raise RealmError(f"{where}: {old!r} is to become {mapping[old]!r} and {name!r}. Keep one of them.")
    if chains := [old for old, new in mapping.items() if mapping.get(new, new) != new]:
        raise RealmError(f"{where}: {chains[0]!r} becomes {mapping[chains[0]]!r}, which is renamed too. Name the last.")
    return mapping


def rename_labels(rows: SourceRows) -> None:
    """Change labels and gold as `map_labels` says."""
    rename(rows, ("label", "gold"), rows.corrections.map_labels, "map_labels")


def rename(rows: SourceRows, roles: Sequence[str], mapping: Mapping[str, str], argument: str) -> None:
    """Change the names in these columns; 1.0 is changed where 1 is named. What occurs nowhere is warned of."""
    by_plain = {plain(old): old for old in mapping}
    absent, spellings = set(mapping), list[str]()
    for role in roles:
        if role not in rows.columns or not mapping:
            continue
        for text in list(rows.columns[role].counts()):
            spellings.append(text)
            old = text if text in mapping else by_plain.get(plain(text))
            absent.discard(old or "")
            if old is not None and mapping[old] != text:
                rows.rename(role, {text: mapping[old]}, f"{role} {text!r} read as {mapping[old]!r}")
    if absent and rows.options.wants_annotations and getattr(rows.options, argument) is not None:
        shown = [repr(old) for old in mapping if old in absent]
        hint = other_name(next(old for old in mapping if old in absent), spellings, {})
        message = f"`{argument}` names {roles[0]}s that do not occur: {listed(shown)}. {hint}"
        rows.ledger.warn(message.rstrip())


def warn_of_look_alikes(rows: SourceRows, annotators: Sequence[str]) -> None:
    """Say which annotators are probably one, written in several ways: each is judged by a part of their labels."""
    if twins := look_alikes(annotators):
        shown = listed([" and ".join(map(repr, group)) for group in twins])
        message = f"annotators whose names look alike are taken for different ones: {shown}."
        rows.ledger.warn(f"{message} If they are the same, give them one name with `map_annotators`.")


def fold_labels(rows: SourceRows) -> None:
    """Make one label of those that differ only in case or in spaces. Listed ones stay as they are.

    Gold is spelled as the labels are. Where items list their own options labels are found among these.
    """
    if rows.options.exact_labels or "options" in rows.columns:
        return
    known = {*rows.known, *rows.corrections.map_labels.values()}
    only = {folded(group[0]): group[0] for group in groups(sorted(known), folded) if len(group) == 1}
    for role in ("label", "gold"):
        if role not in rows.columns:
            continue
        counts = rows.columns[role].counts()
        spelling = _one_spelling(counts, folded, known)
        spelling |= {text: only[folded(text)] for text in counts if text not in known and folded(text) in only}
        changed = [f"{old!r} as {new!r}" for old, new in spelling.items() if old != new]
        reason = f"{role} in another case or spacing, read as one: {listed(changed)}"
        rows.rename(role, spelling, f"{reason} (`exact_labels` keeps them apart)")
        if role == "label":
            only = {folded(label): label for label in rows.columns[role].counts()} | only


def _one_spelling(
    counts: Mapping[str, int], key: Callable[[str], str], known: Collection[str]
) -> dict[str, str | None]:
    """The spelling of each text that is not `known`: the most frequent of those with one key, without spaces around."""
    spelling: dict[str, str | None] = {}
    for group in groups([text for text in counts if text not in known], key):
        best = max(group, key=lambda text: (counts[text], text == plain(text)))
        spelling.update(dict.fromkeys(group, plain(best) if key is plain and len(group) > 1 else best.strip(BLANKS)))
    return spelling
