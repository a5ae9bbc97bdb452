"""The channels of published methods: the crowd layer and confusion matrices of small trace."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from realm import ItemScores, Observed, RealmTrainer
from realm.objectives import OBJECTIVES
from realm_lab.channels import CrowdLayerChannel, TraceConfusionChannel
from realm_lab.channels.trace_confusion import TRACE_WEIGHT
from tests.tiny import crowd
from tests.trainers import config


def drawn(k: int = 3, n: int = 6, seed: int = 0) -> tuple[ItemScores, Observed]:
    generator = torch.Generator().manual_seed(seed)
    log_probs = torch.randn(n, k, generator=generator, dtype=torch.float64).log_softmax(1)
    item = torch.arange(n).repeat(2)
    label = torch.randint(k, (2 * n,), generator=generator)
    annotator = torch.arange(2).repeat_interleave(n)
    observed = Observed(item, annotator, torch.zeros_like(item), label, torch.ones(2 * n).double())
    return ItemScores(log_probs, torch.full((n,), k)), observed


def likelihood(channel, scores: ItemScores, observed: Observed) -> np.ndarray:
    terms = OBJECTIVES["paper"].log_likelihood(scores.log_probs, channel(scores, observed), observed)
    return terms.exp().detach().numpy()


def test_the_crowd_layer_is_a_softmax_of_the_matrix_times_p() -> None:
    scores, observed = drawn()
    channel = CrowdLayerChannel(2, options=3).double()
    p = scores.log_probs.exp().numpy()
    answers = np.exp(p) / np.exp(p).sum(axis=1, keepdims=True)  # at the identity
    expected = answers[observed.item, observed.label]
    np.testing.assert_allclose(likelihood(channel, scores, observed), expected, rtol=1e-12)

    with torch.no_grad():
        channel.matrices += torch.randn(channel.matrices.shape, generator=torch.Generator().manual_seed(1)).double()
    matrices = channel.matrices.detach().numpy()[:, 0]
    activations = np.einsum("akl,il->aik", matrices, p)
    answers = np.exp(activations) / np.exp(activations).sum(axis=2, keepdims=True)
    expected = answers[observed.annotator, observed.item, observed.label]
    np.testing.assert_allclose(likelihood(channel, scores, observed), expected, rtol=1e-12)
    evidence = channel(scores, observed)
    assert (evidence == evidence[:, :1]).all(), "not a mixture: the same for every option"


def test_the_trace_matrices_start_near_the_identity_and_mix_over_the_truth() -> None:
    scores, observed = drawn()
    channel = TraceConfusionChannel(2, options=3).double()
    softplus = np.log1p(np.exp([1.0, -5.0]))
    diagonal = softplus[0] / (softplus[0] + 2 * softplus[1])
    assert diagonal > 0.98
    matrix = np.full((3, 3), (1 - diagonal) / 2) + (diagonal - (1 - diagonal) / 2) * np.eye(3)
    expected = (scores.log_probs.exp().numpy() @ matrix)[observed.item, observed.label]
    np.testing.assert_allclose(likelihood(channel, scores, observed), expected, rtol=1e-9)
    np.testing.assert_allclose(channel.summary()["accuracy_trained"], diagonal)
    np.testing.assert_allclose(channel.log_prior(observed).detach(), -TRACE_WEIGHT * 3 * diagonal)


def test_the_trace_falls_where_nothing_speaks_against_it() -> None:
    """Without a likelihood the penalty alone moves the matrices: downhill along its gradient the trace shrinks."""
    _, observed = drawn()
    channel = TraceConfusionChannel(2, options=3).double()
    before = channel.log_prior(observed).sum()
    before.backward()
    with torch.no_grad():
        channel.weights += 10 * channel.weights.grad
    assert channel.log_prior(observed).sum() > before


@pytest.mark.parametrize("kind", [CrowdLayerChannel, TraceConfusionChannel])
def test_gradients_are_those_of_finite_differences(kind) -> None:
    scores, observed = drawn()
    channel = kind(2, options=3).double()
    ((name, parameter),) = channel.named_parameters()

    def terms(values: torch.Tensor, log_probs: torch.Tensor) -> torch.Tensor:
        items = ItemScores(log_probs, scores.option_counts)
        evidence = torch.func.functional_call(channel, {name: values}, (items, observed))
        return OBJECTIVES["paper"].log_likelihood(log_probs, evidence, observed)

    start = parameter.detach() + 0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2)).double()
    assert torch.autograd.gradcheck(terms, (start.requires_grad_(), scores.log_probs.clone().requires_grad_()))


@pytest.mark.parametrize("kind", [CrowdLayerChannel, TraceConfusionChannel])
def test_training_the_matrices_finds_who_is_wrong(kind) -> None:
    """One annotator always says what P says, one always the next option; by gradient alone their order comes out."""
    k, n = 3, 30
    truth = torch.arange(n) % k
    scores = ItemScores(torch.where(truth[:, None] == torch.arange(k), 0.9, 0.05).double().log(), torch.full((n,), k))
    item = torch.arange(n).repeat(2)
    label = torch.cat([truth, (truth + 1) % k])
    annotator = torch.arange(2).repeat_interleave(n)
    observed = Observed(item, annotator, torch.zeros_like(item), label, torch.ones(2 * n).double())
    channel = kind(2, options=k).double()
    optimizer = torch.optim.Adam(channel.parameters(), lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        terms = OBJECTIVES["paper"].log_likelihood(scores.log_probs, channel(scores, observed), observed)
        (-terms.mean()).backward()
        optimizer.step()
    careful, wrong = channel.summary()["expertise_trained"][:, 0]
    assert careful > 0.5 > 0.0 > wrong


@pytest.mark.parametrize("kind", [CrowdLayerChannel, TraceConfusionChannel])
def test_the_shares_of_the_log_prior_add_up_however_the_table_is_cut(kind) -> None:
    table = crowd(12, (0.9, 0.5, 0.3))
    channel = kind.from_annotations(table)
    whole = channel.log_prior(Observed.of(table))
    halves = np.array_split(np.arange(table.n_annotations), 2)
    parts = [channel.log_prior(Observed.of(table, half)) for half in halves]
    assert (whole is None) == (kind is CrowdLayerChannel)
    assert whole is None or torch.allclose(whole.sum(), torch.cat(parts).sum())


@pytest.mark.parametrize("kind", [CrowdLayerChannel, TraceConfusionChannel])
def test_the_trainer_trains_it_by_gradient(kind, tiny_model, tmp_path) -> None:
    table = crowd(40, (0.9, 0.6, 0.3))
    settings = config(tmp_path, max_steps=4, objective="paper", expertise_update="gradient")
    channel = kind.from_annotations(table)
    trainer = RealmTrainer(tiny_model("bert"), table, settings, channel=channel)
    before = {name: value.clone() for name, value in channel.state_dict().items()}
    trainer.train()
    assert any(not torch.equal(value, before[name]) for name, value in channel.named_parameters())
    assert len(trainer.expertise()) == 3
