"""The constants of the default that a user cannot set, and how to measure it under other values of them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

SEVENTH = 50**-0.5
FIFTYFOLD = (SEVENTH, 1.0, 1 / SEVENTH)
"""A fifty-fold range around a constant's value."""


@dataclass(frozen=True)
class Knob:
    """A number (or a tuple of numbers) of a module, and the factors to multiply it with."""

    module: str
    constant: str
    factors: tuple[float, ...] = FIFTYFOLD

    @property
    def name(self) -> str:
        return f"{self.module}.{self.constant}"


KNOBS: tuple[Knob, ...] = (
    Knob("realm.crowd.pooling", "MOST_LABELS"),
    Knob("realm.crowd.pooling", "STRENGTHS"),
    Knob("realm.training.channel", "UPDATES_PER_EPOCH"),
    Knob("realm.crowd.calibration", "SOFTEST"),
)
"""The constants that the default rests on: the strength of the pool (of expertise, of habits and rows), how often the
channel is fitted, the highest temperature."""
STARTS = (float(np.log(SEVENTH)), 0.0, -float(np.log(SEVENTH)))
"""Where omega starts: the odds of expertise over a fifty-fold range."""


@contextmanager
def scaled(knob: Knob, factor: float) -> Iterator[None]:
    """Multiply a constant in its module and in every module that has imported it by name.

    A default argument that was bound to it when its function was defined is not reached: such a constant is no knob.
    """
    value = getattr(importlib.import_module(knob.module), knob.constant)
    changed = tuple(factor * part for part in value) if isinstance(value, tuple) else factor * value
    places = [
        module
        for name, module in list(sys.modules.items())
        if name.split(".")[0] == "realm" and getattr(module, "__dict__", {}).get(knob.constant) is value
    ]
    _set(places, knob.constant, changed)
    try:
        yield
    finally:
        _set(places, knob.constant, value)


def _set(modules: list[Any], constant: str, value: Any) -> None:
    for module in modules:
        setattr(module, constant, value)
