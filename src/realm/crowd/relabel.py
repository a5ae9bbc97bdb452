"""What to have labelled again, and by whom, within a budget.

A label is worth the bits that it tells about the truth, per unit of cost; work is shared among those about as good.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from realm.crowd.engine import Floats, Ints
from realm.crowd.estimate import Estimate
from realm.crowd.tables import item_summary
from realm.data import Annotations
from realm.data.annotations import UNKNOWN
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

SUGGESTIONS = 3
"""How many annotators are named for each item: whom to ask, and two to fall back on."""
CANDIDATES = 64
"""Annotators that are compared for each item: those who tell most per unit of cost in the task."""
LEAST_GAIN = 1e-6
"""Bits below which another label is not worth asking for: rounding errors of a sum of entropies are smaller."""
HALF_AS_GOOD = 0.5
"""Those share the work whose label tells at least half as much per unit of cost as the best for the item."""
POOL, POOL_PER_LABEL = 1_000, 5
"""Items that are considered at the least, and for each label that the budget pays for: the most uncertain ones."""


# -------------------------------------------------------------------- what a label is worth


def information_gain(posterior: Floats, channel: Floats) -> Floats:
    """Bits that one more label is expected to tell about the truth: its mutual information with the answer.

    `posterior` is (items, K), `channel` the annotator's P(answer | truth), (K, K). Shape (items,)
    """
    given = bits(posterior @ channel).sum(axis=1) - posterior @ bits(channel).sum(axis=1)
    return np.asarray(np.maximum(given, 0.0))


def correction_gain(posterior: Floats, channel: Floats) -> Floats:
    """How much more probably the most probable label is right after one more label. Shapes as `information_gain`.

    Summed over items, the number of labels expected to be put right, less those put wrong; 0 where no answer of the
    annotator could change the label.
    """
    right = (posterior[:, :, None] * channel).max(axis=1).sum(axis=1)
    return np.asarray(np.maximum(right - posterior.max(axis=1, initial=0.0), 0.0))


def bits(share: Floats) -> Floats:
    """-p log2 p, 0 at p = 0."""
    return np.asarray(-share * np.log2(np.maximum(share, 1e-300)))


def channel_of(estimate: Estimate, annotator: int, task: int, options: int) -> Floats:
    """P(answer | truth) on items with so many options, to the power of tau: flatter where annotators err together."""
    matrix = estimate.confusion(annotator, task)[:options, :options] ** float(estimate.exponent[task])
    return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))


# -------------------------------------------------------------------- whom to ask


def find_offers(
    annotations: Annotations, estimate: Estimate, posterior: Floats, items: Ints, prices: Floats
) -> tuple[Ints, Floats, Floats]:
    """Whom to ask about these items: those seen in the task, better than chance, who have not labelled the item.

    `posterior` (items, Kmax) is that of all items; `prices` (annotators,) is NaN for those who are not to be asked.
    Returns annotators, best first (-1 where there are fewer), the bits that each tells, and bits per unit of cost (0
    there). Shapes (len(items), candidates)
    """
    n, shape = annotations.n_annotators, (len(items), min(CANDIDATES, annotations.n_annotators))
    people, gain = np.full(shape, UNKNOWN, dtype=np.int64), np.zeros(shape)
    kinds = np.stack([annotations.item_tasks[items], annotations.option_counts[items]], axis=1)
    for task, options in np.unique(kinds, axis=0).tolist():
        rows = np.flatnonzero((kinds == (task, options)).all(axis=1))
        expertise = np.nan_to_num(estimate.expertise[:, task])
        known = np.flatnonzero((estimate.annotations[:, task] > 0) & np.isfinite(prices) & (expertise > 0))
        worth = expertise[known] ** 2 / prices[known]  # bits grow about with the square of expertise
        for place, who in enumerate(np.sort(known[np.argsort(-worth, kind="stable")[:CANDIDATES]]).tolist()):
            channel = channel_of(estimate, who, task, options)
            people[rows, place], gain[rows, place] = who, information_gain(posterior[items[rows], :options], channel)
    near = np.isin(annotations.item, items)
    labelled = annotations.item[near].astype(np.int64) * n + annotations.annotator[near]
    is_offer = (gain > LEAST_GAIN) & ~np.isin(items[:, None] * n + people, labelled)
    gain = np.where(is_offer, np.round(gain, 12), 0.0)  # ties stay ties
    value = np.where(is_offer, gain / prices[people], 0.0)
    order = np.argsort(-value, axis=1, kind="stable")
    people, gain, value = (
        np.take_along_axis(each, order, axis=1) for each in (np.where(is_offer, people, UNKNOWN), gain, value)
    )
    return people, gain, value


def hand_out(
    annotator: Ints, value: Floats, prices: Floats, budget: float, most_each: int | None = None
) -> list[tuple[int, int]]:
    """(row, place in the row) of what is asked, in order, until the budget is spent or nothing is left.

    `annotator` and `value` (items, candidates), 0 for nobody, are the offers for each item. The item of the highest
    value comes first. Those who tell at least half as much about it as the best share the work in proportion to what
    they tell, and no item is chosen to fill a share. With `most_each` the best of those who have been asked less often
    than that is asked.
    """
    load = np.zeros(len(prices), np.int64)
    queue = [(-best, row) for row, best in enumerate(value.max(axis=1, initial=0.0).tolist())]
    heapify(queue)
    requests: list[tuple[int, int]] = []
    while queue:
        expected, row = heappop(queue)
        people = annotator[row]
        allowed = np.where(prices[people] <= budget, value[row], 0.0)
        if most_each is not None:
            allowed[load[people] >= most_each] = 0.0
        best = float(allowed.max())
        if best <= 0:
            continue
        if best < -expected:  # the best may not be asked any more: another item may come first now
            heappush(queue, (-best, row))
            continue
        if most_each is None:
            allowed = np.where(allowed >= HALF_AS_GOOD * best, allowed / (1 + load[people]), 0.0)
        place = int(allowed.argmax())
        requests.append((row, place))
        load[people[place]] += 1
        budget -= prices[people[place]]
    return requests


# -------------------------------------------------------------------- the queue


def relabel_queue(
    annotations: Annotations,
    log_probs: npt.ArrayLike,
    estimate: Estimate,
    budget: float,
    costs: Mapping[str, float] | None = None,
    most_each: int | None = None,
) -> pd.DataFrame:
    """The items worth another annotation, in the order in which to ask, until the budget is spent.

    `costs` gives the price of one annotation by annotator; without it each costs 1, so that `budget` counts
    annotations. Annotators that `costs` does not name are not asked. Each item is listed once: gather the answers, run
    again, and ask anew. Named are annotators seen in the item's task, better than chance, who have not labelled it.
    Nobody is asked for more than `most_each`; without it those who are about as good share the work.

    Columns: item, task, text, context (where there is any), label (the most probable one), confidence, model (the
    model's own favourite), labels_given, annotations, gain_bits (what the answer is expected to tell), gain_labels (how
    much more probably the label is right after it), gain_per_cost (bits per unit of cost), ask (whom), ask_accuracy,
    cost, or_else (others worth asking).
    """
    import pandas as pd

    if not budget > 0:
        raise RealmError(f"`budget` must be more than 0, not {budget}.")
    if most_each is not None and most_each < 1:
        raise RealmError(f"`most_each={most_each}`: must be 1 or more.")
    prices = read_prices(annotations, costs)
    prices[~(prices <= budget)] = np.nan
    # what all annotators miss no answer tells; where the truth is given, there is nothing to tell
    is_known = estimate.posterior.max(axis=1, keepdims=True, initial=0.0) == 1
    posterior = np.where(is_known, estimate.posterior, estimate.apparent(annotations))
    most = 0 if np.isnan(prices).all() else int(min(budget / np.nanmin(prices), annotations.n_items))
    size = max(POOL, POOL_PER_LABEL * most)
    pool = np.sort(np.argsort(-bits(posterior).sum(axis=1), kind="stable")[:size])
    offers, gain, value = find_offers(annotations, estimate, posterior, pool, prices)
    # sums of prices are not exact: more than rounding, less than any price
    requests = hand_out(offers, value, prices, budget * (1 + 1e-12), most_each)
    rows, places = np.array(requests, dtype=np.int64).reshape(-1, 2).T
    items, asked, gains = pool[rows], offers[rows, places], gain[rows, places]
    names, task = np.array([*annotations.annotators, ""], dtype=object), annotations.item_tasks[items]
    or_else = [
        ", ".join(names[[each for each in row if each not in (UNKNOWN, who)][: SUGGESTIONS - 1]])
        for row, who in zip(offers[rows, : SUGGESTIONS + 1].tolist(), asked.tolist(), strict=True)
    ]
    return pd.DataFrame(
        {
            **item_summary(annotations, log_probs, estimate, items),
            "gain_bits": gains,
            "gain_labels": _corrections(annotations, estimate, posterior, items, asked),
            "gain_per_cost": gains / prices[asked],
            "ask": names[asked],
            "ask_accuracy": estimate.accuracy[asked, task],
            "cost": prices[asked],
            "or_else": or_else,
        }
    )


def _corrections(annotations: Annotations, estimate: Estimate, posterior: Floats, items: Ints, asked: Ints) -> Floats:
    """How much more probably the label of each item is right after the answer of who is asked. Shape (requests,)"""
    gains = np.zeros(len(items))
    for at, (item, who) in enumerate(zip(items.tolist(), asked.tolist(), strict=True)):
        task, options = int(annotations.item_tasks[item]), int(annotations.option_counts[item])
        seen = 1 - options * float(estimate.shared_error[task]) / max(options - 1, 1)  # of what annotators see is true
        channel = channel_of(estimate, who, task, options)
        gains[at] = seen * correction_gain(posterior[[item], :options], channel)[0]
    return gains


def read_prices(annotations: Annotations, costs: Mapping[str, float] | None) -> Floats:
    """The price of each annotator's annotation; NaN where they are not to be asked. Shape (annotators,)."""
    if costs is None:
        return np.ones(annotations.n_annotators)
    if bad := [name for name, cost in costs.items() if not (np.isfinite(cost) and cost > 0)]:
        raise RealmError(f"`costs`: the cost of an annotation must be more than 0; see annotator {bad[0]}.")
    prices = np.array([costs.get(name, np.nan) for name in annotations.annotators], dtype=np.float64)
    if np.isnan(prices).all():
        raise RealmError("`costs` names none of the annotators of this run.")
    return prices


