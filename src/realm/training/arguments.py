"""What `RealmTrainer` says to arguments of other names or types, as those who know `Trainer` give them."""

from __future__ import annotations

from typing import Any

from transformers import TrainingArguments

from realm.channels import Channel
from realm.data.arguments import require_annotations, require_test
from realm.errors import RealmError
from realm.runs import Run
from realm.scorers import Scorer
from realm.training.config import RealmConfig

OTHER_NAMES = {
    "args": "The settings are `config`, a `RealmConfig`.",
    "train_dataset": "The table to train on is `annotations`.",
    "dataset": "The table to train on is `annotations`.",
    "eval_dataset": "The table with gold is `test`.",
    "processing_class": "The tokenizer is the model's own.",
    "tokenizer": "The tokenizer is the model's own.",
    "data_collator": "Batches are made of `annotations`; `instruction` and `answers` of `RealmConfig` set the prompt.",
    "compute_metrics": "Accuracy, macro-F1, log loss and more are computed on `test`; `predict` gives log P.",
    "optimizers": "The rates are set in `RealmConfig`: `learning_rate`, `expertise_learning_rate`.",
    "peft_config": "Adapters are set in `RealmConfig`: `lora_rank`.",
    "loss": "The loss is made of `channel` and `objective` of `RealmConfig`, or of a `channel` of your own.",
}
"""Arguments of `Trainer` and its kin that are called otherwise here."""


def check_types(model: Any, annotations: Any, config: Any, test: Any, channel: Any) -> None:
    """Refuse what is of another type than the argument, saying how to make it."""
    if not isinstance(model, str | Scorer | Run):
        own = getattr(getattr(model, "config", None), "_name_or_path", None)
        how = f" Give where it comes from, {own!r}." if own else ""
        raise RealmError(
            f"`model` is a {type(model).__name__}: it must be a name, a folder, a `Scorer` or a `Run`.{how}"
        )
    require_annotations(annotations, "annotations")
    if not isinstance(config, RealmConfig):
        how = f"RealmConfig({config!r})" if isinstance(config, str) else "RealmConfig(folder, ...)"
        same = ", which takes the same names" if isinstance(config, TrainingArguments) else ""
        raise RealmError(f"`config` is a {type(config).__name__}, not a `RealmConfig`. Give `{how}`{same}.")
    if test is not None:
        require_test(test, "test")
    elif config.eval_strategy != "no":
        raise RealmError(f"`eval_strategy={config.eval_strategy.value}`: give the table to evaluate on as `test`.")
    if channel is not None and not isinstance(channel, Channel):
        how = f"; a channel by its name is a setting: RealmConfig(..., channel={channel!r})"
        raise RealmError(f"`channel` is {channel!r}, not a `Channel`{how if isinstance(channel, str) else ''}.")
