"""Reports without the names of annotators: numbers in place of names, and no name left in what surrounds them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from realm.crowd.screens import Screens
from realm.data.corrections import EXCLUDED
from realm.report.items import Item
from realm.report.run_data import RunData

HIDDEN = "(hidden: it holds an annotator's name)"
SHORTEST = 3
"""Names of one or two characters turn up in texts by chance."""


def pseudonymised(data: RunData) -> RunData:
    """The same run with numbers for names, and without any text of its settings, warnings and files that holds a name.

    Numbers follow the ranking, which the report shows anyway, so they tell nothing else. Names are those of the table,
    of annotators who were excluded or have left, and of files of names; they are hidden as words of their own.
    """
    table, n_tasks = data.annotations, len(data.annotations.tasks)
    ranked = dict.fromkeys(table.annotators[pair // n_tasks] for pair in data.ranked.tolist())
    pseudonyms = _numbered([*ranked, *(name for name in table.annotators if name not in ranked)])
    hidden = sorted((name for name in {*pseudonyms, *_others(data)} if name.strip()), key=len, reverse=True)
    names = "|".join(map(re.escape, hidden))
    pattern = re.compile(rf"(?<!\w)(?:{names})(?!\w)" if names else r"(?!)")
    texts = {name: _without_matches(data.metrics.get(name, []), pattern) for name in ("warnings", "notes", "findings")}
    config = _without_matches(data.config, pattern)
    for name in {"realm", "versions"} & data.config.keys():  # numbers of packages; somebody called 2 is not in them
        config[name] = data.config[name]
    ledger = table.ledger.copy()
    ledger.warnings, ledger.counts = _without_matches(ledger.warnings, pattern), {}
    for reason, count in table.ledger.counts.items():
        shown = EXCLUDED if reason.startswith(f"{EXCLUDED}: ") else _without_matches(reason, pattern)
        ledger.counts[shown] = ledger.counts.get(shown, 0) + count
    renamed = replace(table, annotators=tuple(pseudonyms[name] for name in table.annotators), ledger=ledger)
    return replace(
        data,
        name=_without_matches(data.name, pattern),
        file=_without_matches(data.file, pattern),
        config=config,
        metrics={**data.metrics, **texts},
        screens=Screens(renamed, data.estimate),
    )


def _others(data: RunData) -> set[str]:
    """Names that are not in the table: of those who were excluded (a ledger or a run's settings tell) or have left."""
    given = {*data.annotations.corrections.exclude, *map(str, data.config.get("exclude") or ())}
    given |= {reason.removeprefix(f"{EXCLUDED}: ") for reason in data.annotations.ledger.counts if EXCLUDED in reason}
    return given


def _numbered(names: Sequence[str]) -> dict[str, str]:
    width = len(str(len(names)))
    for word in ("Annotator", "Person", "Pseudonym"):
        pseudonyms = [f"{word} {index:0{width}d}" for index in range(1, len(names) + 1)]
        if set(names).isdisjoint(pseudonyms):
            break
    return dict(zip(names, pseudonyms, strict=True))


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
    shown = "\n".join([*(f"{item.id}\n{item.text}\n{item.context}" for item in items), *texts])
    return sum(len(name) >= SHORTEST and name in shown for name in names)
