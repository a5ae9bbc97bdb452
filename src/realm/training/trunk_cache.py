"""What the frozen part of the backbone computes for each row, once, in a memory-mapped file."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from realm.scorers.base import Batch, Scorer
from realm.scorers.encoding import EncodedItems, batches_by_tokens
from realm.scorers.store import home

BATCH_TOKENS = 4096


class TrunkCache:
    """States below the trained layers, keyed by the frozen weights and the rows' tokens.

    The file lies in the user's cache folder and is shared by every run on the same model and items (all methods and
    seeds of `compare`). At most `limit_gb` are kept there in all: older files make room first, and rows that still
    do not fit are computed anew each time they are needed.
    """

    def __init__(self, scorer: Scorer, encoded: EncodedItems, limit_gb: float, progress: bool = False) -> None:
        assert scorer.trunk is not None
        self.scorer, self.encoded = scorer, encoded
        self.offsets = encoded.rows.offsets
        self.width = int(scorer.backbone.config.hidden_size)
        folder = home() / "trunk"
        entry = folder / fingerprint(scorer, encoded)
        limit = int(limit_gb * 1e9)
        fitting = int(np.searchsorted(self.offsets, limit // (4 * self.width), side="right")) - 1
        whole_items = np.searchsorted(encoded.row_starts, max(fitting, 0), side="right") - 1
        self.cached_rows = int(encoded.row_starts[whole_items])
        if not (entry / "done").exists() or int((entry / "done").read_text()) < self.cached_rows:
            _make_room(folder, limit - 4 * self.width * int(self.offsets[self.cached_rows]), keep=entry)
            self._build(folder, entry, progress)
        os.utime(entry)
        shape = (int(self.offsets[self.cached_rows]), self.width)
        self.states = np.memmap(entry / "states", dtype=np.float32, mode="r", shape=shape) if shape[0] else None

    def _build(self, folder: Path, entry: Path, progress: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(dir=folder, prefix=".partial-"))
        try:
            size = int(self.offsets[self.cached_rows])
            if size:
                states = np.memmap(partial / "states", dtype=np.float32, mode="w+", shape=(size, self.width))
                self._fill(states, progress)
                states.flush()
            (partial / "done").write_text(str(self.cached_rows))
            if entry.exists():
                shutil.rmtree(entry, ignore_errors=True)
            try:
                partial.rename(entry)
            except OSError:
                if not (entry / "done").exists():  # another process made the same entry: as good as ours
                    raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def _fill(self, states: npt.NDArray[np.float32], progress: bool) -> None:
        from rich.progress import Progress

        starts = self.encoded.row_starts
        items = np.flatnonzero(starts[1:] <= self.cached_rows)
        order = items[np.argsort(-self.encoded.lengths[items], kind="stable")]
        training = self.scorer.training
        self.scorer.eval()
        with Progress(disable=not progress, transient=True) as bar:
            job = bar.add_task("Computing the frozen layers once", total=len(order))
            for batch_items in batches_by_tokens(order, self.encoded.lengths, BATCH_TOKENS):
                rows = self.encoded.rows_of(batch_items)
                made = self._compute(self.scorer.collate(self.encoded, batch_items))
                for row, value in zip(rows, made, strict=True):
                    begin, end = self.offsets[row], self.offsets[row + 1]
                    states[begin:end] = value[: end - begin].numpy()
                bar.advance(job, len(batch_items))
        self.scorer.train(training)

    def _compute(self, batch: Batch) -> Tensor:
        device = next(self.scorer.parameters()).device
        return self.scorer.trunk_states({k: v.to(device) for k, v in batch.items()}).float().cpu()

    def add_to(self, batch: Batch, rows: npt.NDArray[np.int64]) -> None:
        """Put the rows' states into the batch as `trunk_states` (rows, tokens, width)."""
        if (rows >= self.cached_rows).any():
            batch["trunk_states"] = self._compute(batch)
            return
        assert self.states is not None
        padded = torch.zeros(len(rows), batch["input_ids"].shape[1], self.width)
        for index, row in enumerate(rows):
            begin, end = self.offsets[row], self.offsets[row + 1]
            padded[index, : end - begin] = torch.from_numpy(np.array(self.states[begin:end]))
        batch["trunk_states"] = padded


def fingerprint(scorer: Scorer, encoded: EncodedItems) -> str:
    """Names a cache entry: the frozen weights, where they end, and every token of every row."""
    assert scorer.trunk is not None
    digest = hashlib.blake2b(digest_size=20)
    shape = {"depth": scorer.trunk.depth, "model": type(scorer.backbone).__name__}
    digest.update(json.dumps(shape).encode())
    for name, parameter in sorted(scorer.backbone.named_parameters()):
        if not parameter.requires_grad:
            digest.update(name.encode())
            digest.update(parameter.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    digest.update(encoded.rows.values.tobytes())
    digest.update(encoded.rows.offsets.tobytes())
    return digest.hexdigest()


def _make_room(folder: Path, room: int, keep: Path) -> None:
    """Remove the entries used longest ago until the rest takes at most `room` bytes."""
    entries = [entry for entry in folder.glob("[!.]*") if entry.is_dir() and entry != keep]
    entries.sort(key=lambda entry: entry.stat().st_mtime, reverse=True)
    for entry in entries:
        states = entry / "states"
        room -= states.stat().st_size if states.exists() else 0
        if room < 0:
            shutil.rmtree(entry, ignore_errors=True)