@dataclass(frozen=True)
class QueueSummary:
    """What so many annotations are expected to buy for their cost, against what is there now.

    `bits` of the uncertainty about all labels (`bits_now`) are removed, and `labels` of those that are wrong
    (`wrong_now`) put right, less those put wrong. `workload` has the columns annotator, annotations, cost, gain_bits,
    gain_labels; who is asked most comes first.
    """

    annotations: int
    cost: float
    bits: float
    bits_now: float
    labels: float
    wrong_now: float
    workload: pd.DataFrame


def summarise_queue(queue: pd.DataFrame, estimate: Estimate) -> QueueSummary:
    """What the queue that `relabel_queue` made of this estimate is expected to buy, as far as its confidences hold."""
    workload = queue.groupby("ask", sort=False)[["cost", "gain_bits", "gain_labels"]].sum()
    workload.insert(0, "annotations", queue["ask"].value_counts())
    workload = workload.rename_axis("annotator").reset_index()
    return QueueSummary(
        annotations=len(queue),
        cost=float(queue["cost"].sum()),
        bits=float(queue["gain_bits"].sum()),
        bits_now=float(bits(estimate.posterior).sum()),
        labels=float(queue["gain_labels"].sum()),
        wrong_now=float((1 - estimate.posterior.max(axis=1, initial=0.0)).sum()),
        workload=workload.sort_values("annotations", ascending=False, kind="stable", ignore_index=True),
    )
