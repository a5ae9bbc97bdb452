"""Reports without the names of annotators: numbers in place of names, and no name left in what surrounds them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from realm.crowd.screens import Screens
from realm.data.corrections import EXCLUDED
from realm.report.run_data import RunData

HIDDEN = "(hidden: it holds an annotator's name)"


def pseudonymised(data: RunData) -> RunData:
    """The same run with numbers for names, and without any text of its settings, warnings and files that holds a name.

    Numbers follow the ranking, which the report shows anyway, so they tell nothing else. Names are those of the table
    and of annotators who were excluded; they are hidden as words of their own.
    """
    table, ledger = data.annotations, data.annotations.ledger.copy()
    ranked = dict.fromkeys(table.annotators[pair // len(table.tasks)] for pair in data.ranked.tolist())
    names = list(dict.fromkeys([*ranked, *table.annotators]))
    words = (word for word in ("Annotator", "Person") if not any(name.startswith(word) for name in names))
    word = next(words, "Pseudonym")
    numbers = {name: f"{word} {place:0{len(str(len(names)))}d}" for place, name in enumerate(names, 1)}
    excluded = {reason.removeprefix(f"{EXCLUDED}: ") for reason in ledger.counts if EXCLUDED in reason}
    excluded |= {*table.corrections.exclude, *map(str, data.config.get("exclude") or ())}
    hidden = sorted(filter(str.strip, {*names, *excluded}), key=len, reverse=True)
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, hidden))})(?!\w)") if hidden else re.compile("(?!)")

    def clean(value: Any) -> Any:
        """The value with every text in it that holds a name left out."""
        if isinstance(value, str):
            return HIDDEN if pattern.search(value) else value
        if isinstance(value, dict):
            return {key: clean(inner) for key, inner in value.items()}
        return [clean(inner) for inner in value] if isinstance(value, list | tuple) else value

    config = clean(data.config) | {name: data.config[name] for name in {"realm", "versions"} & data.config.keys()}
    texts = {name: clean(data.metrics.get(name, [])) for name in ("warnings", "notes", "findings")}
    ledger.warnings, counts, ledger.counts = clean(ledger.warnings), ledger.counts, {}
    for reason, count in counts.items():
        shown = EXCLUDED if reason.startswith(f"{EXCLUDED}: ") else clean(reason)
        ledger.counts[shown] = ledger.counts.get(shown, 0) + count
    renamed = replace(table, annotators=tuple(numbers[name] for name in table.annotators), ledger=ledger)
    screens, metrics = Screens(renamed, data.estimate), {**data.metrics, **texts}
    name, file = clean(data.name), clean(data.file)
    return replace(data, name=name, file=file, config=config, metrics=metrics, screens=screens)
