"""How an annotator turns the true label into the label they give. Knows nothing of text."""

from realm.channels.base import Channel
from realm.channels.identity import IdentityChannel
from realm.channels.uniform import MixtureChannel

__all__ = ["Channel", "IdentityChannel", "MixtureChannel"]
