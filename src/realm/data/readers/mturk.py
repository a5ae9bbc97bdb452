"""Amazon Mechanical Turk batch CSV: `Input.*`, `Answer.*`, `WorkerId`, `AssignmentStatus`.

Rejected assignments are dropped unless asked for. A batch with several answers per row needs --label.
"""

from __future__ import annotations

import numpy as np

from realm.data.columns import as_text, blank
from realm.data.ledger import Ledger
from realm.data.readers.collect import NO_ANSWER, Asked, Long, pick
from realm.data.readers.crowd_tables import column, long_table, status_dropped, with_prefix
from realm.data.readers.files import Opened

REJECTED = "rejected assignment"


def matches(opened: Opened) -> bool:
    return {"HITId", "WorkerId"} <= opened.names


def read(opened: Opened, asked: Asked) -> Long:
    """Read the batch; items are told apart by their text, unless --item names a column."""
    table, source, ledger = opened.table(), opened.source, Ledger()
    inputs, answers = with_prefix(table, "Input."), with_prefix(table, "Answer.")
    candidates = [*inputs, *table.column_names] if asked.text else inputs
    text = pick(asked.text, "text", candidates, source, prefix="Input.", usual=("text",))
    names: dict[str, str | None] = {"text": text}
    dropped = np.zeros(len(table), dtype=bool)
    if asked.need == "annotations":
        label = pick(asked.label, "label", answers, source, prefix="Answer.")
        names |= {"annotator": asked.annotator or "WorkerId", "label": label}
        if asked.rejected == "drop":
            dropped = status_dropped(table, "AssignmentStatus", {"Rejected": REJECTED}, ledger, source)
        unanswered = blank(as_text(column(table, label, "label", source), label, source)) & ~dropped
        ledger.add(NO_ANSWER, np.flatnonzero(unanswered) + 1)
        dropped |= unanswered
    return long_table(table, names, asked, dropped, ledger, source)
