"""Annotations as the sorted arrays that every aggregator works on, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from realm.crowd.coin import Coin
from realm.crowd.evidence import Bools, Floats, Indices
from realm.data.annotations import UNKNOWN
from realm.errors import RealmError

ACCURACY_EDGE = 1e-10
"""No accuracy is taken to be certainly 0 or 1: two annotators who look perfect may contradict each other."""
EQUAL = 1 - 1e-9
"""Options within this factor of the best are tied: two sums of the same terms in another order differ by rounding."""


@dataclass(frozen=True, eq=False)
class AnnotationArrays:
    """The annotations of the items that have any, sorted by item; nothing here is items x annotators in size.

    | field | shape | meaning |
    |---|---|---|
    | item, annotator, label | (annotations,) | `item` indexes `present` |
    | present | (items with annotations,) | their indices in the caller's numbering |
    | option_counts | (items with annotations,) | how many options each item has |
    | gold | (items with annotations,) | the true label where it is known, -1 elsewhere |
    | all_option_counts, all_gold | (items,) | the same of all items |
    | weight | (annotations,) or None | how much each annotation counts; None: 1 |
    | abstain | | the label that says nothing was said: given by annotators, never the truth; None: there is none |
    """

    item: Indices
    annotator: Indices
    label: Indices
    present: Indices
    n_items: int
    n_annotators: int
    n_options: int
    option_counts: Indices
    all_option_counts: Indices
    gold: Indices
    all_gold: Indices
    weight: Floats | None = None
    abstain: int | None = None

    @property
    def n_annotations(self) -> int:
        return len(self.label)

    @cached_property
    def position(self) -> Indices:
        """Where in a flat (items, options) array each annotation falls. Shape (annotations,)."""
        return self.item * self.n_options + self.label

    @property
    def shape(self) -> tuple[int, int]:
        """(items with annotations, options)"""
        return len(self.present), self.n_options

    @cached_property
    def total_weight(self) -> float:
        """The sum of all weights: how many annotations there are, where each counts 1."""
        return float(self.n_annotations if self.weight is None else self.weight.sum())

    @cached_property
    def per_item(self) -> Floats:
        """The sum of the weights of each item's annotations. Shape (items with annotations,)."""
        return np.bincount(self.item, self.weight, minlength=len(self.present)).astype(np.float64)

    @cached_property
    def per_annotator(self) -> Floats:
        """The sum of the weights of each annotator's annotations. Shape (annotators,)."""
        return np.bincount(self.annotator, self.weight, minlength=self.n_annotators).astype(np.float64)

    @cached_property
    def counts(self) -> Floats:
        """The sum of the weights with which each option was given. Shape (items with annotations, options)."""
        return self._sums(self.weight)

    @cached_property
    def coin(self) -> Coin:
        """A coin for each annotator, its skill the accuracy."""
        options = self.option_counts[self.item]
        return Coin(self.annotator, self.n_annotators, options, weight=self.weight, edge=ACCURACY_EDGE)

    def weighted(self, values: Floats) -> Floats:
        """Values (annotations,) times the weights of their annotations."""
        return values if self.weight is None else values * self.weight

    def matrix(self, columns: Indices, n_columns: int) -> sparse.csr_array:
        """Items x columns, the weight where an annotation of the item falls in the column. `columns` (annotations,)."""
        narrow = np.int32 if max(n_columns, self.n_annotations) < 2**31 else np.int64
        offsets = np.concatenate([[0], np.cumsum(np.bincount(self.item, minlength=len(self.present)))])
        values = np.ones(self.n_annotations) if self.weight is None else self.weight
        parts = (values, columns.astype(narrow), offsets.astype(narrow))
        return sparse.csr_array(parts, shape=(len(self.present), n_columns))

    def option_sums(self, values: Floats) -> Floats:
        """The weighted sum of `values` (annotations,) over the annotations of each option. (items, options)"""
        return self._sums(self.weighted(values))

    def _sums(self, values: Floats | None) -> Floats:
        sums = np.bincount(self.position, values, minlength=len(self.present) * self.n_options)
        return sums.astype(np.float64, copy=False).reshape(-1, self.n_options)

    @cached_property
    def gold_items(self) -> Indices:
        """The items with annotations whose gold is known."""
        return np.flatnonzero(self.gold != UNKNOWN)

    @cached_property
    def present_options(self) -> Bools:
        """Which options may be true: those that anybody gave or gold names, but for `abstain`. Shape (options,)."""
        options = np.concatenate([self.label, self.gold[self.gold_items]])
        possible = np.bincount(options, minlength=self.n_options) > 0
        if self.abstain is not None:
            possible[self.abstain] = False
        return possible

    @cached_property
    def votes(self) -> Bools | None:
        """Which annotations are no abstentions; None: all. Shape (annotations,)."""
        return None if self.abstain is None else self.label != self.abstain

    def annotator_mean(self, values: Floats) -> Floats:
        """The weighted mean of `values` (annotations,) over each annotator's annotations; NaN where there are none.

        Abstentions are left out.
        """
        counts = self.per_annotator
        if self.votes is not None:
            values, voted = values * self.votes, self.weighted(self.votes.astype(np.float64))
            counts = np.bincount(self.annotator, voted, minlength=self.n_annotators).astype(np.float64)
        total = np.bincount(self.annotator, weights=self.weighted(values), minlength=self.n_annotators)
        mean = np.full(len(total), np.nan)
        np.divide(total, counts, out=mean, where=counts > 0)
        return mean

    @cached_property
    def restricted(self) -> tuple[Indices, Floats] | None:
        """The items whose truth cannot be every option, and what to add to their log-probabilities (0 or -inf).

        An item with fewer options than K cannot be one of those it lacks; an item with gold can only be its gold.
        """
        rows = np.flatnonzero((self.option_counts < self.n_options) | (self.gold != UNKNOWN))
        if not len(rows):
            return None
        options, gold = np.arange(self.n_options), self.gold[rows, None]
        possible = (options < self.option_counts[rows, None]) & ((gold == UNKNOWN) | (options == gold))
        return rows, np.where(possible, 0.0, -np.inf)

    def label_shares(self) -> Floats:
        """The share of an item's annotations that gave each option; one for its gold where that is known.

        Abstentions are left out; where all annotators of an item abstain, its options are equally likely.
        """
        shares = self.counts / self.per_item[:, None]
        if self.abstain is not None:
            shares[:, self.abstain] = 0.0
            shares[shares.sum(axis=1) == 0] = self.present_options
            shares /= shares.sum(axis=1, keepdims=True)
        shares[self.gold_items] = 0.0
        shares[self.gold_items, self.gold[self.gold_items]] = 1.0
        return shares

    def spread(self, posterior: Floats) -> Floats:
        """(items with annotations, options) to (items, options): the rest are uniform over their options, or gold."""
        if len(self.present) == self.n_items:
            return posterior
        options, gold = np.arange(self.n_options), self.all_gold[:, None]
        whole = (options < self.all_option_counts[:, None]) / np.maximum(self.all_option_counts, 1)[:, None]
        whole = np.where(gold == UNKNOWN, whole, options == gold)
        whole[self.present] = posterior
        return whole

    def spread_labels(self, labels: Indices) -> npt.NDArray[np.int32]:
        """(items with annotations,) to (items,): -1 for items with neither annotation nor gold."""
        whole = self.all_gold.astype(np.int32)
        whole[self.present] = labels
        return whole


