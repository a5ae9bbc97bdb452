"""REALM: fine-tune a language model on labels from annotators of uneven quality, and learn whom to trust."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from realm.errors import other_name

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
    from realm.crowd.aggregation import aggregate
    from realm.crowd.agreement import agreement
    from realm.crowd.drift import over_time
    from realm.crowd.estimate import estimate
    from realm.crowd.estimators import DawidSkene, Mace, MajorityVote, OneCoin
    from realm.data import Annotations, Items, ReadOptions, Task
    from realm.errors import RealmError
    from realm.methods import METHODS
    from realm.runs import Run
    from realm.training import RealmConfig, RealmModel, RealmTrainer
    from realm.training.classifier import RealmClassifier
    from realm.training.loss import AnnotatorLoss
    from realm.training.settings import PAPER

_MODULES = {
    "realm.channels": "Channel CoinChannel ConfusionChannel HabitChannel IdentityChannel UniformChannel ItemScores "
    "Observed",
    "realm.comparison.compare": "compare",
    "realm.comparison.simulation": "simulate",
    "realm.crowd.aggregation": "aggregate",
    "realm.crowd.agreement": "agreement",
    "realm.crowd.drift": "over_time",
    "realm.crowd.estimate": "estimate",
    "realm.crowd.estimators": "DawidSkene Mace MajorityVote OneCoin",
    "realm.data": "Annotations Items ReadOptions Task",
    "realm.errors": "RealmError",
    "realm.methods": "METHODS",
    "realm.runs": "Run",
    "realm.training": "RealmConfig RealmModel RealmTrainer",
    "realm.training.classifier": "RealmClassifier",
    "realm.training.loss": "AnnotatorLoss",
    "realm.training.settings": "PAPER",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [
    "METHODS", "PAPER", "Annotations", "AnnotatorLoss", "Channel", "CoinChannel", "ConfusionChannel", "DawidSkene",
    "HabitChannel", "IdentityChannel", "ItemScores", "Items", "Mace", "MajorityVote", "Observed", "OneCoin",
    "ReadOptions", "RealmClassifier", "RealmConfig", "RealmError", "RealmModel", "RealmTrainer", "Run", "Task",
    "UniformChannel", "__version__", "aggregate", "agreement", "compare", "estimate", "over_time", "simulate",
]  # fmt: skip

_SUBMODULES = ("testing",)
_HINTS = {
    "load": "A finished run is opened with `realm.Run.open(folder)`.",
    "load_dataset": "A table is read with `realm.Annotations.read(path)`, or `Annotations.from_dataset(dataset)`.",
    "Trainer": "It is called `realm.RealmTrainer`.",
    "TrainingArguments": "It is called `realm.RealmConfig`, and takes the same names.",
    "train": "Training is `realm.RealmTrainer(model, annotations, realm.RealmConfig(folder)).train()`.",
    "predict": "A finished run predicts: `realm.Run.open(folder).predict(texts)`.",
}
"""Hints for names that people guess."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import realm` does not import torch."""
    if name in _MODULE_OF:
        return getattr(import_module(_MODULE_OF[name]), name)
    if name in _SUBMODULES:
        return import_module(f"realm.{name}")
    hint = "" if name.startswith("__") else other_name(name, __all__, _HINTS)
    raise AttributeError(f"module 'realm' has no attribute {name!r}{'. ' * bool(hint)}{hint}")


def __dir__() -> list[str]:
    """The public names, imported or not: what a notebook completes."""
    return sorted({*__all__, *_SUBMODULES})
