"""Annotators who copy from each other: who they are, and how much each of their labels is worth as a witness.

Two honest annotators who are right 97% of the time agree nearly always; that is no copying. Copying shows where the two
give the same label although the others say another one. Of a pair with n items in common, each item's true label being
judged by the annotators who are not as close to the two as they are to each other, the likelihood of both labels is

    P(y_i, y_j | truth k) = (1 - c) C_i[k, y_i] C_j[k, y_j] + c [y_i = y_j] (C_i[k, y_i] + C_j[k, y_j]) / 2

with a confusion matrix for each of the two and c the share of labels that one took from the other. A pair is called
copies where c is large and c = 0 would hardly have given these labels, over all pairs of the table. Annotators who
always give the same answer agree too, and their matrices explain it; those who merely err together have a lower c
(`realm.crowd.dependence` is about them).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from realm.crowd.class_balance import ClassBalance, fit_habits
from realm.crowd.dependence import exponent
from realm.crowd.evidence import (
    Bools,
    Floats,
    Indices,
    LabelEvidence,
    check_log_probs,
    label_positions,
    log_softmax_rows,
)
from realm.crowd.habit import Habit
from realm.data.annotations import Annotations

LEAST_SHARED = 20
"""Items that a pair must share to be compared: with fewer, even full agreement is no proof."""
CHANCE = 1e-4
"""A pair is reported when luck produces it this rarely, over all pairs: one table in ten thousand."""
SHARES = np.array([0.0, 0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99])
"""The shares of copied labels that are considered."""
COPIED, TOGETHER = 0.8, 0.5
"""Copies: at least this share is copied; and judges of one family who err together, of whom this much looks copied,
explain the labels worse than copying does."""
MARGIN = 3.0
"""By so much in log-likelihood: twenty to one."""
MOST_DIFFERENT = 0.05
"""Copies differ on no more than this share of the items they have in common."""
SURE = 0.7
"""How sure the others are of the label that they find most probable, on average: guessers cannot convict anybody."""
LEAST_OTHERS = 2
"""Other annotators on an item that judge the pair: one alone may be the worse one."""
MOST_SHARED = 2000
"""Items on which a pair is examined at most: enough to tell."""
MOST_EXAMINED = 2000
"""Pairs that are examined item by item, a few seconds' work; those who stand out most come first."""
SAMPLED = 20_000
"""Items on which the annotators are judged at most."""
MOST_COMPARISONS = 200_000_000
"""Pairs of annotations that are compared, a few seconds' work."""
MOST_PAIRS = 20_000_000
"""Pairs of annotators that are stored, about 300 MB; where there may be more, as many annotations are compared."""
ITERATIONS = 15
"""Of EM for the two confusion matrices: after these the likelihood moves by less than a tenth."""
ORDINARY, ORDINARY_LABELS = 0.75, 2.0
"""Each row of a confusion matrix is drawn to that of an ordinary annotator by as much as two labels would."""


@dataclass(frozen=True)
class CopyPair:
    """Two annotators (by index), the items they share, on how many they agree, and how many would be expected."""

    first: int
    second: int
    shared: int
    same: int
    expected: float


def witness_weights(annotations: Annotations, copies: list[CopyPair] | None = None) -> Floats | None:
    """How much each annotation is worth as a witness of its item's label: 1/m, where m annotators who copy from each
    other gave the item this label. Shape (annotations,); None where nobody copies.

    `copies` is what `find_copies` gave, where it is at hand.

    Examples:
        >>> import pandas as pd
        >>> rows = [(text, name, label) for text, label in ("ax", "by") for name in ("ann", "bob", "cyd")]
        >>> table = Annotations.from_pandas(pd.DataFrame(rows, columns=["text", "annotator", "label"]))
        >>> witness_weights(table, [CopyPair(0, 1, 2, 2, 1.5)]).tolist()
        [0.5, 0.5, 1.0, 0.5, 0.5, 1.0]
    """
    copies = find_copies(annotations) if copies is None else copies
    if not copies:
        return None
    group = _groups(annotations.n_annotators, [pair.first for pair in copies], [pair.second for pair in copies])
    return _shared_weights(annotations, group)


