"""What labels and reliability rest on: the model's P where it may be believed, else what annotators say alone.

A model that was trained on an item's annotations repeats them, and must not count as one more witness. So an item with
several annotations is judged by the model only out of fold; without folds it rests on agreement. An item with one
annotation has nothing but the model's P beside it, in-sample if need be. Where a guard (`realm.training.guards`) speaks
against the model, it has no say in its task at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from realm.crowd.evidence import Floats
from realm.runs.folder import probabilities_in_words
from realm.training.guards import model_findings

if TYPE_CHECKING:
    from realm.crowd.estimate import Estimate
    from realm.training.trainer import RealmTrainer


NOT_USED = "the model is therefore not used"
"""How the finding begins that says what follows from the others."""


@dataclass(frozen=True, eq=False)
class Basis:
    """What an estimate rests on.

    | field | shape | meaning |
    |---|---|---|
    | log_probs | (items, Kmax) | the prior of each item: the model's log P, or even over its options |
    | agreement | | the estimate without the model; None where no item has two annotations |
    | model_heard | (items,) | whose prior is the model's |
    | findings | | what speaks against the model, in sentences, and what follows |
    | probabilities | | what the estimate rests on, in words |
    """

    log_probs: Floats
    agreement: Estimate | None
    model_heard: npt.NDArray[np.bool_]
    findings: list[str]
    probabilities: str


def find_basis(trainer: RealmTrainer) -> Basis:
    """The basis of a trained model's estimate."""
    table, log_probs = trainer.annotations, trainer.scores().log_probs
    several = table.annotations_per_item > 1
    even = even_log_probs(table.option_counts, log_probs.shape[1])
    agreement = trainer.agreement()
    trained = None if trainer.channel is None else trainer.channel.summary().get("expertise_trained")
    found = model_findings(table, log_probs, agreement, trained, trainer.fold_of_item)
    set_aside = np.isin(table.item_tasks, [finding.task for finding in found])
    heard = ~set_aside & (~several | (trainer.folds > 0))
    labelled = table.annotations_per_item > 0
    words = probabilities_in_words(
        trainer.folds,
        by_model=bool((heard & labelled).any()),
        by_agreement=bool((~heard & several).any()),
        by_label=bool((~heard & labelled & ~several).any()),
    )
    findings = [finding.sentence for finding in found]
    if found:
        where = "" if set_aside.all() else " there"
        rest = "agreement alone" if (several & set_aside).any() else "the labels alone"
        findings.append(f"{NOT_USED}{where}: labels and reliability are estimated from {rest}.")
    return Basis(np.where(heard[:, None], log_probs, even), agreement, heard, findings, words)


def even_log_probs(option_counts: npt.NDArray[np.integer], width: int) -> Floats:
    """log of an even P over each item's options, -inf beyond. (items, width)"""
    return np.where(np.arange(width) < option_counts[:, None], -np.log(np.maximum(option_counts, 1))[:, None], -np.inf)
