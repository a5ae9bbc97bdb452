"""What a trained channel says of annotators and labels, with P out of sample: the model behind a run's estimates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import Tensor

from realm.channels import Channel, ConfusionChannel
from realm.crowd.earlier import EarlierEstimates
from realm.crowd.engine import log_softmax
from realm.crowd.estimate import Estimate, estimate_from_evidence
from realm.crowd.model import REPORT_STEPS, AnnotatorModel
from realm.data import Annotations
from realm.training.channel import annotation_evidence

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ReportModel:
    """The model of annotators behind estimates.

    | field | shape | meaning |
    |---|---|---|
    | annotators | | the trained channel's own model, or the default one where the channel is of another kind |
    | temperature | | T, at which P^(1/T) best explains the labels |
    | log_probs | (items, Kmax) | log P that items are judged by, at that temperature; NaN rows: their labels alone |
    | evidence | (annotations, Kmax) | that of a channel that learned by gradient, which estimates rest on; else None |
    """

    annotators: AnnotatorModel
    temperature: float
    log_probs: Floats
    evidence: Floats | None = None

    @classmethod
    def of(
        cls,
        channel: Channel | None,
        annotations: Annotations,
        log_probs: Floats,
        *,
        gold: npt.NDArray[np.integer] | None = None,
        experts: Sequence[str] = (),
        earlier: EarlierEstimates | None = None,
        hidden: Tensor | None = None,
        in_sample: bool = False,
    ) -> ReportModel:
        """Bring the model to log P (items, Kmax) and find its temperature.

        `channel` is None for a method that learns none; `hidden` (items, width) is for a channel that needs it.
        `in_sample`: P was recorded in training, not out of fold. It has seen the labels, and where an item has several
        they speak for themselves, through the annotators as they were trained.
        """
        heard = log_probs.copy()
        if in_sample:
            heard[annotations.annotations_per_item > 1] = np.nan
        if isinstance(channel, ConfusionChannel):
            model = channel.copied_model()
        else:
            model = AnnotatorModel(annotations, gold=gold, experts=experts, earlier=earlier).fit(heard)
        if in_sample:
            model.hold_shares(heard)
        else:
            model.update(log_probs, steps=REPORT_STEPS)
        temperature = model.best_temperature(log_probs, in_sample=in_sample)
        if not in_sample and temperature > 1:
            model.update(log_probs / temperature, steps=REPORT_STEPS)
        evidence = None
        if channel is not None and not isinstance(channel, ConfusionChannel):
            evidence = annotation_evidence(channel, annotations, log_softmax(log_probs / temperature), hidden)
        return cls(model, temperature, heard / temperature, evidence)

    def estimate(self) -> Estimate:
        """Labels, accuracies and intervals, by the evidence of the channel that was trained."""
        model = self.annotators
        if self.evidence is None:
            return model.estimate(self.log_probs)
        return estimate_from_evidence(
            model.annotations,
            self.evidence,
            model.log_prior(self.log_probs),
            known=model.known,
            experts=model.expert,
            earlier=model.earlier,
        )
