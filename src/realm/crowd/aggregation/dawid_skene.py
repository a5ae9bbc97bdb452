"""Dawid-Skene: a confusion matrix per annotator."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from realm.crowd.aggregation.arrays import AnnotationArrays
from realm.crowd.aggregation.base import FLOOR, EMAggregator, EMResult
from realm.crowd.evidence import AnnotatorModel, Evidence, Floats, Indices
from realm.errors import RealmError


@dataclass(eq=False)
class DawidSkene(EMAggregator):
    """EM for P(annotator a gives label l | truth k) = confusion[a, k, l] and P(truth = k) = prior[k].

    A. P. Dawid and A. M. Skene (1979). Maximum likelihood estimation of observer error-rates using the EM algorithm.
    Journal of the Royal Statistical Society C, 28(1), 20-28.

    Starts from the shares of the labels and works in log space; each step is one sparse product over the annotations.
    With `smoothing=0` every estimate is the maximum likelihood one, floored at 1e-10; `smoothing=s` adds s annotations
    to every entry of every confusion matrix, which is a Dirichlet(1 + s) prior.

    An item with fewer options than K can only be one of its own. What the annotators' confusion matrices say of the
    other options is pooled over all the items they labelled.

    `confusion_` (annotators, options, options) is P(label l given truth k) at [a, k, l]; a row sums to 1. The other
    attributes are those of every `EMAggregator`.

    Examples:
        >>> items, annotators = [0, 0, 0, 1, 1, 1, 2, 2, 2], [0, 1, 2, 0, 1, 2, 0, 1, 2]
        >>> model = DawidSkene().fit(items, annotators, labels=[0, 0, 1, 1, 1, 0, 1, 1, 1])
        >>> model.labels_.tolist()
        [0, 1, 1]
    """

    takes_abstain = True
    smoothing: float = 0.0

    confusion_: Floats = field(init=False, repr=False)

    def _model(self, arrays: AnnotationArrays) -> AnnotatorModel:
        if self.smoothing < 0:
            raise RealmError(f"`smoothing` must be 0 or more, not {self.smoothing}.")
        return ConfusionMatrices(arrays, self.smoothing)

    def _log_prior(self, model: AnnotatorModel, parameters: Floats, arrays: AnnotationArrays) -> float:
        return self.smoothing * float(np.log(parameters[:, arrays.present_options]).sum()) if self.smoothing else 0.0

    def _set_attributes(self, result: EMResult, arrays: AnnotationArrays) -> None:
        k = arrays.n_options
        self.confusion_ = np.ascontiguousarray(result.parameters.reshape(-1, k, k).transpose(0, 2, 1))


class ConfusionMatrices:
    """The annotator model: P(label l | truth k) of annotator a at row a * K + l and column k. (annotators * K, K)"""

    def __init__(self, arrays: AnnotationArrays, smoothing: float) -> None:
        self.smoothing, self.n_options = smoothing, arrays.n_options
        row, rows = arrays.annotator * arrays.n_options + arrays.label, arrays.n_annotators * arrays.n_options
        self.matrix = arrays.matrix(row, rows)
        # Without smoothing a label that the annotator never gave has probability 0.
        self.floor = np.where(np.bincount(row, minlength=rows) > 0, FLOOR, 0.0)[:, None]

    def evidence(self, parameters: Floats) -> Evidence:
        with np.errstate(divide="ignore"):
            return _ConfusionEvidence(self.matrix, np.log(parameters))

    def update(self, parameters: Floats, posterior: Floats, position: Indices) -> Floats:
        """Expected counts of every label and truth, normalised.

        Without smoothing a truth that an annotator never met leaves the labels they did give equally likely.
        """
        sums = self.matrix.T @ posterior
        if self.smoothing:
            sums += self.smoothing
        else:
            np.maximum(sums, self.floor, out=sums)
        cube = sums.reshape(-1, self.n_options, self.n_options)
        totals = cube.sum(axis=1, keepdims=True)
        silent = totals == 0
        if silent.any():
            cube += silent / self.n_options
            totals += silent
        cube /= totals
        return np.asarray(sums)


@dataclass(frozen=True, eq=False)
class _ConfusionEvidence(Evidence):
    """The evidence of one product: items x rows (sparse) by rows x truths."""

    matrix: sparse.csr_array
    log_label_probs: Floats
    constant: float = 0.0

    def item_sums(self, position: Indices, shape: tuple[int, int]) -> Floats:
        return np.asarray(self.matrix @ self.log_label_probs)
