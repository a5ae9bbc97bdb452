"""`realm lab list` and `realm lab run`: what is missing is run, whatever stopped it before."""

from __future__ import annotations

import json
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
from tests.forked import command_line, start
from tests.lab.small_benchmark import write_questions, write_spec
from tests.tiny import crowd


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
    process = start(command_line, command(results))
    deadline = time.monotonic() + 240
    while not results.exists() or len(finished(results, cells)) < 2:
        assert process.is_alive() and time.monotonic() < deadline
        time.sleep(0.02)
    process.kill()
    process.join()
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
    process = start(command_line, command(results, "--jobs", 2), may_start_others=True)
    deadline = time.monotonic() + 240
    while not results.exists() or len(finished(results, cells)) < 3:
        assert process.is_alive() and time.monotonic() < deadline
        time.sleep(0.05)
    workers = children(process.pid)
    process.kill()
    process.join()
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
    assert code == 2 and "2 cells failed" in error and "its settings could not be chosen" in error


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


LISTED = """
import sys
from realm.cli.main import app
from typer.testing import CliRunner
result = CliRunner().invoke(app, ["lab", "list", "--results", "none.sqlite"])
print(result.exit_code, [name for name in ("torch", "transformers", "datasets") if name in sys.modules])
print(result.output)
"""


def test_listing_the_specs_loads_no_torch(tmp_path) -> None:
    """What takes seconds is the import of torch and transformers, and nothing is trained here."""
    done = subprocess.run([sys.executable, "-c", LISTED], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.startswith("0 []\n"), done.stdout + done.stderr
    assert "noise-real" in done.stdout


def test_a_run_says_where_the_log_is_how_far_it_is_and_which_table_to_print(
    folder, tmp_path, realm_cli, tiny_model, monkeypatch
) -> None:
    monkeypatch.setattr("realm.cli.progress.SOONEST", 0.0)
    spec = write_spec(tmp_path / "plain.yaml", tiny_model("seq2seq"), {"method": ["noisy", "oracle"]})
    results = tmp_path / "results.sqlite"
    code, _, error = realm_cli("lab", "run", spec, "--data", folder / "data", "--results", results)
    assert code == 0, error
    log = results.with_suffix(".log").read_text()
    for text in (error, log):
        assert "noisy seed 0 3 steps, training: 2 of 3 (67%)" in text and "[2/2]" in text
    assert f"Progress is logged to {results.with_suffix('.log')}" in " ".join(error.split())
    assert f"The table (rivals, since the spec names none): realm lab table {spec} --results {results}" in error
    code, out, error = realm_cli("lab", "table", spec, "--results", results)
    assert code == 0 and "| Noisy |" in out and "missing" not in out, error
    code, out, _ = realm_cli("lab", "table", folder / "tiny.yaml", "--results", results)
    assert code == 0 and f"--data {folder / 'data'} --results {results}" in out, "as it was given before"


def test_a_table_that_there_is_not_is_refused_before_anything_is_trained(folder, tmp_path, realm_cli) -> None:
    spec = write_spec(tmp_path / "some.yaml", "any", table="nonesuch")
    code, _, error = realm_cli("lab", "run", spec, "--data", folder / "data", "--results", tmp_path / "r.sqlite")
    assert code == 2 and "there is no table 'nonesuch'" in error and not (tmp_path / "r.sqlite").exists()


def test_a_model_that_must_be_fetched_is_said(capsys, tmp_path, monkeypatch) -> None:
    import huggingface_hub

    from realm.cli.models import say_where_model_comes_from

    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_: None)
    say_where_model_comes_from("google/flan-t5-base")
    assert "google/flan-t5-base is not on this machine yet" in capsys.readouterr().err
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_: "/cache/config.json")
    say_where_model_comes_from("google/flan-t5-base")
    say_where_model_comes_from(str(tmp_path))
    assert capsys.readouterr().err == ""


def test_tables_of_ones_own_are_a_benchmark(tmp_path, realm_cli, tiny_model) -> None:
    crowd(40).to_pandas().rename(columns={"annotator": "worker", "text": "sentence"}).to_csv(
        tmp_path / "train.csv", index=False
    )
    test = crowd(20, seed=5).to_pandas().rename(columns={"text": "sentence"})[["item", "sentence", "gold"]]
    test.drop_duplicates().to_csv(tmp_path / "test.csv", index=False)
    columns = {"text": "sentence", "annotator": "worker"}
    mine = {"train": "train.csv", "test": "test.csv", "columns": columns, "instruction": "Which colour?"}
    own = {"benchmark": "mine", "pool": "all", "regime": "shared", "method": ["noisy", "majority"], "noise": None}
    spec = write_spec(tmp_path / "own.yaml", tiny_model("bert"), own, benchmarks={"mine": mine})
    results = tmp_path / "r.sqlite"
    code, _, error = realm_cli("lab", "run", spec, "--results", results)
    assert code == 0 and "2 of 2 cells are finished" in error, error
    code, out, _ = realm_cli("lab", "table", spec, "--results", results)
    assert code == 0 and "| Noisy | MV |" in out and "| shared | " in out and "missing" not in out
    cells = expand(load_spec(spec))
    assert Results.open(results).config(cells[0].id)["items"] == 40

    with (tmp_path / "train.csv").open("a") as file:
        file.write("i40,default,old red tree 99,w0,red,red\n")
    code, out, _ = realm_cli("lab", "table", spec, "--results", results)
    assert "2 of 2 cells are missing" in out and "--data" not in out, "results of the table as it was are not shown"
    code, _, error = realm_cli("lab", "run", spec, "--results", results)
    assert code == 2 and "holds cells of mine that were trained on other data" in " ".join(error.split())


def test_the_specs_of_the_package_are_listed(realm_cli, tmp_path) -> None:
    code, out, _ = realm_cli("lab", "list", "--results", tmp_path / "none.sqlite")
    assert code == 0 and "noise-real" in out
    code, out, _ = realm_cli("lab", "list", "--json", "--results", tmp_path / "none.sqlite")
    listed = {entry["spec"]: entry for entry in json.loads(out)}
    assert code == 0 and listed["noise-real"]["cells"] > 10 and listed["noise-real"]["finished"] == 0
    code, _, error = realm_cli("lab", "run", "no-such-spec")
    assert code == 2 and "realm lab list" in error
