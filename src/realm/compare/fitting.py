"""Training one cell: quietly, scored by held-out annotations where settings are chosen, ranked against gold.

What `realm compare` and the grids of `realm lab` share.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from realm.channels import Channel, ItemScores, Observed
from realm.compare.simulation import realised_accuracies
from realm.data import Annotations
from realm.errors import RealmError
from realm.scorers.scoring import score
from realm.training import RealmConfig, RealmTrainer
from realm.training.labels import training_labels

AGGREGATED = ("majority", "dawid-skene")
"""Methods that need an item with two annotations."""
HELD_OUT = 0.1
ENOUGH = 10
"""Annotations of items with gold that an annotator needs to be ranked."""


def quiet_trainer(
    model: str,
    table: Annotations,
    config: RealmConfig,
    test: Annotations | None = None,
    channel: Channel | None = None,
) -> RealmTrainer:
    """A trainer that leaves the screen to the caller."""
    from transformers.trainer_callback import PrinterCallback

    trainer = RealmTrainer(model, table, config, test=test, channel=channel)
    trainer.remove_callback(PrinterCallback)
    return trainer


# -------------------------------------------------------------------- choosing settings


def held_out_split(table: Annotations) -> tuple[Annotations, Annotations]:
    """The items a trial trains on, and those whose annotations score it."""
    return table.split(HELD_OUT, seed=0)


def trial_score(trainer: RealmTrainer, table: Annotations, held_out: Annotations) -> float:
    """How well a trained trial explains what its method takes for labels, on the held-out items of the table."""
    labels = training_labels(table, trainer.args.method).annotations
    return held_out_likelihood(trainer, held_out, _labels_of(labels, held_out, table))


def held_out_likelihood(trainer: RealmTrainer, held_out: Annotations, labels: Annotations) -> float:
    """Mean log-likelihood of the annotations of items that were not trained on, under model and channel."""
    import torch

    if not labels.n_annotations:
        raise RealmError("settings cannot be chosen: the held-out items have no labels. Leave the choosing out.")
    scores = score(trainer.scorer, trainer.scorer.encode(held_out.items))
    with torch.no_grad():
        channel = trainer.model.channel.eval().cpu()
        observed = Observed.of(labels)
        log_probs = torch.from_numpy(scores.log_probs).float()
        counts = torch.from_numpy(held_out.option_counts.astype(np.int64))
        evidence = channel(ItemScores(log_probs, counts), observed)
        likelihood = (log_probs[observed.item] + evidence).logsumexp(dim=1)
    return float(likelihood.mean())


def _labels_of(labels: Annotations, held_out: Annotations, table: Annotations) -> Annotations:
    """What a method takes for labels, restricted to the held-out items (aggregated over the whole table)."""
    place = {item: index for index, item in enumerate(zip(table.item_ids.to_pylist(), table.item_tasks, strict=True))}
    wanted = [place[item] for item in zip(held_out.item_ids.to_pylist(), held_out.item_tasks, strict=True)]
    return labels.take_items(np.array(wanted, dtype=np.int64))


# -------------------------------------------------------------------- ranking annotators


def rank_correlation(truth: npt.ArrayLike, learned: npt.ArrayLike) -> tuple[float, float] | tuple[None, None]:
    """Spearman's correlation of learned expertise with the truth, and the most it can be where the truth has ties.

    Both of shape (annotators,). None where there are fewer than three, or either is all the same.

    Example:
        >>> rank_correlation([0.9, 0.1, 0.1], [0.8, 0.3, 0.2])[1].__round__(3)
        0.866
    """
    from scipy.stats import spearmanr

    truth, learned = np.asarray(truth, dtype=np.float64), np.asarray(learned, dtype=np.float64)
    if len(truth) < 3 or np.ptp(truth) == 0 or np.ptp(learned) == 0:
        return None, None
    best = np.empty(len(truth))
    best[np.argsort(truth, kind="stable")] = np.arange(len(truth))
    return float(spearmanr(truth, learned).statistic), float(spearmanr(truth, best).statistic)


def spearman_with_gold(
    table: Annotations, beta: npt.NDArray[np.floating[Any]]
) -> tuple[float, float] | tuple[None, None]:
    """`rank_correlation` of expertise (annotators, tasks) with agreement with gold, over entries with enough of it."""
    enough = gold_counts(table) >= ENOUGH
    return rank_correlation(realised_accuracies(table)[enough], np.broadcast_to(beta, enough.shape)[enough])


def gold_counts(table: Annotations) -> npt.NDArray[np.int64]:
    """Annotations of items with gold, (annotators, tasks)."""
    assert table.gold is not None
    known = table.gold[table.item] != -1
    tasks = len(table.tasks)
    cell = table.annotator[known].astype(np.int64) * tasks + table.item_tasks[table.item[known]]
    return np.bincount(cell, minlength=table.n_annotators * tasks).reshape(table.n_annotators, tasks)
