"""Channels of published methods, one file each, as anybody may write one: `RealmTrainer(..., channel=)` takes it."""

from realm_lab.channels.crowd_layer import CrowdLayerChannel
from realm_lab.channels.trace_confusion import TraceConfusionChannel

__all__ = ["CrowdLayerChannel", "TraceConfusionChannel"]
