"""How far annotators agree beyond chance (Krippendorff's alpha), and which of them can be compared at all.

Krippendorff, K. (2011). Computing Krippendorff's alpha-reliability. University of Pennsylvania.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from realm.data.annotations import Annotations


def krippendorff_alpha(item: npt.NDArray[np.integer], label: npt.NDArray[np.integer]) -> float | None:
    """Alpha = 1 - observed / expected disagreement; None where no item has two labels or every label is the same.

    For nominal labels, with gaps and any number of annotators.

    | input | shape | meaning |
    |---|---|---|
    | item | (annotations,) | the item of each annotation |
    | label | (annotations,) | its label, the same number for the same label everywhere |

    Examples:
        >>> krippendorff_alpha(np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1]))
        1.0
    """
    _, item = np.unique(item, return_inverse=True)
    several = np.bincount(item)[item] > 1
    if not several.any():
        return None
    _, item = np.unique(item[several], return_inverse=True)
    _, label = np.unique(label[several], return_inverse=True)
    size, totals = np.bincount(item).astype(np.float64), np.bincount(label).astype(np.float64)
    cells, counts = np.unique(item.astype(np.int64) * len(totals) + label, return_counts=True)
    same = np.bincount(cells // len(totals), counts.astype(np.float64) ** 2)
    observed = ((size**2 - same) / (size - 1)).sum()
    n = totals.sum()
    expected = (n**2 - (totals**2).sum()) / (n - 1)
    return None if expected == 0 else float(1 - observed / expected)


def alpha_by_task(annotations: Annotations) -> dict[str, float | None]:
    """Alpha of each task. Where items list their own options, labels are compared by their place in the list."""
    task_of = annotations.item_tasks[annotations.item]
    return {
        task.name: krippendorff_alpha(annotations.item[task_of == index], annotations.label[task_of == index])
        for index, task in enumerate(annotations.tasks)
    }


@dataclass(frozen=True)
class Group:
    """Annotators who share items with one another, directly or through others, and with nobody else: their numbers."""

    annotators: int
    items: int
    annotations: int


def connected_groups(annotations: Annotations) -> list[Group]:
    """The connected components of the annotator-item graph, largest first."""
    n_annotators, n_nodes = annotations.n_annotators, annotations.n_annotators + annotations.n_items
    ones = np.ones(annotations.n_annotations, dtype=np.int8)
    edges = (annotations.annotator.astype(np.int64), annotations.item.astype(np.int64) + n_annotators)
    graph = sp.csr_matrix((ones, edges), shape=(n_nodes, n_nodes))
    n_groups, group = connected_components(graph, directed=False)
    nodes = (group[:n_annotators], group[n_annotators:], group[annotations.annotator])
    sizes = np.stack([np.bincount(part, minlength=n_groups) for part in nodes], axis=1)
    order = np.argsort(-sizes[:, 2], kind="stable")
    return [Group(*sizes[i].tolist()) for i in order if sizes[i, 2]]
