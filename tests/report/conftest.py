"""Runs that several tests of the report read; none is written to but in its report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.report.folders import crowd, write_run

HOSTILE_NAMES = [
    "<script>document.title='owned'</script>",
    "Ann \u202eevil\u2066",
    "</script><b onclick=alert(1)>x",
    'O\'Brien "Q" & <!-- co',
    "\u2028line\u0000nul {{7*7}}",
]
HOSTILE_TEXTS = [
    "<script>alert(1)</script><img src=x onerror=alert(2)>",
    "\"quoted\" & 'single' </script> <!-- --> ]]>",
    "right \u202eto left\u202c and \u2067isolated\u2069",
    "{{ 7 * 7 }} {% raw %} ${7*7}",
]


@pytest.fixture(scope="session")
def plain_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five annotators, one task of three labels, three labels per item, expertise learned."""
    table, log_probs = crowd(n_items=150)
    order = np.array([3, 1, 4, 0, 2])  # not the order in which the table meets them: arrays follow the names' order
    table = replace(
        table, annotators=tuple(table.annotators[i] for i in order),
        annotator=np.argsort(order)[table.annotator].astype(np.int32),
    )  # fmt: skip
    trained = np.linspace(0.1, 0.9, 5)[:, None]
    path = 0.5 + np.linspace(0, 1, 12)[:, None, None] * (trained - 0.5)
    test = {"items": 40, "accuracy": 0.875, "macro_f1": 0.861, "calibration_error": 0.04, "log_loss": 0.31}
    return write_run(
        tmp_path_factory.mktemp("runs") / "sentiment", table, log_probs, trained=trained, trajectory=path,
        metrics={"test": test, "warnings": ["3 rows without a label were left out."]},
    )  # fmt: skip


@pytest.fixture(scope="session")
def hostile_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Names and texts that would run, break out or turn the page around, in three tasks."""
    table, log_probs = crowd(n_items=240, names=HOSTILE_NAMES, texts=HOSTILE_TEXTS * 60, tasks=3)
    trained = np.random.default_rng(0).uniform(0.05, 0.95, size=(5, 3))
    path = 0.5 + np.linspace(0, 1, 6)[:, None, None] * (trained - 0.5)
    settings = {"instruction": "<b>Judge</b> \u202e"}
    return write_run(
        tmp_path_factory.mktemp("runs") / "hostile",
        table,
        log_probs,
        trained=trained,
        trajectory=path,
        settings=settings,
    )


@pytest.fixture(scope="session")
def sparse_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One label per item, two options, nothing learned about annotators during training, nothing logged."""
    table, log_probs = crowd(n_items=200, per_item=1, labels=("no", "yes"))
    return write_run(
        tmp_path_factory.mktemp("runs") / "sparse", table, log_probs, settings={"method": "noisy"},
        metrics={"history": [{"train_loss": 0.5, "step": 4}]},
    )  # fmt: skip
