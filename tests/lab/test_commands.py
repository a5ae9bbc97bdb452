"""`python -m realm_lab`: what is missing is run, whatever stopped it before; tables and plots of it."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from realm_lab.__main__ import main
from tests.lab.small_benchmark import write_questions, write_spec
from tests.tiny import crowd

SETTINGS = {"learning_rate": 1e-3, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1}
FOREVER = 240


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tiny_model: Any) -> Path:
    """Questions, and a spec of six cells."""
    place = tmp_path_factory.mktemp("lab")
    write_questions(place / "data")
    methods = ["realm", "noisy", "crowd-layer"]
    write_spec(place, model=tiny_model("seq2seq"), method=methods, steps=3, curve=1, settings=SETTINGS)
    return place


def words(folder: Path, results: Path, *more: object) -> list[str]:
    return [
        "run",
        str(folder / "made.yaml"),
        "--data",
        str(folder / "data"),
        "--results",
        str(results),
        *map(str, more),
    ]


@pytest.fixture(scope="module")
def uninterrupted(folder: Path) -> Path:
    assert main(words(folder, folder / "whole")) == 0
    return folder / "whole"


def table(folder: Path, results: Path, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(["table", str(folder / "made.yaml"), "--results", str(results)]) == 0
    return capsys.readouterr().out


def finished(results: Path) -> dict[str, float]:
    """When each finished cell was finished."""
    return {path.stem: path.stat().st_mtime_ns for path in results.glob("[0-9a-f]*.json")}


def test_killed_in_the_middle_it_goes_on_to_the_same_table(
    folder: Path, uninterrupted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-m", "realm_lab", *words(folder, tmp_path)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    deadline = time.monotonic() + FOREVER
    while len(finished(tmp_path)) < 2:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.kill()
    process.wait()
    before = finished(tmp_path)
    assert 2 <= len(before) < len(finished(uninterrupted)) == 6
    assert main(words(folder, tmp_path)) == 0
    after = finished(tmp_path)
    assert before.items() <= after.items() and set(after) == set(finished(uninterrupted))
    printed = table(folder, tmp_path, capsys)
    assert printed == table(folder, uninterrupted, capsys)
    assert (
        "| REALM | Noisy | Crowd layer | delta |" in printed
        and "0 of 6 trainings are missing" in printed
        and "Base rate" in printed
    )


def test_finished_cells_are_not_run_again(
    folder: Path, uninterrupted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = finished(uninterrupted)
    assert main(words(folder, uninterrupted)) == 0
    assert "6 cells, 6 of them finished" in capsys.readouterr().err and finished(uninterrupted) == before


def test_only_and_limit_choose_cells(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    only = ("--only", "method=noisy,crowd-layer", "--only", "seed=1")
    assert main(words(folder, tmp_path, *only, "--limit", 1)) == 0
    assert "2 cells, 0 of them" in capsys.readouterr().err and len(finished(tmp_path)) == 1


def test_plots_are_written(
    folder: Path, uninterrupted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plot", str(folder / "made.yaml"), "--results", str(uninterrupted), "--output", str(tmp_path)]) == 0
    written = [Path(line) for line in capsys.readouterr().out.split()]
    assert {path.name for path in written} == {"made-curves.svg", "made-expertise.svg"}


def test_a_cell_that_fails_leaves_the_others(
    folder: Path, tmp_path: Path, tiny_model: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    models = [str(tmp_path / "no-model"), tiny_model("seq2seq")]
    write_spec(tmp_path, model=models, method="noisy", seeds=1, steps=2, settings=SETTINGS)
    flags = ["--data", str(folder / "data"), "--results", str(tmp_path / "results")]
    assert main(["run", str(tmp_path / "made.yaml"), *flags]) == 2
    error = capsys.readouterr().err
    assert "1 cells failed" in error and "no-model" in error and "1 of 2 cells are finished" in error


def test_results_of_other_data_are_not_mixed(
    folder: Path, uninterrupted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_questions(tmp_path / "data", train=61)
    content = yaml.safe_load((folder / "made.yaml").read_text())
    (tmp_path / "made.yaml").write_text(yaml.safe_dump({**content, "seeds": 3}))
    assert main(words(tmp_path, uninterrupted)) == 2
    assert "trained on other data" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "said"),
    [(["--only", "realm"], "--only realm"), (["--only", "colour=red"], "method=realm,noisy"),
     (["--data", "nowhere"], "nowhere"), (["--engine", "dask"], "`engine=dask`"), (["--jobs", "0"], "--jobs")],
)  # fmt: skip
def test_mistakes_are_said_without_a_trace(
    flags: list[str], said: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(folder, tmp_path, *flags)) == 2
    assert said in capsys.readouterr().err


def test_the_specs_of_the_package_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "550 cells" in lines["noise-real"]


README = (Path(__file__).parents[2] / "lab" / "README.md").read_text(encoding="utf-8")


def test_a_researchers_walk(tmp_path: Path, tiny_model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """What lab/README.md says, as it stands there but for the model: a channel in one file beside the others."""
    source, spec_text = (re.findall(f"```{kind}\n(.*?)```", README, re.DOTALL)[0] for kind in ("python", "yaml"))
    (tmp_path / "my_channel.py").write_text(source)
    content = yaml.safe_load(spec_text)
    quick = {"steps": 3, "curve": 1, "settings": SETTINGS, "model": tiny_model("bert")}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({**content, **quick}))
    (tmp_path / "reviews").mkdir()
    labels = crowd(40).to_pandas()[["item", "text", "annotator", "label"]]
    labels.to_csv(tmp_path / "reviews" / "annotations.csv", index=False)
    test = crowd(20, seed=5).to_pandas()[["text", "gold"]].drop_duplicates()
    test.to_csv(tmp_path / "reviews" / "test.csv", index=False)
    spec, results = str(tmp_path / "mine.yaml"), str(tmp_path / "results")
    run = ["run", spec, "--data", str(tmp_path), "--results", results]
    assert main(run) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert main(["table", spec, "--results", results, "--format", "csv"]) == 0
    frame = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert set(frame["method"]) == {"realm", "noisy", "my_channel.py:HardTasks"} and set(frame["seeds"]) == {3}
    assert main(["plot", spec, "--results", results, "--output", str(tmp_path / "plots")]) == 0
    assert (tmp_path / "plots" / "mine-curves.svg").is_file()


def test_several_processes_give_the_same_table(
    folder: Path, uninterrupted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(folder, tmp_path, "--jobs", 2)) == 0
    first, second = ({path.stem: json.loads(path.read_text())["metrics"] for path in place.glob("[0-9a-f]*.json")}
                     for place in (tmp_path, uninterrupted))  # fmt: skip
    assert first == second
