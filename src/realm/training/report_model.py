"""What a trained channel says of annotators and labels, with P out of sample: the model behind a run's estimates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from realm.channels import Channel, ConfusionChannel, ItemScores, Observed
from realm.crowd.earlier import EarlierEstimates
from realm.crowd.engine import log_softmax
from realm.crowd.estimate import Estimate, estimate_from_evidence
from realm.crowd.model import AnnotatorModel
from realm.data import Annotations

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
        kind: str | None = None,
        hidden: Tensor | None = None,
        in_sample: bool = False,
    ) -> ReportModel:
        """Bring the model to log P (items, Kmax) and find its temperature (`AnnotatorModel.brought_to`).

        `channel` is None for a method that learns none; `hidden` (items, width) is for a channel that needs it. The
        other arguments are those of `AnnotatorModel`, which a channel in closed form brings along.
        """
        if isinstance(channel, ConfusionChannel):
            fitted = channel.fitted_model()
        else:
            model = AnnotatorModel(annotations, gold=gold, experts=experts, earlier=earlier, kind=kind)
            fitted = model.fit(log_probs)
        model, temperature, heard = fitted.brought_to(log_probs, in_sample=in_sample)
        evidence = None
        if channel is not None and not isinstance(channel, ConfusionChannel):
            evidence = annotation_evidence(channel, annotations, log_softmax(log_probs / temperature), hidden)
        return cls(model, temperature, heard, evidence)

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
            kind=model.kind,
        )


def annotation_evidence(
    channel: Channel, annotations: Annotations, log_probs: Floats, hidden: Tensor | None = None
) -> Floats:
    """The evidence of every annotation by a trained channel. (annotations, Kmax)

    `log_probs` (items, Kmax) and `hidden` (items, width) are what the model says of the items.
    """
    counts = torch.from_numpy(annotations.option_counts.astype(np.int64))
    scores = ItemScores(torch.from_numpy(log_probs).float(), counts, hidden)
    device = next(iter(channel.parameters()), scores.log_probs).device
    channel.cpu()
    with torch.no_grad():
        parts = [
            channel.evidence(scores, Observed.of(annotations, rows)).double().numpy()
            for rows in np.array_split(np.arange(annotations.n_annotations), annotations.n_annotations // 65536 + 1)
        ]
    channel.to(device)
    return np.concatenate(parts)
