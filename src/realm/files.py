"""Files that are whole or absent: written beside, then renamed; folders with a SHA-256 manifest written last."""

from __future__ import annotations

import hashlib
import json
import os
import re
import reprlib
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from realm.errors import RealmError
from realm.interrupts import removed_at_the_end
from realm.locks import LOCK, claim, if_abandoned, is_at, is_claimed
from realm.schema import check

MANIFEST = "manifest.json"
MOST_JSON, MOST_YAML = 1 << 28, 1 << 20
"""Bytes of a JSON and of a YAML file that is read: the names of millions of annotators, and the longest of settings
(YAML is read at less than a megabyte a second)."""
_FILE_NAME = re.compile(r"(?!/)(?!(.*/)?\.{1,2}(/|$))[^\x00-\x1f\\]+")
"""A name below a folder: it does not lead out of it."""
_HASH = re.compile(r"[0-9a-f]{64}")
_MARK = ".realm-"
"""Between the name of a file and the eight characters that `tempfile` adds, so that nobody else's file is taken for
a half-written one of ours."""
_PARTIAL = re.compile(rf"\.(?P<name>.+){re.escape(_MARK)}[a-z0-9_]{{8}}(?P<suffix>\..*)?", re.DOTALL)
_UNREADABLE: tuple[type[Exception], ...] = (OSError, ValueError, SafetensorError, yaml.YAMLError)
LONGEST_REASON = 500
"""Characters of what a library says of a file: it may quote the file."""
_RESUME = " Mend that, then go on with the same command and `resume`."


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file beside `path` to be written, which takes its place in one step when the block ends without an error.

    What a process that was killed left of an earlier try is removed; what another one is writing now is not.
    """
    path = Path(os.path.realpath(path))  # so that a link's target is written
    if path.exists() and not path.is_file():
        raise RealmError(f"{path}: cannot be written: it is a folder or a device. Name a file.")
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_partial_files(path.parent, path.name)
    with removed_at_the_end(lambda: _partial_file(path), _remove_partial_file) as (partial, _):
        yield partial
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.chmod(0o644)
        partial.replace(path)


def _partial_file(path: Path) -> tuple[Path, int]:
    """A new file beside `path`, claimed for as long as the handle is open."""
    while True:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}{_MARK}", suffix=path.suffix)
        made = Path(name), handle
        try:
            if claim(handle) is not False and is_at(handle, name):
                return made
        except OSError:
            _remove_partial_file(made)
            raise
        os.close(handle)  # another process has just taken it for an abandoned one


def _remove_partial_file(made: tuple[Path, int]) -> None:
    partial, handle = made
    partial.unlink(missing_ok=True)
    os.close(handle)


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """A folder beside `folder` to be filled, which takes its place when the block ends without an error."""
    with working_folder(folder) as partial:
        yield partial
        partial.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)


@contextmanager
def working_folder(path: Path) -> Iterator[Path]:
    """A folder beside `path` in which it is prepared, removed when the block ends.

    What a process that was killed left of an earlier one is removed; what another one works in now is not.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_partial_files(path.parent, path.name)
    with removed_at_the_end(lambda: _partial_folder(path), _remove_partial_folder) as (partial, _):
        yield partial


def _partial_folder(path: Path) -> tuple[Path, int]:
    while True:
        name = tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}{_MARK}")
        try:
            handle = os.open(name, os.O_RDONLY)
        except FileNotFoundError:
            continue
        made = Path(name), handle
        try:
            if claim(handle) is not False and is_at(handle, name):
                return made
        except OSError:
            _remove_partial_folder(made)
            raise
        os.close(handle)


def _remove_partial_folder(made: tuple[Path, int]) -> None:
    partial, handle = made
    shutil.rmtree(partial, ignore_errors=True)
    os.close(handle)


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
    except RecursionError:
        raise RealmError(f"{path}: not readable as {kind}: nested too deeply.") from None
    except MemoryError:
        raise RealmError(f"{path}: not readable as {kind}: it asks for more memory than there is.") from None
    except (*_UNREADABLE, *errors) as error:
        reason = (getattr(error, "strerror", None) or str(error)).strip() or type(error).__name__
        raise RealmError(f"{path}: not readable as {kind}: {reason[:LONGEST_REASON]}") from None


def is_partial(name: str) -> bool:
    """Whether a name is that of a half-written file or folder of ours."""
    return _PARTIAL.fullmatch(name) is not None


def partial_files(folder: Path, name: str | None = None) -> list[Path]:
    """The half-written files and folders in a folder: of one name, or all."""
    try:
        names = [match for entry in os.listdir(folder) if (match := _PARTIAL.fullmatch(entry))]
    except OSError:  # no folder, or one that may not be listed
        return []
    return [folder / match.group() for match in names if name in (None, match["name"])]


def remove_partial_files(folder: Path, name: str | None = None) -> None:
    """Remove half-written files and folders whose process is gone: of one name, or all."""
    for path in partial_files(folder, name):
        with if_abandoned(path) as abandoned, suppress(OSError):
            if abandoned:
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def is_being_written(path: Path) -> bool:
    """Whether another process is writing the file at this moment."""
    path = Path(os.path.realpath(path))
    return any(is_claimed(partial) for partial in partial_files(path.parent, path.name))


