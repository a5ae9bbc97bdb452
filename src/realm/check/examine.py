"""The examination of a table: its figures, the findings with their remedies, and which methods apply."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

import numpy as np

from realm.check.agreement import Group, alpha_by_task, connected_groups
from realm.check.findings import (
    Finding,
    annotator_findings,
    gold_label_findings,
    group_findings,
    label_findings,
    labelled_and_single,
    text_findings,
)
from realm.crowd.drift import AnnotatorOverTime
from realm.crowd.model import AnnotatorModel
from realm.crowd.screens import Independence, Screens
from realm.crowd.verdicts import VERDICTS
from realm.data.annotations import UNKNOWN, Annotations
from realm.data.items import Items
from realm.data.ledger import Ledger
from realm.methods import METHODS

SINGLE_SHARE = 0.1
"""Below a tenth, items with one annotation are too few for a caution."""
FLIPPED = (
    "two labels, and some annotators may be wrong more often than right: the labels swapped explain the data as well, "
    "and only gold, a prior or the model's own opinion can tell"
)
Verdict = Literal["yes", "with care", "no"]


@dataclass(frozen=True)
class Applicability:
    """Whether a method can be trained on a table, and why."""

    name: str
    applies: Verdict
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
        independent = worth and {
            "annotations_per_item": worth.annotations_per_item,
            "worth": worth.effective,
            "exponent": worth.exponent,
            "text": f"{worth}.",
        }
        return {
            "usable": True,
            "format": self.ledger.format,
            **self.summary,
            "label_balance": self.label_counts,
            "krippendorff_alpha": self.alpha,
            "independent_annotators": independent,
            "connected_groups": [asdict(group) for group in self.groups],
            **({"over_time": self._over_time()} if self.over_time else {}),
            **self.ledger.as_dict(),
            "findings": [asdict(finding) for finding in self.findings],
            "methods": [asdict(method) for method in self.methods],
        }

    def label_map(self) -> dict[str, str]:
        """For labels that look alike, the spelling that was given most often in place of each other one."""
        counts: Counter[str] = Counter()
        for by_label in self.label_counts.values():
            counts.update(by_label)
        groups = [finding.about for finding in self.findings if finding.code == "look-alike labels"]
        return {
            label: best for group in groups for label in group if label != (best := max(group, key=counts.__getitem__))
        }

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

    def _over_time(self) -> list[dict[str, Any]]:
        figures = [{**each._asdict(), "stretches": each.stretches.tolist()} for each in self.over_time]
        return [
            {name: f"{value:%Y-%m-%d}" if isinstance(value, datetime) else value for name, value in each.items()}
            for each in figures
        ]


def examine(
    annotations: Annotations, test: Annotations | Items | None = None, screens: Screens | None = None
) -> Examination:
    """Examine a table, and a test table against it. Built with `keep_rows`, the order of labelling is known too.

    `test` has gold in its own words, read without the table's tasks; of `Items` only the texts are compared. `screens`
    are those of the same table, where they are at hand.
    """
    alpha, groups, counts = alpha_by_task(annotations), connected_groups(annotations), label_counts(annotations)
    if screens is None:
        model = AnnotatorModel(annotations).fit()
        screens = Screens(annotations, model.estimate(), model)
    independence = screens.independence
    findings = [Finding("reading", "warning", message, "") for message in annotations.ledger.warnings]
    findings += annotator_findings(screens)
    findings += group_findings(annotations, groups)
    findings += label_findings(annotations, alpha, counts)
    findings += text_findings(annotations, test.items if isinstance(test, Annotations) else test)
    if isinstance(test, Annotations):
        findings += gold_label_findings(annotations, test, counts)
    if independence is not None and independence.exponent < 1:
        remedy = "They err together: a vote among them is less sure than it looks, and more of the same add little."
        findings.append(Finding("annotators err together", "note", f"{independence}.", remedy))
    below_chance = bool((screens.verdicts == VERDICTS.index("worse than chance")).any())
    methods = applicable_methods(annotations, groups, below_chance)
    summary = annotations.describe()
    return Examination(annotations, summary, counts, alpha, independence, groups, findings, methods, screens.times)


def label_counts(annotations: Annotations) -> dict[str, dict[str, int]]:
    """How often each label was given, by task; by its place in the list where items have their own options."""
    task_of = annotations.item_tasks[annotations.item]
    by_task = {}
    for index, task in enumerate(annotations.tasks):
        labels = annotations.label[task_of == index]
        counts = np.bincount(labels, minlength=1 if task.labels is None else len(task.labels)).tolist()
        names = task.labels or [f"option {place + 1}" for place in range(len(counts))]
        by_task[task.name] = dict(zip(names, counts, strict=True))
    return by_task


# ---------------------------------------------------------------- methods


def applicable_methods(annotations: Annotations, groups: list[Group], below_chance: bool) -> list[Applicability]:
    """A verdict for each method of `METHODS`, in its order."""
    labelled, single = labelled_and_single(annotations)
    n_gold = 0 if annotations.gold is None else int((annotations.gold != UNKNOWN).sum())
    is_binary = bool(annotations.n_items) and int(annotations.option_counts.min()) == 2
    flipped = [FLIPPED] if below_chance and is_binary else []
    verdicts: list[Applicability] = []
    for method in METHODS.values():
        cares: list[str] = []
        impossible, why = "", "trains on every annotation as it is"
        if method.needs_gold:
            impossible, why = "" if n_gold else "there is no gold", "gold is known for every item"
            if n_gold < annotations.n_items:
                cares = [f"gold is known for {n_gold:,} of {annotations.n_items:,} items"]
        elif method.aggregator is not None:
            impossible = "undefined: no item has two annotations" if labelled == single else ""
            why = "items have several annotations"
            if single > SINGLE_SHARE * labelled:
                cares.append(f"{single / labelled:.0%} of the items have one annotation, which is taken as it is")
            if method.aggregator != "majority":  # a vote compares no accuracies and cannot be flipped as a whole
                if len(groups) > 1:
                    cares.append(f"{len(groups)} separate groups of annotators: their accuracies cannot be compared")
                cares += flipped
        elif method.learns_expertise:
            why = "learns whom to trust while it trains"
            if annotations.n_annotators == 1:
                cares = ["one annotator: expertise cannot be told from how hard the items are"]
            else:
                if labelled == single:
                    cares.append("one annotation per item: expertise is relative, only its ratios are known")
                elif len(groups) > 1:
                    cares.append("separate groups of annotators are compared through the model alone")
                cares += flipped
        applies: Verdict = "no" if impossible else "with care" if cares else "yes"
        verdicts.append(Applicability(method.name, applies, impossible or "; ".join(cares) or why))
    return verdicts
