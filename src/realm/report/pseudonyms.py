"""Reports without the names of annotators: numbers in place of names, and no name left in what surrounds them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from realm.report.item_lists import Item
from realm.report.run_data import RunData
from realm.runs.changes import Changes

HIDDEN = "(hidden: it holds an annotator's name)"
SHORTEST = 3
"""Names of one or two characters turn up in texts by chance."""


def pseudonymised(runs: Sequence[RunData]) -> list[RunData]:
    """The same runs with numbers for names, the same number for the same name in all of them.

    Numbers follow the ranking of the first run, which the report shows anyway, so they tell nothing else.
    """
    names: dict[str, None] = {}  # in the order of the ranking
    for run in runs:
        n_tasks = len(run.annotations.tasks)
        names |= dict.fromkeys(run.annotations.annotators[pair // n_tasks] for pair in run.ranked.tolist())
        names |= dict.fromkeys(run.annotations.annotators)
    pseudonyms = _numbered(list(names))
    return [_without_names(run, pseudonyms) for run in runs]


def _numbered(names: Sequence[str]) -> dict[str, str]:
    width = len(str(len(names)))
    for word in ("Annotator", "Person", "Pseudonym"):
        pseudonyms = [f"{word} {index:0{width}d}" for index in range(1, len(names) + 1)]
        if set(names).isdisjoint(pseudonyms):
            break
    return dict(zip(names, pseudonyms, strict=True))


def _without_names(run: RunData, pseudonyms: dict[str, str]) -> RunData:
    """The run with pseudonyms, and without any text of its settings and warnings that holds a name."""
    names = "|".join(re.escape(name) for name in sorted(pseudonyms, key=len, reverse=True) if name.strip())
    pattern = re.compile(rf"(?<!\w)(?:{names})(?!\w)" if names else r"(?!)")  # as a word of its own
    texts = {name: _without_matches(run.metrics.get(name, []), pattern) for name in ("warnings", "notes", "findings")}
    metrics = {**run.metrics, **texts}
    config = _without_matches(run.config, pattern)
    for name in {"realm", "versions"} & run.config.keys():  # numbers of packages; somebody called 2 is not in them
        config[name] = run.config[name]
    annotators = tuple(pseudonyms[name] for name in run.annotations.annotators)
    ledger = run.annotations.ledger.copy()
    ledger.warnings = _without_matches(ledger.warnings, pattern)
    ledger.counts = {_without_matches(reason, pattern): count for reason, count in ledger.counts.items()}
    annotations = replace(run.annotations, annotators=annotators, ledger=ledger)
    changes = None if run.changes is None else _renamed(run.changes, pseudonyms, pattern)
    name, file = (_without_matches(text, pattern) for text in (run.name, run.file))
    return replace(run, name=name, file=file, config=config, metrics=metrics, annotations=annotations, changes=changes)


def _renamed(changes: Changes, pseudonyms: dict[str, str], pattern: re.Pattern[str]) -> Changes:
    """What changed since an earlier run, by pseudonyms: who left is listed with the table's annotators too."""
    moved, left = (
        [{**row, "annotator": pseudonyms.get(row["annotator"], HIDDEN)} for row in rows]
        for rows in (changes.moved, changes.left)
    )
    new = [pseudonyms.get(name, HIDDEN) for name in changes.new_annotators]
    return replace(changes, run=_without_matches(changes.run, pattern), new_annotators=new, moved=moved, left=left)


def _without_matches(value: Any, pattern: re.Pattern[str]) -> Any:
    """The value with every text in it that matches left out. Numbers are settings, not names."""
    if isinstance(value, str):
        return HIDDEN if pattern.search(value) else value
    if isinstance(value, dict):
        return {key: _without_matches(inner, pattern) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_matches(inner, pattern) for inner in value]
    return value


def names_in_texts(names: Iterable[str], items: Iterable[Item], texts: Iterable[str] = ()) -> int:
    """How many of the names occur in what is shown of the items, and in other texts, which are shown as they are."""
    texts = "\n".join([*(f"{item.id}\n{item.text}\n{item.context}" for item in items), *texts])
    return sum(len(name) >= SHORTEST and name in texts for name in names)
