"""The channel of the one model of annotators: what `AnnotatorModel` has learned, as evidence for training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from realm.channels.base import Channel, ItemScores, Observed
from realm.channels.coin import can_be_flipped
from realm.crowd.engine import PRIORS
from realm.crowd.model import AnnotatorModel
from realm.data import Annotations


class ConfusionChannel(Channel):
    """`P(label = y | truth = k) = C[k, y]`, a matrix per annotator and task, fitted in closed form by `AnnotatorModel`.

    Dawid and Skene's matrix, its rows drawn to the annotator's mixture of reading the item and guessing by habit
    (`realm.crowd.engine`). Nothing here is trained by gradient: `fit` and `update` run EM on all annotations, and
    `evidence` looks the result up. The other channels that settings name are constrained forms of the same model.

    `form` is a key of `realm.crowd.engine.PRIORS`: `confusion`, or a constrained form such as `uniform`; the other
    arguments (gold, experts, earlier, kind) are those of `AnnotatorModel`.
    """

    options: int
    keys: Tensor
    cell_evidence: Tensor
    task_exponent: Tensor
    annotation_weight: Tensor
    offset: Tensor

    def __init__(self, annotations: Annotations, form: str = "confusion", **settings: Any) -> None:
        super().__init__(annotations.n_annotators, len(annotations.tasks))
        self.form, self.options = form, int(annotations.option_counts.max(initial=1))
        self.annotators = AnnotatorModel(annotations, PRIORS[form], **settings)
        self._is_fitted, item = False, annotations.item
        columns = (
            annotations.annotator,
            annotations.item_tasks[item],
            annotations.label,
            annotations.option_counts[item],
        )
        keys = torch.from_numpy(np.unique(self._key(*(column.astype(np.int64) for column in columns))))
        for name, value in {
            "keys": keys,
            "cell_evidence": torch.zeros(len(keys), self.options),
            "task_exponent": torch.ones(len(annotations.tasks)),
            "annotation_weight": torch.zeros(annotations.n_annotations),
            "offset": torch.zeros(0, 1),
        }.items():
            self.register_buffer(name, value, persistent=False)

    @classmethod
    def from_annotations(cls, annotations: Annotations, **settings: Any) -> Self:
        return cls(annotations, **settings)

    def evidence(self, scores: ItemScores, observed: Observed) -> Tensor:
        key = self._key(observed.annotator, observed.task, observed.label, scores.option_counts[observed.item])
        place = torch.searchsorted(self.keys, key).clamp(max=len(self.keys) - 1)
        evidence = self.cell_evidence[place]
        if observed.index is None:  # annotations of another table may have cells that this one has not
            new = self.keys[place] != key
            evidence[new] = self._evidence_of(key[new]).to(evidence)
        return evidence[:, : scores.log_probs.shape[1]]

    def item_offset(self, scores: ItemScores) -> Tensor | None:
        if scores.index is None or not len(self.offset):
            return None
        return self.offset[scores.index, : scores.log_probs.shape[1]]

    def evidence_exponent(self, observed: Observed) -> Tensor | None:
        return self.task_exponent[observed.task]

    def annotation_weights(self, observed: Observed) -> Tensor:
        return observed.weight if observed.index is None else self.annotation_weight[observed.index]

    def fit(self, scores: ItemScores, annotations: Annotations) -> None:
        log_probs = scores.log_probs.double().cpu().numpy()
        self.annotators.fit(None if np.isnan(log_probs[:, 0]).all() else log_probs, waits=True)
        self._take_over()

    def fitted_model(self) -> AnnotatorModel:
        """The model of annotators, fitted to agreement where nothing else has been seen yet."""
        if not self._is_fitted:
            self.annotators.fit()
            self._take_over()
        return self.annotators

    def update(self, scores: ItemScores, annotations: Annotations) -> None:
        self.annotators.update(scores.log_probs.double().cpu().numpy())
        self._take_over()

    def needs_anchor(self, annotations: Annotations) -> bool:
        return self.form == "coin" and can_be_flipped(annotations)

    def state(self) -> dict[str, npt.NDArray[Any]]:
        return self.fitted_model().state()

    def load_state(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        self.annotators.load_state(state)
        self._take_over()

    def settings(self) -> dict[str, Any]:
        return {"form": self.form}

    def summary(self) -> dict[str, npt.NDArray[np.float64]]:
        return self.fitted_model().summary()

    def _take_over(self) -> None:
        """Bring the buffers to what the model of annotators holds now."""
        self._is_fitted = True
        self.cell_evidence.copy_(self._evidence_of(self.keys))
        self.task_exponent.copy_(torch.from_numpy(self.annotators.exponent))
        self.annotation_weight.copy_(torch.from_numpy(self.annotators.weight))
        offset = torch.from_numpy(self.annotators.item_offset())
        self.offset = offset.to(self.cell_evidence) if bool(offset.any()) else self.cell_evidence.new_zeros(0, 1)

    def _evidence_of(self, key: Tensor) -> Tensor:
        """log P(label | k) of distinct (annotator, task, label, number of options), any. (n, options)"""
        rest, options = np.divmod(key.cpu().numpy(), self.options + 1)
        rest, label = np.divmod(rest, self.options)
        annotator, task = np.divmod(rest, self.tasks)
        return torch.from_numpy(self.annotators.evidence_of(annotator, task, label, options)[:, : self.options])

    def _key(self, annotator: Any, task: Any, label: Any, option_counts: Any) -> Any:
        """One number for what evidence depends on. Arrays or tensors of whole numbers."""
        return ((annotator * self.tasks + task) * self.options + label) * (self.options + 1) + option_counts
