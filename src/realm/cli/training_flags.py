"""The flags that say how a model is trained, shared by `train` and `compare`: the settings of `RealmConfig`."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from realm.errors import RealmError
from realm.training.settings import BATCHES, LEARNING, MODEL, PAPER, Settings, check_values, flag_name, setting

if TYPE_CHECKING:
    from realm.training import RealmConfig


@dataclass
class TrainingFlags(Settings):
    """The settings with a flag, the model, and the batch that an optimiser step sees."""

    LISTED: ClassVar[tuple[str, ...]] = (
        *("model", "num_train_epochs", "learning_rate", "method", "train_layers", "lora_rank", "judges", "use_gold"),
        *("paper", "overwrite"),
    )
    IN_CONFIG: ClassVar[tuple[str, ...]] = (
        *("channel", "objective", "opinion", "expertise_learning_rate", "expertise_update", "weight_decay", "bf16"),
        *("logging_steps", "cache_gb", "scorer", "answers", "instruction", "chat_template", "gradient_checkpointing"),
        "hub_model_id",
    )
    TAKES_ANY_SETTING: ClassVar[bool] = True

    paper: bool = setting(False, "Train as in the paper, whatever the defaults are.", panel=LEARNING)
    model: str = setting("minilm-l6", "A folder, a named model (`realm models`) or a Hugging Face id.", panel=MODEL)
    batch_size: int = setting(
        Settings.per_device_train_batch_size * Settings.gradient_accumulation_steps,
        "Items (or annotations) per optimiser step, over all processes.",
        panel=BATCHES,
    )

    def __post_init__(self) -> None:
        check_values(self)
        self.more: dict[str, Any] = {}

    def resolve(self, typed: Collection[str], more: Mapping[str, Any]) -> None:
        """Put the paper's setting in place where `--paper` asks for it; no flag that was typed may contradict it.

        `more` are settings of `transformers.TrainingArguments` that stand in the `--config` file.
        """
        self.more = dict(more)
        names = {each.name: flag_name(each) or each.name for each in fields(self)}
        if self.paper:
            for name, value in PAPER.items():
                given = more.get(name, getattr(self, name))
                if name in typed and given != value:
                    raise RealmError(f"--paper sets `{names[name]}` {value}, but {given} is given too.")
                setattr(self, name, value)

    def config(self, output: Path, **more: Any) -> RealmConfig:
        """The settings as a `RealmConfig` for this run folder; `more` are further ones, which win."""
        import torch

        from realm.training import RealmConfig

        if self.batch_size < 1:
            raise RealmError(f"--batch-size {self.batch_size} must be 1 or more.")
        processes = int(os.environ.get("WORLD_SIZE", "1"))
        micro = min(self.per_device_train_batch_size, max(self.batch_size // processes, 1))
        if self.batch_size % (micro * processes):
            raise RealmError(
                f"--batch-size {self.batch_size} must be a multiple of --micro-batch-size {micro} times the "
                f"{processes} process(es)."
            )
        settings = {each.name: getattr(self, each.name) for each in fields(Settings)}
        settings |= {
            "experts": list(self.experts) if self.experts else None,
            "per_device_train_batch_size": micro,
            "gradient_accumulation_steps": self.batch_size // (micro * processes),
            "use_cpu": not (torch.cuda.is_available() or torch.backends.mps.is_available()),
        }
        return RealmConfig(str(output), **{**settings, **self.more, **more})
