"""Names that are one, written in several ways: of labels and of annotators."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence

BLANKS = " \t\r\n\xa0"
"""What may stand around a name by mistake."""
_POINT_ZERO = re.compile(r"(-?[0-9]+)\.0+")


def plain(name: str) -> str:
    """A name without the spaces around it, and 1 for 1.0."""
    match = _POINT_ZERO.fullmatch(name := name.strip(BLANKS))
    return match[1] if match else name


def folded(name: str) -> str:
    """A name without regard to case and spaces."""
    return " ".join(name.casefold().split())


def look_alikes(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Groups of names that differ only in case, spacing, Unicode form or in characters that are not shown."""

    def shown(name: str) -> str:
        name = unicodedata.normalize("NFKC", name)
        return folded("".join(each for each in name if unicodedata.category(each) != "Cf"))

    return [group for group in groups(names, shown) if len(group) > 1]


def groups(names: Sequence[str], key: Callable[[str], str]) -> list[tuple[str, ...]]:
    """The names that have one key together, in order of appearance."""
    by_key: dict[str, list[str]] = {}
    for name in names:
        by_key.setdefault(key(name), []).append(name)
    return [tuple(group) for group in by_key.values()]