def find_copies(annotations: Annotations) -> list[CopyPair]:
    """The pairs with `LEAST_SHARED` items or more in common who copy, the plainest first.

    Nothing is said of items so crowded that comparing all pairs on them would take too long (`comparable`).
    """
    pairs = _Pairs.of(annotations)
    if pairs is None or not len(suspects := pairs.suspects()):
        return []
    truth = _Truth.of(annotations, pairs, suspects)
    limit = np.log(pairs.n / CHANCE)
    copies = []
    for pair in suspects[:MOST_EXAMINED].tolist():
        evidence = truth.compare(pair)
        if evidence is not None and evidence[0] > limit:
            i, j, shared, same = (int(column[pair]) for column in (pairs.first, pairs.second, pairs.shared, pairs.same))
            copies.append((evidence[0], CopyPair(i, j, shared, same, evidence[1])))
    return [pair for _, pair in sorted(copies, key=lambda scored: -scored[0])]


def comparable(annotations: Annotations) -> Bools:
    """The items on which pairs are compared: all, unless some are so crowded that it would take too long. (items,)"""
    most = MOST_COMPARISONS if annotations.n_annotators**2 <= MOST_PAIRS else MOST_PAIRS
    cost = annotations.annotations_per_item.astype(np.float64) ** 2
    order = np.argsort(cost, kind="stable")
    mask = np.zeros(annotations.n_items, dtype=bool)
    mask[order] = np.cumsum(cost[order]) <= most
    return mask


# -------------------------------------------------------------------- pairs that stand out


@dataclass(frozen=True, eq=False)
class _Pairs:
    """The `n` pairs that share enough items: who, how many items, on how many they agree. Shapes (n,).

    `labels_shared`, `labels_same` (annotators,) are the same over all who share items with an annotator.
    """

    first: Indices
    second: Indices
    shared: Indices
    same: Indices
    labels_shared: Floats
    labels_same: Floats

    @property
    def n(self) -> int:
        return len(self.first)

    @classmethod
    def of(cls, annotations: Annotations) -> _Pairs | None:
        """None where no two share enough items, as is plain without comparing where no item has two annotations."""
        busy = annotations.annotations_per_annotator >= LEAST_SHARED
        several = comparable(annotations) & (annotations.annotations_per_item > 1)
        rows = np.flatnonzero(several[annotations.item] & busy[annotations.annotator])
        if not len(rows):
            return None
        annotator, n = annotations.annotator[rows].astype(np.int64), annotations.n_annotators
        item, width = annotations.item[rows].astype(np.int64), int(annotations.option_counts.max(initial=1))
        shared = sp.triu(_common(annotator, item, n), k=1).tocoo()
        same = _common(annotator, item * width + annotations.label[rows], n)
        agreeing = np.asarray(same[shared.row, shared.col]).ravel()
        sums: list[Floats] = [
            np.asarray(np.bincount(shared.row, count, n) + np.bincount(shared.col, count, n), np.float64)
            for count in (shared.data, agreeing)
        ]
        enough = shared.data >= LEAST_SHARED
        columns = (shared.row, shared.col, shared.data, agreeing)
        first, second, counts, agreeing = (column[enough].astype(np.int64) for column in columns)
        return cls(first, second, counts, agreeing, *sums) if len(first) else None

    def suspects(self) -> Indices:
        """Pairs who agree far more with each other than either does with everybody else, the furthest first."""
        with np.errstate(invalid="ignore", divide="ignore"):
            elsewhere = [
                (self.labels_same[who] - self.same) / (self.labels_shared[who] - self.shared)
                for who in (self.first, self.second)
            ]
        expected = np.maximum(*elsewhere)  # NaN where one of them shares items with the other only
        surprise = self.shared * _divergence(self.same / self.shared, expected)
        alike = self.shared - self.same <= MOST_DIFFERENT * self.shared + 1  # one slip more in a short list
        chosen = np.flatnonzero(alike & (surprise > np.log(self.n) + 1))
        return np.asarray(chosen[np.argsort(-surprise[chosen], kind="stable")])

    def close_to(self, pair: int) -> Indices:
        """All who may be in league with a pair: who disagree with one of the two hardly more than the two do."""
        one, two, n = self.first[pair], self.second[pair], self.shared[pair]
        allowed = 2 * (1 - self.same[pair] / n) + 2 / n
        close = self.shared - self.same <= allowed * self.shared
        ahead, behind = ((who == one) | (who == two) for who in (self.first, self.second))
        return np.unique(np.concatenate([self.second[close & ahead], self.first[close & behind], [one, two]]))


