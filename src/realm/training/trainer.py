"""`RealmTrainer`: Hugging Face's `Trainer` with annotations for data, the channel's likelihood for a loss, and a run
folder for output. No method has a training loop of its own."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import set_seed
from transformers.trainer_utils import PredictionOutput, TrainOutput
from transformers.training_args import OptimizerNames
from transformers.utils import is_in_notebook

from realm.channels import Channel
from realm.crowd.priors import earlier_estimates, expert_rows
from realm.data import Annotations
from realm.data.alignment import aligned
from realm.data.arguments import require_test
from realm.display import ROWS, notebook_html
from realm.errors import RealmError, refuses_other_names
from realm.files import without_home, writing
from realm.methods import METHODS
from realm.metrics import check_test, evaluate
from realm.objectives import OBJECTIVES
from realm.progress import Progress, ignore_progress
from realm.runs import Run
from realm.runs.hub import check_access
from realm.scorers import Scorer, load_scorer
from realm.scorers.lora import add_lora, merge_lora
from realm.scorers.scoring import score
from realm.training import channel_start, sharding
from realm.training.arguments import OTHER_NAMES, check_types
from realm.training.asked_items import asked_items
from realm.training.batches import BatchLoader, Collator, EffectiveBatchSampler, TrainingItems
from realm.training.channel import check_anchor, make_channel, memorisation_warning, start_channel
from realm.training.config import RealmConfig
from realm.training.cross_fit import expected, planned_folds
from realm.training.distributed import on_first
from realm.training.going_on import GoingOn
from realm.training.judging import JudgingTrainer
from realm.training.labels import training_labels
from realm.training.model import RealmModel
from realm.training.optimizer import MaskedAdamW, parameter_groups
from realm.training.reporting import ChannelHistograms
from realm.training.running_loss import RunningLoss
from realm.training.step_progress import StepProgress

if TYPE_CHECKING:
    import pandas as pd


logger = logging.getLogger(__name__)


@refuses_other_names(OTHER_NAMES)
class RealmTrainer(JudgingTrainer):
    """Fine-tune a model on annotations and learn each annotator's expertise.

    | argument | meaning |
    |---|---|
    | model | a folder, a named model, a Hugging Face id, a `Scorer`, or an earlier `Run` to go on from |
    | annotations | the table to train on |
    | config | a `RealmConfig`; its `output_dir` is the run folder |
    | test | a table with gold, evaluated every `eval_steps` and at the end |
    | channel | how annotators err; by default the one that `config.channel` names |
    | prior | an earlier run's expertise table: training starts from it, and it stands for the pool in the results |
    | progress | called with how far frozen layers, optimiser steps, scoring and folds are; by default a notebook \
