"""What to have labelled again, and by whom, within a budget.

A label is worth the bits that it tells about the truth (the mutual information of truth and answer under the item's
posterior and the annotator's confusion matrix), per unit of cost. Where annotators err together, a label of theirs is
taken to the power of tau, as it is in the posterior. Items are handed out greedily and in rounds: nobody is asked for
more than one label more than another who could tell at least half as much, of any item that is left. So those who are
about as good share the work, and nobody gets a settled item to fill a share. Nothing depends on the budget but where it
ends: with one price for all, the requests of a small budget are the first of a larger one's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from realm.crowd.engine import Bools, Floats, Ints
from realm.crowd.estimate import Estimate
from realm.crowd.tables import item_summary
from realm.data import Annotations
from realm.data.annotations import UNKNOWN
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

SUGGESTIONS = 3
"""How many annotators are named for each item: the best, and two to fall back on."""
CANDIDATES = 64
"""Annotators that are compared for each item: those who tell most per unit of cost in the task."""
LEAST_GAIN = 1e-6
"""Bits below which another label is not worth asking for: rounding errors of a sum of entropies are smaller."""
HALF_AS_GOOD = 0.5
"""Work is shared as long as each label tells at least half as much per unit of cost as the best that could be asked."""
POOL = 10_000
"""Items among which work is handed out at a time: those that a label tells most about."""
CHUNK_SIZE = 2_000_000
"""Largest (items, annotators, options) array: 16 MB of float64."""


# -------------------------------------------------------------------- what a label is worth


def information_gain(posterior: Floats, channel: Floats) -> Floats:
    """Bits that one more label is expected to tell about the truth: its mutual information with the answer.

    `posterior` is (items, K), `channel` P(answer | truth) of some annotators (annotators, K, K). (items, annotators)
    """
    answers = np.tensordot(posterior, channel, axes=(1, 1))
    return np.asarray(np.maximum(bits(answers).sum(axis=2) - posterior @ bits(channel).sum(axis=2).T, 0.0))


def correction_gain(posterior: Floats, channel: Floats) -> Floats:
    """How much more probably the most probable label is right after one more label. (n, K) and (n, K, K) to (n,)

    Summed over items, the number of labels expected to be put right, less those put wrong; 0 where no answer of the
    annotator could change the label.
    """
    right = (posterior[:, :, None] * channel).max(axis=1).sum(axis=1)
    return np.asarray(np.maximum(right - posterior.max(axis=1, initial=0.0), 0.0))


def bits(share: Floats) -> Floats:
    """-p log2 p, 0 at p = 0."""
    return np.asarray(-share * np.log2(np.maximum(share, 1e-300)))


# -------------------------------------------------------------------- whom to ask


@dataclass(frozen=True, eq=False)
class Offers:
    """The best annotators for some items, best first; -1 where there are fewer. Shapes (items, candidates).

    `gain` is in bits, `value` in bits per unit of cost, -inf where there is nobody or nothing to gain.
    """

    annotator: Ints
    gain: Floats
    value: Floats


class Candidates:
    """Who may be asked in each task: those seen in it, better than chance, who tell most per unit of cost.

    `prices` (annotators,) is NaN for those who are not to be asked; `posterior` (items, Kmax) that of the items.
    """

    def __init__(self, annotations: Annotations, estimate: Estimate, posterior: Floats, prices: Floats) -> None:
        self._annotations, self._posterior, self._prices = annotations, posterior, prices
        self._estimate = estimate
        self._labelled = np.sort(annotations.item.astype(np.int64) * annotations.n_annotators + annotations.annotator)
        self._kinds = annotations.item_tasks.astype(np.int64) * (posterior.shape[1] + 1) + annotations.option_counts
        self._people: dict[int, tuple[Ints, Floats]] = {}

    def channels(self, annotators: Ints, task: int, count: int) -> Floats:
        """P(answer | truth) on items with so many options, to the power of tau. Shape (annotators, count, count)"""
        matrices = np.stack([self._estimate.confusion(int(each), task)[:count, :count] for each in annotators])
        matrices = matrices ** float(self._estimate.exponent[task])
        return np.asarray(matrices / matrices.sum(axis=2, keepdims=True))

    def _of_kind(self, kind: int) -> tuple[Ints, Floats]:
        """The annotators to compare on items of one task and number of options, and their channels."""
        if kind not in self._people:
            task, count = divmod(kind, self._posterior.shape[1] + 1)
            estimate = self._estimate
            asked = (estimate.annotations[:, task] > 0) & np.isfinite(self._prices)
            expertise = np.nan_to_num(estimate.expertise[:, task])
            people = np.flatnonzero(asked & (expertise > 0))
            # bits grow about with the square of expertise: of thousands only the likeliest are looked at closely
            first = np.argsort(-(expertise[people] ** 2) / self._prices[people], kind="stable")[: 4 * CANDIDATES]
            people = people[np.sort(first)]
            typical = self._posterior[self._kinds == kind, :count].mean(axis=0, keepdims=True)
            gains = [
                information_gain(typical, self.channels(people[[at]], task, count))[0, 0] for at in range(len(people))
            ]
            best = np.argsort(-np.array(gains, np.float64) / self._prices[people], kind="stable")[:CANDIDATES]
            people = people[np.sort(best)]
            self._people[kind] = people, self.channels(people, task, count) if len(people) else np.zeros((0, 0, 0))
        return self._people[kind]

    def offers(self, items: Ints) -> Offers:
        """The best of them for each of these items, those left out who have labelled it."""
        shape = (len(items), min(CANDIDATES, self._annotations.n_annotators))
        offers = Offers(np.full(shape, UNKNOWN), np.zeros(shape), np.full(shape, -np.inf))
        for kind in np.unique(self._kinds[items]).tolist():
            people, channel = self._of_kind(kind)
            if not len(people):
                continue
            rows = np.flatnonzero(self._kinds[items] == kind)
            size = max(CHUNK_SIZE // channel[:, 0].size, 1)
            for start in range(0, len(rows), size):
                self._fill(offers, rows[start : start + size], items[rows[start : start + size]], people, channel)
        return offers

    def _fill(self, offers: Offers, rows: Ints, items: Ints, people: Ints, channel: Floats) -> None:
        gain = np.round(information_gain(self._posterior[items, : channel.shape[1]], channel), 12)  # ties stay ties
        keys = items[:, None] * self._annotations.n_annotators + people
        place = np.minimum(np.searchsorted(self._labelled, keys), len(self._labelled) - 1)
        possible = (gain > LEAST_GAIN) & (self._labelled[place] != keys)
        value = np.where(possible, gain / self._prices[people], -np.inf)
        order = np.argsort(-value, axis=1, kind="stable")
        width = len(people)
        offers.value[rows, :width] = np.take_along_axis(value, order, axis=1)
        offers.gain[rows, :width] = np.take_along_axis(gain, order, axis=1)
        offers.annotator[rows, :width] = np.where(np.isfinite(offers.value[rows, :width]), people[order], UNKNOWN)


def hand_out(
    offers: Offers, prices: Floats, budget: float, load: Ints, most_each: int | None = None
) -> list[tuple[int, int]]:
    """(row of `offers`, place in the row) of what is asked, in order, until the budget is spent or nothing is left.

    The pair of the highest value among those whom the limit allows, again and again. `load` (annotators,) counts what
    everybody was asked for; the limit is `most_each`, or without it one, and it rises by one where somebody at the
    limit could tell more than twice as much as anybody below it.
    """
    people, value = offers.annotator, offers.value.copy()
    every = np.arange(len(people))
    limit = most_each or int(load[np.unique(people[people >= 0])].min(initial=np.iinfo(np.int64).max - 1)) + 1

    def best(rows: Ints, allowed: Bools) -> tuple[Ints, Floats]:
        """The first place of each row whose annotator is allowed, and its value; -inf where there is none."""
        free = allowed[people[rows]] & np.isfinite(value[rows])
        place = free.argmax(axis=1)
        return place, np.where(free.any(axis=1), value[rows, place], -np.inf)

    requests: list[tuple[int, int]] = []
    affordable = prices <= budget  # False where the price is NaN
    _, top = best(every, affordable)
    place, below = best(every, affordable & (load < limit))
    while len(every) and (highest := float(top.max())) > -np.inf:
        row = int(below.argmax())
        if most_each is None and below[row] < HALF_AS_GOOD * highest:
            limit += 1
            place, below = best(every, affordable & (load < limit))
            continue
        if below[row] == -np.inf:
            break
        who = int(people[row, place[row]])
        requests.append((row, int(place[row])))
        load[who] += 1
        budget -= prices[who]
        value[row] = top[row] = below[row] = -np.inf
        if ((prices <= budget) != affordable).any():
            affordable = prices <= budget
            _, top = best(every, affordable)
            place, below = best(every, affordable & (load < limit))
        elif load[who] >= limit:
            rows = np.flatnonzero(people[every, place] == who)
            place[rows], below[rows] = best(rows, affordable & (load < limit))
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
    candidates = Candidates(annotations, estimate, posterior, prices)
    every = np.arange(annotations.n_items)
    values = [candidates.offers(every[start : start + POOL]).value[:, 0] for start in range(0, len(every), POOL)]
    highest = np.concatenate(values) if values else np.zeros(0)
    order = np.argsort(-highest, kind="stable")[: int(np.isfinite(highest).sum())]
    left = budget * (1 + 1e-12)  # sums of prices are not exact: more than rounding, less than any price
    load = np.zeros(annotations.n_annotators, dtype=np.int64)
    items, asked, gains, ranked = [], [], [], []
    for start in range(0, len(order), POOL):
        pool = np.sort(order[start : start + POOL])
        offers = candidates.offers(pool)
        for row, place in hand_out(offers, prices, left, load, most_each):
            items.append(int(pool[row]))
            asked.append(int(offers.annotator[row, place]))
            gains.append(float(offers.gain[row, place]))
            ranked.append([each for each in offers.annotator[row, : SUGGESTIONS + 1].tolist() if each >= 0])
        left = budget * (1 + 1e-12) - float(prices[asked].sum())
        if not (prices <= left).any():
            break
    rows, who = np.array(items, dtype=np.int64), np.array(asked, dtype=np.int64)
    names, cost = annotations.annotators, prices[who]
    return pd.DataFrame(
        {
            **item_summary(annotations, log_probs, estimate, rows),
            "gain_bits": np.array(gains, dtype=np.float64),
            "gain_labels": _corrections(annotations, estimate, candidates, posterior, rows, who),
            "gain_per_cost": np.array(gains, dtype=np.float64) / cost,
            "ask": np.array([*names, ""], dtype=object)[who],
            "ask_accuracy": estimate.accuracy[who, annotations.item_tasks[rows]],
            "cost": cost,
            "or_else": [
                ", ".join([names[each] for each in people if each != one][: SUGGESTIONS - 1])
                for people, one in zip(ranked, asked, strict=True)
            ],
        }
    )


def _corrections(
    annotations: Annotations, estimate: Estimate, candidates: Candidates, posterior: Floats, items: Ints, asked: Ints
) -> Floats:
    """How much more probably the label of each item is right after the answer of who is asked. Shape (requests,)"""
    gains = np.zeros(len(items))
    for at, (item, who) in enumerate(zip(items.tolist(), asked.tolist(), strict=True)):
        task, count = int(annotations.item_tasks[item]), int(annotations.option_counts[item])
        channel = candidates.channels(np.array([who]), task, count)
        error = float(estimate.shared_error[task]) / max(count - 1, 1)
        gains[at] = (1 - count * error) * correction_gain(posterior[[item], :count], channel)[0]
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
    """What a queue is expected to buy, against what is there now.

    | field | meaning |
    |---|---|
    | annotations, cost | how many annotations it asks for, and what they cost together |
    | bits, bits_now | uncertainty about the labels that it is expected to remove, and all there is (entropy) |
    | labels, wrong_now | labels expected to be put right (less those put wrong), and to be wrong now |
    | workload | DataFrame: annotator, annotations, cost, gain_bits, gain_labels; who is asked most comes first |
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
    columns = ["cost", "gain_bits", "gain_labels"]
    workload = queue.groupby("ask", sort=False)[columns].sum()
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
