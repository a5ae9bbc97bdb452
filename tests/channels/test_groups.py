"""Groups of annotators in channels: a pool for each, in closed form and by gradient."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from realm.channels import Channel, ItemScores, Observed, channel_class
from realm.data import Annotations
from realm.training.channel_fit import ChannelFit

POOLED = ("uniform", "habit", "confusion", "coin")


def table(grouped: bool = True, only: str | None = None) -> Annotations:
    """6 models, right 0.55 of the time, and 6 people, right 0.9 of the time, who share no item. Truth is `t % 3`."""
    rng = np.random.default_rng(0)
    rows = []
    for group, first, right in (("models", 0, 0.55), ("people", 90, 0.9)):
        for item in range(first, first + 90):
            for annotator in rng.permutation(6)[:3]:
                truth = item % 3
                label = truth if rng.random() < right else (truth + rng.integers(1, 3)) % 3
                rows.append((f"{item}", f"{group} {annotator}", "abc"[label], group))
    frame = pd.DataFrame(rows, columns=["text", "annotator", "label", "kind"])
    frame = frame if only is None else frame[frame.kind == only]
    return Annotations.from_pandas(frame, labels=list("abc"), group="kind" if grouped else None)


def known(annotations: Annotations) -> torch.Tensor:
    truth = torch.tensor([int(text) % 3 for text in annotations.texts.to_pylist()])
    return torch.where(torch.arange(3) == truth[:, None], 0.8, 0.1).double().log()


def fitted(name: str, annotations: Annotations) -> Channel:
    channel = channel_class(name).from_annotations(annotations, start=0.0)
    ChannelFit(channel, annotations, tempered=False, together=False).fit(known(annotations))
    return channel


@pytest.mark.parametrize("name", POOLED)
def test_the_fit_of_groups_is_that_of_each_alone(name) -> None:
    together, one_pool = fitted(name, table()), fitted(name, table(grouped=False))
    names = table().annotators
    for group in ("models", "people"):
        part = table(grouped=False, only=group)
        rows = [names.index(each) for each in part.annotators]
        single, differs = fitted(name, part), False
        for key, parameter in single.named_parameters():
            values = dict(together.named_parameters())[key][rows]
            np.testing.assert_allclose(values.detach(), parameter.detach(), atol=2e-2, err_msg=key)
            differs |= bool((dict(one_pool.named_parameters())[key][rows] - parameter).abs().max() > 5e-2)
        assert differs  # one pool draws both groups to each other


@pytest.mark.parametrize("name", POOLED)
def test_one_group_of_all_is_no_groups_to_the_last_bit(name) -> None:
    plain, annotations = fitted(name, table(grouped=False)), table()
    settings = {"groups": np.zeros(annotations.n_annotators, dtype=int), "start": 0.0}
    one = channel_class(name).from_annotations(table(grouped=False), **settings)
    ChannelFit(one, table(grouped=False), tempered=False, together=False).fit(known(annotations))
    for key, values in plain.state_dict().items():
        assert torch.equal(values, one.state_dict()[key]), key


@pytest.mark.parametrize("name", POOLED)
def test_a_state_with_groups_is_put_back(name) -> None:
    channel = fitted(name, table())
    assert len(channel.pool_prior) == 2 and not torch.equal(*channel.pool_prior)
    other = channel_class(name).from_annotations(table(), start=0.0)
    other.load_state_dict(channel.state_dict())
    scores = ItemScores(known(table()).float(), torch.full((180,), 3))
    observed = Observed.of(table())
    assert torch.equal(channel.evidence(scores, observed), other.evidence(scores, observed))


def test_habits_start_at_the_shares_of_their_group_and_the_gradient_draws_them_there() -> None:
    annotations = table()
    channel = channel_class("habit").from_annotations(annotations)
    label_is_a = annotations.label == 0
    for group, first in (("models", 0), ("people", 6)):
        of_group = annotations.annotator_groups[annotations.annotator] == first // 6
        share = (label_is_a[of_group].sum() + 1) / (of_group.sum() + 3)
        rows = [row for row, name in enumerate(annotations.annotators) if name.startswith(group)]
        habits = channel.habit_logits.softmax(dim=2)[rows, 0, 0]
        np.testing.assert_allclose(habits.detach(), share, rtol=1e-5)
    prior = channel.log_prior(Observed.of(annotations))
    assert prior is not None
    prior.sum().backward()
    # at the shares of their own group nothing draws anybody away
    np.testing.assert_allclose(channel.habit_logits.grad, 0.0, atol=1e-6)