shows bars, and nothing else does |

    | attribute | meaning |
    |---|---|
    | annotations | the table as given, which annotators are judged by; without gold unless the run reads it |
    | channel_annotations | the labels of the method: the same, one aggregated label per item, or gold |
    | training_annotations | those of them that are trained on: all but where a run is gone on from |
    | going_on | the earlier run that this one goes on from, and what is new since; None without one |
    | test | the test table, or None |
    | channel | the learned channel; None for methods that learn nothing of annotators |
    | warnings | what the user should know |
    | notes | what training found: the model's opinion, the channel, how its confidence was calibrated |

    Examples:
        >>> annotations = Annotations.read("labels.csv")  # doctest: +SKIP
        >>> trainer = RealmTrainer("minilm-l6", annotations, RealmConfig("runs/sentiment"))  # doctest: +SKIP
        >>> trainer.train()  # doctest: +SKIP
        >>> trainer.expertise()  # doctest: +SKIP
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | Scorer | Run,
        annotations: Annotations,
        config: RealmConfig,
        *,
        test: Annotations | None = None,
        channel: Channel | None = None,
        prior: pd.DataFrame | None = None,
        callbacks: Sequence[Any] | None = None,
        progress: Progress | None = None,
    ) -> None:
        model = os.fspath(model) if isinstance(model, os.PathLike) else model
        check_types(model, annotations, config, test, channel)
        if config.n_gpu > 1:
            raise RealmError(
                f"{config.n_gpu} GPUs are visible but no launcher started this process. Use `torchrun "
                "--nproc-per-node=N -m realm train ...`, or show one GPU: CUDA_VISIBLE_DEVICES=0."
            )
        if (repo_id := config.hub_model_id) is not None:
            on_first(config, lambda: check_access(repo_id, "hub_model_id"))
        self.going_on = GoingOn.of(model, annotations, config) if isinstance(model, Run) else None
        if self.going_on is not None:
            annotations = self.going_on.annotations
            test = None if test is None else aligned(test, annotations.tasks, (), "the table")
        labels = training_labels(annotations, config.method, seed=config.seed, use_gold=config.use_gold)
        experts = expert_rows(annotations, config.experts or ())
        earlier = None if prior is None else earlier_estimates(annotations, prior)
        if isinstance(config.cross_fit, int) and config.cross_fit:
            annotations.items.folds(config.cross_fit)  # refuses more folds than texts before anything is trained
        self.annotations = annotations if config.reads_gold else annotations.without_gold()
        self.channel_annotations = self.training_annotations = labels.annotations
        self._annotation_rows: Tensor | None = None
        self.prior = prior
        if self.going_on is not None:
            self._annotation_rows = self.going_on.annotation_rows(labels.annotations)
            self.training_annotations = labels.annotations.take_items(self.going_on.items)
            channel = self.going_on.channel(labels.annotations, config) if channel is None else channel
        own_channel = channel is not None or config.channel != "auto" or METHODS[config.method].channel is not None
        channel = make_channel(labels.annotations, config, channel)
        self.warnings = [*annotations.ledger.warnings, *labels.warnings]
        self.warnings += [] if self.going_on is None else self.going_on.warnings
        self.notes = []
        set_seed(config.seed)
        scorer, self.model_name = _scorer(model, self.going_on, annotations, config)
        self.loads_model = not isinstance(model, Scorer)
        self._adapted = add_lora(scorer, config.lora_rank) if config.lora_rank else None
        if config.train_layers:
            scorer.freeze_below(config.train_layers)
        scorer.temperature = 1.0
        self.scorer = scorer
        self.encoded = scorer.encode(self.training_annotations.items)
        if test is not None:
            self.warnings += check_test(annotations, test)
        self.test = test
        self.encoded_test = None if test is None else scorer.encode(test.items)
        self._in_notebook = is_in_notebook() and not config.disable_tqdm
        self._progress = progress or _default_progress(self._in_notebook)
        self._caches = {}
        self._scores = self._basis = self._agreement = None
        self.folds, self.supported_temperature = 0, 1.0
        self.fold_of_item = self.out_of_fold = None
        self._trajectory = []
        if config.should_save:
            with writing(Path(config.output_dir)):
                Path(config.output_dir).mkdir(parents=True, exist_ok=True)
        super().__init__(
            model=RealmModel(scorer, channel, OBJECTIVES[config.method_objective]),
            args=config,
            train_dataset=TrainingItems(len(self.training_annotations)),
            eval_dataset=None if test is None else TrainingItems(test.n_items),
            data_collator=lambda groups: groups,
            callbacks=list(callbacks) if callbacks else None,
        )
        if self._in_notebook:
            from transformers.utils.notebook import NotebookProgressCallback

            from realm.training.notebook import TrainingTable

            self.remove_callback(NotebookProgressCallback)
            self.add_callback(TrainingTable)
        elif progress is not None and progress is not ignore_progress:
            self.add_callback(StepProgress(progress))
        if config.report_to:
            self.add_callback(ChannelHistograms(self))
        # The loss is already divided by the count of the whole effective batch.
        self.loss_is_scaled_for_ga = True
        if self.is_deepspeed_enabled:
            sharding.check_deepspeed(config, int(self.accelerator.state.deepspeed_plugin.zero_stage))
        if self.is_fsdp_enabled:
            sharding.check(config, self.accelerator.state.fsdp_plugin)
            sharding.leave_whole(self.model, self.accelerator.state.fsdp_plugin)
        self._running_loss = RunningLoss(config)
        self._closed_form = None
        self.is_fold = False
        """Whether this trains a fold of another run: it goes on from that run's channel, and is not calibrated."""
        if self.channel is not None:
            start_channel(channel, labels.annotations, experts, earlier)
            carried = self.going_on is not None and self.going_on.start_channel(channel)
            self.anchored = bool(experts or config.use_gold or earlier or carried)
            if config.method_update == "em" and channel.can("update"):
                self._closed_form = channel_start.closed_form(self, None if own_channel else experts, earlier)
                self.add_callback(self._closed_form)
                if warning := memorisation_warning(labels.annotations, config):
                    self.warnings.append(warning)
            if not (self.anchored or config.opinion):
                check_anchor(channel, labels.annotations)
        if earlier is not None:
            named = len({annotator for annotator, _ in earlier})
            self.warnings.append(
                f"`prior`: it has estimates of {named:,} of the {annotations.n_annotators:,} annotators."
            )
        for warning in self.warnings[len(annotations.ledger.warnings) :] if self.is_world_process_zero() else []:
            logger.warning("%s", warning)

    @property
    def config(self) -> RealmConfig:
        """The settings that the trainer was given, which `Trainer` calls `args`."""
        config: RealmConfig = self.args
        return config

    def __repr__(self) -> str:
        steps = self.state.global_step
        trained = f"{steps:,} of {self.state.max_steps:,} steps" if steps else "not trained yet"
        return f"RealmTrainer({self.model_name!r}, {self.annotations!r}, {self.args.method}; {trained})"

    def _repr_html_(self) -> str:
        import pandas as pd

        rows = pd.DataFrame([entry for entry in self.state.log_history if "loss" in entry or "eval_accuracy" in entry])
        shown = ("step", "epoch", "loss", "eval_accuracy", "eval_macro_f1", "eval_base_rate", "eval_log_loss")
        facts = {
            "model": self.model_name,
            "data": repr(self.annotations),
            "method": self.args.method,
            "run": self.run if self.args.write_run else "none is written",
            "found": " ".join(self.notes),
            "warnings": " ".join(self.warnings),
        }
        return notebook_html(repr(self), facts, rows[[name for name in shown if name in rows]].tail(ROWS))

    # ---------------------------------------------------------------- batches and loss

    def get_train_dataloader(self) -> DataLoader[Any]:
        args = self.args
        sampler = EffectiveBatchSampler(
            self.training_annotations,
            self.encoded.lengths,
            unit=args.batch_unit,
            micro_size=args.per_device_train_batch_size,
            accumulation=args.gradient_accumulation_steps,
            world_size=args.world_size,
            rank=args.process_index,
            seed=args.seed,
            length_grouping=args.length_grouping,
        )
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
        if self._closed_form is not None and model.training:
            rows, own = inputs["annotation_index"], self._annotation_rows
            self._closed_form.observe(rows if own is None else own[rows.cpu()], self.model.annotation_log_probs)
        count = self.model.count(inputs) if num_items_in_batch is None else num_items_in_batch
        # Data parallelism averages gradients over processes; the loss is a sum over them.
        loss = -terms.sum() / count * self.args.world_size
        return (loss, terms) if return_outputs else loss

    def training_step(self, *args: Any, **kwargs: Any) -> Tensor:
        loss: Tensor = super().training_step(*args, **kwargs)
        self._running_loss.add(loss)
        if not self.accelerator.sync_gradients:
            return loss
        # once a step, when all processes have what is wrong in their gradients
        if not self._running_loss.is_finite:
            raise self.diverged("the loss", self.state.global_step + 1)
        if self.is_fsdp_enabled:
            sharding.average_gradients(self.model)
        return loss

    # ---------------------------------------------------------------- optimiser

    def create_optimizer(self, model: Any = None) -> Any:
        if self.optimizer is not None:
            return self.optimizer
        args = self.args
        groups = parameter_groups(self.model, args, decayed=set(self.get_decay_parameter_names(self.model)))
        if not self.is_fsdp_enabled:  # which replaces parameters by its own later
            self.model.trained = [parameter for group in groups for parameter in group["params"]]
        self.optimizer = MaskedAdamW(
            groups,
            self._touched,
            lr=args.learning_rate,
            betas=(args.adam_beta1, args.adam_beta2),
            eps=args.adam_epsilon,
            # One pass over memory instead of ten. Under fp16 the fused step would unscale theta's gradient alone.
            fused=args.optim == OptimizerNames.ADAMW_TORCH_FUSED and not args.fp16,
        )
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
        if self.is_fsdp_enabled:
            norm = sharding.clip(self.model.scorer.parameters(), self.args.max_grad_norm)
        else:
            channel = {id(parameter) for parameter in self.model.channel.parameters()}
            trained = self.model.trained or self.model.parameters()  # an optimiser of the user's own
            clipped = [parameter for parameter in trained if id(parameter) not in channel]
            norm = self.accelerator.clip_grad_norm_(clipped, self.args.max_grad_norm)
        # under fp16 an infinite gradient is usual: the step is left out and the loss scaled anew
        has_scaler = getattr(self.accelerator, "scaler", None) is not None
        if norm is not None and not has_scaler and not bool(torch.as_tensor(norm).isfinite()):
            raise self.diverged("the gradient", self.state.global_step + 1)
        return norm

    # ---------------------------------------------------------------- during training

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        step = self.state.global_step
        if "loss" in logs:
            logs["loss"] = self._running_loss.log(step)
            if self.channel is not None:
                self._trajectory.append((step, self.channel.summary()))
        if "train_loss" in logs:
            logs["train_loss"] = self._running_loss.mean(step)
        super().log(logs, start_time)

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: Any = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """Accuracy and its kin on the test table that the trainer was given, or on another one with gold."""
        if eval_dataset is None:
            scores = self.test_scores()
            assert self.test is not None
            figures = evaluate(self.test, scores)
        else:
            require_test(eval_dataset, "eval_dataset")
            with sharding.gathered(self.model):
                asked = self.scorer.encode(asked_items(self, eval_dataset))
                figures = evaluate(eval_dataset, score(self.scorer, asked, progress=self._progress))
        logged = {f"{metric_key_prefix}_{k}": v for k, v in figures.items() if isinstance(v, float)}
        self.log(dict(logged))
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, logged)
        return logged

    def predict(self, test_dataset: Any, ignore_keys: Any = None, metric_key_prefix: str = "test") -> PredictionOutput:
        """The model's log P of the options of other items: `predictions`, (items, Kmax), -inf beyond an item's own.

        `test_dataset` is texts, a DataFrame (read by the columns that were trained on), `Items` or `Annotations`, with
        the tasks of the training table. `predictions.argmax(1)` are the labels; `label_ids` and `metrics` are gold and
        figures of `Annotations` that have gold. `Run.predict` gives labels by name.
        """
        table = test_dataset if isinstance(test_dataset, Annotations) else None
        items = asked_items(self, test_dataset)
        with sharding.gathered(self.model):
            scores = score(self.scorer, self.scorer.encode(items), progress=self._progress)
        figures = {} if table is None or table.gold is None or (table.gold < 0).all() else evaluate(table, scores)
        metrics = {f"{metric_key_prefix}_{name}": value for name, value in figures.items() if isinstance(value, float)}
        return PredictionOutput(scores.log_probs, None if table is None else table.gold, metrics)

    # ---------------------------------------------------------------- the run

    def train(self, resume_from_checkpoint: str | bool | None = None, **more: Any) -> Any:
        """Train, and write the run folder. `resume_from_checkpoint=True` goes on from the newest whole checkpoint."""
        if not isinstance(resume_from_checkpoint, bool | None):
            raise RealmError("resume_from_checkpoint: give True; the newest whole checkpoint of the run is taken.")
        with ExitStack() as held:
            return self._train(bool(resume_from_checkpoint), held, **more)

    def _train(self, resume: bool, held: ExitStack, **more: Any) -> Any:
        """Train; `held` keeps the run folder from other processes."""
        from realm.training import run_output

        checkpoint = on_first(self.args, lambda: run_output.begin(self, resume, held))
        self._fill_caches()
        self._scores = self._basis = None
        if self.args.world_size > 1:
            set_seed(self.args.seed + self.args.process_index)  # each process its own dropout
        start_time = time.monotonic()
        if self.going_on is not None:
            self.going_on.ask(self)
        if checkpoint is None and not self.is_fold:
            channel_start.start(self)
        result = self._train_from(checkpoint, **more)
        if self.is_fsdp_enabled:
            sharding.make_whole(self.model)
        self.check_finite(dict(self.model.named_parameters()))
        if self._adapted is not None:
            merge_lora(self.scorer, self._adapted)
            self._adapted = None
        self.scorer.merge_head()
        if self.going_on is not None and not self.is_deepspeed_enabled:  # whose weights are in several processes
            self.going_on.average(self.scorer)
        if folds := planned_folds(self):
            if self.is_world_process_zero():
                steps = self.state.global_step - (0 if checkpoint is None else int(checkpoint.name.rpartition("-")[2]))
                seconds = expected(self, folds, (time.monotonic() - start_time) / max(steps, 1))
                logger.warning("cross-fit: %d folds to train, about %.0f s", folds, seconds)
            self._cross_fit_or_say(folds)
        elif self.going_on is not None and not self.going_on.everything:
            self.going_on.judge(self)
        if not self.is_fold:
            channel_start.calibrate(self)
        if self.args.write_run:
            on_first(self.args, lambda: run_output.end(self))
        if self.args.hub_model_id is not None:
            on_first(self.args, lambda: run_output.push(self))
        return result._replace(training_loss=result.metrics["train_loss"])

    def _train_from(self, checkpoint: Path | None, **more: Any) -> TrainOutput:
        """Train on from a checkpoint. `Trainer` would take a step too many from one that ends the run in mid-epoch."""
        state = None if checkpoint is None else self.checkpoint_state(checkpoint)
        if state is None or state.global_step < state.max_steps:
            return super().train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint), **more)
        self._load_from_checkpoint(str(checkpoint))
        self.state = state
        metrics = {"train_loss": 0.0}
        self.log(metrics)  # fills in the mean loss
        return TrainOutput(state.global_step, metrics["train_loss"], metrics)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Write backbone and tokenizer as a plain checkpoint; a run's own is in its model/ when training has ended."""
        if self._adapted is not None or self.is_fsdp_enabled:
            raise RealmError("save_model: adapters and shards are joined when training ends; take model/ of the run.")
        self.scorer.merge_head()
        self.check_finite(dict(self.scorer.named_parameters()))
        if self.args.should_save:
            folder = Path(output_dir) if output_dir else self.run / "model"
            self.scorer.backbone.save_pretrained(folder)
            self.scorer.tokenizer.save_pretrained(folder)

    def hyperparameter_search(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: a comparison tries settings, judged by annotations that are held out."""
        raise RealmError(
            "hyperparameter_search: use `compare(..., choose={'realm': {'learning_rate': [1e-5, 5e-5]}})`."
        )

    def push_to_hub(self, *args: Any, **kwargs: Any) -> str:
        """Refused: `Trainer` would upload the whole run folder, the annotators with it."""
        raise RealmError(
            "push_to_hub: the trainer's would upload the whole run folder, its annotators with it. Give "
            f"`hub_model_id` before training, or push the finished run: Run.open({str(self.run)!r}).push_to_hub(id)."
        )

    def _cross_fit_or_say(self, folds: int) -> None:
        """Probabilities out of fold; rather than lose the training, a warning where the folds cannot be trained."""
        try:
            self.cross_fit(folds)
        except RealmError as error:
            self.warnings.append(without_home(f"cross-fitting failed, so nothing is out of fold: {error}"))
            if self.is_world_process_zero():
                logger.warning("%s", self.warnings[-1])


def _default_progress(in_notebook: bool) -> Progress:
    """Bars in a notebook, nothing elsewhere."""
    if not in_notebook:
        return ignore_progress
    from realm.training.notebook import ProgressBars

    return ProgressBars()


def _scorer(
    model: str | Scorer | Run, going_on: GoingOn | None, annotations: Annotations, config: RealmConfig
) -> tuple[Scorer, str]:
    """The scorer to train, and the name of the model that it is made from."""
    if going_on is not None:
        return going_on.scorer(), str(going_on.run.config["model"])
    if isinstance(model, Scorer):
        return model, without_home(model.backbone.config._name_or_path)
    assert isinstance(model, str)
    scorer = load_scorer(
        model,
        annotations.items,
        scorer=config.scorer,
        answers=config.answers,
        instruction=config.instruction,
        max_length=config.max_length,
        chat_template=config.chat_template,
    )
    return scorer, without_home(model)
