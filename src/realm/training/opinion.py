"""The model's opinion: what it says of the training items before it has been trained on them, and what that is worth.

A language model that was told what to do agrees with good annotators more than with bad ones before its first step.
Its label bias is taken off (the mean log-probability of each option over a task's items, where the label set is fixed),
and one temperature is fitted together with the channel: the one under which the annotations are most probable. Where no
temperature makes them significantly more probable than the label shares alone, the model has no opinion: a new
classification head, for one. The likelihood ratio does not decide alone: with one annotation per item a channel of many
parameters finds something in any P, so P must also foretell the labels better than if it belonged to other items.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy.stats import chi2, gamma, norm
from torch import Tensor

from realm.channels import Channel
from realm.crowd.evidence import log_softmax_rows
from realm.crowd.priors import with_gold
from realm.data import Annotations
from realm.training.channel_fit import ChannelFit, Prior, label_shares, sample_items

TEMPERATURES = (0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0)
"""What is tried: at 20 a probability of 0.999 at K=2 is 0.59, next to nothing; below a half favourites are certain."""
LEVEL = 0.001
"""How improbable a likelihood ratio must be for the model to have an opinion: the price of a false one is high."""
STEPS = 20
"""Iterations of the channel's fit at each temperature: enough to compare them."""
PERMUTATIONS = 200
"""Ways of dealing P out among the items: enough for a mean and a spread, from which small probabilities follow."""
AGREEMENT_LEVEL = 0.05
"""The usual level at which agreement with an annotator is better than chance."""

