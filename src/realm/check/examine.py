"""The examination of a table: its figures, the findings with their remedies, and which methods apply."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

import numpy as np

from realm.check import findings as find
from realm.check.findings import Finding
from realm.check.groups import Group, connected_groups
from realm.crowd.agreement import alpha_by_task
from realm.crowd.drift import AnnotatorOverTime
from realm.crowd.model import AnnotatorModel
from realm.crowd.screens import Independence, Screens
from realm.data.annotations import UNKNOWN, Annotations
from realm.data.items import Items
from realm.data.ledger import Ledger
from realm.methods import METHODS

SINGLE_SHARE = 0.1
"""Below a tenth, items with one annotation are too few for a caution."""


class Applicability(NamedTuple):
    """Whether a method can be trained on a table, and why."""

    name: str
    applies: Literal["yes", "with care", "no"]
    why: str


@dataclass(frozen=True)
class Examination:
    """What `realm check` finds in one table. `label_counts` and `alpha` are by task; alpha is None where undefined."""

    annotations: Annotations
    summary: dict[str, Any]
    label_counts: dict[str, dict[str, int]]
    alpha: dict[str, float | None]
    independence: Independence | None
    groups: list[Group]
    findings: list[Finding]
    methods: list[Applicability]
    over_time: list[AnnotatorOverTime]

    @property
    def ledger(self) -> Ledger:
        return self.annotations.ledger

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        worth = self.independence
        facts = {
            "usable": True,
            "format": self.ledger.format,
            **self.summary,
            "label_balance": self.label_counts,
            "krippendorff_alpha": self.alpha,
            "independent_annotators": worth and {**worth._asdict(), "text": f"{worth}."},
            "connected_groups": [group._asdict() for group in self.groups],
            **self.ledger.as_dict(),
            "findings": [finding._asdict() for finding in self.findings],
            "methods": [method._asdict() for method in self.methods],
        }
        if self.over_time:
            figures = [{**each._asdict(), "stretches": each.stretches.tolist()} for each in self.over_time]
            for row in figures:
                row |= {name: f"{day:%Y-%m-%d}" for name, day in row.items() if isinstance(day, datetime)}
            facts["over_time"] = figures
        return facts

    def time_facts(self) -> list[tuple[str, str]]:
        """A few figures over all annotators; empty where no annotation has a time."""
        rows = self.over_time
        if not rows:
            return []
        first, last = min(each.first for each in rows), max(each.last for each in rows)
        facts = [("labelled", f"{first:%Y-%m-%d} to {last:%Y-%m-%d}")]
        for name, unit in (("labels_per_hour", "labels per hour"), ("lead_time", "seconds per label")):
            values = np.array([getattr(each, name) for each in rows])
            if np.isfinite(values).any():
                low, middle, high = np.nanquantile(values, [0.0, 0.5, 1.0])
                facts.append((unit, f"{low:,.0f} to {high:,.0f} by annotator, median {middle:,.0f}"))
        return facts


def examine(
    annotations: Annotations, test: Annotations | Items | None = None, screens: Screens | None = None
) -> Examination:
    """Examine a table, and a test table against it.

    `test` has gold in its own words, read without the table's tasks; of `Items` only the texts are compared. `screens`
    are those of the same table, where they are at hand.
    """
    alpha, groups, counts = alpha_by_task(annotations), connected_groups(annotations), _label_counts(annotations)
    if screens is None:
        model = AnnotatorModel(annotations).fit()
        screens = Screens(annotations, model.estimate(), model)
    findings = [Finding("reading", "warning", message, "") for message in annotations.ledger.warnings]
    findings += find.annotator_findings(screens)
    findings += find.group_findings(annotations, groups)
    findings += find.label_findings(annotations, alpha, counts)
    findings += find.text_findings(annotations, test.items if isinstance(test, Annotations) else test)
    if isinstance(test, Annotations):
        findings += find.gold_label_findings(annotations, test)
    worth = screens.independence
    if worth is not None and worth.exponent < 1:
        remedy = "They err together: a vote among them is less sure than it looks, and more of the same add little."
        findings.append(Finding("annotators err together", "note", f"{worth}.", remedy))
    return Examination(
        annotations=annotations,
        summary=annotations.describe(),
        label_counts=counts,
        alpha=alpha,
        independence=worth,
        groups=groups,
        findings=findings,
        methods=applicable_methods(annotations),
        over_time=screens.times,
    )


def _label_counts(annotations: Annotations) -> dict[str, dict[str, int]]:
    """How often each label was given, by task; by its place in the list where items have their own options."""
    task_of = annotations.item_tasks[annotations.item]
    by_task = {}
    for index, task in enumerate(annotations.tasks):
        labels = annotations.label[task_of == index]
        counts = np.bincount(labels, minlength=1 if task.labels is None else len(task.labels)).tolist()
        names = task.labels or [f"option {place + 1}" for place in range(len(counts))]
        by_task[task.name] = dict(zip(names, counts, strict=True))
    return by_task


def applicable_methods(annotations: Annotations) -> list[Applicability]:
    """A verdict for each method of `METHODS`, in its order."""
    labelled, single = find.labelled_and_single(annotations)
    n_gold = 0 if annotations.gold is None else int((annotations.gold != UNKNOWN).sum())
    verdicts = []
    for method in METHODS.values():
        applies: Literal["yes", "with care", "no"] = "yes"
        why = "trains on every annotation as it is"
        if method.needs_gold:
            why = "gold is known for every item"
            if n_gold == 0:
                applies, why = "no", "there is no gold"
            elif n_gold < annotations.n_items:
                applies, why = "with care", f"gold is known for {n_gold:,} of {annotations.n_items:,} items"
        elif method.aggregator is not None:
            why = "items have several"
            if labelled == single:
                applies, why = "no", "undefined: no item has two annotations"
            elif single > SINGLE_SHARE * labelled:
                share = f"{single / labelled:.0%} of the items"
                applies, why = "with care", f"{share} have one annotation, which is taken as it is"
        elif method.learns_expertise:
            why = "learns whom to trust while it trains"
            if annotations.n_annotators < 2:
                applies, why = "with care", "one annotator: expertise cannot be told from difficulty"
            elif labelled == single:
                applies, why = "with care", "one annotation per item: only ratios of expertise are known"
        verdicts.append(Applicability(method.name, applies, why))
    return verdicts
