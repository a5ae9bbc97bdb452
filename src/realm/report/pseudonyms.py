"""Reports without the names of annotators: numbers in place of names, and no name left in what surrounds them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from realm.report.item_lists import Item
from realm.report.run_data import RunData, renamed

HIDDEN = "(hidden: it holds an annotator's name)"
SHORTEST = 3
"""Names of one or two characters turn up in texts by chance."""


def pseudonymised(runs: Sequence[RunData]) -> list[RunData]:
    """The same runs with numbers for names, the same number for the same name in all of them.

    Numbers follow the ranking of the first run, which the report shows anyway, so they tell nothing else.
    """
    ordered: dict[str, None] = {}
    for run in runs:
        n_tasks = len(run.annotations.tasks)
        ordered |= dict.fromkeys(run.annotations.annotators[cell // n_tasks] for cell in run.ranked.tolist())
        ordered |= dict.fromkeys(run.annotations.annotators)
    numbers = _numbered(list(ordered))
    return [_without_names(renamed(run, numbers), ordered) for run in runs]


def _numbered(names: Sequence[str]) -> dict[str, str]:
    taken, width = set(names), len(str(len(names)))
    for word in ("Annotator", "Person", "Pseudonym"):
        numbers = [f"{word} {index:0{width}d}" for index in range(1, len(names) + 1)]
        if taken.isdisjoint(numbers):
            break
    return dict(zip(names, numbers, strict=True))


def _without_names(run: RunData, names: Iterable[str]) -> RunData:
    holds = _pattern(names)
    metrics = {**run.metrics, "warnings": [_hidden(text, holds) for text in run.metrics.get("warnings", [])]}
    config = _hidden(run.config, holds)
    for name in {"realm", "versions"} & run.config.keys():  # numbers of packages; somebody called 2 is not in them
        config[name] = run.config[name]
    return replace(run, name=_hidden(run.name, holds), config=config, metrics=metrics)


def _pattern(names: Iterable[str]) -> re.Pattern[str]:
    """Any of the names as a word of its own."""
    listed = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True) if name.strip())
    return re.compile(rf"(?<!\w)(?:{listed})(?!\w)" if listed else r"(?!)")


def _hidden(value: Any, holds: re.Pattern[str]) -> Any:
    """The value with every text in it that holds a name left out. Numbers are settings, not names."""
    if isinstance(value, str):
        return HIDDEN if holds.search(value) else value
    if isinstance(value, dict):
        return {key: _hidden(inner, holds) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(inner, holds) for inner in value]
    return value


def names_in_texts(names: Iterable[str], items: Iterable[Item]) -> int:
    """How many of the names occur in what is shown of the items, which are shown as they are."""
    shown = "\n".join(f"{item.id}\n{item.text}\n{item.context}" for item in items)
    return sum(len(name) >= SHORTEST and name in shown for name in names)
