"""The paper's data sets, from the hub, from their published files or from the plain form."""

from realm.lab.benchmarks.base import Benchmark
from realm.lab.benchmarks.load import NAMES, load_benchmark

__all__ = ["NAMES", "Benchmark", "load_benchmark"]
