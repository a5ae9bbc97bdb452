"""One cell: what is trained, how it is calibrated, and what is kept of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from realm import simulate
from realm.comparison import training
from realm.comparison.cells import Cell, CellTables
from realm.comparison.compare import TableData
from realm.comparison.training import CellResult, calibrated, rank_correlation, train_cell
from realm.crowd.engine import log_softmax
from realm.data import Annotations
from realm.metrics import evaluate
from realm.runs import Run
from realm.scorers.scoring import Scores
from tests.tiny import crowd

SETTINGS = {"learning_rate": 1e-2, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1}
ACCURACIES = np.array([0.9, 0.5, 0.1])


@dataclass(frozen=True)
class PoolData(TableData):
    """Simulated annotators over items with gold; the oracle gets the items alone."""

    gold_apart: Annotations | None = None

    def load(self, method: str, seed: int) -> CellTables:
        if method == "oracle":
            return CellTables(self.annotations.keep_annotations(np.zeros(0, np.int64)), self.test)
        table = simulate(self.annotations, ACCURACIES, regime="shared", seed=seed)  # type: ignore[arg-type]
        return CellTables(table, self.test, ACCURACIES[:, None], gold_apart=self.gold_apart)


@pytest.fixture(scope="module")
def data() -> PoolData:
    return PoolData(crowd(60), crowd(40, seed=5))


@pytest.fixture(scope="module")
def make(tiny_model, data):
    def cell(**changed: Any) -> Cell:
        values = {"model": tiny_model("bert"), "data": data, "method": "realm", "seed": 0, "steps": 5}
        return Cell(**{**values, "settings": SETTINGS, **changed})

    return cell


def test_everything_worth_keeping_is_kept(make, tmp_path) -> None:
    gradient = {**SETTINGS, "expertise_update": "gradient", "channel": "uniform"}
    cell = make(curve=2, settings={**gradient, "expertise_learning_rate": 0.5})
    result = train_cell(cell, run=tmp_path / "run")
    assert result.config["settings"]["expertise_learning_rate"] == 0.5 and result.config["settings"]["max_steps"] == 5
    assert {"torch", "transformers"} <= set(result.config["versions"]) and result.seconds > 0
    assert any("trained for 5 steps" in text for text in result.config["warnings"])
    answers = result.tables["answers"]
    assert len(answers) == 40 == result.metrics["n_test"] and (answers.dtypes == ["int32", "int32", "float32"]).all()
    assert result.metrics["accuracy"] == pytest.approx((answers["label"] == answers["gold"]).mean())
    assert result.metrics["log_loss"] == pytest.approx(-answers["gold_log_prob"].mean(), rel=1e-5)
    curve = result.tables["curve"]
    assert curve["step"].tolist() == [0, 2, 4, 5] and {"macro_f1", "log_loss"} <= set(curve)
    assert curve["log_loss"].iloc[-1] == result.metrics["log_loss"]
    expertise = result.tables["expertise"]
    assert expertise["annotator"].tolist() == ["a1", "a2", "a3"] and (expertise["annotations"] == 60).all()
    assert expertise["pool_accuracy"].tolist() == ACCURACIES.tolist()
    assert (expertise["true_accuracy"] - expertise["pool_accuracy"]).abs().max() < 0.2
    assert (expertise["low"] <= expertise["accuracy"]).all() and (expertise["accuracy"] <= expertise["high"]).all()
    ranks = rank_correlation(expertise["true_accuracy"], expertise["expertise_trained"])
    assert (result.metrics["spearman_trained"], result.metrics["spearman_max"]) == ranks
    record = json.loads(json.dumps(result.record(), allow_nan=False))
    assert record["content"]["settings"]["learning_rate"] == 0.01 and record["id"] == cell.id
    run = Run.open(tmp_path / "run")
    assert set(run.expertise["annotator"]) == {"a1", "a2", "a3"} and run.metrics["test"]["items"] == 40


def same(first: CellResult, second: CellResult) -> bool:
    return first.tables["answers"].equals(second.tables["answers"])


def test_neither_a_curve_nor_a_run_folder_changes_the_answers(make, tmp_path) -> None:
    plain, watched = (train_cell(make(curve=curve, steps=4)) for curve in (None, 1))
    written = train_cell(make(steps=4, settings={**SETTINGS, "cross_fit": 0}), run=tmp_path / "run")
    assert "curve" not in plain.tables and len(watched.tables["curve"]) == 5
    assert same(plain, watched) and same(plain, written)
    assert plain.tables["expertise"].equals(watched.tables["expertise"])


def test_methods_without_a_channel_keep_no_expertise(make) -> None:
    result = train_cell(make(method="oracle"))
    assert set(result.tables) == {"answers"} and "spearman" not in result.metrics
    assert result.config["gold_used"] is True and result.config["annotations"] == 0


# -------------------------------------------------------------------- calibration


@pytest.mark.parametrize("method", ["realm", "noisy", "oracle"])
def test_figures_are_those_of_the_calibrated_model(method, make, monkeypatch) -> None:
    trainers: list[Any] = []
    quiet_trainer = training.quiet_trainer

    def kept(*arguments: Any, **settings: Any) -> Any:
        trainers.append(quiet_trainer(*arguments, **settings))
        return trainers[-1]

    monkeypatch.setattr(training, "quiet_trainer", kept)
    result = train_cell(make(method=method, steps=20))
    [trainer] = trainers
    raw = trainer.test_scores()
    done = calibrated(trainer, raw)
    assert result.metrics["log_loss"] == evaluate(trainer.test, done)["log_loss"]
    assert (done.labels == raw.labels).all()
    if method == "realm":  # by the trainer itself: not twice
        np.testing.assert_allclose(done.log_probs, raw.log_probs, rtol=1e-6)


@pytest.mark.parametrize("already", [1.0, 2.0, 3.0])
def test_the_temperature_is_that_of_the_model_of_annotators_for_every_method(already: float) -> None:
    """A trainer that calibrates (by 3) and one that does not come out alike."""
    log_probs = log_softmax(np.random.default_rng(0).normal(size=(8, 4)))
    trainer: Any = SimpleNamespace(annotations=crowd(8), temperature=already, report_model=lambda: (None, 3.0, None))
    scores = calibrated(trainer, Scores(log_softmax(log_probs / already)))
    np.testing.assert_allclose(scores.log_probs, log_softmax(log_probs / 3))


def test_where_there_is_gold_alone_it_is_calibrated_to_that() -> None:
    table = crowd(40).keep_annotations(np.zeros(0, np.int64))
    sure = np.full((40, 4), -9.0)
    sure[:, 0] = np.log1p(-3 * np.exp(-9))
    trainer: Any = SimpleNamespace(annotations=table, temperature=1.0, out_of_sample=lambda: sure)
    confidence = calibrated(trainer, Scores(sure)).confidence
    assert (confidence == confidence[0]).all() and confidence[0] < 0.6, "right on a quarter of the items"


# -------------------------------------------------------------------- the lab's cells


def test_a_model_fitted_to_gold_first_has_an_opinion(make, data, monkeypatch) -> None:
    asked = []
    train = training.RealmTrainer.train

    def recording(trainer: Any, *arguments: Any, **settings: Any) -> Any:
        asked.append((trainer.args.method, trainer.scorer.new_head, trainer.args.max_steps))
        return train(trainer, *arguments, **settings)

    monkeypatch.setattr(training.RealmTrainer, "train", recording)
    plain, fitted = train_cell(make()), train_cell(make(data=replace(data, gold_apart=crowd(24, seed=9))))
    assert asked == [("realm", True, 5), ("oracle", True, training.OPINION_STEPS), ("realm", False, 5)]
    assert not same(plain, fitted)


def test_several_tasks_are_scored_together_and_one_by_one(make, tiny_model) -> None:
    table = crowd(80, (0.9, 0.8, 0.3)).to_pandas()
    tasks = Annotations.from_pandas(table.assign(task=[f"t{row // 120}" for row in range(240)]))
    joint = TableData(*tasks.split(0.5))
    matrix = train_cell(make(data=joint))
    assert set(matrix.metrics) >= {"accuracy/t0", "accuracy/t1"}
    shares = np.bincount(joint.test.item_tasks) / joint.test.n_items
    both = shares @ [matrix.metrics["accuracy/t0"], matrix.metrics["accuracy/t1"]]
    assert matrix.metrics["accuracy"] == pytest.approx(both)
    assert matrix.tables["expertise"].groupby("annotator")["expertise_trained"].nunique().max() == 2


# -------------------------------------------------------------------- ranking annotators


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
