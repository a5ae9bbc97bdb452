"""`channel=auto`: what held-out annotations choose, and what training does with the choice."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from realm.channels import IdentityChannel, channel_class
from realm.crowd.calibration import COMMON_MISTAKES
from realm.data import Annotations
from realm.runs import Run
from realm.training.channel_choice import choose_channel
from tests.crowd.crowds import labelled, mixtures, table
from tests.invariant.test_resume import SETTINGS, StopAt
from tests.tiny import COLOURS, crowd
from tests.trainers import DEFAULT, trainer


def nothing(annotations: Annotations) -> torch.Tensor:
    return torch.full((annotations.n_items, int(annotations.option_counts.max())), float("nan"), dtype=torch.float64)


def choice(annotations: Annotations, **how):
    return choose_channel(
        annotations, nothing(annotations), lambda name: channel_class(name).from_annotations(annotations), **how
    )


def test_judges_with_habits_are_not_taken_for_guessers() -> None:
    rng = np.random.default_rng(0)
    people = mixtures(rng.uniform(0.3, 0.8, 10), rng.dirichlet(np.full(2, 0.5), 10))
    found = choice(labelled(0, rng.integers(2, size=400), people, 4))
    assert found.name in ("habit", "confusion")
    assert max(found.likelihoods["habit"], found.likelihoods["confusion"]) > found.likelihoods["uniform"] + 0.02
    assert found.name in found.sentence and "uniform" in found.sentence


def test_annotators_who_mistake_a_label_for_the_next_get_a_matrix() -> None:
    rng = np.random.default_rng(1)
    accuracy = rng.uniform(0.6, 0.9, 10)[:, None, None]
    people = accuracy * np.eye(3) + (1 - accuracy) * np.roll(np.eye(3), 1, axis=1)
    found = choice(labelled(1, rng.integers(3, size=400), people, 4))
    assert found.name == "confusion" and found.standard_error > 0
    assert found.likelihoods["confusion"] > max(found.likelihoods[other] for other in ("uniform", "habit"))


def test_where_nothing_can_be_compared_it_says_so() -> None:
    single = choice(table([0, 1], [0, 0], [0, 1], n_items=2, n_annotators=1, options=2))
    assert single.name == "identity" and "plain fine-tuning" in single.sentence
    sparse = choice(table([0, 1], [0, 1], [0, 1], n_items=2, n_annotators=2, options=2))
    assert sparse.name == "confusion" and "too few annotations to compare" in sparse.sentence
    lonely = table([0], [0], [0], n_items=1, n_annotators=2, options=2)
    known = torch.full((1, 2), 0.5).double().log()
    assert choose_channel(lonely, known, lambda name: channel_class(name).from_annotations(lonely)).name == "confusion"


def test_one_annotator_is_plain_fine_tuning_from_the_first_step(tiny_model, tmp_path) -> None:
    table_ = crowd(40, (0.9,))
    settings = {**DEFAULT, "max_steps": 12, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1}
    made = [trainer(tiny_model("bert"), table_, tmp_path, **settings | {"method": m}) for m in ("realm", "noisy")]
    losses = []
    for each in made:
        each.train()
        losses.append([entry["loss"] for entry in each.state.log_history if "loss" in entry])
    assert isinstance(made[0].model.channel, IdentityChannel) and made[0].channel is None
    assert losses[0] == losses[1]
    np.testing.assert_array_equal(made[0].scores().log_probs, made[1].scores().log_probs)
    assert any("plain fine-tuning" in note for note in made[0].notes)


@pytest.mark.parametrize("per_item", [1, 3])
@pytest.mark.parametrize("stop", [3, 9])
def test_a_run_resumed_before_or_after_the_choice_ends_where_it_would_have(
    stop, per_item, tmp_path, tiny_model
) -> None:
    """With one annotation per item the choice falls at the end of the first epoch, after eight steps; else before."""
    table_ = crowd(64, per_item=per_item)
    chosen = {**SETTINGS, **DEFAULT, "max_steps": 12, "gradient_accumulation_steps": 1}
    whole = trainer(tiny_model("bert"), table_, tmp_path / "whole", **chosen)
    whole.train()
    stopped = trainer(tiny_model("bert"), table_, tmp_path / "part", **chosen)
    stopped.add_callback(StopAt(stop))
    with pytest.raises(KeyboardInterrupt):
        stopped.train()
    again = trainer(tiny_model("bert"), table_, tmp_path / "part", **chosen)
    again.train(resume_from_checkpoint=True)
    assert again.notes == whole.notes and again._closed_form.choice == whole._closed_form.choice is not None
    for name, value in whole.model.state_dict().items():
        assert torch.equal(again.model.state_dict()[name], value), name
    assert again.model.exponent == whole.model.exponent and again.scorer.temperature == whole.scorer.temperature
    one, two = (Run.open(tmp_path / name) for name in ("whole", "part"))
    np.testing.assert_array_equal(one.log_probs, two.log_probs)
    assert one.metrics == two.metrics


def test_a_choice_after_the_first_epoch_is_written_with_what_all_steps_have(tiny_model, tmp_path, monkeypatch) -> None:
    """The channel before it may have had other columns."""
    import realm.training.channel as module
    from realm.training.channel_choice import ChannelChoice

    monkeypatch.setattr(
        module, "choose_channel", lambda *_, **__: ChannelChoice("uniform", {"uniform": -1.0, "identity": -2.0})
    )
    settings = {**DEFAULT, "write_run": True, "save_strategy": "steps", "save_steps": 3, "max_steps": 6}
    made = trainer(tiny_model("bert"), crowd(24, per_item=1), tmp_path / "run", per_device_train_batch_size=8,
                   gradient_accumulation_steps=1, **settings)  # fmt: skip
    made.train()
    assert type(made.channel).__name__ == "UniformChannel"
    assert len(made.trajectory()) == 6
    assert Run.open(tmp_path / "run").channel_summary.keys() == {"expertise_trained"}


def test_experts_stay_pinned_in_the_channel_that_is_chosen(tiny_model, tmp_path, monkeypatch) -> None:
    import realm.training.channel as module
    from realm.training.channel_choice import ChannelChoice

    monkeypatch.setattr(module, "choose_channel", lambda *_, **__: ChannelChoice("habit", {}))
    table_ = crowd(24)
    made = trainer(tiny_model("bert"), table_, tmp_path, **DEFAULT, experts=["w1"], max_steps=3)
    made.train()
    beta = made.channel.summary()["expertise_trained"][:, 0]
    assert type(made.channel).__name__ == "HabitChannel" and beta[table_.annotators.index("w1")] == pytest.approx(0.999)


def test_a_run_reloads_its_temperature_and_predicts_the_same(tiny_model, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("realm.training.channel.ClosedFormUpdate.temperature", lambda _: 1.7)
    table_ = crowd(40)
    settings = {**DEFAULT, "write_run": True, "max_steps": 30, "learning_rate": 5e-3}
    made = trainer(tiny_model("causal"), table_, tmp_path / "run", test=crowd(10, seed=4), **settings)
    made.train()
    made.scorer.temperature = 1.0
    made._scores = None
    sharp = made.scores().log_probs
    run = Run.open(tmp_path / "run")
    # a language model keeps it beside its checkpoint
    assert run.scorer.temperature == pytest.approx(1.7 * COMMON_MISTAKES)
    expected = sharp / run.scorer.temperature
    expected -= np.log(np.exp(expected).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(run.log_probs, expected, atol=1e-5)
    texts = table_.items.texts.to_pylist()[:5]
    frame = run.predict(texts)
    assert list(frame["label"]) == [COLOURS[k] for k in sharp[:5].argmax(axis=1)]
    np.testing.assert_allclose(frame["confidence"], np.exp(expected[:5]).max(axis=1), atol=1e-5)


def test_with_ten_labels_per_item_and_a_model_at_chance_expertise_follows_agreement(tiny_model, tmp_path) -> None:
    """Texts that say nothing: what a model finds in them must not outweigh ten annotators."""
    rng = np.random.default_rng(5)
    accuracy = np.linspace(0.3, 0.95, 12)
    noise = crowd(100, accuracy, per_item=10, seed=5)
    shuffled = noise.items.texts.take(rng.permutation(100))
    from dataclasses import replace

    noise = replace(noise, items=replace(noise.items, texts=shuffled), gold=None)
    made = trainer(tiny_model("bert"), noise, tmp_path, **DEFAULT, max_steps=60, learning_rate=3e-3,
                   per_device_train_batch_size=16, gradient_accumulation_steps=1)  # fmt: skip
    made.train()
    trained = made.channel.summary()["expertise_trained"][:, 0]
    own = [accuracy[int(name[1:])] for name in noise.annotators]
    assert spearmanr(trained, own).statistic >= 0.8


def test_cross_fit_goes_on_from_the_default_channel(tiny_model, tmp_path) -> None:
    made = trainer(tiny_model("bert"), crowd(30), tmp_path, **DEFAULT, cross_fit=2, max_steps=4)
    made.train()
    assert made.folds == 2, made.warnings
    made._closed_form._fit.exponent = made.model.exponent = 0.4
    fold = trainer(tiny_model("bert"), crowd(30), tmp_path, **DEFAULT, max_steps=4)
    fold.model.channel = type(made.channel).from_annotations(fold.annotations)
    fold._closed_form._fit = fold._closed_form._new_fit()
    fold._closed_form.go_on_from(made._closed_form)
    before = fold.channel.summary()["expertise_trained"]
    assert fold.model.exponent == 0.4
    fold._closed_form.update()
    np.testing.assert_allclose(fold.channel.summary()["expertise_trained"], before, atol=0.15)
