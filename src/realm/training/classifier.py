"""`RealmClassifier`: a scikit-learn classifier that learns from annotations, on features or around any estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from realm.crowd.estimate import Estimate, estimate
from realm.data import Annotations
from realm.data.matrix import read_matrix
from realm.errors import RealmError

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, clone
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import Pipeline
    from sklearn.utils import _safe_indexing, check_random_state, get_tags
    from sklearn.utils.validation import _num_samples, check_is_fitted, column_or_1d, has_fit_parameter
except ImportError as error:
    raise RealmError("RealmClassifier needs scikit-learn: pip install scikit-learn") from error

Floats = npt.NDArray[np.float64]
SETTLED, LEAST_WEIGHT = 0.005, 1e-3
"""Rounds end when this share of the labels changes, or less; soft labels below this weight would make the estimator's
table K times as long."""


class RealmClassifier(ClassifierMixin, BaseEstimator):
    """Alternates between annotators, judged by `realm.estimate` out of fold, and an estimator, fitted to its posterior.

    | argument | meaning |
    |---|---|
    | estimator | any classifier with `predict_proba`; None: `LogisticRegression(max_iter=1000)` |
    | rounds | how often both are fitted at most; they end earlier once the labels have settled |
    | folds, random_state | folds of the out-of-fold probabilities, and their seed |

    | attribute of a fitted one | meaning |
    |---|---|
    | classes_, estimator_ | the labels, and the estimator fitted to all items |
    | estimate_, annotations_ | `realm.estimate` of the annotations, with the out-of-fold probabilities |
    | posterior_, accuracy_, annotators_ | (items, K) of the true label; (annotators,) accuracies and names |

    An estimator that takes `sample_weight` learns the posterior as soft labels, any other the likeliest label.

    Example:
        >>> features = np.random.default_rng(0).normal(size=(90, 2))
        >>> truth = np.where(features[:, 0] > 0, 1.0, 0.0)
        >>> labels = np.stack([truth, truth, np.ones(90)], axis=1)  # two who read, and one who always says 1
        >>> labels[::3, 0] = np.nan  # labels that were not given
        >>> classifier = RealmClassifier().fit(features, labels)
        >>> int(classifier.accuracy_.argmin()), bool(classifier.score(features, truth) > 0.9)
        (2, True)
    """

    def __init__(self, estimator: Any = None, *, rounds: int = 5, folds: int = 5, random_state: int | None = 0) -> None:
        self.estimator, self.rounds, self.folds, self.random_state = estimator, rounds, folds, random_state

    def fit(self, X: Any, y: Any) -> RealmClassifier:
        """Learn from items (items, d), or whatever the estimator takes, and who labelled them how.

        | y | meaning |
        |---|---|
        | `Annotations` of one task | its items are the rows of X, in their order |
        | (items, annotators) | the label of each annotator; NaN, None or a negative number where there is none |
        | (items,) | plain labels: the estimator itself is fitted to them |
        """
        if isinstance(y, Annotations):
            annotations = y
            self.classes_ = np.array(y.tasks[0].labels)
        elif (labels := np.asarray(y)).ndim == 2 and labels.shape[1] > 1:
            annotations, self.classes_ = read_matrix(y)
        else:
            self.estimator_ = clone(self._base).fit(X, column_or_1d(y, warn=True))
            self.classes_ = self.estimator_.classes_
            return self
        if len(annotations.tasks) > 1 or self.classes_.size < 2 or annotations.n_items != _num_samples(X):
            raise RealmError(f"`y` must be of one task with two labels or more, and of X's {_num_samples(X)} items.")
        if not hasattr(self._base, "predict_proba"):
            raise RealmError(f"`estimator`: {type(self._base).__name__} has no `predict_proba`, which folds need.")
        self.annotations_, self.annotators_ = annotations, np.array(annotations.annotators)
        labelled = np.flatnonzero(annotations.annotations_per_item > 0)
        fold = check_random_state(self.random_state).permutation(annotations.n_items) % self.folds
        self.estimate_: Estimate = estimate(annotations)
        for round_number in range(max(self.rounds, 1)):
            self.n_iter_ = round_number + 1
            targets, probs = self.estimate_.apparent(annotations), np.empty_like(self.estimate_.posterior)
            for index in range(self.folds):
                fitted = self._fit_soft(X, targets, labelled[fold[labelled] != index])
                probs[fold == index] = self._probabilities(fitted, _safe_indexing(X, np.flatnonzero(fold == index)))
            self.estimate_ = estimate(annotations, probs)
            if (self.estimate_.apparent(annotations).argmax(axis=1) != targets.argmax(axis=1)).mean() <= SETTLED:
                break
        self.posterior_, self.accuracy_ = self.estimate_.posterior, self.estimate_.accuracy[:, 0]
        self.estimator_ = self._fit_soft(X, self.estimate_.apparent(annotations), labelled)
        return self

    @property
    def n_features_in_(self) -> int:
        """As many features as the estimator was fitted with."""
        return int(self.estimator_.n_features_in_)

    @property
    def _base(self) -> Any:
        return LogisticRegression(max_iter=1000) if self.estimator is None else self.estimator

    def _fit_soft(self, X: Any, targets: Floats, rows: npt.NDArray[np.int64]) -> Any:
        """The estimator fitted to the posterior (items, K) of some items."""
        fitted, name = clone(self._base), "sample_weight"
        last = fitted.steps[-1][1] if isinstance(fitted, Pipeline) else fitted
        if not has_fit_parameter(last, name):
            return fitted.fit(_safe_indexing(X, rows), self.classes_[targets[rows].argmax(axis=1)])
        name = name if last is fitted else f"{fitted.steps[-1][0]}__{name}"
        chosen = targets[rows] > LEAST_WEIGHT
        chosen[targets[rows].argmax(axis=0), np.arange(len(self.classes_))] = True  # no class is ever missing
        item, label = np.nonzero(chosen)
        weight = {name: np.maximum(targets[rows[item], label], 1e-12)}
        return fitted.fit(_safe_indexing(X, rows[item]), self.classes_[label], **weight)

    def _probabilities(self, fitted: Any, X: Any) -> Floats:
        """The fitted estimator's probabilities in the order of `classes_`. (items, K)"""
        probs = np.zeros((_num_samples(X), len(self.classes_)))
        probs[:, [list(self.classes_).index(each) for each in fitted.classes_]] = fitted.predict_proba(X)
        probs = np.maximum(probs, 1e-9)  # none is impossible
        return np.asarray(probs / probs.sum(axis=1, keepdims=True))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The likeliest label of each item. Shape (items,)"""
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict(X))

    def predict_proba(self, X: Any) -> Floats:
        """P(label) of each item, in the order of `classes_`. Shape (items, K)"""
        check_is_fitted(self)
        return self._probabilities(self.estimator_, X)

    def expertise(self) -> pd.DataFrame:
        """How reliable each annotator is: annotator, task, expertise, accuracy, low, high, annotations and more."""
        from realm.crowd.tables import expertise_table

        check_is_fitted(self, "estimate_")
        return expertise_table(self.annotations_, self.estimate_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self._base).input_tags
        return tags
