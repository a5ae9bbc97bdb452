"""Which weights a model's name stands for, so that results of some are not mixed with results of others."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from pathlib import Path

from realm.models.store import models

DECIDING = (
    "config.json", "*.safetensors", "pytorch_model*.bin", "tokenizer*", "vocab*", "merges.txt", "*.model",
    "special_tokens_map.json", "added_tokens.json", "chat_template*",
)  # fmt: skip
"""The files of a checkpoint folder that decide what its model answers."""


def model_fingerprint(model: str) -> str:
    """A hash of the files of a folder; of a named model that of its pinned file; any other name is returned."""
    folder = Path(os.path.expanduser(model))
    if os.path.isfile(folder / "config.json"):
        files = sorted({path for pattern in DECIDING for path in folder.glob(pattern) if path.is_file()})
        return _hash(tuple((path, path.stat().st_size, path.stat().st_mtime_ns) for path in files))
    return next((known.sha256[:16] for known in models() if known.name == model), model)


@lru_cache(maxsize=16)
def _hash(files: tuple[tuple[Path, int, int], ...]) -> str:
    """Of names and content; size and time only keep a folder that has changed apart from what is remembered of it."""
    digest = hashlib.blake2b(digest_size=8)
    for path, _, _ in files:
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{path.name}\0{content}\0".encode())
    return digest.hexdigest()