TINY = 1e-12
"""Stands for 0 in denominators."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Opinion:
    """What the model knows beforehand.

    | field | meaning |
    |---|---|
    | log_probs | (items, K) log P at the temperature that fits, the label shares in place of its bias |
    | temperature | that temperature |
    | statistic | twice the log-likelihood ratio against the label shares alone |
    | p_value | how often P would agree or disagree with the annotators as much if it belonged to other items |
    | agreeing, annotators | how many annotators it agrees with better than chance, of how many |
    """

    log_probs: Tensor
    temperature: float
    statistic: float
    p_value: float
    agreeing: int
    annotators: int

    @property
    def significant(self) -> bool:
        """Whether the model has an opinion at all."""
        return self.statistic > float(chi2.isf(LEVEL, 1)) and self.p_value < LEVEL

    @property
    def sentence(self) -> str:
        """One line for the user."""
        who = f"{self.agreeing:,} of {self.annotators:,} annotators better than chance"
        if self.significant:
            return f"opinion: before training the model agrees with {who}; expertise starts from that."
        return f"opinion: not used (before training the model agrees with {who}, which may be chance)."


def find_opinion(channel: Channel, annotations: Annotations, log_probs: Floats, prior: Prior | None = None) -> Opinion:
    """The opinion behind log P (items, K) of the untrained model. `channel`, as it would start, is left as it is."""
    plain = without_label_bias(annotations, log_probs)
    fits: list[tuple[float, float]] = []
    rows = sample_items(annotations, np.flatnonzero(annotations.annotations_per_item > 0))
    part = annotations.take_items(rows)
    width = int(part.option_counts.max(initial=1))
    shares = torch.from_numpy(label_shares(part))
    baseline = _log_likelihood(channel, part, shares, prior)
    # With one annotation per item how sharp P is cannot be told from how good annotators are: P is not sharpened then.
    sharpest = TEMPERATURES[0] if (part.annotations_per_item > 1).any() else 1.0
    for temperature in (each for each in TEMPERATURES if each >= sharpest):
        at_temperature = (torch.from_numpy(plain[rows, :width] / temperature) + shares).log_softmax(dim=1)
        fits.append((_log_likelihood(channel, part, at_temperature, prior), temperature))
    best, temperature = max(fits)
    agreeing, judged = _agreement(annotations, plain.argmax(axis=1))
    tempered = (torch.from_numpy(plain / temperature) + torch.from_numpy(label_shares(annotations))).log_softmax(dim=1)
    p_value = _p_value(part, np.exp(log_softmax_rows(plain[rows, :width])))
    return Opinion(tempered, temperature, 2 * (best - baseline), p_value, agreeing, judged)


def known_beforehand(annotations: Annotations, opinion: Opinion | None) -> Tensor:
    """log P of every item before the first step: gold in use, else the opinion, NaN without either. (items, K)"""
    shape = (annotations.n_items, int(annotations.option_counts.max(initial=1)))
    beliefs = torch.full(shape, float("nan"), dtype=torch.float64)
    if opinion is not None and opinion.significant:
        beliefs = opinion.log_probs.clone()
    return torch.from_numpy(with_gold(annotations, beliefs.numpy(), annotations.gold))


def without_label_bias(annotations: Annotations, log_probs: Floats) -> Floats:
    """log P less the mean of each option over the items of its task, where the task has one label set. (items, K)"""
    plain = np.asarray(log_probs, np.float64)[:, : int(annotations.option_counts.max(initial=1))].copy()
    for index, task in enumerate(annotations.tasks):
        items = np.flatnonzero(annotations.item_tasks == index)
        if task.labels is not None and len(items):
            plain[items, : len(task.labels)] -= plain[items, : len(task.labels)].mean(axis=0)
    return plain


def _log_likelihood(channel: Channel, annotations: Annotations, log_probs: Tensor, prior: Prior | None) -> float:
    fit = ChannelFit(copy.deepcopy(channel), annotations, prior, tempered=False)
    fit.fit(log_probs, STEPS)
    return fit.log_likelihood(log_probs)


def _p_value(annotations: Annotations, probs: Floats) -> float:
    """How improbable the annotators' agreement with P (items, K) is, or that of some and others' disagreement.

    P is dealt out anew among items of the same task and number of options. Both the sum of P(label) over all
    annotations and the sum of its squares over annotators are looked at: the first shows what many who are a little
    better than chance have in common, the second those who are below it.
    """
    group = annotations.item_tasks.astype(np.int64) * (probs.shape[1] + 1) + annotations.option_counts
    gain = probs.copy()
    for each in np.unique(group):
        gain[group == each] -= gain[group == each].mean(axis=0)
    pair = annotations.annotator.astype(np.int64) * len(annotations.tasks) + annotations.item_tasks[annotations.item]
    _, pair = np.unique(pair, return_inverse=True)
    weight = np.ones(len(pair)) if annotations.weight is None else annotations.weight
    counts = np.bincount(pair, weight)
    by_group = np.argsort(group, kind="stable")
    rng = np.random.default_rng(0)
    sums = []
    for permutation in range(PERMUTATIONS + 1):
        source = np.arange(annotations.n_items)
        if permutation:
            shuffled = rng.permutation(annotations.n_items)
            source[by_group] = shuffled[np.argsort(group[shuffled], kind="stable")]
        own = np.bincount(pair, weight * gain[source[annotations.item], annotations.label], minlength=len(counts))
        sums.append((own.sum(), (own**2 / np.maximum(counts, TINY)).sum()))
    (total, squares), others = sums[0], np.array(sums[1:])
    means, spreads = others.mean(axis=0), np.maximum(others.std(axis=0), TINY)
    shape = max(means[1], TINY) ** 2 / spreads[1] ** 2
    p_values = norm.sf((total - means[0]) / spreads[0]), gamma.sf(squares, shape, scale=max(means[1], TINY) / shape)
    return float(min(2 * min(p_values), 1.0))


def _agreement(annotations: Annotations, answers: npt.NDArray[np.int64]) -> tuple[int, int]:
    """How many annotators give the model's answer more often than if the two had nothing to do with each other."""
    width = int(annotations.option_counts.max(initial=1))
    theirs = np.zeros((annotations.n_annotators, width))
    np.add.at(theirs, (annotations.annotator, annotations.label), 1.0)
    models = np.zeros_like(theirs)
    np.add.at(models, (annotations.annotator, answers[annotations.item]), 1.0)
    counts = theirs.sum(axis=1)
    judged = counts > 0
    same = np.bincount(
        annotations.annotator, annotations.label == answers[annotations.item], minlength=annotations.n_annotators
    )
    chance = (theirs * models).sum(axis=1) / np.maximum(counts, 1) ** 2
    spread = np.sqrt(np.maximum(chance * (1 - chance) * counts, 1e-12))
    better = (same - chance * counts) / spread > norm.isf(AGREEMENT_LEVEL)
    return int((better & judged).sum()), int(judged.sum())
