"""Methods side by side over seeds: the experiment engine, significance and simulation.

(The package is not called `compare`, because `realm.compare` is the function.)

| module | what it is |
|---|---|
| `cells` | one training, described completely; its id; the data it trains on |
| `training` | training one cell, and what is recorded of it |
| `results` | the SQLite file of finished cells |
| `engines`, `grid` | where cells are trained, and training those that are missing |
| `significance` | paired tests and counts of wins |
| `simulation` | simulated annotators of known accuracy |
| `compare` | the engine over one table of annotations |
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from realm.comparison.cells import Cell, CellTables, combinations, is_read
    from realm.comparison.engines import ENGINES
    from realm.comparison.grid import CellFinished, run_cells
    from realm.comparison.results import Results
    from realm.comparison.significance import LEVEL, Contrast, Summary, Wins, contrast, count_wins
    from realm.comparison.simulation import (
        POOLS,
        Noise,
        Regime,
        implied_expertise,
        read_pool,
        realised_accuracies,
        task_matrix,
    )
    from realm.comparison.training import CellResult

_MODULES = {
    "cells": ("Cell", "CellTables", "combinations", "is_read"),
    "engines": ("ENGINES",),
    "grid": ("CellFinished", "run_cells"),
    "results": ("Results",),
    "significance": ("LEVEL", "Contrast", "Summary", "Wins", "contrast", "count_wins"),
    "simulation": ("POOLS", "Noise", "Regime", "implied_expertise", "read_pool", "realised_accuracies", "task_matrix"),
    "training": ("CellResult",),
}

__all__ = [
    "ENGINES",
    "LEVEL",
    "POOLS",
    "Cell",
    "CellFinished",
    "CellResult",
    "CellTables",
    "Contrast",
    "Noise",
    "Regime",
    "Results",
    "Summary",
    "Wins",
    "combinations",
    "contrast",
    "count_wins",
    "implied_expertise",
    "is_read",
    "read_pool",
    "realised_accuracies",
    "run_cells",
    "task_matrix",
]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, so that simulating annotators does not import torch."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"realm.comparison.{module}"), name)
    raise AttributeError(f"module 'realm.comparison' has no attribute {name!r}")
