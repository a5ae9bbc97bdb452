"""Crowds: annotators drawn from a pool and the labels they give, and panels read from a file.

A crowd is a function from a random stream, the number of annotators and of options to confusion matrices (annotators,
truth, label). `CROWDS` err independently of each other; `PANELS` do not, and give their labels themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from scipy.stats import norm

from realm.data import Annotations, Items, Task

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

CLASS_SHARES = {2: (0.7, 0.3), 4: (0.4, 0.3, 0.2, 0.1)}
"""How frequent the labels are."""


def read_panel(file: Path) -> Annotations:
    """A table with the columns item, text and gold, then one for each annotator, blank where they gave no label."""
    return Annotations.read(file, wide=list(pd.read_csv(file, nrows=0).columns[3:]))


# -------------------------------------------------------------------- labels


def annotate(
    rng: np.random.Generator, truth: Ints, accuracy: Floats, per_item: int, options: int
) -> tuple[Annotations, Ints]:
    """Labels by annotators of these accuracies, errors uniform; `per_item` different ones for each item."""
    return annotate_by_matrices(rng, truth, even_errors(accuracy, options), per_item)


def even_errors(accuracy: Floats, options: int) -> Floats:
    """Confusion matrices (annotators, truth, label) of annotators who err evenly."""
    wrong = (1 - accuracy)[:, None, None] / (options - 1)
    return np.asarray(np.where(np.eye(options, dtype=bool), accuracy[:, None, None], wrong))


def annotate_by_matrices(
    rng: np.random.Generator, truth: Ints, matrices: Floats, per_item: int
) -> tuple[Annotations, Ints]:
    """Labels by annotators of these confusion matrices; `per_item` different ones for each item."""
    n, people, options = len(truth), len(matrices), matrices.shape[2]
    item = np.repeat(np.arange(n), per_item)
    annotator = rng.random((n, people)).argsort(axis=1)[:, :per_item].ravel()
    label = draw(rng, matrices[annotator, truth[item]])
    names = pa.array([str(i) for i in range(n)], pa.large_string())
    table = Annotations(
        items=Items(
            ids=names,
            texts=names,
            contexts=None,
            options=None,
            item_tasks=np.zeros(n, np.int32),
            tasks=(Task("simulated", tuple("abcde"[:options])),),
        ),
        annotators=tuple(str(a) for a in range(people)),
        item=item.astype(np.int32),
        annotator=annotator.astype(np.int32),
        label=label.astype(np.int32),
    )
    return table, np.bincount(annotator, minlength=people)


def draw(rng: np.random.Generator, probs: Floats) -> Ints:
    """A true label from each row of P."""
    return np.minimum((probs.cumsum(axis=1) < rng.random(len(probs))[:, None]).sum(axis=1), probs.shape[1] - 1)


# -------------------------------------------------------------------- confusion matrices of a crowd


def habits(rng: np.random.Generator, people: int, options: int, alike: float) -> Floats:
    """Annotators who read with a probability of their own and else answer by habit, around the class shares."""
    beta, xi = rng.beta(6, 3, people), rng.dirichlet(alike * np.array(CLASS_SHARES[options]), people)
    return np.asarray(beta[:, None, None] * np.eye(options) + (1 - beta)[:, None, None] * xi[:, None])


def who_miss_rare_labels(rng: np.random.Generator, people: int, options: int) -> Floats:
    """Nine in ten of the most frequent label are right, six in ten of the others, which are mostly taken for it."""
    right = np.column_stack([rng.beta(18, 2, people), *(rng.beta(6, 4, people) for _ in range(options - 1))])
    errors = np.ones((options, options))
    errors[1:, 0] = 3
    np.fill_diagonal(errors, 0)
    errors /= errors.sum(axis=1, keepdims=True)
    return np.asarray(right[:, :, None] * np.eye(options) + (1 - right)[:, :, None] * errors)


def who_take_neighbours(rng: np.random.Generator, people: int, options: int) -> Floats:
    """Two thirds of the errors at four options are the next label: the paper's asymmetric noise."""
    accuracy = rng.beta(8, 3, people)
    errors = np.roll(3 * np.eye(options), 1, axis=1) + 1 - np.eye(options)
    errors /= errors.sum(axis=1, keepdims=True)
    return np.asarray(accuracy[:, None, None] * np.eye(options) + (1 - accuracy)[:, None, None] * errors)


