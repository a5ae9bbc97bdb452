"""A classifier whose tasks have gained labels: the rows of its head are kept, and new ones are added."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from realm.data import Task
from realm.errors import RealmError
from realm.scorers.classifier import ClassifierScorer
from realm.scorers.loading import label_names

DEVIATION = 0.02
"""Standard deviation of a new row where the model's config has none: what transformers draws new heads with."""


def grow_head(scorer: ClassifierScorer, tasks: tuple[Task, ...]) -> ClassifierScorer:
    """The scorer with a row in its head for every label of `tasks`, which hold those it has and may hold more.

    The rows of labels that it knows stay as they are, wherever they come to stand; new ones start as a new head does.
    """
    backbone = scorer.backbone
    before, now = _rows(scorer.tasks), _rows(tasks)
    if before == now:
        return scorer
    # the last linear layer of so many rows: the one that gives the logits
    found = [
        (name, each)
        for name, each in backbone.named_modules()
        if isinstance(each, nn.Linear) and each.out_features == len(before)
    ]
    if not found or set(before) - set(now):
        raise RealmError(
            f"{type(backbone).__name__}: its head cannot be given rows for new labels: train from scratch."
        )
    name, layer = found[-1]
    grown = nn.Linear(layer.in_features, len(now), bias=layer.bias is not None).to(layer.weight)
    kept = torch.tensor([now.index(row) for row in before])
    with torch.no_grad():
        grown.weight.normal_(0.0, float(getattr(backbone.config, "initializer_range", None) or DEVIATION))
        grown.weight[kept] = layer.weight
        if layer.bias is not None:
            grown.bias.zero_()
            grown.bias[kept] = layer.bias
    parent, _, own = name.rpartition(".")
    setattr(backbone.get_submodule(parent), own, grown)
    for entry, value in label_names(tasks).items():  # transformers counts the labels by them
        setattr(backbone.config, entry, value)
    if hasattr(backbone, "num_labels"):
        backbone.num_labels = len(now)
    return ClassifierScorer(backbone, scorer.tokenizer, scorer.style, tasks)


def _rows(tasks: Sequence[Task]) -> list[tuple[str, str]]:
    """(task, label) of every row of the head."""
    return [(task.name, label) for task in tasks for label in task.labels or ()]
