"""Annotators without their names: keyed hashes (HMAC), the same for the same annotator under the same key."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import replace

from realm.data.annotations import Annotations

LENGTH = 12
"""Hexadecimal digits of a pseudonym: 48 bits, so that a thousand annotators collide once in 500 million tables."""


def pseudonymise(annotations: Annotations, key: bytes | None = None) -> Annotations:
    """The same table with a hash for every annotator's name. Without a key one is drawn, and nobody can link them."""
    key = secrets.token_bytes(32) if key is None else key
    hashes = [hmac.new(key, name.encode("utf-8"), hashlib.sha256).hexdigest() for name in annotations.annotators]
    length = LENGTH
    while len({digits[:length] for digits in hashes}) < len(hashes):
        length += 1
    return replace(annotations, annotators=tuple(f"a{digits[:length]}" for digits in hashes))
