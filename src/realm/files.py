"""Files that are whole or absent: written beside, then renamed; folders with a SHA-256 manifest written last."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import reprlib
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml
from filelock import lock_descriptor
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from realm.errors import RealmError
from realm.locks import LOCK
from realm.schema import parse

MANIFEST = "manifest.json"
_PARTIAL = re.compile(r"\.(?P<name>.+)\.realm-[a-z0-9_]{8}(\..*)?", re.DOTALL)
"""What we are writing, or have put aside, is called `.NAME.realm-XXXXXXXX`, with the ending of NAME."""
_ASIDE = "previous"
"""In place of the eight letters: a folder that is being replaced."""
_UNREADABLE: tuple[type[Exception], ...] = (OSError, ValueError, RecursionError, SafetensorError, yaml.YAMLError)
LONGEST_REASON = 500
"""Characters of what a library says of a file: it may quote the file."""
_RESUME = " Fix this and run the same command again with `resume`."


# -------------------------------------------------------------------- whole or absent


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file beside `path` to be written, which takes its place in one step when the block ends without an error.

    It gets the mode of the file that it replaces, and that of any new file otherwise. What a process that was killed
    left of an earlier try is removed; what another one is writing now is not.
    """
    path = Path(os.path.realpath(path))  # so that a link's target is written
    if path.exists() and not path.is_file():
        raise RealmError(f"{path}: cannot be written: it is a folder or a device. Name a file.")
    with _partial(path, path.suffix, _open_new) as (partial, handle):
        mode = path.stat().st_mode & 0o777 if path.exists() else None
        if mode is not None:
            os.fchmod(handle, mode | 0o600)  # as private as that one from the first byte on
        yield partial
        if mode is not None:
            partial.chmod(mode)
        os.fsync(handle)
        partial.replace(path)


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """A folder beside `folder` to be filled, which takes its place when the block ends without an error.

    The old one is put aside and removed only when the new one is in its place; `remove_partial_files` puts it back
    where a process was killed in between.
    """
    with _partial(folder, "", _open_new_folder) as (partial, _):
        yield partial
        aside = folder.with_name(f".{folder.name}.realm-{_ASIDE}")
        with suppress(FileNotFoundError):
            folder.rename(aside)
        try:
            partial.rename(folder)
        except OSError:
            if aside.exists():
                aside.rename(folder)
            raise
        shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def _partial(path: Path, suffix: str, create: Callable[[Path], int]) -> Iterator[tuple[Path, int]]:
    """A new file or folder beside `path`, locked by its handle while the block runs, and removed after it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_partial_files(path.parent, path.name)
    while True:
        partial = path.with_name(f".{path.name}.realm-{secrets.token_hex(4)}{suffix}")
        handle = create(partial)
        if _lock(handle) and partial.exists():
            break
        os.close(handle)  # another process has just taken it for an abandoned one
    try:
        yield partial, handle
    finally:
        _remove(partial)
        os.close(handle)


def _open_new(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)


def _open_new_folder(path: Path) -> int:
    path.mkdir()
    return os.open(path, os.O_RDONLY)


def _lock(handle: int) -> bool:
    """Whether an open file is now ours; so it is too where the file system knows no locks."""
    try:
        return lock_descriptor(handle, blocking=False)
    except OSError:
        return True


def _remove(path: Path) -> None:
    with suppress(OSError):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def partial_files(folder: Path, name: str | None = None) -> list[Path]:
    """The half-written files and folders in a folder: of one name, or all."""
    with suppress(OSError):  # no folder, or one that may not be listed
        matches = [match for entry in os.listdir(folder) if (match := _PARTIAL.fullmatch(entry))]
        return [folder / match.group() for match in matches if name in (None, match["name"])]
    return []


def remove_partial_files(folder: Path, name: str | None = None) -> None:
    """Remove half-written files and folders whose process is gone: of one name, or all."""
    for path in partial_files(folder, name):
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:  # a link, or gone already
            continue
        is_abandoned = _lock(handle)
        os.close(handle)
        whole = folder / path.name[1:].removesuffix(f".realm-{_ASIDE}")
        if path.name.endswith(f".realm-{_ASIDE}") and not whole.exists():
            path.rename(whole)
        elif is_abandoned:
            _remove(path)


# -------------------------------------------------------------------- errors of disks and files


@contextmanager
def writing(path: Path, advice: str = _RESUME) -> Iterator[None]:
    """Turn the errors of a full or read-only disk into a `RealmError` that names the file and ends with `advice`."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error)
    except RuntimeError as error:  # PyTorch's writer says no more than where it stopped
        if not re.search(r"PytorchStreamWriter|inline_container|iostream|file write", str(error)):
            raise
        reason = "the disk is probably full"
    else:
        return
    raise RealmError(f"{path}: cannot be written: {reason}.{advice}") from None


