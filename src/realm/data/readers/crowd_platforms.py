"""Tables of crowd platforms, one row per assignment: Amazon Mechanical Turk batch CSV and Toloka TSV.

Items are told apart by their text, unless `item` names a column. Rejected assignments are dropped unless asked for. A
table with several answers per row needs `label`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from realm.data.columns import Mask, as_text, blank
from realm.data.long_table import NO_ANSWER, LongTable, without_rows
from realm.data.read_options import ReadOptions
from realm.data.readers.fields import column_in, pick
from realm.data.readers.files import SourceFile
from realm.data.roles import ITEM_ROLES

REJECTED = "rejected assignment"


@dataclass(frozen=True)
class Platform:
    """What a platform calls its columns, and the statuses of assignments that have no answer to read.

    Column prefixes end where the name of the requester's own field begins. `gold` is the prefix of control answers,
    `times` the columns of when an assignment was handed in and how long it took.
    """

    inputs: str
    answers: str
    annotator: str
    status: str
    usual_answers: tuple[str, ...] = ()
    unfinished: Mapping[str, str] | None = None
    gold: str | None = None
    times: Mapping[str, str] | None = None


MTURK = Platform(
    "Input.",
    "Answer.",
    "WorkerId",
    "AssignmentStatus",
    times={"created_at": "SubmitTime", "lead_time": "WorkTimeInSeconds"},
)
TOLOKA = Platform(
    "INPUT:",
    "OUTPUT:",
    "ASSIGNMENT:worker_id",
    "ASSIGNMENT:status",
    usual_answers=("result", "label"),
    unfinished={"SKIPPED": "skipped assignment", "EXPIRED": "expired assignment", "ACTIVE": "unfinished assignment"},
    gold="GOLDEN:",
    times={"created_at": "ASSIGNMENT:submitted"},
)


def matches_mturk(file: SourceFile) -> bool:
    return {"HITId", MTURK.annotator} <= file.names


def matches_toloka(file: SourceFile) -> bool:
    prefixes = {name.split(":", 1)[0] for name in file.names if ":" in name}
    return {"INPUT", "OUTPUT"} <= prefixes or ("INPUT" in prefixes and TOLOKA.annotator in file.names)


def read(platform: Platform, file: SourceFile, options: ReadOptions) -> LongTable:
    """Read the assignments."""
    table, source = file.table(), file.source
    inputs, answers = (
        [name for name in table.column_names if name.startswith(prefix)]
        for prefix in (platform.inputs, platform.answers)
    )
    candidates = [*inputs, *table.column_names] if options.text else inputs
    names = {"text": pick(options, "text", candidates, source, prefix=platform.inputs, usual=("text",))}
    reasons: dict[str, Mask] = {}
    if options.wants_annotations:
        label = pick(options, "label", answers, source, prefix=platform.answers, usual=platform.usual_answers)
        names |= {"annotator": options.annotator or platform.annotator, "label": label}
        names |= {role: name for role, name in (platform.times or {}).items() if name in table.column_names}
        statuses = {**(platform.unfinished or {}), **({"REJECTED": REJECTED} if options.rejected == "drop" else {})}
        if platform.status in table.column_names:
            status = pc.utf8_upper(as_text(table.column(platform.status), platform.status, source))
            for word, reason in statuses.items():
                reasons[reason] = np.asarray(pc.fill_null(pc.equal(status, word), False))
        reasons[NO_ANSWER] = blank(as_text(column_in(table, label, "label", source), label, source))
    if platform.gold and options.gold is None:
        answer = names.get("label") or (answers[0] if len(answers) == 1 else platform.answers + "result")
        gold = platform.gold + answer.removeprefix(platform.answers)
        if gold in table.column_names:
            names["gold"] = gold
    names |= options.columns(ITEM_ROLES)
    columns: dict[str, pa.Array] = {role: column_in(table, name, role, source) for role, name in names.items()}
    return without_rows(columns, reasons, source)


read_mturk = partial(read, MTURK)
read_toloka = partial(read, TOLOKA)
