"""`Cell`: one training of a grid, named by what it computes and by nothing else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from itertools import product
from typing import Any

JOINED = "+"
"""Stands between benchmarks that are trained on jointly, as several tasks."""


@dataclass(frozen=True, eq=False)
class Cell:
    """What one training is to compute. Two cells with the same content have the same `id`, whatever spec they are of.

    | field | meaning |
    |---|---|
    | model | a folder, a named model or a Hugging Face id |
    | benchmark | its name, or one task of it (`cebab/food`); several joined by `+` are trained on as several tasks |
    | noise | of simulated annotators; None for the benchmark's own annotations |
    | pool | accuracies of simulated annotators (`D1`, `graded:5`), or of the benchmark's own `all` or `contrast:20` |
    | regime | `sparse` or `shared` |
    | method | what is trained on |
    | seed | of the annotators, the batches and the model |
    | steps | optimiser steps |
    | items, test_items | how many training and test items, of each benchmark; None for all |
    | settings | settings of `RealmConfig`, and `expertise: scalar` for one number per annotator over all tasks |
    | choose | settings to be chosen by trials, each with the values to try; of a trial, the value it tries |
    | curve | score the test items every n steps; None for not at all |
    | trial | trains without a tenth of the items and is scored by the likelihood of their annotations |

    `oracle` reads neither noise nor regime, and the pool only of a benchmark's own annotators, whose items it trains
    on: what it does not read is None. Methods that learn no expertise carry no settings of it. So such cells are run
    once, however many configurations share them.
    """

    model: str
    benchmark: str
    noise: str | None
    pool: str | None
    regime: str | None
    method: str
    seed: int
    steps: int
    items: int | None = None
    test_items: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    choose: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    curve: int | None = None
    trial: bool = False

    def __post_init__(self) -> None:
        if self.method == "oracle":
            for name in ("noise", "regime") if self.noise is None else ("noise", "pool", "regime"):
                object.__setattr__(self, name, None)
        if self.method != "realm":
            for name in ("settings", "choose"):
                kept = {key: value for key, value in getattr(self, name).items() if not key.startswith("expertise")}
                object.__setattr__(self, name, kept)

    @cached_property
    def content(self) -> str:
        """The cell as JSON with sorted keys; what is not set is left out, so that a new field changes no old id."""
        said = {k: v for k, v in asdict(self).items() if v is not None and v is not False and v != {}}
        return json.dumps(said, sort_keys=True, ensure_ascii=False)

    @property
    def id(self) -> str:
        """A hash of the content."""
        return hashlib.blake2b(self.content.encode(), digest_size=8).hexdigest()

    @classmethod
    def read(cls, content: str) -> Cell:
        """The cell that `content` was made from."""
        said = json.loads(content)
        said["choose"] = {name: tuple(values) for name, values in said.get("choose", {}).items()}
        optional = {"noise": None, "pool": None, "regime": None}
        return cls(**{**optional, **{k: v for k, v in said.items() if k in _NAMES}})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cell) and self.content == other.content

    def __hash__(self) -> int:
        return hash(self.content)

    def __str__(self) -> str:
        settings = [f"{name} {values[0]}" for name, values in self.choose.items()] if self.trial else []
        words = [self.model.rstrip("/").rsplit("/", 1)[-1], self.benchmark, self.noise, self.pool, self.regime]
        words += [self.method, f"seed {self.seed}", f"{self.steps} steps", *settings]
        return ("trial: " if self.trial else "") + " ".join(word for word in words if word)

    @property
    def benchmarks(self) -> list[str]:
        return self.benchmark.split(JOINED)

    @property
    def kinship(self) -> tuple[str, ...]:
        """Cells that agree in it train the same model on the same items and share what is cached of them."""
        return (self.model, self.benchmark, str(self.items))

    # ---------------------------------------------------------------- trials

    def trials(self) -> list[Cell]:
        """The cells whose scores choose this one's settings: seed 0, every combination of the values to try."""
        if self.trial or not self.choose:
            return []
        bare = replace(self, seed=0, curve=None, test_items=None, trial=True)
        return [
            replace(bare, choose={name: (value,) for name, value in tried.items()})
            for tried in combinations(self.choose)
        ]

    def with_chosen(self, chosen: Mapping[str, Any]) -> Cell:
        """The cell as it is trained, once its settings are chosen."""
        return replace(self, settings={**self.settings, **chosen}, choose={})


_NAMES = {f.name for f in fields(Cell)}


def combinations(axes: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every choice of one value for each name, the last name moving fastest."""
    for values in product(*axes.values()):
        yield dict(zip(axes, values, strict=True))
