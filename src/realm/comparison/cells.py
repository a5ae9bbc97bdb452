"""`Cell`: one training of a comparison, described completely, and the data it trains on.

A finished cell is found again by its `id`, a hash of everything that decides its result: model, data, method, seed,
the *effective* settings, every default of `RealmConfig` resolved, and how results are measured. A changed default is
therefore another cell, and old results are never mixed with new ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from realm.data import Annotations
from realm.files import without_home
from realm.methods import METHODS
from realm.training.settings import Settings, recorded_values

if TYPE_CHECKING:
    from realm.channels import Channel

LIKELIHOOD = "held_out_likelihood"
"""The metric of a trial: what settings are chosen by."""
MEASURED = 2
"""Of what is recorded of a training, counted up where the same training would be recorded otherwise. 2: every method is
calibrated; before, methods without a closed form were not."""
TRAJECTORY_POINTS = 50
"""About how many points of the expertise during training are recorded: enough for a smooth line in a plot."""
LOGGING_STEPS = 10
"""Between such points where epochs decide the number of steps."""


@dataclass(frozen=True)
class CellTables:
    """What a cell trains on and is scored on.

    | field | meaning |
    |---|---|
    | annotations | to train on |
    | test | items with gold, of the same tasks |
    | accuracies | of simulated annotators, as configured, (annotators, tasks); None for real ones |
    | instruction | the sentence in front of every prompt, unless the settings have one |
    | gold_apart | gold items, none of them in `annotations`, that the model is fitted to first; None for no such fit |
    | channel | a class of channels of one's own, in place of the one that the settings name |
    """

    annotations: Annotations
    test: Annotations
    accuracies: npt.NDArray[np.float64] | None = None
    instruction: str | None = None
    gold_apart: Annotations | None = None
    channel: type[Channel] | None = None


class CellData(Protocol):
    """Where the tables of a cell come from. It is sent to worker processes, so it must be picklable."""

    @property
    def origin(self) -> str:
        """The name of the data. All finished cells of one origin in a folder must have the same `fingerprint`."""

    def describe(self) -> dict[str, Any]:
        """Plain values that tell this data from other data of the same origin; they become columns of the results."""

    def fingerprint(self) -> str:
        """A hash of the content."""

    def load(self, method: str, seed: int) -> CellTables:
        """The tables that a method trains on with this seed."""


@dataclass(frozen=True, eq=False)
class Cell:
    """One training. Two cells that compute the same have the same `id` and are equal.

    | field | meaning |
    |---|---|
    | model | a folder, a named model or a Hugging Face id |
    | data | where its tables come from |
    | method | what is trained on |
    | seed | of the annotations, the batches and the model |
    | steps | optimiser steps; -1 where `num_train_epochs` decides |
    | settings | of `RealmConfig`, as far as they are not the defaults |
    | choose | settings to be chosen by trials, each with the values to try; of a trial, the value it tries |
    | curve | score the test items every n steps; None for not at all |
    | trial | trains without a tenth of the items and is scored by the likelihood of their annotations |
    | shared_tasks | learn one expertise per annotator over all tasks |

    Settings that the method does not read are dropped, so that it is trained once for all their values.
    """

    model: str
    data: CellData
    method: str
    seed: int
    steps: int = -1
    settings: Mapping[str, Any] = field(default_factory=dict)
    choose: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    curve: int | None = None
    trial: bool = False
    shared_tasks: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", without_home(self.model))
        object.__setattr__(self, "shared_tasks", self.shared_tasks and METHODS[self.method].learns_expertise)
        for name in ("settings", "choose"):
            values = {key: value for key, value in getattr(self, name).items() if is_read(key, self.method)}
            object.__setattr__(self, name, values)

    def fields(self) -> dict[str, Any]:
        """What distinguishes the cell but for its settings, flat: model, description of the data, method, seed ..."""
        names = ("method", "seed", "steps", "curve", "trial", "shared_tasks")
        return {"model": self.model, **self.data.describe(), **{name: getattr(self, name) for name in names}}

    @cached_property
    def content(self) -> str:
        """Everything that decides the result, as JSON with sorted keys."""
        effective = effective_settings(self.method, self.seed, self.steps, self.settings)
        settings = {name: value for name, value in effective.items() if name not in self.choose}
        content = {**self.fields(), "settings": settings, "choose": dict(self.choose), "measured": MEASURED}
        return json.dumps(content, sort_keys=True, ensure_ascii=False, default=str)

    @cached_property
    def id(self) -> str:
        """A hash of the content."""
        return hashlib.blake2b(self.content.encode(), digest_size=8).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cell) and self.content == other.content

    def __hash__(self) -> int:
        return hash(self.content)

    def __str__(self) -> str:
        words = ["trial:"] if self.trial else []
        words += [self.model.rstrip("/").rsplit("/", 1)[-1], str(self.data), self.method, f"seed {self.seed}"]
        words += [f"{self.steps} steps"] if self.steps > 0 else []
        words += [f"{name} {values[0]}" for name, values in self.choose.items()] if self.trial else []
        return " ".join(words)

    def trials(self) -> list[Cell]:
        """The cells whose scores choose this one's settings: seed 0, every combination of the values to try."""
        if self.trial or not self.choose:
            return []
        first = replace(self, seed=0, curve=None, trial=True)
        return [
            replace(first, choose={name: (value,) for name, value in values.items()})
            for values in combinations(self.choose)
        ]

    def with_settings(self, selected: Mapping[str, Any]) -> Cell:
        """The cell as it is trained, with the settings that its trials selected."""
        return replace(self, settings={**self.settings, **selected}, choose={})


