"""The settings of a training run: each is one dataclass field, with its help, its bounds and its flag beside it.

`RealmConfig` inherits these fields. Flags, keys of a configuration file, checks, the tables of the docs and what a run
records are derived from them. No torch is imported here, so that help is quick.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection
from dataclasses import Field, dataclass, field, fields
from numbers import Real
from typing import Any, NamedTuple

from realm.channels import CHANNELS
from realm.errors import RealmError
from realm.methods import METHODS
from realm.scorers import SCORERS

RUN, LEARNING, BATCHES, MODEL = "Run", "Learning", "Batches", "Model"
LARGEST_SEED = 2**32 - 1  # numpy's generators take 32 bits
NO_FLAG = ""
EPOCHS_DECIDE = -1
"""The value of `max_steps` that leaves the number of steps to `num_train_epochs`."""
RATES = {"all weights": 5e-5, "the top layers": 2e-4, "LoRA": 5e-4, "the head alone": 1e-3}
"""The learning rate of the model by what is trained: the fewer weights, the higher (measured: docs/results.md)."""
EPOCHS, MOST_EPOCHS, ENOUGH_STEPS = 3.0, 15.0, 250
"""Epochs where nothing is set: on small tables so many more that they make enough steps. All weights of MiniLM, test
accuracy at 3 epochs and at these: 100 items .51 -> .70, .31 -> .64, .49 -> .66, .34 -> .91 (four real and simulated
tables), 500 items with one label each .68 -> .75. At 400 steps labels are learned by heart (.73, log loss 1.16)."""
LEARNED_CHANNELS = tuple(name for name in CHANNELS if name != "identity")  # which the method `noisy` stands for
BOUNDS = {
    "above": ("more than {}", operator.gt),
    "minimum": ("{} or more", operator.ge),
    "maximum": ("{} or less", operator.le),
}


# -------------------------------------------------------------------- how long and how fast


class Budget(NamedTuple):
    """How long a training is, and how fast it learns; the first three are settings."""

    num_train_epochs: float
    max_steps: int
    learning_rate: float
    steps_per_epoch: int

    @property
    def epochs(self) -> float:
        return self.num_train_epochs if self.max_steps == EPOCHS_DECIDE else self.max_steps / self.steps_per_epoch


def training_budget(settings: Any, units: int) -> Budget:
    """Epochs, steps and learning rate of a training, all decided here: as set, or by default.

    `units` is the size of the table as an epoch passes over it: its labelled items, or annotations (`batch_unit`).
    """
    per_epoch = max(math.ceil(units / settings.effective_batch_size), 1)
    rate = settings.learning_rate or default_learning_rate(settings)
    epochs = settings.num_train_epochs or min(max(EPOCHS, ENOUGH_STEPS / per_epoch), MOST_EPOCHS)
    return Budget(epochs, settings.max_steps, rate, per_epoch)


def default_learning_rate(settings: Any) -> float:
    """The learning rate of the model where none is given, by what is trained."""
    if settings.train_layers:
        return RATES["the head alone" if settings.train_layers == "head" else "the top layers"]
    return RATES["LoRA" if settings.lora_rank else "all weights"]


# -------------------------------------------------------------------- what a setting is


def setting(
    default: Any,
    help: str,
    panel: str | None = None,
    *,
    flag: str | None = None,
    choices: Collection[str] | None = None,
    words: Collection[str] = (),
    minimum: float | None = None,
    maximum: float | None = None,
    above: float | None = None,
    changes_results: bool | Callable[[Any], bool] = True,
) -> Any:
    """A dataclass field with all that is known of a setting.

    Args:
        help: one sentence; other settings are named in backticks.
        panel: the heading it stands under in `--help` and in the docs.
        flag: name of the flag without dashes; None for the field's own name, `NO_FLAG` for a setting of Python only.
        choices: the values allowed. A mapping may grow after this is called.
        words: what a setting that is a whole number may be instead.
        minimum, maximum, above: bounds of a number; `above` is not itself allowed.
        changes_results: whether, or under which values, a run computes something else. Such settings are recorded.
    """
    return field(default=default, metadata={name: value for name, value in locals().items() if name != "default"})


def settings_of(settings: Any) -> list[Field[Any]]:
    """The fields of a dataclass that were made by `setting`; `TrainingArguments` has others."""
    return [each for each in fields(settings) if "changes_results" in each.metadata]


def flag_name(each: Field[Any]) -> str | None:
    """Name of a setting's flag, without dashes, or None if it has none."""
    flag = each.metadata["flag"]
    return None if flag == NO_FLAG else flag or each.name.replace("_", "-")


