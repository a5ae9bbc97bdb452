"""Fitting a channel in closed form to all annotations, each judged by the model and by the others of its item.

What an annotation says of its annotator depends on what its item's true label is, and that is known from the model's P
and from the item's *other* annotations b, whose evidence may count for less than its worth (the exponent tau, see
`realm.crowd.dependence`):

    log c_a(k) = log P(k|Q) + tau sum_{b != a} w_b E[b, k]

The channel is set to the parameters under which every annotation is most probable given c_a (`Channel.update`), and as
E changes with them this is repeated. With one annotation per item c_a is P. With several, annotators are judged by
agreement where the model knows nothing yet.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from realm.channels import Channel, ItemScores, Observed
from realm.crowd.dependence import exponent
from realm.data import Annotations

POOL_STEPS = (1, 2, 4, 8, 16)
"""The iterations after which the pool's priors and the exponent are fitted anew: they move less and less."""
MOST_STEPS = 50
"""Iterations at most: as a rule they come to rest sooner."""
SETTLED = 1e-3
"""A change of every annotator's P(label) by less than this (in evidence) ends the iterations."""
CHUNK_SIZE = 2**24
"""Entries of the annotations' confusion matrices, where a channel forms them, at once: 64 MB of float32."""

MOST_ANNOTATIONS = 20_000
"""Annotations that temperatures and channels are compared on at most: one number needs no more."""

Prior = tuple[npt.ArrayLike, npt.ArrayLike]
Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