def write_text(path: Path, text: str) -> None:
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=str) + "\n")


def write_yaml(path: Path, value: Any) -> None:
    write_text(path, yaml.safe_dump(value, sort_keys=False, allow_unicode=True))


def write_tensors(path: Path, **arrays: npt.NDArray[Any]) -> None:
    """Write named arrays as safetensors."""
    with replacing(path) as partial:
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, partial)


def read_tensors(path: Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a safetensors file by name."""
    # numpy lacks some of the types that a header may name, and fails in these ways
    with reading(path, "safetensors", KeyError, TypeError, AttributeError, OverflowError):
        return dict(load_file(path))


def read_json(path: Path, most: int = MOST_JSON) -> Any:
    """What a JSON file of at most `most` bytes says; NaN and Infinity are no JSON."""
    with reading(path, "JSON"):
        return parse_json(_text(path, most), parse_constant=_refuse_constant)


class RepeatedKey(ValueError):
    """A key that stands twice in one object: of its values only the last would be read."""


def parse_json(text: str | bytes, parse_constant: Callable[[str], Any] | None = None) -> Any:
    """What JSON says; a `RepeatedKey` where one object has a key twice."""
    return json.loads(text, object_pairs_hook=_without_repeats, parse_constant=parse_constant)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        key = next(key for key, _ in pairs if counts[key] > 1)
        values = " and ".join(reprlib.repr(value) for name, value in pairs if name == key)
        raise RepeatedKey(f"the key {reprlib.repr(key)} stands {counts[key]} times in one object, with {values[:200]}")
    return content


def _refuse_constant(name: str) -> None:
    raise ValueError(f"it holds {name}, which is no number")


class TextLoader(yaml.SafeLoader):
    """Every value but null as a string, as it is written: `no` is a word, and `1.0` keeps its zero."""


TextLoader.yaml_implicit_resolvers = {
    mark: [(tag, form) for tag, form in resolvers if tag in ("tag:yaml.org,2002:null", "tag:yaml.org,2002:merge")]
    for mark, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_yaml(path: Path, loader: type[yaml.SafeLoader] = yaml.SafeLoader) -> Any:
    """What a YAML file says; `loader` is a safe one, which makes nothing but plain values."""
    # its own constructors fail in these ways on a tag that does not fit its value, such as !!int "" and !!bool x
    with reading(path, "YAML", LookupError, AttributeError, TypeError, OverflowError):
        document = loader(_text(path, MOST_YAML))
        node = document.get_single_node()
        if node is None:
            return None
        _refuse_repeats(node)
        return document.construct_document(node)


def _refuse_repeats(root: yaml.Node) -> None:
    """Refuse a key that stands twice in one mapping."""
    waiting, seen = [root], {id(root)}
    while waiting:
        node = waiting.pop()
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        keys = [(key.tag, key.value) for key, _ in pairs if isinstance(key, yaml.ScalarNode)]
        if len(set(keys)) < len(keys):
            key = next(key for key, _ in pairs if keys.count((key.tag, key.value)) > 1)
            line = key.start_mark.line + 1
            raise RepeatedKey(f"the key {reprlib.repr(key.value)} of line {line} stands there several times")
        inside = [part for pair in pairs for part in pair] if pairs else node.value
        for each in inside if isinstance(inside, list) else []:
            if isinstance(each, yaml.Node) and id(each) not in seen:  # an alias is the node that it stands for
                seen.add(id(each))
                waiting.append(each)


def _text(path: Path, most: int) -> str:
    """The text of a file, which has at most this many bytes."""
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"it is larger than {most / 1e6:,.0f} MB, more than any such file of ours")
    return content.decode("utf-8")


def without_home(text: str) -> str:
    """The text with the user's home folder written as ~: what is written down is nobody else's business.

    A path written so is still the same to whoever expands it, and is right in another's home too.
    """
    home = os.path.expanduser("~")
    for folder in {home, os.path.realpath(home)}:
        if len(folder) > 1:  # "/" is no one's
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
    content = read_json(path)
    check(path, content, {"sha256": {str: str}})
    hashes: dict[str, str] = content["sha256"]
    for name, expected in hashes.items():
        if not _FILE_NAME.fullmatch(name) or not _HASH.fullmatch(expected):
            raise RealmError(f"{path}: {name!r} is no name of a file below it, or its SHA-256 is none.")
    return hashes


def verify_manifest(
    folder: Path, skip: tuple[str, ...] = (), expected: Callable[[str], bool] = lambda name: False
) -> None:
    """Refuse a folder whose files are not those its manifest names. Files and subfolders in `skip` are not read.

    A file for which `expected` is true must be in the manifest, if it is there.
    """
    hashes = manifest_hashes(folder)
    for name, digest in hashes.items():
        if name.split("/")[0] in skip:
            continue
        path = folder / name
        if not path.is_file():
            raise RealmError(f"{path} is missing: {folder} is not whole.")
        if sha256(path) != digest:
            raise RealmError(f"{path} was changed or damaged: its SHA-256 is not the one in {folder / MANIFEST}.")
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name not in hashes and name.split("/")[0] not in skip and expected(name) and path.is_file():
            raise RealmError(f"{path} is not in {folder / MANIFEST}: it was put there later, and is not read.")
