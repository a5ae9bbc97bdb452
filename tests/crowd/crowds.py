"""Small tables of annotations for the tests of `realm.crowd`, made from plain arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from realm.crowd.accuracy import expertise_of, pairs_of
from realm.crowd.engine import log_softmax
from realm.crowd.estimate import Estimate
from realm.data import Annotations, Items, Task

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def table(
    item: npt.ArrayLike,
    annotator: npt.ArrayLike,
    label: npt.ArrayLike,
    *,
    n_items: int,
    n_annotators: int,
    options: int | list[int],
    item_tasks: npt.ArrayLike | None = None,
    weight: npt.ArrayLike | None = None,
) -> Annotations:
    """Annotations from indices. `options` is K for all tasks, or the K of every item (which then lists its own)."""
    items, people, labels = (np.asarray(x, np.int32) for x in (item, annotator, label))
    order = np.argsort(items, kind="stable")
    tasks = np.zeros(n_items, np.int32) if item_tasks is None else np.asarray(item_tasks, np.int32)
    own = None
    if not isinstance(options, int):
        own = pa.array([[f"c{k}" for k in range(count)] for count in options], pa.large_list(pa.large_string()))
    labels_of_task = tuple(f"c{k}" for k in range(options)) if isinstance(options, int) else None
    return Annotations(
        items=Items(
            ids=pa.array([f"i{i}" for i in range(n_items)], pa.large_string()),
            texts=pa.array([f"text {i}" for i in range(n_items)], pa.large_string()),
            contexts=None,
            options=own,
            item_tasks=tasks,
            tasks=tuple(Task(f"t{m}", labels_of_task) for m in range(int(tasks.max(initial=0)) + 1)),
        ),
        annotators=tuple(f"a{a}" for a in range(n_annotators)),
        item=items[order],
        annotator=people[order],
        label=labels[order],
        weight=None if weight is None else np.asarray(weight, np.float64)[order],
    )


def known_estimate(
    annotations: Annotations, matrices: Floats, log_probs: npt.ArrayLike | None = None, *, tau: float = 1.0
) -> Estimate:
    """An estimate with these confusion matrices (annotators, K, K), certain, and no mistakes that all share."""
    width, tasks = matrices.shape[1], len(annotations.tasks)
    shape = (annotations.n_annotators, tasks)
    cells = np.unique(
        np.stack([annotations.annotator, annotations.item_tasks[annotations.item], annotations.label], axis=1), axis=0
    ).astype(np.int64)
    evidence = np.log(np.maximum(matrices[cells[:, 0], :, cells[:, 2]], 1e-12))
    log_prior = log_softmax(
        np.zeros((annotations.n_items, width)) if log_probs is None else np.asarray(log_probs, float)
    )
    scores = log_prior.copy()
    np.add.at(
        scores, annotations.item, tau * np.log(np.maximum(matrices[annotations.annotator, :, annotations.label], 1e-12))
    )
    posterior = np.exp(log_softmax(scores))
    accuracy = np.repeat(np.einsum("jkk->j", matrices)[:, None] / width, tasks, axis=1)
    chance = np.full(shape, 1 / width)
    n = np.bincount(pairs_of(annotations), minlength=shape[0] * shape[1]).reshape(shape)
    return Estimate(
        expertise=expertise_of(accuracy, chance), accuracy=accuracy, low=accuracy, high=accuracy, chance=chance,
        annotations=n, posterior=posterior, relative_tasks=np.zeros(tasks, bool),
        habits=np.full((*shape, width), 1 / width), cells=cells, cell_evidence=evidence, log_prior=log_prior,
        weight=np.ones(annotations.n_annotations), exponent=np.full(tasks, tau), shared_error=np.zeros(tasks),
        shared_error_high=np.zeros(tasks),
    )  # fmt: skip


@dataclass
class Crowd:
    annotations: Annotations
    log_probs: Floats
    truth: Ints
    accuracy: Floats


def simulate(
    seed: int,
    *,
    annotators: int | Floats = 20,
    labels_each: int = 20,
    per_item: int = 3,
    options: int = 3,
    pool: tuple[float, float] = (8.0, 2.0),
    sharpness: float = 0.5,
) -> Crowd:
    """Truth drawn from a known P, labels from annotators drawn from a Beta pool (or of the accuracies given)."""
    rng = np.random.default_rng(seed)
    n = annotators if isinstance(annotators, int) else len(annotators)
    accuracy = rng.beta(*pool, n) if isinstance(annotators, int) else np.asarray(annotators, np.float64)
    n_items = max(n * labels_each // per_item, 1)
    probs = rng.dirichlet(np.full(options, sharpness), n_items)
    truth = np.minimum((probs.cumsum(axis=1) < rng.random(n_items)[:, None]).sum(axis=1), options - 1)
    item = np.repeat(np.arange(n_items), per_item)
    annotator = rng.random((n_items, n)).argsort(axis=1)[:, :per_item].ravel()
    wrong = (truth[item] + rng.integers(1, options, len(item))) % options
    label = np.where(rng.random(len(item)) < accuracy[annotator], truth[item], wrong)
    made = table(item, annotator, label, n_items=n_items, n_annotators=n, options=options)
    return Crowd(made, np.log(np.maximum(probs, 1e-300)), truth, accuracy)


def mixed(seed: int = 0, n_items: int = 60, people: int = 6) -> Annotations:
    """Items with two to four options in two tasks."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(2, 5, n_items)
    item, annotator = (x.ravel() for x in np.meshgrid(np.arange(n_items), np.arange(people), indexing="ij"))
    keep = rng.random(len(item)) < 0.6
    item, annotator = item[keep], annotator[keep]
    return table(
        item,
        annotator,
        rng.integers(0, counts[item]),
        n_items=n_items,
        n_annotators=people,
        options=counts.tolist(),
        item_tasks=np.arange(n_items) % 2,
    )


def labelled(seed: int, truth: Ints, matrices: Floats, per_item: int) -> Annotations:
    """Labels of items of these true labels, each by some annotators of these confusion matrices (annotators, K, K)."""
    rng = np.random.default_rng(seed)
    people, options, _ = matrices.shape
    item = np.repeat(np.arange(len(truth)), per_item)
    annotator = rng.random((len(truth), people)).argsort(axis=1)[:, :per_item].ravel()
    rows = matrices[annotator, truth[item]].cumsum(axis=1)
    label = np.minimum((rows < rng.random(len(item))[:, None]).sum(axis=1), options - 1)
    return table(item, annotator, label, n_items=len(truth), n_annotators=people, options=options)


def mixtures(beta: npt.ArrayLike, habits: npt.ArrayLike) -> Floats:
    """beta [y = k] + (1 - beta) xi(y): (annotators,) and (annotators, K) or (K,) to (annotators, K, K)."""
    weight, xi = np.asarray(beta, np.float64)[:, None, None], np.atleast_2d(np.asarray(habits, np.float64))
    return np.asarray(weight * np.eye(xi.shape[1]) + (1 - weight) * xi[:, None, :])


def coins(accuracy: npt.ArrayLike, options: int) -> Floats:
    """Right with these probabilities (annotators,), else evenly wrong: (annotators, K, K)."""
    right, same = np.asarray(accuracy, np.float64)[:, None, None], np.eye(options)
    return np.asarray(right * same + (1 - right) / (options - 1) * (1 - same))
