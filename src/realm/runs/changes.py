"""What changed since the run that another goes on from: `changes.json`, written once and read by the report.

Annotators who have left are kept here, with what is known of them, since the table no longer has labels of theirs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from realm.crowd.engine import Floats
from realm.crowd.estimate import Estimate
from realm.crowd.tables import OptionNames
from realm.data import Annotations
from realm.data.alignment import Difference
from realm.files import read_json
from realm.runs import folder as layout
from realm.schema import parse

if TYPE_CHECKING:
    import pandas as pd

    from realm.runs.run import Run

MOST_FLIPPED = 1000
"""Items whose label has flipped that are kept, the surest first: more than anybody reads."""
TEST_FIGURES = ("accuracy", "macro_f1", "log_loss")
"""The figures on the test table that are set side by side."""
LEFT = "no labels in this table; as estimated before"
_LEFT_NUMBERS = ("expertise", "accuracy", "low", "high")


@dataclass(frozen=True)
class Changes:
    """What changed since an earlier run.

    | field | meaning |
    |---|---|
    | run | the name of the earlier run's folder |
    | new_items, new_annotations, gone_annotations, gone_items | how many came and went |
    | trained_items, replayed_items | how many items were trained on, and how many of them were not changed |
    | new_annotators, new_tasks, new_labels | names; the labels by task |
    | moved | annotators whose accuracy lies outside the interval that it had, or had it outside the one it has |
    | left | annotators without labels in the table, with what is known of them |
    | flipped | items of both runs whose most probable label is another, the surest first; `flipped_items` counts all, \
of `compared_items` |
    | test | figures of the earlier model and of this one on the test table; None without one |
    """

    run: str
    new_items: int
    new_annotations: int
    gone_annotations: int
    gone_items: int
    trained_items: int
    replayed_items: int
    compared_items: int
    flipped_items: int
    new_annotators: list[str] = field(default_factory=list)
    new_tasks: list[str] = field(default_factory=list)
    new_labels: dict[str, list[str]] = field(default_factory=dict)
    moved: list[dict[str, Any]] = field(default_factory=list)
    left: list[dict[str, Any]] = field(default_factory=list)
    flipped: list[dict[str, Any]] = field(default_factory=list)
    test: dict[str, Any] | None = None

    def sentences(self) -> list[str]:
        """What changed, in a few sentences for a person."""
        told = [
            f"since {self.run}: {self.new_annotations:,} new annotations and {self.new_items:,} new items; the model "
            f"was trained on {self.trained_items:,} items, {self.replayed_items:,} of them again."
        ]
        if self.gone_annotations or self.gone_items:
            told.append(f"{self.gone_annotations:,} annotations and {self.gone_items:,} items are gone.")
        for what, names in (("annotators", self.new_annotators), ("tasks", self.new_tasks)):
            if names:
                told.append(f"new {what}: {_listed(names)}.")
        for task, labels in self.new_labels.items():
            told.append(f"new labels of {task}: {_listed(labels)}.")
        if self.left:
            told.append(
                f"without labels now, kept as estimated before: {_listed([row['annotator'] for row in self.left])}."
            )
        moved = [f"{row['annotator']} {row['before']:.0%} to {row['now']:.0%}" for row in self.moved]
        told.append(
            f"accuracy moved: {_listed(moved)}." if moved else "no annotator's accuracy moved beyond its interval."
        )
        told.append(f"{self.flipped_items:,} of the {self.compared_items:,} items of both have another cleaned label.")
        if self.test is not None:
            pairs = [(name, self.test["before"].get(name), self.test["now"].get(name)) for name in TEST_FIGURES]
            figures = [f"{name} {a:.3f} to {b:.3f}" for name, a, b in pairs if a is not None and b is not None]
            told.append(f"on the same test: {', '.join(figures)}.")
        return told


def _listed(names: list[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def find_changes(
    earlier: Run,
    annotations: Annotations,
    estimate: Estimate,
    since: Difference,
    *,
    trained_items: int,
    test_before: dict[str, Any] | None = None,
    test: dict[str, Any] | None = None,
) -> Changes:
    """What changed between an earlier run and an estimate on `annotations`, which are aligned with the run's."""
    before = earlier.estimate
    old_annotators, old_tasks = before.accuracy.shape
    flipped, compared, total = _flipped(earlier.annotations, before.posterior, annotations, estimate.posterior, since)
    new_labels = {
        task.name: list((task.labels or ())[len(was.labels or ()) :])
        for was, task in zip(earlier.tasks, annotations.tasks, strict=False)
        if len(task.labels or ()) > len(was.labels or ())
    }
    changed = int(since.changed.sum())
    return Changes(
        run=earlier.folder.resolve().name,
        new_items=int((since.earlier_item < 0).sum()),
        new_annotations=int(since.new.sum()),
        gone_annotations=since.gone,
        gone_items=since.items_gone,
        trained_items=trained_items,
        replayed_items=max(trained_items - changed, 0),
        compared_items=compared,
        flipped_items=total,
        new_annotators=list(annotations.annotators[old_annotators:]),
        new_tasks=[task.name for task in annotations.tasks[old_tasks:]],
        new_labels=new_labels,
        moved=_moved(annotations, before, estimate),
        left=_left(earlier, annotations, estimate),
        flipped=flipped,
        test=None if test is None or test_before is None else {"before": _figures(test_before), "now": _figures(test)},
    )


