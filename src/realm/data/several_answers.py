"""Cells with several answers, such as "A|B" or ["A", "B"]: recognised, so that they do not become labels of their own.

A cell is several answers if it is a list, or if it can be cut at one separator into labels each of which other
annotations give alone. A label that merely has a separator in it ("yes, always") is cut into parts that nobody gives
alone, and stays one label. So does every label that the user lists.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from realm.data.categorical import NULL, Categorical, encode
from realm.data.columns import cell_text
from realm.data.roles import Multi
from realm.data.rows import SourceRows

SEVERAL_FIRST = "several answers in one annotation: the first is kept"
SEVERAL_DROPPED = "several answers in one annotation: dropped"
SEVERAL_GOLD = "gold with several answers: not read"
PLAIN = ("|", ";", "\n")
"""Separators that hardly any label has in it: where one of them joins two labels, it joins all."""
SEPARATORS = (*PLAIN, ",")
EXAMPLES = 3
"""Cells that a message shows."""
LONGEST_LIST = 10_000
"""Characters of a cell that is looked at as a list: more than any list of labels has."""
_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_WRITTEN_LIST = re.compile(rf"\[\s*(?:{_QUOTED})(?:[\s,]+(?:{_QUOTED}))*\s*,?\s*\]")
"""A list as Python or numpy prints it, which is what a column of lists becomes in a CSV."""
_NUMBER = re.compile(r"[0-9]+")
Answers = list[str]


def resolve_several(rows: SourceRows, multi: Multi | None, labels: Collection[str]) -> None:
    """Keep the first of several answers or drop the annotation, as `multi` says; without it they are an error.

    `labels` are the labels that are known: they are never cut.
    """
    if not rows.wants_annotations or rows.options is not None:
        return
    column = rows.columns["label"]
    texts: list[str] = column.values.to_pylist()
    occurs = np.bincount(column.codes[column.codes >= 0], minlength=len(texts)) > 0
    cells = {code: texts[code] for code in np.flatnonzero(occurs).tolist() if texts[code] not in labels}
    answers = _lists(cells) or _joined(rows, cells, labels)
    if not answers:
        return
    several = [code for code, parts in answers.items() if len(parts) > 1]
    mask = np.isin(column.codes, several)
    if several and multi is None:
        shown = ", ".join(repr(texts[code]) for code in several[:EXAMPLES]) + ", ..." * (len(several) > EXAMPLES)
        count = f"{mask.sum():,} annotations have" if mask.sum() > 1 else "an annotation has"
        raise rows.error(
            mask,
            f"{count} several answers ({shown}). Keep the first of each with "
            '`multi="first"`, or leave them out with `multi="drop"`. If they are labels of their own, list all labels '
            "with `labels`.",
        )
    first = [next(iter(answers.get(code, [text])), None) for code, text in enumerate(texts)]
    codes, values = encode(pa.array(first, pa.large_string()))
    rows.columns["label"] = Categorical(np.append(codes, NULL)[column.codes], values)
    _drop_gold(rows, {texts[code] for code in several})
    rows.record(SEVERAL_FIRST if multi == "first" else SEVERAL_DROPPED, mask)
    if multi == "drop" and several:
        rows.leave_out(mask)


def _drop_gold(rows: SourceRows, cells: Collection[str]) -> None:
    """Gold of several answers is no one label: it is left out where labels have several answers in the same way."""
    if "gold" not in rows.columns or not cells:
        return
    marks = [mark for mark in (*PLAIN, "[") if all(mark in cell for cell in cells)]
    gold = rows.columns["gold"]
    texts = gold.values.to_pylist()
    codes = [code for code, text in enumerate(texts) if text in cells or any(mark in text for mark in marks)]
    mask = np.isin(gold.codes, [code for code in codes if len(_parts(texts[code])) > 1])
    rows.record(SEVERAL_GOLD, mask)
    rows.columns["gold"] = Categorical(np.where(mask, NULL, gold.codes), gold.values)


def _parts(cell: str) -> Answers:
    """The answers of a cell that is known to be a list or to be joined."""
    if (parts := _list_of(cell)) is not None:
        return parts
    return max((_cut(cell, separator) for separator in SEPARATORS), key=len)


# ---------------------------------------------------------------- lists


def _lists(cells: Mapping[int, str]) -> dict[int, Answers]:
    """The answers of cells that are lists, where some have several and answers recur, or where all cells are lists.

    Intervals ("[18, 25]", "[26, 40]") are lists in which nothing recurs: they are labels.
    """
    answers = {code: parts for code, cell in cells.items() if (parts := _list_of(cell)) is not None}
    others = [cell.strip() for code, cell in cells.items() if code not in answers and cell.strip()]
    if all(len(parts) < 2 for parts in answers.values()):
        return {} if others else answers
    counts = Counter([*others, *(part for parts in answers.values() for part in parts)])
    recurs = any(counts[part] > 1 for parts in answers.values() for part in parts)
    return answers if recurs or any(len(parts) == 1 for parts in answers.values()) else {}


def _list_of(cell: str) -> Answers | None:
    cell = cell.strip()
    if not (cell.startswith("[") and cell.endswith("]")) or len(cell) > LONGEST_LIST:
        return None
    try:
        values: Any = json.loads(cell)
    except (ValueError, RecursionError):
        if not _WRITTEN_LIST.fullmatch(cell):
            return None
        values = [quoted[1:-1] for quoted in re.findall(_QUOTED, cell)]
    if not isinstance(values, list) or any(isinstance(value, list | dict) for value in values):
        return None
    parts = [text for value in values if (text := cell_text(value)) is not None and text.strip()]
    return list(dict.fromkeys(parts))


# ---------------------------------------------------------------- separators


def _joined(rows: SourceRows, cells: Mapping[int, str], labels: Collection[str]) -> dict[int, Answers]:
    """The answers of cells that are joined by a separator: the one that explains most of them."""
    best: dict[int, Answers] = {}
    for separator in SEPARATORS:
        candidates = {code: _cut(cell, separator) for code, cell in cells.items() if separator in cell}
        if not candidates:
            continue
        alone = {cell.strip() for code, cell in cells.items() if code not in candidates} | set(labels)
        joined = {code: parts for code, parts in candidates.items() if len(parts) > 1 and alone.issuperset(parts)}
        if separator == "," and joined and all(_NUMBER.fullmatch(p) for parts in joined.values() for p in parts):
            _warn_of_numbers(rows, [cells[code] for code in joined])
            continue
        if joined and separator in PLAIN:
            joined = {code: parts for code, parts in candidates.items() if parts}
        if len(joined) > len(best):
            best = joined
    return best


def _cut(cell: str, separator: str) -> Answers:
    return list(dict.fromkeys(part for each in cell.split(separator) if (part := each.strip())))


def _warn_of_numbers(rows: SourceRows, cells: Sequence[str]) -> None:
    """1,5 may be one and five, or one and a half."""
    shown = ", ".join(repr(cell) for cell in cells[:EXAMPLES])
    rows.ledger.warn(
        f"labels such as {shown} are read as one label each. If they are several answers, join them by | or ; in the "
        "table."
    )
