"""What to have labelled again and by whom, and the items on which model and reliable annotators contradict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from realm.crowd.estimate import Estimate, verdicts
from realm.crowd.joint import Indices
from realm.crowd.posterior import Floats, OptionNames, check_log_probs, posterior, votes_in_words
from realm.data import Annotations
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

ASKED = 3
"""How many annotators are named for each item: the best, and two to fall back on."""
LEAST_GAIN = 1e-6
CONFIDENT = 0.8
"""Model and annotators contradict each other where each gives this much to a different option."""
CHUNK = 2_000_000


def information_gain(posterior: Floats, options: Indices, beta: npt.ArrayLike) -> Floats:
    """Bits that one more label by an annotator of expertise beta is expected to tell about the true label.

    The mutual information of the true label (`posterior`, shape (n, Kmax)) and the label given, which is the true one
    with probability beta + (1-beta)/K and each other one with (1-beta)/K. `options` is K, (n,); beta is (n,) or (n, m).
    Since a label's distribution is a straight line in beta, the posterior mean of beta gives it exactly.
    """
    weight = np.asarray(beta, np.float64)
    flat = weight.ndim == 1
    weight = weight[:, None] if flat else weight
    guess = (1 - weight) / options[:, None]
    inside = np.arange(posterior.shape[1]) < options[:, None]
    said = np.where(inside[:, None, :], weight[..., None] * posterior[:, None, :] + guess[..., None], 0.0)
    noise = _surprise(weight + guess) + (options[:, None] - 1) * _surprise(guess)
    gain: Floats = np.maximum(_surprise(said).sum(axis=-1) - noise, 0.0)
    return gain[:, 0] if flat else gain


def _surprise(share: Floats) -> Floats:
    bits: Floats = -share * np.log2(np.maximum(share, 1e-300))
    return bits


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

    Columns: item, task, text, label (the most probable one), confidence, model (the model's own favourite), votes,
    annotations, gain_bits, ask (the best annotator for it), ask_accuracy, cost, or_else (others worth asking).
    """
    import pandas as pd

    if not budget > 0:
        raise RealmError(f"--budget must be more than 0, not {budget}.")
    budget *= 1 + 1e-12  # sums of prices are not exact
    prices = _prices(annotations, costs)
    prices = np.where(prices > budget, np.nan, prices)
    chosen = _Choice(annotations.n_items)
    taken = np.sort(annotations.item.astype(np.int64) * annotations.n_annotators + annotations.annotator)
    for task in range(len(annotations.tasks)):
        _choose(annotations, estimate, prices, task, taken, chosen)
    value = np.where(chosen.gain[:, 0] > LEAST_GAIN, chosen.gain[:, 0] / chosen.cost[:, 0], -np.inf)
    order = np.argsort(-value, kind="stable")
    order = order[np.isfinite(value[order])]
    order = order[_affordable(chosen.cost[order, 0], budget)]
    best = chosen.annotator[order, 0]
    people = np.array([*annotations.annotators, ""], dtype=object)
    others = [", ".join(n for n in names if n) for names in people[chosen.annotator[order, 1:]]]
    return pd.DataFrame(
        {
            **_described(annotations, log_probs, estimate, order),
            "gain_bits": chosen.gain[order, 0],
            "ask": people[best],
            "ask_accuracy": estimate.accuracy[best, annotations.item_tasks[order]],
            "cost": chosen.cost[order, 0],
            "or_else": others,
        }
    )


def _affordable(costs: Floats, budget: float) -> Indices:
    """The places that the budget pays for, in this order; what is too dear for what is left is passed over."""
    left, taken = budget, []
    cheapest = costs.min(initial=np.inf)
    for place, cost in enumerate(costs.tolist()):
        if left < cheapest:
            break
        if cost <= left:
            left -= cost
            taken.append(place)
    return np.array(taken, dtype=np.int64)


def contradictions(annotations: Annotations, log_probs: npt.ArrayLike, estimate: Estimate) -> pd.DataFrame:
    """Items that are likely broken: the model is sure of one option, the reliable annotators together of another.

    Both give 0.8 or more. The annotators' side is the posterior without the model, over the labels of those whose
    verdict is reliable. One more label settles little here: read the item. With in-sample probabilities a model may
    have learned the labels by heart, and fewer contradictions show.

    Columns: item, task, text, label, confidence, model, votes, annotations, model_confidence, annotators_say,
    annotators_confidence, conflict (the product of the two confidences); the sharpest first.
    """
    import pandas as pd

    scores = check_log_probs(annotations, log_probs)
    model = np.exp(scores)
    trusted = verdicts(estimate) == "reliable"
    keep = trusted[annotations.annotator, annotations.item_tasks[annotations.item]]
    table = annotations.keep_annotations(keep)
    people = posterior(table, np.where(np.isfinite(scores), 0.0, -np.inf), np.nan_to_num(estimate.expertise))
    rows = np.arange(annotations.n_items)
    sure, theirs = model.argmax(axis=1), people.argmax(axis=1)
    conflict = model[rows, sure] * people[rows, theirs]
    broken = (sure != theirs) & (model[rows, sure] >= CONFIDENT) & (people[rows, theirs] >= CONFIDENT)
    order = np.flatnonzero(broken)
    order = order[np.argsort(-conflict[order], kind="stable")]
    return pd.DataFrame(
        {
            **_described(annotations, log_probs, estimate, order),
            "model_confidence": model[order, sure[order]],
            "annotators_say": OptionNames(annotations)(order, theirs[order]),
            "annotators_confidence": people[order, theirs[order]],
            "conflict": conflict[order],
        }
    )


