"""What the frozen part of the backbone computes for each row, once, in a memory-mapped file."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from realm.models.store import home
from realm.scorers.base import Batch, Scorer
from realm.scorers.cache_files import cache_folder, holds, partial_name, remove_abandoned, reserve, seal
from realm.scorers.encoding import EncodedItems, batches_by_tokens, spans

# NumPy has no bfloat16, so its bits are kept as integers.
STORED: dict[str, tuple[torch.dtype, np.dtype[Any]]] = {
    "float32": (torch.float32, np.dtype(np.float32)),
    "bfloat16": (torch.bfloat16, np.dtype(np.int16)),
}


class TrunkCache:
    """States below the trained layers, keyed by the frozen weights and the rows' tokens.

    The file lies in the user's cache folder and is shared by every run on the same model and items (all methods and
    seeds of `compare`). At most `limit_gb` are kept there in all: older files make room first, but not `beside`, the
    other table of the same run, and rows that still do not fit are computed anew each time they are needed. `dtype` is
    how states are kept, `float32` or `bfloat16`.
    """

    def __init__(
        self,
        scorer: Scorer,
        encoded: EncodedItems,
        limit_gb: float,
        progress: bool = False,
        dtype: str = "float32",
        beside: TrunkCache | None = None,
    ) -> None:
        assert scorer.trunk is not None
        self.scorer, self.encoded = scorer, encoded
        self.offsets = encoded.rows.offsets
        self.width = int(scorer.backbone.config.hidden_size)
        self.kept_as, self.on_disk = STORED[dtype]
        folder = home() / "trunk"
        entry = self.entry = folder / fingerprint(scorer, encoded, dtype)
        limit = int(limit_gb * 1e9)
        if beside is not None and beside.entry != entry:
            limit -= beside.size
        token_bytes = self.on_disk.itemsize * self.width
        fitting = int(np.searchsorted(self.offsets, limit // token_bytes, side="right")) - 1
        whole_items = np.searchsorted(encoded.row_starts, max(fitting, 0), side="right") - 1
        self.cached_rows = int(encoded.row_starts[whole_items])
        self.size: int = token_bytes * int(self.offsets[self.cached_rows])
        with cache_folder(folder):
            if not holds(entry, self.cached_rows, self.size):
                _make_room(folder, limit - self.size, keep={entry, *([beside.entry] if beside else [])})
                self._build(folder, entry, progress)
            os.utime(entry)
        shape = (int(self.offsets[self.cached_rows]), self.width)
        self.states = np.memmap(entry / "states", dtype=self.on_disk, mode="r", shape=shape) if shape[0] else None

    def _build(self, folder: Path, entry: Path, progress: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        remove_abandoned(folder)
        partial = Path(tempfile.mkdtemp(dir=folder, prefix=partial_name()))
        try:
            size = int(self.offsets[self.cached_rows])
            if size:
                reserve(partial / "states", self.on_disk.itemsize * size * self.width)
                states = np.memmap(partial / "states", dtype=self.on_disk, mode="r+", shape=(size, self.width))
                self._fill(states, progress)
                states.flush()
            seal(partial, self.cached_rows)
            if entry.exists():
                shutil.rmtree(entry, ignore_errors=True)
            try:
                partial.rename(entry)
            except OSError:
                if not (entry / "done").exists():  # another process made the same entry: as good as ours
                    raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def _fill(self, states: npt.NDArray[Any], progress: bool) -> None:
        from rich.progress import Progress

        starts = self.encoded.row_starts
        items = np.flatnonzero(starts[1:] <= self.cached_rows)
        order = items[np.argsort(-self.encoded.lengths[items], kind="stable")]
        training = self.scorer.training
        self.scorer.eval()
        with Progress(disable=not progress, transient=True) as bar:
            job = bar.add_task("Computing the frozen layers once", total=len(order))
            for batch_items in batches_by_tokens(order, self.encoded.lengths, self._device):
                batch = self.scorer.collate(self.encoded, batch_items)
                made = self._compute(batch)[batch["attention_mask"].bool()].to(self.kept_as)
                bits = made if self.kept_as == torch.float32 else made.view(torch.int16)
                states[spans(self.offsets, self.encoded.rows_of(batch_items))] = bits.numpy()
                bar.advance(job, len(batch_items))
        self.scorer.train(training)

    @property
    def _device(self) -> torch.device:
        return next(self.scorer.parameters()).device

    def _compute(self, batch: Batch) -> Tensor:
        return self.scorer.trunk_states({k: v.to(self._device) for k, v in batch.items()}).float().cpu()

    def add_to(self, batch: Batch, rows: npt.NDArray[np.int64]) -> None:
        """Put the rows' states into the batch as `trunk_states` (rows, tokens, width)."""
        if (rows >= self.cached_rows).any():
            batch["trunk_states"] = self._compute(batch)
            return
        assert self.states is not None
        stored = torch.from_numpy(np.asarray(self.states[spans(self.offsets, rows)]))
        states = stored if self.kept_as == torch.float32 else stored.view(self.kept_as).float()
        padded = torch.zeros(*batch["input_ids"].shape, self.width)
        padded[batch["attention_mask"].bool()] = states
        batch["trunk_states"] = padded


def fingerprint(scorer: Scorer, encoded: EncodedItems, dtype: str = "float32") -> str:
    """Names a cache entry: the frozen weights, where they end, every token of every row, and how states are kept."""
    assert scorer.trunk is not None
    if scorer.trunk.weights_hash is None:  # read once: both tables of a run ask for it, and it never changes
        scorer.trunk.weights_hash = _hash_weights(scorer, scorer.trunk.depth)
    digest = scorer.trunk.weights_hash.copy()
    digest.update(encoded.rows.values.tobytes())
    digest.update(encoded.rows.offsets.tobytes())
    digest.update(b"" if dtype == "float32" else dtype.encode())
    return str(digest.hexdigest())


def _hash_weights(scorer: Scorer, depth: int) -> Any:
    digest = hashlib.blake2b(digest_size=20)
    shape = {"depth": depth, "model": type(scorer.backbone).__name__}
    digest.update(json.dumps(shape).encode())
    for name, parameter in sorted(scorer.backbone.named_parameters()):
        if not parameter.requires_grad:
            digest.update(name.encode())
            digest.update(parameter.detach().cpu().contiguous().view(torch.uint8).numpy().data)
    return digest


def _make_room(folder: Path, room: int, keep: set[Path]) -> None:
    """Remove the entries used longest ago until the rest takes at most `room` bytes."""
    entries = [entry for entry in folder.glob("[!.]*") if entry.is_dir() and entry not in keep]
    entries.sort(key=lambda entry: entry.stat().st_mtime, reverse=True)
    for entry in entries:
        states = entry / "states"
        room -= states.stat().st_size if states.exists() else 0
        if room < 0:
            shutil.rmtree(entry, ignore_errors=True)
