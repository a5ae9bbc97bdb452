"""The paper's printed figures, to set beside ours."""

from realm.lab.paper.figures import paper_figures

__all__ = ["paper_figures"]
