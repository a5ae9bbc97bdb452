"""GoEmotions raw: one row per rater and comment, one 0/1 column per emotion."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from realm.data.columns import Mask, as_text
from realm.data.readers.fields import check_fields, column_in
from realm.data.readers.files import SourceFile
from realm.data.readers.long_table import NO_ANSWER, SEVERAL_DROPPED, LongTable, drop_rows, resolve_multiple
from realm.data.roles import ITEM_ROLES, ReadRequest, listed
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
    table, source = file.table(), file.source
    columns = tuple(request.label.split(",")) if request.label else EMOTIONS
    labels = [name for name in columns if name in table.column_names]
    if len(labels) < 2 or (request.label and len(labels) < len(columns)):
        raise RealmError(f"{source}: `label` must list two columns or more of: {listed(table.column_names)}.")
    check_fields(request, ITEM_ROLES, table.column_names, source)
    roles = {"text": request.text or "text", "annotator": request.annotator or "rater_id"}
    if "id" in table.column_names:
        roles["item"] = "id"
    roles |= request.columns(ITEM_ROLES)
    long = {role: column_in(table, name, role, source) for role, name in roles.items()}
    ratings = np.stack([_flags(table, name, source) for name in labels], axis=1)
    count = ratings.sum(1)
    long["label"] = pa.array(labels, pa.large_string()).take(pa.array(ratings.argmax(1)))
    if not request.wants_annotations:
        return drop_rows(long, {}, source)
    unclear = np.zeros(len(table), dtype=bool)
    if UNCLEAR_COLUMN in table.column_names:
        unclear = _flags(table, UNCLEAR_COLUMN, source)
    several = (count > 1) & ~unclear
    reasons = {UNCLEAR: unclear, NO_ANSWER: count == 0}
    if request.multi == "drop":
        reasons[SEVERAL_DROPPED] = several
    long_table = drop_rows(long, reasons, source)
    if request.multi != "drop":
        resolve_multiple(np.flatnonzero(several) + 1, request.multi, long_table.ledger, source)
    return replace(long_table, labels=labels)


def _flags(table: pa.Table, name: str, source: str) -> Mask:
    """A 0/1 or true/false column. Shape (rows,)."""
    encoded = as_text(table.column(name), name, source).dictionary_encode()
    meaning = []
    for value in encoded.dictionary.to_pylist():
        word = value.strip().lower()
        if word not in ("", "0", "1", "0.0", "1.0", "true", "false"):
            raise RealmError(f"{source}: column '{name}' must hold 0 or 1, not '{value}'.")
        meaning.append(word in ("1", "1.0", "true"))
    flags: Mask = np.array([*meaning, False])[np.asarray(encoded.indices.fill_null(len(meaning)))]
    return flags
