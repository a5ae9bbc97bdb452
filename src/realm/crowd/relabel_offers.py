"""What one more label is expected to tell, and whom to ask about which item within a budget.

Two figures of a label: the bits that it tells about the truth (mutual information), and how much more probably the
item's label is right after it. Both take the annotator's errors to be their own: where annotators err together a label
tells less.

Items are handed out greedily: again and again the item and annotator with the most bits per unit of cost, as long as
the budget pays for it. An annotator who has their share gets no more, and the item goes to the next best for it.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from realm.crowd.coin import bits
from realm.crowd.estimate import Estimate
from realm.crowd.evidence import Bools, Floats, Indices
from realm.crowd.habit import label_distribution, right_after_answer
from realm.data import Annotations
from realm.data.annotations import UNKNOWN
from realm.errors import RealmError

SUGGESTIONS = 3
"""How many annotators are named for each item: the best, and two to fall back on."""
CANDIDATES = 32
"""Annotators looked at for each item at least, those with fewest better offers first."""
LEAST_GAIN = 1e-6
"""Bits below which another label is not worth asking for: rounding errors of a sum of entropies are smaller."""
HALF_AS_GOOD = 0.5
"""Who tells at least half as much per unit of cost as the best shares the work with them: spreading it over people
never costs more than half of what a label is worth."""
POOL, POOL_FACTOR = 10_000, 4
"""Items among which work is handed out at least, and how many times as many as the budget may pay for: the ones that a
label tells most about. With more items than that the rest is not looked at."""
BLOCK = 1_024
"""Items that are ranked anew at once when those they were to go to have their share."""
CHUNK_SIZE = 2_000_000
"""Largest (items, annotators, options) array: 16 MB of float64."""


def information_gain(
    posterior: Floats, options: Indices, expertise: npt.ArrayLike, habits: npt.ArrayLike = 1.0
) -> Floats:
    """Bits that one more label by an annotator of this expertise is expected to tell about the true label.

    The mutual information of the true label and the label given: the entropy of the label less its mean entropy given
    the truth. `posterior` is (n, Kmax), `options` is K (n,); `expertise` is (n,) or (n, annotators), and so is the
    result; `habits` is (annotators, Kmax) or (n, annotators, Kmax), or 1.0 where they are even. The posterior mean of
    an uncertain expertise gives it exactly.
    """
    beta, xi = np.asarray(expertise, np.float64), np.asarray(habits, np.float64)
    labels, noise = label_distribution(beta if beta.ndim == 2 else beta[:, None], xi, posterior, options)
    return np.asarray(np.maximum(bits(labels).sum(axis=-1) - noise, 0.0).reshape(beta.shape))


def correction_gain(
    posterior: Floats, options: Indices, expertise: npt.ArrayLike, habits: npt.ArrayLike = 1.0
) -> Floats:
    """How much more probably the most probable label is right after one more label; shapes of `information_gain`.

    Summed over items, the number of labels that are expected to be put right, less those that are put wrong. It is 0
    where no answer of this annotator could change the label.
    """
    beta, xi = np.asarray(expertise, np.float64), np.asarray(habits, np.float64)
    right = right_after_answer(beta if beta.ndim == 2 else beta[:, None], xi, posterior, options)
    return np.asarray(np.maximum(right - posterior.max(axis=1, keepdims=True), 0.0).reshape(beta.shape))


@dataclass(frozen=True)
class Requests:
    """Whom to ask about what, in order. Shape (requests,) each."""

    items: Indices
    annotators: Indices
    gains: Floats
    costs: Floats


@dataclass
class Ranking:
    """The best annotators for some items, best first; UNKNOWN where there are fewer. (items, SUGGESTIONS) each"""

    annotators: Indices
    gains: Floats
    costs: Floats

    @property
    def values(self) -> Floats:
        """Bits per unit of cost; -inf where there is nobody, or nothing to gain."""
        return np.where(self.gains > LEAST_GAIN, self.gains / self.costs, -np.inf)


class Offers:
    """Who may be asked about what: those seen in the item's task, better than chance, who have not labelled it.

    With even habits an annotator who costs more and is less reliable is worth asking only about items that all better
    offers have labelled already, so an item with d labels needs no more than the offers with fewer than d + SUGGESTIONS
    better ones: never all annotators. Whom a habit makes better on some items than their expertise says is among the
    candidates as long as fewer than CANDIDATES are better and no dearer.

    Args:
        prices: the price of each annotator's annotation; NaN where they are not to be asked. Shape (annotators,).
    """

    def __init__(self, annotations: Annotations, estimate: Estimate, prices: Floats) -> None:
        self._annotations, self._estimate, self.prices = annotations, estimate, prices
        pairs = annotations.item.astype(np.int64) * annotations.n_annotators + annotations.annotator
        self._labelled_pairs = np.sort(np.append(pairs, np.iinfo(np.int64).max))  # never empty

    def rank(self, items: Indices, available: Bools) -> Ranking:
        """The best of the `available` annotators (annotators,) for each of these items."""
        shape = (len(items), SUGGESTIONS)
        ranking = Ranking(np.full(shape, UNKNOWN, dtype=np.int64), np.zeros(shape), np.ones(shape))
        tasks, labels = self._annotations.item_tasks[items], self._annotations.annotations_per_item[items]
        for task in np.unique(tasks).tolist():
            offers = self._offers(task, available)
            better = _better_offers(self.prices[offers], self._estimate.expertise[offers, task])
            rows = np.flatnonzero(tasks == task)
            bound = 0
            while bound <= labels[rows].max(initial=-1):
                # Items with alike numbers of labels share their candidates; the bounds double, so there are few groups.
                upper = max(2 * bound, 1)
                group = rows[(labels[rows] >= bound) & (labels[rows] < upper)]
                candidates = offers[better < max(upper - 1 + SUGGESTIONS, CANDIDATES)]
                if len(candidates):
                    size = max(CHUNK_SIZE // (len(candidates) * self._estimate.posterior.shape[1]), 1)
                    for start in range(0, len(group), size):
                        chunk = group[start : start + size]
                        self._fill(ranking, chunk, task, items[chunk], candidates)
                bound = upper
        return ranking

    def corrections(self, requests: Requests) -> Floats:
        """`correction_gain` of each request. Shape (requests,)."""
        task = self._annotations.item_tasks[requests.items]
        expertise = self._estimate.expertise[requests.annotators, task][:, None]
        habits = self._estimate.habits[requests.annotators, task][:, None, :]
        options = self._annotations.option_counts[requests.items].astype(np.int64)
        return correction_gain(self._estimate.posterior[requests.items], options, expertise, habits)[:, 0]

    def requests(self, budget: float, most_each: int | None = None) -> Requests:
        """Hand out items until the budget is spent or nothing is to be gained, each item once.

        `most_each` is how many annotations an annotator is asked for at most. Without it everybody who tells at least
        half as much as the best shares the work evenly, as far as the items allow: an item for which all those who
        have something left tell less than half of what the best would waits until everybody has had their share.
        """
        budget *= 1 + 1e-12  # sums of prices are not exact: more than rounding, less than any price
        everyone = self.prices <= budget  # False where the price is NaN
        ranking = self.rank(np.arange(self._annotations.n_items), everyone)
        values = ranking.values[:, 0]
        order = np.argsort(-values, kind="stable")
        order = order[np.isfinite(values[order])]
        affordable = int(min(budget / self.prices[everyone].min(), len(order))) if everyone.any() else 0
        order = order[: max(POOL, POOL_FACTOR * affordable)]
        pool = np.sort(order)
        ranking = Ranking(ranking.annotators[pool], ranking.gains[pool], ranking.costs[pool])
        share = most_each
        if share is None:
            share = max(math.ceil(affordable / max(self._sharing(everyone).sum(), 1)), 1)
        work = _Work(self, pool, ranking, budget, share)
        work.hand_out(least=0.0 if most_each is not None else HALF_AS_GOOD)
        while most_each is None and work.next_round():
            work.hand_out(least=HALF_AS_GOOD)
        return work.requests()

    def _offers(self, task: int, available: Bools) -> Indices:
        present = self._estimate.annotations[:, task] > 0
        with np.errstate(invalid="ignore"):
            return np.flatnonzero(present & (self._estimate.expertise[:, task] > 0) & available)

    def _sharing(self, available: Bools) -> Bools:
        """Who tells at least half as much per unit of cost as the best of a task, of an item that nothing is known of.

        Shape (annotators,).
        """
        sharing = np.zeros(len(self.prices), dtype=bool)
        for task in range(len(self._annotations.tasks)):
            offers = self._offers(task, available)
            widths = self._annotations.option_counts[self._annotations.item_tasks == task]
            if not len(offers) or not len(widths):
                continue
            width = int(widths.max())
            even = np.where(np.arange(self._estimate.posterior.shape[1]) < width, 1 / width, 0.0)[None]
            expertise, habits = self._estimate.expertise[offers, task][None], self._estimate.habits[offers, task]
            value = information_gain(even, np.array([width]), expertise, habits)[0] / self.prices[offers]
            sharing[offers[value >= HALF_AS_GOOD * value.max()]] = True
        return sharing

    def _fill(self, ranking: Ranking, rows: Indices, task: int, items: Indices, candidates: Indices) -> None:
        """Fill in the best of the candidates for these items of a task."""
        keys = items[:, None] * self._annotations.n_annotators + candidates
        pairs = self._labelled_pairs
        labelled = pairs[np.minimum(np.searchsorted(pairs, keys), len(pairs) - 1)] == keys
        expertise = np.broadcast_to(self._estimate.expertise[candidates, task], keys.shape)
        options = self._annotations.option_counts[items].astype(np.int64)
        habits = self._estimate.habits[candidates, task]
        gain = information_gain(self._estimate.posterior[items], options, expertise, habits)
        value = np.where(labelled, -np.inf, gain / self.prices[candidates])
        # Where nothing is to be gained all offers tie at 0; the better annotator goes first all the same.
        order = np.lexsort((-expertise, -value), axis=1)[:, :SUGGESTIONS]
        places = np.arange(len(items))[:, None]
        possible = np.isfinite(value[places, order])
        width = order.shape[1]
        ranking.annotators[rows, :width] = np.where(possible, candidates[order], UNKNOWN)
        ranking.gains[rows, :width] = np.where(possible, gain[places, order], 0.0)
        ranking.costs[rows, :width] = np.where(possible, self.prices[candidates][order], 1.0)


class _Work:
    """Items being handed out: who has how many, what is left of the budget, and which items wait.

    Rows are places in `pool`, the items that may be asked about.
    """

    def __init__(self, offers: Offers, pool: Indices, ranking: Ranking, budget: float, share: int) -> None:
        self._offers, self._pool, self._ranking = offers, pool, ranking
        self._left, self._share, self._limit = budget, share, share
        self._best = ranking.values[:, 0].copy()  # with everybody to choose from
        self._load = np.zeros(len(offers.prices), dtype=np.int64)
        self._place = np.zeros(len(pool), dtype=np.int64)
        self._waiting = list(range(len(pool)))
        self._chosen: list[tuple[int, int, float, float]] = []
        self._available = self._may_be_asked()

    def requests(self) -> Requests:
        rows, annotators, gains, costs = zip(*self._chosen, strict=True) if self._chosen else ((), (), (), ())
        items = self._pool[np.array(rows, dtype=np.int64)]
        return Requests(items, np.array(annotators, dtype=np.int64), np.array(gains, float), np.array(costs, float))

    def next_round(self) -> bool:
        """Give everybody another share; whether somebody can be asked about an item that waits."""
        self._limit += self._share
        self._available = self._may_be_asked()
        if not self._waiting or not self._available.any():
            return False
        self._rank_anew(self._waiting)
        return bool(np.isfinite(self._ranking.values[self._waiting, 0]).any())

    def hand_out(self, least: float) -> None:
        """Hand out items until nobody is left to ask; those whose best remaining offer is below `least` of it wait."""
        heap = [(-value, row) for row in self._waiting if (value := self._value(row)) > 0]
        heapq.heapify(heap)
        self._waiting = []
        while heap and self._available.any():
            _, row = heapq.heappop(heap)
            if self._is_free(row):
                self._choose(row)
                continue
            exhausted = []
            while True:
                while self._place[row] < SUGGESTIONS and not self._is_free(row):
                    self._place[row] += 1
                if self._place[row] < SUGGESTIONS:
                    self._keep(heap, row, least)
                else:
                    exhausted.append(row)
                if not heap or len(exhausted) >= BLOCK or self._is_free(heap[0][1]):
                    break
                _, row = heapq.heappop(heap)
            if exhausted:
                self._rank_anew(exhausted)
                for each in exhausted:
                    self._keep(heap, each, least)
        self._waiting.extend(row for _, row in heap)

    def _keep(self, heap: list[tuple[float, int]], row: int, least: float) -> None:
        """Back into the heap by what its next offer is worth, or among those that wait."""
        value = self._value(row)
        if value > 0 and value >= least * self._best[row]:
            heapq.heappush(heap, (-value, row))
        else:
            self._waiting.append(row)

    def _choose(self, row: int) -> None:
        place = self._place[row]
        annotator, cost = int(self._ranking.annotators[row, place]), float(self._ranking.costs[row, place])
        self._chosen.append((row, annotator, float(self._ranking.gains[row, place]), cost))
        self._left -= cost
        self._load[annotator] += 1
        self._available = self._may_be_asked()

    def _may_be_asked(self) -> Bools:
        return np.asarray((self._offers.prices <= self._left) & (self._load < self._limit))

    def _is_free(self, row: int) -> bool:
        annotator = self._ranking.annotators[row, self._place[row]] if self._place[row] < SUGGESTIONS else UNKNOWN
        return bool(annotator != UNKNOWN and self._available[annotator])

    def _value(self, row: int) -> float:
        if self._place[row] >= SUGGESTIONS:
            return -np.inf
        gain, cost = self._ranking.gains[row, self._place[row]], self._ranking.costs[row, self._place[row]]
        return float(gain / cost) if gain > LEAST_GAIN else -np.inf

    def _rank_anew(self, rows: list[int]) -> None:
        places = np.array(rows, dtype=np.int64)
        fresh = self._offers.rank(self._pool[places], self._available)
        for name in ("annotators", "gains", "costs"):
            getattr(self._ranking, name)[places] = getattr(fresh, name)
        self._place[places] = 0


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


def _better_offers(prices: Floats, beta: Floats) -> Indices:
    """How many offers are no dearer and no less reliable than each one (ties by position). Shape (offers,).

    Counted by inserting offers from the cheapest up into a sorted list of reliabilities.
    """
    order = np.lexsort((np.arange(len(beta)), -beta, prices))
    cheaper: list[float] = []
    better = np.zeros(len(beta), dtype=np.int64)
    for offer in order.tolist():
        better[offer] = len(cheaper) - bisect_left(cheaper, float(beta[offer]))
        insort(cheaper, float(beta[offer]))
    return better
