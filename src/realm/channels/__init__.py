"""How an annotator turns the true label into the label they give, one file per channel. Knows nothing of text."""

from realm.channels.base import Channel, ItemScores, Observed
from realm.channels.confusion import ConfusionChannel
from realm.channels.habit import HabitChannel
from realm.channels.identity import IdentityChannel
from realm.channels.uniform import UniformChannel

CHANNELS: dict[str, type[Channel]] = {
    "identity": IdentityChannel,
    "uniform": UniformChannel,
    "habit": HabitChannel,
    "confusion": ConfusionChannel,
}
"""The channels that settings can name."""

__all__ = [
    "CHANNELS",
    "Channel",
    "ConfusionChannel",
    "HabitChannel",
    "IdentityChannel",
    "ItemScores",
    "Observed",
    "UniformChannel",
]
