"""Tables of crowd platforms, one row per assignment: Amazon Mechanical Turk batch CSV and Toloka TSV.

Items are told apart by their text, unless `item` names a column. Rejected assignments are dropped unless asked for. A
table with several answers per row needs `label`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow.compute as pc

from realm.data.columns import Mask, as_text, blank
from realm.data.long_table import NO_ANSWER, LongTable, without_rows
from realm.data.readers.exports import Export
from realm.data.readers.files import SourceFile
from realm.data.roles import ITEM_ROLES

REJECTED = "rejected assignment"


@dataclass(frozen=True)
class Platform:
    """What a platform calls its columns; a prefix ends where the name of the requester's own field begins.

    `dropped` are the statuses of assignments that have no answer to read, `gold` the prefix of control answers, `times`
    the columns of when an assignment was handed in and how long it took.
    """

    inputs: str
    answers: str
    annotator: str
    status: str
    times: Mapping[str, str]
    gold: str = ""
    usual_answers: tuple[str, ...] = ()
    dropped: Mapping[str, str] = field(default_factory=dict)


MTURK = Platform(
    inputs="Input.",
    answers="Answer.",
    annotator="WorkerId",
    status="AssignmentStatus",
    times={"created_at": "SubmitTime", "lead_time": "WorkTimeInSeconds"},
)
TOLOKA = Platform(
    inputs="INPUT:",
    answers="OUTPUT:",
    annotator="ASSIGNMENT:worker_id",
    status="ASSIGNMENT:status",
    times={"created_at": "ASSIGNMENT:submitted"},
    gold="GOLDEN:",
    usual_answers=("result", "label"),
    dropped={"SKIPPED": "skipped assignment", "EXPIRED": "expired assignment", "ACTIVE": "unfinished assignment"},
)


def matches_mturk(file: SourceFile) -> bool:
    return {"HITId", MTURK.annotator} <= file.names


def matches_toloka(file: SourceFile) -> bool:
    prefixes = {name.split(":", 1)[0] for name in file.names if ":" in name}
    return "INPUT" in prefixes and ("OUTPUT" in prefixes or TOLOKA.annotator in file.names)


def read(platform: Platform, export: Export) -> LongTable:
    """Read the assignments."""
    table, options, source = export.file.table(), export.options, export.source
    there = table.column_names
    inputs, answers = ([name for name in there if name.startswith(p)] for p in (platform.inputs, platform.answers))
    candidates = [*inputs, *there] if options.text else inputs
    names = {"text": export.pick("text", candidates, platform.inputs, ("text",))}
    answer = answers[0] if len(answers) == 1 else platform.answers + "result"
    reasons: dict[str, Mask] = {}
    if options.wants_annotations:
        answer = export.pick("label", answers, platform.answers, platform.usual_answers)
        names |= {"annotator": options.annotator or platform.annotator, "label": answer}
        names |= {role: name for role, name in platform.times.items() if name in there}
        if platform.status in there:
            status = pc.utf8_upper(as_text(table.column(platform.status), platform.status, source))
            rejected = {"REJECTED": REJECTED} if options.rejected == "drop" else {}
            for word, reason in {**platform.dropped, **rejected}.items():
                reasons[reason] = np.asarray(pc.fill_null(pc.equal(status, word), False))
        reasons[NO_ANSWER] = blank(as_text(table.column(answer), answer, source))
    gold = platform.gold + answer.removeprefix(platform.answers)
    if platform.gold and options.gold is None and gold in there:
        names["gold"] = gold
    return without_rows(export.columns({**names, **options.columns(ITEM_ROLES)}), reasons, source)


read_mturk = partial(read, MTURK)
read_toloka = partial(read, TOLOKA)
