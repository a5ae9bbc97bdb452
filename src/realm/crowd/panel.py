"""What a panel of judges is worth, what each adds given the others, and the cheapest part of it that does as well.

Judges are annotators like any other; what is asked of a panel is what to pay for. The labels of a part of the panel are
those of the whole panel's estimate with the evidence of its members alone,

    label of item i = argmax_k  offset[k] + sum over members' annotations of E[a, k]

habits being those that the whole panel showed: first everybody judges a pilot, then the part goes on. The accuracy of
these labels is *expected* by the posterior of the whole panel, and *measured* on gold where there is gold that was not
used. A judge adds what the whole panel has over the others. Copies of another judge (`realm.crowd.copies`) add nothing:
of such a pair the cheaper is in the panel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from realm.crowd.copies import find_copies
from realm.crowd.dependence import Dependence, dependence
from realm.crowd.estimate import Estimate, estimate_with_evidence
from realm.crowd.evidence import Bools, Floats, Indices
from realm.crowd.tables import expertise_table, labels_table
from realm.data import Annotations
from realm.data.annotations import NAMES_SHOWN, UNKNOWN
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

WITHIN = 0.01
"""How much less accurate than the whole a part may be: a point."""
EXHAUSTIVE = 10
"""Up to so many judges all parts of the panel are looked at (1,023); beyond, judges are left out one by one."""
SAMPLED = 20_000
"""Items that parts of a panel are compared on at most, evenly chosen: an accuracy is known to a third of a point."""
DECIMALS = 9
"""Decimals of summed evidence that decide a label: sums taken in another order differ in the last digits, and a tie
must stay one (the first option has it)."""


@dataclass(frozen=True)
class SubPanel:
    """A part of a panel.

    | field | meaning |
    |---|---|
    | members | who is in it |
    | cost | of one label by each |
    | expected | accuracy of its labels, by the posterior of the whole panel |
    | measured | share of its labels that is right where there is gold that was not used; None without any |
    """

    members: tuple[str, ...]
    cost: float
    expected: float
    measured: float | None


class Panel:
    """A panel of judges: the estimate of all its labels, and what parts of it are worth.

    Args:
        annotations: who labelled what. A gold column is measured against, and not used otherwise.
        costs: the price of one label by annotator, above 0; None: 1 each.
        experts: annotators taken to be experts, such as people among models.
        gold: (items,) true labels that are used, -1 elsewhere; then nothing is measured.

    Examples:
        >>> import pandas as pd
        >>> truth = [0, 1] * 50
        >>> slips = {"ann": 7, "bob": 5, "cy": 2}  # each is wrong on every 7th, 5th, 2nd item
        >>> rows = [(f"t{i}", who, str((t + (i % slip == 0)) % 2))
        ...         for i, t in enumerate(truth) for who, slip in slips.items()]
        >>> table = Annotations.from_pandas(pd.DataFrame(rows, columns=["text", "annotator", "label"]))
        >>> Panel(table).cheapest(within=0.05).members
        ('ann',)
    """

    def __init__(
        self,
        annotations: Annotations,
        *,
        costs: Mapping[str, float] | None = None,
        experts: Sequence[str] | None = None,
        gold: npt.NDArray[np.integer] | None = None,
    ) -> None:
        self.annotations = annotations
        self.costs = _costs(annotations, costs)
        width = int(annotations.option_counts.max(initial=2))
        self.estimate, evidence = estimate_with_evidence(
            annotations.without_gold(), np.zeros((annotations.n_items, width)), experts=experts, gold=gold
        )
        if annotations.weight is not None:
            evidence = evidence * annotations.weight[:, None]
        self.used_gold = gold is not None
        self.copies = _dearer_copies(annotations, self.costs)
        self.members = (annotations.annotations_per_annotator > 0) & ~self.copies
        self._known = np.zeros(annotations.n_items, dtype=bool) if gold is None else np.asarray(gold) != UNKNOWN
        self._labels = _Labels.of(annotations, self.estimate, evidence, None if self.used_gold else annotations.gold)

    @cached_property
    def dependence(self) -> Dependence | None:
        """How many independent judges an item's are worth; None where no item has two labels. Copies are left out."""
        return dependence(self.annotations.keep_annotations(~self.copies[self.annotations.annotator]))

    def part(self, members: npt.ArrayLike) -> SubPanel:
        """What some of the judges are worth: a mask (annotators,)."""
        mask = np.asarray(members, dtype=bool)
        labels = self._labels.of_members(mask)
        names = tuple(self.annotations.annotators[index] for index in np.flatnonzero(mask))
        expected, measured = self._labels.accuracies(labels)
        return SubPanel(names, float(self.costs[mask].sum()), expected, measured)

    @cached_property
    def whole(self) -> SubPanel:
        """All judges, but for copies."""
        return self.part(self.members)

    def without_each(self) -> list[SubPanel | None]:
        """The panel without each of the annotators, (annotators,); None for those who are not in it anyway."""
        parts: list[SubPanel | None] = []
        for index in range(self.annotations.n_annotators):
            rest = self.members.copy()
            rest[index] = False
            parts.append(self.part(rest) if self.members[index] else None)
        return parts

    def table(self) -> pd.DataFrame:
        """A row for each judge and task, the most accurate first.

        Columns: annotator, task, group (where there are any), accuracy, low, high (its interval), adds (expected
        accuracy of the panel less that of the panel without them, all tasks together; 0 for a copy), adds_measured (the
        same on gold, where there is any), cost, annotations, verdict, habit, notes.
        """
        table = expertise_table(self.annotations, self.estimate)
        whole, rests = self.whole, self.without_each()
        figures = {
            "adds": [0.0 if rest is None else whole.expected - rest.expected for rest in rests],
            "cost": self.costs.tolist(),
        }
        if whole.measured is not None:
            losses = [0.0 if rest is None else whole.measured - (rest.measured or 0.0) for rest in rests]
            figures = {"adds": figures["adds"], "adds_measured": losses, "cost": figures["cost"]}
        by_name = {name: index for index, name in enumerate(self.annotations.annotators)}
        row = table["annotator"].map(by_name).to_numpy()
        added = {name: np.array(values)[row] for name, values in figures.items()}
        ends = table[["annotations", "verdict", "habit", "notes"]]
        first = [name for name in ("annotator", "task", "group", "accuracy", "low", "high") if name in table.columns]
        return table[first].assign(**added).join(ends)

    def cheapest(self, within: float = WITHIN) -> SubPanel:
        """The cheapest part whose labels are expected to be at most `within` less accurate than those of the whole.

        Of equal prices the most accurate. With more than ten judges it is found by leaving out, one after another, who
        costs least accuracy for their price: no judge of what is left can be spared, but another part may be cheaper.
        """
        if not 0 <= within < 1:
            raise RealmError(f"`within={within}`: must lie between 0 and 1: 0.01 is a point of accuracy.")
        least = self.whole.expected - within - 10.0**-DECIMALS
        if self.members.sum() <= EXHAUSTIVE:
            return self.part(self._cheapest_of_all(least))
        return self.part(self._leaving_out(least)[-1])

    def path(self) -> list[SubPanel]:
        """The whole panel, and what is left as judges leave it one by one, down to a single one.

        Who costs least accuracy for their price leaves first.
        """
        return [self.part(members) for members in self._leaving_out(-np.inf)]

    def for_a_human(self, number: int) -> pd.DataFrame:
        """The items whose label is least sure, as `labels_table` shows them; items whose gold was used are left out."""
        table = labels_table(self.annotations, self.estimate.posterior)
        table = table[~self._known]
        return table.sort_values("confidence", kind="stable").head(number).reset_index(drop=True)

    def expected_with_humans(self, number: int) -> float:
        """The accuracy that is expected if people who are always right label so many of the least sure items."""
        confidence = np.where(self._known, 1.0, self.estimate.posterior.max(axis=1))
        return float((confidence.sum() + (1 - np.sort(confidence)[:number]).sum()) / len(confidence))

    def _cheapest_of_all(self, least: float) -> Bools:
        """Look at every part of the panel."""
        members = np.flatnonzero(self.members)
        best, best_key = self.members, (float(self.costs[self.members].sum()), -self.whole.expected)
        for number in range(1, 1 << len(members)):
            chosen = members[(number >> np.arange(len(members))) & 1 == 1]
            cost = float(self.costs[chosen].sum())
            if cost > best_key[0] * (1 + 1e-12):
                continue
            mask = np.zeros(len(self.members), dtype=bool)
            mask[chosen] = True
            expected, _ = self._labels.accuracies(self._labels.of_members(mask))
            if expected >= least and (round(cost, DECIMALS), -expected) < (round(best_key[0], DECIMALS), best_key[1]):
                best, best_key = mask, (cost, -expected)
        return best

    def _leaving_out(self, least: float) -> list[Bools]:
        """The panel, and what is left as one judge after another leaves; it stays at `least` or above it."""
        skill = np.nan_to_num(self.estimate.expertise).mean(axis=1)
        left = [self.members.copy()]
        while left[-1].sum() > 1:
            expected, losses = self._labels.losses(left[-1])
            candidates = np.flatnonzero(left[-1])
            candidates = candidates[expected - losses[candidates] >= least]
            if not len(candidates):
                break
            prices = self.costs[candidates]
            rate = np.round(losses[candidates] / prices, DECIMALS)
            leaves = candidates[np.lexsort((skill[candidates], -prices, rate))[0]]
            left.append(left[-1].copy())
            left[-1][leaves] = False
        return left


