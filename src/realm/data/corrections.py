"""Annotators who are left out, and names of annotators and labels that are spelled in several ways.

What a user says of them is applied to the rows as they are in the source. Labels that differ in nothing but case
and spaces are one all the same, and so are annotators that differ in nothing but spaces around them and 1.0 for 1. All
of it is counted in the ledger.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from realm.data.columns import Codes, as_text, cell_text
from realm.data.roles import listed
from realm.data.rows import SourceRows
from realm.data.source import Source
from realm.data.spelling import BLANKS, folded, groups, look_alikes, plain
from realm.errors import RealmError
from realm.files import TextLoader, read_yaml

EXCLUDED = "annotator excluded"
"""How the ledger begins the reason of an annotation that was left out; the annotator follows."""
SPELLED = "annotator in another spelling (spaces, 1.0 for 1), read as the most frequent one"
"""The reason in the ledger of annotators that are one; that of labels names them."""
NAMES_SHOWN = 10
"""Names that a message lists: one line."""
TWINS_SHOWN = 5
"""Groups of names that a warning lists: a few lines."""
FROM, TO = "from", "to"
"""The columns of a table of names to be changed."""
MAPPINGS = (".yaml", ".yml", ".json")


def near_names(name: str, names: Sequence[str]) -> str:
    """What a message says about a name that is not there: those that are spelled like it, or the first there are."""
    by_folded = {each.casefold(): each for each in names}
    near = [by_folded[each] for each in difflib.get_close_matches(name.casefold(), list(by_folded), n=3)]
    if near:
        return f"Did you mean {' or '.join(repr(each) for each in near)}?"
    return f"There are: {listed(names, NAMES_SHOWN)}."


def _found(name: str, names: Collection[str], by_plain: Mapping[str, str]) -> str | None:
    """The name as it is among the names: itself, or else the one with other spaces or another 1.0."""
    return name if name in names else by_plain.get(plain(name))


# ---------------------------------------------------------------- annotators


def exclude_annotators(
    rows: SourceRows, exclude: Sequence[str | Path] | str | Path, suffix: str | None = None
) -> tuple[str, ...]:
    """Leave out the annotations of these annotators. An item that nobody else labelled goes too, unless it has gold.

    Each entry is an annotator's name or a file of names (see `read_names`): a text is a file where no annotator is
    called so. A name that is not there is an error, and where it comes from a file a warning. With `suffix`, those
    called NAME + `suffix` go with NAME. Returns the names; a blank one is nobody.
    """
    if not rows.wants_annotations:
        return ()
    column = rows.columns["annotator"]
    texts = column.values.to_pylist()
    code_of = {text: code for code, text in enumerate(texts)}
    by_plain = {plain(text): text for text in texts}
    codes: dict[int, None] = {}
    absent: dict[Path, list[str]] = {}
    named = _names([exclude] if isinstance(exclude, str | Path) else exclude, {*code_of, *by_plain})
    for name, file in named:
        both = (name, name + suffix) if suffix else (name,)
        there = [found for each in both if (found := _found(each, code_of, by_plain)) is not None]
        if not there and file is None:
            raise rows.source.error(f'`exclude="{name}"`: there is no such annotator. {near_names(name, texts)}')
        if not there and file is not None:
            absent.setdefault(file, []).append(name)
        codes.update(dict.fromkeys(code_of[each] for each in there))
    for path, names in absent.items():
        shown = listed(names, NAMES_SHOWN)
        rows.ledger.warn(f"`exclude`: {path} names {len(names):,} who are not among the annotators: {shown}.")
    for code in codes:
        rows.record(f"{EXCLUDED}: {texts[code]}", column.codes == code)
    excluded = np.isin(column.codes, list(codes))
    if excluded.all() and len(excluded):
        raise rows.source.error("`exclude` leaves nobody: every annotation is by an excluded annotator.")
    has_gold = ~rows.columns["gold"].missing(label=True) if "gold" in rows.columns else np.zeros(len(rows), bool)
    for role in ("annotator", "label"):
        rows.columns[role] = rows.columns[role].null_where(excluded)
    rows.annotated = rows.annotated & ~excluded
    rows.leave_out(excluded & ~has_gold)
    return tuple(dict.fromkeys(name for name, _ in named))


def _names(exclude: Sequence[str | Path], annotators: Collection[str]) -> list[tuple[str, Path | None]]:
    """Each name, with the file that it comes from."""
    names: list[tuple[str, Path | None]] = []
    for entry in exclude:
        if not str(entry).strip():
            continue
        if isinstance(entry, str) and (entry in annotators or not os.path.isfile(entry)):
            names.append((entry, None))
        else:
            names += [(name, Path(entry)) for name in read_names(Path(entry))]
    return names


def read_names(path: Path) -> list[str]:
    """The annotators that a file names: one on each line, or the column `annotator` of a table."""
    from realm.data.readers.files import SUFFIXES

    if path.suffix.lower() in SUFFIXES:
        return [name for name in _text_columns(path, ["annotator"], "exclude")[0] if name]
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise RealmError(f"`exclude`: {path} cannot be read ({getattr(error, 'strerror', None) or error}).") from None
    return [line.strip() for line in lines if line.strip()]


def _text_columns(path: Path, names: Sequence[str], argument: str) -> list[list[str | None]]:
    from realm.data.readers.files import open_file

    table = open_file(path).table()
    for name in names:
        if table.column_names.count(name) != 1:
            needed = f"the column{'s' * (len(names) > 1)} {' and '.join(names)}"
            raise RealmError(f"`{argument}`: {path} must have {needed}; it has: {listed(table.column_names)}.")
    return [as_text(table.column(name), name, Source(str(path))).to_pylist() for name in names]


# ---------------------------------------------------------------- names that are changed


def read_map(names: Mapping[Any, Any] | str | Path, argument: str) -> dict[str, str]:
    """The name that each spelling stands for, from a mapping or from a file.

    A file is YAML or JSON with `spelling: name` entries, or a table with the columns `from` and `to`.
    """
    where, what = f"`{argument}`", argument.removeprefix("map_").removesuffix("s")
    if isinstance(names, Mapping):
        entries = list(names.items())
    else:
        path = Path(names)
        where = f"{where}: {path}"
        if not os.path.isfile(path):
            raise RealmError(f"{where}: there is no such file.")
        if path.suffix.lower() in MAPPINGS:
            content = read_yaml(path, TextLoader)
            if not isinstance(content, dict):
                raise RealmError(f"{where}: must hold `spelling: {what}` entries.")
            entries = list(content.items())
        else:
            entries = list(zip(*_text_columns(path, [FROM, TO], argument), strict=True))
    mapping: dict[str, str] = {}
    for old, new in ((cell_text(old) or "", new) for old, new in entries):
        name = None if isinstance(new, list | dict | tuple) else cell_text(new)
        if name is None or not name.strip():
            other = "no answer is left out with `unanswered`" if what == "label" else "left out goes to `exclude`"
            raise RealmError(
                f"{where}: {old!r} has no {what} to become. Name one {what} for each spelling; what is {other}."
            )
        if mapping.setdefault(old, name) != name:
            raise RealmError(f"{where}: {old!r} is to become {mapping[old]!r} and {name!r}. Keep one of them.")
    for old, new in mapping.items():
        if mapping.get(new, new) != new:
            raise RealmError(
                f"{where}: {old!r} becomes {new!r}, and that becomes {mapping[new]!r}. Name the last {what} for both."
            )
    return mapping


def rename(rows: SourceRows, roles: Sequence[str], mapping: Mapping[str, str], warn: bool = True) -> None:
    """Change the names in these columns; 1.0 is changed where 1 is named. With `warn`, what occurs nowhere is told."""
    by_plain = {plain(old): old for old in mapping}
    entry: dict[str, str] = {}
    spellings: list[str] = []
    for role in roles if mapping else ():
        if role not in rows.columns:
            continue
        column = rows.columns[role]
        spellings += column.values.to_pylist()
        of_column = {text: old for text in column.values.to_pylist() if (old := _found(text, mapping, by_plain))}
        entry |= of_column
        for code, text in enumerate(column.values.to_pylist()):
            if text in of_column and mapping[of_column[text]] != text:
                rows.record(f"{role} {text!r} read as {mapping[of_column[text]]!r}", column.codes == code)
        new = {text: mapping[old] for text, old in of_column.items()}
        rows.columns[role], _ = column.renamed(lambda text, new=new: new.get(text, text))  # type: ignore[misc]
    if warn and rows.wants_annotations and (absent := [old for old in mapping if old not in entry.values()]):
        argument = "map_annotators" if "annotator" in roles else "map_labels"
        rows.ledger.warn(
            f"`{argument}` names {roles[0]}s that do not occur: {listed([repr(old) for old in absent], NAMES_SHOWN)}. "
            f"{near_names(absent[0], spellings)}"
        )


# ---------------------------------------------------------------- spellings that are one


def fold_annotators(rows: SourceRows) -> None:
    """Make one annotator of ` ann ` and `ann`, and of 1 and 1.0."""
    if not rows.wants_annotations:
        return
    column = rows.columns["annotator"].null_where(rows.columns["annotator"].missing())
    spelling = _one_spelling(column.occurring(), column.counts(), plain, ())
    rows.columns["annotator"], changed = column.renamed(lambda text: spelling.get(text, text))
    rows.record(SPELLED, changed)


def warn_of_look_alikes(rows: SourceRows, annotators: Sequence[str]) -> None:
    """Say which annotators are probably one, written in several ways: each is judged by a part of their labels."""
    if twins := look_alikes(annotators):
        shown = "; ".join(" and ".join(map(repr, group)) for group in twins[:TWINS_SHOWN])
        rows.ledger.warn(
            f"annotators whose names look alike are taken for different ones: {shown}"
            f"{', ...' * (len(twins) > TWINS_SHOWN)}. If they are the same, give them one name with `map_annotators`."
        )


def fold_labels(rows: SourceRows, known: Collection[str]) -> None:
    """Make one label of those that differ only in case or in spaces. The `known` ones stay as they are.

    Where items list their own options labels are found among these.
    """
    if rows.options is not None:
        return
    only = {folded(group[0]): group[0] for group in groups(list(known), folded) if len(group) == 1}
    for role in ("label", "gold"):
        if role not in rows.columns:
            continue
        column = rows.columns[role]
        texts = column.occurring()
        spelling = _one_spelling(texts, column.counts(), folded, known)
        for text in texts:
            if text is not None and text not in known and folded(text) in only:
                spelling[text] = only[folded(text)]
        rows.columns[role], changed = column.renamed(lambda text, spelling=spelling: spelling.get(text, text))  # type: ignore[misc]
        shown = listed([f"{old!r} as {new!r}" for old, new in spelling.items() if old != new], NAMES_SHOWN)
        rows.record(
            f"{role} in another case or spacing, read as one: {shown} (`exact_labels` keeps them apart)", changed
        )
        if role == "label":  # gold is spelled as the labels are, which are not told by it
            for new in rows.columns[role].occurring():
                if new is not None:
                    only.setdefault(folded(new), new)


def _one_spelling(
    texts: Sequence[str | None], counts: Codes, key: Callable[[str], str], known: Collection[str]
) -> dict[str, str]:
    """The spelling of each text that is not `known`: the most frequent of those with one key, without spaces around."""
    count_of = {text: int(count) for text, count in zip(texts, counts, strict=True) if text is not None}
    spelling = {}
    for group in groups([text for text in count_of if text not in known], key):
        best = max(group, key=lambda text: (count_of[text], text == plain(text)))
        spelling.update(dict.fromkeys(group, plain(best) if key is plain and len(group) > 1 else best.strip(BLANKS)))
    return spelling
