"""The settings a spec may name, checked and converted to their types, so that `1` and `1.0` are the same cell."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import lru_cache
from typing import Any

from realm import RealmConfig, RealmError

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
EXPERTISE = "expertise"
"""`scalar` learns one expertise per annotator over all tasks, `matrix` one per task."""


@lru_cache(maxsize=1)
def known_settings() -> dict[str, type]:
    """The settings a cell may have and the type of each."""
    deciding = set(RealmConfig("unused", use_cpu=True).settings())
    defaults = {f.name: f.default for f in fields(RealmConfig) if f.default is not MISSING}
    names = sorted((deciding | set(ALLOWED_TOO)) & set(defaults) - set(OWNED))
    kinds = {name: str if defaults[name] is None else type(defaults[name]) for name in names}
    for name in ("learning_rate", "weight_decay", "max_grad_norm", "warmup_steps"):
        if name in kinds:
            kinds[name] = float
    return {**kinds, EXPERTISE: str}


def check_settings(where: str, settings: Any) -> dict[str, tuple[Any, ...]]:
    """Each setting with its values (one, or a list to try all), converted to its type. `where` begins every error."""
    if settings is None:
        return {}
    if not isinstance(settings, Mapping):
        raise RealmError(f"{where}: must be `name: value` pairs, such as {{learning_rate: 5.0e-5}}, not {settings!r}.")
    checked = {}
    for name, value in settings.items():
        if not isinstance(name, str) or name not in known_settings():
            raise RealmError(f"{where}: {_unknown(str(name))}")
        values = value if isinstance(value, list) else [value]
        if not values:
            raise RealmError(f"{where}: {name}: the list is empty; write a value.")
        checked[name] = tuple(dict.fromkeys(_converted(f"{where}: {name}", name, one) for one in values))
    return checked


def _unknown(name: str) -> str:
    if name in OWNED:
        return f"{name} is not a setting of a cell: {OWNED[name]}."
    close = difflib.get_close_matches(name, known_settings(), n=1)
    hint = f"Did you mean {close[0]}?" if close else f"There are: {', '.join(known_settings())}."
    return f"no such setting: {name}. {hint}"


def _converted(where: str, name: str, value: Any) -> Any:
    kind = known_settings()[name]
    if name == EXPERTISE:
        if value not in ("scalar", "matrix"):
            raise RealmError(f"{where}: must be scalar or matrix, not {value!r}.")
        return value
    if kind is bool and isinstance(value, bool):
        return value
    if kind is str and isinstance(value, str):
        return value
    if kind is float and isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            return float(value)  # YAML reads 5e-5 as text
        except ValueError:
            pass
    if kind is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    words = {bool: "true or false", int: "a whole number", float: "a number such as 5.0e-5", str: "text"}
    raise RealmError(f"{where}: must be {words[kind]}, not {value!r}.")
