"""Continuing an earlier run with more labels: its weights and its probabilities are the start.

Items that are new, or whose annotations have changed, are trained on, with a sample of the others that keeps the model
from forgetting them. Annotators and labels are estimated on all annotations of the table, with what a model said of
each item before it was trained on it: what the earlier run recorded, or what its model says of a new item.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from realm.channels import Channel
from realm.data import Annotations
from realm.data.alignment import Difference, aligned, difference
from realm.errors import RealmError
from realm.files import MANIFEST, read_tensors, without_home
from realm.metrics import evaluate
from realm.runs import Run
from realm.runs import folder as layout
from realm.scorers import Scorer, build_scorer, scorer_class
from realm.scorers.prompts import PromptStyle
from realm.scorers.scoring import Scores
from realm.training.config import RealmConfig
from realm.training.settings import EPOCHS_DECIDE, Settings, settings_of

Floats = npt.NDArray[np.float64]

MOSTLY_NEW = 0.5
"""The share of changed items from which all items are trained on: from there on that costs at most twice as much."""
CONFIDENCE_PARTS = 4
"""Parts of the earlier run's items, by how sure their labels were, in which a fair sample has equal shares."""


@dataclass(eq=False)
class ContinuedRun:
    """An earlier run, a table that is aligned with the run's, and what is new in it.

    | attribute | shape | meaning |
    |---|---|---|
    | annotations | | the table with the run's tasks, labels and annotators first |
    | diff | | what is new in it |
    | items | (trained items,) | the rows of the items that are trained on |
    """

    run: Run
    annotations: Annotations
    diff: Difference
    seed: int
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, run: Run, annotations: Annotations, config: RealmConfig) -> ContinuedRun:
        """Compare the table with the run's. A table without anything new, or without a label of the run, is refused."""
        _check_style(run, config)
        earlier = run.annotations
        table = aligned(annotations, earlier.tasks, earlier.annotators, str(run.folder), earlier.groups)
        diff = difference(earlier, table, gold=config.use_gold)
        if not diff.changed.any():
            raise RealmError(
                f"the table holds nothing that {run.folder} was not trained on: {table.n_annotations:,} annotations, "
                "all known. Train from scratch to use other settings."
            )
        continued = cls(run, table, diff, config.seed)
        if (diff.earlier_item < 0).all():
            continued.warnings.append(
                f"none of the {earlier.n_items:,} items of {run.folder.name} is in the table: the model goes on with "
                "new items alone and may forget what it knew. Give a table with both."
            )
        return continued

    # ---------------------------------------------------------------- what is trained on

    @property
    def retrain_all(self) -> bool:
        """Whether most items are new, so that all are trained on."""
        return bool(self.diff.changed.mean() > MOSTLY_NEW)

    @cached_property
    def items(self) -> npt.NDArray[np.int64]:
        changed = self.diff.changed
        if self.retrain_all:
            return np.arange(len(changed))
        others = np.random.default_rng(self.seed).permutation(np.flatnonzero(~changed))
        balance = self._balance(others)
        more = others[~np.isin(others, balance)][: int((self.diff.earlier_item[changed] < 0).sum())]
        return np.sort(np.concatenate([np.flatnonzero(changed), balance, more]))

    def _balance(self, others: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Of `others`, those that make the changed items a fair sample of easy and hard ones.

        The items of a relabel queue are the doubtful ones, and a model that is trained on these alone loses the rest.
        """
        match, confidence = self.diff.earlier_item, self.run.estimate.posterior.max(axis=1)
        parts = np.array_split(np.argsort(confidence, kind="stable"), CONFIDENCE_PARTS)
        of_part = [np.isin(match, part) for part in parts]
        counts = [int((inside & self.diff.changed).sum()) for inside in of_part]
        missing = [max(counts) - count for count in counts]
        return np.concatenate([others[inside[others]][:n] for inside, n in zip(of_part, missing, strict=True)])

    def annotation_rows(self, table: Annotations) -> npt.NDArray[np.int64]:
        """Where in `table`, of all items, the annotations of `table.take_items(self.items)` stand."""
        return np.flatnonzero(np.isin(table.item, self.items))

    # ---------------------------------------------------------------- the model and the channel

    def scorer(self) -> Scorer:
        """The run's backbone, asked as it was, with the options that are new."""
        settings, table = self.run.scorer_settings, self.annotations
        scorer = build_scorer(
            str(self.run.folder / layout.MODEL),
            settings["kind"],
            PromptStyle(**settings["style"]),
            table.tasks if scorer_class(settings["kind"]).knows_new_labels else self.run.tasks,
            max(int(settings["max_options"]), int(table.option_counts.max(initial=1))),
            trained=True,
        )
        scorer.restore({**settings, "temperature": 1.0})  # at which it trains
        return scorer.grow_head(table.tasks)

    @torch.no_grad()
    def average_weights(self, scorer: Scorer) -> None:
        """After the last step: the mean of the earlier weights and these, by how many items each was trained on.

        A few hundred items are learned by heart where thousands were learned from before. Where a label is new the
        weights stay as they are: the earlier ones know nothing of it.
        """
        labels = zip(self.run.tasks, self.annotations.tasks, strict=False)
        if self.retrain_all or any(before.labels != now.labels for before, now in labels):
            return
        share = len(self.items) / self.annotations.n_items
        earlier = self.scorer().backbone.state_dict()  # tied weights under each of their names
        for name, parameter in scorer.backbone.named_parameters():
            parameter.copy_(earlier[name].to(parameter).lerp(parameter, share))

    @torch.no_grad()
    def start_channel(self, channel: Channel) -> bool:
        """Put the parameters of the run's channel into those of this one, of the same kind; whether it was.

        Its annotators, tasks and options are the first of this channel's: its parameters are leading parts of these.
        """
        path = self.run.folder / layout.CHANNEL
        if type(channel).__name__ != self.run.metrics["channel"] or not path.exists():
            return False
        state = read_tensors(path)
        for name, parameter in channel.named_parameters():
            if name in state and state[name].ndim == parameter.dim():
                earlier = torch.from_numpy(state[name]).to(parameter)
                part = tuple(slice(size) for size in earlier.shape)
                pinned = channel.pinned[: len(earlier)].to(parameter.device).view(-1, *[1] * (earlier.dim() - 1))
                parameter[part] = torch.where(pinned, parameter[part], earlier)
        return True

    # ---------------------------------------------------------------- what the model says

    @property
    def temperature(self) -> float:
        """The temperature of the earlier model's answers."""
        return float(self.run.scorer_settings.get("temperature", 1.0))

    def initial_log_probs(self, scores: Scores, *, knows_new_labels: bool) -> Floats:
        """What the earlier run's model says of every item that it was not trained on at the time. (items, Kmax)

        `scores` are what it says of `items` now. `knows_new_labels`: it was asked about all labels of new items, as a
        language model can be; elsewhere a new label is as probable as it is frequent among the annotations.
        """
        table, match = self.annotations, self.diff.earlier_item
        log_probs = np.full((table.n_items, int(table.option_counts.max(initial=1))), -np.inf)
        known = np.flatnonzero(match >= 0)
        earlier = self.run.log_probs[match[known]]
        log_probs[known, : earlier.shape[1]] = earlier
        new = match[self.items] < 0
        log_probs[self.items[new], : scores.log_probs.shape[1]] = scores.log_probs[new]
        for index, (before, now) in enumerate(zip(self.run.tasks, table.tasks, strict=False)):
            first, k = len(before.labels or ()), len(now.labels or ())
            if first == k:
                continue
            rows = np.flatnonzero((table.item_tasks == index) & ((match >= 0) | (not knows_new_labels)))
            given = table.label[table.item_tasks[table.item] == index]
            shares = (np.bincount(given, minlength=k) + 1.0) / (len(given) + k)
            total = np.logaddexp.reduce(log_probs[rows, :first], axis=1, keepdims=True)
            log_probs[rows, :first] += np.log(shares[:first].sum()) - total
            log_probs[rows, first:k] = np.log(shares[first:])
        return log_probs

    def earlier_figures(self, test: Annotations, scores: Scores) -> dict[str, Any]:
        """Figures of the earlier model on the test table: as its run recorded them, where that was the same table."""
        recorded: dict[str, Any] | None = self.run.metrics.get("test")
        if recorded is not None and self.run.config.get("test") == test.fingerprint(gold=True):
            return recorded
        return evaluate(test, scores)

    @property
    def description(self) -> dict[str, str]:
        """What a run records of the one that it continues."""
        digest = hashlib.sha256((self.run.folder / MANIFEST).read_bytes()).hexdigest()[:32]
        return {"folder": without_home(str(self.run.folder)), "manifest": digest}


def earlier_settings(run: Run) -> dict[str, Any]:
    """The settings of a run, for another that continues it: as `RealmConfig` takes them.

    Fixed steps become the epochs that they were: fewer items need fewer steps. How the table was cross-fitted is not
    among them.
    """
    recorded = dict(run.config["settings"])
    choices = {each.name: each.metadata["choices"] for each in settings_of(Settings) if each.name != "cross_fit"}
    settings = {
        name: value
        for name, value in recorded.items()
        if name in choices and (choices[name] is None or value in choices[name])
    }
    if (steps := settings.pop("max_steps", EPOCHS_DECIDE)) > 0:
        items = int((run.annotations.annotations_per_item > 0).sum())  # what an epoch passes over
        settings["num_train_epochs"] = steps * int(recorded["effective_batch_size"]) / max(items, 1)
    return settings


def _check_style(run: Run, config: RealmConfig) -> None:
    """Refuse settings that would ask the model otherwise than it was trained to be asked."""
    style, defaults = run.scorer_settings["style"], {each.name: each.default for each in settings_of(Settings)}
    # a scorer with one way of answering has recorded none
    before = {**style, "scorer": run.scorer_settings["kind"], "answers": style["answers"] or config.answers}
    for name in ("scorer", "answers", "instruction", "max_length", "chat_template"):
        value = getattr(config, name)
        if value not in (defaults[name], before[name]) and not (name == "max_length" and value > before[name]):
            raise RealmError(
                f"`{name}={value}`: {run.folder} was trained with {before[name]}, and a model goes on as it began. "
                "Leave it out, or train from scratch."
            )
