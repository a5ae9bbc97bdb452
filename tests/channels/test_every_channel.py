"""What every channel owes: probabilities that sum to 1, finite numbers at the ends, items of any size in one batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from realm.channels import CHANNELS, Channel, ItemScores, Observed, channel_class
from realm.errors import RealmError
from realm.scorers.answers import masked_log_softmax
from tests.tiny import crowd

EVERY = tuple(name for name in CHANNELS if name != "confusion")
"""All but the one in closed form, which has a file of its own."""
LEARNED = [name for name in EVERY if name != "identity"]


def drawn(name: str, k: int, seed: int, spread: float = 2.0, annotators: int = 3, tasks: int = 2) -> Channel:
    """A channel with random parameters, in float64."""
    more = {} if name in ("identity", "uniform") else {"options": k}
    if name == "habit":
        more["counts"] = np.ones((annotators, tasks))
    channel = channel_class(name)() if name == "identity" else channel_class(name)(annotators, tasks, **more)
    generator = torch.Generator().manual_seed(seed)
    for parameter in channel.parameters():
        parameter.data = spread * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return channel.double()


def every_label(k: int, wide: int, annotator: int = 0, task: int = 0) -> tuple[torch.Tensor, Observed]:
    """Option counts of one item of k options, and one annotation of it for each label."""
    zeros = torch.zeros(k, dtype=torch.long)
    return torch.tensor([k]), Observed(zeros, zeros + annotator, zeros + task, torch.arange(k), torch.ones(k).double())


@pytest.mark.parametrize("name", EVERY)
@settings(max_examples=40, deadline=None)
@given(
    k=st.integers(2, 12), wide=st.integers(0, 3), spread=st.sampled_from([0.0, 1.0, 30.0, 1e4]), seed=st.integers(0, 99)
)
def test_the_labels_of_an_item_sum_to_one_whichever_option_is_true(name, k, wide, spread, seed) -> None:
    channel = drawn(name, k + wide, seed, spread)
    counts, observed = every_label(k, wide, seed % 3, seed % 2)
    logits = torch.randn(1, k + wide, dtype=torch.float64).requires_grad_()
    log_probs = masked_log_softmax(logits, counts)
    evidence = channel(ItemScores(log_probs, counts), observed)
    assert evidence.shape == (k, k + wide) and not evidence.isnan().any()
    np.testing.assert_allclose(evidence.detach()[:, :k].exp().sum(dim=0), 1.0, atol=1e-9)
    (log_probs[observed.item] + evidence).logsumexp(dim=1).sum().backward()
    for parameter in (logits, *channel.parameters()):
        assert parameter.grad is None or torch.isfinite(parameter.grad).all()


@pytest.mark.parametrize("name", EVERY)
def test_items_with_different_numbers_of_options_mix_in_one_batch(name) -> None:
    channel = drawn(name, 5, 1)
    counts = torch.tensor([5, 2, 3])
    log_probs = masked_log_softmax(torch.randn(3, 5, dtype=torch.float64), counts)
    item, label = torch.tensor([0, 1, 1, 2]), torch.tensor([4, 1, 0, 2])
    observed = Observed(item, torch.tensor([0, 1, 2, 0]), torch.tensor([0, 1, 1, 0]), label, torch.ones(4).double())
    together = channel(ItemScores(log_probs, counts), observed)
    for row in range(4):
        one = slice(row, row + 1)
        alone_counts = counts[item[one]]
        width = int(alone_counts)
        alone = channel(
            ItemScores(log_probs[item[one], :width], alone_counts),
            Observed(torch.tensor([0]), *(values[one] for values in (observed.annotator, observed.task, label)),
                     observed.weight[one]),
        )  # fmt: skip
        np.testing.assert_allclose(together[row, :width].detach(), alone[0].detach(), rtol=1e-12)


@pytest.mark.parametrize("name", LEARNED)
def test_a_channel_of_a_table_fits_it_and_only_those_who_were_met_are_touched(name) -> None:
    table = crowd(20, (0.9, 0.5, 0.3))
    channel = channel_class(name).from_annotations(table, start=1.0)
    assert channel.touched.shape == (3, 1) and len(list(channel._of_annotators())) == len(list(channel.parameters()))
    scores = ItemScores(torch.full((20, 4), 0.25).log(), torch.full((20,), 4))
    observed = Observed.of(table, np.flatnonzero(table.annotator != 1))
    channel.eval()(scores, observed)
    assert not channel.touched.any()
    channel.train()(scores, observed)
    assert channel.touched[:, 0].tolist() == [True, False, True]
    channel.clear_touched()
    assert not channel.touched.any()


@pytest.mark.parametrize("name", LEARNED)
def test_a_pinned_annotator_gets_no_gradient(name) -> None:
    table = crowd(20, (0.9, 0.5, 0.3))
    channel = channel_class(name).from_annotations(table)
    channel.pin([1], 0.999)
    observed = Observed.of(table)
    scores = ItemScores(torch.randn(20, 4).log_softmax(1), torch.full((20,), 4))
    channel(scores, observed).sum().backward()
    assert all(not parameter.grad[1].any() for parameter in channel.parameters())
    assert any(parameter.grad[0].any() for parameter in channel.parameters())


@pytest.mark.parametrize("name", LEARNED)
def test_the_shares_of_the_log_prior_add_up_however_the_table_is_cut(name) -> None:
    table = crowd(12, (0.9, 0.5, 0.3))
    channel = channel_class(name).from_annotations(table)
    torch.manual_seed(0)
    for parameter in channel.parameters():
        parameter.data += torch.randn(parameter.shape)
    whole = channel.log_prior(Observed.of(table))
    if name in ("uniform", "coin"):
        assert whole is None
        return
    halves = [channel.log_prior(Observed.of(table, half)) for half in np.array_split(np.arange(table.n_annotations), 2)]
    torch.testing.assert_close(whole.sum(), torch.cat(halves).sum())


def test_abilities_are_what_a_channel_has_of_its_own() -> None:
    assert {name for name in CHANNELS if channel_class(name).can("update")} == {"confusion"}
    with pytest.raises(RealmError, match="IdentityChannel cannot start from known expertise"):
        channel_class("identity")().start_from(torch.zeros(1, 1))
    with pytest.raises(RealmError, match="no closed-form update"):
        channel_class("identity")().update(None, None)
