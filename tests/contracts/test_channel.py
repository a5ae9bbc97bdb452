"""A channel is one class: defined here and handed to the trainer, it trains, is saved, resumes and is reported."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load_file
from torch import Tensor, nn

from realm import Annotations, Channel, HabitChannel, IdentityChannel, ItemScores, Observed, RealmError, Run
from realm.channels import CHANNELS, channel_class
from realm.training import optimizer
from tests.contracts.modules import modules
from tests.invariant.test_resume import SETTINGS, StopAt
from tests.tiny import crowd, save_tiny
from tests.trainers import DEFAULT, trainer


class SlipChannel(Channel):
    """P(label = y | truth = k) = (1 - slip) [y = k] + slip / K_Q, slip = sigmoid(own + shared): one number of each
    annotator and task, and one of all."""

    def __init__(self, annotators: int, tasks: int = 1) -> None:
        super().__init__(annotators, tasks)
        self.own = nn.Parameter(torch.zeros(annotators, tasks))
        self.shared = nn.Parameter(torch.tensor(-1.0))

    def slip(self) -> Tensor:
        return (self.own + self.shared).sigmoid()

    def evidence(self, scores: ItemScores, observed: Observed) -> Tensor:
        slip = self.slip()[observed.annotator, observed.task][:, None]
        guess = slip / scores.option_counts[observed.item][:, None]
        options = torch.arange(scores.log_probs.shape[1])
        return torch.where(options == observed.label[:, None], 1 - slip + guess, guess).log()

    def summary(self) -> dict[str, Any]:
        return {"slip": self.slip().detach().double().numpy()}


class DependentChannel(SlipChannel):
    """The slip also depends on the item, by the state that the answer is read from."""

    needs_hidden = True

    def __init__(self, annotators: int, width: int) -> None:
        super().__init__(annotators)
        self.difficulty = nn.Linear(width, 1)

    def evidence(self, scores: ItemScores, observed: Observed) -> Tensor:
        assert scores.hidden is not None
        harder = self.difficulty(scores.hidden.float())[observed.item, 0]
        slip = (self.own[observed.annotator, observed.task] + self.shared + harder).sigmoid()[:, None]
        guess = slip / scores.option_counts[observed.item][:, None]
        options = torch.arange(scores.log_probs.shape[1])
        return torch.where(options == observed.label[:, None], 1 - slip + guess, guess).log()


@pytest.mark.parametrize("objective", ["paper", "joint"])
def test_it_trains_is_saved_resumes_to_the_byte_and_is_in_the_expertise_table(objective, tmp_path) -> None:
    model = save_tiny(tmp_path / "model", "causal", dropout=0.1)
    table = crowd(60, (0.95, 0.6, 0.3), per_item=2)
    settings = {**SETTINGS, "objective": objective}
    whole = trainer(model, table, tmp_path / "whole", channel=SlipChannel(3), **settings)
    start = {name: value.clone() for name, value in whole.model.channel.state_dict().items()}
    whole.train()
    learned = whole.model.channel.state_dict()
    assert set(learned) == {"own", "shared"}
    assert all((learned[name] != start[name]).all() for name in start), "every parameter of the channel has moved"

    stopped = trainer(model, table, tmp_path / "resumed", channel=SlipChannel(3), **settings)
    stopped.add_callback(StopAt(5))
    with pytest.raises(KeyboardInterrupt):
        stopped.train()
    resumed = trainer(model, table, tmp_path / "resumed", channel=SlipChannel(3), **settings)
    resumed.train(resume_from_checkpoint=True)
    for name in ("channel", "summary", "trajectory", "predictions", "estimate"):
        one, other = (load_file(tmp_path / f / f"{name}.safetensors") for f in ("whole", "resumed"))
        assert one.keys() == other.keys()
        for key, value in one.items():
            np.testing.assert_array_equal(value, other[key], err_msg=f"{name} {key}")

    run = Run.open(tmp_path / "whole")
    np.testing.assert_array_equal(load_file(run.folder / "channel.safetensors")["own"], learned["own"])
    slips = dict(zip(table.annotators, whole.channel.summary()["slip"][:, 0], strict=True))
    for frame in (whole.expertise(), run.expertise, pd.read_csv(run.folder / "expertise.csv")):
        assert dict(zip(frame["annotator"], frame["slip"], strict=True)) == pytest.approx(slips)


def test_a_run_is_not_resumed_with_another_channel(tmp_path, tiny_model) -> None:
    settings = {**SETTINGS, "max_steps": 2}
    trainer(tiny_model("bert"), crowd(20), tmp_path, channel=SlipChannel(3), **settings).train()
    with pytest.raises(RealmError, match="channel = SlipChannel, not uniform"):
        trainer(tiny_model("bert"), crowd(20), tmp_path, **settings).train(resume_from_checkpoint=True)


def test_a_run_is_not_resumed_with_the_same_channel_of_other_settings(tmp_path, tiny_model) -> None:
    settings = {**SETTINGS, "max_steps": 2}
    table = crowd(20)
    trainer(tiny_model("bert"), table, tmp_path, channel=HabitChannel.from_annotations(table), **settings).train()
    other = HabitChannel.from_annotations(table, learn_habits=False)
    with pytest.raises(RealmError, match="channel_settings"):
        trainer(tiny_model("bert"), table, tmp_path, channel=other, **settings).train(resume_from_checkpoint=True)


class CountingChannel(Channel):
    """One accuracy per annotator, in closed form: the mean probability that P gives to their labels."""

    def __init__(self, annotators: int) -> None:
        super().__init__(annotators)
        self.accuracy = nn.Parameter(torch.full((annotators, 1), 0.5))

    def evidence(self, scores: ItemScores, observed: Observed) -> Tensor:
        right = self.accuracy[observed.annotator]
        wrong = (1 - right) / (scores.option_counts[observed.item][:, None] - 1)
        options = torch.arange(scores.log_probs.shape[1])
        return torch.where(options == observed.label[:, None], right, wrong).log()

    def update(self, scores: ItemScores, annotations: Annotations) -> None:
        observed = Observed.of(annotations)
        p = scores.log_probs[observed.item, observed.label].exp()
        known = p.isfinite()
        sums = torch.zeros(len(self.accuracy), dtype=p.dtype).index_add(0, observed.annotator[known], p[known])
        counts = torch.bincount(observed.annotator[known], minlength=len(self.accuracy))
        self.accuracy.copy_(((sums + 1) / (counts + 2))[:, None])

    def summary(self) -> dict[str, Any]:
        return {"expertise_trained": self.accuracy.detach().double().numpy()}


@pytest.mark.parametrize("update", ["gradient", "em"])
def test_a_channel_of_ones_own_is_what_labels_accuracies_and_intervals_come_from(update, tmp_path, tiny_model) -> None:
    """Gradients or a closed form: who is turned upside down in the channel is so in every table."""
    table = crowd(80, (0.95, 0.9, 0.3), per_item=3)
    kind = SlipChannel if update == "gradient" else CountingChannel
    settings = {**SETTINGS, "expertise_update": update, "objective": "joint", "max_steps": 3, "save_strategy": "no"}
    made = trainer(tiny_model("bert"), table, tmp_path, channel=kind(3), **settings)
    made.train()
    if update == "em":
        assert (
            not torch.equal(made.channel.accuracy, torch.full((3, 1), 0.5)) and not made.channel.accuracy.requires_grad
        )
    usual = made.estimate()
    flipped = trainer(tiny_model("bert"), table, tmp_path / "b", channel=kind(3), **settings)
    flipped.train()
    with torch.no_grad():  # the channel now believes the third and nobody else
        if update == "gradient":
            flipped.channel.own.copy_(torch.tensor([[9.0], [9.0], [-9.0]]))
        else:
            flipped.channel.accuracy.copy_(torch.tensor([[0.26], [0.26], [0.99]]))
    flipped._forget_results()
    believed = flipped.estimate()
    assert usual.accuracy[:2].min() > usual.accuracy[2, 0] and believed.accuracy[:2].max() < usual.accuracy[:2].min()
    assert np.abs(believed.low - usual.low).min() > 0.05, "and the intervals are those of the channel"
    third = np.full(table.n_items, -1)
    third[table.item[table.annotator == 2]] = table.label[table.annotator == 2]
    assert (believed.posterior.argmax(axis=1) == third).mean() > 0.95 > (usual.posterior.argmax(axis=1) == third).mean()
    run = Run.open(tmp_path)
    np.testing.assert_allclose(run.estimate.accuracy, usual.accuracy)
    assert {"accuracy", "low", "high", "expertise_trained" if update == "em" else "slip"} <= set(run.expertise.columns)


@pytest.mark.parametrize("channel", ["confusion", "uniform"])
def test_the_table_of_annotators_in_a_run_is_the_trained_channels(channel, tmp_path, tiny_model) -> None:
    """Contract 8: labels, accuracies and confusions of a run are those of the model of annotators that was trained."""
    table = crowd(80, (0.95, 0.9, 0.3), per_item=3)
    settings = {**SETTINGS, **DEFAULT, "channel": channel, "max_steps": 4}
    made = trainer(tiny_model("bert"), table, tmp_path, **settings)
    made.train()
    run = Run.open(tmp_path)
    expected = made.channel.fitted_model().estimate_at(made.out_of_sample(), in_sample=True)
    np.testing.assert_allclose(run.estimate.accuracy, expected.accuracy)
    np.testing.assert_allclose(run.estimate.posterior, expected.posterior, atol=1e-6)
    np.testing.assert_allclose(run.estimate.cell_evidence, expected.cell_evidence, atol=1e-5)
    trained = made.channel.summary()["accuracy_trained"]
    np.testing.assert_allclose(run.channel_summary["accuracy_trained"], trained)
    assert np.abs(run.estimate.accuracy - trained).max() < 0.1, "what is trained is what is reported"


class BareChannel(SlipChannel):
    """Groups with nothing but their parameters: no decay, the expertise's rate, no mask."""

    def parameter_groups(self, learning_rate: float) -> list[dict[str, Any]]:
        return [{"params": [self.own, self.shared]}]


