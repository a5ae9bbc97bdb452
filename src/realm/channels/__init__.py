"""How an annotator turns the true label into the label they give, one file per channel. Knows nothing of text.

The channel `habit` is the class `HabitChannel` in `habit.py`.
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
"""The channels that methods and settings can name; the first is the default."""

__all__ = [
    "CHANNELS",
    "Channel",
    "CoinChannel",
    "ConfusionChannel",
    "HabitChannel",
    "IdentityChannel",
    "ItemScores",
    "Observed",
    "UniformChannel",
    "channel_class",
]


def channel_class(name: str) -> type[Channel]:
    """The class of a channel of `CHANNELS`."""
    kind: type[Channel] = getattr(import_module(f"realm.channels.{name.replace('-', '_')}"), _class_name(name))
    return kind


def _class_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("-")) + "Channel"


def __getattr__(name: str) -> Any:
    names = {_class_name(channel): channel for channel in CHANNELS}
    if name in names:
        return channel_class(names[name])
    if name in __all__:
        return getattr(import_module("realm.channels.base"), name)
    raise AttributeError(f"module 'realm.channels' has no attribute {name!r}")