def described(each: Field[Any]) -> str:
    """The help of a setting, with its choices."""
    sentence, choices = each.metadata["help"], each.metadata["choices"]
    if choices is None:
        return str(sentence)
    *others, last = choices  # no backticks, which would be taken for settings: one is called as a flag is
    return f"{sentence.rstrip('.')} ({', '.join(others)} or {last})."


def check_values(settings: Any) -> None:
    """Refuse a value that its field does not allow; a whole number that may be a word may be written as text."""
    for each in settings_of(settings):
        value, allowed = getattr(settings, each.name), each.metadata
        if value is None and each.default is None:
            continue
        if words := allowed["words"]:
            if value in words:
                continue
            value = int(value) if isinstance(value, str) and value.isdecimal() else value
            if isinstance(value, bool) or not isinstance(value, int):
                raise RealmError(f"`{each.name}={value}`: must be a whole number or {' or '.join(words)}.")
            setattr(settings, each.name, value)
        if (choices := allowed["choices"]) is not None and value not in choices:
            raise RealmError(f"`{each.name}={value}`: must be one of {', '.join(choices)}.")
        for name, (wanted, holds) in BOUNDS.items():
            if (bound := allowed[name]) is None:
                continue
            if isinstance(value, bool) or not isinstance(value, Real):
                raise RealmError(f"`{each.name}={value!r}`: must be a number.")
            if not holds(value, bound):  # NaN is above and below nothing
                raise RealmError(f"`{each.name}` must be {wanted.format(bound)}, but is {value}.")
        if isinstance(value, float) and not math.isfinite(value):
            raise RealmError(f"`{each.name}` must be finite, but is {value}.")
    if settings.max_steps != EPOCHS_DECIDE and settings.max_steps < 1:
        raise RealmError(f"`max_steps={settings.max_steps}`: must be 1 or more. Leave it out, and epochs decide.")


def recorded_values(settings: Any) -> dict[str, Any]:
    """The settings that change what a run computes, by name, as plain values."""
    recorded = {}
    for each in sorted(settings_of(settings), key=lambda each: each.name):
        value, changes = getattr(settings, each.name), each.metadata["changes_results"]
        if changes(value) if callable(changes) else changes:
            recorded[each.name] = getattr(value, "value", value)  # transformers turns some strings into enums
    return recorded


# -------------------------------------------------------------------- the settings


