"""The options that an item lists for itself, and labels that point at one of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from realm.data.columns import Categorical, as_array, as_text, cell_text, is_list
from realm.data.read_options import LabelForm
from realm.data.source import Rows, Source

MAX_OPTIONS = 26
"""As many as there are letters to name them."""
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
LABEL_FORMS: tuple[LabelForm, ...] = ("index", "letter", "text")
NO_OPTION = -1
"""The number of a label that points at none of the options."""
Options = tuple[str, ...]


def parse_options(column: pa.Array | pa.ChunkedArray, name: str, rows: Rows, source: Source) -> Categorical:
    """The options of every row as tuples, null where a row lists none: of lists, or of texts with a JSON list."""
    column = as_array(column)
    cells = column.to_pylist() if is_list(column.type) else as_text(column, name, source).to_pylist()
    parsed = {cell: _parse(cell) for cell in cells if isinstance(cell, str)}
    values: dict[Options, int] = {}
    codes = np.full(len(cells), -1, dtype=np.int64)
    for row, cell in enumerate(cells):
        options = parsed[cell] if isinstance(cell, str) else cell
        if options is None or (isinstance(options, list) and not options):
            continue
        texts = [cell_text(option) for option in options] if isinstance(options, list) else []
        if len(texts) < 2 or len(texts) > MAX_OPTIONS or not all(texts):
            raise source.error(
                f"the options in column '{name}' are not a list of 2 to {MAX_OPTIONS} texts, such as "
                f'["yes", "no"], but {str(cell)[:80]!r}.',
                rows[[row]],
            )
        codes[row] = values.setdefault(tuple(map(str, texts)), len(values))
    return Categorical(codes, list(values))


def _parse(text: str) -> Any:
    try:
        return json.loads(text) if text.strip() else None
    except (ValueError, RecursionError):
        return text


def option_key(options: Options) -> str:
    """A text that is equal for equal options and only for those."""
    return "\x1f".join(option.replace("\x1e", "\x1e0").replace("\x1f", "\x1e1") for option in options)


def written(options: Options, label: int, form: LabelForm) -> str:
    """A label in one of the forms in which it may point at its item's options."""
    return {"index": str(label), "letter": LETTERS[label], "text": options[label]}[form]


def read_choices(pairs: Sequence[tuple[Options, str]], form: LabelForm) -> tuple[list[int], int | None, str]:
    """The option that each label points at, and where that is not clear, the first such pair and what is wrong.

    Labels are read in one form throughout: 0-based index, letter or the option's own text. Where more than one form
    fits every pair they must agree.
    """
    forms = LABEL_FORMS if form == "auto" else (form,)
    by_form = {each: [_position(options, label, each) for options, label in pairs] for each in forms}
    fitting = [each for each in forms if NO_OPTION not in by_form[each]]
    if not fitting:
        best = max(forms, key=lambda each: len(pairs) - by_form[each].count(NO_OPTION))
        message = (
            f"is none of the item's options (read as {best}). Give 0-based indices, letters or the options' own text"
        )
        return by_form[best], by_form[best].index(NO_OPTION), f"{message}, one way throughout."
    first, *others = fitting
    for other in others:
        for at, (one, two) in enumerate(zip(by_form[first], by_form[other], strict=True)):
            if one != two:
                message = f"can be read as {first} and as {other}, and they differ. Say which with "
                return by_form[first], at, message + f'`label_form="{first}"` or `label_form="{other}"`.'
    return by_form[first], None, ""


def _position(options: Options, label: str, form: LabelForm) -> int:
    if form == "text":
        return options.index(label) if label in options else NO_OPTION
    names = [str(k) for k in range(len(options))] if form == "index" else list(LETTERS[: len(options)])
    label = label.strip().upper()
    return names.index(label) if label in names else NO_OPTION
