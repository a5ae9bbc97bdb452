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

from realm.comparison.results import Results
from realm_lab import expand, load_spec
from realm_lab.__main__ import main, selected
from realm_lab.results import method_of
from tests.lab.small_benchmark import write_questions, write_spec
from tests.tiny import crowd

SETTINGS = {"learning_rate": 1e-3, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1}
FOREVER = 240


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tiny_model: Any) -> Path:
    """Questions, and a spec of six cells: two methods that choose nothing, and one that chooses by two trials."""
    place = tmp_path_factory.mktemp("lab")
    write_questions(place / "data")
    rates = {"realm": {"expertise_learning_rate": [0.1, 0.5]}}
    methods = ["realm", "noisy", "crowd-layer"]
    how: dict[str, Any] = {"expertise_update": "gradient", "channel": "uniform", "objective": "paper"}
    spec = {"model": tiny_model("seq2seq"), "method": methods, "steps": 3, "curve": 1, "settings": {**SETTINGS, **how}}
    write_spec(place, **spec, choose=rates, table="rivals")
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
    assert 2 <= len(before) < len(finished(uninterrupted)) == 2 + 6
    assert main(words(folder, tmp_path)) == 0
    after = finished(tmp_path)
    assert before.items() <= after.items() and set(after) == set(finished(uninterrupted))
    printed = table(folder, tmp_path, capsys)
    assert printed == table(folder, uninterrupted, capsys)
    assert "| REALM | Noisy | Crowd layer |" in printed and "missing" not in printed and "Base rate" in printed


def test_finished_cells_are_not_run_again(
    folder: Path, uninterrupted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = finished(uninterrupted)
    assert main(words(folder, uninterrupted)) == 0
    assert "6 cells, 6 of them finished" in capsys.readouterr().err and finished(uninterrupted) == before


def test_a_rival_is_trained_with_its_channel(folder: Path, uninterrupted: Path) -> None:
    cells = expand(load_spec(folder / "made.yaml"))
    results = Results(uninterrupted)
    by_method = {method_of(cell): cell for cell in cells if cell.seed == 0}
    trained = {name: results.table("expertise", [cell.id]) for name, cell in by_method.items() if name != "noisy"}
    assert not trained["crowd-layer"]["expertise_trained"].equals(trained["realm"]["expertise_trained"])
    assert results.record(by_method["crowd-layer"].id)["content"]["channel"].endswith("CrowdLayerChannel")


def test_only_and_limit_choose_cells(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words(folder, tmp_path, "--only", "method=noisy,oracle", "--only", "seed=1", "--limit", 1)) == 0
    assert "1 cells, 0 of them" in capsys.readouterr().err and len(finished(tmp_path)) == 1
    cells = expand(load_spec(folder / "made.yaml"))
    assert {method_of(cell) for cell in selected(cells, ["method=realm"])} == {"realm"}
    assert {method_of(cell) for cell in selected(cells, ["method=crowd-layer"])} == {"crowd-layer"}


def test_plots_are_written(
    folder: Path, uninterrupted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plot", str(folder / "made.yaml"), "--results", str(uninterrupted), "--output", str(tmp_path)]) == 0
    written = [Path(line) for line in capsys.readouterr().out.split()]
    assert {path.name for path in written} == {f"made-{kind}.svg" for kind in ("curves", "expertise", "recovery")}
    assert all("<svg" in path.read_text() for path in written)


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
     (["--only", "method=majority"], "no cell"), (["--data", "nowhere"], "nowhere")],
)  # fmt: skip
def test_mistakes_are_said_without_a_trace(
    flags: list[str], said: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(folder, tmp_path, *flags)) == 2
    assert said in capsys.readouterr().err
    for wrong in (["--engine", "dask"], ["--jobs", "0"], ["--limit", "x"]):
        with pytest.raises(SystemExit) as exit:
            main(words(folder, tmp_path, *wrong))
        assert exit.value.code == 2


def test_a_table_that_there_is_not_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    write_spec(tmp_path, table="nonesuch")
    assert main(["run", str(tmp_path / "made.yaml"), "--results", str(tmp_path / "results")]) == 2
    assert not (tmp_path / "results").exists()


def test_the_specs_of_the_package_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--results", str(tmp_path / "none")]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "550 cells" in lines["noise-real"] and "0 finished" in lines["noise-real"]


README = (Path(__file__).parents[2] / "lab" / "README.md").read_text(encoding="utf-8")


def test_a_researchers_walk(tmp_path: Path, tiny_model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """What lab/README.md says, as it stands there but for the model: a channel in one file beside the others."""
    source, spec_text = (re.findall(f"```{kind}\n(.*?)```", README, re.DOTALL)[0] for kind in ("python", "yaml"))
    (tmp_path / "my_channel.py").write_text(source)
    content = yaml.safe_load(spec_text)
    quick = {"steps": 3, "curve": 1, "settings": SETTINGS, "model": tiny_model("bert")}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({**content, **quick}))
    crowd(40).to_pandas()[["item", "text", "annotator", "label"]].to_csv(tmp_path / "labels.csv", index=False)
    crowd(20, seed=5).to_pandas()[["text", "gold"]].drop_duplicates().to_csv(tmp_path / "test.csv", index=False)
    spec, results = str(tmp_path / "mine.yaml"), str(tmp_path / "results")
    assert main(["run", spec, "--results", results]) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert main(["table", spec, "--results", results, "--format", "csv"]) == 0
    frame = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert set(frame["method"]) == {"realm", "noisy", "HardTasks"} and set(frame["seeds"]) == {3}
    assert main(["plot", spec, "--results", results, "--output", str(tmp_path / "plots")]) == 0
    assert (tmp_path / "plots" / "mine-curves.svg").is_file()
    with (tmp_path / "labels.csv").open("a") as file:
        file.write("i40,old red tree 99,w0,red\n")
    assert main(["table", spec, "--results", results]) == 0
    assert "9 of 9 cells are missing" in capsys.readouterr().out, "results of the table as it was are not shown"


def test_several_processes_give_the_same_table(
    folder: Path, uninterrupted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(folder, tmp_path, "--jobs", 2)) == 0
    first, second = ({path.stem: json.loads(path.read_text())["metrics"] for path in place.glob("[0-9a-f]*.json")}
                     for place in (tmp_path, uninterrupted))  # fmt: skip
    assert first == second


def test_nothing_is_reproduced_without_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce"]) == 2 and "--data FOLDER" in capsys.readouterr().err
