"""Backbone model and tokenizer in, log P(option given prompt) over an item's options out."""

from realm.scorers.base import Scorer
from realm.scorers.loading import build_scorer, load_scorer, scorer_kind

__all__ = ["Scorer", "build_scorer", "load_scorer", "scorer_kind"]
