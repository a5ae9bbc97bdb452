"""Verdicts of judges that are not labels yet: scores that a threshold cuts in two, and answers that are none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from realm.data.categorical import Categorical, Codes, encode
from realm.data.columns import number
from realm.data.items import Task
from realm.data.label_sets import join_list
from realm.data.ledger import Ledger
from realm.data.rows import SourceRows
from realm.errors import RealmError

UNANSWERED = "no answer"
"""How the ledger begins the reason of a label that is none; the label follows."""
REFUSALS = frozenset(
    {
        "refused", "refusal", "refuse", "n/a", "na", "#n/a", "none", "null", "unable to answer", "cannot answer",
        "can't answer", "no answer", "unanswered", "no verdict", "error", "parse error", "parsing error", "invalid",
        "failed",
    }
)  # fmt: skip
"""What tables of judges have where a judge gave no verdict. They are only warned of: each may be a label, too."""
RARE = 0.2
"""Words of `REFUSALS` are warned of up to this share of the labels: what is more frequent is meant as a label."""


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
        keep = np.ones(len(rows), dtype=bool)
        for word in dict.fromkeys(map(_word, words)):
            matches = np.array([*(text == word for text in texts), False])[column.codes] & (column.codes >= 0)
            rows.record(f"{UNANSWERED}{' in gold' * (role == 'gold')}: {word}", matches)
            keep &= ~matches
        if role == "gold":
            rows.columns[role] = Categorical(np.where(keep, column.codes, -1), column.values)
        elif not keep.all():
            rows.leave_out(~keep)
            if not rows.annotated.any():
                raise RealmError(
                    f"{rows.source}: there is not one annotation in it: every label is {join_list(words)}."
                )


def warn_of_refusals(rows: SourceRows, labels: Iterable[str] = ()) -> None:
    """Warn of labels that look like refusals, unless they are listed among the labels."""
    if "label" not in rows.columns or rows.options is not None:
        return
    column = rows.columns["label"]
    counts = np.bincount(column.codes[column.codes >= 0], minlength=len(column.values))
    listed = set(labels)
    suspects = {
        text: int(count)
        for text, count in zip(column.values.to_pylist(), counts.tolist(), strict=True)
        if count and text not in listed and _word(text) in REFUSALS and count <= RARE * counts.sum()
    }
    # with fewer than two other labels they cannot be anything but labels
    if suspects and np.count_nonzero(counts) - len(suspects) >= 2:
        found = ", ".join(f"'{text}' ({count:,})" for text, count in suspects.items())
        rows.ledger.warn(
            f"some labels look like no answer: {found}. If they are none, leave them out with "
            f'`unanswered="{join_list(suspects)}"`.'
        )


# ---------------------------------------------------------------- scores


def threshold_labels(threshold: float) -> tuple[str, str]:
    """What the two options are called where nobody names them."""
    return f"below {threshold:g}", f"{threshold:g} or more"


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
        raise RealmError(f"{rows.source}: `threshold={threshold:g}`: not where items list their own options.")
    names = _two_names(rows.source, threshold, labels, tasks)
    for role in ("label", "gold"):
        if role not in rows.columns:
            continue
        column = rows.columns[role].without_blanks(nan_words=True)
        texts = column.values.to_pylist()
        occurring = np.unique(column.codes[column.codes >= 0]).tolist()
        if role == "gold" and all(texts[code] in names for code in occurring):
            continue
        numbers = np.array([*(number(text) for text in texts), np.nan])
        if (wrong := np.flatnonzero((column.codes >= 0) & np.isnan(numbers[column.codes]))).size:
            raise rows.error(
                wrong,
                f"the {role} '{column.at(int(wrong[0]))}' is no number, and `threshold={threshold:g}` cuts scores. "
                "If it is no answer, leave it out with `unanswered`.",
            )
        codes = np.where(column.codes >= 0, (numbers >= threshold)[column.codes].astype(np.int64), -1)
        _warn_of_one_side(rows.ledger, role, codes, names)
        present, values = encode(pa.array(names, pa.large_string()))
        rows.columns[role] = Categorical(np.where(codes >= 0, present[codes], -1), values)
    return names


def _two_names(
    source: str, threshold: float, labels: Sequence[str] | None, tasks: Sequence[Task] | None
) -> tuple[str, str]:
    sets = {tuple(task.labels or ()) for task in tasks} if tasks else {tuple(labels)} if labels else set()
    if not sets:
        return threshold_labels(threshold)
    first, *others = sets
    if others or len(first) != 2:
        given = "; ".join(join_list(each) for each in sets)
        raise RealmError(
            f"{source}: `threshold={threshold:g}` makes two options, and the labels are {given}. Give the names of two "
            "with `labels`, that of the low scores first."
        )
    return first[0], first[1]


def _warn_of_one_side(ledger: Ledger, role: str, codes: Codes, names: Sequence[str]) -> None:
    sides = np.unique(codes[codes >= 0])
    if role == "gold" and len(sides) == 1:
        ledger.warn(f"all gold is '{names[int(sides[0])]}': is it on the scale of the scores that `threshold` cuts?")
