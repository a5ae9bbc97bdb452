"""The results file: each cell whole and once, whatever happens; reading executes nothing."""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from realm.comparison.cells import Cell
from realm.comparison.results import Results
from realm.errors import RealmError
from tests.forked import start


@dataclass(frozen=True)
class FakeData:
    """Data that is never loaded."""

    origin: str = "obqa"

    def describe(self) -> dict[str, str]:
        return {"benchmark": self.origin}

    def fingerprint(self) -> str:
        return "f0"


def cell(seed: int, **changed) -> Cell:
    values = {"model": "m", "data": FakeData(), "method": "realm", "seed": seed, "steps": 9}
    return Cell(**{**values, "settings": {"train_layers": 2}, **changed})


def result(of: Cell, accuracy: float = 0.5, size: int = 40, **changed) -> SimpleNamespace:
    record = {"annotator": "a1", "task": "t", "true_accuracy": 0.9, "expertise": None}
    made = {
        "cell": of,
        "selected_settings": {"learning_rate": 0.1},
        "metrics": {"accuracy": accuracy, "n_test": size, "spearman": None},
        "expertise": [record, {**record, "annotator": "a2"}],
        "curve": [[0, 0.1], [5, 0.2]],
        "trajectory": {"annotators": ["a1", "a2"], "tasks": ["t"], "points": [[1, [[0.5], [0.6]]]]},
        "config": {"versions": {"torch": "2"}},
        "data": "f0",
        "weights": "w0",
        "seconds": 1.5,
        "finished_at": "2030-01-01T00:00:00.000+00:00",
        "labels": np.arange(size, dtype=np.int32) % 3,
        "gold": np.zeros(size, dtype=np.int32),
    }
    made["gold_log_probs"] = np.log(np.linspace(0.1, 1, size))
    return SimpleNamespace(**{**made, **changed})


@pytest.fixture
def results(tmp_path) -> Results:
    return Results.open(tmp_path / "deep" / "results.sqlite", create=True)


def test_what_is_added_is_there_for_a_reader(results) -> None:
    cells = [cell(0), cell(1), cell(2)]
    assert results.missing(cells) == cells and results.frame(cells).empty
    assert results.add(result(cells[1], accuracy=0.25))
    np.testing.assert_allclose(results.gold_log_probs(cells[1].id), np.log(np.linspace(0.1, 1, 40)), rtol=1e-6)
    reader = Results.open(results.path)
    assert reader.missing(cells) == [cells[0], cells[2]]
    (row,) = reader.frame(cells).to_dict("records")
    assert row["id"] == cells[1].id and row["seed"] == 1 and row["accuracy"] == 0.25 and row["method"] == "realm"
    assert (
        row["train_layers"] == 2
        and row["learning_rate"] == 0.1
        and row["selected_settings"] == '{"learning_rate": 0.1}'
    )
    assert row["versions"] == '{"torch": "2"}' and row["seconds"] == 1.5 and row["data"] == "f0"
    assert row["weights"] == "w0" and reader.weights_of("m") == {"w0"} and reader.weights_of("n") == set()
    labels, gold = reader.predictions(cells[1].id)
    assert labels.tolist() == [i % 3 for i in range(40)] and not gold.any()
    assert reader.expertise([cells[1].id])["annotator"].tolist() == ["a1", "a2"]
    assert reader.curves([cells[1].id]).values.tolist() == [[cells[1].id, 0, 0.1], [cells[1].id, 5, 0.2]]
    assert reader.trajectories([cells[1].id])[["annotator", "expertise"]].values.tolist() == [["a1", 0.5], ["a2", 0.6]]
    assert reader.config(cells[1].id)["versions"] == {"torch": "2"}
    assert reader.data_of("obqa") == {"f0"} and reader.data_of("piqa") == set()


def test_a_cell_is_kept_once(results) -> None:
    assert results.add(result(cell(0), accuracy=0.1))
    assert not results.add(result(cell(0), accuracy=0.9))
    assert results.frame([cell(0)])["accuracy"].tolist() == [0.1]


def test_rows_come_in_the_order_asked_for(results) -> None:
    cells = [cell(seed) for seed in range(1200)]
    results._connection.execute("PRAGMA synchronous = OFF")
    for made in reversed(cells):
        results.add(result(made))
    assert results.frame(cells)["seed"].tolist() == list(range(1200))
    assert results.missing([*cells, cell(1200)]) == [cell(1200)]


