"""Text from data, safe to show: hidden and direction-changing characters are spelled out, JSON cannot end a script."""

from __future__ import annotations

import json
import re
from typing import Any

from markupsafe import Markup

from realm.display import visible as visible

_CODE = re.compile("`([^`\n]+)`")


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
