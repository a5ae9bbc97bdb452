"""The paper's data sets, from the Hugging Face hub, from their published files or from the plain form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from realm import Annotations, RealmError
from realm.lab.datasets import detox, questions
from realm.lab.datasets.base import Benchmark
from realm.lab.datasets.cebab import load_cebab
from realm.lab.datasets.civilcomments import load_civilcomments
from realm.lab.datasets.detox import load_detox
from realm.lab.datasets.go_emotions import load_go_emotions
from realm.lab.datasets.questions import load_pubmedqa, load_questions
from realm.lab.datasets.sentpolarity import load_sentpolarity

__all__ = ["NAMES", "Benchmark", "load_benchmark", "with_task_names"]

LOADERS: dict[str, Callable[[Path | None, bool], Benchmark]] = {
    **{name: partial(load_questions, name) for name in questions.SETS},
    "pubmedqa": load_pubmedqa,
    **{name: partial(load_detox, name) for name in detox.SETS},
    "sentpolarity": load_sentpolarity,
    "goemotions": load_go_emotions,
    "cebab": load_cebab,
    "civilcomments": load_civilcomments,
}
NAMES: tuple[str, ...] = tuple(LOADERS)


def load_benchmark(name: str, data: str | Path | None = None, *, offline: bool = False) -> Benchmark:
    """Load a data set.

    Args:
        name: one of `NAMES`.
        data: a folder with the published files of the set or its plain form, directly or in a sub-folder named after
            the set; by default the set comes from the hub, by id.
        offline: without a folder, use only what the hub's cache on this machine holds.
    """
    if name not in LOADERS:
        raise RealmError(f"There is no benchmark '{name}'. There are: {', '.join(NAMES)}.")
    return with_task_names(LOADERS[name](None if data is None else Path(data), offline), name)


def with_task_names(benchmark: Benchmark, name: str) -> Benchmark:
    """A single task takes the name of the set, so that several sets can be trained jointly."""
    return replace(benchmark, train=_with_task_name(benchmark.train, name), test=_with_task_name(benchmark.test, name))


def _with_task_name(table: Annotations, name: str) -> Annotations:
    if len(table.tasks) > 1:
        return table
    return replace(table, items=replace(table.items, tasks=(replace(table.tasks[0], name=name),)))