def all_sorts(rng: np.random.Generator, people: int, options: int) -> Floats:
    """Three in five err evenly, one in four by strong habits, three in twenty answer without reading at all."""
    matrices, kind = even_errors(rng.beta(8, 3, people), options), rng.random(people)
    by_habit = habits(rng, people, options, 1.5)
    blind = np.repeat(rng.dirichlet(np.ones(options), people)[:, None], options, axis=1)
    matrices[kind < 0.4], matrices[kind < 0.15] = by_habit[kind < 0.4], blind[kind < 0.15]
    return matrices


CROWDS: dict[str, Callable[[np.random.Generator, int, int], Floats]] = {
    "even errors": lambda rng, people, options: even_errors(rng.beta(8, 3, people), options),
    "habits like the class shares": lambda rng, people, options: habits(rng, people, options, 6.0),
    "strong habits": lambda rng, people, options: habits(rng, people, options, 1.5),
    "rare labels missed": who_miss_rare_labels,
    "neighbours mistaken": who_take_neighbours,
    "all sorts": all_sorts,
}

# -------------------------------------------------------------------- annotators who do not err independently


def with_copies(rng: np.random.Generator, truth: Ints, people: int, options: int, per_item: int) -> Annotations:
    """A quarter of the annotators take 95 of 100 labels from one of them, who is right six times in ten."""
    followers = max(people // 4, 2)
    accuracy = rng.beta(8, 3, people)
    accuracy[:followers] = 0.6
    table, _ = annotate(rng, truth, accuracy, per_item, options)
    leader = draw(rng, even_errors(np.array([0.6]), options)[0, truth])  # what the leader says, or would say
    follows = (table.annotator < followers) & ((table.annotator == 0) | (rng.random(table.n_annotations) < 0.95))
    return replace(table, label=np.where(follows, leader[table.item], table.label).astype(np.int32))


def on_hard_items(rng: np.random.Generator, truth: Ints, people: int, options: int, per_item: int) -> Annotations:
    """Items differ in how hard they are for all annotators alike (a Gaussian copula, 0.3); errors go to one rival."""
    accuracy, rival = rng.beta(8, 3, people), (truth + 1 + rng.integers(options - 1, size=len(truth))) % options
    return _by_difficulty(rng, truth, rival, accuracy, per_item, options, 0.3)


def crowd_like(rng: np.random.Generator, truth: Ints, people: int, options: int, per_item: int) -> Annotations:
    """Like real crowds: items differ in how hard they are, and one in fourteen is seen as another label by all."""
    return _misled(rng, truth, people, options, per_item, 1 / 14, 0.3)


def judges_like(rng: np.random.Generator, truth: Ints, people: int, options: int, per_item: int) -> Annotations:
    """Like panels of LLM judges: one item in six is seen as another label by all, and items differ more."""
    return _misled(rng, truth, people, options, per_item, 1 / 6, 0.4)


def _misled(
    rng: np.random.Generator, truth: Ints, people: int, options: int, per_item: int, share: float, shared: float
) -> Annotations:
    accuracy, rival = rng.beta(12, 4, people), (truth + 1 + rng.integers(options - 1, size=len(truth))) % options
    wrong = rng.random(len(truth)) < share
    seen, other = np.where(wrong, rival, truth), np.where(wrong, truth, rival)
    return _by_difficulty(rng, seen, other, accuracy, per_item, options, shared)


def _by_difficulty(
    rng: np.random.Generator, seen: Ints, other: Ints, accuracy: Floats, per_item: int, options: int, shared: float
) -> Annotations:
    """Labels that are `seen` (items,) or `other`; `shared` is the part of the variance that is the item's."""
    table, _ = annotate(rng, seen, accuracy, per_item, options)
    item, hardness = table.item, rng.normal(size=len(seen))
    own = rng.normal(size=len(item))
    right = np.sqrt(shared) * hardness[item] + np.sqrt(1 - shared) * own < norm.ppf(accuracy)[table.annotator]
    return replace(table, label=np.where(right, seen[item], other[item]).astype(np.int32))


PANELS: dict[str, Callable[[np.random.Generator, Ints, int, int, int], Annotations]] = {
    "copies": with_copies,
    "a crowd that errs together": crowd_like,
    "judges who err together": judges_like,
    "hard items, nobody misled": on_hard_items,
}
