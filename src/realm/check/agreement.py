"""How far annotators agree beyond chance (Krippendorff's alpha), and which of them can be compared at all.

Krippendorff, K. (2011). Computing Krippendorff's alpha-reliability. University of Pennsylvania.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from realm.data.annotations import Annotations


def krippendorff_alpha(item: npt.NDArray[np.integer], label: npt.NDArray[np.integer]) -> float | None:
    """Alpha = 1 - observed / expected disagreement; None where no item has two labels or every label is the same.

    For nominal labels, with gaps and any number of annotators. `item` and `label` (annotations,) are numbers, the same
    for the same label everywhere.

    Examples:
        >>> krippendorff_alpha(np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1]))
        1.0
    """
    several = np.bincount(item, minlength=1)[item] > 1
    if not several.any():
        return None
    _, item = np.unique(item[several], return_inverse=True)
    _, label = np.unique(label[several], return_inverse=True)
    counts = sp.coo_matrix((np.ones(len(item)), (item, label))).tocsr()
    size, totals = np.bincount(item).astype(np.float64), np.bincount(label).astype(np.float64)
    same = np.asarray(counts.multiply(counts).sum(axis=1)).ravel()
    observed, n = ((size**2 - same) / (size - 1)).sum(), totals.sum()
    expected = (n**2 - (totals**2).sum()) / (n - 1)
    return None if expected == 0 else float(1 - observed / expected)


def alpha_by_task(annotations: Annotations) -> dict[str, float | None]:
    """Alpha of each task. Where items list their own options, labels are compared by their place in the list."""
    task_of = annotations.item_tasks[annotations.item]
    masks = [task_of == index for index in range(len(annotations.tasks))]
    alphas = [krippendorff_alpha(annotations.item[mask], annotations.label[mask]) for mask in masks]
    return dict(zip((task.name for task in annotations.tasks), alphas, strict=True))


class Group(NamedTuple):
    """Annotators who share items with one another, directly or through others, and with nobody else: their numbers."""

    annotators: int
    items: int
    annotations: int


def connected_groups(annotations: Annotations) -> list[Group]:
    """The connected components of the annotator-item graph, largest first."""
    n_annotators, n_nodes = annotations.n_annotators, annotations.n_annotators + annotations.n_items
    edges = (annotations.annotator.astype(np.int64), annotations.item.astype(np.int64) + n_annotators)
    graph = sp.csr_matrix((np.ones(annotations.n_annotations, np.int8), edges), shape=(n_nodes, n_nodes))
    n_groups, group = connected_components(graph, directed=False)
    nodes = (group[:n_annotators], group[n_annotators:], group[annotations.annotator])
    sizes = np.stack([np.bincount(part, minlength=n_groups) for part in nodes], axis=1)
    return [Group(*size) for size in sizes[np.argsort(-sizes[:, 2], kind="stable")].tolist() if size[2]]
