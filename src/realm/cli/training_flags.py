"""The flags that say how a model is trained, shared by `train` and `compare`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from realm.cli.flags import flag
from realm.errors import RealmError

if TYPE_CHECKING:
    from realm.training import RealmConfig

MODEL, LEARNING, BATCHES = "Model", "Learning", "Batches"


@dataclass
class Training:
    """Model, learning rates and batches. Defaults are those of `RealmConfig`."""

    model: str = flag("minilm-l6", "A folder, a named model (`realm models`) or a Hugging Face id.", panel=MODEL)
    scorer: str = flag("auto", "`auto`, `seq2seq`, `causal` or `classifier`.", panel=MODEL)
    answers: str = flag("auto", "`auto`, `letters`, `names` or `cloze`: how the model answers.", panel=MODEL)
    instruction: str | None = flag(None, "A sentence in front of every prompt.", panel=MODEL)
    max_length: int = flag(512, "Tokens of a prompt at most; only the text or context is shortened.", panel=MODEL)
    chat_template: str = flag("off", "`on` asks through the tokenizer's chat template.", panel=MODEL)
    lora_rank: int = flag(0, "Train LoRA adapters of this rank instead of all weights.", panel=MODEL)
    train_layers: int = flag(0, "Train only the top n layers.", panel=MODEL)
    cache_gb: float = flag(8.0, "Gigabytes for the states below them; 0 turns the cache off.", panel=MODEL)
    cache_dtype: str = flag("float32", "How these states are kept; `bfloat16` halves the room.", panel=MODEL)
    bf16: bool = flag(False, "Compute in bfloat16.", panel=MODEL)
    gradient_checkpointing: bool = flag(False, "Trade time for memory.", panel=MODEL)

    learning_rate: float = flag(5e-5, "Learning rate of the model.", panel=LEARNING)
    expertise_learning_rate: float = flag(0.1, "Learning rate of the expertise.", panel=LEARNING)
    expertise_optimizer: str = flag("masked", "`masked`, or `adamw` for the paper's dense one.", panel=LEARNING)
    expertise_start: float = flag(0.0, "Where omega starts; expertise is its sigmoid.", panel=LEARNING)
    expertise_update: str = flag("gradient", "`gradient`, or `em`, which needs no learning rate.", panel=LEARNING)
    use_gold: bool = flag(False, "Let training read gold where it is known.", panel=LEARNING)
    expert: list[str] | None = flag(None, "An annotator who is right; may be repeated.", panel=LEARNING)
    weight_decay: float = flag(0.0, "Weight decay of the model (the expertise has none).", panel=LEARNING)
    epochs: float = flag(3.0, "Passes over the data.", panel=LEARNING)
    steps: int = flag(-1, "Optimiser steps; overrides --epochs.", panel=LEARNING)

    batch_size: int = flag(64, "Items (or annotations) per optimiser step, over all processes.", panel=BATCHES)
    micro_batch_size: int = flag(16, "Of these, how many are forwarded at once.", panel=BATCHES)
    batch_unit: str = flag("item", "`item`, or `annotation` to sample annotations as in the paper.", panel=BATCHES)
    length_grouping: bool = flag(True, "Batch items of similar length together.", panel=BATCHES)

    def config(self, output: Path, **more: Any) -> RealmConfig:
        """The settings as a `RealmConfig` for this run folder."""
        import torch

        from realm.training import RealmConfig

        processes = int(os.environ.get("WORLD_SIZE", "1"))
        micro = min(self.micro_batch_size, max(self.batch_size // processes, 1))
        if min(micro, self.batch_size) < 1 or self.batch_size % (micro * processes):
            raise RealmError(
                f"--batch-size {self.batch_size} must be a multiple of --micro-batch-size {micro} times the "
                f"{processes} process(es)."
            )
        if self.chat_template not in ("on", "off"):
            raise RealmError(f"--chat-template {self.chat_template}: must be on or off.")
        settings = dict(
            scorer=self.scorer,
            answers=self.answers,
            instruction=self.instruction,
            max_length=self.max_length,
            chat_template=self.chat_template == "on",
            lora_rank=self.lora_rank,
            train_layers=self.train_layers,
            cache_gb=self.cache_gb,
            cache_dtype=self.cache_dtype,
            bf16=self.bf16,
            gradient_checkpointing=self.gradient_checkpointing,
            learning_rate=self.learning_rate,
            expertise_learning_rate=self.expertise_learning_rate,
            expertise_optimizer=self.expertise_optimizer,
            expertise_start=self.expertise_start,
            expertise_update=self.expertise_update,
            use_gold=self.use_gold,
            experts=list(self.expert) if self.expert else None,
            weight_decay=self.weight_decay,
            num_train_epochs=self.epochs,
            max_steps=self.steps,
            per_device_train_batch_size=micro,
            gradient_accumulation_steps=self.batch_size // (micro * processes),
            batch_unit=self.batch_unit,
            length_grouping=self.length_grouping,
            use_cpu=not (torch.cuda.is_available() or torch.backends.mps.is_available()),
        )
        return RealmConfig(str(output), **{**settings, **more})
