"""Whether the annotators can be compared at all: the graph of who labelled what, and its separate parts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from realm.data.annotations import Annotations


@dataclass(frozen=True)
class Part:
    """Annotators who share items with one another, directly or through others, and with nobody else."""

    annotators: int
    items: int
    annotations: int


def parts(annotations: Annotations) -> list[Part]:
    """The connected parts of the annotator-item graph, largest first."""
    people, items = annotations.n_annotators, annotations.n_items
    ones = np.ones(annotations.n_annotations, dtype=np.int8)
    edges = (annotations.annotator.astype(np.int64), annotations.item.astype(np.int64) + people)
    graph = sp.csr_matrix((ones, edges), shape=(people + items, people + items))
    _, part = connected_components(graph, directed=False)
    size = int(part.max(initial=-1)) + 1
    of_people = np.bincount(part[:people], minlength=size)
    of_items = np.bincount(part[people:], minlength=size)
    edges_of = np.bincount(part[annotations.annotator], minlength=size)
    order = np.argsort(-edges_of, kind="stable")
    return [Part(int(of_people[i]), int(of_items[i]), int(edges_of[i])) for i in order if edges_of[i]]
