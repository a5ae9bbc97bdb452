"""What to have labelled again, and by whom, within a budget: labels that tell most about the truth for their cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from realm.crowd.engine import Floats, Ints
from realm.crowd.estimate import Estimate
from realm.crowd.tables import OptionNames, item_columns, label_counts_in_words, model_probs
from realm.data import Annotations
from realm.data.annotations import UNKNOWN
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

CANDIDATES, SUGGESTIONS = 64, 3
"""Annotators that are compared for each item (those who tell most per unit of cost), and named: one, and two others."""
LEAST_GAIN = 1e-6
"""Bits below which another label is not worth asking for: rounding errors of a sum of entropies are smaller."""
HALF_AS_GOOD = 0.5
"""Those share the work whose label tells at least half as much per unit of cost as the best for the item."""
POOL, POOL_PER_LABEL = 1_000, 5
"""Items that are considered at the least, and for each label that the budget pays for: the most uncertain ones."""


def information_gain(posterior: Floats, channel: Floats) -> Floats:
    """Bits that one more label is expected to tell about the truth: its mutual information with the answer.

    `posterior` is (items, K), `channel` the annotator's P(answer | truth), (K, K). Shape (items,)
    """
    gain = bits(posterior @ channel).sum(axis=1) - posterior @ bits(channel).sum(axis=1)
    return np.asarray(np.maximum(gain, 0.0))


def correction_gain(posterior: Floats, channel: Floats) -> Floats:
    """How much more probably the most probable label is right after one more label. Shapes as `information_gain`."""
    right = (posterior[:, :, None] * channel).max(axis=1).sum(axis=1)
    return np.asarray(np.maximum(right - posterior.max(axis=1, initial=0.0), 0.0))


def bits(share: Floats) -> Floats:
    """-p log2 p, 0 at p = 0."""
    return np.asarray(-share * np.log2(np.maximum(share, 1e-300)))


def relabel_queue(
    annotations: Annotations,
    log_probs: npt.ArrayLike,
    estimate: Estimate,
    budget: float,
    costs: Mapping[str, float] | None = None,
    most_each: int | None = None,
) -> pd.DataFrame:
    """The items worth another annotation, in the order in which to ask, until the budget is spent.

    `costs` gives the price of one annotation by annotator, and who has none is not asked; without it each costs 1, so
    that `budget` counts annotations. Each item is listed once: gather the answers, run again, and ask anew. Asked are
    annotators seen in the item's task, better than chance, who have not labelled it, nobody more than `most_each`
    times; without it those who are about as good share the work.

    Columns: item, task, text, context (where there is any), label (the most probable one), confidence, model (the
    model's own favourite), labels_given, annotations, gain_bits (what the answer is expected to tell), gain_labels (how
    much more probably the label is right after it), gain_per_cost (bits per unit of cost), ask (whom), ask_accuracy,
    cost, or_else (others worth asking).
    """
    import pandas as pd

    for name, limit in (("budget", budget), ("most_each", most_each)):
        if limit is not None and not limit > 0:
            raise RealmError(f"`{name}` must be more than 0, not {limit:g}.")
    prices = read_prices(annotations, costs)
    prices[~(prices <= budget)] = np.nan
    # what all annotators miss no answer tells; where the truth is given, there is nothing to tell
    is_known = estimate.posterior.max(axis=1, keepdims=True, initial=0.0) == 1
    posterior = np.where(is_known, estimate.posterior, estimate.apparent(annotations))
    most = int(min(np.nanmax(budget / prices, initial=0.0), annotations.n_items))  # labels that the budget pays for
    first = np.argsort(-bits(posterior).sum(axis=1), kind="stable")[: max(POOL, POOL_PER_LABEL * most)]
    pool = np.sort(first)
    people, gain, value = _offers(annotations, estimate, posterior, pool, prices)
    rows, places = np.array(_hand_out(people, value, prices, budget, most_each), np.int64).reshape(-1, 2).T
    items, ask, gains, corrected = pool[rows], people[rows, places], gain[rows, places], np.zeros(len(rows))
    for row, (item, who) in enumerate(zip(items.tolist(), ask.tolist(), strict=True)):
        task, options = int(annotations.item_tasks[item]), int(annotations.option_counts[item])
        seen = 1 - options * estimate.shared_error[task] / max(options - 1, 1)  # of what annotators see is true
        channel = _channel(estimate, who, task, options)
        corrected[row] = seen * correction_gain(posterior[[item], :options], channel)[0]
    table, names = annotations.take_items(items), OptionNames(annotations)
    labels = estimate.posterior[items].argmax(axis=1)
    annotators = np.array([*annotations.annotators, ""], dtype=object)
    others = [
        ", ".join(annotators[[each for each in row if each not in (UNKNOWN, who)][: SUGGESTIONS - 1]])
        for row, who in zip(people[rows, : SUGGESTIONS + 1].tolist(), ask.tolist(), strict=True)
    ]
    columns = item_columns(table) | {
        "label": names(items, labels),
        "confidence": estimate.posterior[items, labels],
        "model": names(items, model_probs(annotations, log_probs)[items].argmax(axis=1)),
        "labels_given": label_counts_in_words(table, OptionNames(table)),
        "annotations": table.annotations_per_item,
        "gain_bits": gains,
        "gain_labels": corrected,
        "gain_per_cost": gains / prices[ask],
        "ask": annotators[ask],
        "ask_accuracy": estimate.accuracy[ask, table.item_tasks],
        "cost": prices[ask],
        "or_else": others,
    }
    return pd.DataFrame(columns)


def _channel(estimate: Estimate, annotator: int, task: int, options: int) -> Floats:
    """P(answer | truth) on items with so many options, to the power of tau: flatter where annotators err together."""
    matrix = estimate.confusion(annotator, task)[:options, :options] ** float(estimate.exponent[task])
    return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))


def _offers(
    annotations: Annotations, estimate: Estimate, posterior: Floats, items: Ints, prices: Floats
) -> tuple[Ints, Floats, Floats]:
    """Whom to ask about these items, best first (-1 where there are fewer), the bits that each tells and bits per cost.

    Shapes (len(items), candidates)
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
            channel = _channel(estimate, who, task, options)
            people[rows, place], gain[rows, place] = who, information_gain(posterior[items[rows], :options], channel)
    near = np.isin(annotations.item, items)
    labelled = annotations.item[near].astype(np.int64) * n + annotations.annotator[near]
    is_offer = (gain > LEAST_GAIN) & ~np.isin(items[:, None] * n + people, labelled)
    people, gain = np.where(is_offer, people, UNKNOWN), np.where(is_offer, np.round(gain, 12), 0.0)  # ties stay ties
    value = np.where(is_offer, gain / prices[people], 0.0)
    order = np.argsort(-value, axis=1, kind="stable")
    people, gain, value = (np.take_along_axis(each, order, axis=1) for each in (people, gain, value))
    return people, gain, value


def _hand_out(
    people: Ints, value: Floats, prices: Floats, budget: float, most_each: int | None
) -> list[tuple[int, int]]:
    """(row, place in the row) of what is asked, in order, until the budget is spent or nothing is left.

    The item of the highest value comes first. Of those who tell at least half as much about it as the best, the one who
    has least to do for it is asked; with `most_each` the best of those who are asked less often than that.
    """
    load, requests = np.zeros(len(prices), np.int64), []
    left = budget * (1 + 1e-12)  # sums of prices are not exact: more than rounding, less than any price
    best = value.max(axis=1, initial=0.0)
    while best.any():
        row = int(best.argmax())
        who = people[row]
        allowed = np.where(prices[who] <= left, value[row], 0.0)
        if most_each is not None:
            allowed[load[who] >= most_each] = 0.0
        if allowed.max() < best[row]:  # the best may not be asked any more: another item may come first now
            best[row] = allowed.max()
            continue
        if most_each is None:
            allowed = np.where(allowed >= HALF_AS_GOOD * best[row], allowed / (1 + load[who]), 0.0)
        place = int(allowed.argmax())
        requests.append((row, place))
        load[who[place]] += 1
        left -= prices[who[place]]
        best[row] = 0.0
    return requests


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
