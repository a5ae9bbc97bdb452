"""Reading files: plain tables and the exports of annotation tools, all into `Annotations`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from realm.data.annotations import Annotations
from realm.data.build import Need, build
from realm.data.columns import ROLES
from realm.data.items import Items
from realm.data.readers import doccano
from realm.data.readers.bundles import is_bundle, open_members, refuse_several
from realm.data.readers.collect import Asked, Long, Multi
from realm.data.readers.files import Opened, open_file
from realm.data.readers.recognise import CONTAINERS, EXPORTS, FORMATS, recognise
from realm.data.readers.tables import read_long, read_wide
from realm.errors import RealmError

__all__ = ["FORMATS", "read", "read_items"]


def read(
    path: str | Path,
    *,
    format: str | None = None,
    wide: Sequence[str] | None = None,
    multi: Multi | None = None,
    rejected: Literal["drop", "keep"] = "drop",
    need: Need = "annotations",
    **build_arguments: Any,
) -> Annotations:
    """Read a file into `Annotations`, whatever tool wrote it.

    Args:
        path: a file, a zip of one, or a zip or a folder of doccano's files.
        format: one of `FORMATS`; by default the format is recognised by its own signature.
        wide: the columns of annotators, in a table with one row per item.
        multi: several answers in one annotation: "first" keeps the first, "drop" none; by default they are refused.
        rejected: whether assignments that the requester rejected (MTurk, Toloka) are dropped.
        need: what the table must hold, and the rest of the arguments: see `realm.data.build.build`.
    """
    path = Path(path)
    _check_word("multi", multi, (None, "first", "drop"))
    _check_word("rejected", rejected, ("drop", "keep"))
    _check_word("format", format, (None, *FORMATS))
    asked = Asked(**{role: build_arguments.get(role) for role in ROLES}, multi=multi, rejected=rejected, need=need)
    long, read_as = _read_long(path, format, wide, asked)
    long.ledger.format = read_as
    if read_as in EXPORTS:
        build_arguments = {name: value for name, value in build_arguments.items() if name not in ROLES}
    if long.labels is not None and build_arguments.get("labels") is None and build_arguments.get("tasks") is None:
        build_arguments["labels"] = long.labels
    if long.label_form != "auto":
        build_arguments.setdefault("label_form", long.label_form)
    build_arguments.setdefault("source", str(path))
    return build(long.table, need=need, ledger=long.ledger, rows=long.rows, **build_arguments)


def read_items(path: str | Path, **arguments: Any) -> Items:
    """Read the items of a file into `Items`; see `read`. Neither annotations nor gold are read."""
    return read(path, need="items", **arguments).items


def _read_long(path: Path, format: str | None, wide: Sequence[str] | None, asked: Asked) -> tuple[Long, str]:
    """The long table, and the format it was read as."""
    if not is_bundle(path):
        return _read_opened(open_file(path, CONTAINERS.get(format or "")), format, wide, asked)
    members = open_members(path, CONTAINERS.get(format or ""))
    if format == "doccano" or (format is None and not wide and _of_annotators(members, asked)):
        return doccano.read_files(members, str(path), asked), "doccano"
    if len(members) > 1:
        raise refuse_several(path, members)
    return _read_opened(members[0], format, wide, asked)


def _of_annotators(members: Sequence[Opened], asked: Asked) -> bool:
    """Whether these are doccano's files, each named for its annotator; a CSV of doccano's bears no other mark."""
    if asked.annotator is not None or not all(doccano.may_be(member) for member in members):
        return False
    marked = [recognise(member) for member in members]
    if len(members) == 1 and asked.need != "annotations":
        return marked == ["doccano"]
    return set(marked) <= {None, "doccano"}


def _read_opened(opened: Opened, format: str | None, wide: Sequence[str] | None, asked: Asked) -> tuple[Long, str]:
    if wide and asked.need == "annotations":
        return read_wide(opened, asked, wide), "table"
    if format in CONTAINERS or format == "table" or wide:
        return read_long(opened, asked), format or "table"
    chosen = format or recognise(opened, asked.annotator)
    if chosen is None:
        return read_long(opened, asked), "table"
    _, read_export = EXPORTS[chosen]
    return read_export(opened, asked), chosen


def _check_word(flag: str, word: str | None, allowed: Sequence[str | None]) -> None:
    if word not in allowed:
        raise RealmError(f"--{flag} {word}: must be one of {', '.join(one for one in allowed if one is not None)}.")