def test_what_json_cannot_say_is_not_half_written(results) -> None:
    with pytest.raises(ValueError):
        results.add(result(cell(0), accuracy=float("nan")))
    assert results.missing([cell(0)]) == [cell(0)] and results.add(result(cell(0)))


def add_all(path: str, seeds: list[int]) -> None:
    results = Results.open(path, create=True)
    for seed in seeds:
        results.add(result(cell(seed)))


def test_two_processes_may_fill_one_file(tmp_path) -> None:
    """Every cell is there once, whoever was first, from the making of the file on."""
    path, seeds = tmp_path / "results.sqlite", list(range(30))
    both = [start(add_all, str(path), order) for order in (seeds, seeds[::-1])]
    for process in both:
        process.join(120)
    assert [process.exitcode for process in both] == [0, 0]
    reader = Results.open(path)
    assert not reader.missing([cell(seed) for seed in seeds]) and len(reader.frame([cell(s) for s in seeds])) == 30


def test_all_cells_can_be_forgotten(results) -> None:
    results.add(result(cell(0)))
    results.clear()
    assert results.missing([cell(0)]) == [cell(0)] and results.add(result(cell(0)))


def test_a_reader_changes_nothing(results) -> None:
    with pytest.raises(RealmError, match=r"cannot be written: .*readonly"):
        Results.open(results.path).add(result(cell(0)))


@pytest.mark.parametrize("content", [b"accuracy,seed\n", b"SQLite format 3\x00" + b"\xff" * 500])
def test_a_file_that_is_no_database_is_left_alone(content, tmp_path) -> None:
    path = tmp_path / "results.csv"
    path.write_bytes(content)
    for create in (False, True):
        with pytest.raises(RealmError, match=r"results\.csv"):
            Results.open(path, create=create)
    assert path.read_bytes() == content


def test_other_databases_are_refused(tmp_path, results) -> None:
    sqlite3.connect(tmp_path / "other.sqlite").execute("CREATE TABLE cells (id)")
    for create in (False, True):
        with pytest.raises(RealmError, match="not a results file of"):
            Results.open(tmp_path / "other.sqlite", create=create)
    results._connection.execute("PRAGMA user_version = 99")
    with pytest.raises(RealmError, match="another version"):
        Results.open(results.path)


def test_no_file_or_no_cell(tmp_path, results) -> None:
    with pytest.raises(RealmError, match="no such file"):
        Results.open(tmp_path / "gone.sqlite")
    with pytest.raises(RealmError, match="no cell nonsense"):
        results.predictions("nonsense")


def test_a_schema_from_elsewhere_runs_nothing_of_ours(results) -> None:
    """A trigger in a file that somebody sent may not call functions with side effects."""
    results.add(result(cell(0)))
    assert results._connection.execute("PRAGMA trusted_schema").fetchone()[0] == 0
    assert Results.open(results.path)._connection.execute("PRAGMA trusted_schema").fetchone()[0] == 0


def write_without_end(path: Path) -> None:
    results = Results.open(path, create=True)
    for seed in range(100_000):
        results.add(result(cell(seed), accuracy=seed / 100_000, size=50_000))


def test_killed_while_writing_every_cell_is_whole_or_absent(tmp_path) -> None:
    path = tmp_path / "results.sqlite"
    for attempt in range(3):
        process = start(write_without_end, path)
        deadline = time.monotonic() + 300  # seconds; only ends a hang
        before = 0 if attempt == 0 else _count(path)
        while not path.exists() or _count(path) < before + 3:
            assert process.is_alive() and time.monotonic() < deadline
            time.sleep(0.02)
        time.sleep(0.013 * attempt)
        process.kill()
        process.join()
        results = Results.open(path, create=True)
        found = results.frame([cell(seed) for seed in range(_count(path))])
        assert len(found) == _count(path) and (found["accuracy"] * 100_000).round().tolist() == list(range(len(found)))
        assert all(len(results.predictions(id)[0]) == 50_000 for id in found["id"])
        assert results._connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


def _count(path: Path) -> int:
    try:
        return int(sqlite3.connect(path, timeout=60).execute("SELECT count(*) FROM cells").fetchone()[0])
    except sqlite3.OperationalError:  # the table is not made yet
        return 0
