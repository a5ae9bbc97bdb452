"""The habit channel: the mixture with a guess of the annotator's own."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
import torch

from realm.channels import HabitChannel, ItemScores, Observed, UniformChannel
from realm.channels.habit import POOL_ANNOTATIONS
from realm.data import Annotations


def judges(n: int = 1000, seed: int = 0) -> tuple[Annotations, ItemScores]:
    """Two judges who read (one well, one badly) and one who says "toxic" to nearly everything; P is calibrated."""
    generator = np.random.default_rng(seed)
    truth = generator.integers(2, size=n)
    columns = {
        "careful": np.where(generator.random(n) < 0.95, truth, 1 - truth),
        "hasty": np.where(generator.random(n) < 0.75, truth, 1 - truth),
        "strict": np.where(generator.random(n) < 0.2, truth, generator.random(n) < 0.93),
    }
    rows = [
        (f"text {i}", name, ("fine", "toxic")[int(column[i])]) for i in range(n) for name, column in columns.items()
    ]
    table = Annotations.from_pandas(
        pd.DataFrame(rows, columns=["text", "annotator", "label"]), labels=("fine", "toxic")
    )
    order = [table.annotators.index(name) for name in columns]
    assert order == [0, 1, 2]
    predicted = np.where(generator.random(n) < 0.9, truth, 1 - truth)
    probabilities = np.where(predicted[:, None] == np.arange(2), 0.9, 0.1)
    return table, ItemScores(torch.tensor(probabilities).log(), torch.full((n,), 2))


@torch.no_grad()
def penalised(channel: HabitChannel, scores: ItemScores, observed: Observed, prior: tuple[float, float]) -> float:
    """Log-likelihood of the annotations, log Beta prior on expertise and log Dirichlet prior on habits."""
    terms = (scores.log_probs[observed.item] + channel(scores, observed)).logsumexp(dim=1).sum()
    beta, log_habits = channel.omega.sigmoid(), channel.habit_logits.log_softmax(dim=2)
    terms = terms + ((prior[0] - 1) * beta.log() + (prior[1] - 1) * (-beta).log1p()).sum()
    return float(terms + POOL_ANNOTATIONS * (channel.pool * log_habits).sum())


def test_the_closed_form_update_climbs_to_a_top_and_finds_the_habit() -> None:
    table, scores = judges()
    observed = Observed.of(table)
    channel = HabitChannel.from_annotations(table).double()
    values = [penalised(channel, scores, observed, (1.5, 1.5))]
    for _ in range(60):
        channel.update(scores, observed, (1.5, 1.5))
        values.append(penalised(channel, scores, observed, (1.5, 1.5)))
    assert all(after >= before - 1e-6 for before, after in itertools.pairwise(values))
    assert values[-1] - values[-2] < 1e-3
    for parameter in (channel.omega, channel.habit_logits):  # no step in any direction is higher
        for place in np.ndindex(*parameter.shape):
            for step in (0.05, -0.05):
                with torch.no_grad():
                    parameter[place] += step
                    assert penalised(channel, scores, observed, (1.5, 1.5)) < values[-1] + 1e-3
                    parameter[place] -= step
    beta = channel.expertise()[:, 0]
    assert beta[0] > 0.8 > 0.65 > beta[1] > 0.35 > beta[2]
    assert float(channel.habit_logits.detach().softmax(dim=2)[2, 0, 1]) == pytest.approx(0.93, abs=0.05)


def test_a_uniform_channel_takes_the_strict_judge_for_an_expert_of_the_frequent_label() -> None:
    """What the habit is for: under an even guess, the labels that follow no item still look informed."""
    table, scores = judges()
    skewed = ItemScores(torch.tensor([[0.2, 0.8]]).log().expand(1000, 2).double(), scores.option_counts)
    betas = {}
    for kind in (UniformChannel, HabitChannel):
        channel = kind.from_annotations(table).double()
        for _ in range(30):
            channel.update(skewed, Observed.of(table), (1.5, 1.5))
        betas[kind] = float(channel.expertise()[2, 0])
    assert betas[UniformChannel] > 0.9 and betas[HabitChannel] < 0.6


def test_habits_start_at_the_label_shares_of_the_task() -> None:
    table, _ = judges()
    shares = np.bincount(table.label, minlength=2) + 1.0
    channel = HabitChannel.from_annotations(table)
    np.testing.assert_allclose(channel.habit_logits.softmax(2)[1, 0].detach(), shares / shares.sum(), rtol=1e-5)


def test_items_with_their_own_options_have_habits_over_positions() -> None:
    frame = pd.DataFrame({
        "text": ["a", "a", "b", "b"], "annotator": ["x", "y"] * 2, "label": ["u", "v", "p", "p"],
        "options": [["u", "v"], ["u", "v"], ["p", "q", "r"], ["p", "q", "r"]],
    })  # fmt: skip
    table = Annotations.from_pandas(frame)
    channel = HabitChannel.from_annotations(table)
    assert channel.habit_logits.shape == (2, 1, 3)
    scores = ItemScores(torch.full((2, 3), 1 / 3).log(), torch.from_numpy(table.option_counts.astype(np.int64)))
    habits = channel.log_habits(scores, Observed.of(table)).exp()
    np.testing.assert_allclose(habits.sum(dim=1).detach(), 1.0, rtol=1e-6)
    assert (habits[:2, 2] == 0).all() and (habits[2:] > 0).all()


def test_the_evidence_against_the_formula() -> None:
    channel = HabitChannel(2, options=3, shares=[[0.5, 0.3, 0.2]]).double()
    with torch.no_grad():
        channel.omega[:, 0] = torch.tensor([0.4, -1.0])
        channel.habit_logits[1, 0] = torch.tensor([0.1, 0.7, 0.2]).log()
    scores = ItemScores(torch.full((2, 3), 1 / 3).double().log(), torch.tensor([3, 2]))
    item, annotator, label = torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]), torch.tensor([2, 1, 0])
    observed = Observed(item, annotator, torch.zeros(3, dtype=torch.long), label, torch.ones(3).double())
    evidence = channel(scores, observed).detach().exp()
    one, other = torch.sigmoid(torch.tensor([0.4, -1.0], dtype=torch.float64)).tolist()
    expected = [
        [0.2 * (1 - one), 0.2 * (1 - one), one + 0.2 * (1 - one)],
        [0.7 * (1 - other), other + 0.7 * (1 - other), 0.7 * (1 - other)],
        [other + (1 - other) * 0.1 / 0.8, (1 - other) * 0.1 / 0.8],  # of an item without the third option
    ]
    np.testing.assert_allclose(evidence[:2], expected[:2], rtol=1e-6)
    np.testing.assert_allclose(evidence[2, :2], expected[2], rtol=1e-6)
