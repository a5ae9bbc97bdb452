"""REALM: fine-tune a language model on labels from annotators of uneven quality, and learn whom to trust."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from realm.channels import (
        Channel,
        CoinChannel,
        ConfusionChannel,
        HabitChannel,
        IdentityChannel,
        ItemScores,
        Observed,
        UniformChannel,
    )
    from realm.comparison.compare import compare
    from realm.comparison.simulation import simulate
    from realm.crowd.aggregation import DawidSkene, Glad, Mace, MajorityVote, OneCoin, WeightedMajority, aggregate
    from realm.crowd.drift import over_time
    from realm.crowd.estimate import estimate
    from realm.data import Annotations, Items, Task
    from realm.errors import RealmError
    from realm.methods import METHODS
    from realm.runs import Run
    from realm.training import RealmConfig, RealmModel, RealmTrainer
    from realm.training.settings import PAPER

_MODULES = {
    "realm.data": ("Annotations", "Items", "Task"),
    "realm.errors": ("RealmError",),
    "realm.methods": ("METHODS",),
    "realm.channels": (
        "Channel",
        "ItemScores",
        "Observed",
        "IdentityChannel",
        "UniformChannel",
        "HabitChannel",
        "ConfusionChannel",
        "CoinChannel",
    ),
    "realm.training": ("RealmConfig", "RealmModel", "RealmTrainer"),
    "realm.training.settings": ("PAPER",),
    "realm.runs": ("Run",),
    "realm.crowd.aggregation": (
        "aggregate",
        "MajorityVote",
        "WeightedMajority",
        "OneCoin",
        "DawidSkene",
        "Glad",
        "Mace",
    ),
    "realm.crowd.drift": ("over_time",),
    "realm.crowd.estimate": ("estimate",),
    "realm.comparison.compare": ("compare",),
    "realm.comparison.simulation": ("simulate",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "METHODS",
    "PAPER",
    "Annotations",
    "Channel",
    "CoinChannel",
    "ConfusionChannel",
    "DawidSkene",
    "Glad",
    "HabitChannel",
    "IdentityChannel",
    "ItemScores",
    "Items",
    "Mace",
    "MajorityVote",
    "Observed",
    "OneCoin",
    "RealmConfig",
    "RealmError",
    "RealmModel",
    "RealmTrainer",
    "Run",
    "Task",
    "UniformChannel",
    "WeightedMajority",
    "__version__",
    "aggregate",
    "compare",
    "estimate",
    "over_time",
    "simulate",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import realm` does not import torch."""
    if name in _MODULE_OF:
        return getattr(import_module(_MODULE_OF[name]), name)
    raise AttributeError(f"module 'realm' has no attribute {name!r}")
