"""Names that are probably one, written in several ways: of labels and of annotators."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

# Letters of other scripts that are drawn as Latin ones.
_LATIN = dict(
    zip(
        "аеорсухкмтвнії" + "АВЕКМНОРСТХІ" + "αοενρτ" + "ΑΒΕΖΗΙΚΜΝΟΡΤΧ",
        "aeopcyxkmtbhii" + "ABEKMHOPCTXI" + "aoevpt" + "ABEZHIKMNOPTX",
        strict=True,
    )
)


def look_alikes(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Groups of names that differ only in case, spacing, Unicode form or in letters that look the same."""
    groups: dict[str, list[str]] = {}
    for name in names:
        normal = unicodedata.normalize("NFKC", name)
        latin = "".join(_LATIN.get(letter, letter) for letter in normal if unicodedata.category(letter) != "Cf")
        groups.setdefault(" ".join(latin.casefold().split()), []).append(name)
    return [tuple(group) for group in groups.values() if len(group) > 1]
