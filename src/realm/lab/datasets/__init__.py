"""The paper's data sets, from the hub, from their published files or from the plain form."""

from realm.lab.datasets.base import Benchmark
from realm.lab.datasets.load import NAMES, load_benchmark

__all__ = ["NAMES", "Benchmark", "load_benchmark"]