def annotation_arrays(
    items: npt.ArrayLike,
    annotators: npt.ArrayLike,
    labels: npt.ArrayLike,
    n_options: int | None = None,
    option_counts: npt.ArrayLike | None = None,
    gold: npt.ArrayLike | None = None,
    weight: npt.ArrayLike | None = None,
    abstain: int | None = None,
) -> AnnotationArrays:
    """Check the arrays and sort them by item.

    `items`, `annotators` and `labels` are (annotations,) integers from 0, `weight` (annotations,); `option_counts` and
    `gold` are (items,); `abstain` is one of the labels.
    """
    item, annotator = _indices(items, "items"), _indices(annotators, "annotators")
    label = _indices(labels, "labels")
    if not len(item) == len(annotator) == len(label):
        raise RealmError(
            "`items`, `annotators` and `labels` must be equally long, one entry per annotation: "
            f"they have {len(item)}, {len(annotator)} and {len(label)}."
        )
    if not len(item):
        raise RealmError("there are no annotations to aggregate.")
    weights = _weights(weight, len(item))
    n_items = int(item.max()) + 1
    per_item = {
        name: _indices(values, name, lowest)
        for name, values, lowest in (("gold", gold, UNKNOWN), ("option_counts", option_counts, 1))
        if values is not None
    }
    for name, values in per_item.items():
        if len(values) < n_items:
            raise RealmError(f"`{name}` has {len(values)} entries; items are numbered up to {n_items - 1}.")
    lengths = [len(values) for values in per_item.values()]
    if len(set(lengths)) > 1:
        raise RealmError(f"`gold` has {lengths[0]} entries and `option_counts` {lengths[1]}; both are one per item.")
    n_items = max([n_items, *lengths])
    truth = per_item.get("gold", np.full(n_items, UNKNOWN))
    if n_options is None:
        n_options = max(int(label.max()) + 1, int(truth.max()) + 1, int(per_item.get("option_counts", label).max()))
    elif n_options < 1:
        raise RealmError(f"`n_options` must be 1 or more, not {n_options}.")
    counts = per_item.get("option_counts", np.full(n_items, n_options))
    if counts.max() > n_options:
        raise RealmError(f"`option_counts` goes up to {counts.max()}, but `n_options` is {n_options}.")
    _check_range(label, counts[item], "labels")
    _check_range(truth, counts, "gold")
    if abstain is not None:
        _check_abstain(abstain, label, counts, n_options, truth)

    if np.any(item[1:] < item[:-1]):
        order = _order(item, n_items)
        item, annotator, label = item[order], annotator[order], label[order]
        weights = None if weights is None else weights[order]
    annotated = np.bincount(item, minlength=n_items) > 0
    present = np.flatnonzero(annotated)
    if len(present) < n_items:
        item = (np.cumsum(annotated) - 1)[item]
    return AnnotationArrays(
        item=item,
        annotator=annotator,
        label=label,
        present=present,
        n_items=n_items,
        n_annotators=int(annotator.max()) + 1,
        n_options=n_options,
        option_counts=counts[present],
        all_option_counts=counts,
        gold=truth[present],
        all_gold=truth,
        weight=weights,
        abstain=abstain,
    )


