"""The values of the metrics, with scikit-learn as referee, and that a metric is one row."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import accuracy_score, f1_score, log_loss

from realm.metrics import BINS, METRICS, Metric, calibration_error, evaluate, macro_f1
from realm.scorers.scoring import Scores
from tests.tiny import crowd


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("labels", [2, 3, 7])
def test_macro_f1_is_that_of_scikit_learn(labels: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    truth = generator.integers(labels, size=30)
    answer = np.where(generator.random(30) < 0.6, truth, generator.integers(labels, size=30))
    assert macro_f1(truth, answer) == pytest.approx(f1_score(truth, answer, average="macro"), rel=1e-12)


def test_macro_f1_of_labels_that_only_one_side_has() -> None:
    truth, answer = np.array([0, 0, 1, 1]), np.array([0, 0, 0, 3])
    assert macro_f1(truth, answer) == pytest.approx(f1_score(truth, answer, average="macro", zero_division=0))
    assert macro_f1(truth, answer) == pytest.approx((0.8 + 0 + 0) / 3)
    assert macro_f1(truth, truth) == 1


@pytest.mark.parametrize("seed", range(5))
def test_calibration_error_is_that_of_scikit_learns_curve(seed: int) -> None:
    """The gaps of scikit-learn's reliability curve, weighted by how many items each bin has."""
    generator = np.random.default_rng(seed)
    confidence = generator.beta(2, 1, size=400)
    right = generator.random(400) < confidence**1.5
    share_right, mean_confidence = calibration_curve(right, confidence, n_bins=BINS, strategy="uniform")
    edges = np.linspace(0, 1, BINS + 1)
    counts = np.histogram(confidence, edges)[0]
    expected = np.sum(np.abs(share_right - mean_confidence) * counts[counts > 0]) / 400
    assert expected > 0.01
    assert calibration_error(confidence, right) == pytest.approx(expected, rel=1e-9)


def test_calibration_error_by_hand() -> None:
    """Two bins: 3 items at 0.9 of which one is right, 1 item at 0.5 that is right. A confidence of 1 is in the last."""
    confidence, right = np.array([0.9, 0.9, 0.9, 0.5]), np.array([True, False, False, True])
    assert calibration_error(confidence, right) == pytest.approx((3 * abs(1 / 3 - 0.9) + 0.5) / 4)
    assert calibration_error(np.ones(4), np.ones(4, dtype=bool)) == 0
    assert calibration_error(np.ones(4), np.zeros(4, dtype=bool)) == 1


@pytest.fixture
def scored():
    """A test table of four labels with scores of a model that is right more often than not."""
    table = crowd(50)
    generator = np.random.default_rng(3)
    logits = generator.normal(size=(50, 4)) + 2.0 * np.eye(4)[table.gold]
    log_probs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    return table, Scores(log_probs)


def test_evaluate_gives_every_metric(scored) -> None:
    table, scores = scored
    metrics = evaluate(table, scores, generated=table.gold.astype(np.int64))
    assert list(metrics) == ["items", *(name for name in METRICS if name != "answer_mass")]
    assert metrics["items"] == 50 and metrics["generation_accuracy"] == 1
    assert metrics["accuracy"] == pytest.approx(accuracy_score(table.gold, scores.labels))
    assert 0.4 < metrics["accuracy"] < 1
    assert metrics["log_loss"] == pytest.approx(log_loss(table.gold, np.exp(scores.log_probs), labels=range(4)))
    assert metrics["macro_f1"] == pytest.approx(f1_score(table.gold, scores.labels, average="macro"))


def test_a_metric_is_one_row(scored, monkeypatch: pytest.MonkeyPatch) -> None:
    table, scores = scored
    errors = Metric("error_rate", "Error rate", lambda a: float(np.mean(a.truth != a.answer)), False, ".1%")
    monkeypatch.setitem(METRICS, "error_rate", errors)
    metrics = evaluate(table, scores)
    assert metrics["error_rate"] == pytest.approx(1 - metrics["accuracy"])

    from realm.report.wording import test_figures

    assert ("Error rate", format(metrics["error_rate"], ".1%")) in test_figures({"test": metrics})
