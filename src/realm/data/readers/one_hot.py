"""One row per item and annotator, and one 0/1 column per label, as in the raw form of GoEmotions.

Labels are the columns that hold nothing but 0 and 1, or those that `label` lists, comma separated.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from realm.data.columns import Mask, as_text
from realm.data.long_table import NO_ANSWER, LongTable, without_rows
from realm.data.read_options import ReadOptions
from realm.data.readers.fields import check_fields, column_in
from realm.data.readers.files import SourceFile
from realm.data.roles import ITEM_ROLES, listed

UNCLEAR = "marked as very unclear"
UNCLEAR_COLUMN = "example_very_unclear"
TRUE, FALSE = ("1", "1.0", "true", "True"), ("", "0", "0.0", "false", "False")


def matches(file: SourceFile) -> bool:
    return {"rater_id", UNCLEAR_COLUMN} <= file.names


def read(file: SourceFile, options: ReadOptions) -> LongTable:
    """Read the ratings; row n is rating n."""
    table, source = file.table(), file.source
    check_fields(options, ITEM_ROLES, table.column_names, source)
    roles = {"text": options.text or "text", "annotator": options.annotator or "rater_id"}
    if "id" in table.column_names:
        roles["item"] = "id"
    roles |= options.columns(ITEM_ROLES)
    columns = {role: column_in(table, name, role, source) for role, name in roles.items()}
    if not options.wants_annotations:
        return without_rows(columns, {}, source)
    own = options.label.split(",") if options.label else None
    names = [name for name in table.column_names if name not in (UNCLEAR_COLUMN, *roles.values())]
    flags: dict[str, Mask] = {}
    for name in own or names:
        if name in table.column_names and (values := _flags(as_text(table.column(name), name, source))) is not None:
            flags[name] = values
    if len(flags) < 2 or len(flags) < len(own or ()):
        raise source.error(f"`label` must list two columns of 0 and 1 or more of: {listed(names)}.")
    ratings = np.stack(list(flags.values()), axis=1)
    answers = pa.array(list(flags), pa.large_string()).take(pa.array(np.nonzero(ratings)[1]))
    columns["label"] = pa.LargeListArray.from_arrays(np.concatenate([[0], np.cumsum(ratings.sum(1))]), answers)
    reasons: dict[str, Mask] = {}
    if UNCLEAR_COLUMN in table.column_names:
        unclear = _flags(as_text(table.column(UNCLEAR_COLUMN), UNCLEAR_COLUMN, source))
        reasons |= {} if unclear is None else {UNCLEAR: unclear}
    is_empty: Mask = ratings.sum(1) == 0
    return without_rows(columns, {**reasons, NO_ANSWER: is_empty}, source, labels=list(flags))


def _flags(column: pa.LargeStringArray) -> Mask | None:
    """A 0/1 or true/false column; None for any other. Shape (rows,)."""
    is_true = np.asarray(pc.is_in(column, value_set=pa.array(TRUE, pa.large_string())))
    is_false = np.asarray(pc.is_in(column.fill_null(""), value_set=pa.array(FALSE, pa.large_string())))
    return is_true if (is_true | is_false).all() else None
