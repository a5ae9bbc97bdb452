"""How an annotator turns the true label into the label they give, one file per channel. Knows nothing of text.

Names are imported when they are first used, so that the settings can list the channels without importing torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from realm.channels.base import Channel, ItemScores, Observed
    from realm.channels.coin import CoinChannel
    from realm.channels.confusion import ConfusionChannel
    from realm.channels.habit import HabitChannel
    from realm.channels.identity import IdentityChannel
    from realm.channels.uniform import UniformChannel

CHANNELS = ("confusion", "habit", "uniform", "coin", "identity")
"""The channels that methods and settings can name, the default first: `habit` is `HabitChannel` in `habit.py`."""

__all__ = [
    "CHANNELS", "Channel", "CoinChannel", "ConfusionChannel", "HabitChannel", "IdentityChannel", "ItemScores",
    "Observed", "UniformChannel", "channel_class",
]  # fmt: skip


def channel_class(name: str) -> type[Channel]:
    """The class of a channel of `CHANNELS`."""
    kind: type[Channel] = getattr(import_module(f"realm.channels.{name}"), f"{name.capitalize()}Channel")
    return kind


def __getattr__(name: str) -> Any:
    channel = name.removesuffix("Channel").lower()
    if channel in CHANNELS and name == f"{channel.capitalize()}Channel":
        return channel_class(channel)
    if name in __all__:
        return getattr(import_module("realm.channels.base"), name)
    raise AttributeError(f"module 'realm.channels' has no attribute {name!r}")