def test_groups_of_a_channel_have_its_rate_and_no_decay_unless_they_say_so(tmp_path, tiny_model) -> None:
    made = trainer(tiny_model("bert"), crowd(20), tmp_path, channel=BareChannel(3), max_steps=2, weight_decay=0.5)
    made.train()
    (group,) = [group for group in made.optimizer.param_groups if group["params"][0] is made.model.channel.own]
    assert group["weight_decay"] == 0.0 and group["initial_lr"] == made.args.expertise_learning_rate
    assert made.model.channel.own.any()


class ForgetfulChannel(SlipChannel):
    """Leaves one of its parameters out of its groups."""

    def parameter_groups(self, learning_rate: float) -> list[dict[str, Any]]:
        return [{"params": [self.own], "masked": True, "lr": learning_rate, "weight_decay": 0.0}]


def test_a_parameter_in_no_optimiser_group_is_refused(tmp_path, tiny_model) -> None:
    made = trainer(tiny_model("bert"), crowd(20), tmp_path, channel=ForgetfulChannel(3))
    with pytest.raises(RealmError, match=r"channel\.shared requires a gradient but is in no optimiser group"):
        made.train()
    made = trainer(tiny_model("bert"), crowd(20), tmp_path)
    made.scorer.register_parameter("forgotten", nn.Parameter(torch.zeros(1)))
    with pytest.raises(RealmError, match=r"scorer\.forgotten requires a gradient"):
        made.train()