@dataclass
class Settings:
    """Every setting of REALM's own, and those of `transformers.TrainingArguments` that it exposes or changes."""

    overwrite: bool = setting(False, "Replace the run that the folder holds.", RUN, changes_results=False)
    write_run: bool = setting(True, "Write a run folder when training ends.", RUN, flag=NO_FLAG, changes_results=False)
    hub_model_id: str | None = setting(
        None,
        "Push the model and its card to this Hugging Face repository (`owner/name`) when training ends.",
        RUN,
        flag="push-to-hub",
        changes_results=False,
    )
    seed: int = setting(0, "Random seed.", RUN, minimum=0, maximum=LARGEST_SEED)
    logging_steps: int = setting(10, "Log loss and expertise every n steps.", RUN, minimum=1, changes_results=False)
    cross_fit: int | str = setting(
        "auto",
        "Folds to cross-fit, so that each item is judged by a model that was not trained on it; k folds take k - 1 "
        "times as long again. auto: 3 where only the top layers are trained, 2 on a small table whose epochs are left "
        "to its size, else none.",
        RUN,
        words=("auto",),
        minimum=0,
    )

    method: str = setting("realm", "What is trained on", LEARNING, choices=METHODS)
    channel: str = setting(
        LEARNED_CHANNELS[0],
        "How annotators err: a whole confusion matrix each, drawn to a few numbers, or a constrained form of it",
        LEARNING,
        choices=LEARNED_CHANNELS,
    )
    objective: str = setting("joint", "How an item's annotations become a loss", LEARNING, choices=("joint", "paper"))
    opinion: bool = setting(
        True, "Ask the model about the items before the first step; expertise starts from its agreement.", LEARNING
    )
    judges: bool = setting(
        False,
        "The annotators are language models: they err together more often than people.",
        LEARNING,
        changes_results=lambda judges: judges,  # runs without it are what they were before it was a setting
    )
    learning_rate: float | None = setting(
        None,
        f"Learning rate of the model. Default: {', '.join(f'{rate:g} for {part}' for part, rate in RATES.items())}.",
        LEARNING,
        above=0,
    )
    weight_decay: float = setting(0.0, "Weight decay of the model (the expertise has none).", LEARNING, minimum=0)
    num_train_epochs: float | None = setting(
        None,
        f"Passes over the data. Default: {EPOCHS:g}, more on small tables.",
        LEARNING,
        flag="epochs",
        above=0,
    )
    max_steps: int = setting(EPOCHS_DECIDE, "Optimiser steps; overrides the number of epochs.", LEARNING, flag="steps")
    expertise_learning_rate: float = setting(
        0.1, "Learning rate of the expertise, where it is updated by gradient.", LEARNING, minimum=0
    )
    expertise_optimizer: str = setting(
        "masked",
        "Whether a step updates only the annotators of its batch or, as in the paper, all",
        LEARNING,
        flag=NO_FLAG,
        choices=("masked", "adamw"),
    )
    expertise_start: float = setting(
        0.0, "Initial omega where it is updated by gradient; expertise is sigmoid(omega).", LEARNING, flag=NO_FLAG
    )
    expertise_update: str = setting(
        "em",
        "How expertise is learned: in closed form, without a learning rate, or by gradient",
        LEARNING,
        choices=("em", "gradient"),
    )
    use_gold: bool = setting(False, "Use gold labels, where there are any, to train on and to judge by.", LEARNING)
    experts: list[str] | None = setting(
        None, "An annotator taken to be right (expertise 0.999); may be repeated.", LEARNING, flag="expert"
    )
    lr_scheduler_type: str = setting("cosine", "Schedule of the learning rates.", LEARNING, flag=NO_FLAG)
    warmup_steps: float = setting(0, "Warm-up steps of the learning rates.", LEARNING, flag=NO_FLAG)
    max_grad_norm: float = setting(1.0, "Maximum norm of the model's gradient.", LEARNING, flag=NO_FLAG)
    adam_beta1: float = setting(0.9, "Beta 1 of AdamW.", LEARNING, flag=NO_FLAG)
    adam_beta2: float = setting(0.999, "Beta 2 of AdamW.", LEARNING, flag=NO_FLAG)
    adam_epsilon: float = setting(1e-8, "Epsilon of AdamW.", LEARNING, flag=NO_FLAG)

    per_device_train_batch_size: int = setting(
        16, "Items per forward pass; affects memory, not results.", BATCHES, flag="micro-batch-size", minimum=1
    )
    gradient_accumulation_steps: int = setting(
        1, "Forward passes per optimiser step; the batch size is the product.", BATCHES, flag=NO_FLAG, minimum=1
    )
    batch_unit: str = setting(
        "item",
        "What a batch counts: items with all their annotations or, as in the paper, annotations",
        BATCHES,
        flag=NO_FLAG,
        choices=("item", "annotation"),
    )
    length_grouping: bool = setting(True, "Batch items of similar length together.", BATCHES, flag=NO_FLAG)

    scorer: str = setting("auto", "Kind of model", MODEL, choices=("auto", *SCORERS))
    answers: str = setting("auto", "How the model answers", MODEL, choices=("auto", "letters", "names", "cloze"))
    instruction: str | None = setting(None, "A sentence in front of every prompt.", MODEL)
    max_length: int = setting(512, "Most tokens of a prompt; only the text or context is truncated.", MODEL, minimum=1)
    chat_template: bool = setting(False, "Build prompts with the tokenizer's chat template.", MODEL)
    cloze_learning_rate: float = setting(
        0.01, "Learning rate of the scale of cloze answers.", MODEL, flag=NO_FLAG, minimum=0
    )
    lora_rank: int = setting(
        0, "Train LoRA adapters of this rank instead of all weights; merged at the end.", MODEL, minimum=0
    )
    train_layers: int | str = setting(
        0, "Train only the top n layers, or `head`: the output layer alone.", MODEL, words=("head",), minimum=0
    )
    cache_gb: float = setting(
        8.0,
        "Gigabytes for the cached output of the frozen layers, computed once per item; 0: no cache.",
        MODEL,
        minimum=0,
        changes_results=False,
    )
    bf16: bool = setting(False, "Compute in bfloat16.", MODEL)
    gradient_checkpointing: bool = setting(False, "Gradient checkpointing: less memory, more time.", MODEL)


PAPER: dict[str, Any] = {
    "channel": "uniform",
    "objective": "paper",
    "expertise_update": "gradient",
    "expertise_start": 0.0,
    "opinion": False,
    "expertise_optimizer": "adamw",
    "batch_unit": "annotation",
}
"""The paper's setting, whatever the defaults are: `RealmConfig(folder, **PAPER)`, the flag, and the lab's specs."""
