"""What a panel of judges is worth, what each adds given the others, and a cheap part of it that does as well.

Judges are annotators whose labels cost money. The labels of a part of the panel are those of the whole panel's estimate
with the evidence of its members alone: first everybody judges a pilot, then the part goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from realm.crowd.engine import Bools, Floats, Ints
from realm.crowd.model import AnnotatorModel
from realm.crowd.relabel import read_prices
from realm.crowd.screens import Independence, Screens
from realm.crowd.tables import expertise_table, labels_table
from realm.data import Annotations
from realm.data.annotations import NAMES_SHOWN, UNKNOWN
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

WITHIN = 0.01
"""How much less accurate than the whole a part may be: a point."""
SAMPLED = 20_000
"""Items that parts of a panel are compared on at most, evenly chosen: an accuracy is known to a third of a point."""
COMPARED = 10
"""Judges up to which all parts of a panel are compared: leaving out one by one costs three times as much with nine."""
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

    The accuracy of a part is *expected* by the posterior of the whole panel, and *measured* on gold where there is gold
    that was not used. Copies of another judge add nothing: of such a pair the cheaper is in the panel.

    Args:
        annotations: who labelled what. A gold column is measured against, and not used otherwise.
        costs: the price of one label by annotator, above 0; None: 1 each.
        experts: annotators taken to be experts, such as people among models.
        gold: (items,) true labels that are used, -1 elsewhere; then nothing is measured.
        kind: `models` (language models, which err together) or `people`; None: as the labels show.

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
        kind: str | None = "models",
    ) -> None:
        self.annotations = annotations
        self.costs = read_prices(annotations, costs)
        if missing := [annotations.annotators[index] for index in np.flatnonzero(np.isnan(self.costs))]:
            names = ", ".join(missing[:NAMES_SHOWN]) + ", ..." * (len(missing) > NAMES_SHOWN)
            raise RealmError(f"`costs` has no price for {names}.")
        model = AnnotatorModel(annotations.without_gold(), gold=gold, experts=experts or (), kind=kind).fit()
        self.estimate = model.estimate()
        self._screens = Screens(annotations, self.estimate, model)
        self.copies = _dearer_copies(self._screens, self.costs)
        self.members = (annotations.annotations_per_annotator > 0) & ~self.copies
        self._known = np.zeros(annotations.n_items, dtype=bool) if gold is None else np.asarray(gold) != UNKNOWN
        self._labels = _Labels(self._screens, annotations.gold if gold is None else None)

    @property
    def independence(self) -> Independence | None:
        """How many independent judges an item's are worth; None where no item has two labels."""
        return self._screens.independence

    def part(self, members: npt.ArrayLike) -> SubPanel:
        """What some of the judges are worth: a mask (annotators,)."""
        mask = np.asarray(members, dtype=bool)
        names = tuple(self.annotations.annotators[index] for index in np.flatnonzero(mask))
        return SubPanel(names, float(self.costs[mask].sum()), *self._labels.accuracies(mask))

    @cached_property
    def whole(self) -> SubPanel:
        """All judges, but for copies."""
        return self.part(self.members)

    def table(self) -> pd.DataFrame:
        """A row for each judge and task, the most accurate first.

        Columns: annotator, task, group (where there are any), accuracy, low, high (its interval), adds (expected
        accuracy of the panel less that of the panel without them, all tasks together; 0 for a copy), adds_measured (the
        same on gold, where there is any), cost, annotations, verdict, habit, notes.
        """
        table = expertise_table(self.annotations, self.estimate)
        everybody = np.arange(self.annotations.n_annotators)
        rests = [self.part(self.members & (everybody != index)) for index in everybody]  # a copy's is the whole panel
        figures = {"adds": [self.whole.expected - rest.expected for rest in rests]}
        if self.whole.measured is not None:
            figures["adds_measured"] = [self.whole.measured - (rest.measured or 0.0) for rest in rests]
        figures["cost"] = self.costs.tolist()
        row = table["annotator"].map({name: index for index, name in enumerate(self.annotations.annotators)}).to_numpy()
        added = {name: np.array(values)[row] for name, values in figures.items()}
        ends = table[["annotations", "verdict", "habit", "notes"]]
        first = [name for name in ("annotator", "task", "group", "accuracy", "low", "high") if name in table.columns]
        return table[first].assign(**added).join(ends)

    def cheapest(self, within: float = WITHIN) -> SubPanel:
        """A cheap part whose expected accuracy is at most `within` below that of the whole.

        The cheapest of all, for up to ten judges. Of more, the end of the path: nobody of it can be spared, or replaced
        by a cheaper one; another part may be cheaper still.
        """
        if not 0 <= within < 1:
            raise RealmError(f"`within={within}`: must lie between 0 and 1: 0.01 is a point of accuracy.")
        least = self.whole.expected - within - 10.0**-DECIMALS
        if self.members.sum() <= COMPARED:
            return min((part for part in self._parts() if part.expected >= least), key=lambda part: part.cost)
        members = self._leaving_out(least)[-1]
        while (cheaper := self._replaced(members, least)) is not None:
            members = cheaper
        return self.part(members)

    def _parts(self) -> Iterator[SubPanel]:
        """Every part of the panel, the larger ones first: of equally cheap ones the first is the best informed."""
        judges = np.flatnonzero(self.members)
        for size in range(len(judges), 0, -1):
            for chosen in combinations(judges, size):
                yield self.part(np.isin(np.arange(len(self.members)), chosen))

    def _replaced(self, members: Bools, least: float) -> Bools | None:
        """The same part with one judge replaced by the cheapest other that keeps it at `least`; None: nobody saves."""
        for leaves in sorted(np.flatnonzero(members), key=lambda judge: -self.costs[judge]):
            others = np.flatnonzero(self.members & ~members & (self.costs < self.costs[leaves]))
            for joins in sorted(others, key=lambda judge: self.costs[judge]):
                changed = members.copy()
                changed[[leaves, joins]] = [False, True]
                if self._labels.accuracies(changed)[0] >= least:
                    return changed
        return None

    def path(self) -> list[SubPanel]:
        """The whole panel, and what is left as judges leave it one by one, down to a single one.

        Who costs least accuracy for their price leaves first.
        """
        return [self.part(members) for members in self._leaving_out(-np.inf)]

    def for_a_human(self, number: int) -> pd.DataFrame:
        """The items whose label is least sure, as `labels_table` shows them; items whose gold was used are left out."""
        table = labels_table(self.annotations, self.estimate.posterior)[~self._known]
        return table.sort_values("confidence", kind="stable").head(number).reset_index(drop=True)

    def expected_with_humans(self, number: int) -> float:
        """The accuracy that is expected if people who are always right label so many of the least sure items."""
        confidence = np.where(self._known, 1.0, self.estimate.posterior.max(axis=1))
        return float((confidence.sum() + (1 - np.sort(confidence)[:number]).sum()) / len(confidence))

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
            rate = np.round(losses[candidates] / self.costs[candidates], DECIMALS)
            leaves = candidates[np.lexsort((skill[candidates], -self.costs[candidates], rate))[0]]
            left.append(left[-1].copy())
            left[-1][leaves] = False
        return left


