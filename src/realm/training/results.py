"""What a trained model says of items, labels and annotators, by models that were not trained on the item."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import Trainer
from transformers.trainer_callback import PrinterCallback
from transformers.trainer_utils import PredictionOutput

from realm.channels import Channel, ConfusionChannel, IdentityChannel, ItemScores, Observed
from realm.crowd.engine import log_softmax
from realm.crowd.estimate import Estimate, estimate_from_evidence
from realm.crowd.model import AnnotatorModel
from realm.data import Annotations, Items
from realm.errors import RealmError
from realm.files import without_home
from realm.metrics import evaluate
from realm.progress import named
from realm.runs.folder import BEFORE_TRAINING, OUT_OF_FOLD
from realm.scorers.frozen_cache import FrozenLayersCache
from realm.scorers.scoring import Scores, hidden_states
from realm.training import processes
from realm.training.config import RealmConfig
from realm.training.findings import few_steps, model_findings

if TYPE_CHECKING:
    import pandas as pd

FOLDS = 3
"""Folds of `cross_fit=auto`: each model has seen two thirds of the items, and together they take twice the training."""
SMALL_FOLDS = 2
"""Those of a small table, which is trained so often that its model knows it by heart: each has half of the steps."""
FOLD_SETTINGS: dict[str, Any] = {
    "write_run": False,
    "save_strategy": "no",
    "eval_strategy": "no",
    "cross_fit": 0,
    "report_to": "none",
    "hub_model_id": None,
}
"""A fold is neither written, nor logged, nor pushed."""
CHUNK = 65536
"""Annotations whose evidence is computed at once."""

Floats = npt.NDArray[np.float64]
logger = logging.getLogger(__name__)


def cross_fit(
    annotations: Annotations, folds: int, seed: int, score_fold: Callable[[str, Annotations], Floats]
) -> Floats:
    """log P of every item by a model that was trained without its fold (equal texts are in one fold). (items, Kmax)

    `score_fold(name, others)` trains from the start on `others`, the table without the labels and the gold of a fold,
    and returns log P of all items; the name is for messages.
    """
    fold_of_item = annotations.items.folds(folds, seed=seed)
    log_probs = np.full((annotations.n_items, int(annotations.option_counts.max(initial=1))), -np.inf)
    for fold in range(folds):
        held_out = fold_of_item == fold
        others = annotations.keep_annotations(~held_out[annotations.item])
        if annotations.gold is not None:
            others = replace(others, gold=np.where(held_out, -1, annotations.gold).astype(np.int32))
        log_probs[held_out] = score_fold(f"fold {fold + 1} of {folds}", others)[held_out]
    return log_probs


def channel_evidence(channel: Channel, table: Annotations, log_probs: Floats, hidden: Tensor | None) -> Floats:
    """The evidence of every annotation by a trained channel, at log P of the items. (annotations, Kmax)"""
    counts = torch.from_numpy(table.option_counts.astype(np.int64))
    scores = ItemScores(torch.from_numpy(log_probs).float(), counts, hidden)
    device = next(iter(channel.parameters()), counts).device
    channel.cpu()
    rows = np.array_split(np.arange(table.n_annotations), table.n_annotations // CHUNK + 1)
    with torch.no_grad():
        parts = [channel.evidence(scores, Observed.of(table, part)).double().numpy() for part in rows]
    channel.to(device)
    return np.concatenate(parts)


class ReportingTrainer(Trainer):
    """What a trained model says; `RealmTrainer` is how it is trained."""

    annotations: Annotations
    control: Any

    # ---------------------------------------------------------------- scores

    def _cache(self, table: str) -> FrozenLayersCache | None:
        """The frozen layers' states for the `train` or `test` items, computed when first asked for."""
        encoded, args = self.encoded if table == "train" else self.encoded_test, self.args
        if table not in self._caches:
            self._caches[table] = None
            if encoded is not None and args.train_layers and args.cache_gb:
                self._caches[table] = FrozenLayersCache(self.scorer, encoded, args.cache_gb, progress=self._progress)
        cache: FrozenLayersCache | None = self._caches[table]
        return cache

    def _score(self, encoded: Any, cache: FrozenLayersCache | None = None, **how: Any) -> Scores:
        """What the model says now of encoded items, in shares over the processes; all of them must ask."""
        return processes.score_shared(self.args, self.scorer, encoded, cache=cache, progress=self._progress, **how)

    def score_training_items(self, what: str = "scoring") -> Scores:
        """What the model says of the items that are trained on, as it is now."""
        return self._score(self.encoded, self._cache("train"), what=what)

    def test_scores(self, answer_mass: bool = False) -> Scores:
        """What the model says of the test items."""
        if self.encoded_test is None:
            raise RealmError("there is no test table to evaluate on: pass `test`.")
        return self._score(self.encoded_test, self._cache("test"), answer_mass=answer_mass)

    def _hidden_states(self, dims: int | None = None) -> Tensor:
        """The state that each item's answer is read from, projected to `dims` dimensions. (items, width)"""
        return hidden_states(self.scorer, self.encoded, dims=dims, cache=self._cache("train"), progress=self._progress)

    def evaluate(
        self, eval_dataset: Annotations | None = None, ignore_keys: Any = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """Accuracy and its kin on the test table that the trainer was given, or on another one with gold."""
        scores = self.test_scores() if eval_dataset is None else self._answer(eval_dataset)
        figures = evaluate(self.test if eval_dataset is None else eval_dataset, scores)
        logged = {f"{metric_key_prefix}_{name}": value for name, value in figures.items() if isinstance(value, float)}
        self.log(dict(logged))
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, logged)
        return logged

    def predict(self, test_dataset: Any, ignore_keys: Any = None, metric_key_prefix: str = "test") -> PredictionOutput:
        """The model's log P of the options of other items: `predictions`, (items, Kmax), -inf beyond an item's own.

        `test_dataset` is `Items` or `Annotations` with the tasks of the training table; `predictions.argmax(1)` are the
        labels. `Run.predict` takes texts and tables, and gives labels by name.
        """
        return PredictionOutput(self._answer(test_dataset).log_probs, getattr(test_dataset, "gold", None), {})

    def _answer(self, asked: Any) -> Scores:
        items = asked.items if isinstance(asked, Annotations) else asked
        if not isinstance(items, Items) or items.tasks != self.annotations.tasks:
            raise RealmError("give `Items` or `Annotations` that were built with `tasks=annotations.tasks`.")
        return self._score(self.scorer.encode(items))

    # ---------------------------------------------------------------- out of sample

    def _forget_results(self) -> None:
        self.folds, self.temperature = 0, 1.0
        self._out_of_sample: Floats | None = None
        self._report: tuple[AnnotatorModel, float, Floats] | None = None
        self._estimate: Estimate | None = None
        self.findings: list[str] = []

    def _judge(self) -> None:
        """After training: P out of sample, the temperature that the labels bear out, and what the user must know."""
        self._cross_fit()
        log_probs = self.out_of_sample()
        if self.updates.channel is not None or self.folds:  # by gradient the paper's model stays as it is
            self.temperature = processes.on_first(self.args, lambda: self.report_model()[1])
            self.scorer.temperature = self.temperature
            self.scorer.merge_temperature()
            done = f"calibrated by a temperature of {self.temperature:.2f}" if self.temperature > 1 else "left as it is"
            on = "items that were not trained on" if self.folds else "the items in training"
            self.notes.append(f"confidence: {done}, fitted to the labels of {on}.")
        basis = "on items that it was not trained on" if self.folds else "in training"
        self.findings = model_findings(self.annotations, log_probs, basis)
        if note := few_steps(self.state.global_step):
            self.notes.append(note)
        several = int((self.annotations.annotations_per_item > 1).sum())
        if several and not self.folds:
            self.notes.append(
                f"the labels of the {several:,} items with several annotations rest on these, because the model was "
                "trained on them. With `cross_fit=3` models have a say that were not, in three times the time."
            )

    def _planned_folds(self) -> int:
        """The folds to train: as set; of `auto`, where cached layers or a small table make them cheap, for a run."""
        args: RealmConfig = self.args
        if isinstance(args.cross_fit, int):
            return args.cross_fit
        if not (self.loads_model and args.write_run):
            return 0
        folds = FOLDS if args.train_layers and args.cache_gb else SMALL_FOLDS if self.trains_longer else 0
        try:
            return folds if folds and self.annotations.items.folds(folds) is not None else 0
        except RealmError:  # fewer texts than folds
            return 0

    def _cross_fit(self) -> None:
        """Train the folds; rather than lose the training, a warning where that fails."""
        if not (folds := self._planned_folds()):
            return
        level = logging.WARNING if self.is_world_process_zero() else logging.DEBUG
        logger.log(level, "cross-fit: %d folds to train", folds)
        try:
            self._out_of_sample = cross_fit(self.annotations, folds, self.args.seed, self._score_fold)
            self.folds = folds
        except RealmError as error:
            self.warnings.append(without_home(f"cross-fitting failed, so nothing is out of fold: {error}"))
            logger.log(level, "%s", self.warnings[-1])

    def _score_fold(self, name: str, others: Annotations) -> Floats:
        """log P of all items by a model trained from the start on `others`, which lack the labels of a fold."""
        config = replace(self.args, **FOLD_SETTINGS)
        if others.gold is None or not (others.gold >= 0).any():  # all of the gold, if any, lies in this fold
            config = replace(config, use_gold=False)
        channel, progress = copy.deepcopy(self.given_channel), named(self._progress, name)
        part: Any = type(self)(self.model_name, others, config, channel=channel, prior=self.prior, progress=progress)
        part.remove_callback(PrinterCallback)
        part.is_fold = True
        part._untrained_scores, part._features = self._untrained_scores, self._features  # the same before any label
        part.train()
        return np.asarray(part.score_training_items().log_probs)

    def out_of_sample(self) -> Floats:
        """log P of every item that labels and annotators are judged by, not calibrated. (items, Kmax)

        Out of fold; or what the last forward gave before its step on the item, and what the trained model says of items
        that it never visited.
        """
        if self._out_of_sample is None:
            self._out_of_sample = self.updates.log_probs.copy()
            unseen = np.isnan(self._out_of_sample[:, 0])
            if unseen.any():
                scores = self.score_training_items().log_probs
                self._out_of_sample[unseen, : scores.shape[1]] = scores[unseen]
        return self._out_of_sample

    def scores(self) -> Scores:
        """What the model says of the items, out of sample, at the temperature that the labels bear out."""
        return Scores(log_softmax(self.out_of_sample() / self.temperature))

    @property
    def probabilities(self) -> str:
        """What labels and reliability rest on, in words."""
        return f"{OUT_OF_FOLD} ({self.folds} folds)" if self.folds else BEFORE_TRAINING

    # ---------------------------------------------------------------- labels and annotators

    def report_model(self) -> tuple[AnnotatorModel, float, Floats]:
        """The model of annotators behind the estimates, brought to P out of sample, T, and log P at it (items, Kmax).

        It is the trained channel's own; where the channel is of another kind, the default one. NaN rows of log P: items
        that are judged by their labels alone.
        """
        if self._report is None:
            channel, args, log_probs = self.model.channel, self.args, self.out_of_sample()
            if isinstance(channel, ConfusionChannel):
                model = channel.fitted_model()
            else:
                gold, experts = self.annotations.gold if args.use_gold else None, args.experts or ()
                known = {"gold": gold, "experts": experts, "earlier": self.earlier, "kind": args.annotator_kind}
                model = AnnotatorModel(self.annotations, **known).fit(log_probs)
            self._report = model.brought_to(log_probs, in_sample=not self.folds)
        return self._report

    def estimate(self) -> Estimate:
        """Labels, accuracies and intervals by the evidence of the channel that was trained, with P out of sample."""
        if self._estimate is None:
            channel, (model, temperature, log_probs) = self.model.channel, self.report_model()
            if isinstance(channel, ConfusionChannel | IdentityChannel):
                self._estimate = model.estimate(log_probs)
            else:
                softened = log_softmax(self.out_of_sample() / temperature)
                hidden = self._hidden_states() if channel.needs_hidden else None
                self._estimate = estimate_from_evidence(
                    self.annotations,
                    channel_evidence(channel, self.annotations, softened, hidden),
                    model.log_prior(log_probs),
                    known=model.known,
                    experts=model.expert,
                    earlier=model.earlier,
                    kind=model.kind,
                )
        return self._estimate

    def expertise(self) -> pd.DataFrame:
        """How reliable each annotator is: annotator, task, expertise, accuracy, low, high, annotations and more."""
        from realm.crowd.tables import expertise_table

        trained = {} if self.channel is None else self.channel.summary()
        return expertise_table(self.annotations, self.estimate(), trained, self.probabilities)
