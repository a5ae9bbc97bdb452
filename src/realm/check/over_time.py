"""What the times of annotations show: findings of the doctor, and a row for each annotator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from realm.crowd.drift import AnnotatorOverTime
from realm.crowd.notes import day, drift_in_words
from realm.data.annotations import Annotations


@dataclass(frozen=True, eq=False)
class OverTime:
    """The annotators over time, in the order of annotators and tasks; empty where no annotation has a time."""

    annotations: Annotations
    rows: list[AnnotatorOverTime]

    def messages(self) -> list[tuple[str, str, str, str]]:
        """(code, annotator, message, remedy) of whatever is beyond chance."""
        messages = []
        for each in self.rows:
            name, where = self._names(each)
            if each.drift is not None and each.drift.flagged:
                message = f"'{name}'{where}: {drift_in_words(each.drift)} (p = {each.drift.p_value:.2g})."
                remedy = "Look at their labels since then, and have some of them labelled again."
                messages.append(("drift", name, message, remedy))
        return messages

    def facts(self) -> list[tuple[str, str]]:
        """A few figures over all annotators."""
        if not self.rows:
            return []
        first, last = min(each.first for each in self.rows), max(each.last for each in self.rows)
        facts = [("labelled", f"{day(first)} to {day(last)}")]
        for name, unit in (("per_hour", "labels per hour"), ("lead_time", "seconds per label")):
            values = np.array([getattr(each, name) for each in self.rows])
            if np.isfinite(values).any():
                low, middle, high = np.nanquantile(values, [0.0, 0.5, 1.0])
                facts.append((unit, f"{low:,.0f} to {high:,.0f} by annotator, median {middle:,.0f}"))
        return facts

    def as_list(self) -> list[dict[str, Any]]:
        """Plain values, for JSON; None for what is not known."""
        return [self._row(each) for each in self.rows]

    def _row(self, each: AnnotatorOverTime) -> dict[str, Any]:
        name, _ = self._names(each)
        drift = each.drift
        return {
            "annotator": name,
            "task": self.annotations.tasks[each.task].name,
            "labels": each.labels,
            "first": day(each.first),
            "last": day(each.last),
            "labels_per_hour": _finite(each.per_hour),
            "lead_time": _finite(each.lead_time),
            "drift": None
            if drift is None
            else {
                "p_value": drift.p_value,
                "beyond_chance": drift.flagged,
                "on": day(drift.time),
                "before": dict(zip(("accuracy", "low", "high"), drift.before, strict=True)),
                "after": dict(zip(("accuracy", "low", "high"), drift.after, strict=True)),
            },
        }

    def _names(self, each: AnnotatorOverTime) -> tuple[str, str]:
        several = len(self.annotations.tasks) > 1
        where = f" in task '{self.annotations.tasks[each.task].name}'" if several else ""
        return self.annotations.annotators[each.annotator], where


def _finite(value: float) -> float | None:
    return round(value, 3) if np.isfinite(value) else None
