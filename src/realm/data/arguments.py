"""Functions that take `Annotations` refuse anything else, saying how to make them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from realm.data.annotations import Annotations
from realm.data.items import Items
from realm.errors import RealmError


def require_annotations(value: Any, argument: str) -> None:
    """Refuse what is no table of annotations."""
    if isinstance(value, Annotations):
        return
    raise RealmError(f"`{argument}` is {_described(value)}, not `Annotations`. {_how(value)}")


def require_test(value: Any, argument: str) -> None:
    """Refuse what is no table of items with gold."""
    if isinstance(value, Annotations):
        return
    call = "test_from_pandas(frame" if _is_table(value) else "read_test(path"
    raise RealmError(
        f"`{argument}` is {_described(value)}, not `Annotations`. Give `Annotations.{call}, tasks=annotations.tasks)`, "
        "so that labels mean the same in both."
    )


def _described(value: Any) -> str:
    return repr(str(value)) if isinstance(value, str | Path) else f"a {type(value).__name__}"


def _is_table(value: Any) -> bool:
    return hasattr(value, "columns") or hasattr(value, "column_names") or isinstance(value, list | tuple | dict)


def _how(value: Any) -> str:
    if isinstance(value, str | Path):
        return f"Give `Annotations.read({str(value)!r})`."
    if isinstance(value, Items):
        return "Items say nothing of who labelled them: read the table of labels with `Annotations.read(path)`."
    if hasattr(value, "column_names"):
        return "Give `Annotations.from_dataset(dataset)`."
    if isinstance(value, list | tuple):
        return "Give `Annotations.from_list(records)`, with the fields for text, annotator and label."
    if _is_table(value):
        return "Give `Annotations.from_pandas(frame)`, with the columns for text, annotator and label."
    return "Make them with `Annotations.read(path)` or `Annotations.from_pandas(frame)`."
