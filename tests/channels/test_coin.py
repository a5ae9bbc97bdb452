"""The coin channel: one signed number per annotator, and the anchor that it needs where there are two options."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from realm.channels import CoinChannel, ItemScores, Observed, UniformChannel
from realm.errors import RealmError
from tests.tiny import crowd
from tests.trainers import trainer


def at(accuracy: float, k: int) -> CoinChannel:
    """A coin of one annotator with this accuracy."""
    channel = CoinChannel(1, options=k).double()
    channel.start_from(torch.tensor([[(accuracy * k - 1) / (k - 1)]], dtype=torch.float64))
    return channel


def drawn(n: int, k: int, accuracies: tuple[float, ...], seed: int = 0) -> tuple[ItemScores, Observed, np.ndarray]:
    """Items of which P is right nine times in ten and calibrated, and annotators of these accuracies."""
    generator = np.random.default_rng(seed)
    truth = generator.integers(k, size=n)
    wrong = (truth + generator.integers(1, k, size=(len(accuracies), n))) % k
    labels = np.where(generator.random((len(accuracies), n)) < np.array(accuracies)[:, None], truth, wrong)
    predicted = np.where(generator.random(n) < 0.9, truth, (truth + 1) % k)
    probabilities = np.where(predicted[:, None] == np.arange(k), 0.9, 0.1 / (k - 1))
    item = torch.arange(n).repeat(len(accuracies))
    annotator = torch.arange(len(accuracies)).repeat_interleave(n)
    observed = Observed(item, annotator, torch.zeros_like(item), torch.from_numpy(labels.reshape(-1)),
                        torch.ones(len(item)).double())  # fmt: skip
    return ItemScores(torch.tensor(probabilities).log(), torch.full((n,), k)), observed, labels == truth


@settings(max_examples=50, deadline=None)
@given(k=st.integers(2, 9), expertise=st.floats(0.01, 0.99), label=st.integers(0, 8))
def test_above_chance_it_is_the_uniform_channel(k: int, expertise: float, label: int) -> None:
    """beta = (a K - 1) / (K - 1) of the same expertise gives the same evidence."""
    accuracy = expertise + (1 - expertise) / k
    uniform = UniformChannel(1).double()
    uniform.start_from(torch.tensor([[expertise]], dtype=torch.float64))
    scores = ItemScores(torch.zeros(1, k).double().log_softmax(1), torch.tensor([k]))
    zero = torch.tensor([0])
    observed = Observed(zero, zero, zero, torch.tensor([label % k]), torch.ones(1).double())
    coin = at(accuracy, k)
    torch.testing.assert_close(coin(scores, observed), uniform(scores, observed), rtol=1e-9, atol=1e-12)
    summary = coin.summary()
    assert summary["accuracy_trained"].item() == pytest.approx(accuracy)
    assert summary["expertise_trained"].item() == pytest.approx(uniform.summary()["expertise_trained"].item())


def test_below_chance_a_label_counts_against_itself_and_expertise_is_negative() -> None:
    zero = torch.tensor([0])
    scores = ItemScores(torch.tensor([[0.5, 0.5]]).double().log(), torch.tensor([2]))
    coin = at(0.1, 2)
    evidence = coin(scores, Observed(zero, zero, zero, zero, torch.ones(1))).exp()
    np.testing.assert_allclose(evidence.detach(), [[0.1, 0.9]])
    assert coin.summary()["expertise_trained"].item() == pytest.approx(-0.8)


def test_chance_is_of_the_tasks_own_items() -> None:
    table = crowd(20, tasks=2)
    channel = CoinChannel.from_annotations(table)
    np.testing.assert_allclose(channel.chance, [0.25, 0.25])
    one = CoinChannel(2, 2, options=4, chance=[0.5, 0.25], shared_tasks=True)
    assert one.summary()["expertise_trained"].shape == (2, 2)
    assert one.chance.tolist() == [0.375]


@pytest.mark.parametrize("anchor", ["use_gold", "experts", "prior"])
def test_with_two_options_something_must_say_which_labelling_is_true(anchor, tiny_model, tmp_path) -> None:
    table = crowd(20, labels=2)
    with pytest.raises(RealmError, match=r"swapping the labels explains.*`use_gold`, `experts` or `prior`"):
        trainer(tiny_model("bert"), table, tmp_path, channel=CoinChannel.from_annotations(table)).train()
    if anchor == "prior":
        frame = trainer(tiny_model("bert"), table, tmp_path, max_steps=1).expertise()
        trainer(tiny_model("bert"), table, tmp_path, channel=CoinChannel.from_annotations(table), prior=frame)
        return
    settings = {"use_gold": True} if anchor == "use_gold" else {"experts": ["w0"]}
    trainer(tiny_model("bert"), table, tmp_path, channel=CoinChannel.from_annotations(table), **settings)


@pytest.mark.parametrize("update", ["gradient", "em"])
def test_gold_finds_the_annotator_who_is_nearly_always_wrong(update, tiny_model, tmp_path) -> None:
    table = crowd(120, (0.9, 0.1, 0.15), labels=2)
    settings = {"use_gold": True, "expertise_update": update, "objective": "joint", "max_steps": 10}
    made = trainer(tiny_model("bert"), table, tmp_path, channel="coin", **settings)
    made.train()
    expertise = made.channel.summary()["expertise_trained"][:, 0]
    assert expertise[0] > 0.5 > -0.4 > expertise[1:].max()
