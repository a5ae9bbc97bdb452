"""The values of the metrics, with scikit-learn as referee, and that a metric is one row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import accuracy_score, f1_score, log_loss, precision_recall_fscore_support
from sklearn.metrics import confusion_matrix as sklearn_confusion

from realm.data import Task
from realm.metrics import (
    BINS,
    LARGEST_MATRIX,
    METRICS,
    Metric,
    calibration_error,
    evaluate,
    figures_by_label,
    macro_f1,
)
from realm.scorers.scoring import Scores
from tests.tiny import crowd


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("labels", [2, 3, 7])
def test_macro_f1_is_that_of_scikit_learn(labels: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    truth = generator.integers(labels, size=30)
    answer = np.where(generator.random(30) < 0.6, truth, generator.integers(labels, size=30))
    assert macro_f1(truth, answer) == pytest.approx(f1_score(truth, answer, average="macro"), rel=1e-12)


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
    metrics = evaluate(table, scores)
    by_label = ["reliability", "labels", "confusion", "by_position"]
    assert list(metrics) == ["items", *(name for name in METRICS if name != "answer_mass"), *by_label]
    assert metrics["items"] == 50
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

    from realm.report.evaluation import evaluation

    shown = evaluation(metrics)
    assert shown is not None
    assert shown["rows"][0][1 + shown["columns"].index("#Error rate")] == f"{metrics['error_rate']:.1%}"


# -------------------------------------------------------------------- label by label


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40))
def test_figures_of_every_label_are_those_of_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    """All five labels are listed; one that is never true or never answered has None where scikit-learn makes it 0."""
    truth, answer = (np.array(column) for column in zip(*pairs, strict=True))
    figures = figures_by_label(truth, answer, tuple("abcde"))
    assert figures["confusion"] == sklearn_confusion(truth, answer, labels=range(5)).tolist()
    expected = precision_recall_fscore_support(truth, answer, labels=range(5), zero_division=np.nan)
    for row, precision, recall, _, support in zip(figures["labels"], *expected, strict=True):
        for value, other in ((row["precision"], precision), (row["recall"], recall)):
            assert (value is None) == bool(np.isnan(other)) and (value is None or value == pytest.approx(other))
        assert row["support"] == support and row["answered"] == (answer == "abcde".index(row["label"])).sum()
        assert (row["f1"] is None) == (row["support"] + row["answered"] == 0)
    means = [row["f1"] for row in figures["labels"] if row["f1"] is not None]
    assert np.mean(means) == pytest.approx(macro_f1(truth, answer))
    right = sum(row["recall"] * row["support"] for row in figures["labels"] if row["support"])
    assert right == pytest.approx((truth == answer).sum())


def test_the_matrix_of_very_many_labels_is_not_kept() -> None:
    for width, kept in ((LARGEST_MATRIX, True), (LARGEST_MATRIX + 1, False)):
        figures = figures_by_label(np.array([0, 1]), np.array([0, 0]), tuple(map(str, range(width))))
        assert (figures["confusion"] is not None) == kept and len(figures["labels"]) == width


def test_the_base_rate_is_the_accuracy_of_the_most_frequent_label(scored) -> None:
    table, scores = scored
    metrics = evaluate(table, scores)
    constant = np.log(np.eye(4)[np.bincount(table.gold).argmax()] * 0.97 + 0.01)
    always = evaluate(table, Scores(np.tile(constant, (50, 1))))
    assert metrics["base_rate"] == always["accuracy"] == always["base_rate"] == np.bincount(table.gold).max() / 50
    assert always["rarest_recall"] == 0 and metrics["rarest_recall"] > 0


def test_several_tasks_have_figures_of_their_own_and_means_over_them(scored) -> None:
    """Two tasks with label sets and one whose items list their own options: macro-F1 is the mean of the first two."""
    table, scores = scored
    labels = table.tasks[0].labels
    tasks = (Task("one", labels), Task("two", labels), Task("own", None))
    item_tasks = (np.arange(50) % 3).astype(np.int32)
    items = replace(table.items, tasks=tasks, item_tasks=item_tasks)
    metrics = evaluate(replace(table, items=items), scores)
    assert list(metrics["tasks"]) == ["one", "two", "own"] and "labels" not in metrics and "confusion" not in metrics
    parts = [(table.gold[item_tasks == task], scores.labels[item_tasks == task]) for task in range(3)]
    expected = [f1_score(truth, answer, average="macro") for truth, answer in parts]
    assert [metrics["tasks"][name]["macro_f1"] for name in ("one", "two")] == pytest.approx(expected[:2])
    assert metrics["macro_f1"] == pytest.approx(np.mean(expected[:2]))
    own = metrics["tasks"]["own"]
    assert own["macro_f1"] is None and own["by_position"] and not metrics["tasks"]["one"]["by_position"]
    assert own["labels"][0]["label"] == "option 1" and own["labels"][0]["support"] == (parts[2][0] == 0).sum()
    rates = [np.bincount(truth).max() for truth, _ in parts]
    assert metrics["base_rate"] == pytest.approx(sum(rates) / 50)
    assert metrics["tasks"]["one"]["base_rate"] == pytest.approx(rates[0] / len(parts[0][0]))
