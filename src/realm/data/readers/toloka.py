"""Toloka TSV: `INPUT:*`, `OUTPUT:*`, `GOLDEN:*` (control tasks, read as gold) and `ASSIGNMENT:*`."""

from __future__ import annotations

import numpy as np

from realm.data.columns import as_text, blank
from realm.data.ledger import Ledger
from realm.data.readers.crowd_tables import column, long_table, status_dropped, with_prefix
from realm.data.readers.fields import pick
from realm.data.readers.files import SourceFile
from realm.data.readers.long_table import NO_ANSWER, LongTable
from realm.data.request import ReadRequest

WORKER, STATUS = "ASSIGNMENT:worker_id", "ASSIGNMENT:status"
REJECTED = "rejected assignment"
UNFINISHED = {"SKIPPED": "skipped assignment", "EXPIRED": "expired assignment", "ACTIVE": "unfinished assignment"}


def matches(file: SourceFile) -> bool:
    prefixes = {name.split(":", 1)[0] for name in file.names if ":" in name}
    return {"INPUT", "OUTPUT"} <= prefixes or ("INPUT" in prefixes and WORKER in file.names)


def read(file: SourceFile, request: ReadRequest) -> LongTable:
    """Read the assignments; items are told apart by their text, unless `item` names a column."""
    table, source, ledger = file.table(), file.source, Ledger()
    text = pick(request.text, "text", with_prefix(table, "INPUT:"), source, prefix="INPUT:", usual=("text",))
    names: dict[str, str | None] = {"text": text}
    outputs = with_prefix(table, "OUTPUT:")
    dropped = np.zeros(len(table), dtype=bool)
    if request.wants_annotations:
        label = pick(request.label, "label", outputs, source, prefix="OUTPUT:", usual=("result", "label"))
        names |= {"annotator": request.annotator or WORKER, "label": label}
        reasons = {**UNFINISHED, **({"REJECTED": REJECTED} if request.rejected == "drop" else {})}
        dropped = status_dropped(table, STATUS, reasons, ledger, source)
        unanswered = blank(as_text(column(table, label, "label", source), label, source)) & ~dropped
        ledger.add(NO_ANSWER, np.flatnonzero(unanswered) + 1)
        dropped |= unanswered
    if request.gold is None:
        answered = names.get("label") or (outputs[0] if len(outputs) == 1 else "OUTPUT:result")
        golden = "GOLDEN:" + answered.removeprefix("OUTPUT:")
        names["gold"] = golden if golden in table.column_names else None
    return long_table(table, names, request, dropped, ledger, source)
