"""Backbone model and tokenizer in, log P(option given prompt) over an item's options out.

A scorer is one file and one row of `SCORERS`: its class says all that depends on the kind of model. Names are imported
when they are first used, so that the settings can list the scorers without importing torch.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from realm.errors import RealmError

if TYPE_CHECKING:
    from realm.scorers.base import Scorer
    from realm.scorers.loading import build_scorer, load_scorer, scorer_kind

SCORERS = {
    "seq2seq": "realm.scorers.seq2seq:Seq2SeqScorer",
    "causal": "realm.scorers.causal:CausalScorer",
    "classifier": "realm.scorers.classifier:ClassifierScorer",
}
"""The class of each kind of scorer, as module:class; `auto` is the first that suits a model's config."""

__all__ = ["SCORERS", "Scorer", "build_scorer", "load_scorer", "scorer_class", "scorer_kind"]


def scorer_class(kind: str) -> type[Scorer]:
    """The class of a row of `SCORERS`."""
    if kind not in SCORERS:
        raise RealmError(f"`scorer={kind}`: must be one of auto, {', '.join(SCORERS)}.")
    scorer: type[Scorer] = resolve_name(SCORERS[kind])
    return scorer


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("realm.scorers.base" if name == "Scorer" else "realm.scorers.loading"), name)
    raise AttributeError(f"module 'realm.scorers' has no attribute {name!r}")
