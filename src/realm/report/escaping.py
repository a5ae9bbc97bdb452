"""Text from data, safe to show: hidden and direction-changing characters are spelled out, JSON cannot end a script."""

from __future__ import annotations

import json
import re
from typing import Any

from markupsafe import Markup

# Controls but tab and newline; marks that change the direction of what follows; invisible spaces and tags; line
# separators that some scripts take for newlines; lone surrogates, which UTF-8 cannot hold.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff"
    "\U000e0000-\U000e007f\ud800-\udfff]"
)

_CODE = re.compile("`([^`\n]+)`")


def visible(text: str) -> str:
    """The same text with hidden characters written as their code: U+202E (right-to-left override) is ⟨U+202E⟩."""
    return _HIDDEN.sub(lambda match: f"⟨U+{ord(match.group()):04X}⟩", text.replace("\r\n", "\n"))


def isolated(text: str) -> Markup:
    """The text in an element of its own, so that its direction does not spill over."""
    return Markup("<bdi>{}</bdi>").format(visible(text))


def coded(text: str) -> Markup:
    """The text with <code> for what stands between backticks, everything escaped."""
    parts = _CODE.split(visible(text))
    return Markup("").join(Markup("<code>{}</code>").format(part) if i % 2 else part for i, part in enumerate(parts))


def clipped(text: str, width: int) -> str:
    """At most `width` characters of the text, an ellipsis for the rest."""
    text = text.strip()
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"


def data_block(value: Any) -> Markup:
    """JSON that can stand inside a <script> element whatever its strings hold."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
