"""The model's opinion: what it says of the training items before it has been trained on them.

A language model that was told what to do agrees with good annotators more than with bad ones before its first step. Its
label bias is taken off (the mean log-probability of each option over a task's items, where the label set is fixed). It
is used where it agrees with at least one annotator more often than two strangers of the same label shares would.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.stats import binom

from realm.crowd.engine import log_softmax
from realm.crowd.model import AnnotatorModel
from realm.data import Annotations

LEVEL = 0.001
"""How improbable the agreement must be by chance, over all annotators together: a false opinion costs much."""

Floats = npt.NDArray[np.float64]


def opinion(annotations: Annotations, log_probs: Floats, kind: str | None = None) -> tuple[Floats | None, str]:
    """The opinion behind log P (items, K) of the untrained model, None where it is not used, and a line for the user.

    It is brought to the temperature that the annotations bear out; `kind` is that of the annotators. The model's own
    answers, not agreement, lead the fit by which that is found: where most annotators are wrong, agreement would call a
    right model worthless.
    """
    plain = without_label_bias(annotations, log_probs)
    agreeing, annotators = agreement(annotations, plain.argmax(axis=1))
    used = "; expertise starts from that." if agreeing else ", so expertise does not start from that."
    who = f"{agreeing:,} of {annotators:,} annotators better than chance"
    sentence = f"opinion: before training the model agrees with {who}{used}"
    if not agreeing:
        return None, sentence
    shares = label_shares(annotations)  # in place of the model's bias
    model = AnnotatorModel(annotations, gold=annotations.gold, kind=kind, find_copies=False)
    temperature = model.fit(log_softmax(plain + shares)).best_temperature(plain)
    return log_softmax(plain / temperature + shares), sentence


def without_label_bias(annotations: Annotations, log_probs: Floats) -> Floats:
    """log P less the mean of each option over the items of its task, where the task has one label set. (items, K)"""
    plain = np.asarray(log_probs, np.float64)[:, : int(annotations.option_counts.max(initial=1))].copy()
    for index, task in enumerate(annotations.tasks):
        items = np.flatnonzero(annotations.item_tasks == index)
        if task.labels is not None and len(items):
            plain[items, : len(task.labels)] -= plain[items, : len(task.labels)].mean(axis=0)
    return plain


def label_shares(annotations: Annotations) -> Floats:
    """log of the share of each label in an item's task, over the item's own options, -inf beyond. (items, K)"""
    width, tasks = int(annotations.option_counts.max(initial=1)), len(annotations.tasks)
    counts = np.ones((tasks, width))  # what nobody has answered yet is not impossible
    np.add.at(counts, (annotations.item_tasks[annotations.item], annotations.label), 1)
    inside = np.arange(width) < annotations.option_counts[:, None]
    shares = np.where(inside, counts[annotations.item_tasks], 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(shares / shares.sum(axis=1, keepdims=True)))


def agreement(annotations: Annotations, answers: npt.NDArray[np.integer]) -> tuple[int, int]:
    """How many annotators give the model's answers (items,) beyond chance, of how many that have labels.

    Chance is that of two who answer independently, each with their own label shares; the level is divided by the number
    of annotators, so that guesses agree with nobody in all but one run of a thousand.
    """
    who, own, theirs = annotations.annotator, annotations.label, answers[annotations.item]
    given, answered = np.zeros((2, annotations.n_annotators, int(annotations.option_counts.max(initial=1))))
    np.add.at(given, (who, own), 1)
    np.add.at(answered, (who, theirs), 1)
    count = given.sum(axis=1)
    chance = (given * answered).sum(axis=1) / np.maximum(count, 1) ** 2
    same = np.bincount(who, own == theirs, minlength=annotations.n_annotators)
    labelled = int((count > 0).sum())
    beyond = binom.sf(same - 1, count, chance) < LEVEL / max(labelled, 1)
    return int((beyond & (count > 0)).sum()), labelled
