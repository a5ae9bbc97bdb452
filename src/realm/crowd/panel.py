"""What a panel of judges is worth, what each adds given the others, and a cheap part of it that does as well.

Judges are annotators whose labels cost money. The labels of a part of the panel are those of the whole panel's estimate
with the evidence of its members alone: first everybody judges a pilot, then the part goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from realm.crowd.engine import Bools, Floats, Ints
from realm.crowd.model import AnnotatorModel
from realm.crowd.relabel import read_prices
from realm.crowd.screens import Screens
from realm.crowd.tables import expertise_table, labels_table
from realm.data import Annotations
from realm.data.annotations import UNKNOWN
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

WITHIN = 0.01
"""How much less accurate than the whole a part may be: a point."""
SAMPLED = 20_000
"""Items that parts of a panel are compared on at most, evenly chosen: an accuracy is known to a third of a point."""
DECIMALS = 9
"""Decimals of summed evidence that decide a label: sums taken in another order differ in the last digits, and a tie
must stay one (the first option has it)."""


class SubPanel(NamedTuple):
    """A part of a panel, the `cost` of one label by each member, and the accuracy of its labels.

    `expected` is by the posterior of the whole panel, `measured` on gold that was not used (None without any).
    """

    members: tuple[str, ...]
    cost: float
    expected: float
    measured: float | None


class Panel:
    """A panel of judges: the `estimate` of all its labels, the `whole`, and what parts of it are worth.

    Of two judges of whom one copies the other, the cheaper is in the panel.

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
        if np.isnan(self.costs).any():
            raise RealmError(f"`costs` has no price for {annotations.annotators[int(np.isnan(self.costs).argmax())]}.")
        model = AnnotatorModel(annotations.without_gold(), gold=gold, experts=experts or (), kind=kind).fit()
        self.estimate = model.estimate()
        self.screens = Screens(annotations, self.estimate, model)
        self.copies = np.zeros(annotations.n_annotators, dtype=bool)
        for pair in self.screens.copies:
            if not (self.copies[pair.first] or self.copies[pair.second]):
                self.copies[pair.first if self.costs[pair.first] > self.costs[pair.second] else pair.second] = True
        self.members = (annotations.annotations_per_annotator > 0) & ~self.copies
        self._known = np.zeros(annotations.n_items, dtype=bool) if gold is None else np.asarray(gold) != UNKNOWN
        # what parts are compared on: the evidence of every annotation, and P(truth) of every item
        items = np.arange(0, annotations.n_items, max(-(-annotations.n_items // SAMPLED), 1))
        rows = np.flatnonzero(np.isin(annotations.item, items))
        self._item, self._judge = np.searchsorted(items, annotations.item[rows]), annotations.annotator[rows]
        weight = self.estimate.exponent[annotations.item_tasks[annotations.item]]
        weight = weight * (1.0 if annotations.weight is None else annotations.weight)
        self._evidence = (self.estimate.evidence(annotations) * weight[:, None])[rows]
        self._prior, self._truth = self.estimate.log_prior[items], self.estimate.posterior[items]
        self._gold = None  # one-hot, NaN where it is not known
        if gold is None and annotations.gold is not None and (annotations.gold[items] != UNKNOWN).any():
            known = annotations.gold[items, None]
            self._gold = np.where(known != UNKNOWN, np.arange(self._truth.shape[1]) == known, np.nan)
        self.whole = self.part(self.members)

    def part(self, members: npt.ArrayLike) -> SubPanel:
        """What some of the judges are worth: a mask (annotators,)."""
        mask = np.asarray(members, dtype=bool)
        names = tuple(self.annotations.annotators[index] for index in np.flatnonzero(mask))
        at = np.arange(len(self._truth)), _best(self._scores(mask))
        measured = None if self._gold is None else float(np.nanmean(self._gold[at]))
        return SubPanel(names, float(self.costs[mask].sum()), float(self._truth[at].mean()), measured)

    def table(self) -> pd.DataFrame:
        """A row for each judge and task, the most accurate first.

        Columns: annotator, task, group (where there are any), accuracy, low, high (its interval), adds (expected
        accuracy of the panel less that of the panel without them, all tasks together; 0 for a copy), adds_measured (the
        same on gold, where there is any), cost, annotations, verdict, habit, notes.
        """
        table = expertise_table(self.annotations, self.estimate, screens=self.screens)
        row = table["annotator"].map({name: index for index, name in enumerate(self.annotations.annotators)}).to_numpy()
        table["adds"] = np.where(self.members, self._losses(self.members, self._truth), 0.0)[row]
        if self._gold is not None:
            table["adds_measured"] = np.where(self.members, self._losses(self.members, self._gold), 0.0)[row]
        table["cost"] = self.costs[row]
        columns = [
            "annotator",
            "task",
            "group",
            "accuracy",
            "low",
            "high",
            "adds",
            "adds_measured",
            "cost",
            "annotations",
        ]
        return table[[name for name in (*columns, "verdict", "habit", "notes") if name in table]]

    def path(self, least: float = -np.inf, dearest_first: bool = False) -> list[SubPanel]:
        """The whole panel, and what is left as judges leave it one by one, down to a single one.

        Who costs least accuracy for their price leaves first (or the dearest); nobody whose leaving brings the expected
        accuracy below `least`.
        """
        members, parts = self.members, [self.whole]
        skill = np.nan_to_num(self.estimate.expertise).mean(axis=1)
        while members.sum() > 1:
            losses = self._losses(members, self._truth)
            candidates = np.flatnonzero(members & (parts[-1].expected - losses >= least))
            if not len(candidates):
                break
            order = [-self.costs[candidates], np.round(losses[candidates] / self.costs[candidates], DECIMALS)]
            leaves = candidates[np.lexsort((skill[candidates], *(order[::-1] if dearest_first else order)))[0]]
            members = members & (np.arange(len(skill)) != leaves)
            parts.append(self.part(members))
        return parts

    def cheapest(self, within: float = WITHIN) -> SubPanel:
        """A cheap part whose expected accuracy is at most `within` below that of the whole, and nobody can be spared.

        The cheaper of the ends of two paths; another part may be cheaper still.
        """
        if not 0 <= within < 1:
            raise RealmError(f"`within={within}`: must lie between 0 and 1: 0.01 is a point of accuracy.")
        least = self.whole.expected - within - 10.0**-DECIMALS
        return min((self.path(least, order)[-1] for order in (False, True)), key=lambda part: part.cost)

    def for_a_human(self, number: int) -> pd.DataFrame:
        """The items whose label is least sure, as `labels_table` shows them; items whose gold was used are left out."""
        table = labels_table(self.annotations, self.estimate.posterior)[~self._known]
        return table.sort_values("confidence", kind="stable").head(number).reset_index(drop=True)

    def expected_with_humans(self, number: int) -> float:
        """The accuracy that is expected if people who are always right label so many of the least sure items."""
        confidence = np.where(self._known, 1.0, self.estimate.posterior.max(axis=1))
        return float((confidence.sum() + (1 - np.sort(confidence)[:number]).sum()) / len(confidence))

    def _losses(self, members: Bools, truth: Floats) -> Floats:
        """How much less accurate, by `truth` (items, K), these judges' labels are as one leaves. (annotators,)"""
        scores = self._scores(members)
        right = truth[np.arange(len(scores)), _best(scores)]
        without = truth[self._item, _best(scores[self._item] - self._evidence)]
        lost = np.nan_to_num(right[self._item] - without)
        return np.asarray(np.bincount(self._judge, lost, minlength=len(members)) / np.isfinite(right).sum())

    def _scores(self, members: Bools) -> Floats:
        """log P of the compared items' labels by some judges, but for a constant. (items, K)"""
        rows = np.flatnonzero(members[self._judge])
        sums = [np.bincount(self._item[rows], column[rows], minlength=len(self._prior)) for column in self._evidence.T]
        return self._prior + np.stack(sums, axis=1)


def _best(scores: Floats) -> Ints:
    return np.asarray(np.round(scores, DECIMALS).argmax(axis=1), dtype=np.int64)
