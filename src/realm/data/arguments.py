"""Functions that take `Annotations` refuse anything else, saying how to make them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from realm.data.annotations import Annotations
from realm.errors import RealmError

MAKERS = {"Dataset": "from_dataset(dataset)", "DataFrame": "from_pandas(frame)", "list": "from_list(records)"}
"""How other tables become annotations."""


def require_annotations(value: Any, argument: str, call: str | None = None) -> None:
    """Refuse what is no table of annotations; `call` is how it is made."""
    if not isinstance(value, Annotations):
        is_path = isinstance(value, str | Path)
        given = repr(str(value)) if is_path else f"a {type(value).__name__}"
        call = call or (f"read({str(value)!r})" if is_path else MAKERS.get(type(value).__name__, "read(path)"))
        raise RealmError(f"`{argument}` is {given}, not `Annotations`. Give `Annotations.{call}`.")


def require_test(value: Any, argument: str) -> None:
    """Refuse what is no table of items with gold."""
    maker = "test_from_pandas(frame" if hasattr(value, "iloc") else "read_test(path"
    require_annotations(value, argument, f"{maker}, tasks=annotations.tasks)")
