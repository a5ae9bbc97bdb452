"""Training: a scorer and a channel, batches of annotations, and the run folder."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from realm.training.config import RealmConfig
    from realm.training.model import RealmModel
    from realm.training.trainer import RealmTrainer

_MODULE_OF = {
    "RealmConfig": "realm.training.config",
    "RealmModel": "realm.training.model",
    "RealmTrainer": "realm.training.trainer",
}

__all__ = ["RealmConfig", "RealmModel", "RealmTrainer"]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: the settings need no torch."""
    if name in _MODULE_OF:
        return getattr(import_module(_MODULE_OF[name]), name)
    raise AttributeError(f"module 'realm.training' has no attribute {name!r}")
