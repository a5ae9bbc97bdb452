"""Backbone model and tokenizer in, log P(option given prompt) over an item's options out."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from realm.scorers.base import Scorer
    from realm.scorers.loading import build_scorer, load_scorer, scorer_kind

_HOME = {"Scorer": "base", "build_scorer": "loading", "load_scorer": "loading", "scorer_kind": "loading"}

__all__ = ["Scorer", "build_scorer", "load_scorer", "scorer_kind"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for, so that the model store is reached without importing torch."""
    if name in _HOME:
        return getattr(import_module(f"realm.scorers.{_HOME[name]}"), name)
    raise AttributeError(f"module 'realm.scorers' has no attribute {name!r}")
