"""Who was asked: whether annotators' label shares may be those of the items that they were given, not their habits."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from realm.crowd.engine import Floats, LabelTable, standard_errors

ASSIGNED_Z = 2.3  # of 216 simulated tables with random assignment none is above 2.2, of others 90%; CEBaB 3 to 17
ASSIGNED_Z_OF_LABELS = 5.0  # of 96 such tables none is above 2.8, the others all above 18; CEBaB 17 to 34
PROBE_DIMS, PROBE_FOLDS = 64, 5  # principal components and folds of the ridge that predicts labels
PROBE_SHRINKAGE = 5.0  # labels that the common shares are worth
PROBE_VALUES = 1_000_000  # annotations times options that the probe by other labels reads at most


def assignment_z(features: npt.NDArray[Any], table: LabelTable) -> float:
    """Whether who was asked depends on the item, where items have one label each: `_match` with predicted labels.

    Labels are predicted from the items' features (items, d) out of fold; where an annotator who gives a label more
    often than others was given items for which others' labels predict it, the shares are the items', not a habit.
    """
    centred = np.asarray(features, dtype=np.float64) - np.mean(features, axis=0)
    left = np.linalg.svd(centred, full_matrices=False)[0][:, :PROBE_DIMS] * np.sqrt(table.n_items)
    target = np.zeros((table.n_items, table.n_options))
    target[table.item, table.label] = 1.0
    fold = np.random.default_rng(0).permutation(table.n_items) % PROBE_FOLDS
    predicted = np.zeros_like(target)
    for each in range(PROBE_FOLDS):
        trained, held = table.labelled & (fold != each), fold == each
        inputs, labels = left[trained], target[trained]
        penalised = inputs.T @ inputs + trained.sum() * np.eye(inputs.shape[1])
        predicted[held] = left[held] @ np.linalg.solve(penalised, inputs.T @ (labels - labels.mean(axis=0)))
    return _match(table, predicted[table.item], np.ones(len(table.item), dtype=bool))


def assignment_z_of_labels(table: LabelTable) -> float:
    """The same where items have several labels: `_match` with the other labels of the item. Negative where everybody
    labels everything."""
    if table.one_label_each:
        return 0.0
    labelled = np.flatnonzero(table.labelled)
    size = max(int(PROBE_VALUES / table.n_options / max(len(table.item) / max(len(labelled), 1), 1)), 1)
    if len(labelled) > size:
        table = table.take_items(np.sort(np.random.default_rng(0).choice(labelled, size, replace=False)))
    others = np.zeros((table.n_items, table.n_options))
    np.add.at(others, (table.item, table.label), 1.0)
    others = others[table.item]
    others[np.arange(len(table.label)), table.label] -= 1
    count = others.sum(axis=1)
    return _match(table, others / np.maximum(count, 1)[:, None], count > 0)


def _match(table: LabelTable, predicted: Floats, judged: npt.NDArray[np.bool_]) -> float:
    """How many standard errors (over items) annotators' label shares follow what is predicted of their items.

    `predicted` (annotations, options) must not be made of the annotation itself; `judged` (annotations,) have one.
    """
    counts, item, label = table.label_counts, table.item[judged], table.label[judged]
    if not len(item):
        return 0.0
    shares = counts.sum(axis=0) / len(table.item)
    own = counts[table.annotator[judged]]  # the annotator's labels, without the one at hand
    own[np.arange(len(label)), label] -= 1
    own = (own + PROBE_SHRINKAGE * shares) / (own.sum(axis=1) + PROBE_SHRINKAGE)[:, None]
    centred = predicted[judged] - predicted[judged].mean(axis=0)
    return standard_errors(np.bincount(item, ((own - shares) * centred).sum(axis=1), minlength=table.n_items))