class ChannelFit:
    """A channel and all annotations of a table.

    | argument | meaning |
    |---|---|
    | channel | the channel to be set, on the processor |
    | annotations | the annotations that it is fitted to |
    | prior | the Beta prior on expertise, numbers or (annotators * tasks,) each; None for the pool's, fitted |
    | tempered | whether the exponent is fitted; else it stays 1 |
    | together | False judges every annotation by P alone, as the objective `paper` does |
    """

    def __init__(
        self,
        channel: Channel,
        annotations: Annotations,
        prior: Prior | None = None,
        *,
        tempered: bool = True,
        together: bool = True,
    ) -> None:
        self.channel, self.annotations, self.prior = channel, annotations, prior
        self.observed = Observed.of(annotations)
        self.option_counts = torch.from_numpy(annotations.option_counts.astype(np.int64))
        several = annotations.annotations_per_item > 1
        self.together = together and bool(several.any())
        self.tempered = tempered and self.together
        self.exponent = 1.0
        self.several = torch.from_numpy(several)
        self.class_shares = torch.from_numpy(label_shares(annotations))

    # ---------------------------------------------------------------- evidence

    @torch.no_grad()
    def evidence(self) -> Tensor:
        """E of all annotations, 0 beyond an item's own options. (annotations, K)"""
        chunks = []
        width = self.class_shares.shape[1]
        for rows in torch.split(torch.arange(len(self.observed.label)), max(CHUNK_SIZE // width**2, 1)):
            item = self.observed.item[rows]
            counts = self.option_counts[item]
            scores = ItemScores(torch.zeros(len(rows), width), counts)
            part = replace(self.observed.take(rows), item=torch.arange(len(rows)))
            evidence = self.channel.evidence(scores, part).double()
            chunks.append(evidence.masked_fill(torch.arange(width) >= counts[:, None], 0.0))
        return torch.cat(chunks) if chunks else torch.zeros(0, self.class_shares.shape[1], dtype=torch.float64)

    def item_sums(self, evidence: Tensor) -> Tensor:
        """The weighted evidence of each item's annotations. (items, K)"""
        sums = torch.zeros(len(self.option_counts), evidence.shape[1], dtype=torch.float64)
        return sums.index_add_(0, self.observed.item, self.observed.weight.double()[:, None] * evidence)

    def known(self, log_probs: Tensor) -> Tensor:
        """log P where the model has said something (not NaN), else the label shares of the task. (items, K)"""
        unknown = log_probs[:, :1].isnan()
        return torch.where(unknown, self.class_shares, log_probs)

    def log_likelihood(self, log_probs: Tensor) -> float:
        """log of sum_k P(k|Q) exp(sum of the item's evidence), over all items with annotations."""
        sums = self.known(log_probs) + self.item_sums(self.evidence())
        annotated = torch.unique(self.observed.item)
        return float(sums[annotated].logsumexp(dim=1).sum())

    # ---------------------------------------------------------------- the fit

    def update(self, log_probs: Tensor, *, pools: bool = True, together: bool = True) -> Tensor:
        """One iteration, given log P of every item (items, K), NaN where nothing is known; returns E before it.

        An item of which the model has said nothing, and which has one annotation, says nothing. `pools` fits the
        pool's priors and the exponent as well. The exponent must follow P: held at what it was for an early P, it lets
        the model pull annotators, and itself, towards one label. `together=False` leaves the others of the item out
        this once.
        """
        together = together and self.together
        evidence = self.evidence()
        item = self.observed.item
        others = torch.zeros_like(evidence)
        if together:
            others = self.item_sums(evidence)[item] - self.observed.weight.double()[:, None] * evidence
        known = self.known(log_probs)
        if pools and self.tempered and together:
            self.exponent = exponent(self.annotations, known.numpy(), evidence.numpy())
        judged = ~log_probs[item, 0].isnan() | (self.several[item] & together)
        rows = torch.nonzero(judged)[:, 0]
        if not len(rows):
            return evidence
        scores = (known[item[rows]] + self.exponent * others[rows]).log_softmax(dim=1)
        observed = replace(self.observed.take(rows), item=torch.arange(len(rows)))
        item_scores = ItemScores(scores, self.option_counts[item[rows]])
        if pools and self.prior is None:
            self.channel.fit_pool(item_scores, observed)
        self.channel.update(item_scores, observed, self.prior)
        return evidence

    def fit(self, log_probs: Tensor, steps: int = MOST_STEPS) -> None:
        """Iterate until no evidence changes any more.

        The first iteration goes by P alone where P is known (an opinion, gold): where most annotators are wrong,
        agreement would hold everything at the flipped labelling.
        """
        judged_by_p = not bool(log_probs[:, 0].isnan().all())
        for step in range(1, steps + 1):
            before = self.update(log_probs, pools=step in POOL_STEPS, together=step > 1 or not judged_by_p)
            if step > POOL_STEPS[-1] and float((self.evidence() - before).abs().max()) < SETTLED:
                break

    def with_others(self, log_probs: Tensor, annotations: Annotations) -> Tensor:
        """log P of each of these annotations' labels, foretold by P and the annotations fitted to. (annotations,)

        `annotations` are others of the same items, annotators and tasks.
        """
        known = self.known(log_probs) + self.exponent * self.item_sums(self.evidence())
        other = ChannelFit(self.channel, annotations)
        return (known.log_softmax(dim=1)[other.observed.item] + other.evidence()).logsumexp(dim=1)


def sample_items(annotations: Annotations, items: Indices) -> Indices:
    """Of these items as many, drawn at random, as have `MOST_ANNOTATIONS` annotations together. Sorted."""
    most = max(len(items) * MOST_ANNOTATIONS // max(int(annotations.annotations_per_item[items].sum()), 1), 1)
    return np.sort(np.random.default_rng(0).permutation(items)[:most])


def label_shares(annotations: Annotations) -> Floats:
    """log of the share of each label in an item's task, over the item's own options, -inf beyond. (items, K)"""
    width, tasks = int(annotations.option_counts.max(initial=1)), len(annotations.tasks)
    task = annotations.item_tasks[annotations.item].astype(np.int64)
    counts = np.bincount(task * width + annotations.label, minlength=tasks * width).reshape(tasks, width)
    # One label of each kind is added: what nobody has answered yet is not impossible.
    shares = (counts + 1.0)[annotations.item_tasks]
    shares = np.where(np.arange(width) < annotations.option_counts[:, None], shares, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(shares / shares.sum(axis=1, keepdims=True)))