@contextmanager
def reading(path: Path, kind: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn a missing or damaged file into a `RealmError` that names it; `kind` is what the file should be."""
    try:
        yield
    except FileNotFoundError:
        raise RealmError(f"{path}: no such file; is {path.parent} a run folder that finished?") from None
    except (*_UNREADABLE, *errors) as error:
        reason = (getattr(error, "strerror", None) or str(error)).strip() or type(error).__name__
        raise RealmError(f"{path}: not readable as {kind}: {reason[:LONGEST_REASON]}") from None


# -------------------------------------------------------------------- kinds of files


def write_text(path: Path, text: str) -> None:
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write JSON: numbers of numpy as numbers, what is not finite as null; a `TypeError` for what is no JSON."""
    write_text(path, json.dumps(as_json(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def as_json(value: Any) -> Any:
    """The value with numbers of numpy as Python's, and what is not finite as None."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Mapping):
        return {key: as_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_yaml(path: Path, value: Any) -> None:
    write_text(path, yaml.safe_dump(value, sort_keys=False, allow_unicode=True))


def write_tensors(path: Path, **arrays: npt.NDArray[Any]) -> None:
    """Write named arrays as safetensors."""
    with replacing(path) as partial:
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, partial)


def read_tensors(path: Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a safetensors file by name."""
    with reading(path, "safetensors", KeyError, TypeError, AttributeError):  # types that numpy lacks
        return dict(load_file(path))


def read_json(path: Path) -> Any:
    """The content of a JSON file; NaN and Infinity are no JSON."""

    def refuse(name: str) -> None:
        raise ValueError(f"it holds {name}, which is no number")

    with reading(path, "JSON"):
        return parse_json(path.read_text(encoding="utf-8"), parse_constant=refuse)


class RepeatedKey(ValueError):
    """A key that stands twice in one object: of its values only the last would be read."""


def parse_json(text: str | bytes, parse_constant: Callable[[str], Any] | None = None) -> Any:
    """The content of JSON; a `RepeatedKey` where one object has a key twice."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content: dict[str, Any] = {}
        for key, value in pairs:
            if key in content:
                values = f"{reprlib.repr(content[key])} and {reprlib.repr(value)}"
                raise RepeatedKey(f"the key {reprlib.repr(key)} stands twice in one object, with {values}")
            content[key] = value
        return content

    return json.loads(text, object_pairs_hook=unique, parse_constant=parse_constant)


class UniqueKeysLoader(yaml.SafeLoader):
    """YAML's safe loader, which refuses a key that stands twice in one mapping."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode) and not key.tag.endswith(":merge")]
        seen = set()
        for key in keys:
            if (key.tag, key.value) in seen:
                line = key.start_mark.line + 1
                raise RepeatedKey(f"the key {reprlib.repr(key.value)} of line {line} stands there several times")
            seen.add((key.tag, key.value))
        return super().construct_mapping(node, deep)


class TextLoader(UniqueKeysLoader):
    """Every value but null as a string, as it is written: `no` is a word, and `1.0` keeps its zero."""


TextLoader.yaml_implicit_resolvers = {
    mark: [(tag, form) for tag, form in resolvers if tag.endswith((":null", ":merge"))]
    for mark, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_yaml(path: Path, loader: type[UniqueKeysLoader] = UniqueKeysLoader) -> Any:
    """The content of a YAML file; `loader` is a safe one, which makes nothing but plain values."""
    # its own constructors fail in these ways on a tag that does not fit its value, such as !!int "" and !!bool x
    with reading(path, "YAML", LookupError, AttributeError, TypeError, OverflowError):
        return yaml.load(path.read_text(encoding="utf-8"), loader)  # noqa: S506


# -------------------------------------------------------------------- what is in a folder


def without_home(text: str) -> str:
    """The text with the user's home folder written as ~: what is written down is nobody else's business."""
    home = os.path.expanduser("~")
    for folder in {home, os.path.realpath(home)} - {"/"}:
        text = re.sub(rf"(?<![\w.~/-]){re.escape(folder)}(?=[/\\\s:'\",)\]]|$)", "~", text)
    return text


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_manifest(folder: Path, skip: tuple[str, ...] = ()) -> None:
    """Record the SHA-256 of every file under the folder; the last file to be written."""
    files = {
        str(path.relative_to(folder)): sha256(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in (MANIFEST, LOCK) and path.relative_to(folder).parts[0] not in skip
    }
    write_json(folder / MANIFEST, {"sha256": files})


def manifest_hashes(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file as the folder's manifest has it."""
    path = folder / MANIFEST
    hashes = parse(path, read_json(path), dict[str, dict[str, str]]).get("sha256")
    if hashes is None or any(Path(name).is_absolute() or ".." in Path(name).parts for name in hashes):
        raise RealmError(f"{path}: lacks `sha256` of files below it. It is damaged, or no manifest of ours.")
    return hashes


def verify_manifest(
    folder: Path, skip: tuple[str, ...] = (), expected: Callable[[str], bool] = lambda name: False
) -> None:
    """Refuse a folder whose files are not those its manifest names. Files and subfolders in `skip` are not read.

    A file for which `expected` is true must be in the manifest, if it is there.
    """
    hashes = manifest_hashes(folder)
    for name, digest in hashes.items():
        path = folder / name
        if name.split("/")[0] in skip:
            continue
        if not path.is_file():
            raise RealmError(f"{path} is missing: {folder} is not whole.")
        if sha256(path) != digest:
            raise RealmError(f"{path} was changed or damaged: its SHA-256 is not the one in {folder / MANIFEST}.")
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name not in hashes and name.split("/")[0] not in skip and expected(name) and path.is_file():
            raise RealmError(f"{path} is not in {folder / MANIFEST}: it was put there later, and is not read.")
