"""One label per item from several annotators, without any model: sparse, vectorised, in scikit-learn's manners."""

from realm.crowd.aggregation.aggregate import METHODS, Aggregate, aggregate
from realm.crowd.aggregation.dawid_skene import DawidSkene
from realm.crowd.aggregation.glad import Glad
from realm.crowd.aggregation.mace import Mace
from realm.crowd.aggregation.majority import MajorityVote, WeightedMajority
from realm.crowd.aggregation.one_coin import OneCoin

__all__ = [
    "METHODS",
    "Aggregate",
    "DawidSkene",
    "Glad",
    "Mace",
    "MajorityVote",
    "OneCoin",
    "WeightedMajority",
    "aggregate",
]
