"""`RealmClassifier`: scikit-learn's own checks, and what it learns from annotations."""

from __future__ import annotations

import builtins
import importlib
import sys

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn")
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

from realm import Annotations, RealmClassifier, RealmError, estimate

NOT_APPLICABLE: dict[str, str] = {}
"""Checks of scikit-learn that do not apply, with the reason: none."""
SKIPPED = {"check_array_api_input"}  # scikit-learn itself skips it unless SCIPY_ARRAY_API is set


@pytest.mark.parametrize("estimator", [None, DecisionTreeClassifier(random_state=0)], ids=["default", "tree"])
@pytest.mark.filterwarnings("ignore")
def test_it_passes_the_checks_of_scikit_learn(estimator) -> None:
    results = check_estimator(RealmClassifier(estimator), on_fail=None, expected_failed_checks=NOT_APPLICABLE)
    assert len(results) > 45
    failed = {each["check_name"]: each["exception"] for each in results if each["status"] != "passed"}
    assert set(failed) <= SKIPPED, failed


def crowd(seed: int = 0, n: int = 500, options: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, truth and a label matrix by three who read and three who mostly give one answer, half of it missing."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, 5))
    truth = (features @ rng.normal(size=(5, options)) + 0.3 * rng.normal(size=(n, options))).argmax(axis=1)
    labels = np.where(rng.random((n, 6)) < 0.85, truth[:, None], rng.integers(0, options, (n, 6)))
    labels[:, 3:] = np.where(rng.random((n, 3)) < 0.9, options - 1, labels[:, 3:])
    return features, truth, np.where(rng.random((n, 6)) < 0.5, labels, np.nan)


def right(classifier, features: np.ndarray, truth: np.ndarray) -> float:
    return float((np.asarray(classifier.predict(features)) == truth).mean())


def majority(labels: np.ndarray, options: int = 2) -> np.ndarray:
    return np.stack([(labels == k).sum(axis=1) for k in range(options)]).argmax(axis=0)


@pytest.mark.parametrize("options", [2, 3])
def test_it_learns_whom_to_trust_and_beats_the_vote(options: int) -> None:
    features, truth, labels = crowd(options=options)
    fitted = RealmClassifier().fit(features[:400], labels[:400])
    voted = LogisticRegression().fit(features[:400], majority(labels[:400], options))
    assert right(fitted, features[400:], truth[400:]) > right(voted, features[400:], truth[400:]) + 0.1
    assert fitted.accuracy_[:3].min() > fitted.accuracy_[3:].max() + 0.1
    assert (fitted.posterior_.argmax(axis=1) == truth[:400]).mean() > 0.85
    assert fitted.classes_.tolist() == list(range(options)) and fitted.posterior_.shape == (400, options)
    np.testing.assert_allclose(fitted.predict_proba(features).sum(axis=1), 1)
    assert fitted.n_iter_ <= 5


def test_annotations_and_a_matrix_give_the_same() -> None:
    features, _, labels = crowd()
    frame = pd.DataFrame(np.where(np.isnan(labels), None, np.where(labels == 1, "yes", "no")), columns=list("abcdef"))
    by_frame = RealmClassifier().fit(features, frame)
    table = Annotations.from_matrix(frame)
    by_table = RealmClassifier().fit(features, table)
    by_numbers = RealmClassifier().fit(features, np.where(np.isnan(labels), -1, labels).astype(int))
    for other in (by_table, by_numbers):
        np.testing.assert_allclose(other.posterior_, by_frame.posterior_, atol=1e-12)
        np.testing.assert_allclose(other.predict_proba(features), by_frame.predict_proba(features), atol=1e-9)
    assert by_frame.annotators_.tolist() == list("abcdef") and by_frame.classes_.tolist() == ["no", "yes"]
    assert set(by_table.predict(features)) == {"no", "yes"} and set(by_numbers.predict(features)) == {0, 1}


def test_labels_in_another_order_than_the_alphabet() -> None:
    features, truth, labels = crowd()
    item, annotator = np.nonzero(~np.isnan(labels))
    table = Annotations.from_arrays(item, annotator, labels[item, annotator].astype(int), ["yes", "no"])
    fitted = RealmClassifier().fit(features, table)
    assert fitted.classes_.tolist() == ["yes", "no"]
    assert right(fitted, features, np.array(["yes", "no"])[truth]) > 0.85
    picked = fitted.classes_[fitted.predict_proba(features).argmax(axis=1)]
    assert (picked == fitted.predict(features)).all()


def test_its_annotators_are_those_of_estimate_on_its_probabilities() -> None:
    features, _, labels = crowd()
    fitted = RealmClassifier(rounds=1).fit(features, labels)
    again = estimate(fitted.annotations_, np.exp(fitted.estimate_.log_prior))
    np.testing.assert_allclose(again.accuracy[:, 0], fitted.accuracy_, atol=0.01)
    np.testing.assert_allclose(again.posterior, fitted.posterior_, atol=0.05)


@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(StandardScaler(), LogisticRegression()),
        RandomForestClassifier(n_estimators=30, min_samples_leaf=5, random_state=0),
        KNeighborsClassifier(15),  # takes no weights: likeliest labels
    ],
    ids=["pipeline", "forest", "neighbours"],
)
def test_any_estimator_with_probabilities_will_do(estimator) -> None:
    features, truth, labels = crowd()
    fitted = RealmClassifier(estimator, rounds=2).fit(features[:400], labels[:400])
    assert right(fitted, features[400:], truth[400:]) > 0.75
    assert not hasattr(estimator, "classes_"), "the estimator given is left as it is"


