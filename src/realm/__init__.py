"""REALM: fine-tune a language model on labels from annotators of uneven quality, and learn whom to trust."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from realm.comparison.compare import compare
    from realm.comparison.simulation import simulate
    from realm.data import Annotations, Items, Task
    from realm.errors import RealmError
    from realm.methods import METHODS
    from realm.runs import Run
    from realm.training import RealmConfig, RealmModel, RealmTrainer

_HOME = {
    "Annotations": "realm.data",
    "Items": "realm.data",
    "Task": "realm.data",
    "RealmError": "realm.errors",
    "METHODS": "realm.methods",
    "RealmConfig": "realm.training",
    "RealmModel": "realm.training",
    "RealmTrainer": "realm.training",
    "Run": "realm.runs",
    "compare": "realm.comparison.compare",
    "simulate": "realm.comparison.simulation",
}

__all__ = [
    "METHODS",
    "Annotations",
    "Items",
    "RealmConfig",
    "RealmError",
    "RealmModel",
    "RealmTrainer",
    "Run",
    "Task",
    "__version__",
    "compare",
    "simulate",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for, so that `import realm` does not import torch."""
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'realm' has no attribute {name!r}")
