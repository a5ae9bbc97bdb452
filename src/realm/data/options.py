"""The options that an item lists for itself, and labels that point at one of them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from realm.data.columns import Mask, as_array, as_text, is_list, list_lengths
from realm.data.read_options import LabelForm
from realm.data.roles import split_columns
from realm.data.source import Rows, Source

MAX_OPTIONS = 26
"""As many as there are letters to name them."""
LABEL_FORMS: tuple[LabelForm, ...] = ("index", "letter", "text")
OPTIONS_TYPE = pa.large_list(pa.large_string())
NO_OPTION = -1
"""The number of a label that points at none of the options."""
MAX_DIGITS = 2
"""Digits of an index: enough for 26 options; a longer number cannot be one."""


def options_column(table: pa.Table, name: str, source: Source) -> pa.Array | pa.ChunkedArray:
    """The column of options, or one of lists made of several columns, comma separated, with one option each (an empty
    cell is an option that the item does not have)."""
    if name in table.column_names:
        return table.column(name)
    return _from_columns(table, split_columns(name, table.column_names), source)


def read_options(column: pa.Array | pa.ChunkedArray, name: str, rows: Rows, source: Source) -> pa.LargeListArray:
    """The options of every row as lists of text, null where a row lists none: of lists or JSON lists. Shape (rows,)."""
    column = as_array(column)
    if is_list(column.type):
        options = _lists(as_text(column.flatten(), name, source), list_lengths(column))
    elif pa.types.is_null(column.type):
        options = pa.nulls(len(column), OPTIONS_TYPE)
    else:
        options = _from_json(as_text(column, name, source), name, rows, source)
    _check(options, rows, source)
    return options


def _from_columns(table: pa.Table, names: list[str], source: Source) -> pa.LargeListArray:
    columns = [as_text(table.column(name), name, source) for name in names]
    present = np.stack([np.asarray(pc.fill_null(pc.greater(pc.utf8_length(c), 0), False)) for c in columns])
    row_by_row = pa.array(np.arange(present.size).reshape(present.shape).T.ravel())
    values = pa.concat_arrays(columns).take(row_by_row).filter(pa.array(present.T.ravel()))
    return _lists(values, present.sum(0))


def _lists(values: pa.LargeStringArray, counts: npt.NDArray[np.int64]) -> pa.LargeListArray:
    """The values cut into lists of these lengths; null for a list of none."""
    lists = pa.LargeListArray.from_arrays(pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int64()), values)
    return pc.if_else(pa.array(counts == 0), pa.scalar(None, lists.type), lists) if len(lists) else lists


def _from_json(column: pa.LargeStringArray, name: str, rows: Rows, source: Source) -> pa.LargeListArray:
    encoded = column.dictionary_encode()
    lists: list[list[str] | None] = []
    for code, text in enumerate(encoded.dictionary.to_pylist()):
        options: Any = None
        if text.strip():
            try:
                options = json.loads(text)
            except (ValueError, RecursionError):
                options = text
            if not isinstance(options, list) or not all(isinstance(o, str | int | float) for o in options):
                wrong = np.flatnonzero(np.asarray(encoded.indices) == code)
                raise source.error(
                    f'the options in column \'{name}\' are not a list such as ["yes", "no"].', rows[wrong]
                )
        lists.append([str(o) for o in options] if options else None)
    return pa.array(lists, OPTIONS_TYPE).take(encoded.indices)


def _check(options: pa.LargeListArray, rows: Rows, source: Source) -> None:
    counts = list_lengths(options)
    if (few := np.flatnonzero((counts < 2) & np.asarray(options.is_valid()))).size:
        raise source.error("an item needs two options or more.", rows[few])
    if (many := np.flatnonzero(counts > MAX_OPTIONS)).size:
        raise source.error(f"{counts[many[0]]} options; an item can have {MAX_OPTIONS} at most.", rows[many])
    values = options.flatten()
    if values.null_count:
        empty = np.unique(np.asarray(pc.list_parent_indices(options).filter(values.is_null())))
        raise source.error("an option is empty.", rows[empty])


def option_keys(options: pa.LargeListArray) -> pa.LargeStringArray:
    """One string per row that is equal for equal lists and only for those; "" where there are none. Shape (rows,)."""
    values = options.flatten()
    for mark, code in (("\x1e", "\x1e0"), ("\x1f", "\x1e1")):
        values = pc.replace_substring(values, pattern=mark, replacement=code)
    return pc.binary_join(_lists(values, list_lengths(options)), pa.scalar("\x1f", pa.large_string())).fill_null("")


def written_with_point(options: pa.LargeListArray) -> list[str]:
    """The distinct options that are written like 1.0: labels in these words mean them, not the number 1."""
    texts = pc.unique(options.flatten())
    return list(texts.filter(pc.match_substring_regex(texts, r"^-?[0-9]+\.0+$")).to_pylist())


def read_labels(
    column: pa.LargeStringArray,
    mask: Mask,
    options: pa.LargeListArray,
    rows: Rows,
    *,
    label_form: LabelForm,
    role: str,
    source: Source,
) -> npt.NDArray[np.int64]:
    """The option that the label of each row in `mask` points at, -1 elsewhere. Shape (rows,).

    A column is read in one form throughout: 0-based index, letter or the option's own text. Where more than one form
    fits every row and they differ, it is an error.
    """
    forms = LABEL_FORMS if label_form == "auto" else (label_form,)
    by_form = {form: _read_as(form, column, options) for form in forms}
    fitting = [form for form, labels in by_form.items() if (labels[mask] != NO_OPTION).all()]
    if not fitting:
        best = max(forms, key=lambda form: int((by_form[form][mask] != NO_OPTION).sum()))
        wrong = np.flatnonzero(mask & (by_form[best] == NO_OPTION))
        how = f"read as {best}" if label_form == "auto" else f'`label_form="{label_form}"`'
        raise source.error(
            f"the {role} '{column[int(wrong[0])].as_py()}' is none of the item's options ({how}). Give 0-based "
            "indices, letters or the options' own text, one way throughout.",
            rows[wrong],
        )
    first = by_form[fitting[0]]
    for other in fitting[1:]:
        if (differing := np.flatnonzero(mask & (by_form[other] != first))).size:
            raise source.error(
                f"the {role} '{column[int(differing[0])].as_py()}' can be read as {fitting[0]} and as {other}, and "
                f'they differ. Say which with `label_form="{fitting[0]}"` or `label_form="{other}"`.',
                rows[differing],
            )
    return np.where(mask, first, NO_OPTION)


def _read_as(form: LabelForm, column: pa.LargeStringArray, options: pa.LargeListArray) -> npt.NDArray[np.int64]:
    """The option that each label points at if labels have this form, -1 where it is none. Shape (rows,)."""
    counts = list_lengths(options)
    if form == "text":
        parents = pc.list_parent_indices(options)
        same = np.asarray(pc.fill_null(pc.equal(column.take(parents), options.flatten()), False))
        # Backwards, so that of two options with the same text (there are such questions) the first is meant.
        matches = np.flatnonzero(same)[::-1]
        row = np.asarray(parents)[matches]
        labels = np.full(len(column), NO_OPTION, dtype=np.int64)
        labels[row] = matches - (np.cumsum(counts) - counts)[row]
        return labels
    codes = column.dictionary_encode()
    indices = [_index(form, value) for value in codes.dictionary.to_pylist()]
    by_code = np.array([*indices, NO_OPTION], dtype=np.int64)
    labels = by_code[np.asarray(codes.indices.fill_null(len(indices)))]
    return np.where(labels < counts, labels, NO_OPTION)


def _index(form: LabelForm, value: str) -> int:
    value = value.strip()
    if form == "index":
        return int(value) if value.isascii() and value.isdigit() and len(value) <= MAX_DIGITS else NO_OPTION
    return ord(value.upper()) - ord("A") if len(value) == 1 and value.isascii() and value.isalpha() else NO_OPTION
