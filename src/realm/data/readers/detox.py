"""Wikipedia Detox: `NAME_annotations.tsv` (a row per annotation) joined to `NAME_annotated_comments.tsv` on rev_id."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from realm.data.categorical import Categorical
from realm.data.columns import as_text, blank
from realm.data.readers.fields import column_in, pick
from realm.data.readers.files import SourceFile, open_file
from realm.data.readers.long_table import NO_ANSWER, LongTable, drop_rows
from realm.data.roles import ReadRequest
from realm.errors import RealmError

QUESTIONS = ("toxicity", "attack", "aggression")
NO_COMMENT = "annotation of a comment that is not in the file of comments"
ANNOTATIONS, COMMENTS = "_annotations.", "_annotated_comments."


def matches(file: SourceFile) -> bool:
    return {"rev_id", "worker_id"} <= file.names or {"rev_id", "comment"} <= file.names


def read(file: SourceFile, request: ReadRequest) -> LongTable:
    """Read the pair of files, either of which may be named; row n is annotation n."""
    annotations, comments = _pair(file, file.path)
    source, texts = annotations.source, comments.table()
    for role in ("item", "task", "options", "context"):
        if (name := getattr(request, role)) is not None:
            raise RealmError(
                f'{source}: `{role}="{name}"`: not for this format. If it is your own, use `format="table"`.'
            )
    items = {
        "item": _numbers(texts, "rev_id", "item", comments.source),
        "text": _comment(texts, request, comments.source),
    }
    if request.gold:
        items["gold"] = column_in(texts, request.gold, "gold", comments.source)
    if not request.wants_annotations:
        return drop_rows(items, {}, comments.source)
    table = annotations.table()
    candidates = [name for name in table.column_names if name not in ("rev_id", "worker_id")]
    question = pick(request, "label", candidates, source, usual=QUESTIONS)
    label = as_text(column_in(table, question, "label", source), question, source)
    comment = pc.index_in(_numbers(table, "rev_id", "item", source), value_set=items["item"])
    columns = {role: column.take(comment) for role, column in items.items()}
    columns["annotator"] = _numbers(table, request.annotator or "worker_id", "annotator", source)
    return drop_rows(
        columns | {"label": label}, {NO_COMMENT: np.asarray(comment.is_null()), NO_ANSWER: blank(label)}, source
    )


def _pair(file: SourceFile, path: Path) -> tuple[SourceFile, SourceFile]:
    is_annotations = "worker_id" in file.names
    own, other = (ANNOTATIONS, COMMENTS) if is_annotations else (COMMENTS, ANNOTATIONS)
    if own not in path.name:
        kind = "comments" if is_annotations else "annotations"
        raise RealmError(
            f"{path}: the file of {kind} that belongs to it is not known. Name the two files "
            f"NAME{ANNOTATIONS}tsv and NAME{COMMENTS}tsv, in one folder."
        )
    beside = path.with_name(path.name.replace(own, other))
    if not beside.exists():
        raise RealmError(f"{path}: {beside.name} must lie beside it; there is no such file.")
    second = open_file(beside)
    return (file, second) if is_annotations else (second, file)


def _numbers(table: pa.Table, name: str, role: str, source: str) -> pa.LargeStringArray:
    """Some of the published files write 2232.0 for 2232."""
    return Categorical.of(column_in(table, name, role, source), name, source).whole_numbers()[0].text()


def _comment(table: pa.Table, request: ReadRequest, source: str) -> pa.LargeStringArray:
    name = request.text or "comment"
    text = as_text(column_in(table, name, "text", source), name, source)
    for token, mark in (("NEWLINE_TOKEN", "\n"), ("TAB_TOKEN", "\t")):
        text = pc.replace_substring(text, pattern=token, replacement=mark)
    return pc.utf8_trim_whitespace(text)
