"""Equivalent configurations follow the same trajectory (dropout 0)."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from realm.training.batches import EffectiveBatchSampler
from tests.tiny import crowd
from tests.trainers import trainer, trajectory

LAYOUTS = [(64, 1), (16, 4), (8, 8)]


def run(model, table, folder, micro, accumulation, **settings):
    made = trainer(
        model, table, folder, per_device_train_batch_size=micro, gradient_accumulation_steps=accumulation, **settings
    )
    return trajectory(made)


def cut(micro, accumulation=1, world=1, rank=0, unit="item", grouping=True):
    """What a sampler reads of a config: how an effective batch is cut."""
    return SimpleNamespace(
        batch_unit=unit, per_device_train_batch_size=micro, gradient_accumulation_steps=accumulation, world_size=world,
        process_index=rank, effective_batch_size=micro * accumulation * world, seed=3, length_grouping=grouping,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["seq2seq", "causal", "bert"])
@pytest.mark.parametrize("unit", ["item", "annotation"])
def test_layouts_of_the_effective_batch_agree_in_float64(kind, unit, tiny_model, tmp_path) -> None:
    table = crowd(150, per_item=2)  # 150 items or 300 annotations: the last batch of an epoch is short
    runs = [
        run(tiny_model(kind), table, tmp_path, *layout, double=True, batch_unit=unit, max_steps=6) for layout in LAYOUTS
    ]
    for losses, omegas in runs[1:]:
        np.testing.assert_allclose(losses, runs[0][0], atol=1e-8)
        np.testing.assert_allclose(omegas, runs[0][1], atol=1e-8)
    assert np.abs(runs[0][1][-1]).max() > 0.1


def test_layouts_agree_in_float32_over_twenty_steps(tiny_model, tmp_path) -> None:
    table = crowd(150, per_item=2)
    runs = [run(tiny_model("causal"), table, tmp_path, *layout, max_steps=20) for layout in LAYOUTS]
    for losses, omegas in runs[1:]:
        np.testing.assert_allclose(losses, runs[0][0], rtol=1e-5, atol=1e-4)
        np.testing.assert_allclose(omegas, runs[0][1], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("kind", ["seq2seq", "causal"])
def test_five_annotators_of_an_item_equal_five_forwards(kind, tiny_model, tmp_path) -> None:
    """One forward shared by an item's annotations gives the loss and gradient of one row per annotation."""
    table = crowd(8, accuracies=(0.9, 0.8, 0.5, 0.3, 0.3))
    made = trainer(tiny_model(kind), table, tmp_path, double=True, per_device_train_batch_size=8)
    model = made.model.eval()
    batch = next(iter(made.get_train_dataloader()))
    assert len(batch["input_ids"]) == 8 and len(batch["annotation_labels"]) == 40
    (-model(**batch).sum() / 40).backward()
    shared = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    from realm.training.batches import Collator, ItemGroup

    collate = Collator(made.scorer, made.encoded, made.training_annotations)
    for index in range(table.n_annotations):
        alone = collate([ItemGroup(int(table.item[index]), np.array([index]))])
        (-model(**alone).sum() / 40).backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            np.testing.assert_allclose(parameter.grad, shared[name], atol=1e-10, err_msg=name)


@pytest.mark.parametrize("kind", ["seq2seq", "causal", "gpt2", "bert"])
@pytest.mark.parametrize("answers", ["letters", "names", "cloze"])
def test_batch_composition_does_not_change_an_item(kind, answers, tiny_model, tmp_path) -> None:
    if kind == "bert" and answers != "letters":
        answers = "auto"
    table = crowd(12)
    made = trainer(tiny_model(kind), table, tmp_path, double=True, answers=answers)
    scorer = made.scorer.eval()
    with torch.no_grad():
        together = scorer(scorer.collate(made.encoded, np.arange(12))).numpy()
        alone = np.concatenate([scorer(scorer.collate(made.encoded, np.array([i]))).numpy() for i in range(12)])
        mixed = scorer(scorer.collate(made.encoded, np.array([7, 2, 11]))).numpy()
    np.testing.assert_allclose(together, alone, atol=1e-9)
    np.testing.assert_allclose(mixed, together[[7, 2, 11]], atol=1e-9)


def test_padding_side_of_the_tokenizer_is_of_no_account(tiny_model, tmp_path) -> None:
    table = crowd(12)
    found = []
    for side in ("left", "right"):
        made = trainer(tiny_model("causal"), table, tmp_path, double=True)
        made.scorer.tokenizer.padding_side = side
        made.scorer.eval()
        with torch.no_grad():
            found.append(made.scorer(made.scorer.collate(made.scorer.encode(table.items), np.arange(12))).numpy())
    np.testing.assert_allclose(*found, atol=1e-12)


