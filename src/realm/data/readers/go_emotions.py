"""GoEmotions raw: one row per rater and comment, one 0/1 column per emotion."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from realm.data.columns import Mask, as_text, take_column
from realm.data.ledger import Ledger
from realm.data.readers.crowd_tables import column
from realm.data.readers.fields import listed, named_fields
from realm.data.readers.files import SourceFile
from realm.data.readers.long_table import NO_ANSWER, LongTable, resolve_multiple
from realm.data.request import ReadRequest
from realm.errors import RealmError

EMOTIONS = (
    "admiration", "amusement", "anger", "annoyance", "approval", "caring", "confusion", "curiosity", "desire",
    "disappointment", "disapproval", "disgust", "embarrassment", "excitement", "fear", "gratitude", "grief", "joy",
    "love", "nervousness", "optimism", "pride", "realization", "relief", "remorse", "sadness", "surprise", "neutral",
)  # fmt: skip
UNCLEAR = "marked as very unclear"
UNCLEAR_COLUMN = "example_very_unclear"


def matches(file: SourceFile) -> bool:
    return {"rater_id", UNCLEAR_COLUMN} <= file.names


def read(file: SourceFile, request: ReadRequest) -> LongTable:
    """Read the ratings. `label` lists the columns of the labels, comma separated, where they are not the emotions."""
    table, source, ledger = file.table(), file.source, Ledger()
    columns = tuple(request.label.split(",")) if request.label else EMOTIONS
    names = [name for name in columns if name in table.column_names]
    if len(names) < 2 or (request.label and len(names) < len(columns)):
        raise RealmError(f"{source}: `label` must list two columns or more of: {listed(table.column_names)}.")
    ratings = np.stack([_flags(table, name, source) for name in names], axis=1)
    count = ratings.sum(1)
    unclear = (
        _flags(table, UNCLEAR_COLUMN, source) if UNCLEAR_COLUMN in table.column_names else np.zeros(len(table), bool)
    )
    dropped = np.zeros(len(table), dtype=bool)
    if request.wants_annotations:
        dropped = unclear | (count == 0)
        ledger.add(UNCLEAR, np.flatnonzero(unclear) + 1)
        ledger.add(NO_ANSWER, np.flatnonzero((count == 0) & ~unclear) + 1)
        several = (count > 1) & ~unclear
        resolve_multiple(np.flatnonzero(several) + 1, request.multi, ledger, source)
        if request.multi == "drop":
            dropped |= several
    rows = np.flatnonzero(~dropped)
    if not len(rows):
        raise RealmError(f"{source}: no row has a label.")
    index = pa.array(rows)
    roles = {"text": request.text or "text", "annotator": request.annotator or "rater_id"}
    if "id" in table.column_names:
        roles["item"] = "id"
    roles |= named_fields(request, table.column_names, source)
    long = {role: column(table, name, role, source).take(index) for role, name in roles.items()}
    long["label"] = pa.array(names, pa.large_string()).take(pa.array(ratings.argmax(1)[rows]))
    return LongTable(pa.table(long), rows + 1, ledger, None if not request.wants_annotations else names)


def _flags(table: pa.Table, name: str, source: str) -> Mask:
    """A 0/1 or true/false column. Shape (rows,)."""
    values = as_text(take_column(table, name, source), name, source)
    encoded = values.dictionary_encode()
    meaning = []
    for value in encoded.dictionary.to_pylist():
        word = value.strip().lower()
        if word not in ("", "0", "1", "0.0", "1.0", "true", "false"):
            raise RealmError(f"{source}: column '{name}' must hold 0 or 1, not '{value}'.")
        meaning.append(word in ("1", "1.0", "true"))
    codes = encoded.indices.fill_null(len(meaning)).to_numpy(zero_copy_only=False)
    return np.asarray(np.array([*meaning, False], dtype=bool)[codes], dtype=bool)