def combinations(axes: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every combination of one value for each name, the last name varying fastest."""
    for values in product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


# -------------------------------------------------------------------- settings


def deciding_settings() -> dict[str, Any]:
    """The settings that decide a result, with their defaults."""
    return recorded_values(Settings())


def cell_config(cell: Cell, folder: Path, instruction: str | None = None) -> Any:
    """The `RealmConfig` of a cell's training. A setting of the cell wins over the `instruction` of its data."""
    from realm.training import RealmConfig

    arguments = {"instruction": instruction, **_arguments(cell.method, cell.steps, cell.settings)}
    if cell.curve:
        arguments |= {"eval_strategy": "steps", "eval_steps": cell.curve, "eval_on_start": True}
    return RealmConfig(str(folder), **arguments, seed=cell.seed, use_cpu=not _has_accelerator())


def effective_settings(method: str, seed: int, steps: int, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Every setting that decides the result of a training, defaults resolved, and the row of its method.

    Settings that the method does not read are left out.
    """
    resolved = _resolved(method, steps, json.dumps(dict(settings), sort_keys=True))
    # `RealmConfig` also takes what `TrainingArguments` has and no setting of ours names.
    return {**settings, **resolved, "seed": seed, "method": asdict(METHODS[method])}


@lru_cache(maxsize=1024)  # a grid has thousands of cells and a few dozen distinct settings
def _resolved(method: str, steps: int, settings: str) -> dict[str, Any]:
    from realm.training import RealmConfig

    config = RealmConfig("unused", **_arguments(method, steps, json.loads(settings)), use_cpu=True)
    resolved = {**config.settings(), "logging_steps": config.logging_steps}
    return {name: value for name, value in resolved.items() if is_read(name, method)}


def _arguments(method: str, steps: int, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `RealmConfig`: those of the settings, and a training that writes and shows nothing."""
    budget = {"max_steps": steps, "logging_steps": max(steps // TRAJECTORY_POINTS, 1)} if steps >= 0 else {}
    quiet = {"write_run": False, "save_strategy": "no", "disable_tqdm": True}
    return {"logging_steps": LOGGING_STEPS, **budget, **settings, "method": method, **quiet}


def is_read(setting: str, method: str) -> bool:
    """Whether a method reads a setting: a fixed channel or objective, or none to learn, leaves some unread."""
    row = METHODS[method]
    fixed = {"channel": row.channel, "expertise_start": row.channel, "objective": row.objective}
    if setting in fixed:
        return fixed[setting] is None
    if setting == "expertise_update" and row.update is not None:
        return False
    if setting in ("expertise_learning_rate", "expertise_optimizer") and row.update == "em":
        return False
    return row.learns_expertise or not (setting.startswith("expertise") or setting == "experts")


def _has_accelerator() -> bool:
    import torch

    return torch.cuda.is_available() or torch.backends.mps.is_available()
