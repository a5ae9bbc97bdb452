"""What one more label is expected to tell, and whom to ask about which item within a budget.

Two figures of a label: the bits that it tells about the truth (mutual information), and how much more probably the
item's label is right after it. Both take the annotator's errors to be their own: where annotators err together a label
tells less.

Items are handed out greedily: again and again the item and annotator with the most bits per unit of cost, as long as
the budget pays for it. Those who are about as good share the work: nobody is asked for more than one label more than
another who could tell at least half as much, of any item that is left. Nothing of this depends on the budget but where
it ends: with one price for all, the requests of a small budget are the first of a larger one's.
"""

from __future__ import annotations

import heapq
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
"""Work is shared as long as each label tells at least half as much per unit of cost as the best that could be asked
for: spreading it over people never costs more than half of what a label is worth, and nobody gets an item that is all
but settled to fill a share."""
POOL = 10_000
"""Items among which work is handed out at a time: those that a label tells most about. When half of them are handed
out, the next take their place."""
SHARERS = 128
"""Annotators of each item who are compared at a time: more than share the work of most teams."""
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
    """The best annotators for some items, best first; UNKNOWN where there are fewer. Shape (items, width) each."""

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
    offers have labelled already, so the best n for an item with d labels are among the offers with fewer than d + n
    better ones: never all annotators. Whom a habit makes better on some items than their expertise says is among the
    candidates as long as fewer than CANDIDATES are better and no dearer.

    Args:
        prices: the price of each annotator's annotation; NaN where they are not to be asked. Shape (annotators,).
    """

    def __init__(self, annotations: Annotations, estimate: Estimate, prices: Floats) -> None:
        self._annotations, self._estimate, self.prices = annotations, estimate, prices
        pairs = annotations.item.astype(np.int64) * annotations.n_annotators + annotations.annotator
        self._labelled_pairs = np.sort(np.append(pairs, np.iinfo(np.int64).max))  # never empty

    def rank(self, items: Indices, available: Bools, width: int = SUGGESTIONS) -> Ranking:
        """The `width` best of the `available` annotators (annotators,) for each of these items."""
        shape = (len(items), width)
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
                candidates = offers[better < max(upper - 1 + width, CANDIDATES)]
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

        `most_each` is how many annotations an annotator is asked for at most. Without it those who are about as good
        share the work: see the top of this module.
        """
        budget *= 1 + 1e-12  # sums of prices are not exact: more than rounding, less than any price
        values = self.rank(np.arange(self._annotations.n_items), self.prices <= budget, 1).values[:, 0]
        order = np.argsort(-values, kind="stable")
        work = _Work(self, budget, most_each)
        work.hand_out(order[np.isfinite(values[order])])
        return work.requests()

    def _offers(self, task: int, available: Bools) -> Indices:
        present = self._estimate.annotations[:, task] > 0
        with np.errstate(invalid="ignore"):
            return np.flatnonzero(present & (self._estimate.expertise[:, task] > 0) & available)

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
        order = np.lexsort((-expertise, -value), axis=1)[:, : ranking.annotators.shape[1]]
        places = np.arange(len(items))[:, None]
        possible = np.isfinite(value[places, order])
        width = order.shape[1]
        ranking.annotators[rows, :width] = np.where(possible, candidates[order], UNKNOWN)
        ranking.gains[rows, :width] = np.where(possible, gain[places, order], 0.0)
        ranking.costs[rows, :width] = np.where(possible, self.prices[candidates][order], 1.0)


