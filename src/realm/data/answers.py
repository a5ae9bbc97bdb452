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
from collections.abc import Sequence

import numpy as np

from realm.data.columns import cell_text, number
from realm.data.label_sets import join_list
from realm.data.long_table import SourceRows
from realm.data.roles import listed
from realm.errors import RealmError

SEVERAL_FIRST = "several answers in one annotation: the first is kept"
SEVERAL_DROPPED = "several answers in one annotation: dropped"
SEVERAL_GOLD = "gold with several answers: not read"
LIST, COMMA = "[", ","
MARKS = (LIST, "|", ";", "\n", COMMA)
"""What joins answers. Hardly any label has one but the comma in it: where one joins two labels, it joins all."""
_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_WRITTEN_LIST = re.compile(rf"\[\s*(?:{_QUOTED})(?:[\s,]+(?:{_QUOTED}))*\s*,?\s*\]")
"""A list as Python or numpy prints it, which is what a column of lists becomes in a CSV."""
UNANSWERED = "no answer"
"""How the ledger begins the reason of a label that is none; the label follows."""
REFUSALS = {
    *("refused", "refusal", "refuse", "n/a", "na", "none", "null", "unable to answer", "cannot answer", "no answer"),
    *("unanswered", "no verdict", "error", "parse error", "invalid", "failed"),
}
"""What tables of judges have where a judge gave no verdict. They are only warned of: each may be a label, too."""
RARE = 0.2
"""Words of `REFUSALS` are warned of up to this share of the labels: what is more frequent is meant as a label."""


def resolve_several(rows: SourceRows) -> None:
    """Keep the first of several answers or drop the annotation, as `multi` says; without it they are an error."""
    if not rows.options.wants_annotations or "options" in rows.columns:
        return
    multi, known = rows.options.multi, {*rows.known, *rows.corrections.map_labels}
    cells = [text for text in rows.columns["label"].counts() if text not in known]
    mark, answers = _find_answers(cells, known, rows.lists_answers)
    several = [cell for cell, parts in answers.items() if len(parts) > 1]
    mask = rows.columns["label"].where(several)
    if several and multi is None:
        raise rows.error(
            mask,
            f"{f'{mask.sum():,} annotations have' if mask.sum() > 1 else 'an annotation has'} several answers "
            f'({listed(list(map(repr, several)), 3)}). Keep the first of each with `multi="first"`, or leave them out '
            'with `multi="drop"`. If they are labels of their own, list all labels with `labels`.',
        )
    rows.rename("label", {cell: parts[0] if parts else None for cell, parts in answers.items()})
    if several and "gold" in rows.columns:
        golds = [gold for gold in rows.columns["gold"].counts() if len(_cut(gold, mark) or ()) > 1]
        rows.rename("gold", {gold: None for gold in golds if mark != COMMA or gold in several}, SEVERAL_GOLD)
    rows.record(SEVERAL_FIRST if multi == "first" else SEVERAL_DROPPED, mask)
    if multi == "drop" and several:
        rows.leave_out(mask)


def _find_answers(cells: Sequence[str], known: set[str], lists_only: bool) -> tuple[str, dict[str, list[str]]]:
    """What joins answers in most of the cells, and the answers of each of these.

    Lists that may be labels, such as intervals ("[18, 25]", "[26, 40]"), are answers where one of them recurs.
    """
    best_mark, best = LIST, dict[str, list[str]]()
    marks = (LIST,) if lists_only else MARKS
    for mark in marks:
        parts = {cell: cut for cell in cells if mark in cell and (cut := _cut(cell, mark)) is not None}
        others = {cell.strip() for cell in cells if cell not in parts} | known
        if mark == LIST:
            seen = Counter([*others, *(part for cut in parts.values() for part in cut)])
            are_single = not others and all(len(cut) < 2 for cut in parts.values())
            if not lists_only and not are_single and max(seen.values(), default=0) < 2:
                continue
        else:
            joined = [cell for cell, cut in parts.items() if len(cut) > 1 and others.issuperset(cut)]
            parts = {cell: parts[cell] for cell in (joined if mark == COMMA or not joined else parts)}
        if len(parts) > len(best):
            best_mark, best = mark, parts
    return best_mark, best


