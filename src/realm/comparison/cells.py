"""`Cell`: one training of a comparison, described completely, and the data it trains on.

A finished cell is found again by its `id`, a hash of everything that decides its result: model, data, method, seed,
the *effective* settings, every default of `RealmConfig` resolved, and how results are measured. A changed default is
therefore another cell, and old results are never mixed with new ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from realm.data import Annotations
from realm.files import without_home
from realm.methods import METHODS

if TYPE_CHECKING:
    from realm.channels import Channel

MEASURED = 2
"""Of what is recorded of a training, counted up where the same training would be recorded otherwise. 2: every method is
calibrated; before, methods without a closed form were not."""


@dataclass(frozen=True)
class CellTables:
    """What a cell trains on and is scored on."""

    annotations: Annotations
    test: Annotations  # items with gold, of the same tasks
    accuracies: npt.NDArray[np.float64] | None = None  # of simulated annotators, (annotators, tasks)
    instruction: str | None = None  # in front of every prompt, unless the settings have one
    gold_apart: Annotations | None = None  # items that are in no other table; the model is fitted to their gold first
    channel: type[Channel] | None = None  # a class of channels of one's own, in place of the one of the settings


class CellData(Protocol):
    """Where the tables of a cell come from: picklable, since it is sent to worker processes.

    `origin` names the data; all finished cells of one origin in a folder must have the same `fingerprint`, a hash of
    its content. `describe` gives plain values that tell it from other data of the same origin.
    """

    @property
    def origin(self) -> str: ...

    def describe(self) -> dict[str, Any]: ...

    def fingerprint(self) -> str: ...

    def load(self, method: str, seed: int) -> CellTables: ...


@dataclass(frozen=True, eq=False)
class Cell:
    """One training. Two cells that compute the same have the same `id` and are equal."""

    model: str  # a folder, a named model or a Hugging Face id
    data: CellData
    method: str
    seed: int  # of the annotations, the batches and the model
    steps: int = -1  # of the optimiser; -1 where `num_train_epochs` decides
    settings: Mapping[str, Any] = field(default_factory=dict)  # of `RealmConfig`; without those the method ignores
    curve: int | None = None  # the test items are scored every n steps

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", without_home(self.model))
        settings = {name: value for name, value in self.settings.items() if is_read(name, self.method)}
        object.__setattr__(self, "settings", settings)

    def fields(self) -> dict[str, Any]:
        """What distinguishes the cell but for its settings, flat: model, description of the data, method, seed ..."""
        names = ("method", "seed", "steps", "curve")
        return {"model": self.model, **self.data.describe(), **{name: getattr(self, name) for name in names}}

    @cached_property
    def content(self) -> str:
        """Everything that decides the result, as JSON with sorted keys."""
        settings = effective_settings(self.method, self.seed, self.steps, self.settings)
        content = {**self.fields(), "settings": settings, "measured": MEASURED}
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
        words = [self.model.rstrip("/").rsplit("/", 1)[-1], str(self.data), self.method, f"seed {self.seed}"]
        return " ".join(words + ([f"{self.steps} steps"] if self.steps > 0 else []))


def cell_config(cell: Cell, folder: Path, instruction: str | None = None) -> Any:
    """The `RealmConfig` of a cell's training. A setting of the cell wins over the `instruction` of its data."""
    import torch

    from realm.training import RealmConfig

    arguments = {"instruction": instruction, **_arguments(cell.method, cell.steps, cell.settings)}
    if cell.curve:
        arguments |= {"eval_strategy": "steps", "eval_steps": cell.curve, "eval_on_start": True}
    use_cpu = not (torch.cuda.is_available() or torch.backends.mps.is_available())
    return RealmConfig(str(folder), **arguments, seed=cell.seed, use_cpu=use_cpu)


def effective_settings(method: str, seed: int, steps: int, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Every setting that decides the result of a training and that the method reads, defaults resolved, and the row of
    its method."""
    resolved = _resolved(method, steps, json.dumps(dict(settings), sort_keys=True))
    # `RealmConfig` also takes what `TrainingArguments` has and no setting of ours names.
    return {**settings, **resolved, "seed": seed, "method": asdict(METHODS[method])}


@lru_cache(maxsize=1024)  # a grid has thousands of cells and a few dozen distinct settings
def _resolved(method: str, steps: int, settings: str) -> dict[str, Any]:
    from realm.training import RealmConfig

    config = RealmConfig("unused", **_arguments(method, steps, json.loads(settings)), use_cpu=True)
    return {name: value for name, value in config.settings().items() if is_read(name, method)}


def _arguments(method: str, steps: int, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `RealmConfig`: those of the settings, and a training that writes and shows nothing."""
    quiet = {"write_run": False, "save_strategy": "no", "logging_steps": 10, "disable_tqdm": True}
    return {**settings, **({"max_steps": steps} if steps >= 0 else {}), "method": method, **quiet}


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
