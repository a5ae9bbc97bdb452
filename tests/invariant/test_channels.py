"""Channels and objectives that are equal on paper follow the same trajectory."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from realm.channels import HabitChannel, ItemScores, Observed, UniformChannel, channel_class
from realm.objectives import OBJECTIVES
from tests.tiny import crowd
from tests.trainers import trainer, trajectory

EVEN = {"options": 4, "learn_habits": False}


def tied(name: str, table):
    """A channel held where it equals `UniformChannel`."""
    size = (table.n_annotators, len(table.tasks))
    return UniformChannel(*size) if name == "uniform" else HabitChannel(*size, **EVEN)


@pytest.mark.parametrize("settings", [{}, {"objective": "joint"}], ids=str)
@pytest.mark.parametrize("kind", ["causal", "bert"])
def test_even_habits_follow_the_uniform_channel(kind, settings, tiny_model, tmp_path) -> None:
    table = crowd(60, per_item=2)
    runs = {
        name: trajectory(
            trainer(tiny_model(kind), table, tmp_path, double=True, channel=tied(name, table), max_steps=10, **settings)
        )
        for name in ("uniform", "habit")
    }
    losses, omegas = runs["uniform"]
    assert np.abs(omegas[-1]).max() > 0.1
    np.testing.assert_allclose(runs["habit"][0], losses, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(runs["habit"][1], omegas, rtol=1e-12, atol=1e-12)


def test_learned_habits_leave_the_uniform_channel(tiny_model, tmp_path) -> None:
    """The test above can fail: with habits free, trajectories part."""
    table = crowd(60, per_item=2)
    runs = [
        trajectory(trainer(tiny_model("bert"), table, tmp_path, channel=channel, max_steps=10))
        for channel in (tied("uniform", table), HabitChannel.from_annotations(table))
    ]
    assert np.abs(runs[1][0] - runs[0][0]).max() > 1e-4


@pytest.mark.parametrize("how", ["uniform", "habit", "closed form"])
def test_with_one_annotation_per_item_the_objectives_are_the_same(how, tiny_model, tmp_path) -> None:
    table = crowd(80, per_item=1)
    runs = []
    for objective in OBJECTIVES:
        own = {"channel": "confusion", "expertise_update": "em"} if how == "closed form" else {"channel": how}
        settings = {"objective": objective, "max_steps": 12, **own}
        runs.append(trajectory(trainer(tiny_model("causal"), table, tmp_path, double=True, **settings)))
    np.testing.assert_allclose(runs[1][0], runs[0][0], rtol=1e-10)
    np.testing.assert_allclose(runs[1][1], runs[0][1], rtol=1e-10, atol=1e-12)


def test_with_several_annotations_the_objectives_differ(tiny_model, tmp_path) -> None:
    table = crowd(40)
    runs = [
        trajectory(trainer(tiny_model("bert"), table, tmp_path, objective=name, max_steps=5)) for name in OBJECTIVES
    ]
    assert np.abs(runs[1][0] - runs[0][0]).max() > 1e-2


@pytest.mark.parametrize("name", ["uniform", "habit", "coin"])
def test_the_joint_gradient_is_posterior_minus_p_by_enumeration(name) -> None:
    """The likelihood of all annotations is summed over every labelling of the items; its gradient in the logits of an
    item is the marginal posterior minus P."""
    generator = torch.Generator().manual_seed(0)
    n_items, k = 4, 3
    more = {} if name == "uniform" else {"options": k}
    channel = channel_class(name)(3, **more).double()
    for parameter in channel.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    logits = torch.randn(n_items, k, generator=generator, dtype=torch.float64, requires_grad=True)
    item = torch.tensor([0, 0, 0, 1, 1, 2, 3, 3])
    observed = Observed(
        item, torch.tensor([0, 1, 2, 0, 2, 1, 1, 2]), torch.zeros(8, dtype=torch.long),
        torch.tensor([0, 2, 1, 1, 1, 0, 2, 2]), torch.tensor([1, 1, 1, 1, 0.5, 1, 2, 1.0], dtype=torch.float64),
    )  # fmt: skip
    log_probs = logits.log_softmax(dim=1)
    evidence = channel(ItemScores(log_probs, torch.full((n_items,), k)), observed)
    value = OBJECTIVES["joint"].log_likelihood(log_probs, evidence, observed).sum()
    (gradient,) = torch.autograd.grad(value, logits)

    p, weighted = log_probs.detach().exp(), (observed.weight[:, None] * evidence).detach().exp()
    total, marginal = 0.0, torch.zeros(n_items, k, dtype=torch.float64)
    for labelling in itertools.product(range(k), repeat=n_items):
        truth = torch.tensor(labelling)
        likelihood = p[torch.arange(n_items), truth].prod() * weighted[torch.arange(8), truth[item]].prod()
        total += float(likelihood)
        marginal[torch.arange(n_items), truth] += likelihood
    assert value.item() == pytest.approx(np.log(total), rel=1e-12)
    torch.testing.assert_close(gradient, marginal / total - p, rtol=1e-9, atol=1e-12)
