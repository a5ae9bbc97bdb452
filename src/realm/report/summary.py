"""The first screen: whether the labels can be used, the bad news by name, and the few figures to take away.

Figures and states are computed here; the sentences around them stand in the template `summary.html`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from realm.crowd.label_figures import wilson
from realm.crowd.verdicts import VERDICTS
from realm.report import charts
from realm.report.escaping import clipped
from realm.report.html import Figure
from realm.report.run_data import CONFIDENT, UNCLEAR, RunData
from realm.report.svg import percent
from realm.training.findings import few_steps

USABLE, PARTLY = 0.90, 0.80
"""Expected shares of right labels, one item in twenty that may mislead everybody allowed for: from the first on, one
label in twenty is wrong beyond these, which models are trained on without harm."""
TENTATIVE = 0.667
"""Krippendorff's lowest alpha for tentative conclusions."""
HALF = 0.5
"""An annotator with a lower accuracy is more often wrong than right; so is a model on a label with a lower recall."""
A_FEW = 0.05
"""Up to this share of the labels, guessers are a caution, above it an alarm: one label in twenty."""
NAMED = 8
"""Most annotators that a sentence names: two lines."""
LONGEST_NAME, REMARK = 64, 120
"""Most characters of a name, and of a remark on an annotator (a line)."""
BALANCES, LABELS = 6, 12
"""Most tasks whose label balance is drawn (three rows of two charts), and most labels of each; the rarest are added."""
MODEL_FAILS = ("not clearly better than the base rate", "gives the same answer")
"""How a run's findings say that its model has learned nothing (`realm.training.findings`)."""


@dataclass(frozen=True)
class Alarm:
    """Bad news of a kind that the template puts into words: whom it is about, each with a remark, and its figures."""

    kind: str
    state: str
    names: list[tuple[str, str]] = field(default_factory=list)
    total: int = 0
    share: float = 0.0
    texts: tuple[str, ...] = ()


class ExpectedRight(NamedTuple):
    """Shares of labels that are expected to be right: cleaned ones, the majority's, as given, those that are clear."""

    cleaned: float
    majority: float
    given: float
    clear: float


class WorstLabel(NamedTuple):
    """The label of which the model finds the smallest share of the test items."""

    label: str
    correct: int
    items: int

    @property
    def is_missed(self) -> bool:
        """Whether most of its items are missed."""
        return self.correct < HALF * self.items


@dataclass(frozen=True)
class ModelTile:
    """How the model did on the test items, and what is wrong with it; `test` is empty where it failed before any."""

    state: str
    test: dict[str, Any]
    interval: tuple[float, float] = (0.0, 1.0)
    worst: WorstLabel | None = None
    is_useless: bool = False