class _Labels:
    """The labels of parts of a panel, and how accurate they are, on the items that parts are compared on."""

    def __init__(
        self,
        annotations: Annotations,
        prior: Floats,
        evidence: Floats,
        reference: Floats,
        gold: npt.NDArray[np.integer] | None,
    ) -> None:
        self.prior, self.reference, self.gold = prior, reference, gold
        order = np.argsort(annotations.annotator, kind="stable")
        bounds = np.searchsorted(annotations.annotator[order], np.arange(annotations.n_annotators + 1)).tolist()
        self.item, self.evidence = annotations.item[order].astype(np.int64), evidence[order]
        self.slices = [slice(start, stop) for start, stop in pairwise(bounds)]

    @classmethod
    def of(
        cls, annotations: Annotations, estimate: Estimate, evidence: Floats, gold: npt.NDArray[np.integer] | None
    ) -> _Labels:
        """`evidence` (annotations, Kmax) of every annotation; `gold` (items,) is what labels are measured against."""
        inside = np.arange(evidence.shape[1]) < annotations.option_counts[:, None]
        prior = np.where(inside, estimate.class_offsets[annotations.item_tasks], -np.inf)
        items = np.arange(0, annotations.n_items, -(-annotations.n_items // SAMPLED))
        if gold is not None and (gold[items] == UNKNOWN).all():
            gold = None
        chosen = np.isin(annotations.item, items)
        return cls(
            annotations.take_items(items),
            prior[items],
            evidence[chosen],
            estimate.posterior[items],
            None if gold is None else gold[items],
        )

    def _scores(self, members: Bools) -> Floats:
        scores = self.prior.copy()
        for index in np.flatnonzero(members):
            rows = self.slices[index]
            np.add.at(scores, self.item[rows], self.evidence[rows])
        return scores

    def of_members(self, members: Bools) -> Indices:
        """The labels of these annotators together. Shape (items,)."""
        return _best(self._scores(members))

    def accuracies(self, labels: Indices) -> tuple[float, float | None]:
        """Expected and measured accuracy."""
        expected = float(self.reference[np.arange(len(labels)), labels].mean())
        return expected, None if self.gold is None else float((labels == self.gold)[self.gold != UNKNOWN].mean())

    def losses(self, members: Bools) -> tuple[float, Floats]:
        """Expected accuracy of these annotators, and what is lost of it if one of them leaves; NaN for others."""
        scores = self._scores(members)
        right = self.reference[np.arange(len(scores)), _best(scores)]
        losses = np.full(len(members), np.nan)
        for index in np.flatnonzero(members):
            rows = self.slices[index]
            items = self.item[rows]
            without = _best(scores[items] - self.evidence[rows])
            losses[index] = (right[items] - self.reference[items, without]).sum() / len(scores)
        return float(right.mean()), losses


def _best(scores: Floats) -> Indices:
    return np.asarray(np.round(scores, DECIMALS).argmax(axis=1), dtype=np.int64)


def _costs(annotations: Annotations, costs: Mapping[str, float] | None) -> Floats:
    """The price of each annotator's label. Shape (annotators,)."""
    if costs is None:
        return np.ones(annotations.n_annotators)
    if missing := [name for name in annotations.annotators if name not in costs]:
        names = ", ".join(missing[:NAMES_SHOWN]) + ", ..." * (len(missing) > NAMES_SHOWN)
        raise RealmError(f"`costs` has no price for {names}.")
    prices = np.array([costs[name] for name in annotations.annotators], dtype=np.float64)
    if (bad := ~(np.isfinite(prices) & (prices > 0))).any():
        name = annotations.annotators[int(bad.argmax())]
        raise RealmError(f"`costs`: the price of a label must be more than 0; see annotator {name}.")
    return prices


def _dearer_copies(annotations: Annotations, costs: Floats) -> Bools:
    """Who is left out as a copy: of two the dearer, of equals the later one. Shape (annotators,)."""
    left_out = np.zeros(annotations.n_annotators, dtype=bool)
    for pair in find_copies(annotations):
        first, second = pair.first, pair.second
        if left_out[first] or left_out[second]:
            continue
        left_out[first if costs[first] > costs[second] else second] = True
    return left_out
