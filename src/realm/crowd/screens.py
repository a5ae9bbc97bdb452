"""All that is asked of the annotators of a table, each question once: `check`, tables and reports read it here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from realm.crowd.copies import CopyPair
from realm.crowd.drift import AnnotatorOverTime, over_time
from realm.crowd.engine import Ints
from realm.crowd.estimate import Estimate
from realm.crowd.model import AnnotatorModel
from realm.crowd.suspects import ConfusedLabel, Suspect, confused_labels, find_patterns, find_suspects
from realm.crowd.verdicts import Others, expected_interval, judged_by_others, share_read, verdicts
from realm.data.annotations import Annotations


@dataclass(frozen=True)
class Independence:
    """How many independent annotators an item's annotations are worth: 1 + tau (w - 1), copies being one of the w."""

    exponent: float
    annotations_per_item: float
    witnesses: float

    @property
    def effective(self) -> float:
        return 1 + self.exponent * (self.witnesses - 1)

    @property
    def err_together(self) -> bool:
        """Whether annotators make the same mistakes more often than independent ones would by chance."""
        return self.exponent < 1

    def __str__(self) -> str:
        n, worth = f"{self.annotations_per_item:.3g}", f"{self.effective:.2g}"
        return f"{n} annotators per item are worth about {worth} independent {'one' if worth == '1' else 'ones'}"


@dataclass(frozen=True, eq=False)
class Screens:
    """The questions about annotators, answered from one estimate of the table and computed when they are first asked.

    `model` is one of the same table, fitted or not, where it is at hand: who copies is found by it.
    """

    annotations: Annotations
    estimate: Estimate
    model: AnnotatorModel | None = None

    @cached_property
    def copies(self) -> list[CopyPair]:
        """Who copies from whom; nobody where every annotation counts for itself."""
        own = 1.0 if self.annotations.weight is None else self.annotations.weight
        if (self.estimate.weight == own).all():
            return []
        return (self.model or AnnotatorModel(self.annotations)).copies

    @cached_property
    def others(self) -> Others:
        """What the others of each annotation's item say of it."""
        return judged_by_others(self.annotations, self.estimate)

    @cached_property
    def verdicts(self) -> Ints:
        """Index into `VERDICTS`; -1 without annotations. Shape (annotators, tasks)"""
        return verdicts(self.annotations, self.estimate)

    @cached_property
    def patterns(self) -> list[Suspect]:
        """Who always gives one answer, or answers in turn."""
        return find_patterns(self.annotations, self.others)

    @cached_property
    def suspects(self) -> list[Suspect]:
        """Whose labels carry little information: patterns, and those close to chance or below it."""
        _, high = expected_interval(self.annotations, self.estimate)
        return find_suspects(self.annotations, self.estimate, self.patterns, share_read(self.estimate, high))

    @cached_property
    def confused(self) -> list[ConfusedLabel]:
        """Who takes one label for another."""
        return confused_labels(self.annotations, self.estimate, self.others)

    @cached_property
    def times(self) -> list[AnnotatorOverTime]:
        """Every annotator over time; empty where annotations have no times."""
        return [] if self.annotations.created_at is None else over_time(self.annotations, self.others.right)

    @cached_property
    def independence(self) -> Independence | None:
        """How many independent annotators an item's are worth; None where no item has two."""
        table, several = self.annotations, self.annotations.annotations_per_item > 1
        if not several.any():
            return None
        weight = self.estimate.annotations.sum(axis=0)
        exponent = float(self.estimate.exponent @ weight / max(weight.sum(), 1))
        shares = self.estimate.weight / (1.0 if table.weight is None else table.weight)
        witnesses = np.bincount(table.item, shares, minlength=table.n_items)[several].mean()
        return Independence(exponent, float(table.annotations_per_item[several].mean()), float(witnesses))
