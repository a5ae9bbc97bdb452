"""Labels that are not one label yet: several answers in a cell, answers that are none, and scores.

A cell is several answers if it is a list, or if it can be cut at one separator into labels each of which other
annotations give alone. A label that merely has a separator in it ("yes, always") is cut into parts that nobody gives
alone, and stays one label. So does every label that the user lists.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from realm.data.columns import cell_text, number
from realm.data.items import Task
from realm.data.label_sets import join_list
from realm.data.read_options import Multi
from realm.data.roles import listed
from realm.data.rows import SourceRows
from realm.errors import RealmError

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
UNANSWERED = "no answer"
"""How the ledger begins the reason of a label that is none; the label follows."""
REFUSALS = frozenset(
    {
        "refused", "refusal", "refuse", "n/a", "na", "none", "null", "unable to answer", "cannot answer",
        "can't answer", "no answer", "unanswered", "no verdict", "error", "parse error", "parsing error", "invalid",
        "failed",
    }
)  # fmt: skip
"""What tables of judges have where a judge gave no verdict. They are only warned of: each may be a label, too."""
RARE = 0.2
"""Words of `REFUSALS` are warned of up to this share of the labels: what is more frequent is meant as a label."""


def resolve_several(rows: SourceRows, multi: Multi | None, labels: Collection[str]) -> None:
    """Keep the first of several answers or drop the annotation, as `multi` says; without it they are an error.

    `labels` are the labels that are known: they are never cut.
    """
    if not rows.wants_annotations or rows.options is not None:
        return
    column = rows.columns["label"]
    cells = [text for text in column.occurring() if text is not None and text not in labels]
    answers = _lists(cells, rows.lists_answers)
    if not answers and not rows.lists_answers:
        answers = _joined(rows, cells, labels)
    several = [cell for cell, parts in answers.items() if len(parts) > 1]
    codes = {text: code for code, text in enumerate(column.values.to_pylist())}
    mask = np.isin(column.codes, [codes[cell] for cell in several])
    if several and multi is None:
        count = f"{mask.sum():,} annotations have" if mask.sum() > 1 else "an annotation has"
        raise rows.error(
            mask,
            f"{count} several answers ({listed([repr(cell) for cell in several], EXAMPLES)}). Keep the first of each "
            'with `multi="first"`, or leave them out with `multi="drop"`. If they are labels of their own, list all '
            "labels with `labels`.",
        )
    first = {cell: next(iter(parts), None) for cell, parts in answers.items()}
    rows.columns["label"], _ = column.renamed(lambda text: first.get(text, text))
    _drop_gold(rows, several)
    rows.record(SEVERAL_FIRST if multi == "first" else SEVERAL_DROPPED, mask)
    if multi == "drop" and several:
        rows.leave_out(mask)


def _drop_gold(rows: SourceRows, several: Collection[str]) -> None:
    """Gold of several answers is no one label: it is left out where labels have several answers in the same way."""
    if "gold" not in rows.columns or not several:
        return
    marks = [mark for mark in (*PLAIN, "[") if all(mark in cell for cell in several)]

    def is_several(text: str) -> bool:
        if text not in several and not any(mark in text for mark in marks):
            return False
        parts = _list_of(text)
        return len(parts if parts is not None else max((_cut(text, mark) for mark in SEPARATORS), key=len)) > 1

    rows.columns["gold"], dropped = rows.columns["gold"].renamed(lambda text: None if is_several(text) else text)
    rows.record(SEVERAL_GOLD, dropped)


def _lists(cells: Sequence[str], are_lists: bool) -> dict[str, list[str]]:
    """The answers of cells that are lists. Of text that only may be one, some must have several answers that recur.

    Intervals ("[18, 25]", "[26, 40]") are lists in which nothing recurs: they are labels.
    """
    answers = {cell: parts for cell in cells if (parts := _list_of(cell)) is not None}
    others = {cell.strip() for cell in cells if cell not in answers and cell.strip()}
    if are_lists or (not others and all(len(parts) < 2 for parts in answers.values())):
        return answers
    if all(len(parts) < 2 for parts in answers.values()):  # "a" is what others say in ["a"]
        return {cell: parts for cell, parts in answers.items() if others.issuperset(parts)}
    counts = Counter([*others, *(part for parts in answers.values() for part in parts)])
    recurs = any(counts[part] > 1 for parts in answers.values() for part in parts)
    return answers if recurs or any(len(parts) == 1 for parts in answers.values()) else {}


def _list_of(cell: str) -> list[str] | None:
    cell = cell.strip()
    if not (cell.startswith("[") and cell.endswith("]")) or len(cell) > LONGEST_LIST:
        return None
    try:
        values = json.loads(cell)
    except (ValueError, RecursionError):
        if not _WRITTEN_LIST.fullmatch(cell):
            return None
        values = [quoted[1:-1] for quoted in re.findall(_QUOTED, cell)]
    if not isinstance(values, list) or any(isinstance(value, list | dict) for value in values):
        return None
    parts = [text for value in values if (text := cell_text(value)) is not None and text.strip()]
    return list(dict.fromkeys(parts))


def answers_of(cell: object) -> list[str]:
    """The answers of a cell of labels that lists several or holds one."""
    text = cell_text(cell)
    return [] if not text else _list_of(text) or [text]


def _joined(rows: SourceRows, cells: Sequence[str], labels: Collection[str]) -> dict[str, list[str]]:
    """The answers of cells that are joined by a separator: the one that explains most of them."""
    best: dict[str, list[str]] = {}
    for separator in SEPARATORS:
        candidates = {cell: _cut(cell, separator) for cell in cells if separator in cell}
        alone = {cell.strip() for cell in cells if cell not in candidates} | set(labels)
        joined = {cell: parts for cell, parts in candidates.items() if len(parts) > 1 and alone.issuperset(parts)}
        if separator == "," and joined and all(part.isdigit() for parts in joined.values() for part in parts):
            shown = ", ".join(map(repr, list(joined)[:EXAMPLES]))  # 1,5 may be one and five, or one and a half
            rows.ledger.warn(
                f"labels such as {shown} are read as one label each. If they are several answers, join them by | or ; "
                "in the table."
            )
            continue
        if joined and separator in PLAIN:
            joined = {cell: parts for cell, parts in candidates.items() if parts}
        best = max(best, joined, key=len)
    return best


def _cut(cell: str, separator: str) -> list[str]:
    return list(dict.fromkeys(part for each in cell.split(separator) if (part := each.strip())))


# ---------------------------------------------------------------- answers that are none


def _word(label: str) -> str:
    """A label without case, the spaces around it and a full stop at its end."""
    return label.strip().rstrip(".").casefold()


def drop_unanswered(rows: SourceRows, words: Sequence[str]) -> None:
    """Leave out the rows whose label is one of these words, whatever its case, and count them by word.

    Gold that is one of them is no gold.
    """
    if blank := [word for word in words if not _word(word)]:
        raise RealmError(f"`unanswered={join_list(words)}`: {blank[0]!r} is blank. Blanks have `missing`.")
    for role in ("gold", "label"):
        if role not in rows.columns:
            continue
        column = rows.columns[role]
        texts = [_word(text) for text in column.values.to_pylist()]
        drop = np.zeros(len(rows), dtype=bool)
        for word in dict.fromkeys(map(_word, words)):
            matches = np.array([*(text == word for text in texts), False])[column.codes]
            rows.record(f"{UNANSWERED}{' in gold' * (role == 'gold')}: {word}", matches)
            drop |= matches
        if role == "gold":
            rows.columns[role] = column.null_where(drop)
        elif drop.any():
            rows.leave_out(drop)
            rows.refuse_no_annotation(join_list(words))


def warn_of_refusals(rows: SourceRows, labels: Iterable[str] = ()) -> None:
    """Warn of labels that look like refusals, unless they are listed among the labels."""
    if "label" not in rows.columns or rows.options is not None:
        return
    column = rows.columns["label"]
    counts = column.counts()
    known = set(labels)
    suspects = {
        text: int(count)
        for text, count in zip(column.values.to_pylist(), counts.tolist(), strict=True)
        if count and text not in known and _word(text) in REFUSALS and count <= RARE * counts.sum()
    }
    # with fewer than two other labels they cannot be anything but labels
    if suspects and np.count_nonzero(counts) - len(suspects) >= 2:
        found = ", ".join(f"'{text}' ({count:,})" for text, count in suspects.items())
        rows.ledger.warn(
            f"some labels look like no answer: {found}. If they are none, leave them out with "
            f'`unanswered="{join_list(suspects)}"`.'
        )


# ---------------------------------------------------------------- scores


def cut_scores(
    rows: SourceRows, threshold: float, labels: Sequence[str] | None, tasks: Sequence[Task] | None
) -> tuple[str, str]:
    """Make two options of scores: the first below the threshold, the second at it and above. Returns their names.

    They are called as `labels` says, or as the run's `tasks` do. Gold is cut as well, unless all of it is in the words
    of the two options.
    """
    if not math.isfinite(threshold):
        raise RealmError(f"`threshold={threshold}`: must be a number.")
    if rows.options is not None:
        raise rows.source.error(f"`threshold={threshold:g}`: not where items list their own options.")
    sets = {tuple(task.labels or ()) for task in tasks} if tasks else {tuple(labels)} if labels else set()
    names, *others = sets or {(f"below {threshold:g}", f"{threshold:g} or more")}
    if others or len(names) != 2:
        raise rows.source.error(
            f"`threshold={threshold:g}` makes two options, and the labels are {'; '.join(map(join_list, sets))}. Give "
            "the names of two with `labels`, that of the low scores first."
        )
    for role in ("label", "gold"):
        if role not in rows.columns:
            continue
        column = rows.columns[role]
        column = column.null_where(column.missing(label=True))
        texts = {text for text in column.occurring() if text is not None}
        if role == "gold" and texts <= set(names):
            continue
        if wrong := [text for text in texts if math.isnan(number(text))]:
            is_wrong = column.renamed(lambda text: None if text in wrong else text)[1]
            first = column.at(int(np.flatnonzero(is_wrong)[0]))
            raise rows.error(
                is_wrong,
                f"the {role} '{first}' is no number, and `threshold={threshold:g}` cuts scores. "
                "If it is no answer, leave it out with `unanswered`.",
            )
        rows.columns[role], _ = column.renamed(lambda text: names[number(text) >= threshold])
        if role == "gold" and len(sides := {number(text) >= threshold for text in texts}) == 1:
            rows.ledger.warn(
                f"all gold is '{names[sides.pop()]}': is it on the scale of the scores that `threshold` cuts?"
            )
    return names[0], names[1]
