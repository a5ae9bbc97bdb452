"""The running loss through an interruption: a resumed run logs the averages that the whole run would have logged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from realm.files import read_json, write_json
from realm.training.processes import gather

LOSSES = "losses.json"


class LossKeeper(TrainerCallback):
    """`Trainer` begins its averages anew when it resumes; this puts back what had been added up at the checkpoint."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer
        self.kept: dict[str, Any] | None = None
        self.loaded: dict[str, Any] | None = None

    def keep(self) -> None:
        """Note the sums of this moment; every process must take part."""
        trainer = self.trainer
        self.kept = {
            "not_logged": gather(trainer.args, float(trainer._tr_loss)),
            "logged": trainer._total_loss_scalar,
            "last_logged_step": trainer._globalstep_last_logged,
        }

    def save(self, folder: Path) -> None:
        if self.kept is not None:
            write_json(folder / LOSSES, self.kept)

    def load(self, folder: Path) -> None:
        self.loaded = dict(read_json(folder / LOSSES)) if (folder / LOSSES).exists() else None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.loaded is None:
            return
        parts, trainer = self.loaded["not_logged"], self.trainer
        mine = parts[args.process_index] if len(parts) == args.world_size else sum(parts) / len(parts)
        trainer._tr_loss.fill_(mine)
        trainer._total_loss_scalar = self.loaded["logged"]
        trainer._globalstep_last_logged = self.loaded["last_logged_step"]
        self.loaded = None

    def mean(self) -> float:
        """The mean loss of all steps of the run, over processes and interruptions."""
        trainer = self.trainer
        totals = gather(trainer.args, trainer._total_loss_scalar)
        return float(sum(totals) / len(totals) / max(trainer.state.global_step, 1))
