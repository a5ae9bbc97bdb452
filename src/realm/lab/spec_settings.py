"""The settings a spec may name, checked and converted to their types, so that `1` and `1.0` are the same cell."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

from realm import RealmError
from realm.comparison.cells import all_settings, deciding_settings

OWNED = {
    "method": "write `method` in the grid",
    "seed": "write `seeds` in the grid",
    "model": "write `model` in the grid",
    "num_train_epochs": "grids count optimiser steps: write `steps`",
    "eval_steps": "write `curve: N` beside `settings` to score the test items every N steps",
    "experts": "every configuration is trained on annotations alone",
    "use_gold": "every configuration is trained on annotations alone, but for the method `oracle`",
}
"""Settings of `RealmConfig` that a grid has another key for, or none."""
ALLOWED_TOO = ("cache_gb", "logging_steps")
"""Settings that decide no result but may be given."""
KINDS: dict[type, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float, str), "a number such as 5.0e-5"),  # YAML reads 5e-5 as text
    str: ((str,), "text"),
}
"""For each type of a setting, the types of YAML that are converted to it, and what an error asks for."""
EXPERTISE = "expertise"
"""`scalar` learns one expertise per annotator over all tasks, `matrix` one per task."""
PAPER_SETTING = "paper"
"""`true` gives the settings of `realm.PAPER`, but for those that the spec writes itself."""


@lru_cache(maxsize=1)
def allowed_settings() -> dict[str, type]:
    """The settings a cell may have and the type of each."""
    defaults = {each.name: each.default for each in all_settings()}
    names = sorted(({*deciding_settings()} | set(ALLOWED_TOO)) - set(OWNED))
    kinds = {name: str if defaults[name] is None else type(defaults[name]) for name in names}
    for name in ("learning_rate", "weight_decay", "max_grad_norm", "warmup_steps"):
        if name in kinds:
            kinds[name] = float
    return {**kinds, EXPERTISE: str, PAPER_SETTING: bool}


def words_of(name: str) -> tuple[str, ...]:
    """What a setting that is a number may be instead."""
    return next((tuple(each.metadata["words"]) for each in all_settings() if each.name == name), ())


def check_settings(where: str, settings: Any) -> dict[str, tuple[Any, ...]]:
    """Each setting with its values (one, or a list to try all), converted to its type. `where` begins every error."""
    if settings is None:
        return {}
    if not isinstance(settings, Mapping):
        raise RealmError(f"{where}: must be `name: value` pairs, such as {{learning_rate: 5.0e-5}}, not {settings!r}.")
    checked = {}
    for name, value in settings.items():
        if not isinstance(name, str) or name not in allowed_settings():
            raise RealmError(f"{where}: {_unknown(str(name))}")
        values = value if isinstance(value, list) else [value]
        if not values:
            raise RealmError(f"{where}: {name}: the list is empty; write a value.")
        checked[name] = tuple(dict.fromkeys(_converted(f"{where}: {name}", name, one) for one in values))
    return checked


def _unknown(name: str) -> str:
    if name in OWNED:
        return f"{name} is not a setting of a cell: {OWNED[name]}."
    close = difflib.get_close_matches(name, allowed_settings(), n=1)
    hint = f"Did you mean {close[0]}?" if close else f"There are: {', '.join(allowed_settings())}."
    return f"no such setting: {name}. {hint}"


def _converted(where: str, name: str, value: Any) -> Any:
    kind = allowed_settings()[name]
    if name == EXPERTISE:
        if value not in ("scalar", "matrix"):
            raise RealmError(f"{where}: must be scalar or matrix, not {value!r}.")
        return value
    if value in words_of(name):
        return value
    types, description = KINDS[kind]
    if isinstance(value, types) and (kind is bool or not isinstance(value, bool)):
        with suppress(ValueError):
            return kind(value)
    raise RealmError(f"{where}: must be {description}, not {value!r}.")