def _common(annotator: Indices, thing: Indices, n_annotators: int) -> sp.csr_matrix:
    """How many things (items, or labels of items) each pair of annotators has in common; sparse (annotators, same)."""
    _, thing = np.unique(thing, return_inverse=True)
    ones = np.ones(len(annotator), dtype=np.float32)
    incidence = sp.csr_matrix((ones, (annotator, thing)), shape=(n_annotators, int(thing.max()) + 1))
    return sp.csr_matrix(incidence @ incidence.T)


def _divergence(rate: Floats, expected: Floats) -> Floats:
    """KL(rate || expected) of two coins; 0 where the rate is below what is expected, or nothing is."""
    expected = np.clip(np.nan_to_num(expected, nan=1.0), 1e-9, 1 - 1e-9)  # keeps the logarithms finite
    rate = np.maximum(rate, expected)
    rest = 1 - rate
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = np.where(rest > 0, rest * np.log(rest / (1 - expected)), 0.0)
    return np.asarray(rate * np.log(rate / expected) + tail)


def _groups(n_annotators: int, first: npt.ArrayLike, second: npt.ArrayLike) -> Indices:
    """Who hangs together by these pairs: a number for each annotator (annotators,), that of nobody else if alone."""
    pairs = np.asarray(first, np.int64), np.asarray(second, np.int64)
    graph = sp.csr_matrix((np.ones(len(pairs[0]), np.int8), pairs), shape=(n_annotators, n_annotators))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)


def _shared_weights(annotations: Annotations, group: Indices) -> Floats:
    """1/m, where m annotators of one group gave the item this label. Shape (annotations,)."""
    weights = np.ones(annotations.n_annotations)
    grouped = np.flatnonzero((np.bincount(group)[group] > 1)[annotations.annotator])
    width = int(annotations.option_counts.max(initial=1))
    label = annotations.item[grouped].astype(np.int64) * width + annotations.label[grouped]
    key = label * (int(group.max(initial=0)) + 1) + group[annotations.annotator[grouped]]
    _, inverse, counts = np.unique(key, return_inverse=True, return_counts=True)
    weights[grouped] = 1 / counts[inverse]
    return weights


# -------------------------------------------------------------------- a pair, item by item


