"""Simulated annotators over items whose true label is known: pools, error channels and regimes of the paper.

An annotator of accuracy a gives the true label t with probability a, and otherwise an error that the noise decides:

| noise | the label given in error, of K options |
|---|---|
| `uniform` | any of the K - 1 others alike |
| `asymmetric` | (t + 1) mod K with share c / (c + K - 2), c = 4, the other K - 2 alike |
| `systematic` | (t + i + 1) mod K for annotator i from 0, as in the paper: the true label where K divides i + 1 |
| `systematic-offset` | (t + 1 + i mod (K - 1)) mod K, which is never the true label |

With c = 4 and K = 4 the adjacent class gets 66.7% of the errors, while the paper's text says about 57%, which is
c / (c + K - 1): `adjacent="paper"` gives that share. What the paper calls the true expertise of a simulated annotator
is an accuracy; the expertise beta that the mixture can learn from it is `implied_expertise`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from realm.crowd.label_figures import accuracy_by_gold
from realm.data.annotations import OPTIONAL, UNKNOWN, Annotations
from realm.data.arguments import require_annotations
from realm.errors import RealmError

Floats = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]
Noise = Literal["uniform", "asymmetric", "systematic", "systematic-offset"]
Regime = Literal["sparse", "shared"]
Adjacent = Literal["weight", "paper"]

HIGH, LOW = 0.9, 0.1
"""Accuracies of a reliable and of an unreliable annotator in the paper."""
POOLS: dict[str, tuple[float, ...]] = {"D1": (HIGH, LOW, LOW), "D2": (HIGH, HIGH, LOW), "D3": (HIGH, 0.5, LOW)}
"""Accuracies of the paper's pools of three."""
ADJACENT_WEIGHT = 4.0
"""How much likelier the adjacent class is than another wrong one, under asymmetric noise: c of the paper."""
MOST_ANNOTATORS = 10_000
"""Annotators of a pool that is named by its size: more than any published crowd of one task."""
ENOUGH_TO_RANK = 10
"""Annotations of items with gold that an annotator needs to be ranked: with fewer, an accuracy is one of few values."""


def read_pool(pool: str) -> tuple[float, ...]:
    """The accuracies that a pool's name stands for.

    `D1`, `D2`, `D3` are the paper's; `graded:N` is N accuracies from 0.9 down to 0.1 in equal steps; `one-reliable:N`
    one of 0.9 among N - 1 of 0.1; `0.9,0.5,0.1` stands for itself.

    Examples:
        >>> read_pool("D3")
        (0.9, 0.5, 0.1)
    """
    name, _, size = pool.strip().partition(":")
    if name.upper() in POOLS and not size:
        return POOLS[name.upper()]
    try:
        if name == "graded" and 2 <= (n := int(size)) <= MOST_ANNOTATORS:
            return tuple(HIGH - i * (HIGH - LOW) / (n - 1) for i in range(n))
        if name == "one-reliable" and 1 <= int(size) <= MOST_ANNOTATORS:
            return (HIGH, *[LOW] * (int(size) - 1))
        return tuple(float(value) for value in pool.split(","))
    except ValueError:
        raise RealmError(
            f"`pool={pool}`: must be {', '.join(POOLS)}, graded:N or one-reliable:N (N from 2 to {MOST_ANNOTATORS:,}), "
            "or accuracies such as 0.9,0.5,0.1."
        ) from None


def simulate(
    annotations: Annotations,
    accuracies: Sequence[float] | npt.ArrayLike,
    *,
    noise: Noise = "uniform",
    regime: Regime = "sparse",
    per_item: int | None = None,
    adjacent: Adjacent = "weight",
    names: Sequence[str] | None = None,
    seed: int = 0,
) -> Annotations:
    """Annotations of the items with gold, by annotators of these accuracies; gold is kept, old annotations are not.

    Args:
        annotations: a table whose items have gold.
        accuracies: P(label = truth), (annotators,) or (annotators, tasks).
        noise: which label is given in error.
        regime: `sparse` gives each annotator a disjoint share of each task's items; `shared` gives all of them all.
        per_item: in place of a regime, how many annotators are drawn for each item.
        adjacent: the share of the adjacent class under `asymmetric`: from its `weight`, or as the `paper` states it.
        names: the annotators' names; by default a1, a2, ...
        seed: the same seed gives the same table; whether a label is right does not depend on the noise.
    """
    require_annotations(annotations, "annotations")
    choices = (("noise", noise, Noise), ("regime", regime, Regime), ("adjacent", adjacent, Adjacent))
    for argument, value, kind in choices:
        if value not in get_args(kind):
            raise RealmError(f"`{argument}={value}`: must be one of {', '.join(get_args(kind))}.")
    table = _with_gold(annotations)
    assert table.gold is not None
    matrix = _accuracy_matrix(accuracies, len(table.tasks))
    if names is not None and not len(names) == len(set(names)) == len(matrix):
        raise RealmError(f"{len(matrix)} accuracies need as many distinct names, not {', '.join(names)}.")
    generator = np.random.default_rng(seed)
    item, annotator = _assignment(table, len(matrix), regime, per_item, generator)
    truth, options = table.gold[item].astype(np.int64), table.option_counts[item].astype(np.int64)
    is_right = generator.random(len(item)) < matrix[annotator, table.item_tasks[item]]
    errors = _wrong_labels(truth, options, annotator, noise, generator, adjacent)
    simulated = replace(
        table,
        annotators=tuple(names or (f"a{i + 1}" for i in range(len(matrix)))),
        item=item.astype(np.int32),
        annotator=annotator.astype(np.int32),
        label=np.where(is_right, truth, errors).astype(np.int32),
        source_rows=None,
        groups=None,
    )
    never_wrong = np.unique(annotator[(annotator + 1) % options == 0])
    if noise == "systematic" and len(never_wrong):
        realised = realised_accuracies(simulated)
        each = (
            f"{simulated.annotators[i]} {np.nanmean(realised[i]):.2f} instead of {matrix[i].mean():.2f}"
            for i in never_wrong
        )
        simulated.ledger.warn(
            "systematic noise as the paper defines it gives the true label in error for some annotators: realised "
            f"accuracy {', '.join(each)}. `systematic-offset` never does."
        )
    return simulated


