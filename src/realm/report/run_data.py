"""`RunData`: what a report is made of, from a run's folder (without torch, nothing estimated anew) or a table alone."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from realm.crowd.against_gold import AgainstGold, estimate_against_gold
from realm.crowd.agreement import alpha_by_task
from realm.crowd.engine import Bools, Floats, Ints
from realm.crowd.estimate import Estimate, estimate
from realm.crowd.label_figures import peer_agreement
from realm.crowd.screens import Screens
from realm.crowd.tables import label_votes, model_probs
from realm.crowd.verdicts import VERDICTS
from realm.data import Annotations
from realm.data.annotations import UNKNOWN
from realm.errors import RealmError
from realm.files import MANIFEST
from realm.runs import Run
from realm.runs import folder as layout

if TYPE_CHECKING:
    import pandas as pd

BAD = (VERDICTS.index("no better than chance"), VERDICTS.index("worse than chance"))
"""The verdicts that are bad news."""
CONFIDENT, UNCLEAR = 0.9, 0.8
"""From the first on a label is called confident, at most one in ten being wrong; below the second unclear."""


@dataclass(frozen=True, eq=False)
class RunData:
    """A run, or a table of annotations without a model, as the report sees it.

    | field | meaning |
    |---|---|
    | name, file, date | of the run's folder, of the table, and the day; empty if not known |
    | screens | the table, the estimate, and what is asked of the annotators |
    | log_probs | the model's log P of the items; None where no model was trained. (items, Kmax) |
    | config, metrics | as the run recorded them |
    | against_gold | how the labels did against gold that nothing here has seen; None where there was none |
    """

    name: str
    screens: Screens
    log_probs: Floats | None = None
    config: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    against_gold: AgainstGold | None = None
    file: str = ""
    date: str = ""

    @property
    def annotations(self) -> Annotations:
        return self.screens.annotations

    @property
    def estimate(self) -> Estimate:
        return self.screens.estimate

    @property
    def has_model(self) -> bool:
        return self.log_probs is not None

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self.config.get("settings", {}))

    @property
    def gold_used(self) -> bool:
        return bool(self.config.get("gold_used", False))

    @property
    def probabilities(self) -> str:
        """What labels and reliability rest on: `out of fold ...`, `before each step` or `agreement alone`."""
        return str(self.metrics.get("probabilities", layout.BEFORE_TRAINING))

    # ---------------------------------------------------------------- items

    @cached_property
    def scores(self) -> Floats:
        """log P of every item's options, even where there is no model. (items, Kmax)"""
        return np.zeros_like(self.estimate.posterior) if self.log_probs is None else self.log_probs

    @cached_property
    def model_probs(self) -> Floats:
        """The model's own P of every item's options. (items, Kmax)"""
        return model_probs(self.annotations, self.scores)

    @cached_property
    def votes(self) -> Ints:
        """How often each option of each item was given. (items, Kmax)"""
        return label_votes(self.annotations)

    @cached_property
    def labels(self) -> Ints:
        """The most probable label of every item. (items,)"""
        return np.asarray(self.estimate.posterior.argmax(axis=1))

    @cached_property
    def confidence(self) -> Floats:
        """The posterior probability of `labels`. (items,)"""
        return np.asarray(self.estimate.posterior.max(axis=1))

    @cached_property
    def overruled(self) -> Bools:
        """Items for which another label has more votes than the one found most probable. (items,)"""
        own_votes = self.votes[np.arange(len(self.labels)), self.labels]
        return np.asarray(self.votes.max(axis=1, initial=0) > own_votes)

    @property
    def one_label_each(self) -> bool:
        """Whether no item has two annotations."""
        return int(self.annotations.annotations_per_item.max(initial=0)) <= 1

    # ---------------------------------------------------------------- annotators

    @property
    def verdicts(self) -> Ints:
        """Index into `VERDICTS`; -1 without annotations. (annotators, tasks)"""
        return self.screens.verdicts

    @cached_property
    def notes(self) -> Any:
        """What each annotator's labels show by themselves: one answer always, copies. (annotators, tasks)"""
        return _quoted(self.screens.notes)

    @cached_property
    def habits(self) -> Any:
        """What each annotator answers when not answering from the item, where it is clear. (annotators, tasks)"""
        return _quoted(self.screens.habits)

    @cached_property
    def peers(self) -> pd.DataFrame:
        """How often every two annotators gave the same label."""
        return peer_agreement(self.annotations)

    @cached_property
    def alpha(self) -> dict[str, float]:
        """Krippendorff's alpha of each task where it is defined."""
        return {name: alpha for name, alpha in alpha_by_task(self.annotations).items() if alpha is not None}

    @cached_property
    def ranked(self) -> Ints:
        """The pairs (annotator * tasks + task) that have annotations, most accurate first."""
        counts = self.estimate.annotations.reshape(-1)
        pairs = np.flatnonzero(counts)
        return pairs[np.lexsort((pairs, -counts[pairs], -self.estimate.accuracy.reshape(-1)[pairs]))]

    @cached_property
    def bad_pairs(self) -> list[int]:
        """The pairs (annotator * tasks + task) no better or worse than chance, those with the most labels first."""
        return self.with_most_labels(np.isin(self.verdicts, BAD))

    def with_most_labels(self, chosen: Bools) -> list[int]:
        """The chosen (annotators, tasks) as pairs, those with the most labels first."""
        pairs = np.flatnonzero(chosen)
        counts = self.estimate.annotations.reshape(-1)
        return [int(pair) for pair in pairs[np.argsort(-counts[pairs], kind="stable")]]

    # ---------------------------------------------------------------- names

    @property
    def task_names(self) -> list[str]:
        return [task.name for task in self.annotations.tasks]

    @property
    def several_tasks(self) -> bool:
        return len(self.annotations.tasks) > 1

    def busiest_tasks(self, most: int) -> list[int]:
        """The tasks with the most annotations, in their own order."""
        counts = self.estimate.annotations.sum(axis=0)
        tasks = np.sort(np.argsort(-counts, kind="stable")[:most])
        return [int(task) for task in tasks if counts[task]]

    def label_names(self, task: int) -> list[str]:
        """The labels of a task; places where every item lists its own options."""
        names = self.annotations.tasks[task].labels
        if names is not None:
            return list(names)
        items = self.annotations.item_tasks == task
        return [f"option {place + 1}" for place in range(int(self.annotations.option_counts[items].max(initial=0)))]