def test_without_the_refusal_it_would_never_train(tmp_path, tiny_model, monkeypatch) -> None:
    """The tests above can fail: this is what they guard against."""
    monkeypatch.setattr(optimizer, "refuse_ungrouped", lambda model, groups: None)
    made = trainer(tiny_model("bert"), crowd(20), tmp_path, channel=ForgetfulChannel(3), max_steps=3)
    made.train()
    assert made.model.channel.shared.item() == -1.0 and made.model.channel.own.any()


@pytest.mark.parametrize("kind", ["seq2seq", "causal", "bert"])
@pytest.mark.parametrize("layers", [0, 1, "head"])
def test_a_channel_may_read_the_state_that_the_answer_is_read_from(kind, layers, tmp_path, tiny_model) -> None:
    table = crowd(30, per_item=2)
    made = trainer(tiny_model(kind), table, tmp_path, channel=DependentChannel(3, 32), max_steps=3, train_layers=layers)
    made.train()
    assert made.model.channel.difficulty.weight.any() and made.model.channel.difficulty.bias.item() != 0
    assert np.isfinite(made.estimate().accuracy).all()


def test_a_hidden_state_that_does_not_exist_is_refused(tmp_path, tiny_model) -> None:
    made = trainer(tiny_model("causal"), crowd(20), tmp_path, channel=DependentChannel(3, 32), answers="cloze")
    with pytest.raises(RealmError, match="`answers=letters`"):
        made.train()


def test_a_channel_that_does_not_fit_is_refused(tmp_path, tiny_model) -> None:
    for channel, settings, message in (
        (SlipChannel(2), {}, "made for 2 annotators, and the table has 3"),
        (SlipChannel(3), {"method": "noisy"}, "`method=noisy` trains by cross-entropy"),
        (SlipChannel(3), {"experts": ["w0"]}, "cannot start from known expertise"),
        (IdentityChannel(), {}, "Use `method=noisy`"),
        (SlipChannel(3, tasks=2), {}, "made for 2 tasks, and the table has 1"),
        (HabitChannel(3, options=2), {}, "made for 2 options, and the table has 4"),
    ):
        with pytest.raises(RealmError, match=message):
            trainer(tiny_model("bert"), crowd(20), tmp_path, channel=channel, **settings)


def test_the_trainer_names_no_parameter_of_a_channel() -> None:
    """Of what a channel learns, only channels know the names."""
    table = crowd(5)
    parameters = {name for kind in CHANNELS for name in channel_class(kind).from_annotations(table).state_dict()}
    assert "omega" in parameters
    for path, source in modules().items():
        if not path.startswith("channels/"):
            assert not [name for name in parameters if f".{name}" in source or f'"{name}"' in source], path
