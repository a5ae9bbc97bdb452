"""`RealmTrainer`: Hugging Face's `Trainer` with annotations for data, the channel's likelihood for a loss, and a run
folder for output. No method has a training loop of its own."""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import set_seed
from transformers.trainer_callback import ExportableState, TrainerCallback
from transformers.trainer_utils import TrainOutput
from transformers.training_args import OptimizerNames

from realm.channels import Channel, ConfusionChannel, IdentityChannel
from realm.crowd.earlier import EarlierEstimates, expert_rows
from realm.crowd.engine import EXPERT
from realm.data import Annotations
from realm.errors import RealmError, refuses_other_names
from realm.files import writing
from realm.metrics import check_test
from realm.objectives import OBJECTIVES
from realm.progress import Progress, ignore_progress
from realm.runs import Run
from realm.runs.hub import check_access, push
from realm.scorers import Scorer
from realm.scorers.frozen_cache import FrozenLayersCache
from realm.scorers.lora import merge_lora
from realm.scorers.model_folder import first_not_finite
from realm.scorers.scoring import Scores
from realm.training import channel as channels
from realm.training import checkpoints, processes, run_output
from realm.training.arguments import check_arguments
from realm.training.batches import BatchLoader, Collator, EffectiveBatchSampler, TrainingItems, units_of
from realm.training.config import RealmConfig
from realm.training.labels import training_labels
from realm.training.model import RealmModel, prepare_scorer
from realm.training.opinion import opinion
from realm.training.optimizer import MaskedAdamW, parameter_groups
from realm.training.results import ReportingTrainer
from realm.training.settings import EPOCHS, training_budget

if TYPE_CHECKING:
    import pandas as pd

Floats = npt.NDArray[np.float64]
logger = logging.getLogger(__name__)

FEATURE_DIMS, MOST_FULL_FEATURES = 64, 20_000
"""Items above which hidden states are kept in so few dimensions: 16 of them are looked at."""
MOST_TRAJECTORY = 200
"""Logging steps at which the trajectory of expertise is kept at most: a curve needs no more, and memory has an end."""
TRAINING = "training"
"""What optimiser steps are reported as."""


