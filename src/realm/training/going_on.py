"""Going on from an earlier run: its model, channel and answers are the start, and the cost is that of what is new.

Items that are new, or whose annotations have changed, are trained on, with a sample of the others that keeps the model
from forgetting them: `replay` for each new one, and what makes the changed ones a fair sample. Everything that is
estimated, of annotators and of labels, rests on all annotations of the table. What the model is asked for that is what
it said before it was trained on the item: of an item of the earlier run what that run recorded, of a new item what the
earlier run's model says, which has never seen it. So nothing is scored or cross-fitted again. Where most items are new,
all this is done anew instead.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from realm.channels import CHANNELS, Channel, channel_class
from realm.crowd.evidence import Floats, log_softmax_rows
from realm.crowd.priors import with_gold
from realm.data import Annotations
from realm.data.alignment import Difference, aligned, difference
from realm.errors import RealmError
from realm.files import MANIFEST, read_tensors, without_home
from realm.methods import METHODS
from realm.metrics import evaluate
from realm.runs import Run
from realm.runs import folder as layout
from realm.scorers import Scorer, build_scorer
from realm.scorers.classifier import ClassifierScorer
from realm.scorers.head_growth import grow_head
from realm.scorers.prompts import PromptStyle
from realm.scorers.scoring import Scores
from realm.training.config import RealmConfig
from realm.training.guards import model_findings
from realm.training.settings import EPOCHS_DECIDE, Settings, settings_of

if TYPE_CHECKING:
    from realm.training.trainer import RealmTrainer

MOSTLY_NEW = 0.5
"""The share of changed items from which a run is trained on all items, and answers are asked for anew: from there on
the cost of everything is at most twice that of what is new."""

CONFIDENCE_PARTS = 4
"""Parts of the earlier run's items, by how sure their labels were, in which a fair sample has equal shares."""


