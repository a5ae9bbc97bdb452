"""What the frozen layers compute for each row of tokens, once, in a memory-mapped file of the user's cache folder.

Safe on a disk that fills up, after processes that were killed, and beside others that build the same file.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
import zlib
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from realm.errors import RealmError
from realm.files import partial_files, replacing_folder
from realm.models.store import home
from realm.progress import Progress, ignore_progress
from realm.scorers.base import Batch, Scorer
from realm.scorers.encoding import EncodedItems, spans
from realm.scorers.frozen_layers import HEAD

# How states are computed with and stored. NumPy has no bfloat16, so its bits are stored as integers.
DTYPES: dict[str, tuple[torch.dtype, torch.dtype, np.dtype[Any]]] = {
    "float32": (torch.float32, torch.float32, np.dtype(np.float32)),
    "bfloat16": (torch.bfloat16, torch.int16, np.dtype(np.int16)),
}
# A build that is still running writes to its file all the time; a day also covers a computer that slept overnight.
ABANDONED_SECONDS = 24 * 3600
# Bytes of a file that are read at a time for its checksum: large enough for the disk, small beside a model.
READ_SIZE = 2**24


class FrozenLayersCache:
    """The frozen layers' output for the rows of a table, keyed by the frozen weights and the rows' tokens.

    A row has a state per token; where the head alone trains, one. `collate` makes batches with these states.

    The file lies in the user's cache folder and is shared by every run on the same model and items (all methods and
    seeds of `compare`). At most `limit_gb` are kept there in all: older files make room first, but not `beside`, the
    cache of the same run's other table, and rows that still do not fit are computed anew each time they are needed.
    `dtype` is how states are stored, `float32` or `bfloat16`.
    """

    def __init__(
        self,
        scorer: Scorer,
        encoded: EncodedItems,
        limit_gb: float,
        *,
        dtype: str = "float32",
        beside: FrozenLayersCache | None = None,
        progress: Progress = ignore_progress,
    ) -> None:
        self.scorer, self.encoded = scorer, encoded
        # states of row i are `offsets[i]:offsets[i + 1]`
        self.offsets = np.arange(len(encoded.rows) + 1) if scorer.head_only else encoded.rows.offsets
        self.width = int(scorer.backbone.config.get_text_config().hidden_size)
        self.dtype, self._bits, self._stored_dtype = DTYPES[dtype]
        folder = home() / "frozen-layers"
        self.entry = folder / fingerprint(scorer, encoded, dtype)
        limit = int(limit_gb * 1e9)
        if beside is not None and beside.entry != self.entry:
            limit -= beside.size
        token_bytes = self._stored_dtype.itemsize * self.width
        fitting = int(np.searchsorted(self.offsets, limit // token_bytes, side="right")) - 1
        whole_items = np.searchsorted(encoded.row_starts, max(fitting, 0), side="right") - 1
        self.cached_rows = int(encoded.row_starts[whole_items])
        tokens = int(self.offsets[self.cached_rows])
        self._shape = (tokens, self.width)
        self.size: int = token_bytes * tokens
        try:
            if not self._is_whole():
                _make_room(folder, limit - self.size, {self.entry, *([beside.entry] if beside else [])})
                self._build(progress)
            os.utime(self.entry)
        except OSError as error:
            raise RealmError(
                f"{folder}: {self.size / 1e9:.2g} GB of the frozen layers' output cannot be stored there: "
                f"{error.strerror or error}. Free some space, set REALM_HOME to a folder on another disk, or use a "
                "smaller `cache_gb` (0 for none)."
            ) from None
        self.states = self._open(self.entry, "r") if tokens else None

    def _open(self, entry: Path, mode: Any) -> npt.NDArray[Any]:
        return np.memmap(entry / "states", dtype=self._stored_dtype, mode=mode, shape=self._shape)

    def _is_whole(self) -> bool:
        """Whether the entry is finished, has at least the rows and bytes needed, and is as it was written."""
        states = self.entry / "states"
        try:
            rows, checksum = (int(word) for word in (self.entry / "done").read_text().split())
            return rows >= self.cached_rows and states.stat().st_size >= self.size and checksum == _checksum(states)
        except (OSError, ValueError):
            return False

    def _build(self, progress: Progress) -> None:
        _remove_abandoned(self.entry.parent)
        try:
            with replacing_folder(self.entry) as partial:
                (partial / "states").touch()
                if self.size:
                    _reserve(partial / "states", self.size)
                    states: Any = self._open(partial, "r+")
                    self._fill(states, progress)
                    states.flush()
                (partial / "done").write_text(f"{self.cached_rows} {_checksum(partial / 'states')}")
        except OSError:
            if not self._is_whole():  # otherwise another process has built the same entry meanwhile
                raise

    def _fill(self, states: npt.NDArray[Any], progress: Progress) -> None:
        items = np.flatnonzero(self.encoded.row_starts[1:] <= self.cached_rows)
        for part in self.scorer.eval_batches(self.encoded, "computing the frozen layers once", progress, items):
            batch = self.scorer.collate(self.encoded, part)
            computed = self._compute(batch)
            computed = (computed if self.scorer.head_only else computed[batch["attention_mask"].bool()]).to(self.dtype)
            states[spans(self.offsets, self.encoded.rows_of(part))] = computed.view(self._bits).numpy()

    def _compute(self, batch: Batch) -> Tensor:
        inputs = {name: value.to(self.scorer.device) for name, value in batch.items()}
        return self.scorer.frozen_states(inputs).float().cpu()

    @property
    def computed_lengths(self) -> npt.NDArray[np.int64]:
        """How many tokens of each item a forward over the cache computes. (items,)"""
        whole = self.cached_rows == len(self.encoded.rows)
        return np.ones(len(self.encoded), np.int64) if self.scorer.head_only and whole else self.encoded.lengths

    def collate(self, items: npt.NDArray[np.integer]) -> Batch:
        """What the scorer's `collate` makes of these items, and `frozen_states`.

        (rows, tokens, width); where the head alone trains (items, width), and no tokens, which nothing reads then.
        """
        rows = self.encoded.rows_of(items)
        if (rows >= self.cached_rows).any():
            batch = self.scorer.collate(self.encoded, items)
            batch["frozen_states"] = self._compute(batch)
            return batch
        assert self.states is not None
        stored = torch.from_numpy(np.asarray(self.states[spans(self.offsets, rows)])).view(self.dtype).float()
        if self.scorer.head_only:
            return {**self.scorer.collate_options(self.encoded, items), "frozen_states": stored}
        batch = self.scorer.collate(self.encoded, items)
        padded = torch.zeros(*batch["input_ids"].shape, self.width)
        padded[batch["attention_mask"].bool()] = stored
        batch["frozen_states"] = padded
        return batch


def fingerprint(scorer: Scorer, encoded: EncodedItems, dtype: str = "float32") -> str:
    """Names a cache entry: the frozen weights, where they end, every token of every row, and how states are stored."""
    if scorer.frozen_hash is None:  # computed once: both tables of a run need it, and it never changes
        scorer.frozen_hash = hashlib.blake2b(digest_size=20)
        depth = HEAD if scorer.frozen_layers is None else scorer.frozen_layers.depth
        scorer.frozen_hash.update(json.dumps({"depth": depth, "model": type(scorer.backbone).__name__}).encode())
        for name, parameter in sorted(scorer.backbone.named_parameters()):
            if not parameter.requires_grad:
                scorer.frozen_hash.update(name.encode())
                scorer.frozen_hash.update(parameter.detach().cpu().contiguous().view(torch.uint8).numpy().data)
    digest = scorer.frozen_hash.copy()
    digest.update(encoded.rows.values.tobytes())
    digest.update(encoded.rows.offsets.tobytes())
    digest.update(scorer.frozen_inputs(encoded))
    digest.update(b"" if dtype == "float32" else dtype.encode())
    return str(digest.hexdigest())


def _checksum(states: Path) -> int:
    """CRC-32 of a file, read once per process while it is not modified; without it a flipped bit goes unnoticed."""
    about = states.stat()
    return _crc32(states, about.st_size, about.st_mtime_ns)


@lru_cache(maxsize=64)  # both tables of a run, over the models of a comparison in one process
def _crc32(states: Path, size: int, modified: int) -> int:
    checksum = 0
    with states.open("rb") as file:
        while chunk := file.read(READ_SIZE):
            checksum = zlib.crc32(chunk, checksum)
    return checksum


def _reserve(path: Path, size: int) -> None:
    """Take the space at once: a disk that fills up under a memory-mapped file would kill the process without a word."""
    with path.open("wb") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            file.truncate(size)


def _remove_abandoned(folder: Path) -> None:
    """Remove the unfinished entries of processes that were killed."""
    for path in partial_files(folder):
        with suppress(FileNotFoundError):  # another process has finished it meanwhile
            if time.time() - max(each.stat().st_mtime for each in (path, *path.glob("*"))) > ABANDONED_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


def _make_room(folder: Path, room: int, keep: set[Path]) -> None:
    """Remove the entries used longest ago until the rest takes at most `room` bytes."""
    entries = [entry for entry in folder.glob("[!.]*") if entry.is_dir() and entry not in keep]
    for entry in sorted(entries, key=lambda entry: entry.stat().st_mtime, reverse=True):
        room -= sum(file.stat().st_size for file in entry.glob("states"))
        if room < 0:
            shutil.rmtree(entry, ignore_errors=True)
