"""One cell: what is trained, and what is kept of it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from realm.comparison.cells import Cell, cell_config
from realm.comparison.significance import rank_correlation
from realm.comparison.training import LIKELIHOOD, Job, train_cell
from realm.lab.benchmark_cells import benchmark_cell
from tests.lab.small_benchmark import write_questions

SETTINGS = {"learning_rate": 1e-3, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("data")
    write_questions(place, "obqa")
    write_questions(place, "piqa", labels=2)
    return place


@pytest.fixture(scope="module")
def make(folder, tiny_model):
    def cell(**changed) -> Cell:
        said = {"model": tiny_model("seq2seq"), "benchmark": "obqa", "noise": "uniform", "pool": "D3"}
        said |= {"regime": "shared", "method": "realm", "seed": 0, "steps": 5, "settings": SETTINGS}
        return benchmark_cell(**{**said, **changed}, folder=folder)

    return cell


def test_everything_worth_keeping_is_kept_as_plain_values(make, folder) -> None:
    cell = make(curve=2, choose={"expertise_learning_rate": (0.1, 0.5)})
    result = train_cell(Job(cell, {"expertise_learning_rate": 0.5}))
    assert result.cell == cell and result.selected_settings == {"expertise_learning_rate": 0.5}
    assert result.config["settings"]["expertise_learning_rate"] == 0.5 and result.config["settings"]["max_steps"] == 5
    assert {"torch", "transformers"} <= set(result.config["versions"]) and result.seconds > 0
    assert result.labels.dtype == result.gold.dtype == np.int32 and len(result.labels) == len(result.gold) == 40
    assert result.metrics["accuracy"] == pytest.approx((result.labels == result.gold).mean())
    assert result.metrics["n_test"] == 40
    assert [step for step, _ in result.curve] == [0, 2, 4, 5]
    assert result.curve[-1][1] == result.metrics["accuracy"]
    assert [record["annotator"] for record in result.expertise] == ["a1", "a2", "a3"]
    assert [record["pool_accuracy"] for record in result.expertise] == [0.9, 0.5, 0.1]
    for record in result.expertise:
        assert abs(record["true_accuracy"] - record["pool_accuracy"]) < 0.2 and record["annotations"] == 60
    steps = [step for step, _ in result.trajectory["points"]]
    assert steps == sorted(steps) and steps[-1] == 5
    last = np.array(result.trajectory["points"][-1][1])[:, 0]
    assert last == pytest.approx([record["expertise_trained"] for record in result.expertise], abs=1e-4)
    truth = [record["true_accuracy"] for record in result.expertise]
    trained = [record["expertise_trained"] for record in result.expertise]
    assert (result.metrics["spearman_trained"], result.metrics["spearman_max"]) == rank_correlation(truth, trained)
    kept = [result.metrics, result.expertise, result.curve, result.trajectory, result.config]
    assert json.loads(json.dumps(kept, allow_nan=False, default=str))


def test_the_same_cell_gives_the_same_answers_whatever_the_curve(make, folder) -> None:
    plain, watched = (train_cell(Job(make(curve=curve, steps=4), {})) for curve in (None, 1))
    assert plain.curve == [] and len(watched.curve) == 5
    assert (plain.labels == watched.labels).all() and plain.expertise == watched.expertise


def test_methods_without_a_channel_keep_no_expertise(make, folder) -> None:
    result = train_cell(Job(make(method="oracle"), {}))
    assert result.expertise == [] and result.trajectory == {} and "spearman" not in result.metrics
    assert result.config["gold_used"] is True


def test_a_trial_trains_on_nine_tenths_and_keeps_the_likelihood(make, folder) -> None:
    trial = make(choose={"expertise_learning_rate": (0.5,)}, trial=True)
    result = train_cell(Job(trial, {"expertise_learning_rate": 0.5}))
    assert set(result.metrics) == {LIKELIHOOD} and -5 < result.metrics[LIKELIHOOD] < 0
    assert result.config["items"] == 54 and len(result.labels) == 0


def test_one_number_per_annotator_over_all_tasks(make, folder) -> None:
    joint = {"benchmark": "obqa+piqa", "pool": "D1", "regime": "shared"}
    matrix = train_cell(Job(make(**joint), {}))
    scalar = train_cell(Job(make(**joint, shared_tasks=True), {}))
    assert set(matrix.metrics) >= {"accuracy/obqa", "accuracy/piqa"}
    both = (matrix.metrics["accuracy/obqa"] + matrix.metrics["accuracy/piqa"]) / 2
    assert matrix.metrics["accuracy"] == pytest.approx(both)
    for name in ("expertise_trained", "expertise"):
        assert len({record[name] for record in scalar.expertise}) == 2
        assert len({record[name] for record in matrix.expertise}) == 4
    assert [r["pool_accuracy"] for r in scalar.expertise] == [0.9, 0.1, 0.1, 0.9]
    ways = np.array([point for _, point in scalar.trajectory["points"]])
    assert (ways[..., 0] == ways[..., 1]).all() and np.ptp(ways[:, 0, 0]) > 0
    habits = train_cell(Job(make(**joint, shared_tasks=True, settings={"channel": "habit"}), {}))
    assert habits.trajectory["points"] != scalar.trajectory["points"], "the channel of the settings is trained"


def test_a_setting_of_the_cell_wins_over_the_benchmark(make, tmp_path) -> None:
    said = cell_config(make(settings={"instruction": "Mine."}), tmp_path, "Theirs.")
    assert said.instruction == "Mine." and cell_config(make(), tmp_path, "Theirs.").instruction == "Theirs."


@pytest.mark.parametrize(
    ("truth", "learned", "expected"),
    [
        ([0.9, 0.1, 0.1], [3, 2, 1], (0.866, 0.866)),
        ([0.9, 0.1, 0.1], [1, 2, 3], (-0.866, 0.866)),
        ([0.9, 0.5, 0.1], [3, 2, 1], (1, 1)),
        ([0.9, 0.9, 0.1, 0.1], [4, 3, 2, 1], (0.894, 0.894)),
    ],
)
def test_rank_correlation_and_the_most_it_can_be(truth, learned, expected) -> None:
    assert rank_correlation(truth, learned) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(("truth", "learned"), [([0.9, 0.1], [2, 1]), ([0.5] * 3, [1, 2, 3]), ([1, 2, 3], [0.5] * 3)])
def test_rank_correlation_where_there_is_none(truth, learned) -> None:
    assert rank_correlation(truth, learned) == (None, None)


def test_a_cell_leaves_the_loggers_as_they_were(monkeypatch) -> None:
    """Cells run in this process too, and what comes after them must still be heard."""
    import logging

    from realm.comparison import engines
    from realm.errors import RealmError

    def fails(*_: object) -> None:
        assert logging.getLogger("realm").level == logging.ERROR
        raise RealmError("no such thing")

    before = logging.getLogger("realm").level
    monkeypatch.setattr(engines, "train_cell", fails)
    assert isinstance(engines.attempt(None), RealmError)
    assert logging.getLogger("realm").level == before