class _Labels:
    """The labels of parts of a panel, and how accurate they are, on the items that parts are compared on.

    `gold` (items,) is what they are measured against.
    """

    def __init__(self, screens: Screens, gold: npt.NDArray[np.integer] | None) -> None:
        annotations, estimate = screens.annotations, screens.estimate
        items = np.arange(0, annotations.n_items, max(-(-annotations.n_items // SAMPLED), 1))
        place = np.full(annotations.n_items, -1)
        place[items] = np.arange(len(items))
        order = np.argsort(annotations.annotator, kind="stable")
        order = order[place[annotations.item[order]] >= 0]
        self.item = place[annotations.item[order]]
        weight = estimate.exponent[annotations.item_tasks[annotations.item]]
        weight = weight if annotations.weight is None else weight * annotations.weight
        self.evidence = weight[order, None] * estimate.evidence(annotations)[order]
        self.ends = np.searchsorted(annotations.annotator[order], np.arange(annotations.n_annotators + 1))
        self.prior = estimate.log_prior[items]
        self.reference = estimate.posterior[items]
        self.gold = None if gold is None or (gold[items] == UNKNOWN).all() else gold[items]

    def accuracies(self, members: Bools) -> tuple[float, float | None]:
        """Expected and measured accuracy of the labels of these annotators together."""
        labels = _best(self._scores(members))
        expected = float(self.reference[np.arange(len(labels)), labels].mean())
        return expected, None if self.gold is None else float((labels == self.gold)[self.gold != UNKNOWN].mean())

    def losses(self, members: Bools) -> tuple[float, Floats]:
        """Expected accuracy of these annotators, and what is lost of it if one of them leaves; NaN for others."""
        scores = self._scores(members)
        right = self.reference[np.arange(len(scores)), _best(scores)]
        losses = np.full(len(members), np.nan)
        for index in np.flatnonzero(members):
            rows = slice(self.ends[index], self.ends[index + 1])
            items = self.item[rows]
            without = _best(scores[items] - self.evidence[rows])
            losses[index] = (right[items] - self.reference[items, without]).sum() / len(scores)
        return float(right.mean()), losses

    def _scores(self, members: Bools) -> Floats:
        scores = self.prior.copy()
        for index in np.flatnonzero(members):
            rows = slice(self.ends[index], self.ends[index + 1])
            np.add.at(scores, self.item[rows], self.evidence[rows])
        return scores


def _best(scores: Floats) -> Ints:
    return np.asarray(np.round(scores, DECIMALS).argmax(axis=1), dtype=np.int64)


def _dearer_copies(screens: Screens, costs: Floats) -> Bools:
    """Who is left out as a copy: of two the dearer, of equals the later one. Shape (annotators,)."""
    left_out = np.zeros(len(costs), dtype=bool)
    for pair in screens.copies:
        if not (left_out[pair.first] or left_out[pair.second]):
            left_out[pair.first if costs[pair.first] > costs[pair.second] else pair.second] = True
    return left_out
