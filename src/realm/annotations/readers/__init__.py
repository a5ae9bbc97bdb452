"""Reading files: plain tables and the exports of annotation tools, all into `Annotations`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from realm.annotations.build import Need, build
from realm.annotations.readers.tables import read_table
from realm.annotations.table import Annotations

__all__ = ["read"]


def read(
    path: str | Path,
    *,
    format: str | None = None,
    wide: Sequence[str] | None = None,
    multi: str | None = None,
    need: Need = "annotations",
    **build_arguments: Any,
) -> Annotations:
    """Read a file into `Annotations`; `build_arguments` are those of `realm.annotations.build.build`."""
    path = Path(path)
    build_arguments.setdefault("source", str(path))
    return build(read_table(path, format), need=need, **build_arguments)
