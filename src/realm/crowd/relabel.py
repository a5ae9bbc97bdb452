"""What to have labelled again and by whom, and the items on which model and reliable annotators contradict."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from realm.crowd.coin import bits
from realm.crowd.estimate import Estimate
from realm.crowd.evidence import Floats, Indices, check_log_probs, posterior
from realm.crowd.habit import label_distribution
from realm.crowd.tables import VERDICTS, OptionNames, item_columns, label_counts_in_words, verdicts
from realm.data import Annotations
from realm.data.annotations import UNKNOWN
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

SUGGESTIONS = 3
"""How many annotators are named for each item: the best, and two to fall back on."""
CANDIDATES = 32
"""Annotators looked at for each item at least, those with fewest better offers first."""
LEAST_GAIN = 1e-6
"""Bits below which another label is not worth asking for: rounding errors of a sum of entropies are smaller."""
CONFIDENT = 0.8
"""Model and annotators contradict each other where each gives this much to a different option: four to one."""
CHUNK_SIZE = 2_000_000
"""Largest (items, annotators, options) array: 16 MB of float64."""


def information_gain(
    posterior: Floats, options: Indices, expertise: npt.ArrayLike, habits: npt.ArrayLike = 1.0
) -> Floats:
    """Bits that one more label by an annotator of this expertise is expected to tell about the true label.

    The mutual information of the true label and the label given: the entropy of the label less its mean entropy given
    the truth. `posterior` is (n, Kmax), `options` is K (n,); `expertise` is (n,) or (n, annotators), and so is the
    result; `habits` is (annotators, Kmax), or 1.0 where they are even. The posterior mean of an uncertain expertise
    gives it exactly.
    """
    beta, xi = np.asarray(expertise, np.float64), np.asarray(habits, np.float64)
    labels, noise = label_distribution(beta if beta.ndim == 2 else beta[:, None], xi, posterior, options)
    return np.asarray(np.maximum(bits(labels).sum(axis=-1) - noise, 0.0).reshape(beta.shape))


def relabel_queue(
    annotations: Annotations,
    log_probs: npt.ArrayLike,
    estimate: Estimate,
    budget: float,
    costs: Mapping[str, float] | None = None,
) -> pd.DataFrame:
    """The items worth another annotation, most bits per unit of cost first, until the budget is spent.

    `costs` gives the price of one annotation by annotator; without it each costs 1, so that `budget` counts
    annotations. Annotators that `costs` does not name are not asked. Each item is listed once: gather the answers, run
    again, and ask anew. Named are annotators seen in the item's task, better than chance, who have not labelled it.

    Columns: item, task, text, context (where there is any), label (the most probable one), confidence, model (the
    model's own favourite), labels_given, annotations, gain_bits, ask (the best annotator for it), ask_accuracy, cost,
    or_else (others worth asking).
    """
    import pandas as pd

    if not budget > 0:
        raise RealmError(f"`budget` must be more than 0, not {budget}.")
    budget *= 1 + 1e-12  # sums of prices are not exact: more than rounding, less than any price
    prices = _prices(annotations, costs)
    prices[prices > budget] = np.nan
    suggestions = _Suggestions(annotations, estimate, prices)
    value = np.where(suggestions.gain[:, 0] > LEAST_GAIN, suggestions.gain[:, 0] / suggestions.cost[:, 0], -np.inf)
    order = np.argsort(-value, kind="stable")
    order = order[np.isfinite(value[order])]
    order = order[_affordable(suggestions.cost[order, 0], budget)]
    best = suggestions.annotator[order, 0]
    names = np.array([*annotations.annotators, ""], dtype=object)
    others = [", ".join(name for name in row if name) for row in names[suggestions.annotator[order, 1:]]]
    return pd.DataFrame(
        {
            **_item_summary(annotations, log_probs, estimate, order),
            "gain_bits": suggestions.gain[order, 0],
            "ask": names[best],
            "ask_accuracy": estimate.accuracy[best, annotations.item_tasks[order]],
            "cost": suggestions.cost[order, 0],
            "or_else": others,
        }
    )


def _affordable(costs: Floats, budget: float) -> Indices:
    """The places that the budget pays for, in this order; what costs more than is left is passed over."""
    affordable, cheapest = [], costs.min(initial=np.inf)
    for place, cost in enumerate(costs.tolist()):
        if budget < cheapest:
            break
        if cost <= budget:
            budget -= cost
            affordable.append(place)
    return np.array(affordable, dtype=np.int64)


def contradictions(annotations: Annotations, log_probs: npt.ArrayLike, estimate: Estimate) -> pd.DataFrame:
    """Items that are likely broken: the model is sure of one option, the reliable annotators together of another.

    Both give 0.8 or more. The annotators' side is the posterior without the model, over the labels of those whose
    verdict is reliable. One more label settles little here: read the item. With in-sample probabilities a model may
    have learned the labels by heart, and fewer contradictions show.

    Columns: item, task, text, context (where there is any), label, confidence, model, labels_given, annotations,
    model_confidence, annotators_say,
    annotators_confidence, conflict (the product of the two confidences); the sharpest first.
    """
    import pandas as pd

    scores = check_log_probs(annotations, log_probs)
    reliable = verdicts(annotations, estimate) == VERDICTS.index("reliable")
    table = annotations.keep_annotations(reliable[annotations.annotator, annotations.item_tasks[annotations.item]])
    uniform = np.where(np.isfinite(scores), 0.0, -np.inf)
    annotators = posterior(table, uniform, estimate.evidence(table))
    label, confidence = scores.argmax(axis=1), np.exp(scores).max(axis=1, initial=0.0)
    their_label, their_confidence = annotators.argmax(axis=1), annotators.max(axis=1, initial=0.0)
    order = np.flatnonzero((label != their_label) & (np.minimum(confidence, their_confidence) >= CONFIDENT))
    conflict = confidence * their_confidence
    order = order[np.argsort(-conflict[order], kind="stable")]
    return pd.DataFrame(
        {
            **_item_summary(annotations, log_probs, estimate, order),
            "model_confidence": confidence[order],
            "annotators_say": OptionNames(annotations)(order, their_label[order]),
            "annotators_confidence": their_confidence[order],
            "conflict": conflict[order],
        }
    )


def _item_summary(
    annotations: Annotations, log_probs: npt.ArrayLike, estimate: Estimate, items: Indices
) -> dict[str, Any]:
    """The columns that both tables begin with: what an item is, its label, and what model and annotators say."""
    names = OptionNames(annotations)
    label = estimate.posterior[items].argmax(axis=1)
    model = check_log_probs(annotations, log_probs)[items].argmax(axis=1)
    table = annotations.take_items(items)
    return {
        **item_columns(table),
        "label": names(items, label),
        "confidence": estimate.posterior[items, label],
        "model": names(items, model),
        "labels_given": label_counts_in_words(table, OptionNames(table)),
        "annotations": table.annotations_per_item,
    }


# -------------------------------------------------------------------- whom to ask


class _Suggestions:
    """The best annotators for each item, best first. Shapes (items, SUGGESTIONS).

    With even habits an annotator who costs more and is less reliable is worth asking only about items that all better
    offers have labelled already, so an item with d labels needs no more than the offers with fewer than d + SUGGESTIONS
    better ones: never all annotators. Whom a habit makes better on some items than their expertise says is among the
    candidates as long as fewer than CANDIDATES are better and no dearer.
    """

    def __init__(self, annotations: Annotations, estimate: Estimate, prices: Floats) -> None:
        shape = (annotations.n_items, SUGGESTIONS)
        self.annotator = np.full(shape, UNKNOWN, dtype=np.int64)
        self.gain, self.cost = np.zeros(shape), np.ones(shape)
        self._annotations, self._estimate, self._prices = annotations, estimate, prices
        pairs = annotations.item.astype(np.int64) * annotations.n_annotators + annotations.annotator
        self._labelled_pairs = np.sort(np.append(pairs, np.iinfo(np.int64).max))  # never empty
        for task in range(len(annotations.tasks)):
            self._fill_task(task)

    def _fill_task(self, task: int) -> None:
        expertise = self._estimate.expertise[:, task]
        present = self._estimate.annotations[:, task] > 0
        offers = np.flatnonzero(present & (expertise > 0) & np.isfinite(self._prices))
        better = _better_offers(self._prices[offers], expertise[offers])
        items = np.flatnonzero(self._annotations.item_tasks == task)
        labels = self._annotations.annotations_per_item[items]
        bound = 0
        while bound <= labels.max(initial=-1):
            # Items with alike numbers of labels share their candidates; the bounds double, so there are few groups.
            upper = max(2 * bound, 1)
            group = items[(labels >= bound) & (labels < upper)]
            candidates = offers[better < max(upper - 1 + SUGGESTIONS, CANDIDATES)]
            if len(candidates):
                size = max(CHUNK_SIZE // (len(candidates) * self._estimate.posterior.shape[1]), 1)
                for start in range(0, len(group), size):
                    self._rank(task, group[start : start + size], candidates)
            bound = upper

    def _rank(self, task: int, items: Indices, candidates: Indices) -> None:
        """Fill in the best of the candidates for these items of a task."""
        keys = items[:, None] * self._annotations.n_annotators + candidates
        pairs = self._labelled_pairs
        labelled = pairs[np.minimum(np.searchsorted(pairs, keys), len(pairs) - 1)] == keys
        expertise = np.broadcast_to(self._estimate.expertise[candidates, task], keys.shape)
        options = self._annotations.option_counts[items].astype(np.int64)
        habits = self._estimate.habits[candidates, task]
        gain = information_gain(self._estimate.posterior[items], options, expertise, habits)
        value = np.where(labelled, -np.inf, gain / self._prices[candidates])
        # Where nothing is to be gained all offers tie at 0; the better annotator goes first all the same.
        order = np.lexsort((-expertise, -value), axis=1)[:, :SUGGESTIONS]
        rows = np.arange(len(items))[:, None]
        possible = np.isfinite(value[rows, order])
        width = order.shape[1]
        self.annotator[items, :width] = np.where(possible, candidates[order], UNKNOWN)
        self.gain[items, :width] = np.where(possible, gain[rows, order], 0.0)
        self.cost[items, :width] = np.where(possible, self._prices[candidates][order], 1.0)


def _prices(annotations: Annotations, costs: Mapping[str, float] | None) -> Floats:
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
