"""What the frozen layers compute for a row of tokens, once per process, in an unnamed file that ends with it."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import shutil
from itertools import pairwise
from tempfile import TemporaryFile
from typing import Any
from weakref import WeakSet

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from realm.errors import RealmError
from realm.models.store import home
from realm.progress import Progress, ignore_progress
from realm.scorers.base import Batch, Scorer
from realm.scorers.encoding import EncodedItems, ranges


class FrozenStates:
    """The states of rows, by what the rows hold, in one file that grows: a row's begin at `starts[digest]`."""

    def __init__(self, width: int) -> None:
        self.width, self.token_bytes, self.length = width, width * np.dtype(np.float32).itemsize, 0
        self.starts: dict[bytes, int] = {}
        self.tables: WeakSet[FrozenLayersCache] = WeakSet()
        self.values: Any = None  # (length, width)
        home().mkdir(parents=True, exist_ok=True)
        shutil.rmtree(home() / "frozen-layers", ignore_errors=True)  # of versions that kept states between processes
        self.file = TemporaryFile(dir=home())  # noqa: SIM115 - open as long as the states are used

    def grow(self, length: int) -> None:
        """Take the space at once: a disk that fills up under a memory-mapped file would kill the process."""
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self.file.fileno(), 0, length * self.token_bytes)
        else:
            self.file.truncate(length * self.token_bytes)
        self.values = np.memmap(self.file, np.float32, "r+", shape=(length, self.width))


_STATES: dict[str, FrozenStates] = {}
"""The states of the frozen layers that were used last, by what decides them."""


def forget() -> None:
    """Begin anew."""
    _STATES.clear()


