"""Each machine file of a run: what is wrong with it is said with its name, whoever made the manifest fit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from realm.errors import RealmError
from realm.files import write_manifest
from realm.runs import Run
from tests.report.folders import crowd, write_run

Change = Callable[[Any], Any]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run without a model: two tasks, a channel and its trajectory."""
    table, log_probs = crowd(30, tasks=2)
    trained = np.full((5, 2), 0.5)
    return write_run(
        tmp_path_factory.mktemp("run") / "run", table, log_probs, trained=trained, trajectory=np.full((3, 5, 2), 0.5)
    )


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "run")
    return tmp_path / "run"


def read_all(folder: Path) -> None:
    run = Run.open(folder)
    _ = (run.config, run.metrics, run.scorer_settings, run.tasks, run.annotations, run.log_probs, run.estimate)
    _ = (run.channel_summary, run.labels, run.expertise, run.relabel(3))


def refused(folder: Path, file: str, message: str) -> None:
    (folder / "manifest.json").unlink(missing_ok=True)
    write_manifest(folder)
    with pytest.raises(RealmError, match=message) as error:
        read_all(folder)
    assert file in str(error.value)


def test_a_whole_run_is_read(run: Path) -> None:
    read_all(run)


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("metrics.json", lambda d: None, "it is null, not an object"),
        ("metrics.json", lambda d: {k: v for k, v in d.items() if k != "findings"}, "it lacks `findings`"),
        ("scorer.json", lambda d: d | {"kind": "magic"}, "`kind` is 'magic', not one of"),
        ("scorer.json", lambda d: d | {"tasks": [{"name": "a", "labels": [1]}]}, "`tasks.0.labels.0` is 1, not text"),
        ("annotators.json", lambda d: [1, *d[1:]], "`0` is 1, not text"),
        ("config.yaml", lambda d: None, "holds no settings"),
        ("config.yaml", lambda d: d | {"settings": []}, "`settings` is a list, not an object"),
        ("config.yaml", lambda d: d | {"gold_used": "no"}, "`gold_used` is 'no', not true or false"),
    ],
)
def test_json_and_yaml(file: str, change: Change, message: str, run: Path) -> None:
    text = (run / file).read_text()
    (run / file).write_text(json.dumps(change(yaml.safe_load(text))))  # JSON is YAML
    refused(run, file, message)


def test_a_table_of_another_size_than_was_trained_on(run: Path) -> None:
    path = run / "annotations.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)
    refused(run, "annotations.parquet", "has 29 items; the run was trained on 30")


def test_a_damaged_table_is_named(run: Path) -> None:
    path = run / "annotations.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["labels"]), path)
    refused(run, "annotations.parquet", "not readable as the annotations of a run: .*labels")
    path.write_bytes(b"PAR1 and nothing else")
    refused(run, "annotations.parquet", "not readable as the annotations of a run")


# ---------------------------------------------------------------- the manifest


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "it is null"),
        ({}, "lacks `sha256`"),
        ({"sha256": {"metrics.json": 5}}, "`sha256.metrics.json` is 5"),
        ({"sha256": {"../x": "0" * 64}}, "lacks `sha256` of files below it"),
        ({"sha256": {"metrics.json": "short"}}, "was changed or damaged"),
        ({"sha256": {}}, "is not in .*manifest.json: it was put there later"),
    ],
)
def test_manifest(content: Any, message: str, run: Path) -> None:
    (run / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(RealmError, match=message):
        Run.open(run)


def test_a_file_that_the_manifest_does_not_know_is_not_read(run: Path) -> None:
    """Neither one of ours nor one that would change how the model is loaded; a file of somebody's own is none of it."""
    (run / "notes.txt").write_text("mine")
    (run / "report.html").write_text("<p>")
    (run / "model").mkdir(exist_ok=True)
    (run / "model" / "notes.md").write_text("mine")
    read_all(run)
    (run / "model" / "adapter_config.json").write_text("{}")
    with pytest.raises(RealmError, match=r"adapter_config.json is not in .*manifest.json"):
        Run.open(run)
    Run.open(run, verify_model=False)