def _described(
    annotations: Annotations, log_probs: npt.ArrayLike, estimate: Estimate, items: Indices
) -> dict[str, Any]:
    """The columns that say what an item is and what is thought of it."""
    names = OptionNames(annotations)
    label = estimate.posterior[items].argmax(axis=1)
    model = check_log_probs(annotations, log_probs)[items].argmax(axis=1)
    table = annotations.take_items(items)
    task_names = np.array([task.name for task in annotations.tasks], dtype=object)
    return {
        "item": table.item_ids.to_pylist(),
        "task": task_names[table.item_tasks],
        "text": table.texts.to_pylist(),
        "label": names(items, label),
        "confidence": estimate.posterior[items, label],
        "model": names(items, model),
        "votes": votes_in_words(table, OptionNames(table)),
        "annotations": table.annotations_per_item,
    }


# -------------------------------------------------------------------- whom to ask


class _Choice:
    """The best annotators for each item, best first. Shapes (items, ASKED)."""

    def __init__(self, n_items: int) -> None:
        self.annotator = np.full((n_items, ASKED), -1, dtype=np.int64)
        self.gain = np.zeros((n_items, ASKED))
        self.cost = np.ones((n_items, ASKED))


def _prices(annotations: Annotations, costs: Mapping[str, float] | None) -> Floats:
    """The price of each annotator's annotation; NaN where they are not to be asked. Shape (annotators,)."""
    if costs is None:
        return np.ones(annotations.n_annotators)
    if bad := [name for name, cost in costs.items() if not (np.isfinite(cost) and cost > 0)]:
        raise RealmError(f"--costs: the cost of an annotation must be more than 0; see annotator {bad[0]}.")
    prices = np.array([costs.get(name, np.nan) for name in annotations.annotators], dtype=np.float64)
    if np.isnan(prices).all():
        raise RealmError("--costs names none of the annotators of this run.")
    return prices


def _choose(
    annotations: Annotations, estimate: Estimate, prices: Floats, task: int, taken: Indices, chosen: _Choice
) -> None:
    """Fill in the choice for the items of one task.

    A dearer and less reliable annotator is worth asking only about items that all better offers have labelled already,
    so an item with d labels needs no more than the offers with fewer than d + ASKED better ones: never all annotators.
    """
    beta = estimate.expertise[:, task]
    offers = np.flatnonzero((estimate.annotations[:, task] > 0) & (beta > 0) & np.isfinite(prices))
    depth = _better_offers(prices[offers], beta[offers])
    items = np.flatnonzero(annotations.item_tasks == task)
    labels = annotations.annotations_per_item[items]
    bound = 0
    while bound <= labels.max(initial=-1):
        # Items with alike numbers of labels share their candidates; the bounds double, so there are few groups.
        upper = max(2 * bound, 1)
        group = items[(labels >= bound) & (labels < upper)]
        candidates = offers[depth < upper - 1 + ASKED]
        if len(candidates):
            size = max(CHUNK // (len(candidates) * estimate.posterior.shape[1]), 1)
            for start in range(0, len(group), size):
                _rank(annotations, estimate, prices, task, group[start : start + size], candidates, taken, chosen)
        bound = upper


def _rank(
    annotations: Annotations,
    estimate: Estimate,
    prices: Floats,
    task: int,
    items: Indices,
    candidates: Indices,
    taken: Indices,
    chosen: _Choice,
) -> None:
    keys = items[:, None] * annotations.n_annotators + candidates
    found = np.minimum(np.searchsorted(taken, keys), max(len(taken) - 1, 0))
    done = taken[found] == keys if len(taken) else np.zeros(keys.shape, dtype=bool)
    beta = np.broadcast_to(estimate.expertise[candidates, task], keys.shape)
    gain = information_gain(estimate.posterior[items], annotations.option_counts[items].astype(np.int64), beta)
    value = np.where(done, -np.inf, gain / prices[candidates])
    # Where nothing is to be gained all offers tie at 0; the better annotator goes first all the same.
    order = np.lexsort((-beta, -value), axis=1)[:, :ASKED]
    rows = np.arange(len(items))[:, None]
    open_ = np.isfinite(value[rows, order])
    width = order.shape[1]
    chosen.annotator[items, :width] = np.where(open_, candidates[order], -1)
    chosen.gain[items, :width] = np.where(open_, gain[rows, order], 0.0)
    chosen.cost[items, :width] = np.where(open_, prices[candidates][order], 1.0)


def _better_offers(prices: Floats, beta: Floats) -> Indices:
    """How many offers are no dearer and no less reliable than each one (ties by position), up to a point. (offers,)

    Counted by inserting offers from the cheapest up into a sorted list of reliabilities.
    """
    from bisect import bisect_left, insort

    order = np.lexsort((np.arange(len(beta)), -beta, prices))
    seen: list[float] = []
    better = np.zeros(len(beta), dtype=np.int64)
    for offer in order.tolist():
        better[offer] = len(seen) - bisect_left(seen, float(beta[offer]))
        insort(seen, float(beta[offer]))
    return better
