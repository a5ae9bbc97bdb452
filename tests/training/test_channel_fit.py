"""The channel in closed form: what an annotation says of its annotator, by the model and the others of its item."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from realm.channels import CHANNELS, Channel, ItemScores, Observed, channel_class
from realm.data import Annotations
from realm.training.channel_fit import ChannelFit, label_shares
from realm.training.opinion import known_beforehand
from tests.crowd.crowds import coins, labelled, mixtures, table
from tests.crowd.test_dependence import panel

LEARNED = [name for name in CHANNELS if name != "identity"]


def random_channel(name: str, annotations: Annotations, seed: int) -> Channel:
    channel = channel_class(name).from_annotations(annotations)
    generator = torch.Generator().manual_seed(seed)
    for parameter in channel.parameters():
        parameter.data += torch.randn(parameter.shape, generator=generator)
    return channel


def nothing(annotations: Annotations) -> torch.Tensor:
    """What a model that has not been asked says."""
    shape = (annotations.n_items, int(annotations.option_counts.max(initial=1)))
    return torch.full(shape, float("nan"), dtype=torch.float64)


def small(seed: int = 0, own_options: bool = False) -> tuple[Annotations, torch.Tensor]:
    """Seven items, the last without annotations, one with a single one; and log P."""
    rng = np.random.default_rng(seed)
    counts = np.array([3, 2, 3, 2, 3, 3, 2]) if own_options else np.full(7, 3)
    item = np.array([0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 4, 5, 5])
    annotator = np.array([0, 1, 2, 0, 2, 1, 2, 3, 0, 1, 3, 0, 3])
    label = rng.integers(0, counts[item])
    options = counts.tolist() if own_options else 3
    made = table(item, annotator, label, n_items=7, n_annotators=4, options=options)
    made = replace(made, weight=rng.uniform(0.5, 2.0, len(item)))
    scores = torch.from_numpy(rng.normal(size=(7, 3)))
    beyond = torch.arange(3) >= torch.from_numpy(counts)[:, None]
    return made, scores.masked_fill(beyond, float("-inf")).log_softmax(dim=1)


@pytest.mark.parametrize("own_options", [False, True])
@pytest.mark.parametrize("name", LEARNED)
def test_the_likelihood_and_what_the_channel_is_given_are_those_of_plain_loops(name, own_options, monkeypatch) -> None:
    annotations, log_probs = small(1, own_options)
    channel = random_channel(name, annotations, 1)
    fit = ChannelFit(channel, annotations, (1.5, 1.5))
    fit.exponent = 0.6
    evidence, weight = fit.evidence(), annotations.weight
    total, cavities = 0.0, []
    for item in range(7):
        rows, options = np.flatnonzero(annotations.item == item), range(int(annotations.option_counts[item]))
        if len(rows):
            joint = [np.exp(log_probs[item, k] + sum(weight[b] * evidence[b, k] for b in rows)) for k in options]
            total += np.log(sum(joint))
        for a in rows:
            scores = [
                np.exp(log_probs[item, k] + 0.6 * sum(weight[b] * evidence[b, k] for b in rows if b != a))
                for k in options
            ]
            cavities.append(np.array(scores) / sum(scores))
    assert fit.log_likelihood(log_probs) == pytest.approx(float(total))
    given: list[tuple] = []
    monkeypatch.setattr(type(channel), "update", lambda self, *arguments: given.append(arguments))
    torch.testing.assert_close(fit.update(log_probs, pools=False), evidence)
    scores, observed, prior = given[0]
    assert prior == (1.5, 1.5) and observed.label.tolist() == annotations.label.tolist()
    for row, expected in enumerate(cavities):
        np.testing.assert_allclose(scores.log_probs[row, : len(expected)].exp(), expected, rtol=1e-6)
        assert (scores.log_probs[row, len(expected) :] == float("-inf")).all()


@pytest.mark.parametrize("name", LEARNED)
def test_with_one_annotation_per_item_annotators_are_judged_by_the_model_alone(name) -> None:
    annotations, log_probs = small(2)
    single = annotations.keep_annotations(np.isin(np.arange(13), [0, 3, 6, 8, 10, 11]))
    channels = [random_channel(name, single, 2) for _ in range(2)]
    fit = ChannelFit(channels[0], single)
    assert not fit.together and not fit.tempered
    fit.update(log_probs, pools=True)
    assert fit.exponent == 1.0
    observed = Observed.of(single)
    own = replace(observed, item=torch.arange(6))
    scores = ItemScores(log_probs[observed.item], torch.full((6,), 3))
    channels[1].fit_pool(scores, own)
    channels[1].update(scores, own)
    for one, other in zip(channels[0].parameters(), channels[1].parameters(), strict=True):
        torch.testing.assert_close(one, other)
    # Without a model either nothing is known, and nobody moves.
    still = random_channel(name, single, 2)
    ChannelFit(still, single).fit(torch.full_like(log_probs, float("nan")), 3)
    for one, other in zip(still.parameters(), random_channel(name, single, 2).parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", LEARNED)
def test_an_annotation_of_weight_two_counts_as_two_of_the_annotator_on_as_many_items(name) -> None:
    annotations, log_probs = small(3)
    single = annotations.keep_annotations(np.isin(np.arange(13), [0, 3, 6, 8, 10, 11]))
    heavy = replace(single, weight=np.full(6, 2.0))
    twice = np.concatenate([np.arange(7), np.arange(7)])
    doubled = table(
        np.concatenate([single.item, single.item + 7]), np.tile(single.annotator, 2), np.tile(single.label, 2),
        n_items=14, n_annotators=4, options=3,
    )  # fmt: skip
    channels = []
    for each, probs in ((heavy, log_probs), (doubled, log_probs[twice])):
        channel = random_channel(name, heavy, 3)  # of one table: the pool's label shares are the same
        ChannelFit(channel, each, (1.5, 1.5)).fit(probs, 8)
        channels.append(channel)
    for one, other in zip(channels[0].parameters(), channels[1].parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_a_fit_of_the_papers_channel_ends_where_every_annotation_is_most_probable() -> None:
    """At rest each beta is the best one, given what is known of its items: no finite difference improves it."""
    truth = np.random.default_rng(4).integers(3, size=80)
    annotations = labelled(4, truth, coins([0.9, 0.7, 0.55, 0.4], 3), 3)
    log_probs = torch.from_numpy(np.log(np.random.default_rng(5).dirichlet(np.ones(3), 80)))
    channel = channel_class("uniform").from_annotations(annotations)
    fit = ChannelFit(channel, annotations, (1.5, 1.5))
    fit.fit(log_probs, 200)
    at_rest = fit.evidence()
    others = fit.item_sums(at_rest)[fit.observed.item] - at_rest
    cavity = (log_probs[fit.observed.item] + fit.exponent * others).log_softmax(dim=1)

    def pseudo_likelihood() -> float:
        beta = channel.omega.double().sigmoid()
        prior = 0.5 * (beta.log() + (1 - beta).log()).sum()
        return float(((cavity + fit.evidence()).logsumexp(dim=1).sum() + prior).detach())

    best = pseudo_likelihood()
    for row, step in itertools.product(range(4), (-0.05, 0.05)):
        with torch.no_grad():
            channel.omega[row, 0] += step
            assert pseudo_likelihood() < best
            channel.omega[row, 0] -= step


@pytest.mark.parametrize("seed", range(2))
def test_agreement_alone_recovers_habits_and_ranks_annotators(seed) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=900)
    beta = np.linspace(0.1, 0.9, 9)
    habits = rng.dirichlet(np.full(3, 1.0), 9)
    annotations = labelled(seed, truth, mixtures(beta, habits), 5)
    channel = channel_class("habit").from_annotations(annotations)
    fit = ChannelFit(channel, annotations)
    fit.fit(torch.full((900, 3), float("nan"), dtype=torch.float64))
    found = channel.summary()["expertise_trained"][:, 0]
    assert spearmanr(found, beta).statistic > 0.9 and np.abs(found - beta).max() < 0.12
    learned = channel.habit_logits.detach().softmax(dim=2)[:, 0].numpy()
    np.testing.assert_allclose(learned[:6], habits[:6], atol=0.12)  # of those who follow them often enough
    assert fit.exponent > 0.85


def test_agreement_alone_recovers_confusions_and_ranks_annotators() -> None:
    rng = np.random.default_rng(6)
    truth = rng.integers(3, size=1200)
    accuracy = np.linspace(0.35, 0.95, 8)
    matrices = np.stack(
        [a * np.eye(3) + (1 - a) * np.roll(np.eye(3), 1 + i % 2, axis=1) for i, a in enumerate(accuracy)]
    )
    annotations = labelled(6, truth, matrices, 5)
    channel = channel_class("confusion").from_annotations(annotations)
    ChannelFit(channel, annotations).fit(torch.full((1200, 3), float("nan"), dtype=torch.float64))
    np.testing.assert_allclose(channel._log_matrices().detach().exp()[:, 0].numpy(), matrices, atol=0.12)
    assert spearmanr(channel.summary()["accuracy_trained"][:, 0], accuracy).statistic > 0.9


def test_the_exponent_is_near_one_for_independent_annotators_and_below_it_for_copies() -> None:
    rng = np.random.default_rng(7)
    truth = rng.integers(2, size=500)
    people = coins(rng.uniform(0.7, 0.95, 8), 2)
    exponents = []
    for each in (labelled(7, truth, people, 8), panel(0, 2)):
        fit = ChannelFit(channel_class("confusion").from_annotations(each), each)
        fit.fit(nothing(each))
        exponents.append(fit.exponent)
    assert exponents[0] > 0.8 and exponents[1] < 0.5
    whole = ChannelFit(channel_class("uniform").from_annotations(each), each, tempered=False)
    whole.fit(nothing(each), 5)
    assert whole.exponent == 1.0


@pytest.mark.parametrize("name", LEARNED)
def test_who_is_pinned_stays_and_gold_settles_an_item(name) -> None:
    annotations, _ = small(8)
    gold = replace(annotations, gold=np.array([0, -1, 1, 0, -1, -1, -1], np.int32))
    channel = channel_class(name).from_annotations(annotations)
    channel.pin([1], 0.999)
    before = {key: value[1].clone() for key, value in channel.named_parameters()}
    fit = ChannelFit(channel, gold)
    fit.fit(known_beforehand(gold, None), 4)
    for key, value in channel.named_parameters():
        assert torch.equal(value[1], before[key]) and value.isfinite().all(), key


@pytest.mark.parametrize("name", LEARNED)
def test_tables_of_any_shape_are_fitted(name) -> None:
    """One annotator, one annotation, items of one option, tasks of different sizes, nothing at all."""
    tables = [
        table([0, 1], [0, 0], [0, 1], n_items=2, n_annotators=1, options=2),
        table([0], [0], [0], n_items=3, n_annotators=2, options=2),
        table([0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 0], n_items=2, n_annotators=2, options=[1, 1]),
        table([0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 3, 2], n_items=2, n_annotators=2, options=[1, 4], item_tasks=[0, 1]),
        table([], [], [], n_items=2, n_annotators=2, options=3),
    ]
    for each in tables:
        channel = channel_class(name).from_annotations(each)
        for log_probs in (nothing(each),
                          torch.from_numpy(label_shares(each))):  # fmt: skip
            fit = ChannelFit(channel, each)
            fit.fit(log_probs, 4)
            assert np.isfinite(fit.log_likelihood(log_probs)) and 0 < fit.exponent <= 1
            assert all(parameter.isfinite().all() for parameter in channel.parameters())


def test_one_value_for_all_tasks_is_fitted_to_all_of_them() -> None:
    truth = np.random.default_rng(9).integers(2, size=200)
    annotations = labelled(9, truth, coins([0.95, 0.8, 0.6], 2), 3)
    tasks = replace(annotations.items, item_tasks=(np.arange(200) % 2).astype(np.int32), tasks=annotations.tasks * 2)
    both = replace(annotations, items=tasks)
    none = torch.full((200, 2), float("nan"), dtype=torch.float64)
    for name in LEARNED:
        shared = channel_class(name).from_annotations(both, shared_tasks=True)
        ChannelFit(shared, both).fit(none)
        beta = shared.summary()["expertise_trained"]
        np.testing.assert_array_equal(beta[:, 0], beta[:, 1])
        assert beta[0, 0] > beta[1, 0] > beta[2, 0], name
