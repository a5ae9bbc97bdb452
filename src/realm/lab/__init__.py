"""The paper: its data sets, specs, figures, tables and plots, on the public interface and `realm.comparison` alone."""

from realm.comparison.results import Results
from realm.lab.datasets import Benchmark, load_benchmark
from realm.lab.paper import paper_figures
from realm.lab.spec import Spec, expand, load_spec, packaged_specs

__all__ = ["Benchmark", "Results", "Spec", "expand", "load_benchmark", "load_spec", "packaged_specs", "paper_figures"]
