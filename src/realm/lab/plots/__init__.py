"""Pictures of a spec's results as SVG files: learning curves, the way of expertise, how well it is recovered."""

from realm.lab.plots.write import write_plots

__all__ = ["write_plots"]
