"""Which annotators can be compared at all: those who share items, directly or through others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from realm.data.annotations import Annotations


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
