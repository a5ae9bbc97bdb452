"""Training: a scorer and a channel, batches of annotations, and the run folder."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from realm.training.config import RealmConfig
    from realm.training.model import RealmModel
    from realm.training.trainer import RealmTrainer

_HOME = {
    "RealmConfig": "realm.training.config",
    "RealmModel": "realm.training.model",
    "RealmTrainer": "realm.training.trainer",
}

__all__ = ["RealmConfig", "RealmModel", "RealmTrainer"]


def __getattr__(name: str) -> Any:
    """Import a name when it is first asked for: reading a run folder needs no torch."""
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'realm.training' has no attribute {name!r}")