def read_run(run: Run | str | Path, against_gold: AgainstGold | None = None) -> RunData:
    """What the report needs of a run, or of a run folder. The model is not read."""
    run = run if isinstance(run, Run) else Run.open(run, verify_model=False)
    try:
        *_, last = (run.folder / layout.LOG).read_text(encoding="utf-8").splitlines()
        finished = datetime.fromisoformat(last.split(" ", 1)[0])
    except (OSError, ValueError):  # the command line wrote no log
        finished = datetime.fromtimestamp((run.folder / MANIFEST).stat().st_mtime, UTC)
    return RunData(
        name=run.folder.resolve().name,
        screens=run.screens,
        log_probs=run.log_probs,
        config=run.config,
        metrics=run.metrics,
        against_gold=against_gold,
        file=str(run.config.get("file") or ""),
        date=_day(finished),
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
    table = annotations if use_gold else annotations.without_gold()
    estimates = estimate(table, gold=gold)
    return RunData(
        name=file.name,
        screens=Screens(table, estimates),
        config={"gold_used": use_gold, "data": {"fingerprint": annotations.fingerprint(gold=use_gold)}},
        metrics={"probabilities": layout.AGREEMENT, "warnings": list(annotations.ledger.warnings)},
        against_gold=None if use_gold else estimate_against_gold(annotations, estimates),
        file=annotations.ledger.file or file.name,
        date=_day(datetime.now(UTC)),
    )


def _quoted(words: Any) -> Any:
    """The same words with quotation marks for the backticks around labels and names."""
    quoted = [re.sub(r"`([^`]*)`", r"“\1”", text) for text in words.reshape(-1)]
    return np.array(quoted, dtype=object).reshape(words.shape)


def _day(moment: datetime) -> str:
    """`17 November 2026`; the environment variable SOURCE_DATE_EPOCH (seconds) is the date of all reports."""
    fixed = os.environ.get("SOURCE_DATE_EPOCH", "")
    moment = datetime.fromtimestamp(int(fixed), UTC) if fixed.isdecimal() else moment
    return f"{moment.day} {moment:%B %Y}"
