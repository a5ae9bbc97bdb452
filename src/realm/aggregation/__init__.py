"""One label per item from several annotators, without any model: sparse, vectorised, in scikit-learn's manners."""

from realm.aggregation.aggregate import METHODS, Aggregate, aggregate
from realm.aggregation.dawid_skene import DawidSkene
from realm.aggregation.glad import Glad
from realm.aggregation.majority import MajorityVote
from realm.aggregation.one_coin import OneCoin
from realm.aggregation.weighted_majority import WeightedMajority

__all__ = ["METHODS", "Aggregate", "DawidSkene", "Glad", "MajorityVote", "OneCoin", "WeightedMajority", "aggregate"]
