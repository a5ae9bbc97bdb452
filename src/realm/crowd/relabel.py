"""What to have labelled again and by whom, and the items on which model and reliable annotators contradict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from realm.crowd.coin import bits
from realm.crowd.estimate import Estimate
from realm.crowd.evidence import Indices, check_log_probs, posterior
from realm.crowd.relabel_offers import SUGGESTIONS, Offers, read_prices
from realm.crowd.tables import VERDICTS, OptionNames, item_columns, label_counts_in_words, verdicts
from realm.data import Annotations
from realm.data.annotations import UNKNOWN
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

CONFIDENT = 0.8
"""Model and annotators contradict each other where each gives this much to a different option: four to one."""


def relabel_queue(
    annotations: Annotations,
    log_probs: npt.ArrayLike,
    estimate: Estimate,
    budget: float,
    costs: Mapping[str, float] | None = None,
    most_each: int | None = None,
) -> pd.DataFrame:
    """The items worth another annotation, in the order in which to ask, until the budget is spent.

    `costs` gives the price of one annotation by annotator; without it each costs 1, so that `budget` counts
    annotations. Annotators that `costs` does not name are not asked. Each item is listed once: gather the answers, run
    again, and ask anew. Named are annotators seen in the item's task, better than chance, who have not labelled it.
    Nobody is asked for more than `most_each`; without it those who are about as good share the work
    (`realm.crowd.relabel_offers`), in rounds: then the first rows are those of a smaller budget.

    Columns: item, task, text, context (where there is any), label (the most probable one), confidence, model (the
    model's own favourite), labels_given, annotations, gain_bits (what the answer is expected to tell), gain_labels (how
    much more probably the label is right after it), gain_per_cost (bits per unit of cost), ask (whom), ask_accuracy,
    cost, or_else (others worth asking).
    """
    import pandas as pd

    if not budget > 0:
        raise RealmError(f"`budget` must be more than 0, not {budget}.")
    if most_each is not None and most_each < 1:
        raise RealmError(f"`most_each={most_each}`: must be 1 or more.")
    offers = Offers(annotations, estimate, read_prices(annotations, costs))
    requests = offers.requests(budget, most_each)
    items, asked = requests.items, requests.annotators
    names = np.array([*annotations.annotators, ""], dtype=object)
    ranked = offers.rank(items, offers.prices <= budget).annotators
    others = [
        ", ".join([names[each] for each in row if each not in (UNKNOWN, who)][: SUGGESTIONS - 1])
        for row, who in zip(ranked, asked, strict=True)
    ]
    return pd.DataFrame(
        {
            **_item_summary(annotations, log_probs, estimate, items),
            "gain_bits": requests.gains,
            "gain_labels": offers.corrections(requests),
            "gain_per_cost": requests.gains / requests.costs,
            "ask": names[asked],
            "ask_accuracy": estimate.accuracy[asked, annotations.item_tasks[items]],
            "cost": requests.costs,
            "or_else": others,
        }
    )


@dataclass(frozen=True)
class QueueSummary:
    """What a queue is expected to buy, against what is there now.

    | field | meaning |
    |---|---|
    | annotations, cost | how many annotations it asks for, and what they cost together |
    | bits, bits_now | doubt about the labels that it is expected to remove, and all there is (entropy) |
    | labels, wrong_now | labels expected to be put right (less those put wrong), and to be wrong now |
    | workload | DataFrame: annotator, annotations, cost, gain_bits, gain_labels; who is asked most comes first |
    """

    annotations: int
    cost: float
    bits: float
    bits_now: float
    labels: float
    wrong_now: float
    workload: pd.DataFrame


def summarise_queue(queue: pd.DataFrame, estimate: Estimate) -> QueueSummary:
    """What the queue that `relabel_queue` made of this estimate is expected to buy.

    Expectations are those of the estimate: they hold as far as its confidences do.
    """
    columns = ["cost", "gain_bits", "gain_labels"]
    workload = queue.groupby("ask", sort=False)[columns].sum()
    workload.insert(0, "annotations", queue["ask"].value_counts())
    workload = workload.rename_axis("annotator").reset_index()
    return QueueSummary(
        annotations=len(queue),
        cost=float(queue["cost"].sum()),
        bits=float(queue["gain_bits"].sum()),
        bits_now=float(bits(estimate.posterior).sum()),
        labels=float(queue["gain_labels"].sum()),
        wrong_now=float((1 - estimate.posterior.max(axis=1, initial=0.0)).sum()),
        workload=workload.sort_values("annotations", ascending=False, kind="stable", ignore_index=True),
    )


def contradictions(annotations: Annotations, log_probs: npt.ArrayLike, estimate: Estimate) -> pd.DataFrame:
    """Items on which the model is sure of one option and the reliable annotators together of another.

    Both give 0.8 or more. The annotators' side is the posterior without the model, over the labels of those whose
    verdict is reliable. Read the item: the model may be wrong, or the annotators may have made the same mistake; one
    more label tells little about which. With in-sample probabilities the model may have memorised the labels, and
    fewer items are found.

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
