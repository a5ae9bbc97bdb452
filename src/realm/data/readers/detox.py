"""Wikipedia Detox: `NAME_annotations.tsv` (a row per annotation) joined to `NAME_annotated_comments.tsv` on rev_id."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from realm.data.categorical import Categorical
from realm.data.columns import as_text, blank
from realm.data.ledger import Ledger
from realm.data.readers.crowd_tables import column
from realm.data.readers.fields import pick
from realm.data.readers.files import SourceFile, open_file
from realm.data.readers.long_table import NO_ANSWER, LongTable
from realm.data.request import ReadRequest
from realm.errors import RealmError

QUESTIONS = ("toxicity", "attack", "aggression")
NO_COMMENT = "annotation of a comment that is not in the file of comments"
ANNOTATIONS, COMMENTS = "_annotations.", "_annotated_comments."


def matches(file: SourceFile) -> bool:
    return {"rev_id", "worker_id"} <= file.names or {"rev_id", "comment"} <= file.names


def read(file: SourceFile, request: ReadRequest) -> LongTable:
    """Read the pair of files, either of which may be named; row n is annotation n."""
    annotations, comments = _pair(file, file.path)
    source, ledger = annotations.source, Ledger()
    table, texts = annotations.table(), comments.table()
    for role in ("item", "task", "options", "context"):
        if (named := getattr(request, role)) is not None:
            raise RealmError(
                f'{source}: `{role}="{named}"`: not for this format. If it is your own, use `format="table"`.'
            )
    if not request.wants_annotations:
        shown = {
            "item": _numbers(texts, "rev_id", "item", comments.source),
            "text": _comment(texts, request, comments.source),
        }
        if request.gold:
            shown["gold"] = column(texts, request.gold, "gold", comments.source)
        return LongTable(pa.table(shown), np.arange(1, len(texts) + 1), ledger)
    candidates = [name for name in table.column_names if name not in ("rev_id", "worker_id")]
    question = pick(request.label, "label", candidates, source, usual=QUESTIONS)
    label = as_text(column(table, question, "label", source), question, source)
    rev_id = _numbers(table, "rev_id", "item", source)
    comment = pc.index_in(rev_id, value_set=_numbers(texts, "rev_id", "item", comments.source))
    orphan = comment.is_null().to_numpy(zero_copy_only=False)
    unanswered = blank(label) & ~orphan
    ledger.add(NO_COMMENT, np.flatnonzero(orphan) + 1)
    ledger.add(NO_ANSWER, np.flatnonzero(unanswered) + 1)
    rows = np.flatnonzero(~orphan & ~unanswered)
    if not len(rows):
        raise RealmError(f"{source}: none of its rev_id is among those of {comments.source}.")
    index = pa.array(rows)
    long: dict[str, pa.Array] = {
        "item": rev_id.take(index),
        "text": _comment(texts, request, comments.source).take(comment.take(index)),
        "annotator": _numbers(table, request.annotator or "worker_id", "annotator", source).take(index),
        "label": label.take(index),
    }
    if request.gold:
        long["gold"] = column(texts, request.gold, "gold", comments.source).take(comment.take(index))
    return LongTable(pa.table(long), rows + 1, ledger)


def _pair(file: SourceFile, path: Path) -> tuple[SourceFile, SourceFile]:
    is_annotations = "worker_id" in file.names
    mine, other = (ANNOTATIONS, COMMENTS) if is_annotations else (COMMENTS, ANNOTATIONS)
    if mine not in path.name:
        kind = "comments" if is_annotations else "annotations"
        raise RealmError(
            f"{path}: the file of {kind} that belongs to it is not known. Name the two files "
            f"NAME{ANNOTATIONS}tsv and NAME{COMMENTS}tsv, in one folder."
        )
    beside = path.with_name(path.name.replace(mine, other))
    if not beside.exists():
        raise RealmError(f"{path}: {beside.name} must lie beside it; there is no such file.")
    second = open_file(beside)
    return (file, second) if is_annotations else (second, file)


def _numbers(table: pa.Table, name: str, role: str, source: str) -> pa.LargeStringArray:
    """Some of the published files write 2232.0 for 2232."""
    return Categorical.of(column(table, name, role, source), name, source).whole_numbers()[0].text()


def _comment(table: pa.Table, request: ReadRequest, source: str) -> pa.LargeStringArray:
    name = request.text or "comment"
    text = as_text(column(table, name, "text", source), name, source)
    for token, mark in (("NEWLINE_TOKEN", "\n"), ("TAB_TOKEN", "\t")):
        text = pc.replace_substring(text, pattern=token, replacement=mark)
    return pc.utf8_trim_whitespace(text)