@dataclass(frozen=True, eq=False)
class _Truth:
    """What all annotators make of the items, from which a pair and those close to it can be left out.

    `log_shares` (tasks, Kmax) are the class shares; `own` and `other` (annotations,) the evidence of each annotation,
    log P(label | it is true) and log P(label | another is true); `rows` are the annotations of each annotator.
    """

    annotations: Annotations
    pairs: _Pairs
    log_shares: Floats
    own: Floats
    other: Floats
    rows: list[Indices]

    @classmethod
    def of(cls, annotations: Annotations, pairs: _Pairs, suspects: Indices) -> _Truth:
        """Habits fitted to the items; whoever may copy from each other counts once, lest they decide what is true."""
        width = int(annotations.option_counts.max(initial=1))
        group = _groups(annotations.n_annotators, pairs.first[suspects], pairs.second[suspects])
        plain = replace(annotations, weight=None, gold=None)
        habit = Habit.of(plain)
        several = np.flatnonzero(annotations.annotations_per_item > 1)
        table = plain.take_items(several[:: -(-len(several) // SAMPLED)])
        table = replace(table, weight=_shared_weights(table, group))
        balance = ClassBalance.of(table, check_log_probs(table, np.zeros((table.n_items, width))))
        balance, _, parameters = fit_habits(balance, Habit.of(table, habit.widest))
        own, other = (np.log(share).reshape(-1)[habit.row] for share in habit.label_probabilities(parameters))
        order = np.argsort(annotations.annotator, kind="stable")
        rows = np.split(order, np.cumsum(annotations.annotations_per_annotator)[:-1])
        return cls(plain, pairs, log_softmax_rows(balance.offset), own, other, rows)

    def without(self, items: Indices, annotators: Indices) -> tuple[Floats, Indices]:
        """The posterior of some items (items, Kmax) without some annotators, and how many others labelled them.

        The others are as sure as they foretell each other: their evidence has the exponent of `realm.crowd.dependence`.
        """
        counts, start = self.annotations.annotations_per_item[items], self.annotations.offsets[items]
        rows = np.repeat(start - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
        left = ~np.isin(self.annotations.annotator[rows], annotators)
        table, rows = self.annotations.take_items(items).keep_annotations(left), rows[left]
        prior = check_log_probs(table, self.log_shares[table.item_tasks])
        evidence = LabelEvidence(self.own[rows], self.other[rows])
        sums = evidence.item_sums(label_positions(table, prior.shape[1]), prior.shape)
        truth = np.exp(log_softmax_rows(prior + exponent(table, prior, evidence) * sums))
        return truth, table.annotations_per_item

    def compare(self, pair: int) -> tuple[float, float] | None:
        """By how much copying explains a pair's labels better, in log-likelihood, and how often they would agree if
        they did not; None where they do not copy.
        """
        table, rows = self.annotations, [self.rows[who[pair]] for who in (self.pairs.first, self.pairs.second)]
        items, *at = np.intersect1d(*(table.item[own] for own in rows), return_indices=True)
        labels = [table.label[own[places]].astype(np.int64) for own, places in zip(rows, at, strict=True)]
        step = -(-len(items) // MOST_SHARED)
        truth, others = self.without(items[::step], self.pairs.close_to(pair))
        judged = others >= LEAST_OTHERS
        if judged.sum() < LEAST_SHARED or truth[judged].max(axis=1).mean() < SURE:
            return None
        task = table.item_tasks[items[::step]][judged].astype(np.int64)
        fits, expected = _likelihoods(truth[judged], task, *(label[::step][judged] for label in labels))
        best = int(fits.argmax())
        if SHARES[best] < COPIED or fits[best] - fits[SHARES <= TOGETHER].max() < MARGIN:
            return None
        return float(fits[best] - fits[0]), float(expected[best] * self.pairs.shared[pair])


def _likelihoods(truth: Floats, task: Indices, first: Indices, second: Indices) -> tuple[Floats, Floats]:
    """The log-likelihood of a pair's labels at each of `SHARES`, and the agreement of the two if independent. (shares,)

    `truth` (items, K) says what is true by everybody else; `task`, `first` and `second` are (items,). The confusion
    matrices are fitted by EM at each share.
    """
    n, options = truth.shape
    labels = [task * options + label for label in (first, second)]
    width = (int(task.max()) + 1) * options
    given = [np.eye(width)[label] for label in labels]  # (items, width)
    ordinary = np.where(np.eye(options, dtype=bool), ORDINARY, (1 - ORDINARY) / max(options - 1, 1))
    prior = ORDINARY_LABELS * np.tile(ordinary, width // options)  # (K, width)
    share = SHARES[:, None, None]
    same = (first == second)[:, None]
    counts = [np.broadcast_to(prior, (len(SHARES), *prior.shape))] * 2
    for iteration in range(ITERATIONS + 1):
        matrices = [
            count / count.reshape(*count.shape[:2], -1, options).sum(-1).repeat(options, -1) for count in counts
        ]
        one, two = (matrix[:, :, label].transpose(0, 2, 1) for matrix, label in zip(matrices, labels, strict=True))
        apart, copied = (1 - share) * one * two, share * same / 2  # (shares, items, K)
        joint = truth * (apart + copied * (one + two))
        total = joint.sum(axis=2, keepdims=True)
        if iteration == ITERATIONS:
            break
        weight = truth / total
        counts = [
            prior + np.einsum("gnk,nw->gkw", weight * (apart + copied * own), labels_given, optimize=True)
            for own, labels_given in zip((one, two), given, strict=True)
        ]
    tables = [matrix.reshape(len(SHARES), options, -1, options)[:, :, task] for matrix in matrices]
    agree = np.einsum("nk,gknw,gknw->g", truth, *tables, optimize=True) / n
    return np.log(total[..., 0]).sum(axis=1), agree
