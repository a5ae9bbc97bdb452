"""Wikipedia Detox: `NAME_annotations.tsv` (a row per worker) joined to `NAME_annotated_comments.tsv` on rev_id."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from realm.data.coded import Coded
from realm.data.columns import as_text, blank
from realm.data.ledger import Ledger
from realm.data.readers.collect import NO_ANSWER, Asked, Long, pick
from realm.data.readers.crowd_tables import column
from realm.data.readers.files import Opened, open_file
from realm.errors import RealmError

QUESTIONS = ("toxicity", "attack", "aggression")
NO_COMMENT = "annotation of a comment that is not in the file of comments"
ANNOTATIONS, COMMENTS = "_annotations.", "_annotated_comments."


def matches(opened: Opened) -> bool:
    return {"rev_id", "worker_id"} <= opened.names or {"rev_id", "comment"} <= opened.names


def read(opened: Opened, asked: Asked) -> Long:
    """Read the pair of files, either of which may be named; row n is annotation n."""
    annotations, comments = _pair(opened, opened.path)
    source, ledger = annotations.source, Ledger()
    table, texts = annotations.table(), comments.table()
    for role in ("item", "task", "options", "context"):
        if (named := getattr(asked, role)) is not None:
            raise RealmError(f"{source}: --{role} {named}: not for this format. If it is your own, use --format table.")
    if asked.need != "annotations":
        shown = {
            "item": _numbers(texts, "rev_id", "item", comments.source),
            "text": _comment(texts, asked, comments.source),
        }
        if asked.gold:
            shown["gold"] = column(texts, asked.gold, "gold", comments.source)
        return Long(pa.table(shown), np.arange(1, len(texts) + 1), ledger)
    candidates = [name for name in table.column_names if name not in ("rev_id", "worker_id")]
    question = pick(asked.label, "label", candidates, source, usual=QUESTIONS)
    label = as_text(column(table, question, "label", source), question, source)
    rev_id = _numbers(table, "rev_id", "item", source)
    found = pc.index_in(rev_id, value_set=_numbers(texts, "rev_id", "item", comments.source))
    orphan = found.is_null().to_numpy(zero_copy_only=False)
    unanswered = blank(label) & ~orphan
    ledger.add(NO_COMMENT, np.flatnonzero(orphan) + 1)
    ledger.add(NO_ANSWER, np.flatnonzero(unanswered) + 1)
    kept = np.flatnonzero(~orphan & ~unanswered)
    if not len(kept):
        raise RealmError(f"{source}: none of its rev_id is among those of {comments.source}.")
    index = pa.array(kept)
    worker = asked.annotator or "worker_id"
    made = {
        "item": rev_id.take(index),
        "text": _comment(texts, asked, comments.source).take(found.take(index)),
        "annotator": _numbers(table, worker, "annotator", source).take(index),
        "label": label.take(index),
    }
    if asked.gold:
        made["gold"] = column(texts, asked.gold, "gold", comments.source).take(found.take(index))
    return Long(pa.table(made), kept + 1, ledger)


def _pair(opened: Opened, path: Path) -> tuple[Opened, Opened]:
    is_annotations = "worker_id" in opened.names
    mine, other = (ANNOTATIONS, COMMENTS) if is_annotations else (COMMENTS, ANNOTATIONS)
    if mine not in path.name:
        kind = "comments" if is_annotations else "annotations"
        raise RealmError(
            f"{path}: the file of {kind} that belongs to it cannot be told. Name the two files "
            f"NAME{ANNOTATIONS}tsv and NAME{COMMENTS}tsv, in one folder."
        )
    beside = path.with_name(path.name.replace(mine, other))
    if not beside.exists():
        raise RealmError(f"{path}: {beside.name} must lie beside it; there is no such file.")
    second = open_file(beside)
    return (opened, second) if is_annotations else (second, opened)


def _numbers(table: pa.Table, name: str, role: str, source: str) -> pa.LargeStringArray:
    """Some of the published files write 2232.0 for 2232."""
    return Coded.of(column(table, name, role, source), name, source).whole_numbers()[0].text()


def _comment(table: pa.Table, asked: Asked, source: str) -> pa.LargeStringArray:
    name = asked.text or "comment"
    text = as_text(column(table, name, "text", source), name, source)
    for token, mark in (("NEWLINE_TOKEN", "\n"), ("TAB_TOKEN", "\t")):
        text = pc.replace_substring(text, pattern=token, replacement=mark)
    return pc.utf8_trim_whitespace(text)
