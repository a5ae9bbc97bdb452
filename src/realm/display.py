"""What is shown to people: objects in a notebook, counts with their nouns, and text from data, which is neither HTML
nor a command to the terminal."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

# Controls but tab and newline; marks that change the direction of what follows; invisible spaces and tags; line
# separators that some scripts take for newlines; lone surrogates, which UTF-8 cannot hold.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff"
    "\U000e0000-\U000e007f\ud800-\udfff]"
)
LEFT = 'style="text-align: left"'
ROWS = 10
"""How many rows of a table are shown, half of them from its end: the worst annotators are there."""


def notebook_html(heading: str, facts: Mapping[str, object], table: pd.DataFrame | None = None) -> str:
    """A heading, a line for each fact that is not None or empty, and both ends of a table, all of it escaped."""
    rows = "".join(
        f"<tr><th {LEFT}>{escape(name)}</th><td {LEFT}>{escape(str(value))}</td></tr>"
        for name, value in facts.items()
        if value not in (None, "")
    )
    html = f"<p><strong>{escape(heading)}</strong></p><table>{rows}</table>"
    if table is not None and len(table):
        ends = table if len(table) <= ROWS else table.iloc[[*range(ROWS // 2), *range(-(ROWS // 2), 0)]]
        shown = ends.map(lambda value: round(value, 3) if isinstance(value, float) else value)
        html += str(shown.to_html(index=False, escape=True, na_rep="", border=0))
        if len(table) > ROWS:
            html += f"<p>the first {ROWS // 2} and the last {ROWS // 2} of {len(table):,} rows</p>"
    return f"<div>{html}</div>"


def counted(count: int, noun: str) -> str:
    """A count with its noun: `1 task`, `2 tasks`, `1,200 items`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def visible(text: str) -> str:
    """The same text with hidden and control characters written as their code: U+202E is ⟨U+202E⟩."""
    return _HIDDEN.sub(lambda match: f"⟨U+{ord(match.group()):04X}⟩", text.replace("\r\n", "\n"))
