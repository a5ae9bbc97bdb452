"""`RealmConfig`: every setting of a training run, on one page."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal

from transformers import TrainingArguments

from realm.errors import RealmError

METHODS = ("realm", "noisy", "majority", "dawid-skene", "oracle")
Method = Literal["realm", "noisy", "majority", "dawid-skene", "oracle"]


@dataclass
class RealmConfig(TrainingArguments):
    """Settings of one run. Extends `transformers.TrainingArguments`; `output_dir` is the run folder.

    Defaults that differ from `TrainingArguments`: effective batch 64 (16 x 4), cosine schedule, a checkpoint at the
    end of each epoch (the last two are kept), logging every 10 steps, no reporting integrations, no column removal,
    and six hours for `ddp_timeout`, since the other processes wait while the first one writes the run.

    The run folder:
        overwrite: replace a run that the folder already holds.
        write_run: write the run folder when training ends (off for the cells of a comparison).

    What is trained on:
        method: `realm` learns expertise; `noisy`, `majority`, `dawid-skene` and `oracle` train by cross-entropy on
            the raw labels, the aggregated ones or gold.
        use_gold: let training read gold where it is known (recorded in the run): the model learns it, and annotators
            are judged by it. `oracle` needs no flag.
        experts: annotators taken to be right, pinned at expertise 0.999.

    Expertise (the channel):
        expertise_learning_rate: learning rate of omega.
        expertise_optimizer: `masked` moves only annotators that are in the batch; `adamw` is the paper's dense AdamW.
        expertise_start: where omega starts (beta = sigmoid(omega)); the paper does not say.
        expertise_update: `gradient`, as in the paper, or `em`, which solves for beta and needs no learning rate.

        cross_fit: with k folds or more than 1, train again without each fold, so that what is said of annotators and
            items rests on a model that has not seen the item; takes about k - 1 times as long again.

    Batches:
        batch_unit: `item` batches distinct items with all their annotations; `annotation` samples annotations, as in
            the paper. Either way an item is forwarded once per micro-batch.
        length_grouping: put items of similar length in the same effective batch, which saves padding.

    Model:
        scorer: `auto`, `seq2seq`, `causal` or `classifier`.
        answers: `auto`, `letters`, `names` or `cloze`.
        instruction: a sentence in front of every prompt.
        max_length: tokens of a prompt at most; only the text or context is shortened.
        chat_template: ask through the tokenizer's chat template.
        lora_rank: train LoRA adapters of this rank instead of all weights; they are merged at the end.
        train_layers: train only the top n layers.
        cache_gb: gigabytes for the states below them, computed once per item (0 turns the cache off).
        cache_dtype: `float32` keeps them exactly; `bfloat16` takes half the room and rounds them.
        cloze_learning_rate: learning rate of the scale of `cloze`.
    """

    overwrite: bool = field(default=False)
    write_run: bool = field(default=True)

    method: str = field(default="realm")
    use_gold: bool = field(default=False)
    experts: list[str] | None = field(default=None)

    expertise_learning_rate: float = field(default=0.1)
    expertise_optimizer: str = field(default="masked")
    expertise_start: float = field(default=0.0)
    expertise_update: str = field(default="gradient")
    cross_fit: int = field(default=0)

    batch_unit: str = field(default="item")
    length_grouping: bool = field(default=True)

    scorer: str = field(default="auto")
    answers: str = field(default="auto")
    instruction: str | None = field(default=None)
    max_length: int = field(default=512)
    chat_template: bool = field(default=False)
    lora_rank: int = field(default=0)
    train_layers: int = field(default=0)
    cache_gb: float = field(default=8.0)
    cache_dtype: str = field(default="float32")
    cloze_learning_rate: float = field(default=0.01)

    per_device_train_batch_size: int = field(default=16)
    gradient_accumulation_steps: int = field(default=4)
    lr_scheduler_type: str = field(default="cosine")
    save_strategy: str = field(default="epoch")
    save_total_limit: int | None = field(default=2)
    logging_steps: float = field(default=10)
    logging_first_step: bool = field(default=True)
    report_to: Any = field(default="none")
    remove_unused_columns: bool | None = field(default=False)
    ddp_timeout: int = field(default=6 * 3600)

    def __post_init__(self) -> None:
        try:
            super().__post_init__()
        except ValueError as error:
            raise RealmError(str(error)) from None
        _one_of("method", self.method, METHODS)
        _one_of("expertise_optimizer", self.expertise_optimizer, ("masked", "adamw"))
        _one_of("expertise_update", self.expertise_update, ("gradient", "em"))
        _one_of("batch_unit", self.batch_unit, ("item", "annotation"))
        _one_of("cache_dtype", self.cache_dtype, ("float32", "bfloat16"))
        if self.cross_fit == 1:
            raise RealmError("--cross-fit 1: one fold leaves nothing to train on; use 2 or more, or 0 for none.")
        if self.use_gold and self.batch_unit == "annotation":
            raise RealmError("--use-gold cannot be combined with --batch-unit annotation: gold belongs to items.")
        if self.load_best_model_at_end:
            raise RealmError("load_best_model_at_end: the model of the last step is kept; set --steps instead.")
        _one_of("optim", str(getattr(self.optim, "value", self.optim)), ("adamw_torch", "adamw_torch_fused"))
        for name, least in (("max_length", 1), ("seed", 0), ("per_device_train_batch_size", 1)):
            if getattr(self, name) < least:
                raise RealmError(f"--{name.replace('_', '-')} must be {least} or more, but is {getattr(self, name)}.")
        if self.lora_rank and self.train_layers:
            raise RealmError("--lora-rank and --train-layers cannot be combined: choose one.")
        for name in ("expertise_learning_rate", "learning_rate", "cache_gb", "train_layers", "lora_rank", "cross_fit"):
            if getattr(self, name) < 0:
                raise RealmError(f"--{name.replace('_', '-')} must not be negative, but is {getattr(self, name)}.")

    @property
    def reads_gold(self) -> bool:
        """Whether training reads gold, which is then part of what a run is."""
        return self.use_gold or self.method == "oracle"

    @property
    def effective_batch_size(self) -> int:
        """Items or annotations per optimiser step, over micro-batches and processes."""
        return int(self.per_device_train_batch_size * self.gradient_accumulation_steps * self.world_size)

    def settings(self) -> dict[str, Any]:
        """The settings that decide what a run computes, as plain values for `config.yaml`."""
        ours = {f.name for f in fields(RealmConfig)} - {f.name for f in fields(TrainingArguments)}
        ours -= {"overwrite", "write_run", "cache_gb"}
        if self.cache_dtype == "float32":  # what is computed is then the same as without a cache
            ours -= {"cache_dtype"}
        shared = [
            *("seed", "learning_rate", "weight_decay", "num_train_epochs", "max_steps", "per_device_train_batch_size"),
            *("gradient_accumulation_steps", "lr_scheduler_type", "warmup_steps", "max_grad_norm", "bf16"),
            *("gradient_checkpointing", "adam_beta1", "adam_beta2", "adam_epsilon", "effective_batch_size"),
        ]
        chosen = {name: getattr(self, name) for name in sorted(ours) + shared}
        return {name: getattr(value, "value", value) for name, value in chosen.items()}


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise RealmError(f"--{name.replace('_', '-')} {value}: must be one of {', '.join(allowed)}.")
