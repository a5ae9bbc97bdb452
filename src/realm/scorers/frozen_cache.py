"""What the frozen layers compute for a row of tokens, once per process, in an unnamed file that ends with it."""

from __future__ import annotations

import hashlib
import json
import os
from itertools import pairwise
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from realm.errors import RealmError
from realm.models.store import home
from realm.progress import Progress, ignore_progress
from realm.scorers.base import Batch, Scorer
from realm.scorers.encoding import EncodedItems, ranges


class _States:
    """The states of rows, by what the rows hold, in one file that grows: a row's begin at `starts[digest]`."""

    def __init__(self, width: int) -> None:
        self.width, self.token_bytes, self.length = width, width * np.dtype(np.float32).itemsize, 0
        self.starts: dict[bytes, int] = {}
        self.values: Any = None  # (length, width)
        home().mkdir(parents=True, exist_ok=True)
        self.file = TemporaryFile(dir=home())  # noqa: SIM115 - open as long as the states are used

    def grow(self, length: int) -> None:
        """Take the space at once: a disk that fills up under a memory-mapped file would kill the process."""
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self.file.fileno(), 0, length * self.token_bytes)
        else:
            self.file.truncate(length * self.token_bytes)
        self.values = np.memmap(self.file, np.float32, "r+", shape=(length, self.width))


_STATES: dict[str, _States] = {}
"""The states of the frozen layers that were used last, by what decides them."""


def forget() -> None:
    """Begin anew."""
    _STATES.clear()


class FrozenLayersCache:
    """The frozen layers' output for the rows of a table.

    A row has a state per token; where the head alone trains, one. `collate` makes batches with these states. A row is
    known by the frozen weights and its tokens: one that occurs in several tables, folds or runs of a process is
    computed once. A table whose states need more than `limit_gb` is not kept: they are computed in each batch.
    """

    def __init__(
        self, scorer: Scorer, encoded: EncodedItems, limit_gb: float, *, progress: Progress = ignore_progress
    ) -> None:
        self.scorer, self.encoded = scorer, encoded
        self.lengths = np.ones(len(encoded.rows), np.int64) if scorer.head_only else encoded.rows.lengths
        self.states: _States | None = None
        self.starts = np.zeros(0, np.int64)  # where the states of each row begin
        digests = _digests(scorer, encoded)
        try:
            self._fill(digests, int(limit_gb * 1e9), progress)
        except OSError as error:
            raise RealmError(
                f"{home()}: the frozen layers' output cannot be stored there: {error.strerror or error}. Free some "
                "space, set REALM_HOME to a folder on another disk, or use a smaller `cache_gb` (0 for none)."
            ) from None
        if self.states is not None:
            self.starts = np.array([self.states.starts[digest] for digest in digests], np.int64)

    @property
    def size(self) -> int:
        """Bytes of the states of this table that are kept."""
        return 0 if self.states is None else int(self.lengths.sum()) * self.states.token_bytes

    @property
    def computed_lengths(self) -> npt.NDArray[np.int64]:
        """How many tokens of each item a forward over the cache computes. (items,)"""
        whole = self.scorer.head_only and self.states is not None
        return np.ones(len(self.encoded), np.int64) if whole else self.encoded.lengths

    def _fill(self, digests: list[bytes], limit: int, progress: Progress) -> None:
        """Compute the rows that are not there, if there is room for all of them."""
        key = f"{os.getpid()} {fingerprint(self.scorer)}"  # a forked process would write to the same file
        lengths = dict(zip(digests, self.lengths.tolist(), strict=True))
        states = _STATES.get(key)
        if states is None or (states.length + _total(lengths, states)) * states.token_bytes > limit:
            states = _States(int(self.scorer.backbone.config.get_text_config().hidden_size))
        end = states.length + _total(lengths, states)
        if end * states.token_bytes > limit:
            return
        _STATES.clear()
        _STATES[key] = self.states = states
        new: dict[bytes, int] = {}
        row_is_new = np.zeros(len(digests), bool)
        start = states.length
        for row, digest in enumerate(digests):
            if digest not in states.starts and digest not in new:
                new[digest], row_is_new[row] = start, True
                start += lengths[digest]
        if not new:
            return
        states.grow(end)
        starts = self.encoded.row_starts
        items = np.flatnonzero([row_is_new[first:last].any() for first, last in pairwise(starts)])
        for part in self.scorer.eval_batches(self.encoded, "computing the frozen layers once", progress, items):
            batch, rows = self.scorer.collate(self.encoded, part), self.encoded.rows_of(part)
            computed = self._compute(batch)
            computed = computed if self.scorer.head_only else computed[batch["attention_mask"].bool()]
            kept = row_is_new[rows]
            places = np.array([new[digests[row]] for row in rows[kept]], np.int64)
            tokens = ranges(places, self.lengths[rows][kept])
            states.values[tokens] = computed.numpy()[np.repeat(kept, self.lengths[rows])]
        states.starts |= new
        states.length = end

    def _compute(self, batch: Batch) -> Tensor:
        inputs = {name: value.to(self.scorer.device) for name, value in batch.items()}
        return self.scorer.frozen_states(inputs).float().cpu()

    def collate(self, items: npt.NDArray[np.integer]) -> Batch:
        """What the scorer's `collate` makes of these items, and `frozen_states`.

        (rows, tokens, width); where the head alone trains (items, width), and no tokens, which nothing reads then.
        """
        if self.states is None:
            batch = self.scorer.collate(self.encoded, items)
            return {**batch, "frozen_states": self._compute(batch)}
        rows = self.encoded.rows_of(items)
        states = torch.from_numpy(np.asarray(self.states.values[ranges(self.starts[rows], self.lengths[rows])]))
        if self.scorer.head_only:
            return {**self.scorer.collate_options(self.encoded, items), "frozen_states": states}
        batch = self.scorer.collate(self.encoded, items)
        padded = torch.zeros(*batch["input_ids"].shape, self.states.width)
        padded[batch["attention_mask"].bool()] = states
        return {**batch, "frozen_states": padded}


def _total(lengths: dict[bytes, int], states: _States) -> int:
    """Tokens of the rows that are not there yet."""
    return sum(length for digest, length in lengths.items() if digest not in states.starts)


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