@refuses_other_names({})
class RealmTrainer(ReportingTrainer):
    """Fine-tune a model on annotations and learn each annotator's expertise.

    | argument | meaning |
    |---|---|
    | model | a folder, a named model, a Hugging Face id, or a `Scorer` |
    | annotations | the table to train on |
    | config | a `RealmConfig`; its `output_dir` is the run folder |
    | test | a table with gold, evaluated every `eval_steps` and at the end |
    | channel | how annotators err; by default the one that `config.channel` names |
    | prior | an earlier run's expertise table: training starts from it, and it stands for the pool in the results |
    | progress | called with how far frozen layers, optimiser steps, scoring and folds are |

    | attribute | meaning |
    |---|---|
    | annotations | the table as given, which annotators are judged by; without gold unless the run reads it |
    | training_annotations | the labels of the method: the same, one aggregated label per item, or gold |
    | test | the test table, or None |
    | channel | the learned channel; None for methods that learn nothing of annotators |
    | warnings | what the user should know |
    | notes | what training found: the model's opinion, how its confidence was calibrated |
    | findings | what speaks against the model; empty where nothing does |
    | folds, temperature | how many folds were trained, and what brings P to what the labels bear out |

    Examples:
        >>> annotations = Annotations.read("labels.csv")  # doctest: +SKIP
        >>> trainer = RealmTrainer("minilm-l6", annotations, RealmConfig("runs/sentiment"))  # doctest: +SKIP
        >>> trainer.train()  # doctest: +SKIP
        >>> trainer.expertise()  # doctest: +SKIP
    """

    optimizer: Any

    def __init__(
        self,
        model: str | Path | Scorer,
        annotations: Annotations,
        config: RealmConfig,
        *,
        test: Annotations | None = None,
        channel: Channel | None = None,
        prior: pd.DataFrame | None = None,
        callbacks: Sequence[Any] | None = None,
        progress: Progress | None = None,
    ) -> None:
        check_arguments(model, annotations, config, test, channel)
        if isinstance(config.cross_fit, int) and config.cross_fit:
            annotations.items.folds(config.cross_fit)  # refuses more folds than texts before anything is trained
        table, warnings = training_labels(annotations, config.method, seed=config.seed, use_gold=config.use_gold)
        experts = expert_rows(annotations, config.experts or ())
        self.annotations = annotations if config.reads_gold else annotations.without_gold()
        self.training_annotations, self.test, self.prior = table, test, prior
        self.earlier = None if prior is None else EarlierEstimates.from_table(annotations, prior)
        self.given_channel = copy.deepcopy(channel)  # as it was, which folds start from
        channel = channels.make_channel(table, config, channel, self.earlier)
        if (repo_id := config.hub_model_id) is not None:
            processes.on_first(config, lambda: check_access(repo_id, "hub_model_id"))
        config = copy.copy(config)
        budget = training_budget(config, len(units_of(table, config.batch_unit)))
        self.trains_longer = not config.num_train_epochs and budget.max_steps < 0 and budget.epochs > EPOCHS
        config.num_train_epochs, config.max_steps, config.learning_rate, steps_per_epoch = budget

        set_seed(config.seed)
        self.loads_model = not isinstance(model, Scorer)
        self.scorer, self.model_name, self._adapted = prepare_scorer(model, annotations.items, config)
        self.encoded = self.scorer.encode(table.items)
        self.encoded_test = None if test is None else self.scorer.encode(test.items)
        self._progress = progress or ignore_progress
        self._caches: dict[str, FrozenLayersCache | None] = {}
        self._untrained_scores: Scores | None = None
        self._features: npt.NDArray[Any] | None = None
        self._trajectory: checkpoints.Trajectory = []
        self._resumed_losses: dict[str, Any] | None = None
        self.is_fold = False  # whether this trains a fold of another run: nothing is calibrated or estimated
        self.notes: list[str] = []
        self._forget_results()
        if config.should_save:
            with writing(Path(config.output_dir)):
                Path(config.output_dir).mkdir(parents=True, exist_ok=True)
        super().__init__(
            model=RealmModel(self.scorer, channel, OBJECTIVES[config.method_objective]),
            args=config,
            train_dataset=TrainingItems(table.n_items),
            eval_dataset=None if test is None else TrainingItems(test.n_items),
            data_collator=lambda groups: groups,
            callbacks=list(callbacks) if callbacks else None,
        )
        self.loss_is_scaled_for_ga = True  # divided already by the count of the whole effective batch
        if self.is_deepspeed_enabled or self.is_fsdp_enabled:
            raise RealmError("FSDP and DeepSpeed are not supported: use `torchrun` with `lora_rank` or `train_layers`.")

        closed_form = config.method_update == "em" and channel.can("update")
        if closed_form:
            channel.requires_grad_(False)
            warnings = warnings + channels.memorisation_warnings(table, budget.epochs)
        elif experts and self.channel is not None:
            channel.pin(experts, EXPERT)
        self.anchored = bool(experts or config.use_gold or (self.earlier and closed_form))
        self.updates = channels.ChannelUpdates(channel if closed_form else None, table, steps_per_epoch)
        self.add_callback(self.updates)
        if self._progress is not ignore_progress:
            self.add_callback(StepProgress(self._progress))
        if self.earlier is not None:
            known = f"{self.earlier.annotators_named:,} of the {table.n_annotators:,} annotators"
            warnings = [*warnings, f"`prior`: it has estimates of {known}."]
        if test is not None:
            warnings = warnings + check_test(annotations, test)
        self.warnings = [*self.annotations.ledger.warnings, *warnings]
        if self.is_world_process_zero():
            for warning in warnings:
                logger.warning("%s", warning)

    @property
    def config(self) -> RealmConfig:
        """The settings of the training, which `Trainer` calls `args`."""
        config: RealmConfig = self.args
        return config

    @property
    def run(self) -> Path:
        """The run folder."""
        return Path(self.args.output_dir)

    @property
    def channel(self) -> Channel | None:
        """The learned channel; None for methods that learn nothing of annotators."""
        channel: Channel = self.model.channel
        return None if isinstance(channel, IdentityChannel) else channel

    # ---------------------------------------------------------------- batches and loss

    def get_train_dataloader(self) -> DataLoader[Any]:
        sampler = EffectiveBatchSampler(self.training_annotations, self.encoded.lengths, self.args)
        collator = Collator(self.scorer, self.encoded, self.training_annotations, self._cache("train"))
        return BatchLoader(TrainingItems(len(sampler.units)), batch_sampler=sampler, collate_fn=collator)

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> tuple[list[dict[str, Tensor]], Tensor | None]:
        """The micro-batches of an effective batch, and what the loss is divided by, over all processes."""
        batches, _ = super().get_batch_samples(*args, **kwargs)
        total = sum(self.model.count(batch) for batch in batches)
        # float64: counts of large batches of weights must be exact for every way of cutting them
        count = torch.tensor(total, dtype=torch.float64, device=self.args.device)
        return batches, self.accelerator.gather(count).sum() if self.args.world_size > 1 else count

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Tensor],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | None = None,
    ) -> Any:
        terms = model(**inputs)
        if model.training:
            self.updates.observe(inputs["item_index"], self.model.item_log_probs)
        count = self.model.count(inputs) if num_items_in_batch is None else num_items_in_batch
        # Data parallelism averages gradients over processes; the loss is a sum over them.
        loss = -terms.sum() / count * self.args.world_size
        return (loss, terms) if return_outputs else loss

    def training_step(self, *args: Any, **kwargs: Any) -> Tensor:
        if (losses := self._resumed_losses) is not None:  # of which `Trainer` begins anew
            own, rank = losses["unlogged"], self.args.process_index
            self._tr_loss.fill_(own[rank] if len(own) == self.args.world_size else sum(own) / len(own))
            self._total_loss_scalar, self._globalstep_last_logged = losses["logged"], losses["last_logged_step"]
            self._resumed_losses = None
        loss: Tensor = super().training_step(*args, **kwargs)
        # once a step, when all processes have what is wrong in their gradients
        if self.accelerator.sync_gradients and not bool((self._tr_loss + loss).isfinite()):
            raise self.diverged("the loss", self.state.global_step + 1)
        return loss

    # ---------------------------------------------------------------- optimiser

    def create_optimizer(self, model: Any = None) -> Any:
        if self.optimizer is None:
            args, decayed = self.args, set(self.get_decay_parameter_names(self.model))
            groups = parameter_groups(self.model, args, decayed)
            self.model.trained = [parameter for group in groups for parameter in group["params"]]
            # One pass over memory instead of ten. Under fp16 the fused step would unscale theta's gradient alone.
            fused = args.optim == OptimizerNames.ADAMW_TORCH_FUSED and not args.fp16
            adam = {"lr": args.learning_rate, "betas": (args.adam_beta1, args.adam_beta2), "eps": args.adam_epsilon}
            self.optimizer = MaskedAdamW(groups, self._touched, fused=fused, **adam)
        return self.optimizer

    def _touched(self) -> Tensor:
        """Which annotators and tasks the effective batch used, over all processes; the record starts anew."""
        channel: Channel = self.model.channel
        touched = channel.touched.clone()
        channel.clear_touched()
        if self.args.world_size > 1:
            touched = self.accelerator.reduce(touched.to(self.args.device).int(), "sum") > 0
        return touched

    def _clip_grad_norm(self, model: nn.Module) -> Any:
        """Clip the model's gradients; the channel's have a scale of their own and are left out."""
        channel = {id(parameter) for parameter in self.model.channel.parameters()}
        trained = self.model.trained or self.model.parameters()  # an optimiser of the user's own
        clipped = [parameter for parameter in trained if id(parameter) not in channel]
        return self.accelerator.clip_grad_norm_(clipped, self.args.max_grad_norm)

    def diverged(self, what: str, step: int) -> RealmError:
        """The error that ends a training whose numbers are no longer finite."""
        last = [f" `resume` goes on from {path}." for path in checkpoints.checkpoints(self.run / "checkpoints")[:1]]
        return RealmError(
            f"step {step}: {what} is infinite or not a number: training diverged, and nothing of it was written as a "
            f"result. Lower `learning_rate` ({self.args.learning_rate:g}) and begin again with `overwrite`."
            f"{''.join(last)}"
        )

    def _check_finite(self) -> None:
        """End the training where a parameter that it moves is not finite."""
        trained = ((name, each) for name, each in self.model.named_parameters() if each.requires_grad)
        if (name := first_not_finite(trained)) is not None:
            raise self.diverged(f"the parameter {name}", self.state.global_step)

    # ---------------------------------------------------------------- training

    def train(self, resume_from_checkpoint: str | bool | None = None, **more: Any) -> Any:
        """Train, and write the run folder. `resume_from_checkpoint=True` goes on from the newest whole checkpoint."""
        if not isinstance(resume_from_checkpoint, bool | None):
            raise RealmError("resume_from_checkpoint: give True; the newest whole checkpoint of the run is taken.")
        with ExitStack() as held:  # keeps the run folder from other processes
            args = self.args
            checkpoint = processes.on_first(args, lambda: run_output.begin(self, bool(resume_from_checkpoint), held))
            self._cache("train")
            self._cache("test")
            self._forget_results()
            if args.world_size > 1:
                set_seed(args.seed + args.process_index)  # each process its own dropout
            if checkpoint is None:
                self._start_channel()
            result = self._train_from(checkpoint, **more)
            self._check_finite()
            if self._adapted is not None:
                merge_lora(self.scorer, self._adapted)
                self._adapted = None
            self.scorer.merge_head()
            if not self.is_fold:
                self._judge()
            if args.write_run:
                test = None if self.test is None else self.test_scores(answer_mass=True)
                processes.on_first(args, lambda: run_output.end(self, test))
            if (repo_id := args.hub_model_id) is not None:
                private = args.hub_private_repo is not False
                processes.on_first(args, lambda: push(Run.open(self.run), repo_id, private=private))
            return result._replace(training_loss=result.metrics["train_loss"])

    def _start_channel(self) -> None:
        """Fit the channel to what is known before the first step: the model's opinion, gold, and agreement."""
        channel, table, closed_form = self.channel, self.training_annotations, self.updates.channel is not None
        if channel is None or not (closed_form or channel.can("start_from")):
            return
        log_probs = self._opinion_log_probs()
        if log_probs is None and not self.anchored:
            channels.check_anchor(channel, table)
        if isinstance(channel, ConfusionChannel) and channel.annotators.wants_features:
            # With one label per item: the texts tell whether who was asked depends on the item.
            if self._features is None and self.scorer.style.answers != "cloze":  # which has no one state that answers
                dims = FEATURE_DIMS if len(self.encoded) > MOST_FULL_FEATURES else None
                self._features = self._hidden_states(dims).numpy()
            if self._features is not None:
                channel.annotators.use_features(self._features)
        if closed_form:
            self.updates.fit(self.args, log_probs)
        elif log_probs is not None or table.gold is not None:
            channels.start_gradient_channel(channel, table, log_probs, self.args.annotator_kind)

    def _opinion_log_probs(self) -> Floats | None:
        """The untrained model's P of every item, where it is worth something. (items, K)"""
        if not self.args.opinion or self.scorer.new_head:
            return None
        if self._untrained_scores is None:
            self._untrained_scores = self.score_training_items("scoring the training items before training")
        table, kind = self.training_annotations, self.args.annotator_kind
        log_probs, sentence = opinion(table, self._untrained_scores.log_probs, kind)
        self.notes.append(sentence)
        return log_probs

    def _train_from(self, checkpoint: Path | None, **more: Any) -> TrainOutput:
        """Train on from a checkpoint. `Trainer` would take a step too many from one that ends the run in mid-epoch."""
        state = None if checkpoint is None else checkpoints.read_state(checkpoint)
        if state is None or state.global_step < state.max_steps:
            return super().train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint), **more)
        self._load_from_checkpoint(str(checkpoint))
        self.state, losses = state, self._resumed_losses or {}
        self._total_loss_scalar = losses["logged"] + sum(losses["unlogged"]) / len(losses["unlogged"])
        metrics = {"train_loss": 0.0}
        self.log(metrics)  # fills in the mean loss
        return TrainOutput(state.global_step, metrics["train_loss"], metrics)

    # ---------------------------------------------------------------- logs and checkpoints

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        step, last, rate = self.state.global_step, self.state.max_steps, self.args.logging_steps
        every = max(math.ceil(last / rate / MOST_TRAJECTORY), 1) * rate
        if "loss" in logs and self.channel is not None and (step == 1 or step % every == 0 or step >= last):
            self._trajectory.append((step, self.channel.summary()))
        if "train_loss" in logs:  # of all steps of the run, over processes and interruptions
            totals = processes.gather(self.args, self._total_loss_scalar)
            logs["train_loss"] = sum(totals) / len(totals) / max(step, 1)
        super().log(logs, start_time)

    def trajectory(self) -> checkpoints.Trajectory:
        """(step, what the channel's `summary` said) at logging steps, of which at most 200 are kept."""
        return list(self._trajectory)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """Write a checkpoint in place of `Trainer`'s. Every process takes part; the first one writes."""
        self.store_flos()
        args, scaler = self.args, getattr(self.accelerator, "scaler", None)
        self._check_finite()
        progress = {
            "trained": checkpoints.trained_state(self.scorer),
            "channel": checkpoints.tensors(self.model.channel.state()),
            "log_probs": torch.from_numpy(self.updates.log_probs),
            "trajectory": [(step, checkpoints.tensors(summary)) for step, summary in self._trajectory],
            "notes": self.notes,
            "losses": {
                "unlogged": processes.gather(args, float(self._tr_loss)),
                "logged": self._total_loss_scalar,
                "last_logged_step": self._globalstep_last_logged,
            },
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.lr_scheduler.state_dict(),
            "scaler": None if scaler is None else scaler.state_dict(),
        }
        random_states = processes.gather(args, checkpoints.random_state(distributed=args.world_size > 1))
        for stateful in (*self.callback_handler.callbacks, self.control):
            if isinstance(stateful, ExportableState):
                self.state.stateful_callbacks[type(stateful).__name__] = stateful.state()
        folder, keep = self.run / "checkpoints", args.save_total_limit
        write = partial(checkpoints.write_checkpoint, folder, keep, progress, random_states, self.state)
        processes.on_first(args, write)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        progress = checkpoints.read_progress(resume_from_checkpoint)
        checkpoints.load_trained(self.scorer, progress["trained"])
        self.model.channel.load_state(checkpoints.arrays(progress["channel"]))
        self.updates.log_probs[:] = progress["log_probs"].numpy()
        self._trajectory = [(step, checkpoints.arrays(summary)) for step, summary in progress["trajectory"]]
        self.notes, self._resumed_losses = list(progress["notes"]), progress["losses"]

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            progress = checkpoints.read_progress(checkpoint)
            self.optimizer.load_state_dict(progress["optimizer"])
            self.lr_scheduler.load_state_dict(progress["schedule"])
            if progress["scaler"] is not None:
                self.accelerator.scaler.load_state_dict(progress["scaler"])

    # ---------------------------------------------------------------- what `Trainer` offers and a run does otherwise

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Write backbone and tokenizer as a plain checkpoint; a run's own is in its model/ when training has ended."""
        if self._adapted is not None:
            raise RealmError("save_model: adapters are merged when training ends; take model/ of the run.")
        self.scorer.merge_head()
        self._check_finite()
        if self.args.should_save:
            folder = Path(output_dir) if output_dir else self.run / "model"
            self.scorer.backbone.save_pretrained(folder)
            self.scorer.tokenizer.save_pretrained(folder)

    def push_to_hub(self, *args: Any, **kwargs: Any) -> str:
        """Refused: `Trainer` would upload the whole run folder, the annotators with it."""
        raise RealmError(
            "push_to_hub: the trainer's would upload the whole run folder, its annotators with it. Set `hub_model_id` "
            f"before training, or push the finished run: Run.open({str(self.run)!r}).push_to_hub(id)."
        )


class StepProgress(TrainerCallback):
    """Calls `progress("training", step, steps)` at the start and after every optimiser step, on the first process."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if state.is_world_process_zero:
            self.progress(TRAINING, state.global_step, state.max_steps)

    on_train_begin = on_step_end

    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if state.global_step < state.max_steps and state.is_world_process_zero:  # stopped early
            self.progress(TRAINING, state.max_steps, state.max_steps)