@pytest.mark.parametrize("grouping", [True, False])
@pytest.mark.parametrize("unit", ["item", "annotation"])
def test_an_epoch_covers_every_unit_once_for_any_layout_and_process_count(grouping, unit) -> None:
    table = crowd(101, per_item=2)
    lengths = np.random.default_rng(0).integers(3, 30, size=table.n_items)

    def sampler(micro, accumulation, world=1, rank=0):
        return EffectiveBatchSampler(table, lengths, cut(micro, accumulation, world, rank, unit, grouping))

    one = sampler(32, 1)
    expected = [sorted(np.concatenate([g.annotations for g in batch])) for batch in one]
    assert sorted(np.concatenate(expected)) == list(range(table.n_annotations))
    for micro, accumulation, world in ((8, 4, 1), (4, 4, 2), (16, 1, 2), (2, 4, 4)):
        ranks = [list(sampler(micro, accumulation, world, rank)) for rank in range(world)]
        assert {len(batches) for batches in ranks} == {len(sampler(micro, accumulation, world, 0))}
        steps = -(-len(ranks[0]) // accumulation)
        for step in range(steps):
            part = [b for batches in ranks for b in batches[step * accumulation : (step + 1) * accumulation]]
            found = sorted(np.concatenate([g.annotations for batch in part for g in batch]))
            assert found == expected[step]
            items = [g.item for batch in part for g in batch if len(g.annotations)]
            assert len(items) == len(set(items))  # an item is forwarded once


def test_length_grouping_saves_padding() -> None:
    table = crowd(600, per_item=1)
    lengths = np.random.default_rng(0).integers(3, 60, size=table.n_items)

    def padded(grouping):
        made = EffectiveBatchSampler(table, lengths, cut(16, grouping=grouping))
        return sum(len(batch) * max(lengths[g.item] for g in batch) for batch in made)

    assert padded(True) < 0.75 * padded(False)


@pytest.mark.parametrize("kind", ["seq2seq", "causal", "gpt2", "bert", "mpnet", "deberta"])
@pytest.mark.parametrize("layers", [1, 3, "head"])
def test_with_and_without_the_cache_of_frozen_layers(kind, layers, tiny_model, tmp_path) -> None:
    """Encoder-decoders have 3 + 2 layers here: with 3, the boundary lies inside the encoder."""
    layers = 2 if layers == 3 and kind != "seq2seq" else layers
    some = 2e-6 if layers == "head" else 3e-5
    table = crowd(48, per_item=2)
    runs = []
    for cache in (0.0, some, 1.0, 1.0):  # without, with too little room, with, and filled by an earlier run
        made = trainer(
            tiny_model(kind), table, tmp_path, train_layers=layers, cache_gb=cache, max_steps=6, test=crowd(20, seed=9)
        )
        runs.append((*trajectory(made), made.test_scores().log_probs, made))
    for losses, omegas, scores, _ in runs[1:]:
        # float32: its rounding (1.2e-7) times the depth of the computation
        np.testing.assert_allclose(losses, runs[0][0], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(omegas, runs[0][1], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(scores, runs[0][2], rtol=1e-5, atol=1e-5)
    assert runs[1][3]._cache("train").size == 0 < runs[2][3]._cache("train").size


def test_frozen_layers_stay_as_they_were_and_run_without_dropout(tmp_path) -> None:
    from tests.tiny import save_tiny

    model = save_tiny(tmp_path / "model", "bert", dropout=0.5)
    made = trainer(model, crowd(40, per_item=1), tmp_path / "run", train_layers=1, max_steps=3)
    before = {name: p.detach().clone() for name, p in made.model.named_parameters()}
    made.train()
    made.model.train()
    layers = made.scorer.backbone.bert.encoder.layer
    assert not layers[0].training and not layers[1].training and layers[2].training
    assert not made.scorer.backbone.bert.embeddings.training
    moved = {name for name, p in made.model.named_parameters() if not torch.equal(p, before[name])}
    assert any("layer.2." in name for name in moved) and any("classifier" in name for name in moved)
    assert not any("layer.0." in name or "layer.1." in name or "embeddings" in name for name in moved)


def test_same_seed_same_run_and_another_seed_another_run(tiny_model, tmp_path) -> None:
    from tests.tiny import save_tiny

    model = save_tiny(tmp_path / "model", "causal", dropout=0.1)
    runs = [trajectory(trainer(model, crowd(80, per_item=1), tmp_path, seed=s, max_steps=5)) for s in (1, 1, 2)]
    np.testing.assert_array_equal(runs[0][0], runs[1][0])
    np.testing.assert_array_equal(runs[0][1], runs[1][1])
    assert not np.array_equal(runs[0][0], runs[2][0])


def test_an_annotator_absent_from_a_batch_does_not_move(tiny_model, tmp_path) -> None:
    table = crowd(64, accuracies=(0.9, 0.8, 0.5, 0.4, 0.3, 0.3), per_item=1)
    seen = {}
    for optimizer in ("masked", "adamw"):
        made = trainer(
            tiny_model("bert"),
            table,
            tmp_path,
            expertise_optimizer=optimizer,
            max_steps=30,
            per_device_train_batch_size=2,
            gradient_accumulation_steps=1,
        )
        batches = []
        original = made._get_num_items_in_batch

        def watch(samples, device, kept=batches, call=original):
            kept.append(np.unique(np.concatenate([b["annotation_annotator"].numpy() for b in samples])))
            return call(samples, device)

        made._get_num_items_in_batch = watch
        _, omegas = trajectory(made)
        steps = np.diff(np.concatenate([np.zeros((1, 6)), omegas[:, :, 0]]), axis=0)
        absent = np.ones(steps.shape, dtype=bool)
        for step, present in enumerate(batches):
            absent[step, present] = False
        assert absent.any(1).all()
        seen[optimizer] = (np.abs(steps[absent]).max(), np.abs(steps[~absent]).min())
    assert seen["masked"][0] == 0.0 and seen["masked"][1] > 0.0
    assert seen["adamw"][0] > 0.0  # the paper's dense AdamW does move them


def test_masked_adam_equals_adamw_where_everyone_is_touched() -> None:
    from realm.training.optimizer import MaskedAdamW

    torch.manual_seed(0)
    one, other = (torch.nn.Parameter(torch.zeros(5, 2, dtype=torch.float64)) for _ in range(2))
    ours = MaskedAdamW(
        [{"params": [one], "masked": True}], lambda: torch.ones(5, 2, dtype=torch.bool), lr=0.1, weight_decay=0.0
    )
    theirs = torch.optim.AdamW([other], lr=0.1, weight_decay=0.0)
    for _ in range(25):
        gradient = torch.randn(5, 2, dtype=torch.float64)
        one.grad, other.grad = gradient.clone(), gradient.clone()
        ours.step()
        theirs.step()
        torch.testing.assert_close(one, other, atol=1e-12, rtol=0)


def test_expertise_is_left_out_of_clipping(tiny_model, tmp_path) -> None:
    """With a clip of nearly nothing the model stands still while the expertise still learns."""
    made = trainer(tiny_model("bert"), crowd(40), tmp_path, max_grad_norm=1e-12, max_steps=1, learning_rate=1e-2)
    gradients = []
    original = made._clip_grad_norm

    def watch(model):
        before = made.channel.omega.grad.clone()
        result = original(model)
        assert torch.equal(made.channel.omega.grad, before)
        gradients.append(float(sum(p.grad.norm() for p in made.scorer.parameters() if p.grad is not None)))
        return result

    made._clip_grad_norm = watch
    made.train()
    assert gradients[0] < 1e-9 and made.channel.omega.abs().max() > 0.05


def test_momentum_fades_while_an_entry_is_away() -> None:
    """An entry's gradients, each weighted by 0.9 to the power of the steps since, over the root of the mean square."""
    from realm.training.optimizer import MaskedAdamW

    omega = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    present = [True, False, False, True, True, *[False] * 200, True]
    said = [1.0, 0.0, 0.0, -0.5, 2.0, *[0.0] * 200, 0.25]
    steps = iter(present)
    optimizer = MaskedAdamW(
        [{"params": [omega], "masked": True}], lambda: torch.tensor([next(steps)]), lr=0.1, weight_decay=0.0, eps=0.0,
        betas=(0.9, 0.999),
    )  # fmt: skip
    expected, met = 0.0, []
    for now, (here, gradient) in enumerate(zip(present, said, strict=True)):
        omega.grad = torch.tensor([gradient], dtype=torch.float64)
        optimizer.step()
        if here:
            met.append((now, gradient))
            weights = np.array([0.9 ** (now - then) for then, _ in met])
            seconds = np.array([0.999 ** (len(met) - 1 - place) for place in range(len(met))])
            gradients = np.array([g for _, g in met])
            step = weights @ gradients / weights.sum() / np.sqrt(seconds @ gradients**2 / seconds.sum())
            expected -= 0.1 * step
        assert float(omega.detach()) == pytest.approx(expected, rel=1e-9)