def most_probable(scores: Floats, seed: int) -> Indices:
    """The best option of each row of (items, options), ties broken uniformly at random by seed."""
    best: Indices = scores.argmax(axis=1)
    rows = np.arange(len(scores))
    threshold = scores[rows, best][:, None] * EQUAL
    tied = np.flatnonzero((scores >= threshold).sum(axis=1) > 1)
    if len(tied):
        draws = np.random.default_rng(seed).random((len(tied), scores.shape[1]))
        draws[scores[tied] < threshold[tied]] = -1.0
        best[tied] = draws.argmax(axis=1)
    return best


def _order(item: Indices, n_items: int) -> Indices:
    """What `numpy.argsort(item, kind="stable")` gives, by counting, as transposing a sparse matrix does."""
    n = len(item)
    narrow = np.int32 if max(n, n_items) < 2**31 - 1 else np.int64
    marks: npt.NDArray[np.int8] = np.ones(n, dtype=np.int8)
    rows = sparse.csr_array((marks, item.astype(narrow), np.arange(n + 1, dtype=narrow)), shape=(n, n_items))
    return rows.tocsc().indices.astype(np.int64)


def _weights(weight: npt.ArrayLike | None, n: int) -> Floats | None:
    """The weights, None where all are 1."""
    if weight is None:
        return None
    weights = np.asarray(weight, np.float64)
    if weights.shape != (n,):
        raise RealmError(f"`weight` must have one entry per annotation, {n}: it has shape {weights.shape}.")
    usable = np.isfinite(weights) & (weights > 0)
    if not usable.all():
        position = int(usable.argmin())
        raise RealmError(f"`weight[{position}]` is {weights[position]}; a weight is more than 0.")
    return None if (weights == 1).all() else weights


def _indices(values: npt.ArrayLike, name: str, lowest: int = 0) -> Indices:
    array: npt.NDArray[Any] = np.asarray(values)
    if array.ndim != 1:
        raise RealmError(f"`{name}` must have one dimension, not {array.ndim}.")
    if array.dtype.kind not in "iub" and len(array):
        raise RealmError(
            f"`{name}` must be whole numbers from {lowest}, not {array.dtype}. "
            "`numpy.unique(values, return_inverse=True)` numbers names."
        )
    array = array.astype(np.int64, copy=False)
    if len(array) and array.min() < lowest:
        position = int(array.argmin())
        raise RealmError(f"`{name}[{position}]` is {array[position]}; the lowest allowed is {lowest}.")
    return array


def _check_abstain(abstain: int, label: Indices, counts: Indices, n_options: int, gold: Indices) -> None:
    if not 0 <= abstain < n_options or counts.min() < n_options:
        raise RealmError(f"`abstain` must be a label that every item has, 0 to {n_options - 1}, not {abstain}.")
    if (gold == abstain).any():
        raise RealmError(
            f"`abstain`: item {int((gold == abstain).argmax())} has it as gold, but it is never the truth."
        )
    if (label == abstain).all():
        raise RealmError("`abstain`: every annotation abstains, so there is nothing to aggregate.")


def _check_range(values: Indices, counts: Indices, name: str) -> None:
    beyond = values >= counts
    if beyond.any():
        position = int(beyond.argmax())
        raise RealmError(
            f"`{name}[{position}]` is {values[position]}, but its item has {counts[position]} options, numbered from 0."
        )
