"""How tables show themselves in a notebook: a few facts and the first rows, as plain HTML without script.

Texts of the data are escaped and cut short.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

ROWS_SHOWN = 5
"""First rows that are shown: as many as pandas' `head`."""
CHARACTERS_SHOWN = 120
"""Characters of a cell: two lines."""
NAMES_SHOWN = 12
"""Labels or annotators that are listed on a line."""


def listing(names: Sequence[str]) -> str:
    """Names on one line."""
    return ", ".join(names[:NAMES_SHOWN]) + (f", ... ({len(names):,} in all)" if len(names) > NAMES_SHOWN else "")


def html(facts: Iterable[tuple[str, str]], header: Sequence[str] = (), rows: Iterable[Sequence[str]] = ()) -> str:
    """A table of facts, and below it one of rows with this header, where there are any."""
    cells = "".join(
        f"<tr><th style='text-align:left'>{_cell(name)}</th><td>{_cell(value)}</td></tr>" for name, value in facts
    )
    page = f"<table>{cells}</table>"
    body = "".join("<tr>" + "".join(f"<td>{_cell(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    if not body:
        return page
    names = "".join(f"<th>{_cell(name)}</th>" for name in header)
    return f"{page}<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"


def _cell(text: str) -> str:
    short = text if len(text) <= CHARACTERS_SHOWN else text[: CHARACTERS_SHOWN - 1] + "…"
    return f"<bdi>{escape(short)}</bdi>"
