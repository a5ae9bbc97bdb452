"""Amazon Mechanical Turk batch CSV: `Input.*`, `Answer.*`, `WorkerId`, `AssignmentStatus`.

Rejected assignments are dropped unless asked for. A batch with several answers per row needs `label`.
"""

from __future__ import annotations

import numpy as np

from realm.data.columns import as_text, blank
from realm.data.ledger import Ledger
from realm.data.readers.crowd_tables import column, long_table, status_dropped, with_prefix
from realm.data.readers.fields import pick
from realm.data.readers.files import SourceFile
from realm.data.readers.long_table import NO_ANSWER, LongTable
from realm.data.request import ReadRequest

REJECTED = "rejected assignment"


def matches(file: SourceFile) -> bool:
    return {"HITId", "WorkerId"} <= file.names


def read(file: SourceFile, request: ReadRequest) -> LongTable:
    """Read the batch; items are told apart by their text, unless `item` names a column."""
    table, source, ledger = file.table(), file.source, Ledger()
    inputs, answers = with_prefix(table, "Input."), with_prefix(table, "Answer.")
    candidates = [*inputs, *table.column_names] if request.text else inputs
    text = pick(request.text, "text", candidates, source, prefix="Input.", usual=("text",))
    names: dict[str, str | None] = {"text": text}
    dropped = np.zeros(len(table), dtype=bool)
    if request.wants_annotations:
        label = pick(request.label, "label", answers, source, prefix="Answer.")
        names |= {"annotator": request.annotator or "WorkerId", "label": label}
        if request.rejected == "drop":
            dropped = status_dropped(table, "AssignmentStatus", {"Rejected": REJECTED}, ledger, source)
        unanswered = blank(as_text(column(table, label, "label", source), label, source)) & ~dropped
        ledger.add(NO_ANSWER, np.flatnonzero(unanswered) + 1)
        dropped |= unanswered
    return long_table(table, names, request, dropped, ledger, source)
