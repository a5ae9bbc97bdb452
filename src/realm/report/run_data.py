"""`RunData`: a run as a report needs it, read from its folder without torch and without estimating anything anew."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from realm.check.agreement import alpha_by_task
from realm.crowd.coin import pairs_of
from realm.crowd.dependence import Dependence, dependence
from realm.crowd.estimate import Estimate
from realm.crowd.evidence import Floats, check_log_probs
from realm.crowd.notes import annotator_notes
from realm.crowd.tables import habits_in_words, verdicts
from realm.data import Annotations
from realm.runs import Run
from realm.runs.changes import Changes
from realm.runs.folder import IN_SAMPLE, OUT_OF_FOLD
from realm.runs.run import Trajectory

TRAINED = "expertise_trained"
"""The column of a channel's summary that the report shows and draws, where the channel has it."""


@dataclass(frozen=True, eq=False)
class RunData:
    """A run as the report sees it.

    | field | shape | meaning |
    |---|---|---|
    | annotations, log_probs | (items, Kmax) | the table that was trained on, and the model's log P of its items |
    | estimate | | expertise, accuracy, intervals and the posterior, as the run stored them |
    | trained | (annotators, tasks) | expertise as training learned it; None where the method learns none |
    | trajectory | | `trained` at every logging step, under the same name; None where nothing was logged |
    | changes | | what changed since the run that this one goes on from; None without one |
    """

    name: str
    config: dict[str, Any]
    metrics: dict[str, Any]
    scorer_settings: dict[str, Any]
    annotations: Annotations
    log_probs: Floats
    estimate: Estimate
    trained: Floats | None = None
    trajectory: Trajectory | None = None
    changes: Changes | None = None

    @cached_property
    def model_probs(self) -> Floats:
        """The model's own P of every item's options. (items, Kmax)"""
        return np.exp(check_log_probs(self.annotations, self.log_probs))

    @cached_property
    def votes(self) -> npt.NDArray[np.int64]:
        """How often each option of each item was given. (items, Kmax)"""
        width = self.log_probs.shape[1]
        where = self.annotations.item.astype(np.int64) * width + self.annotations.label
        return np.bincount(where, minlength=self.log_probs.size).reshape(self.log_probs.shape).astype(np.int64)

    @cached_property
    def labels(self) -> npt.NDArray[np.int64]:
        """The most probable label of every item. (items,)"""
        return np.asarray(self.estimate.posterior.argmax(axis=1))

    @cached_property
    def confidence(self) -> Floats:
        """The posterior probability of `labels`. (items,)"""
        return np.asarray(self.estimate.posterior.max(axis=1))

    @cached_property
    def overruled(self) -> npt.NDArray[np.bool_]:
        """Items for which another label has more votes than the one found most probable. (items,)"""
        own_votes = self.votes[np.arange(len(self.labels)), self.labels]
        return np.asarray(self.votes.max(axis=1, initial=0) > own_votes)

    @cached_property
    def verdicts(self) -> npt.NDArray[np.int64]:
        """Index into `VERDICTS`; -1 without annotations. (annotators, tasks)"""
        return verdicts(self.annotations, self.estimate)

    @cached_property
    def dependence(self) -> Dependence | None:
        """How many independent annotators an item's annotations are worth; None where no item has two."""
        return dependence(self.annotations)

    @cached_property
    def habits(self) -> npt.NDArray[np.object_]:
        """What each annotator answers when not reading, where there is something to tell. (annotators, tasks)"""
        return habits_in_words(self.annotations, self.estimate)

    @cached_property
    def notes(self) -> npt.NDArray[np.object_]:
        """What each annotator's labels show by themselves: one answer always, copies. (annotators, tasks)"""
        return annotator_notes(self.annotations)

    @cached_property
    def alpha(self) -> dict[str, float | None]:
        """Krippendorff's alpha of each task; None where it is undefined."""
        return alpha_by_task(self.annotations)

    @cached_property
    def agreement(self) -> Floats:
        """The share of each annotator's labels that are the most probable ones. (annotators, tasks)"""
        table = self.annotations
        counts = self.estimate.annotations
        agreeing = np.bincount(pairs_of(table), self.labels[table.item] == table.label, minlength=counts.size)
        return np.asarray(agreeing.reshape(counts.shape) / np.maximum(counts, 1))

    @property
    def task_names(self) -> list[str]:
        return [task.name for task in self.annotations.tasks]

    @property
    def several_tasks(self) -> bool:
        return len(self.annotations.tasks) > 1

    @property
    def one_label_each(self) -> bool:
        """Whether no item has two annotations."""
        return int(self.annotations.annotations_per_item.max(initial=0)) <= 1

    @property
    def out_of_fold(self) -> bool:
        """Whether labels and reliability rest on models that had not seen the item."""
        return OUT_OF_FOLD in self.probabilities

    @property
    def in_sample(self) -> bool:
        """Whether they rest on a model that was trained on the item, for some items at least."""
        return IN_SAMPLE in self.probabilities

    @property
    def probabilities(self) -> str:
        return str(self.metrics.get("probabilities", IN_SAMPLE))

    @property
    def findings(self) -> list[str]:
        """What speaks against the model, and labels that have moved: what stands first on the page."""
        return [str(text) for text in self.metrics.get("findings", [])]

    @property
    def gold_used(self) -> bool:
        return bool(self.config.get("gold_used", False))

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self.config.get("settings", {}))

    @property
    def method(self) -> str:
        return str(self.settings.get("method", "realm"))

    @cached_property
    def ranked(self) -> npt.NDArray[np.int64]:
        """The pairs (annotator * tasks + task) that have annotations, most accurate first."""
        counts = self.estimate.annotations.reshape(-1)
        pairs = np.flatnonzero(counts)
        return pairs[np.lexsort((pairs, -counts[pairs], -self.estimate.accuracy.reshape(-1)[pairs]))]


def read_run(run: Run | str | Path) -> RunData:
    """What the report needs of a run, or of a run folder. The model is not read."""
    run = run if isinstance(run, Run) else Run.open(run, verify_model=False)
    return RunData(
        name=run.folder.resolve().name,
        config=run.config,
        metrics=run.metrics,
        scorer_settings=run.scorer_settings,
        annotations=run.annotations,
        log_probs=run.log_probs,
        estimate=run.estimate,
        trained=run.channel_summary.get(TRAINED),
        trajectory=run.trajectory if run.trajectory and TRAINED in run.trajectory.columns else None,
        changes=run.changes,
    )
