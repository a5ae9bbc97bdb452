"""`RunData`: what a report is made of, from a run's folder (without torch, nothing estimated anew) or a table alone."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from realm.check.agreement import alpha_by_task
from realm.crowd.drift import AnnotatorOverTime
from realm.crowd.engine import Floats, Ints
from realm.crowd.estimate import Estimate, estimate
from realm.crowd.label_figures import ConfusionCounts, count_confusions, share_right
from realm.crowd.notes import annotator_notes, habit_notes
from realm.crowd.peers import PeerAgreement, peer_agreement
from realm.crowd.screens import Screens
from realm.crowd.tables import model_probs
from realm.crowd.verdicts import VERDICTS
from realm.data import Annotations
from realm.data.annotations import UNKNOWN
from realm.errors import RealmError
from realm.files import MANIFEST
from realm.runs import Run
from realm.runs.changes import Changes
from realm.runs.folder import AGREEMENT, IN_SAMPLE, LABELS, OUT_OF_FOLD
from realm.runs.run import Trajectory

TRAINED = "expertise_trained"
"""The column of a channel's summary that the report shows and draws, where the channel has it."""
BAD = (VERDICTS.index("no better than chance"), VERDICTS.index("worse than chance"))
"""The verdicts that are bad news."""


@dataclass(frozen=True, eq=False)
class RunData:
    """A run, or a table of annotations without a model, as the report sees it.

    | field | shape | meaning |
    |---|---|---|
    | annotations, log_probs | (items, Kmax) | the table that was trained on, and the model's log P of its items |
    | estimate | | expertise, accuracy, intervals and the posterior, as the run stored them |
    | trained | (annotators, tasks) | expertise as training learned it; None where the method learns none |
    | trajectory | | `trained` at every logging step, under the same name; None where nothing was logged |
    | changes | | what changed since the run that this one goes on from; None without one |
    | has_model | | whether a model was trained; without one `log_probs` say nothing and nothing is shown of them |
    | file, date | | the name of the table, and the day of the run (or of reading the table); empty if not known |
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
    has_model: bool = True
    file: str = ""
    date: str = ""

    @cached_property
    def model_probs(self) -> Floats:
        """The model's own P of every item's options. (items, Kmax)"""
        return model_probs(self.annotations, self.log_probs)

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
    def verdicts(self) -> Ints:
        """Index into `VERDICTS`; -1 without annotations. (annotators, tasks)"""
        return self.screens.verdicts

    @cached_property
    def screens(self) -> Screens:
        """What is asked of the annotators: copies, patterns, confusions, changes over time."""
        return Screens(self.annotations, self.estimate)

    @cached_property
    def habits(self) -> npt.NDArray[np.object_]:
        """What each annotator answers when not answering from the item, where it is clear. (annotators, tasks)"""
        return _quoted(habit_notes(self.screens))

    @cached_property
    def notes(self) -> npt.NDArray[np.object_]:
        """What each annotator's labels show by themselves: one answer always, copies. (annotators, tasks)"""
        return _quoted(annotator_notes(self.screens))

    @property
    def times(self) -> list[AnnotatorOverTime]:
        """Every annotator over time; empty where annotations have no times."""
        return self.screens.times

    @cached_property
    def peers(self) -> PeerAgreement:
        """How often every two annotators gave the same label."""
        return peer_agreement(self.annotations)

    @cached_property
    def confusions(self) -> ConfusionCounts:
        """What each annotator gave against the cleaned labels."""
        return count_confusions(self.annotations, self.labels[self.annotations.item])

    @cached_property
    def bad_pairs(self) -> list[int]:
        """The pairs (annotator * tasks + task) no better or worse than chance, those with the most labels first."""
        counts = self.estimate.annotations.reshape(-1)
        pairs = np.flatnonzero(np.isin(self.verdicts.reshape(-1), BAD))
        return [int(pair) for pair in pairs[np.argsort(-counts[pairs], kind="stable")]]

    def pair_name(self, pair: int) -> str:
        """The annotator of a pair (annotator * tasks + task), with the task where there are several."""
        annotator, task = divmod(pair, len(self.annotations.tasks))
        name = self.annotations.annotators[annotator]
        return f"{name} · {self.task_names[task]}" if self.several_tasks else name

    def label_names(self, task: int) -> list[str]:
        """The labels of a task; places where every item lists its own options."""
        names = self.annotations.tasks[task].labels
        if names is not None:
            return list(names)
        items = self.annotations.item_tasks == task
        return [f"option {place + 1}" for place in range(int(self.annotations.option_counts[items].max(initial=0)))]

    @cached_property
    def alpha(self) -> dict[str, float | None]:
        """Krippendorff's alpha of each task; None where it is undefined."""
        return alpha_by_task(self.annotations)

    @cached_property
    def agreement(self) -> Floats:
        """The share of each annotator's labels that are the most probable ones. (annotators, tasks)"""
        return np.nan_to_num(share_right(self.annotations, self.labels)[0])

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
    def some_by_agreement(self) -> bool:
        """Whether some items rest on agreement alone."""
        return AGREEMENT in self.probabilities

    @property
    def some_by_label(self) -> bool:
        """Whether some items with one label rest on that label alone."""
        return LABELS in self.probabilities

    @property
    def in_sample_in_part(self) -> bool:
        """Whether only items with one label, not all, rest on a model that was trained on the item."""
        return self.in_sample and (self.some_by_agreement or self.some_by_label)

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
        file=str(run.config.get("file") or ""),
        date=_day((run.folder / MANIFEST).stat().st_mtime),
    )


