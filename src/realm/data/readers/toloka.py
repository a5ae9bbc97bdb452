"""Toloka TSV: `INPUT:*`, `OUTPUT:*`, `GOLDEN:*` (control tasks, read as gold) and `ASSIGNMENT:*`."""

from __future__ import annotations

import numpy as np

from realm.data.columns import as_text, blank
from realm.data.ledger import Ledger
from realm.data.readers.collect import NO_ANSWER, Asked, Long, pick
from realm.data.readers.crowd_tables import column, long_table, status_dropped, with_prefix
from realm.data.readers.files import Opened

WORKER, STATUS = "ASSIGNMENT:worker_id", "ASSIGNMENT:status"
REJECTED = "rejected assignment"
UNFINISHED = {"SKIPPED": "skipped assignment", "EXPIRED": "expired assignment", "ACTIVE": "unfinished assignment"}


def matches(opened: Opened) -> bool:
    prefixes = {name.split(":", 1)[0] for name in opened.names if ":" in name}
    return {"INPUT", "OUTPUT"} <= prefixes or ("INPUT" in prefixes and WORKER in opened.names)


def read(opened: Opened, asked: Asked) -> Long:
    """Read the assignments; items are told apart by their text, unless --item names a column."""
    table, source, ledger = opened.table(), opened.source, Ledger()
    text = pick(asked.text, "text", with_prefix(table, "INPUT:"), source, prefix="INPUT:", usual=("text",))
    names: dict[str, str | None] = {"text": text}
    outputs = with_prefix(table, "OUTPUT:")
    dropped = np.zeros(len(table), dtype=bool)
    if asked.need == "annotations":
        label = pick(asked.label, "label", outputs, source, prefix="OUTPUT:", usual=("result", "label"))
        names |= {"annotator": asked.annotator or WORKER, "label": label}
        reasons = {**UNFINISHED, **({"REJECTED": REJECTED} if asked.rejected == "drop" else {})}
        dropped = status_dropped(table, STATUS, reasons, ledger, source)
        unanswered = blank(as_text(column(table, label, "label", source), label, source)) & ~dropped
        ledger.add(NO_ANSWER, np.flatnonzero(unanswered) + 1)
        dropped |= unanswered
    if asked.gold is None:
        answered = names.get("label") or (outputs[0] if len(outputs) == 1 else "OUTPUT:result")
        golden = "GOLDEN:" + answered.removeprefix("OUTPUT:")
        names["gold"] = golden if golden in table.column_names else None
    return long_table(table, names, asked, dropped, ledger, source)