def test_one_label_per_item() -> None:
    features, truth, labels = crowd(n=900)
    labels[np.arange(900)[:, None] % 6 != np.arange(6)] = np.nan
    some = ~np.isnan(labels).all(axis=1)
    fitted = RealmClassifier().fit(features[some], labels[some])
    voted = LogisticRegression().fit(features[some], majority(labels[some]))
    assert right(fitted, features, truth) >= right(voted, features, truth)


def test_items_without_labels_and_a_rare_class() -> None:
    features, truth, labels = crowd(options=3)
    labels[labels == 0] = 1
    labels[7], truth[7] = [0, 0, 0, np.nan, np.nan, np.nan], 0
    labels[300:] = np.nan
    fitted = RealmClassifier().fit(features, labels)
    assert fitted.posterior_.shape == (500, 3) and np.isfinite(fitted.posterior_).all()


def test_the_same_seed_gives_the_same_and_tools_of_scikit_learn_work() -> None:
    features, truth, labels = crowd(n=200)
    one, two = (RealmClassifier(random_state=3).fit(features, labels).predict_proba(features) for _ in range(2))
    assert (one == two).all()
    assert cross_val_score(RealmClassifier(), features, truth).mean() > 0.8
    search = GridSearchCV(RealmClassifier(LogisticRegression()), {"estimator__C": [0.1, 1.0], "rounds": [1]}, cv=2)
    assert search.fit(features, truth).best_params_["rounds"] == 1


def test_the_table_of_annotators() -> None:
    features, _, labels = crowd()
    frame = RealmClassifier().fit(features, labels).expertise()
    assert {"annotator", "accuracy", "low", "high", "annotations"} <= set(frame.columns) and len(frame) == 6


def test_what_cannot_be_fitted_is_said() -> None:
    features, _, labels = crowd(n=60)
    with pytest.raises(RealmError, match="of X's 50 items"):
        RealmClassifier().fit(features[:50], labels)
    with pytest.raises(RealmError, match="predict_proba"):
        RealmClassifier(LinearSVC()).fit(features, labels)
    with pytest.raises(RealmError, match="two labels or more"):
        RealmClassifier().fit(features, np.ones((60, 2)))


def test_without_scikit_learn_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("sklearn"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.delitem(sys.modules, "realm.training.classifier")
    with pytest.raises(RealmError, match="pip install scikit-learn"):
        importlib.import_module("realm.training.classifier")
