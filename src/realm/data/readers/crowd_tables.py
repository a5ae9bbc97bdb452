"""What the tables of crowd platforms have in common: columns by prefix, a status per row, everything as text."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from realm.data.columns import Mask, as_text, in_one, take_column
from realm.data.ledger import Ledger
from realm.data.readers.fields import ITEM_ROLES
from realm.data.readers.long_table import LongTable
from realm.data.request import ReadRequest
from realm.errors import RealmError


def with_prefix(table: pa.Table, prefix: str) -> list[str]:
    return [name for name in table.column_names if name.startswith(prefix)]


def column(table: pa.Table, name: str, role: str, source: str) -> pa.Array:
    if name not in table.column_names:
        raise RealmError(
            f'{source}: `{role}="{name}"`: there is no such column. There are: {", ".join(table.column_names)}.'
        )
    return in_one(take_column(table, name, source))


def status_dropped(table: pa.Table, name: str, reasons: Mapping[str, str], ledger: Ledger, source: str) -> Mask:
    """Which rows are left out because of their status, counted under its reason. Shape (rows,)."""
    dropped = np.zeros(len(table), dtype=bool)
    if name not in table.column_names:
        return dropped
    status = pc.utf8_upper(as_text(take_column(table, name, source), name, source))
    for word, reason in reasons.items():
        here = pc.fill_null(pc.equal(status, word.upper()), False).to_numpy(zero_copy_only=False)
        ledger.add(reason, np.flatnonzero(here) + 1)
        dropped |= here
    return dropped


def long_table(
    table: pa.Table, names: Mapping[str, str | None], request: ReadRequest, dropped: Mask, ledger: Ledger, source: str
) -> LongTable:
    """The columns of each role, without the dropped rows."""
    columns = {
        role: column(table, name, role, source)
        for role, name in {**names, **request.columns(ITEM_ROLES)}.items()
        if name is not None
    }
    rows = np.flatnonzero(~dropped)
    if not len(rows):
        reasons = "; ".join(f"{count:,} x {reason}" for reason, count in ledger.counts.items())
        raise RealmError(f"{source}: no row is left ({reasons}).")
    return LongTable(pa.table(columns).take(pa.array(rows)), rows + 1, ledger)