class FrozenLayersCache:
    """The frozen layers' output for the rows of a table.

    A row has a state per token; where the head alone trains, one. `collate` makes batches with these states. A row is
    known by the frozen weights and its tokens: one that occurs in several tables, folds or runs of a process is
    computed once. At most `limit_gb` are kept; what does not fit is computed anew each time it is needed.
    """

    def __init__(
        self,
        scorer: Scorer,
        encoded: EncodedItems,
        limit_gb: float,
        *,
        progress: Progress = ignore_progress,
    ) -> None:
        self.scorer, self.encoded = scorer, encoded
        self.lengths = np.ones(len(encoded.rows), np.int64) if scorer.head_only else encoded.rows.lengths
        digests, limit = _digests(scorer, encoded), int(limit_gb * 1e9)
        try:
            # a forked process would write to the same file
            key = f"{os.getpid()} {fingerprint(scorer)}"
            self.store = self._open(key, digests, limit)
            self._fill(digests, limit, progress)
        except OSError as error:
            raise RealmError(
                f"{home()}: the frozen layers' output cannot be stored there: "
                f"{error.strerror or error}. Free some space, set REALM_HOME to a folder on another disk, or use a "
                "smaller `cache_gb` (0 for none)."
            ) from None
        self.starts = np.array([self.store.starts.get(digest, -1) for digest in digests], np.int64)
        self.store.tables.add(self)

    @property
    def size(self) -> int:
        """Bytes of the states of this table that are kept."""
        return int(self.lengths[self.starts >= 0].sum()) * self.store.token_bytes

    @property
    def computed_lengths(self) -> npt.NDArray[np.int64]:
        """How many tokens of each item a forward over the cache computes. (items,)"""
        whole = self.scorer.head_only and (self.starts >= 0).all()
        return np.ones(len(self.encoded), np.int64) if whole else self.encoded.lengths

    def _open(self, key: str, digests: list[bytes], limit: int) -> FrozenStates:
        """The states of these frozen layers; begun anew where there is no room and no table uses what is there."""
        if (store := _STATES.get(key)) is not None:
            lengths = dict(zip(digests, self.lengths.tolist(), strict=True))
            needed = store.length + sum(length for digest, length in lengths.items() if digest not in store.starts)
            if needed * store.token_bytes <= limit:
                return store
            gc.collect()  # a trainer that is done may still be there
            if store.tables:
                return store
        _STATES.clear()
        _STATES[key] = FrozenStates(int(self.scorer.backbone.config.get_text_config().hidden_size))
        return _STATES[key]

    def _fill(self, digests: list[bytes], limit: int, progress: Progress) -> None:
        """Compute the rows that are not there, of as many items as there is room for."""
        store, row_starts, lengths = self.store, self.encoded.row_starts.tolist(), self.lengths.tolist()
        starts: dict[bytes, int] = {}
        items, end = [], store.length
        for item, (first, last) in enumerate(pairwise(row_starts)):
            new = {digests[row]: lengths[row] for row in range(first, last) if digests[row] not in store.starts}
            new = {digest: length for digest, length in new.items() if digest not in starts}
            if (end + sum(new.values())) * store.token_bytes > limit:
                break
            for digest, length in new.items():
                starts[digest] = end
                end += length
            if new:
                items.append(item)
        if not items:
            return
        store.grow(end)
        what, selected = "computing the frozen layers once", np.array(items)
        for part in self.scorer.eval_batches(self.encoded, what, progress, selected):
            batch, rows = self.scorer.collate(self.encoded, part), self.encoded.rows_of(part)
            states = self._compute(batch)
            states = states if self.scorer.head_only else states[batch["attention_mask"].bool()]
            places = np.array([starts.get(digests[row], -1) for row in rows])
            is_new = places >= 0
            tokens = ranges(places[is_new], self.lengths[rows][is_new])
            store.values[tokens] = states.numpy()[np.repeat(is_new, self.lengths[rows])]
        store.starts |= starts
        store.length = end

    def _compute(self, batch: Batch) -> Tensor:
        inputs = {name: value.to(self.scorer.device) for name, value in batch.items()}
        return self.scorer.frozen_states(inputs).float().cpu()

    def collate(self, items: npt.NDArray[np.integer]) -> Batch:
        """What the scorer's `collate` makes of these items, and `frozen_states`.

        (rows, tokens, width); where the head alone trains (items, width), and no tokens, which nothing reads then.
        """
        rows = self.encoded.rows_of(items)
        starts = self.starts[rows]
        if (starts < 0).any():
            batch = self.scorer.collate(self.encoded, items)
            return {**batch, "frozen_states": self._compute(batch)}
        states = torch.from_numpy(np.asarray(self.store.values[ranges(starts, self.lengths[rows])]))
        if self.scorer.head_only:
            return {**self.scorer.collate_options(self.encoded, items), "frozen_states": states}
        batch = self.scorer.collate(self.encoded, items)
        padded = torch.zeros(*batch["input_ids"].shape, self.store.width)
        padded[batch["attention_mask"].bool()] = states
        return {**batch, "frozen_states": padded}


def fingerprint(scorer: Scorer) -> str:
    """Names the frozen part of a scorer: its kind, config and weights, and where it ends; computed once for each."""
    if scorer.frozen_hash is None:
        digest = hashlib.blake2b(digest_size=20)
        config = scorer.backbone.config.to_dict()
        about = [type(scorer.backbone).__name__, scorer.train_layers, {**config, "_name_or_path": None}]
        digest.update(json.dumps(about, sort_keys=True, default=str).encode())
        for name, parameter in sorted(scorer.backbone.named_parameters()):
            if not parameter.requires_grad:
                digest.update(name.encode())
                digest.update(parameter.detach().cpu().contiguous().view(torch.uint8).numpy().data)
        scorer.frozen_hash = digest.hexdigest()
    return scorer.frozen_hash


def _digests(scorer: Scorer, encoded: EncodedItems) -> list[bytes]:
    """What decides the states of each row beside the frozen weights: its tokens, and what the scorer adds to them."""
    tokens, offsets = encoded.rows.values.tobytes(), (encoded.rows.offsets * encoded.rows.values.itemsize).tolist()
    added = [scorer.frozen_input(task) for task in range(len(scorer.tasks))]
    tasks = np.repeat(encoded.tasks, np.diff(encoded.row_starts)).tolist()
    return [
        hashlib.blake2b(tokens[offsets[row] : offsets[row + 1]] + added[task], digest_size=16).digest()
        for row, task in enumerate(tasks)
    ]
