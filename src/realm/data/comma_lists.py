"""Several names in one string: comma separated, and in double quotes where a name has a comma of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NAME = re.compile(r'\s*(?:"((?:[^"]|"")*)"\s*|([^,]*))(,|\Z)')


def split_list(text: str) -> list[str]:
    """The names, without the spaces around them; what is quoted stays as it is.

    Example:
        >>> split_list('neg, "so, so", pos')
        ['neg', 'so, so', 'pos']
    """
    names, position, comma = [], 0, ","
    while comma and (match := _NAME.match(text, position)):
        quoted, plain, comma = match.groups()
        names.append(plain.strip() if quoted is None else quoted.replace('""', '"'))
        position = match.end()
    return names


def join_list(names: Iterable[str]) -> str:
    """The names in the form that `split_list` reads back.

    Example:
        >>> join_list(["neg", "so, so"])
        'neg,"so, so"'
    """
    return ",".join(
        _quoted(name) if not name or name != name.strip() or set(',"') & set(name) else name for name in names
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