@dataclass(eq=False)
class GoingOn:
    """An earlier run, a table that is aligned with the run's, and what is new in it.

    | attribute | shape | meaning |
    |---|---|---|
    | annotations | | the table with the run's tasks, labels and annotators first |
    | since | | what is new in it |
    | everything | | whether most items are new, so that all are trained on |
    | items | (trained items,) | the rows of the items that are trained on |
    | temperature | | the temperature of the earlier model's answers |
    | log_probs | (items, Kmax) | what the model said of each item before it was trained on it; set by `ask` |
    | test_before | | figures of the earlier model on the test table; None without one |
    """

    run: Run
    annotations: Annotations
    since: Difference
    replay: float
    seed: int
    temperature: float = 1.0
    log_probs: Floats | None = None
    test_before: dict[str, Any] | None = None
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, run: Run, annotations: Annotations, config: RealmConfig) -> GoingOn:
        """Compare the table with the run's. A table without anything new, or without a label of the run, is refused."""
        _check_style(run, config)
        earlier = run.annotations
        table = aligned(annotations, earlier.tasks, earlier.annotators, str(run.folder), earlier.groups)
        since = difference(earlier, table, gold=config.use_gold)
        if not since.changed.any():
            raise RealmError(
                f"the table holds nothing that {run.folder} was not trained on: {table.n_annotations:,} annotations, "
                "all known. Train from scratch to use other settings."
            )
        made = cls(run, table, since, config.replay, config.seed)
        made.temperature = float(run.scorer_settings.get("temperature", 1.0))
        if (since.earlier_item < 0).all():
            made.warnings.append(
                f"none of the {earlier.n_items:,} items of {run.folder.name} is in the table: the model goes on with "
                "new items alone and may forget what it knew. Give a table with both."
            )
        return made

    # ---------------------------------------------------------------- what is trained on

    @cached_property
    def everything(self) -> bool:
        return bool(self.since.changed.mean() > MOSTLY_NEW)

    @cached_property
    def items(self) -> npt.NDArray[np.int64]:
        changed = self.since.changed
        if self.everything:
            return np.arange(len(changed))
        others = np.random.default_rng(self.seed).permutation(np.flatnonzero(~changed))
        balance = self._balance(others)
        more = others[~np.isin(others, balance)][: round(self.replay * (self.since.earlier_item[changed] < 0).sum())]
        return np.sort(np.concatenate([np.flatnonzero(changed), balance, more]))

    def _balance(self, others: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Of `others`, those that make a fair sample of the earlier items that have changed, easy and hard ones.

        The items of a relabel queue are the doubtful ones, and a model that is trained on these alone loses the rest.
        So as many are taken of each part of the earlier run's items, by how sure their labels were, as have changed in
        the part where most have. Items changed at random need hardly any.
        """
        match = self.since.earlier_item
        confidence = self.run.estimate.posterior.max(axis=1)
        parts = np.array_split(np.argsort(confidence, kind="stable"), CONFIDENCE_PARTS)
        of_part = [np.isin(match, part) for part in parts]
        counts = [int((inside & self.since.changed).sum()) for inside in of_part]
        missing = [round(self.replay * (max(counts) - count)) for count in counts]
        fill = [others[inside[others]][:n] for inside, n in zip(of_part, missing, strict=True)]
        return np.concatenate(fill)

    def annotation_rows(self, table: Annotations) -> Tensor:
        """Where in `table`, of all items, the annotations of `table.take_items(self.items)` stand."""
        counts = table.annotations_per_item[self.items]
        starts = np.repeat(table.offsets[self.items] - (np.cumsum(counts) - counts), counts)
        return torch.from_numpy(starts + np.arange(counts.sum()))

    # ---------------------------------------------------------------- the model and the channel

    def scorer(self) -> Scorer:
        """The run's backbone, asked as it was, with the options that are new."""
        settings, table = self.run.scorer_settings, self.annotations
        classifier = settings["kind"] == "classifier"
        scorer = build_scorer(
            str(self.run.folder / layout.MODEL),
            settings["kind"],
            PromptStyle(**settings["style"]),
            self.run.tasks if classifier else table.tasks,
            max(int(settings["max_options"]), int(table.option_counts.max(initial=1))),
            cloze_scale=float(settings.get("cloze_scale", 10.0)),
            use_safetensors=True,
        )
        return grow_head(scorer, table.tasks) if isinstance(scorer, ClassifierScorer) else scorer

    @torch.no_grad()
    def average(self, scorer: Scorer) -> None:
        """After the last step: the mean of the earlier weights and these, by how many items each was trained on.

        A few hundred items are learned by heart where thousands were learned from before; so the model is drawn to
        what it was, the less the more of the table it was trained on. Where a label is new the weights stay as they
        are: the earlier ones know nothing of it.
        """
        if self.everything or any(
            before.labels != now.labels for before, now in zip(self.run.tasks, self.annotations.tasks, strict=False)
        ):
            return
        share = len(self.items) / self.annotations.n_items
        earlier = self.scorer().backbone.state_dict()  # tied weights under each of their names
        for name, parameter in scorer.backbone.named_parameters():
            before = earlier[name].to(parameter.device, parameter.dtype)
            parameter.copy_(before.lerp(parameter, share))

    def channel(self, annotations: Annotations, config: RealmConfig) -> Channel | None:
        """The run's channel for this table; None where it had none, or another is asked for now."""
        names = {channel_class(name).__name__: name for name in CHANNELS}
        name = names.get(str(self.run.metrics["channel"]))
        if name is None or config.channel not in ("auto", name) or METHODS[config.method].channel is not None:
            return None
        if not METHODS[config.method].learns_expertise:
            return None
        return channel_class(name).from_annotations(annotations, start=config.expertise_start)

    def start_channel(self, channel: Channel) -> bool:
        """Put what the run's channel learned into this one; whether it is of the same kind."""
        path = self.run.folder / layout.CHANNEL
        if type(channel).__name__ != self.run.metrics["channel"] or not path.exists():
            return False
        channel.go_on_from({name: torch.from_numpy(array.copy()) for name, array in read_tensors(path).items()})
        return True

    # ---------------------------------------------------------------- what the model says

    def ask(self, trainer: RealmTrainer) -> None:
        """Before the first step: what the earlier model says of the new items, and how it does on the test table."""
        scorer = trainer.scorer
        scorer.temperature = self.temperature
        try:
            scores = trainer.score_training_items("scoring the new items before training")
            self.test_before = self._earlier_figures(trainer)
        finally:
            scorer.temperature = 1.0
        table, match = self.annotations, self.since.earlier_item
        log_probs = np.full((table.n_items, int(table.option_counts.max(initial=1))), -np.inf)
        known = np.flatnonzero(match >= 0)
        earlier = self.run.log_probs[match[known]]
        log_probs[known, : earlier.shape[1]] = earlier
        new = match[self.items] < 0
        log_probs[self.items[new], : scores.log_probs.shape[1]] = scores.log_probs[new]
        self.log_probs = self._with_new_labels(log_probs, asked_all=scorer.kind != "classifier")

    def _earlier_figures(self, trainer: RealmTrainer) -> dict[str, Any] | None:
        """The earlier model on the test table: as its run recorded it, where that was the same table."""
        if trainer.test is None:
            return None
        recorded: dict[str, Any] | None = self.run.metrics.get("test")
        if recorded is not None and self.run.config.get("test") == trainer.test.fingerprint(gold=True):
            return recorded
        return evaluate(trainer.test, trainer.test_scores())

    def _with_new_labels(self, log_probs: Floats, *, asked_all: bool) -> Floats:
        """A label that the earlier model did not know is as probable as it is frequent among the annotations.

        `asked_all`: of new items the model was asked about all labels, as a language model can be.
        """
        table, old = self.annotations, self.run.tasks
        for index, (before, now) in enumerate(zip(old, table.tasks, strict=False)):
            first, k = len(before.labels or ()), len(now.labels or ())
            if first == k:
                continue
            rows = np.flatnonzero((table.item_tasks == index) & ((self.since.earlier_item >= 0) | (not asked_all)))
            given = table.label[table.item_tasks[table.item] == index]
            shares = (np.bincount(given, minlength=k) + 1.0) / (len(given) + k)
            log_probs[rows, :first] = log_softmax_rows(log_probs[rows, :first]) + np.log(shares[:first].sum())
            log_probs[rows, first:k] = np.log(shares[first:])
        return log_probs

    def beliefs(self, annotations: Annotations) -> Tensor:
        """log P of every item before the first step, with gold in use; NaN in tasks where it is worth nothing."""
        assert self.log_probs is not None
        width = int(annotations.option_counts.max(initial=1))
        log_probs = self.log_probs[:, :width].copy()
        worthless = [finding.task for finding in model_findings(annotations.without_gold(), log_probs, None)]
        log_probs[np.isin(annotations.item_tasks, worthless)] = np.nan
        return torch.from_numpy(with_gold(annotations, log_probs, annotations.gold))

    def judge(self, trainer: RealmTrainer) -> None:
        """After the last step: let labels and annotators be judged by what was said before training, as `cross_fit`."""
        assert self.log_probs is not None
        if self.run.out_of_fold:
            trainer.fold_of_item = np.zeros(self.annotations.n_items, dtype=np.int32)
            trainer.folds = int(self.run.metrics["folds"])
            trainer._scores = trainer.calibrated(self.log_probs)
        else:
            trainer._scores = Scores(log_softmax_rows(self.log_probs))

    @property
    def description(self) -> dict[str, str]:
        """What a run records of the one that it goes on from."""
        digest = hashlib.sha256((self.run.folder / MANIFEST).read_bytes()).hexdigest()[:32]
        return {"folder": without_home(str(self.run.folder)), "manifest": digest}


def earlier_settings(run: Run) -> dict[str, Any]:
    """The settings of a run, for another that goes on from it: as `RealmConfig` takes them.

    Fixed steps become the epochs that they were: fewer items need fewer steps. How the table was cross-fitted is not
    among them.
    """
    recorded = dict(run.config["settings"])
    names = {each.name: each.metadata["choices"] for each in settings_of(Settings)}
    settings = {name: value for name, value in recorded.items() if name in names}
    settings = {name: value for name, value in settings.items() if names[name] is None or value in names[name]}
    settings.pop("cross_fit", None)
    if (steps := settings.pop("max_steps", EPOCHS_DECIDE)) > 0:
        items = max(int(run.config["data"]["items"]), 1)
        settings["num_train_epochs"] = steps * int(recorded["effective_batch_size"]) / items
    return settings


def _check_style(run: Run, config: RealmConfig) -> None:
    """Refuse settings that would ask the model otherwise than it was trained to be asked."""
    style, defaults = run.scorer_settings["style"], {each.name: each.default for each in settings_of(Settings)}
    before = {**style, "scorer": run.scorer_settings["kind"]}
    for name in ("scorer", "answers", "instruction", "max_length", "chat_template"):
        value = getattr(config, name)
        if value not in (defaults[name], before[name]) and not (name == "max_length" and value > before[name]):
            raise RealmError(
                f"`{name}={value}`: {run.folder} was trained with {before[name]}, and a model goes on as it began. "
                "Leave it out, or train from scratch."
            )
