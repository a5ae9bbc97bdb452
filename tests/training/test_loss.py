"""`AnnotatorLoss`: the likelihood, its gradient, what it records, and the same annotators as by the other doors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import realm
from realm import AnnotatorLoss, RealmError
from realm.crowd.engine import log_softmax
from realm.crowd.model import AnnotatorModel
from tests.crowd.crowds import Crowd, simulate, table
from tests.forked import run_together

ACCURACY = np.array([0.95, 0.85, 0.75, 0.6, 0.4])


@pytest.fixture(scope="module")
def crowd() -> Crowd:
    return simulate(1, annotators=ACCURACY, labels_each=150, per_item=3, options=3)


def padded(crowd: Crowd) -> tuple[torch.Tensor, torch.Tensor]:
    """Labels and annotators of every item, (items, 3), the last missing now and then."""
    annotations = crowd.annotations
    label, annotator = (torch.from_numpy(x.reshape(-1, 3)).long() for x in (annotations.label, annotations.annotator))
    return label, annotator


def logits_of(n: int, options: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(
        n, options, generator=torch.Generator().manual_seed(seed), dtype=torch.float64, requires_grad=True
    )


# -------------------------------------------------------------------- the formula


def test_it_is_the_likelihood_written_out(crowd: Crowd) -> None:
    loss, n = AnnotatorLoss(crowd.annotations), crowd.annotations.n_items
    logits = logits_of(n, 3)
    model, expected = loss.model, 0.0
    evidence, probs = model.evidence(), logits.detach().softmax(dim=1).numpy()
    for item in range(n):
        rows = np.flatnonzero(crowd.annotations.item == item)
        summed = model.exponent[0] * (model.weight[rows, None] * evidence[rows]).sum(axis=0) + model.item_offset()[item]
        expected -= np.log((probs[item] * np.exp(summed)).sum()) / n
    assert loss(logits, items=torch.arange(n)).item() == pytest.approx(expected, rel=1e-12)
    assert loss(logits, *padded(crowd), torch.arange(n)).item() == pytest.approx(expected, rel=1e-12)
    assert loss(logits, *padded(crowd)).item() == pytest.approx(expected, rel=1e-12), "every row is an item"


def test_the_gradient_is_p_minus_the_posterior(crowd: Crowd) -> None:
    loss, n = AnnotatorLoss(crowd.annotations), crowd.annotations.n_items
    logits = logits_of(n, 3)
    loss(logits, *padded(crowd), torch.arange(n)).backward()
    log_probs = logits.detach().log_softmax(dim=1).numpy()
    posterior = np.exp(log_softmax(loss.model.log_prior(log_probs) + loss.model.item_evidence()))
    gradient = (logits.detach().softmax(dim=1).numpy() - posterior) / n
    np.testing.assert_allclose(logits.grad.numpy(), gradient, atol=1e-12)
    items = torch.arange(5)
    assert torch.autograd.gradcheck(lambda part: loss(part, items=items), logits[:5].detach().requires_grad_())


def test_held_class_shares_are_in_the_loss_with_items_and_without(crowd: Crowd) -> None:
    loss, n = AnnotatorLoss(crowd.annotations), crowd.annotations.n_items
    logits, free = logits_of(n, 3), AnnotatorLoss(crowd.annotations)
    task = loss.model.tasks[0]
    task.fitted = replace(task.fitted, offset=np.array([0.5, 0.0, -0.5]))
    with_items, without = (loss(logits, *padded(crowd), items).item() for items in (torch.arange(n), None))
    assert with_items == pytest.approx(without, rel=1e-12) != pytest.approx(free(logits, *padded(crowd)).item())


def test_rows_of_one_item_count_jointly_and_once(crowd: Crowd) -> None:
    loss, annotations = AnnotatorLoss(crowd.annotations), crowd.annotations
    logits = logits_of(annotations.n_items, 3)
    rows = torch.from_numpy(annotations.item.astype(np.int64))
    columns = (torch.from_numpy(column.astype(np.int64)) for column in (annotations.label, annotations.annotator))
    jointly = loss(logits[rows], *columns, rows)
    assert jointly.item() == pytest.approx(loss(logits, items=torch.arange(annotations.n_items)).item(), rel=1e-12)


def test_labels_that_are_not_there_count_for_nothing(crowd: Crowd) -> None:
    loss = AnnotatorLoss(crowd.annotations)
    labels, annotators = padded(crowd)
    logits = logits_of(len(labels), 3)
    fewer = labels.clone()
    fewer[:, 2], fewer[::2, 1], fewer[4] = -100, -1, -1
    rest = [row for row in range(len(labels)) if row != 4]
    with_gaps = loss(logits, fewer, annotators)
    assert with_gaps.item() == pytest.approx(loss(logits[rest], fewer[rest], annotators[rest]).item(), rel=1e-12)
    nothing = loss(logits, torch.full((len(labels),), -100), annotators[:, 0])
    nothing.backward()
    assert nothing.item() == 0 and not logits.grad.any()


def test_weights_and_copies_count_as_the_table_has_them() -> None:
    item, annotator, label = [0, 0, 1, 1, 2], [0, 1, 0, 1, 1], [0, 1, 1, 1, 0]
    weights = np.array([1.0, 0.25, 0.5, 2.0, 1.0])
    weighted = table(item, annotator, label, n_items=3, n_annotators=2, options=2, weight=weights)
    loss, logits = AnnotatorLoss(weighted), logits_of(3, 2)
    arguments = torch.tensor([[0, 1], [1, 1], [-1, 0]]), torch.tensor([[0, 1], [0, 1], [0, 1]]), torch.arange(3)
    assert loss(logits, *arguments).item() == pytest.approx(loss(logits, items=torch.arange(3)).item(), rel=1e-12)


def test_several_tasks_and_items_with_fewer_options() -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(2, 5, 80)
    item, annotator = np.repeat(np.arange(80), 3), rng.integers(0, 6, 240)
    mixed = table(item, annotator, rng.integers(0, counts[item]), n_items=80, n_annotators=6, options=counts.tolist(),
                  item_tasks=np.arange(80) % 2)  # fmt: skip
    loss, logits = AnnotatorLoss(mixed), logits_of(80, 4)
    label, who = (torch.from_numpy(column.reshape(80, 3)).long() for column in (mixed.label, mixed.annotator))
    value = loss(logits, label, who, torch.arange(80))
    assert value.item() == pytest.approx(loss(logits, items=torch.arange(80)).item(), rel=1e-12)
    value.backward()
    beyond = np.arange(4) >= counts[:, None]
    assert not logits.grad.numpy()[beyond].any() and np.isfinite(logits.grad.numpy()).all()
    posterior = np.exp(log_softmax(loss.model.log_prior(logits.detach().numpy()) + loss.model.item_evidence()))
    assert not posterior[beyond].any()
    probs = logits.detach().masked_fill(torch.from_numpy(beyond), -torch.inf).softmax(dim=1).numpy()
    np.testing.assert_allclose(logits.grad.numpy(), (probs - posterior) / 80, atol=1e-12)
    with pytest.raises(RealmError, match="`items` are needed"):
        loss(logits, label, who)


def test_a_label_that_its_annotator_never_gave_has_evidence(crowd: Crowd) -> None:
    small = table([0, 1, 1], [0, 0, 1], [0, 0, 1], n_items=2, n_annotators=2, options=3)
    loss = AnnotatorLoss(small)
    assert torch.isfinite(loss(logits_of(1, 3), torch.tensor([2]), torch.tensor([1])))


# -------------------------------------------------------------------- types and devices


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_it_computes_in_float32_under_autocast(crowd: Crowd, dtype: torch.dtype) -> None:
    loss, n = AnnotatorLoss(crowd.annotations), crowd.annotations.n_items
    logits = logits_of(n, 3).detach().to(dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(logits, items=torch.arange(n))
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(loss(logits.double(), items=torch.arange(n)).item(), rel=1e-5)


# -------------------------------------------------------------------- what it records, and the annotators


def test_p_is_recorded_before_the_step_and_not_in_evaluation(crowd: Crowd) -> None:
    loss = AnnotatorLoss(crowd.annotations)
    with pytest.raises(RealmError, match="nothing is recorded"):
        loss.update()
    logits = logits_of(4, 3)
    with torch.no_grad():
        loss(logits, items=torch.tensor([0, 1, 2, 3]))
    assert np.isnan(loss.log_probs).all()
    loss(logits, items=torch.tensor([7, 1, 5, 3]))
    np.testing.assert_allclose(loss.log_probs[[7, 1, 5, 3]], log_softmax(logits.detach().numpy()))
    assert np.isnan(loss.log_probs[0]).all()


def test_all_doors_give_the_same_annotators(crowd: Crowd) -> None:
    """A door is a way in: the loss, the model itself and `estimate` agree on the same P."""
    annotations, probs = crowd.annotations, np.maximum(np.exp(crowd.log_probs), 0.01)
    log_probs = log_softmax(np.log(probs))
    loss = AnnotatorLoss(annotations)
    loss(torch.from_numpy(log_probs).requires_grad_(), items=torch.arange(annotations.n_items))
    loss.update(steps=5)
    model = AnnotatorModel(annotations).fit()
    model.update(log_probs, steps=5)
    for name, value in model.state().items():
        np.testing.assert_allclose(loss.model.state()[name], value, atol=1e-12, err_msg=name)
    one, two, three = loss.estimate(), model.estimate_at(log_probs, in_sample=True), realm.estimate(annotations, probs)
    for name, value in two.to_arrays().items():
        np.testing.assert_allclose(one.to_arrays()[name], value, atol=1e-9, err_msg=name)
    for name in ("accuracy", "low", "high", "expertise", "habits", "posterior"):
        value = getattr(model.estimate_at(log_probs), name)
        np.testing.assert_allclose(value, getattr(three, name), atol=0.02, err_msg=name)
    for name, value in loss.model.state().items():
        np.testing.assert_array_equal(model.state()[name], value, "a report leaves the trained model as it is")


def test_the_table_of_annotators_is_that_of_the_model(crowd: Crowd) -> None:
    loss = AnnotatorLoss(crowd.annotations)
    loss(torch.from_numpy(crowd.log_probs).requires_grad_(), items=torch.arange(crowd.annotations.n_items))
    loss.update()
    frame = loss.expertise().set_index("annotator")
    assert {"task", "expertise", "accuracy", "low", "high", "annotations", "accuracy_trained"} <= set(frame.columns)
    np.testing.assert_allclose(
        frame.loc[list(crowd.annotations.annotators), "accuracy"], loss.estimate().accuracy[:, 0], atol=5e-4
    )


def train(loss: AnnotatorLoss | None, crowd: Crowd, features: torch.Tensor, epochs: int = 30) -> nn.Linear:
    """A linear model by plain PyTorch, on annotations or, without a loss of ours, on every label as it is."""
    torch.manual_seed(0)
    model = nn.Linear(features.shape[1], 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    item, label = (torch.from_numpy(x.astype(np.int64)) for x in (crowd.annotations.item, crowd.annotations.label))
    for _ in range(epochs):
        for items in torch.randperm(len(features)).split(64):
            if loss is not None:
                value = loss(model(features[items]), items=items)
            else:
                rows = torch.isin(item, items).nonzero()[:, 0]
                value = nn.functional.cross_entropy(model(features[item[rows]]), label[rows])
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
        if loss is not None:
            loss.update()
    return model


def test_a_loop_of_ones_own_learns_whom_to_trust() -> None:
    rng = np.random.default_rng(3)
    features = rng.normal(size=(800, 8)).astype(np.float32)
    truth = (features @ rng.normal(size=8) > 0).astype(np.int64)
    item, annotator = np.repeat(np.arange(600), 2), rng.integers(0, 8, 1200)
    habit = np.array([0, 0, 0, 0.0, 1, 1, 1, 1])  # half read, half always give one answer, mostly
    guess = np.where(rng.random(1200) < 0.9, 1, 0)
    label = np.where(habit[annotator] > 0, guess, np.where(rng.random(1200) < 0.9, truth[item], 1 - truth[item]))
    crowd = Crowd(
        table(item, annotator, label, n_items=600, n_annotators=8, options=2), np.zeros((600, 2)), truth, habit
    )
    inputs = torch.from_numpy(features)
    loss = AnnotatorLoss(crowd.annotations)
    right = [
        (train(each, crowd, inputs[:600])(inputs[600:]).argmax(dim=1).numpy() == truth[600:]).mean()
        for each in (loss, None)
    ]
    assert right[0] > 0.9 and right[0] > right[1] + 0.1
    assert (loss.estimate().accuracy[:4, 0] > 0.75).all() and (loss.estimate().expertise[4:, 0] < 0.3).all()


def test_it_is_a_loss_of_transformers_trainer(tiny_model, tmp_path) -> None:
    from transformers import AutoModelForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

    crowd = simulate(1, annotators=ACCURACY, labels_each=20, per_item=2, options=3)
    rows = [{"input_ids": [5 + item % 7, 9], "attention_mask": [1, 1], "labels": item} for item in range(50)]
    loss = AnnotatorLoss(crowd.annotations)
    counts = []

    class Update(TrainerCallback):
        def on_epoch_end(self, *_, **__):
            counts.append(int((~np.isnan(loss.log_probs[:, 0])).sum()))
            loss.update()

    from transformers import BertConfig

    torch.manual_seed(0)
    config = BertConfig(vocab_size=20, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
                        num_labels=3)  # fmt: skip
    model = AutoModelForSequenceClassification.from_config(config)
    arguments = TrainingArguments(
        tmp_path, num_train_epochs=2, per_device_train_batch_size=5, report_to=[], gradient_accumulation_steps=2,
        save_strategy="no", logging_steps=1, use_cpu=True,
    )  # fmt: skip
    trainer = Trainer(model, arguments, train_dataset=rows, compute_loss_func=loss.for_trainer, callbacks=[Update()])
    trainer.train()
    assert counts == [50, 50]
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    reference = loss(torch.from_numpy(loss.log_probs), items=torch.arange(50)).item()
    assert losses and abs(np.mean(losses) - reference) < 0.5, "a mean over the items of an accumulated batch"


def record_a_share(folder: str) -> None:
    """One of several processes: it sees every second item, and updates with the others."""
    crowd = simulate(1, annotators=ACCURACY, labels_each=150, per_item=3, options=3)
    torch.distributed.init_process_group("gloo")
    rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    loss, own = AnnotatorLoss(crowd.annotations), torch.arange(rank, crowd.annotations.n_items, world)
    for sharper in (1.0, 2.0):  # the second time, each sees the other's items
        loss(sharper * torch.from_numpy(crowd.log_probs)[own].requires_grad_(), items=own)
        loss.update()
        own = torch.arange(1 - rank, crowd.annotations.n_items, world)
    save_file(loss.state_dict(), f"{folder}/{rank}.safetensors")
    torch.distributed.destroy_process_group()


def test_processes_share_what_they_have_recorded(crowd: Crowd, tmp_path) -> None:
    run_together(record_a_share, str(tmp_path))
    one, two = (load_file(tmp_path / f"{rank}.safetensors") for rank in range(2))
    alone, items = AnnotatorLoss(crowd.annotations), torch.arange(crowd.annotations.n_items)
    for sharper in (1.0, 2.0):
        alone(sharper * torch.from_numpy(crowd.log_probs).requires_grad_(), items=items)
        alone.update()
    for name, value in alone.state_dict().items():
        torch.testing.assert_close(one[name], value)
        torch.testing.assert_close(two[name], value)


# -------------------------------------------------------------------- state


def test_its_state_is_arrays_and_comes_back(crowd: Crowd, tmp_path) -> None:
    class Module(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head, self.loss = nn.Linear(2, 3), AnnotatorLoss(crowd.annotations)

    one, two = Module(), Module()
    one.loss(torch.from_numpy(crowd.log_probs).requires_grad_(), items=torch.arange(crowd.annotations.n_items))
    one.loss.update()
    save_file(one.state_dict(), tmp_path / "state.safetensors")
    state = load_file(tmp_path / "state.safetensors")
    assert all(isinstance(value, torch.Tensor) for value in state.values()) and not list(one.loss.parameters())
    two.load_state_dict(state)
    logits, items = logits_of(9, 3), torch.arange(9)
    assert one.loss(logits, items=items).item() == two.loss(logits, items=items).item()
    np.testing.assert_array_equal(one.loss.estimate().posterior[9:], two.loss.estimate().posterior[9:])
    other = AnnotatorLoss(simulate(1, annotators=ACCURACY, labels_each=90, options=3).annotations)
    with pytest.raises(RuntimeError, match="AnnotatorLoss"):
        other.load_state_dict(one.loss.state_dict())


def test_arrays_alone_will_do() -> None:
    loss = AnnotatorLoss.from_arrays([0, 0, 1, 2], [0, 1, 1, 0], [1, 1, 0, 2], n_options=3)
    assert loss.annotations.n_items == 3 and loss.annotations.annotators == ("0", "1")
    for arrays in (([0, 1], [0], [1]), ([0], [0], [3]), ([-1], [0], [1]), ([0.5], [0], [1])):
        with pytest.raises(RealmError):
            AnnotatorLoss.from_arrays(*arrays, n_options=3)


def test_wrong_inputs_are_named(crowd: Crowd) -> None:
    loss, logits = AnnotatorLoss(crowd.annotations), logits_of(2, 3)
    one, two = torch.tensor([0, 1]), torch.tensor([[0], [1]])
    for arguments, message in (
        ((one, two), "same shape"), ((one, None), "same shape"), ((one, one, one + 999), "rows of the table"),
        ((one, one, torch.tensor([0])), "rows of the table"), ((torch.tensor([0, 3]), one), "number of options"),
        ((one, torch.tensor([0, 9])), "number of options"), ((), "`items` are needed"),
    ):  # fmt: skip
        with pytest.raises(RealmError, match=message):
            loss(logits, *arguments)
    for width in (2, 4):
        with pytest.raises(RealmError, match=f"has {width} columns"):
            loss(logits_of(2, width), one, one)
    with pytest.raises(RealmError, match="Annotations"):
        AnnotatorLoss([0, 1])
