"""`results.json` of a comparison: what it must hold, and the one reader of it.

It has no manifest beside it, so that whatever is in it is checked here: a page is drawn of what `realm compare` wrote,
or refused with the name of the place that cannot be so. Results of an earlier version have accuracies alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from realm.errors import RealmError
from realm.files import read_json

RESULTS = "results.json"


def read_results(folder: Path) -> dict[str, Any]:
    """What `results.json` of a finished comparison holds: a record per method and per training, and the ranking."""
    path = folder / RESULTS
    if not path.is_file():
        raise RealmError(f"{folder} holds no {RESULTS}: it is not the folder of a finished `realm compare`.")
    summary: dict[str, Any] = read_json(path)
    check_results(path, summary)
    return summary


def check_results(path: Path, summary: Any) -> None:
    """Refuse what no finished comparison holds."""
    if problem := _contradiction(summary):
        raise RealmError(f"{path}: {problem}. It is damaged, or not what `realm compare` writes; run that again.")


def _contradiction(summary: Mapping[str, Any]) -> str | None:
    """What cannot be together; None where all agrees."""
    entries = {entry["method"]: entry for entry in summary["methods"]}
    if not entries or len(entries) < len(summary["methods"]):
        return "`methods` is empty, or names a method twice"
    if {training["method"] for training in summary["trainings"]} != set(entries):
        return "`trainings` are not those of `methods`"
    for entry in entries.values():
        if entry.get("interval_items") is not None and (
            len(entry["interval_items"]) != 2 or "realm_minus_this" not in entry
        ):
            return f"`interval_items` of {entry['method']} is no interval of a difference"
        for task in entry.get("labels", ()):
            sizes = [] if task["confusion"] is None else [len(row) for row in task["confusion"]]
            if task["confusion"] is not None and sizes != [len(task["labels"])] * len(task["labels"]):
                return f"`confusion` of {entry['method']} has not a row and a column for every label"
    return _ranking_contradiction(summary["ranking"], entries) if summary.get("ranking") else None


def _ranking_contradiction(ranking: Mapping[str, Any], entries: Mapping[str, Mapping[str, Any]]) -> str | None:
    if sorted(ranking["order"]) != sorted(entries):
        return "`ranking.order` is not an order of the methods"
    if not {ranking["leader"], ranking["reference"]} <= set(entries) or ranking["best"] not in (
        None,
        ranking["leader"],
    ):
        return "`ranking` names a leader, a reference or a best method that is not among them"
    for name, entry in entries.items():
        if "labels" not in entry or not {ranking["by"], "accuracy"} <= set(entry.get("figures", ())):
            return f"{name} lacks its labels, or the figures that are ranked by"
    tasks = {name: [task["task"] for task in entry["labels"]] for name, entry in entries.items()}
    if len({tuple(names) for names in tasks.values()}) > 1:
        return "the methods have labels of different tasks"
    for each in (*ranking["contrasts"], *ranking["label_contrasts"]):
        names = {each["first"], each["second"]}
        if not names <= set(entries) or len(names) < 2:
            return "a contrast is not between two of the methods"
        if (each["low"] is None) != (each["high"] is None) or (each["low"] is not None and each["low"] > each["high"]):
            return "the interval of a contrast has one end, or ends below its beginning"
        if "task" not in each and any(each["figure"] not in entries[name]["figures"] for name in names):
            return f"a contrast is about {each['figure']}, which a method lacks"
    return None
