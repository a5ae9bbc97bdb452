"""What a user says of a table before it is read: annotators to leave out, and labels that are spelled in several ways.

Both are applied to the rows as they are in the source, before anything else is looked at, and counted in the ledger.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from realm.data.categorical import NULL, Categorical, encode
from realm.data.columns import as_text, cell_text
from realm.data.rows import SourceRows
from realm.errors import RealmError
from realm.files import TextLoader, read_yaml

EXCLUDED = "annotator excluded"
"""How the ledger begins the reason of an annotation that was left out; the annotator follows."""
NAMES_SHOWN = 10
"""Names that a message lists: one line."""
FROM, TO = "from", "to"
"""The columns of a table of labels to be renamed."""
MAPPINGS = (".yaml", ".yml", ".json")


def near_names(name: str, names: Sequence[str]) -> str:
    """What a message says about a name that is not there: those that are spelled like it, or the first there are."""
    folded = {each.casefold(): each for each in names}
    near = [folded[each] for each in difflib.get_close_matches(name.casefold(), list(folded), n=3)]
    if near:
        return f"Did you mean {' or '.join(repr(each) for each in near)}?"
    return f"There are: {', '.join(names[:NAMES_SHOWN])}{', ...' * (len(names) > NAMES_SHOWN)}."


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
    codes: dict[int, None] = {}
    absent: dict[Path | None, list[str]] = {}
    named = _names([exclude] if isinstance(exclude, str | Path) else exclude, code_of)
    for name, file in named:
        there = [code_of[each] for each in (name, name + suffix if suffix else name) if each in code_of]
        if not there and file is None:
            raise RealmError(
                f'{rows.source}: `exclude="{name}"`: there is no such annotator. {near_names(name, texts)}'
            )
        if not there:
            absent.setdefault(file, []).append(name)
        codes.update(dict.fromkeys(there))
    for path, names in absent.items():
        shown = ", ".join(names[:NAMES_SHOWN]) + ", ..." * (len(names) > NAMES_SHOWN)
        rows.ledger.warn(f"`exclude`: {path} names {len(names):,} who are not among the annotators: {shown}.")
    for code in codes:
        rows.record(f"{EXCLUDED}: {texts[code]}", column.codes == code)
    excluded = np.isin(column.codes, list(codes))
    if excluded.all() and len(excluded):
        raise RealmError(f"{rows.source}: `exclude` leaves nobody: every annotation is by an excluded annotator.")
    has_gold = ~rows.columns["gold"].missing(nan_words=True) if "gold" in rows.columns else np.zeros(len(rows), bool)
    for role in ("annotator", "label"):
        of_role = rows.columns[role]
        rows.columns[role] = Categorical(np.where(excluded, NULL, of_role.codes), of_role.values)
    rows.annotated = rows.annotated & ~excluded
    rows.leave_out(excluded & ~has_gold)
    return tuple(dict.fromkeys(name for name, _ in named))


def _names(exclude: Sequence[str | Path], annotators: Mapping[str, int]) -> list[tuple[str, Path | None]]:
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
            there = ", ".join(table.column_names[:NAMES_SHOWN])
            raise RealmError(f"`{argument}`: {path} must have {needed}; it has: {there}.")
    return [as_text(table.column(name), name, str(path)).to_pylist() for name in names]


# ---------------------------------------------------------------- labels


def read_label_map(labels: Mapping[Any, Any] | str | Path) -> dict[str, str]:
    """The label that each spelling stands for, from a mapping or from a file.

    A file is YAML or JSON with `spelling: label` entries, or a table with the columns `from` and `to`.
    """
    where = "`map_labels`"
    if isinstance(labels, Mapping):
        entries = list(labels.items())
    else:
        path = Path(labels)
        where = f"`map_labels`: {path}"
        if not os.path.isfile(path):
            raise RealmError(f"{where}: there is no such file.")
        if path.suffix.lower() in MAPPINGS:
            content = read_yaml(path, TextLoader)
            if not isinstance(content, dict):
                raise RealmError(f"{where}: must hold `spelling: label` entries.")
            entries = list(content.items())
        else:
            columns = _text_columns(path, [FROM, TO], "map_labels")
            entries = list(zip(*columns, strict=True))
    mapping: dict[str, str] = {}
    for old, new in ((cell_text(old) or "", new) for old, new in entries):
        label = None if isinstance(new, list | dict | tuple) else cell_text(new)
        if label is None or not label.strip():
            raise RealmError(
                f"{where}: {old!r} has no label to become. Name one label for each spelling; what is no answer is left "
                "out with `unanswered`."
            )
        if mapping.setdefault(old, label) != label:
            raise RealmError(f"{where}: {old!r} is to become {mapping[old]!r} and {label!r}. Keep one of them.")
    for old, new in mapping.items():
        if mapping.get(new, new) != new:
            raise RealmError(
                f"{where}: {old!r} becomes {new!r}, and that becomes {mapping[new]!r}. Name the last label for both."
            )
    return mapping


def map_labels(rows: SourceRows, mapping: Mapping[str, str], warn: bool = True) -> None:
    """Rename labels and gold; 1.0 is renamed where 1 is named. With `warn`, what occurs nowhere is a warning."""
    if not mapping:
        return
    seen: set[str] = set()
    spellings = rows.columns["label"].values.to_pylist() if "label" in rows.columns else []
    for role in ("label", "gold"):
        if role not in rows.columns:
            continue
        column = rows.columns[role]
        texts = column.values.to_pylist()
        keys = [_key(text, mapping) for text in texts]
        seen |= {key for key in keys if key is not None}
        for code, key in enumerate(keys):
            if key is not None and mapping[key] != texts[code]:
                rows.record(f"{role} {texts[code]!r} read as {mapping[key]!r}", column.codes == code)
        renamed = [text if key is None else mapping[key] for text, key in zip(texts, keys, strict=True)]
        codes, values = encode(pa.array(renamed, pa.large_string()))
        rows.columns[role] = Categorical(np.append(codes, NULL)[column.codes], values)
    if warn and rows.wants_annotations and (absent := [old for old in mapping if old not in seen]):
        named = ", ".join(repr(old) for old in absent[:NAMES_SHOWN]) + ", ..." * (len(absent) > NAMES_SHOWN)
        rows.ledger.warn(f"`map_labels` names labels that do not occur: {named}. {near_names(absent[0], spellings)}")


def _key(text: str, mapping: Mapping[str, str]) -> str | None:
    """The entry that a label is renamed by."""
    if text in mapping:
        return text
    whole, point, zeros = text.partition(".")
    return whole if point and zeros and not zeros.strip("0") and whole in mapping else None
