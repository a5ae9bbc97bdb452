"""Channels of published methods, one file each, as anybody may write one: `RealmTrainer(..., channel=)` takes it."""

from __future__ import annotations

from typing import Any, Self

from realm import Annotations, UniformChannel
from realm_lab.channels.crowd_layer import CrowdLayerChannel
from realm_lab.channels.trace_confusion import TraceConfusionChannel

__all__ = ["CrowdLayerChannel", "OneNumberChannel", "TraceConfusionChannel"]


class OneNumberChannel(UniformChannel):
    """The paper's channel with one expertise per annotator over all tasks: what the matrix is compared with."""

    @classmethod
    def from_annotations(cls, annotations: Annotations, **settings: Any) -> Self:
        return super().from_annotations(annotations, **{**settings, "shared_tasks": True})
