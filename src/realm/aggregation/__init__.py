"""One label per item from several annotators, without any model: sparse, vectorised, in scikit-learn's manners."""

from realm.aggregation.aggregate import Aggregate, aggregate
from realm.aggregation.dawid_skene import DawidSkene
from realm.aggregation.majority import MajorityVote

__all__ = ["Aggregate", "DawidSkene", "MajorityVote", "aggregate"]
