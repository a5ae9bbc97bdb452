"""The paper: its data sets, specs, figures, tables and plots, on REALM's public names and `realm.comparison` alone."""

from realm.comparison.results import Results
from realm_lab.datasets import Benchmark, load_benchmark
from realm_lab.recorded import Recorded
from realm_lab.specs import Spec, expand, load_spec, packaged_specs
from realm_lab.tables import paper_figures, spec_tables

__all__ = [
    "Benchmark", "Recorded", "Results", "Spec", "expand", "load_benchmark", "load_spec", "packaged_specs",
    "paper_figures", "spec_tables",
]  # fmt: skip