def _figures(test: dict[str, Any]) -> dict[str, Any]:
    return {name: test.get(name) for name in TEST_FIGURES}


def _moved(annotations: Annotations, before: Estimate, now: Estimate) -> list[dict[str, Any]]:
    annotators, tasks = before.accuracy.shape
    later = {name: getattr(now, name)[:annotators, :tasks] for name in ("accuracy", "low", "high")}
    with np.errstate(invalid="ignore"):
        outside = (later["accuracy"] < before.low) | (later["accuracy"] > before.high)
        outside |= (before.accuracy < later["low"]) | (before.accuracy > later["high"])
        change = np.abs(later["accuracy"] - before.accuracy)
    pairs = [pair for pair in zip(*np.nonzero(outside), strict=True) if np.isfinite(change[pair])]
    return [
        {
            "annotator": annotations.annotators[pair[0]],
            "task": annotations.tasks[pair[1]].name,
            "before": float(before.accuracy[pair]),
            "now": float(later["accuracy"][pair]),
            "low": float(later["low"][pair]),
            "high": float(later["high"][pair]),
        }
        for pair in sorted(pairs, key=lambda pair: -change[pair])
    ]


def _left(earlier: Run, annotations: Annotations, estimate: Estimate) -> list[dict[str, Any]]:
    """Whoever has no label in the table: as the earlier run knew them, who may have left before it."""
    counts = {name: int(row.sum()) for name, row in zip(annotations.annotators, estimate.annotations, strict=True)}
    rows = earlier.expertise
    names = ["annotator", "task", "verdict", *_LEFT_NUMBERS]
    records: list[dict[str, Any]] = rows[names].to_dict("records")  # type: ignore[assignment]
    return [row for row in records if not counts.get(row["annotator"], 0)]


def _flipped(
    old: Annotations, old_posterior: Floats, new: Annotations, posterior: Floats, since: Difference
) -> tuple[list[dict[str, Any]], int, int]:
    """Items of both whose most probable label is another: the surest; how many items are in both; how many flipped."""
    both = np.flatnonzero((since.earlier_item >= 0) & (new.annotations_per_item > 0))
    match = since.earlier_item[both]
    seen = old.annotations_per_item[match] > 0
    both, match = both[seen], match[seen]
    before, now = old_posterior[match].argmax(axis=1), posterior[both].argmax(axis=1)
    rows = np.flatnonzero(before != now)
    sure = posterior[both[rows], now[rows]]
    first = rows[np.argsort(-sure, kind="stable")[:MOST_FLIPPED]]
    names = OptionNames(new)
    ids = new.item_ids.take(both[first]).to_pylist()
    tasks = [new.tasks[task].name for task in new.item_tasks[both[first]]]
    columns = zip(
        ids,
        tasks,
        names(both[first], before[first]),
        names(both[first], now[first]),
        posterior[both[first], now[first]],
        strict=True,
    )
    flips = [
        {"item": item, "task": task, "before": str(was), "now": str(now_), "confidence": float(confidence)}
        for item, task, was, now_, confidence in columns
    ]
    return flips, len(both), len(rows)


def read_changes(folder: Path) -> Changes | None:
    """`changes.json`; None where the run goes on from none."""
    path = folder / layout.CHANGES
    if not path.exists():
        return None
    return parse(path, read_json(path), Changes)


def with_left(table: pd.DataFrame, changes: Changes | None, annotations: Annotations) -> pd.DataFrame:
    """An expertise table with the annotators who have left at its end: 0 annotations, and a note that says so."""
    import pandas as pd

    if changes is None or not changes.left:
        return table
    left = pd.DataFrame(changes.left).assign(annotations=0, notes=LEFT, habit="")
    if annotations.groups is not None:
        left["group"] = left["annotator"].map(dict(zip(annotations.annotators, annotations.groups, strict=True)))
    for name in table.columns.difference(left.columns):
        left[name] = table[name].iloc[0] if name in ("scale", "probabilities") and len(table) else np.nan
    return pd.concat([table, left[table.columns]], ignore_index=True)
