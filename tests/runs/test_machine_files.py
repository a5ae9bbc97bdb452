"""Each machine file of a run: what is wrong with it is said with its name, whoever made the manifest fit."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from realm.errors import RealmError
from realm.files import read_tensors, write_manifest, write_tensors
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
    _ = (run.channel_summary, run.trajectory, run.labels, run.expertise, run.relabel(3), run.contradictions())


def refused(folder: Path, file: str, message: str) -> None:
    (folder / "manifest.json").unlink(missing_ok=True)
    write_manifest(folder)
    with pytest.raises(RealmError, match=message) as error:
        read_all(folder)
    assert file in str(error.value)


def test_a_whole_run_is_read(run: Path) -> None:
    read_all(run)


def changed(change: Change) -> Change:
    """A change in place, as a change that returns the document."""

    def returning(document: Any) -> Any:
        change(document)
        return document

    return returning


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("metrics.json", lambda _: None, "it is null, not an object"),
        ("metrics.json", changed(lambda d: d.pop("findings")), "lacks `findings`"),
        ("metrics.json", changed(lambda d: d.update(history=[{"loss": 1.0}])), r"`history.0` lacks `step`"),
        ("metrics.json", changed(lambda d: d.update(temperature=0)), "`temperature` is 0"),
        ("metrics.json", changed(lambda d: d.update(test={"items": 1, "accuracy": "0.5"})), "`test.accuracy`"),
        (
            "metrics.json",
            changed(lambda d: d.update(test={"items": 1, "labels": [], "confusion": [[1]]})),
            "a row and a column for every label",
        ),
        ("scorer.json", changed(lambda d: d.update(kind="magic")), "`kind` is 'magic', not one of"),
        ("scorer.json", changed(lambda d: d["style"].update(more=1)), "`style` has the unknown key 'more'"),
        ("scorer.json", changed(lambda d: d["tasks"].clear()), "`tasks` is empty"),
        ("scorer.json", changed(lambda d: d["tasks"][0].update(labels=["a", "a"])), "two of them are the same"),
        ("scorer.json", changed(lambda d: d["tasks"][1].update(name="task-0")), "two of them have one name"),
        ("annotators.json", lambda d: {"a": 1}, "not a list"),
        ("annotators.json", lambda d: [*d[:-1], d[0]], "two annotators have one name"),
        ("annotators.json", lambda d: d[:-1], "beyond the 4 names of annotators.json"),
        ("annotators.json", lambda d: [1, *d[1:]], "`0` is 1, not text"),
    ],
)
def test_json(file: str, change: Change, message: str, run: Path) -> None:
    (run / file).write_text(json.dumps(change(json.loads((run / file).read_text()))))
    refused(run, file if "names of" not in message else "annotations.parquet", message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: None, "holds no settings"),
        (lambda d: d | {"format": "x"}, "format x"),
        (lambda d: d | {"settings": []}, "`settings` is a list"),
        (lambda d: d | {"gold_used": "no"}, "`gold_used` is 'no', not true or false"),
        (lambda d: d | {"settings": {"x": [[1]]}}, r"`settings.x.0` is a list"),
        (lambda d: d | {"settings": {"learning_rate": "fast"}}, "`settings.learning_rate` is 'fast'"),
        (lambda d: d | {"data": {"fingerprint": "x", "items": 7}}, "has 30 items; the run was trained on 7"),
    ],
)
def test_config(change: Change, message: str, run: Path) -> None:
    config = yaml.safe_load((run / "config.yaml").read_text())
    (run / "config.yaml").write_text(yaml.safe_dump(change(config)))
    file = str(run) if "format" in message else "annotations.parquet" if "trained on" in message else "config.yaml"
    refused(run, file, message)


def test_a_config_of_a_billion_laughs(run: Path) -> None:
    """Aliases of aliases are one small document in memory, and a huge one written out."""
    levels = "".join(f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 40))
    text = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(text.replace("settings:\n", f"settings:\n  a0: &a0 [x]\n{levels}", 1))
    refused(run, "config.yaml", r"`settings.a1.0` is a list")


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("predictions.safetensors", lambda d: {}, "lacks the array `log_probs`"),
        ("predictions.safetensors", lambda d: {"log_probs": d["log_probs"][1:]}, "has the shape"),
        ("predictions.safetensors", lambda d: {"log_probs": d["log_probs"] * np.nan}, "not a number"),
        ("predictions.safetensors", lambda d: {"log_probs": d["log_probs"] + 1}, "must lie between"),
        ("predictions.safetensors", lambda d: {"log_probs": d["log_probs"] - 1}, "sum to .* not to 1"),
        ("estimate.safetensors", lambda d: d | {"posterior": d["posterior"] * 0}, "sum to 0, not to 1"),
        ("estimate.safetensors", lambda d: d | {"accuracy": d["accuracy"] * np.nan}, "an annotator with annotations"),
        ("estimate.safetensors", lambda d: d | {"expertise": d["expertise"] - np.inf}, "must lie between"),
        ("estimate.safetensors", lambda d: d | {"annotations": d["annotations"] + 1}, "not about the annotations"),
        ("estimate.safetensors", lambda d: {k: v for k, v in d.items() if k != "habits"}, "lacks the array `habits`"),
        ("estimate.safetensors", lambda d: d | {"low": d["low"].astype(np.int64)}, "holds int64, not float"),
        ("summary.safetensors", lambda d: {k: v[1:] for k, v in d.items()}, "has the shape"),
        ("summary.safetensors", lambda d: {k: v * np.inf for k, v in d.items()}, "not a finite number"),
        ("trajectory.safetensors", lambda d: {k: v for k, v in d.items() if k != "steps"}, "lacks the array `steps`"),
        ("trajectory.safetensors", lambda d: d | {"steps": d["steps"][::-1]}, "does not rise"),
        ("trajectory.safetensors", lambda d: d | {"steps": d["steps"][1:]}, "has the shape"),
    ],
)
def test_arrays(file: str, change: Change, message: str, run: Path) -> None:
    write_tensors(run / file, **change(read_tensors(run / file)))
    refused(run, file, message)


def test_tensors_of_a_type_that_numpy_lacks(run: Path) -> None:
    import torch
    from safetensors.torch import save_file

    save_file({"log_probs": torch.zeros(30, 3, dtype=torch.bfloat16)}, run / "predictions.safetensors")
    refused(run, "predictions.safetensors", "not readable as safetensors|holds bfloat16")


def replaced(name: str, values: Any, type: pa.DataType | None = None) -> Change:
    def change(table: pa.Table) -> pa.Table:
        column = pa.array(values(table.column(name).to_pylist()), type or table.schema.field(name).type)
        return table.set_column(table.column_names.index(name), name, column)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop_columns(["labels"]), "lacks the column labels"),
        (lambda t: t.append_column("text", t.column("text")), "has the column text twice"),
        (replaced("task", lambda v: [9, *v[1:]]), "beyond the 2 tasks"),
        (replaced("task", lambda v: v, pa.int64()), "the column task holds int64, not int32"),
        (replaced("text", lambda v: [None, *v[1:]]), "the column text has a row without a value"),
        (replaced("labels", lambda v: [[7] * len(v[0]), *v[1:]]), "beyond the options of its item"),
        (replaced("labels", lambda v: [[-1] * len(v[0]), *v[1:]]), "beyond the options of its item"),
        (replaced("labels", lambda v: [[None] * len(v[0]), *v[1:]]), "a list with an entry without a value"),
        (replaced("labels", lambda v: [v[0] * 2, *v[1:]]), "another number of annotators than of labels"),
        (replaced("annotators", lambda v: [[99] * len(v[0]), *v[1:]]), "beyond the 5 names"),
        (lambda t: t.slice(1), "has 29 items; the run was trained on 30"),
        (
            lambda t: t.append_column("weights", pa.array([[-1.0] * 3] * 30, pa.large_list(pa.float64()))),
            "not a finite number above 0",
        ),
        (lambda t: t.append_column("gold", pa.array([5] * 30, pa.int32())), "the column gold has a number beyond"),
    ],
)
def test_annotations(change: Change, message: str, run: Path) -> None:
    path = run / "annotations.parquet"
    pq.write_table(change(pq.read_table(path)), path)
    refused(run, "annotations.parquet", message)


def test_a_parquet_that_unpacks_to_far_more_than_it_is(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from realm.runs import annotations_file

    monkeypatch.setattr(annotations_file, "SURELY_FINE", 1_000)
    path = run / "annotations.parquet"
    table = replaced("text", lambda v: ["x" * 100_000] * len(v))(pq.read_table(path))
    pq.write_table(table, path, compression="zstd", use_dictionary=False)
    refused(run, "annotations.parquet", "unpacks to .* times its size")


@pytest.mark.parametrize(
    ("file", "kind"), [("metrics.json", "JSON"), ("config.yaml", "YAML"), ("annotators.json", "JSON")]
)
def test_files_of_gigabytes_are_not_read(file: str, kind: str, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sparse file of 8 GB, whose hash nobody waits for here."""
    monkeypatch.setattr("realm.runs.run.verify_manifest", lambda *args, **more: None)
    os.truncate(run / file, 8 << 30)
    with pytest.raises(RealmError, match=rf"{file}: not readable as {kind}: it is larger than"):
        read_all(run)


# ---------------------------------------------------------------- the manifest


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "it is null"),
        ({"sha256": []}, "`sha256` is a list"),
        ({"sha256": {"metrics.json": 5}}, "`sha256.metrics.json` is 5"),
        ({"sha256": {"/etc/passwd": "0" * 64}}, "no name of a file below it"),
        ({"sha256": {"../x": "0" * 64}}, "no name of a file below it"),
        ({"sha256": {"a/../../x": "0" * 64}}, "no name of a file below it"),
        ({"sha256": {"a\x00": "0" * 64}}, "no name of a file below it"),
        ({"sha256": {"metrics.json": "short"}}, "its SHA-256 is none"),
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