class _Work:
    """Items being handed out: who has how many, and what is left of the budget.

    Everybody who may be asked has a list of items, the best for them first. Those who have as many requests as `_limit`
    wait: with `most_each` for good, otherwise until nobody else could tell half as much as the best of them. Then the
    limit rises by one.
    """

    def __init__(self, offers: Offers, budget: float, most_each: int | None) -> None:
        self._offers, self._left = offers, budget
        self._shares, self._limit = most_each is None, most_each or 1
        self._load = np.zeros(len(offers.prices), dtype=np.int64)
        self._chosen: list[tuple[int, int, float, float]] = []

    def requests(self) -> Requests:
        items, annotators, gains, costs = zip(*self._chosen, strict=True) if self._chosen else ((), (), (), ())
        indices = np.array(items, dtype=np.int64), np.array(annotators, dtype=np.int64)
        return Requests(*indices, np.array(gains, float), np.array(costs, float))

    def hand_out(self, items: Indices) -> None:
        """Hand out these items, those that most is to be gained of first, until the budget is spent."""
        while len(items) and (available := self._may_be_asked()).any():
            pool, rest = items[:POOL], items[POOL:]
            lists = _Lists(pool, self._offers.rank(pool, available, SHARERS))
            is_done = self._hand_out_among(lists)
            items = rest if is_done else np.concatenate([pool[~lists.taken], rest])

    def _may_be_asked(self) -> Bools:
        affordable = self._offers.prices <= self._left  # False where the price is NaN
        return np.asarray(affordable & (self._shares | (self._load < self._limit)))

    def _hand_out_among(self, lists: _Lists) -> bool:
        """Hand out the items of these lists; False where they should be made anew, with other items or annotators."""
        free: list[Entry] = []
        waiting: list[Entry] = []
        for annotator in lists.annotators:
            if (entry := lists.first(annotator)) is not None:
                heapq.heappush(free if self._load[annotator] < self._limit else waiting, entry)
        n_chosen = 0
        while n_chosen < max(len(lists.taken) // 2, 1):
            best, best_waiting = self._best(free, lists), self._best(waiting, lists)
            if lists.is_short:
                return False
            if best is None and best_waiting is None:
                return True
            if best is None or (best_waiting is not None and best[0] > HALF_AS_GOOD * best_waiting[0]):  # minus values
                self._limit += 1
                for entry in [each for each in waiting if self._load[each[-1]] < self._limit]:
                    heapq.heappush(free, entry)
                waiting = [each for each in waiting if self._load[each[-1]] >= self._limit]
                heapq.heapify(waiting)
                continue
            annotator = best[-1]
            item, gain, cost = lists.take(annotator)
            self._chosen.append((item, annotator, gain, cost))
            self._left -= cost
            self._load[annotator] += 1
            n_chosen += 1
            if self._load[annotator] >= self._limit:
                entry = heapq.heappop(free)
                if self._shares:
                    heapq.heappush(waiting, entry)
                else:
                    lists.drop(annotator)
        return False

    def _best(self, heap: list[Entry], lists: _Lists) -> Entry | None:
        """The first of a heap, when entries of items that are gone and of people who are too dear are replaced."""
        while heap:
            entry = heap[0]
            annotator = entry[-1]
            if self._offers.prices[annotator] > self._left:
                heapq.heappop(heap)
                lists.drop(annotator)
            elif (current := lists.first(annotator)) == entry:
                return entry
            elif current is None:
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, current)
        return None


Entry = tuple[float, int, int, int]
"""Minus the value, the item's place in the pool, the annotator's place among those for the item, the annotator."""


class _Lists:
    """For each annotator the items of a pool that they may be asked about, those with the highest value first."""

    def __init__(self, pool: Indices, ranking: Ranking) -> None:
        self._pool, values = pool, ranking.values
        self.taken = np.zeros(len(pool), dtype=bool)
        self.is_short = False
        """Whether an item has lost everybody it was ranked for, and there may be others for it."""
        row, place = np.nonzero(np.isfinite(values))
        annotator, value = ranking.annotators[row, place], values[row, place]
        order = np.lexsort((row, -value, annotator))
        self._row, self._place, self._value = row[order], place[order], value[order]
        self._gain, self._cost = ranking.gains[row, place][order], ranking.costs[row, place][order]
        self._n_people = np.bincount(row, minlength=len(pool))
        self._may_have_more = self._n_people == values.shape[1]
        names, starts = np.unique(annotator[order], return_index=True)
        ends = np.append(starts, len(order))[1:]
        self._bounds = dict(zip(names.tolist(), zip(starts.tolist(), ends.tolist(), strict=True), strict=True))
        self._next = {name: start for name, (start, _) in self._bounds.items()}

    @property
    def annotators(self) -> list[int]:
        """Everybody who has a list."""
        return list(self._bounds)

    def first(self, annotator: int) -> Entry | None:
        """The best item that is left for an annotator."""
        place, end = self._next[annotator], self._bounds[annotator][1]
        while place < end and self.taken[self._row[place]]:
            place += 1
        self._next[annotator] = place
        if place == end:
            return None
        return -float(self._value[place]), int(self._row[place]), int(self._place[place]), annotator

    def take(self, annotator: int) -> tuple[int, float, float]:
        """Give an annotator the best item that is left for them: the item, its gain and its cost."""
        place = self._next[annotator]
        self.taken[self._row[place]] = True
        return int(self._pool[self._row[place]]), float(self._gain[place]), float(self._cost[place])

    def drop(self, annotator: int) -> None:
        """Somebody is not asked any more."""
        rows = self._row[slice(*self._bounds[annotator])]
        self._n_people[rows] -= 1
        self.is_short |= bool((self._may_have_more[rows] & (self._n_people[rows] == 0) & ~self.taken[rows]).any())


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
