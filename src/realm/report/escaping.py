"""Text from data, safe to show: hidden and direction-changing characters are spelled out."""

from __future__ import annotations

import re

from markupsafe import Markup

from realm.display import visible as visible

_CODE = re.compile("`([^`\n]+)`")


def isolated(text: object) -> Markup:
    """The text in an element of its own, so that its direction does not spill over."""
    return Markup("<bdi>{}</bdi>").format(visible(str(text)))


def coded(text: str) -> Markup:
    """The text with <code> for what stands between backticks, everything escaped."""
    parts = _CODE.split(visible(text))
    return Markup("").join(Markup("<code>{}</code>").format(part) if i % 2 else part for i, part in enumerate(parts))


def clipped(text: str, width: int) -> str:
    """At most `width` characters of the text, an ellipsis for the rest."""
    text = text.strip()
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"
