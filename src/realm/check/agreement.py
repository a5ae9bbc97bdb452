"""Krippendorff's alpha for nominal labels: how far annotators agree beyond chance, with gaps and any number of them.

Krippendorff, K. (2011). Computing Krippendorff's alpha-reliability. University of Pennsylvania.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from realm.data.annotations import Annotations


def krippendorff_alpha(item: npt.NDArray[np.integer], label: npt.NDArray[np.integer]) -> float | None:
    """Alpha = 1 - observed / expected disagreement; None where no item has two labels or every label is the same.

    | input | shape | meaning |
    |---|---|---|
    | item | (annotations,) | the item of each annotation |
    | label | (annotations,) | its label, the same number for the same label everywhere |

    Example:
        >>> krippendorff_alpha(np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1]))
        1.0
    """
    _, item = np.unique(item, return_inverse=True)
    per_item = np.bincount(item)
    paired = per_item[item] > 1
    if not paired.any():
        return None
    item, label = item[paired], np.unique(label[paired], return_inverse=True)[1]
    n_labels = int(label.max()) + 1
    cells, counts = np.unique(item.astype(np.int64) * n_labels + label, return_counts=True)
    same = np.bincount(cells // n_labels, counts.astype(np.float64) ** 2, minlength=len(per_item))
    used = per_item > 1
    size = per_item[used].astype(np.float64)
    observed = ((size**2 - same[used]) / (size - 1)).sum()
    totals = np.bincount(label).astype(np.float64)
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
