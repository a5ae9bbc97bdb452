"""Annotators without their names: keyed hashes (HMAC), the same for the same annotator under the same key."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from realm.data.annotations import Annotations
from realm.errors import RealmError

SHORTEST_KEY = 16
"""Bytes of a key: 128 bits, which cannot be found by trying."""
LENGTH = 12
"""Hexadecimal digits of a pseudonym: 48 bits, so that a thousand annotators collide once in 500 million tables."""
KEY_BYTES = 32
"""Bytes of a key that is drawn: 256 bits, as many as the hash has."""


def pseudonymise(annotations: Annotations, key: bytes) -> Annotations:
    """The same table with every annotator's name replaced by a keyed hash of it."""
    hashes = [hmac.new(key, name.encode("utf-8"), hashlib.sha256).hexdigest() for name in annotations.annotators]
    length = LENGTH
    while len({digits[:length] for digits in hashes}) < len(hashes):
        length += 1
    return replace(annotations, annotators=tuple(f"a{digits[:length]}" for digits in hashes))


def read_key(path: Path | None) -> bytes:
    """The key in the file; where there is no file yet, it is drawn and stored there, readable by its owner alone.

    Without a file the key is drawn and forgotten: nobody can link the hashes to names or to another import.
    """
    if path is None:
        return secrets.token_bytes(KEY_BYTES)
    try:
        if not path.exists():
            _draw_key(path)
        key = path.read_bytes().strip()
    except OSError as error:
        raise RealmError(f"`key_file={path}`: {error.strerror or error}.") from None
    if len(key) < SHORTEST_KEY:
        raise RealmError(
            f"`key_file={path}`: a key of {SHORTEST_KEY} bytes or more is needed; this one has {len(key)}."
        )
    return key


def _draw_key(path: Path) -> None:
    """Store a new key: in one step, so that half a key is never taken for one, and only where there is none yet."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.realm-") as file:  # its owner's alone
        file.write(secrets.token_hex(KEY_BYTES).encode() + b"\n")
        file.flush()
        with suppress(FileExistsError):  # another process drew one meanwhile: that is the key
            os.link(file.name, path)
