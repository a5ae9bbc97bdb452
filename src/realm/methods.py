"""The methods, one row each: where the labels come from, which channel reads them, and by which objective.

All methods train through the same loop. A new one is a new row; flags, `realm check`, `realm compare` and the reports
read this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

RAW, GOLD = "raw", "gold"


@dataclass(frozen=True)
class Method:
    """What a model is trained on."""

    name: str  # as it is typed
    title: str  # as the paper's tables call it
    description: str  # a few words for a reader of a report
    labels: str  # `raw`: the annotations; `gold`; or the name of an estimator of `realm.crowd.estimators`
    channel: str | None = "identity"  # that reads the labels; None: the one that the configuration names
    objective: str | None = "paper"  # None: the one that the configuration names
    update: str | None = None  # `gradient` or `em`: how the channel learns; None: what the configuration says
    soft: bool = False  # an estimator's posterior is trained on, a weighted annotation for each option
    channel_settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def needs_gold(self) -> bool:
        """Whether it trains on gold labels."""
        return self.labels == GOLD

    @property
    def aggregator(self) -> str | None:
        """The estimator that makes one label per item of the annotations; it needs items with several."""
        return None if self.labels in (RAW, GOLD) else self.labels

    @property
    def learns_expertise(self) -> bool:
        """Whether a channel with parameters of the annotators is trained."""
        return self.channel != "identity"


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("realm", "REALM", "model and expertise are learned together", RAW, channel=None, objective=None),
        Method("noisy", "Noisy", "every label taken as it is", RAW),
        Method("majority", "MV", "trained on majority votes", "majority"),
        Method("soft-majority", "Soft MV", "trained on the shares of the votes", "majority", soft=True),
        Method("dawid-skene", "DS", "trained on Dawid-Skene labels", "dawid-skene"),
        Method("soft-dawid-skene", "Soft DS", "trained on Dawid-Skene's posterior", "dawid-skene", soft=True),
        Method("mace", "MACE", "trained on MACE labels", "mace"),
        Method("soft-mace", "Soft MACE", "trained on MACE's posterior", "mace", soft=True),
        Method(
            "raykar",
            "Raykar",
            "EM between the model and confusion matrices (Raykar et al. 2010)",
            RAW,
            "confusion",
            objective="joint",
            update="em",
            channel_settings={"form": "raykar"},
        ),
        Method("oracle", "Oracle", "trained on gold labels", GOLD),
    )
}

COMPARED = ("realm", "noisy", "majority", "dawid-skene", "oracle")
"""What `compare` trains unless it is told otherwise: the methods that the paper compares."""
