"""CrowdFlower, later Figure Eight, now Appen: the full report, one row per judgment.

    _unit_id, _created_at, _golden, _id, _missed, _started_at, _tainted, _channel, _trust, _worker_id, _country, ...,
    <question>..., <question>_gold..., <question>_gold_reason..., <source column>...

Units with `_golden` are test questions: `<question>_gold` is their gold, unless it has several right answers. Judgments
of contributors who failed too many of them are `_tainted`, which the platform itself does not count: they are dropped,
as rejected assignments of other platforms are. `_missed` says that a test question was answered wrong: such judgments
stay, because they show how accurate a contributor is. The aggregated report has one row per unit and no contributors.
"""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from realm.data.columns import Mask, as_text, blank
from realm.data.ledger import Ledger
from realm.data.readers.fields import column_in, pick
from realm.data.readers.files import SourceFile
from realm.data.readers.long_table import NO_ANSWER, SEVERAL_DROPPED, LongTable, drop_rows, resolve_multiple
from realm.data.roles import ITEM_ROLES, ReadRequest
from realm.errors import RealmError

UNIT, WORKER, CREATED = "_unit_id", "_worker_id", "_created_at"
GOLDEN, TAINTED, MISSED = "_golden", "_tainted", "_missed"
GOLD, REASON = "_gold", "_gold_reason"
"""What stands behind the name of a question in the columns of its right answers."""
AGGREGATED = ("_unit_state", "_trusted_judgments", "_last_judgment_at")
"""Columns of the aggregated report alone."""
SEPARATOR = "\n"
"""Between the answers of a checkbox question, and between the right answers of a test question."""
TIME_FORMATS = ("%m/%d/%Y %H:%M:%S", "%m/%d/%Y %H:%M")
"""As the platform writes times, and as a spreadsheet does when it has opened and saved the report."""

TAINTED_REASON = "tainted judgment: its contributor failed the test questions"
MISSED_REASON = "test question answered wrong: the judgment is kept"
NOT_A_TEST = "gold of a unit that is no test question: not read"
SEVERAL_RIGHT = "test question with several right answers: no gold"


def matches(file: SourceFile) -> bool:
    return UNIT in file.names and (WORKER in file.names or any(name in file.names for name in AGGREGATED))


def read(file: SourceFile, request: ReadRequest) -> LongTable:
    """Read the judgments; row n is judgment n."""
    table, source, ledger = file.table(), file.source, Ledger()
    names = [name for name in table.column_names if not name.startswith("_")]
    questions = [name for name in names if name + GOLD in names]
    inputs = [name for name in names if name not in questions and not name.endswith((GOLD, REASON, ":confidence"))]
    text = pick(request, "text", names if request.text else inputs, source, usual=("text",))
    by_role = {"text": text, "item": UNIT, **request.columns([role for role in ITEM_ROLES if role != "gold"])}
    columns = {role: column_in(table, name, role, source) for role, name in by_role.items()}
    reasons: dict[str, Mask] = {}
    question = request.label or (questions[0] if len(questions) == 1 else None)
    if request.wants_annotations:
        if WORKER not in table.column_names:
            raise RealmError(
                f"{source}: this is CrowdFlower's aggregated report: it has one row per unit and does not say who "
                "answered what. Download the full report, which has one row per judgment."
            )
        candidates = [name for name in names if name != text] if request.label or not questions else questions
        question = pick(request, "label", candidates, source)
        columns["annotator"] = column_in(table, request.annotator or WORKER, "annotator", source)
        answers = as_text(column_in(table, question, "label", source), question, source)
        if request.rejected == "drop":
            reasons[TAINTED_REASON] = _is_true(table, TAINTED, source)
        reasons[NO_ANSWER] = blank(answers)
        columns["label"] = _first_answers(answers, request, reasons, ledger, source)
        if CREATED in table.column_names:
            columns["created_at"] = _iso_times(as_text(table.column(CREATED), CREATED, source))
        kept = ~_any_of(reasons, len(table))
        ledger.add(MISSED_REASON, np.flatnonzero(_is_true(table, MISSED, source) & kept) + 1)
    if request.reads("gold") and (name := request.gold or f"{question}{GOLD}") in table.column_names:
        columns["gold"] = _gold(table, name, ledger, source)
    elif request.gold is not None and request.reads("gold"):
        columns["gold"] = column_in(table, request.gold, "gold", source)  # an error that lists the columns
    return drop_rows(columns, reasons, source, ledger)


def _first_answers(
    answers: pa.LargeStringArray, request: ReadRequest, reasons: dict[str, Mask], ledger: Ledger, source: str
) -> pa.LargeStringArray:
    """One answer of each judgment; those of checkbox questions may have several, on a line each."""
    answers = pc.utf8_trim_whitespace(answers)
    several = np.asarray(pc.fill_null(pc.match_substring(answers, SEPARATOR), False)) & ~_any_of(reasons, len(answers))
    if request.multi == "drop":
        reasons[SEVERAL_DROPPED] = several
    else:
        resolve_multiple(np.flatnonzero(several) + 1, request.multi, ledger, source)
    return pc.utf8_trim_whitespace(pc.list_element(pc.split_pattern(answers, SEPARATOR, max_splits=1), 0))


def _gold(table: pa.Table, name: str, ledger: Ledger, source: str) -> pa.LargeStringArray:
    """The right answer of test questions that have one; counted once for each unit, by its first judgment."""
    gold = pc.utf8_trim_whitespace(as_text(table.column(name), name, source))
    present = ~blank(gold, nan_words=True)
    is_test = _is_true(table, GOLDEN, source) if GOLDEN in table.column_names else np.ones(len(table), dtype=bool)
    several = np.asarray(pc.fill_null(pc.match_substring(gold, SEPARATOR), False))
    _, first = np.unique(np.asarray(as_text(table.column(UNIT), UNIT, source).fill_null("")), return_index=True)
    for reason, mask in ((NOT_A_TEST, present & ~is_test), (SEVERAL_RIGHT, present & is_test & several)):
        ledger.add(reason, np.sort(first[mask[first]]) + 1)
    return pc.if_else(pa.array(present & is_test & ~several), gold, pa.scalar(None, pa.large_string()))


def _any_of(reasons: dict[str, Mask], n_rows: int) -> Mask:
    dropped: Mask = np.logical_or.reduce([np.zeros(n_rows, dtype=bool), *reasons.values()])
    return dropped


def _is_true(table: pa.Table, name: str, source: str) -> Mask:
    """Where a column says true; nowhere if there is no such column."""
    if name not in table.column_names:
        return np.zeros(len(table), dtype=bool)
    words = pc.utf8_lower(pc.utf8_trim_whitespace(as_text(table.column(name), name, source)))
    return np.asarray(pc.fill_null(pc.is_in(words, value_set=pa.array(["true", "1", "yes"], pa.large_string())), False))


def _iso_times(times: pa.LargeStringArray) -> pa.LargeStringArray:
    """Times in the order of month, day, year as ISO 8601; others as they are."""
    return pa.array([None if time is None else _iso(time.strip()) for time in times.to_pylist()], pa.large_string())


def _iso(time: str) -> str:
    for form in TIME_FORMATS:
        try:
            return datetime.strptime(time, form).isoformat()
        except ValueError:
            pass
    return time