def read_table(annotations: Annotations, file: Path, *, use_gold: bool = False) -> RunData:
    """What the report needs of a table of annotations alone: labels and reliability by agreement, without a model.

    Refused where no item has two annotations: then nobody can be compared with anybody.
    """
    gold = annotations.gold if use_gold else None
    if use_gold and (gold is None or not (gold != UNKNOWN).any()):
        raise RealmError(f"{file}: `use_gold` needs gold labels, and the table has none. Name the column: `gold`.")
    if not annotations.n_annotations:
        raise RealmError(f"{file}: there is not one annotation in it.")
    if gold is None and annotations.annotations_per_item.max(initial=0) <= 1:
        raise RealmError(
            f"{file}: no item has two annotations, so annotators cannot be compared with each other. Have some items "
            "labelled twice, or train a model (`realm train`), whose report judges them by the model."
        )
    width = int(annotations.option_counts.max(initial=2))
    log_probs = np.zeros((annotations.n_items, width))
    table = annotations if use_gold else annotations.without_gold()
    return RunData(
        name=file.name,
        config={"gold_used": use_gold, "data": {"fingerprint": annotations.fingerprint(gold=use_gold)}},
        metrics={"probabilities": AGREEMENT, "warnings": list(annotations.ledger.warnings)},
        scorer_settings={},
        annotations=table,
        log_probs=log_probs,
        estimate=estimate(table, gold=gold),
        has_model=False,
        file=annotations.ledger.file or file.name,
        date=_day(datetime.now(UTC).timestamp()),
    )


def _quoted(words: npt.NDArray[np.object_]) -> npt.NDArray[np.object_]:
    """The same words with quotation marks for the backticks around labels and names."""
    quoted = [re.sub(r"`([^`]*)`", r"“\1”", text) for text in words.reshape(-1)]
    return np.array(quoted, dtype=object).reshape(words.shape)


def _day(seconds: float) -> str:
    """`17 November 2026`, by UTC, so that the same run has the same date everywhere.

    The environment variable SOURCE_DATE_EPOCH (seconds) is the date of all reports, where one is to be made again to
    the byte on another day.
    """
    fixed = os.environ.get("SOURCE_DATE_EPOCH", "")
    moment = datetime.fromtimestamp(int(fixed) if fixed.isdecimal() else seconds, UTC)
    return f"{moment.day} {moment:%B %Y}"