def _cut(cell: str, mark: str) -> list[str] | None:
    """The answers that a mark joins; None where a cell is no list."""
    cell = cell.strip()
    if mark != LIST:
        return list(dict.fromkeys(part for each in cell.split(mark) if (part := each.strip())))
    if not (cell.startswith("[") and cell.endswith("]")):
        return None
    try:
        values = json.loads(cell)
    except (ValueError, RecursionError):
        if not _WRITTEN_LIST.fullmatch(cell):
            return None
        values = [quoted[1:-1] for quoted in re.findall(_QUOTED, cell)]
    texts = [cell_text(value) or "" for value in values]
    return list(dict.fromkeys(text for text in texts if text.strip()))


def answers_of(cell: object) -> list[str]:
    """The answers of a cell of labels that lists several or holds one."""
    text = cell_text(cell)
    return [] if not text else _cut(text, LIST) or [text]


def _word(label: str) -> str:
    """A label without case, the spaces around it and a full stop at its end."""
    return label.strip().rstrip(".").casefold()


def drop_unanswered(rows: SourceRows) -> None:
    """Leave out the rows whose label is one of `unanswered`, whatever its case; gold that is one of them is no gold."""
    words = rows.options.unanswered or ()
    if any(not _word(word) for word in words):
        raise RealmError(f"`unanswered={join_list(words)}`: one word is blank. Blanks have `missing`.")
    for role in ("gold", "label"):
        if not words or role not in rows.columns:
            continue
        column, drop = rows.columns[role], np.zeros(len(rows), dtype=bool)
        for word in dict.fromkeys(map(_word, words)):
            matches = column.where([text for text in column.values if _word(text) == word])
            rows.record(f"{UNANSWERED}{' in gold' * (role == 'gold')}: {word}", matches)
            drop |= matches
        if role == "gold":
            rows.columns[role] = column.null_where(drop)
        else:
            rows.leave_out(drop)
            rows.refuse_no_annotation(join_list(words))


def warn_of_refusals(rows: SourceRows) -> None:
    """Warn of labels that look like refusals, unless they are listed among the labels."""
    if "label" not in rows.columns or "options" in rows.columns:
        return
    counts, meant = rows.columns["label"].counts(), set(rows.labels or ())
    suspects = [text for text in counts if _word(text) in REFUSALS and text not in meant]
    suspects = [text for text in suspects if counts[text] <= RARE * sum(counts.values())]
    if suspects and len(counts) - len(suspects) >= 2:  # with fewer others they cannot be anything but labels
        shown = ", ".join(f"'{text}' ({counts[text]:,})" for text in suspects)
        fix = f'leave them out with `unanswered="{join_list(suspects)}"`'
        rows.ledger.warn(f"some labels look like no answer: {shown}. If they are none, {fix}.")


def cut_scores(rows: SourceRows) -> None:
    """Make two options of scores: the first below `threshold`, the second at it and above.

    They are called as the labels or the run's tasks are. Gold is cut as well, unless all of it is in these words.
    """
    threshold, tasks = rows.options.threshold, rows.options.tasks
    if threshold is None:
        return
    start = f"`threshold={threshold:g}`"
    if not math.isfinite(threshold) or "options" in rows.columns:
        raise rows.source.error(f"{start}: must be a number, and is not for items that list their own options.")
    label_sets = [task.labels or () for task in tasks] if tasks else [rows.labels] if rows.labels else []
    names, *others = {tuple(labels) for labels in label_sets} or {(f"below {threshold:g}", f"{threshold:g} or more")}
    if others or len(names) != 2:
        raise rows.source.error(
            f"{start} makes two options, and the labels are {'; '.join(map(join_list, [names, *others]))}. Give the "
            "names of two with `labels`, that of the low scores first."
        )
    for role in ("label", "gold"):
        if role not in rows.columns:
            continue
        rows.columns[role] = rows.columns[role].null_where(rows.columns[role].missing(label=True))
        texts = rows.columns[role].counts()
        if role == "gold" and texts.keys() <= set(names):
            continue
        if wrong := [text for text in texts if math.isnan(number(text))]:
            message = f"the {role} '{wrong[0]}' is no number, and {start} cuts scores. If it is no answer, leave it out"
            raise rows.error(rows.columns[role].where(wrong), f"{message} with `unanswered`.")
        sides: dict[str, str | None] = {text: names[number(text) >= threshold] for text in texts}
        rows.rename(role, sides)
        if role == "gold" and len(set(sides.values())) == 1:
            side = next(iter(sides.values()))
            rows.ledger.warn(f"all gold is '{side}': is it on the scale of the scores that `threshold` cuts?")
    rows.labels = names
