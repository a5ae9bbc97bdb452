"""`RealmConfig`: the settings of a training run as Hugging Face's `TrainingArguments`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from transformers import TrainingArguments
from transformers.integrations import integration_utils

from realm.errors import RealmError, refuses_other_names
from realm.methods import METHODS
from realm.training.settings import EPOCHS, Settings, check_values, default_learning_rate, recorded_values, settings_of

OPTIMIZERS = ("adamw_torch", "adamw_torch_fused")  # those whose state is per parameter and resumes to the byte


@refuses_other_names({})
@dataclass
class RealmConfig(Settings, TrainingArguments):
    """Settings of one run: the fields of `Settings` and those of `transformers.TrainingArguments`.

    `output_dir` is the run folder. Besides the defaults of `Settings` (batches of 16 items, a learning rate by what is
    trained, a cosine schedule), those below differ from `TrainingArguments`: a checkpoint at the end of each epoch, of
    which the last two are kept, no reporting integrations, a private repository for `hub_model_id`, no column removal,
    six hours for `ddp_timeout`, since the other processes wait while the first one writes the run, no broadcast of
    buffers at every step (the channel's are sent when they change), and losses logged as they are.
    """

    save_strategy: str = field(default="epoch")
    save_total_limit: int | None = field(default=2)
    logging_first_step: bool = field(default=True)
    logging_nan_inf_filter: bool = field(default=False)  # such a loss ends the training
    report_to: Any = field(default="none")
    hub_private_repo: bool | None = field(default=True)
    remove_unused_columns: bool | None = field(default=False)
    ddp_timeout: int = field(default=6 * 3600)
    ddp_broadcast_buffers: bool | None = field(default=False)

    def __post_init__(self) -> None:
        check_values(self)
        if self.learning_rate is None:
            self.learning_rate = default_learning_rate(self)
        if self.num_train_epochs is None and self.max_steps > 0:
            self.num_train_epochs = EPOCHS  # which nothing reads
        try:
            super().__post_init__()
            integration_utils.get_reporting_integration_callbacks(list(self.report_to))
        except ValueError as error:
            raise RealmError(str(error)) from None
        self._check_combinations()
        if self.train_layers == "head":
            # An item is one vector to the head: memory is no matter, and one forward costs as much as many items.
            self.per_device_train_batch_size *= self.gradient_accumulation_steps
            self.gradient_accumulation_steps = 1

    def _check_combinations(self) -> None:
        """Refuse values that cannot be combined, and what would put more of a run on the hub than its model."""
        _refuse(self.cross_fit == 1, "`cross_fit=1`: one fold leaves nothing to train on; use 2 or more, or 0.")
        if self.batch_unit == "annotation":
            _refuse(self.use_gold, "`use_gold` cannot be combined with `batch_unit=annotation`: gold belongs to items.")
            named = "objective" if METHODS[self.method].objective is None else "method"
            needs = f"`{named}={getattr(self, named)}` needs all annotations of an item at once; use `batch_unit=item`."
            _refuse(self.method_objective == "joint", needs)
        keeps = "load_best_model_at_end: the model of the last step is kept; set `max_steps` instead."
        _refuse(self.load_best_model_at_end, keeps)
        both = self.lora_rank and self.train_layers
        _refuse(both, "`lora_rank` and `train_layers` cannot be combined: choose one.")
        optimizer = str(getattr(self.optim, "value", self.optim))
        _refuse(optimizer not in OPTIMIZERS, f"`optim={optimizer}`: must be one of {', '.join(OPTIMIZERS)}.")
        _refuse(
            self.push_to_hub,
            "push_to_hub: it would upload checkpoints too, and with them what was learned of annotators. Name the "
            "repository with `hub_model_id` alone: the model goes there when training ends.",
        )
        _refuse(
            self.hub_token is not None, "hub_token: a run takes no token; set HF_TOKEN or log in with `hf auth login`."
        )
        unwritten = self.hub_model_id is not None and not self.write_run
        _refuse(unwritten, "`hub_model_id` pushes the finished run, and `write_run=False` writes none: choose one.")
        for name in self.report_to:
            installed = getattr(integration_utils, f"is_{name}_available", lambda: True)
            _refuse(not installed(), f"`report_to={name}`: install the package {name} first: pip install {name}")

    def __repr__(self) -> str:
        defaults = {each.name: each.default for each in settings_of(self)}
        changed = [f", {name}={value!r}" for name, value in recorded_values(self).items() if value != defaults[name]]
        return f"RealmConfig({self.output_dir!r}{''.join(changed)})"

    def to_dict(self) -> dict[str, Any]:
        """The settings as logging integrations send them: of the experts how many there are, not their names."""
        values: dict[str, Any] = super().to_dict()
        return values | ({"experts": f"{len(self.experts)} annotators"} if self.experts else {})

    @property
    def reads_gold(self) -> bool:
        """Whether training reads gold, which is then part of what a run is."""
        return self.use_gold or METHODS[self.method].needs_gold

    @property
    def method_objective(self) -> str:
        """The objective that is trained by: the method's own, or the setting."""
        return METHODS[self.method].objective or self.objective

    @property
    def method_update(self) -> str:
        """How the channel learns: in the method's own way, or as set."""
        return METHODS[self.method].update or self.expertise_update

    @property
    def annotator_kind(self) -> str | None:
        """What the annotators are said to be, as `AnnotatorModel` takes it; None where nothing is said."""
        return "models" if self.judges else None

    @property
    def effective_batch_size(self) -> int:
        """Items or annotations per optimiser step, over micro-batches and processes."""
        return int(self.per_device_train_batch_size * self.gradient_accumulation_steps * self.world_size)

    def settings(self) -> dict[str, Any]:
        """The settings that decide what a run computes, as plain values."""
        return recorded_values(self) | {"effective_batch_size": self.effective_batch_size}


def _refuse(condition: object, message: str) -> None:
    if condition:
        raise RealmError(message)
