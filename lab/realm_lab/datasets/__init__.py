"""The paper's data sets, from the Hugging Face hub, from their published files or from the plain form."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from realm import Annotations, RealmError
from realm_lab.datasets import crowds, questions
from realm_lab.datasets.base import TITLES, Benchmark

__all__ = ["NAMES", "TITLES", "Benchmark", "load_benchmark", "named_task"]

NAMES = (*questions.SETS, questions.PUBMEDQA, *crowds.SETS)


def load_benchmark(name: str, data: str | Path | None = None) -> Benchmark:
    """Load a data set.

    Args:
        name: one of `NAMES`.
        data: a folder with the published files of the set or its plain form, directly or in a sub-folder named after
            the set; by default the set comes from the hub, by id.
    """
    folder = None if data is None else Path(data)
    if name in questions.SETS:
        found = questions.load_questions(name, folder)
    elif name == questions.PUBMEDQA:
        found = questions.load_pubmedqa(folder)
    elif name in crowds.SETS:
        found = crowds.load_crowd(name, folder)
    else:
        raise RealmError(f"There is no benchmark '{name}'. There are: {', '.join(NAMES)}.")
    return replace(found, train=named_task(found.train, name), test=named_task(found.test, name))


def named_task(table: Annotations, name: str) -> Annotations:
    """A single task takes the name of the set, so that several sets can be trained jointly."""
    if len(table.tasks) > 1:
        return table
    return replace(table, items=replace(table.items, tasks=(replace(table.tasks[0], name=name),)))