def _wrong_labels(
    truth: Index, options: Index, annotator: Index, noise: Noise, generator: np.random.Generator, adjacent: Adjacent
) -> Index:
    """The label each annotator gives when in error, (annotations,). Every noise draws the same random values."""
    choice, step = generator.random(len(truth)), generator.random(len(truth))
    if noise == "uniform":
        shift = 1 + (step * (options - 1)).astype(np.int64)
    elif noise == "asymmetric":
        others = options - 2
        share = ADJACENT_WEIGHT / (ADJACENT_WEIGHT + others + (adjacent == "paper"))
        shift = np.where((choice < share) | (others == 0), 1, 2 + (step * others).astype(np.int64))
    else:
        shift = annotator + 1 if noise == "systematic" else 1 + annotator % (options - 1)
    wrong: Index = (truth + shift) % options
    return wrong


def _assignment(
    table: Annotations, n_annotators: int, regime: Regime, per_item: int | None, generator: np.random.Generator
) -> tuple[Index, Index]:
    """Item and annotator of every annotation to simulate, sorted by item."""
    n = table.n_items
    if per_item is not None:
        if not 1 <= per_item <= n_annotators:
            raise RealmError(f"`per_item={per_item}`: must lie between 1 and the {n_annotators} annotators.")
        annotators = _draw_distinct(n, n_annotators, per_item, generator)
    elif regime == "shared":
        annotators = np.broadcast_to(np.arange(n_annotators), (n, n_annotators))
    else:
        annotators = np.empty((n, 1), dtype=np.int64)
        for task in range(len(table.tasks)):
            items = np.flatnonzero(table.item_tasks == task)
            order = generator.permutation(n_annotators)  # so that no annotator always gets the larger share
            annotators[generator.permutation(items), 0] = order[np.arange(len(items)) % n_annotators]
    return np.repeat(np.arange(n), annotators.shape[1]), annotators.ravel().astype(np.int64)


def _draw_distinct(n: int, n_annotators: int, k: int, generator: np.random.Generator) -> Index:
    """k distinct annotators for each of n items, in rising order (Floyd's algorithm). Shape (n, k)."""
    annotators = np.full((n, k), UNKNOWN, dtype=np.int64)
    for place, last in enumerate(range(n_annotators - k, n_annotators)):
        draw = generator.integers(last + 1, size=n)
        is_taken = (annotators[:, :place] == draw[:, None]).any(axis=1)
        annotators[:, place] = np.where(is_taken, last, draw)
    return np.sort(annotators, axis=1)


def _with_gold(annotations: Annotations) -> Annotations:
    """The items with gold, without annotations, and a ledger of their own."""
    if annotations.gold is None or not (annotations.gold != UNKNOWN).any():
        raise RealmError("simulating annotators needs gold labels, and the table has none. Name the column: `gold`.")
    has_gold = annotations.gold != UNKNOWN
    nothing = np.zeros(0, dtype=np.int32)
    absent: dict[str, Any] = dict.fromkeys(OPTIONAL)
    items = replace(annotations, item=nothing, annotator=nothing, label=nothing, **absent)
    ledger = annotations.ledger.copy()
    ledger.add("no gold label to simulate from", np.flatnonzero(~has_gold) + 1)
    return replace(items.take_items(np.flatnonzero(has_gold)), ledger=ledger)


def _accuracy_matrix(accuracies: Sequence[float] | npt.ArrayLike, tasks: int) -> Floats:
    matrix = np.asarray(accuracies, dtype=np.float64)
    if matrix.ndim == 1:
        matrix = np.repeat(matrix[:, None], tasks, axis=1)
    if matrix.ndim != 2 or not len(matrix) or matrix.shape[1] != tasks:
        raise RealmError(f"accuracies must have shape (annotators,) or (annotators, {tasks}), not {matrix.shape}.")
    if not ((matrix >= 0) & (matrix <= 1)).all():
        raise RealmError("every accuracy must lie between 0 and 1.")
    return matrix


def realised_accuracies(table: Annotations) -> Floats:
    """Share of each annotator's labels that equal gold, (annotators, tasks); NaN where there are none."""
    return accuracy_by_gold(table)[0]


def ranked_pairs(table: Annotations) -> npt.NDArray[np.bool_]:
    """The (annotator, task) pairs with enough annotations of items with gold to be ranked. (annotators, tasks)"""
    return accuracy_by_gold(table)[1] >= ENOUGH_TO_RANK


def implied_expertise(accuracy: npt.ArrayLike, options: npt.ArrayLike) -> Floats:
    """The mixture's beta for an accuracy among K options, (a - 1/K) / (1 - 1/K); negative below chance.

    Examples:
        >>> implied_expertise([0.9, 0.5, 0.25], 4).round(3).tolist()
        [0.867, 0.333, 0.0]
    """
    chance = 1 / np.asarray(options, dtype=np.float64)
    return np.asarray((np.asarray(accuracy, dtype=np.float64) - chance) / (1 - chance))
