"""The mean loss that is logged: kept beside `Trainer`'s, which begins anew when a run resumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from realm.files import read_json, write_json
from realm.training.processes import gather

LOSSES = "losses.json"


class RunningLoss:
    """Sums of the loss since the last logging step and before it, of this process.

    `add` takes the loss of every micro-batch, `log` closes an interval. Sums are float32 on the device, as `Trainer`'s.
    """

    def __init__(self, args: Any) -> None:
        self.args = args
        self.unlogged = torch.tensor(0.0, device=args.device)
        self.logged = 0.0
        self.last_logged_step = 0

    def add(self, loss: Tensor) -> None:
        """Add a micro-batch's share of the loss of a step."""
        self.unlogged += loss.to(self.unlogged.device)

    @property
    def is_finite(self) -> bool:
        """Whether every loss since the last logging step was a finite number."""
        return bool(self.unlogged.isfinite())

    def log(self, step: int) -> float:
        """The mean over processes and the steps since the last call, which ends here."""
        interval = float(torch.stack(gather(self.args, self.unlogged.cpu())).mean())
        mean = interval / max(step - self.last_logged_step, 1)
        self.logged += interval
        self.last_logged_step = step
        self.unlogged.zero_()
        return mean

    def mean(self, step: int) -> float:
        """The mean loss of all steps of the run, over processes and interruptions."""
        totals = gather(self.args, self.logged + float(self.unlogged))
        return float(sum(totals) / len(totals) / max(step, 1))

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds; every process must take part."""
        unlogged = gather(self.args, float(self.unlogged))
        return {"unlogged": unlogged, "logged": self.logged, "last_logged_step": self.last_logged_step}

    @staticmethod
    def save(folder: Path, state: dict[str, Any]) -> None:
        write_json(folder / LOSSES, state)

    def load(self, folder: Path) -> None:
        state = read_json(folder / LOSSES)
        sums = state["unlogged"] or [0.0]
        same_processes = len(sums) == self.args.world_size
        self.unlogged.fill_(sums[self.args.process_index] if same_processes else sum(sums) / len(sums))
        self.logged, self.last_logged_step = state["logged"], state["last_logged_step"]