@dataclass(frozen=True, eq=False)
class Summary:
    """The figures of the first screen, each computed once."""

    data: RunData

    # ---------------------------------------------------------------- labels

    @cached_property
    def expected(self) -> ExpectedRight:
        """By the posterior of each item's true label; votes that tie are decided at random."""
        data, table, posterior = self.data, self.data.annotations, self.data.estimate.posterior
        labelled = table.annotations_per_item > 0
        majority = (_majority(data.votes[labelled]) * posterior[labelled]).sum(axis=1)
        return ExpectedRight(
            cleaned=_mean(data.confidence),
            majority=_mean(majority),
            given=_mean(posterior[table.item, table.label]),
            clear=_mean(data.confidence[data.confidence >= UNCLEAR]),
        )

    @cached_property
    def state(self) -> str:
        """Whether the cleaned labels can be used, as far as they can be judged: what is shown is what decides."""
        share = round(self.expected.cleaned, 2)
        if self.data.estimate.relative:
            return "care"
        return "good" if share >= USABLE else "care" if share >= PARTLY else "bad"

    @cached_property
    def unclear(self) -> int:
        return int((self.data.confidence < UNCLEAR).sum())

    @cached_property
    def confident(self) -> float:
        return float((self.data.confidence >= CONFIDENT).mean()) if self.data.annotations.n_items else 0.0

    # ---------------------------------------------------------------- annotators

    def verdict_counts(self, tasks: Sequence[int] | slice = slice(None)) -> tuple[list[int], list[int]]:
        """How many annotators (pairs, over all tasks) have each verdict, and their annotations."""
        kinds, n = self.data.verdicts[:, tasks], self.data.estimate.annotations[:, tasks]
        masks = [kinds == kind for kind in range(len(VERDICTS))]
        return [int(mask.sum()) for mask in masks], [int(n[mask].sum()) for mask in masks]

    @cached_property
    def counts(self) -> tuple[list[int], list[int]]:
        return self.verdict_counts()

    @cached_property
    def guessing(self) -> tuple[int, float]:
        """How many are at or below chance level, and their share of all annotations."""
        annotators, annotations = self.counts
        return sum(annotators[3:]), sum(annotations[3:]) / max(sum(annotations), 1)

    @cached_property
    def weak_pairs(self) -> list[int]:
        """Those known to be above chance, and more often wrong than right; not where values are relative."""
        estimate, middling = self.data.estimate, self.data.verdicts == VERDICTS.index("middling")
        accuracy = np.nan_to_num(estimate.accuracy, nan=1.0)
        return self.data.with_most_labels(middling & (accuracy < HALF) & ~estimate.relative_tasks)

    @cached_property
    def guessing_state(self) -> str:
        """Good only where nobody guesses and nobody is known to be less than reliable."""
        guessing, share = self.guessing
        if guessing:
            return "bad" if share > A_FEW else "care"
        return "care" if self.weak_pairs else "plain" if self.counts[0][VERDICTS.index("middling")] else "good"

    # ---------------------------------------------------------------- the model

    @cached_property
    def model(self) -> ModelTile | None:
        """The model on the test items: good only where it is clearly ahead of the base rate and misses no label."""
        if not self.data.has_model:
            return None
        failed = any(words in text for text in self.data.metrics.get("findings", []) for words in MODEL_FAILS)
        test = self.data.metrics.get("test") or {}
        if (accuracy := test.get("accuracy")) is None:
            return ModelTile("bad", {}, is_useless=True) if failed else None
        n, rate, macro_f1 = int(test.get("items", 0)), test.get("base_rate"), test.get("macro_f1")
        low, high = wilson(accuracy, n)
        is_useless = failed or (rate is not None and accuracy <= rate)
        clearly = rate is None or accuracy > rate + 2 * np.sqrt(max(rate * (1 - rate), 0) / max(n, 1))
        worst = worst_label(test)
        misses = worst is not None and worst.is_missed
        is_good = clearly and not misses and (macro_f1 is None or macro_f1 >= HALF) and not self.undertrained
        state = "bad" if is_useless else "good" if is_good else "care"
        return ModelTile(state, test, (float(low), float(high)), worst, is_useless)

    @cached_property
    def undertrained(self) -> str:
        """What is said of a training that was short; empty where it was not."""
        steps = self.data.metrics.get("steps")
        return (few_steps(int(steps)) or "") if self.data.has_model and steps is not None else ""

    # ---------------------------------------------------------------- bad news

    @cached_property
    def alarms(self) -> list[Alarm]:
        """What must be known before any figure is used, the worst first."""
        data, alarms = self.data, [*self._of_model(), *self._of_verdicts(), *self._of_patterns()]
        low = {clipped(name, 40): f"{alpha:.2f}" for name, alpha in data.alpha.items() if alpha < TENTATIVE}
        if low:
            where = ", ".join(list(low)[:NAMED]) if data.several_tasks else ""
            alarms.append(Alarm("agreement", "care", texts=(where, ", ".join(low.values()))))
        return sorted(alarms, key=lambda alarm: ("bad", "care").index(alarm.state))

    def _of_model(self) -> list[Alarm]:
        """What a run has found of its model, what follows from it ("so ...") with it, and whether it was too short."""
        alarms: list[Alarm] = []
        for text in self.data.metrics.get("findings", []):
            sentence = f"{text[:1].upper()}{text[1:]}"
            if alarms and text.startswith("so "):
                before = alarms.pop()
                alarms.append(Alarm(before.kind, before.state, texts=(f"{before.texts[0]} {sentence}",)))
                continue
            fails = any(words in text for words in MODEL_FAILS)
            alarms.append(Alarm("useless" if fails else "noted", "bad" if fails else "care", texts=(sentence,)))
        if text := self.undertrained:
            alarms.append(Alarm("undertrained", "care", texts=(f"{text[:1].upper()}{text[1:]}",)))
        worst = None if self.model is None or self.model.is_useless else self.model.worst
        if worst is not None and worst.is_missed:
            texts = (clipped(worst.label, 40), f"{worst.correct:,}", f"{worst.items:,}")
            alarms.append(Alarm("missed", "care", texts=texts))
        return alarms

    def _of_verdicts(self) -> list[Alarm]:
        kinds, alarms = self.data.verdicts.reshape(-1), []
        pairs_of = {name: [p for p in self.data.bad_pairs if VERDICTS[kinds[p]] == name] for name in VERDICTS[3:]}
        for kind, pairs in (pairs_of | {"weak": self.weak_pairs}).items():
            if pairs:
                share = self._share(pairs)
                state = "bad" if share > A_FEW and kind != "weak" else "care"
                alarms.append(Alarm(kind, state, self._named(pairs), len(pairs), share))
        return alarms

    def _of_patterns(self) -> list[Alarm]:
        """Annotators whose accuracy fell, and those whose labels show a pattern, unless they are named already."""
        data = self.data
        fallen = sorted((each for each in data.screens.times if each.changed and each.fell), key=lambda e: e.p_value)
        names = [
            (clipped(each.annotator, LONGEST_NAME), f"{each.task}: " * data.several_tasks + each.change)
            for each in fallen
        ]
        alarms = [Alarm("fallen", "care", names, len(names))] if names else []
        patterns: dict[int, str] = {}  # one line for each annotator: copies are noted in every task
        for pair, text in enumerate(data.notes.reshape(-1)):
            if text and pair not in data.bad_pairs and not text.startswith("accuracy "):
                patterns.setdefault(pair // len(data.annotations.tasks), str(text))
        if patterns:
            names = [(self._name(annotator), text) for annotator, text in patterns.items()]
            alarms.append(Alarm("pattern", "care", names, len(names)))
        return alarms

    def _named(self, pairs: Sequence[int]) -> list[tuple[str, str]]:
        """Each annotator of these pairs with a remark: the share of all labels, the tasks, what their labels show."""
        n_tasks = len(self.data.annotations.tasks)
        own: dict[int, list[int]] = {}
        for pair in pairs:
            own.setdefault(pair // n_tasks, []).append(pair)
        names = []
        for annotator, theirs in own.items():
            share = self._share(theirs)
            parts = [percent(share) if share >= 0.01 else f"{share:.1%}"]
            if self.data.several_tasks:
                parts.append(f"in {', '.join(self.data.task_names[pair % n_tasks] for pair in theirs)}")
            parts += dict.fromkeys(str(note) for pair in theirs if (note := self.data.notes.reshape(-1)[pair]))
            names.append((self._name(annotator), clipped(", ".join(parts), REMARK)))
        return names

    def _name(self, annotator: int) -> str:
        return clipped(self.data.annotations.annotators[annotator], LONGEST_NAME)

    def _share(self, pairs: Sequence[int]) -> float:
        counts = self.data.estimate.annotations.reshape(-1)
        return float(counts[list(pairs)].sum() / max(int(counts.sum()), 1))

    # ---------------------------------------------------------------- pictures

    def verdict_chart(self) -> Markup:
        annotators, annotations = self.counts
        rows = [("annotators", annotators), ("their annotations", annotations)]
        if self.data.several_tasks:
            tasks = self.data.busiest_tasks(BALANCES)
            rows = [(self.data.task_names[task], self.verdict_counts([task])[0]) for task in tasks]
            rows.append(("all annotations", annotations))
        return charts.verdict_bars(rows)

    def confidence_chart(self) -> Markup:
        """How many labels are how confident, in bins of ten percent, the most confident first."""
        edges = np.linspace(0, 1, 11)
        counts, _ = np.histogram(np.clip(self.data.confidence, 0, 1), edges)
        first = int(np.flatnonzero(counts)[0]) if counts.any() else 0
        names = [f"{percent(low)} to {percent(high)}" for low, high in pairwise(edges)][first:][::-1]
        shares = (counts / max(int(counts.sum()), 1))[first:][::-1]
        return charts.bars("Confidence of the cleaned labels", names, [("", shares.tolist())])

    @cached_property
    def balances(self) -> list[Figure]:
        """Shares of the labels of each task: among the annotations, by majority (ties divided), and cleaned."""
        figures = []
        for task, name in enumerate(self.data.task_names):
            labels, shares = label_balance(self.data, task)
            if labels:
                series = [(each, shares[each]) for each in shares if each != "majority" or not self.data.one_label_each]
                title = "Label balance" + (f", {name}" if self.data.several_tasks else "")
                figures.append(Figure(charts.bars(title, labels, series), title, "figures are of the cleaned labels"))
        return figures


def worst_label(test: dict[str, Any]) -> WorstLabel | None:
    """The label with the lowest recall, over all tasks with a label set; None without figures of labels."""
    parts = [part for part in (test, *test.get("tasks", {}).values()) if not part.get("by_position")]
    rows = [row for part in parts for row in part.get("labels") or [] if row["support"] and row["recall"] is not None]
    if not rows:
        return None
    worst = min(rows, key=lambda row: (row["recall"], -row["support"]))
    return WorstLabel(str(worst["label"]), round(worst["recall"] * worst["support"]), int(worst["support"]))


def label_balance(data: RunData, task: int) -> tuple[list[str], dict[str, list[float]]]:
    """The labels of a task and their shares `as given`, by `majority` and `cleaned`; no labels where nothing was given.

    Where every item lists its own options their places are counted instead.
    """
    items, labels = np.flatnonzero(data.annotations.item_tasks == task), data.label_names(task)
    votes = data.votes[items, : len(labels)]
    votes = votes[votes.sum(axis=1) > 0]
    if not len(votes):
        return [], {}
    cleaned = np.bincount(data.labels[items], minlength=len(labels))
    totals = {"as given": votes.sum(axis=0), "majority": _majority(votes).sum(axis=0), "cleaned": cleaned}
    shares = {name: counts / counts.sum() for name, counts in totals.items()}
    if len(labels) > LABELS:
        frequent = np.sort(np.argsort(-shares["cleaned"], kind="stable")[: LABELS - 1])
        rest = np.setdiff1d(np.arange(len(labels)), frequent)
        labels = [labels[k] for k in frequent] + [f"{len(rest)} others"]
        shares = {name: np.append(share[frequent], share[rest].sum()) for name, share in shares.items()}
    return labels, {name: share.tolist() for name, share in shares.items()}


def _mean(probabilities: Any) -> float:
    """The mean of what there may be none of."""
    return float(probabilities.mean()) if len(probabilities) else 0.0


def _majority(votes: Any) -> Any:
    """The share of each option in the majority vote of an item, ties divided. (items, Kmax)"""
    top = votes == votes.max(axis=1, keepdims=True, initial=0)
    return top / np.maximum(top.sum(axis=1, keepdims=True), 1)
