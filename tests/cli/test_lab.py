"""`realm lab list` and `realm lab run`: what is missing is run, whatever stopped it before."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from realm.comparison.cells import Cell
from realm.comparison.results import Results
from realm.errors import RealmError
from realm.lab.spec import expand, load_spec
from tests.lab.small_benchmark import write_questions, write_spec

REALM = [sys.executable, "-m", "realm"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny_model) -> Path:
    """A spec of six cells with two trials, and the benchmark it is over."""
    place = tmp_path_factory.mktemp("lab")
    write_questions(place / "data")
    grid = {"method": ["realm", "noisy", "oracle"], "seeds": 2, "regime": ["sparse"]}
    by_gradient = {"expertise_update": ["gradient"], "channel": ["uniform"]}
    choose = {"realm": {"expertise_learning_rate": [0.1, 0.5], **by_gradient}}
    write_spec(place / "tiny.yaml", tiny_model("seq2seq"), grid, choose=choose, curve=2)
    return place


@pytest.fixture(scope="module")
def command(folder):
    def words(results: Path, *more: object) -> list[str]:
        return [
            str(word)
            for word in ("lab", "run", folder / "tiny.yaml", "--data", folder / "data", "--results", results, *more)
        ]

    return words


@pytest.fixture(scope="module")
def cells(folder) -> list[Cell]:
    return expand(load_spec(folder / "tiny.yaml"))


@pytest.fixture(scope="module")
def uninterrupted(folder, command, realm_cli) -> Path:
    results = folder / "uninterrupted.sqlite"
    code, _, error = realm_cli(*command(results))
    assert code == 0, error
    assert "6 cells, 0 of them finished" in error and "[8/8]" in error and "about 0 s left" in error
    assert "6 of 6 cells are finished" in error
    return results


def same_table(one: Path, other: Path, cells: list[Cell]) -> None:
    """Both files hold the same figures, curves, expertise and predictions for all of the cells and their trials."""
    everything = [*cells, *dict.fromkeys(trial for cell in cells for trial in cell.trials())]
    first, second = Results.open(one), Results.open(other)
    frames = [found.frame(everything).drop(columns=["seconds", "finished_at"]) for found in (first, second)]
    assert len(frames[0]) == len(everything)
    pd.testing.assert_frame_equal(*frames)
    ids = [cell.id for cell in cells]
    for part in ("expertise", "curves", "trajectories"):
        pd.testing.assert_frame_equal(getattr(first, part)(ids), getattr(second, part)(ids))
    for id in ids:
        assert [a.tolist() for a in first.predictions(id)] == [a.tolist() for a in second.predictions(id)]


def test_settings_are_chosen_by_the_likelihood_of_held_out_annotations(uninterrupted, cells) -> None:
    results = Results.open(uninterrupted)
    trials = cells[0].trials()
    found = results.frame(trials)
    best = found.loc[found["held_out_likelihood"].idxmax(), "expertise_learning_rate"]
    assert len(found) == 2 and found["held_out_likelihood"].nunique() == 2
    frame = results.frame(cells)
    assert set(frame[frame["method"] == "realm"]["expertise_learning_rate"]) == {best}
    assert set(frame[frame["method"] == "noisy"]["selected_settings"]) == {"{}"}


def test_finished_cells_are_not_run_again(uninterrupted, command, realm_cli, cells) -> None:
    before = uninterrupted.read_bytes()
    code, _, error = realm_cli(*command(uninterrupted))
    assert code == 0 and "6 of them finished" in error and "[1/" not in error
    assert uninterrupted.read_bytes() == before


def test_killed_in_the_middle_nothing_is_lost_or_run_twice(command, tmp_path, uninterrupted, realm_cli, cells) -> None:
    results = tmp_path / "results.sqlite"
    log = (tmp_path / "log").open("w")
    process = subprocess.Popen([*REALM, *command(results)], stdout=log, stderr=log)
    deadline = time.monotonic() + 240
    while not results.exists() or len(finished(results, cells)) < 2:
        assert process.poll() is None and time.monotonic() < deadline, (tmp_path / "log").read_text()
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = finished(results, cells)
    assert 2 <= len(before) < len(cells)
    code, _, error = realm_cli(*command(results))
    assert code == 0 and f"{len(before)} of them finished" in error, error
    after = finished(results, cells)
    assert {id: after[id] for id in before} == before
    ran = [line for line in error.splitlines() if line.startswith("[") and "trial" not in line]
    assert len(ran) == len(cells) - len(before)
    same_table(results, uninterrupted, cells)


def finished(results: Path, cells: list[Cell]) -> dict[str, str]:
    """When each finished cell was finished."""
    try:
        frame = Results.open(results).frame(cells)
    except RealmError:  # the file is being made
        return {}
    return {} if frame.empty else dict(zip(frame["id"], frame["finished_at"], strict=True))


def test_several_processes_give_the_same_table_and_end_with_the_one_that_started_them(
    command, tmp_path, uninterrupted, realm_cli, cells
) -> None:
    results = tmp_path / "results.sqlite"
    surroundings = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([*REALM, *command(results, "--jobs", 2)], stderr=subprocess.DEVNULL, env=surroundings)
    deadline = time.monotonic() + 240
    while not results.exists() or len(finished(results, cells)) < 3:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    workers = children(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(workers) >= 2
    while alive := [pid for pid in workers if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.05)
    assert realm_cli(*command(results))[0] == 0
    same_table(results, uninterrupted, cells)


def children(pid: int) -> list[int]:
    """The processes that a process has started, on Linux."""
    found = Path(f"/proc/{pid}/task/{pid}/children")
    if not found.exists():
        pytest.skip("needs /proc to see the workers of a process")
    return [int(child) for child in found.read_text().split()]


@pytest.mark.slow
def test_ray_gives_the_same_table(command, tmp_path, uninterrupted, realm_cli, cells) -> None:
    ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        code, _, error = realm_cli(*command(tmp_path / "results.sqlite", "--engine", "ray"))
    finally:
        ray.shutdown()
    assert code == 0, error
    same_table(tmp_path / "results.sqlite", uninterrupted, cells)


def test_ray_that_is_not_there_is_asked_for(command, tmp_path, realm_cli, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    code, _, error = realm_cli(*command(tmp_path / "results.sqlite", "--engine", "ray"))
    assert code == 2 and "realm-lm[ray]" in error


# -------------------------------------------------------------------- parts and failures


def test_only_and_limit_choose_cells(command, tmp_path, realm_cli, cells) -> None:
    results = tmp_path / "results.sqlite"
    code, _, error = realm_cli(*command(results, "--only", "method=noisy,oracle,seed=1", "--limit", 1))
    assert code == 0 and "2 cells, 0 of them" in error and "1 of 2 cells are finished" in error
    (done,) = Results.open(results).frame(cells).to_dict("records")
    assert done["method"] == "noisy" and done["seed"] == 1


def test_a_cell_that_fails_leaves_the_others(folder, tmp_path, realm_cli, tiny_model) -> None:
    spec = write_spec(tmp_path / "some.yaml", "", {"model": [str(tmp_path / "no-model"), tiny_model("seq2seq")]})
    flags = ["--data", folder / "data", "--results", tmp_path / "results.sqlite"]
    code, _, error = realm_cli("lab", "run", spec, *flags)
    assert code == 2 and "1 cells failed" in error and "no-model" in error and "1 of 2 cells are finished" in error
    code, _, error = realm_cli("lab", "run", spec, *flags)
    assert code == 2 and "2 cells, 1 of them finished" in error


def test_a_trial_that_fails_leaves_its_cells_out(folder, tmp_path, realm_cli) -> None:
    choose = {"realm": {"expertise_learning_rate": [0.1]}}
    spec = write_spec(tmp_path / "some.yaml", str(tmp_path / "no-model"), {"method": "realm"}, choose=choose)
    code, _, error = realm_cli("lab", "run", spec, "--data", folder / "data", "--results", tmp_path / "r.sqlite")
    assert code == 2 and "2 cells failed" in error and "no settings for it" in error


def test_results_of_other_data_are_not_mixed(command, uninterrupted, tmp_path, realm_cli) -> None:
    write_questions(tmp_path / "data", train=61)
    words = command(uninterrupted)
    words[words.index("--data") + 1] = str(tmp_path / "data")
    words[words.index("run") + 1] = str(write_spec(tmp_path / "more.yaml", "any", {"seeds": 1}))
    code, _, error = realm_cli(*words)
    assert code == 2 and "other data" in error and "--data" in error


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--engine", "dask"], "--engine dask"),
        (["--jobs", "0"], "--jobs 0"),
        (["--limit", "0"], "--limit 0"),
        (["--only", "realm"], "--only realm"),
        (["--only", "colour=red"], "method=realm,noisy"),
        (["--only", "method=majority"], "no cell"),
        (["--data", "nowhere"], "nowhere"),
    ],
)
def test_flags_that_make_no_sense(flags, said, command, tmp_path, realm_cli) -> None:
    code, _, error = realm_cli(*command(tmp_path / "results.sqlite", *flags))
    assert code == 2 and said in error and "Traceback" not in error


def test_the_specs_of_the_package_are_listed(realm_cli, tmp_path) -> None:
    code, out, _ = realm_cli("lab", "list", "--results", tmp_path / "none.sqlite")
    assert code == 0 and "noise-real" in out
    code, out, _ = realm_cli("lab", "list", "--json", "--results", tmp_path / "none.sqlite")
    listed = {entry["spec"]: entry for entry in json.loads(out)}
    assert code == 0 and listed["noise-real"]["cells"] > 10 and listed["noise-real"]["finished"] == 0
    code, _, error = realm_cli("lab", "run", "no-such-spec")
    assert code == 2 and "realm lab list" in error
