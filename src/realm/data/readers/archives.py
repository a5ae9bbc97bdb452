"""A zip or a folder of files: doccano's, one per annotator, or a single file of any kind."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path, PurePosixPath

import pyarrow as pa

from realm.data.readers.files import Container, SourceFile, is_blank, open_bytes, read_bytes
from realm.errors import RealmError

SUFFIXES = (".jsonl", ".json", ".csv")


def is_archive(path: Path) -> bool:
    """Whether a path is a zip, or a folder with a file in it that could be read."""
    # Not the questions of `Path`: they raise where a name is too long.
    if os.path.isdir(path):
        try:
            return any(_is_member(child.name) for child in path.iterdir())
        except OSError as error:
            raise RealmError(f"{path}: cannot be read ({error.strerror or error}).") from None
    return path.suffix.lower() == ".zip" and os.path.isfile(path)


def open_archive(path: Path, container: Container | None = None) -> list[SourceFile]:
    """The files of a zip or a folder, by name; those without content are passed over."""
    members = _in_folder(path) if path.is_dir() else _in_zip(path)
    files = []
    for name, data in sorted(members.items()):
        if not is_blank(data):
            source = str(path / name) if path.is_dir() else f"{path}, {name}"
            files.append(open_bytes(data, path / name, source, container))
    if not files:
        raise RealmError(f"{path}: every file in it is empty.")
    return files


def several_files_error(path: Path, members: list[SourceFile]) -> RealmError:
    """The error for several files that are not doccano's."""
    names = ", ".join(member.path.name for member in members[:5]) + (", ..." if len(members) > 5 else "")
    return RealmError(
        f"{path}: {len(members)} files ({names}), and one at a time can be read. Put them into one table with a column "
        'for the annotator; or, if each is one annotator\'s file from doccano, give `format="doccano"`.'
    )


def _in_folder(path: Path) -> dict[str, bytes | pa.Buffer]:
    return {child.name: read_bytes(child) for child in path.iterdir() if child.is_file() and _is_member(child.name)}


def _in_zip(path: Path) -> dict[str, bytes | pa.Buffer]:
    try:
        with zipfile.ZipFile(path) as archive:
            members: dict[str, bytes | pa.Buffer] = {
                name: archive.read(name) for name in archive.namelist() if _is_member(name)
            }
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError, OSError) as error:
        raise RealmError(f"{path}: not a readable zip file ({error}).") from None
    if not members:
        raise RealmError(f"{path}: there is no {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} file in the zip.")
    return members


def _is_member(name: str) -> bool:
    pure = PurePosixPath(name)
    return pure.suffix in SUFFIXES and not pure.name.startswith(".") and "__MACOSX" not in pure.parts
