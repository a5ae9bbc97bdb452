"""The equations of the paper, against closed forms, enumeration and finite differences."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from realm.channels import IdentityChannel, ItemScores, Observed, UniformChannel
from realm.objectives import OBJECTIVES
from realm.scorers.answers import masked_log_softmax
from tests.tiny import crowd
from tests.trainers import trainer


def arrays(*values):
    return tuple(torch.tensor(value) for value in values)


def likelihood(channel, log_probs, counts, item, annotator, task, label, objective="paper"):
    """Terms of the log-likelihood of these annotations."""
    observed = Observed(item, annotator, task, label, torch.ones(len(item), dtype=log_probs.dtype))
    return OBJECTIVES[objective].log_likelihood(log_probs, channel(ItemScores(log_probs, counts), observed), observed)


def test_the_loss_against_a_table_computed_by_hand() -> None:
    # beta = 0.8 and 0.25; P = (0.7, 0.2, 0.1) at K=3 and (0.6, 0.4) at K=2.
    channel = UniformChannel(annotators=2).double()
    with torch.no_grad():
        channel.omega[:, 0] = torch.tensor([math.log(4.0), math.log(1 / 3)], dtype=torch.float64)
    log_probs = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.4, 0.0]], dtype=torch.float64).log()
    item, annotator, label = arrays([0, 0, 1, 1], [0, 1, 0, 1], [0, 2, 1, 0])
    found = likelihood(
        channel, log_probs, torch.tensor([3, 2]), item, annotator, torch.zeros(4, dtype=torch.long), label
    ).exp()
    by_hand = [
        0.8 * 0.7 + 0.2 / 3,  # 0.6266667
        0.25 * 0.1 + 0.75 / 3,  # 0.275
        0.8 * 0.4 + 0.2 / 2,  # 0.42
        0.25 * 0.6 + 0.75 / 2,  # 0.525
    ]
    np.testing.assert_allclose(found.detach().numpy(), by_hand, rtol=1e-12)
    np.testing.assert_allclose(found.detach().numpy(), [0.626666667, 0.275, 0.42, 0.525], atol=1e-8)
    loss = -found.detach().log().mean()
    assert float(loss) == pytest.approx(
        -(math.log(0.626666667) + math.log(0.275) + math.log(0.42) + math.log(0.525)) / 4
    )


def test_sure_annotators_give_cross_entropy_in_value_and_gradient() -> None:
    logits = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    counts = torch.tensor([4, 4, 3, 2, 4, 3])
    item, annotator, label = arrays([0, 0, 1, 2, 3, 4, 5], [0, 1, 1, 0, 1, 0, 1], [3, 0, 2, 1, 1, 0, 2])
    task = torch.zeros(7, dtype=torch.long)
    mixture = UniformChannel(annotators=2, start=50.0).double()
    results = []
    for channel in (mixture, IdentityChannel()):
        loss = -likelihood(channel, masked_log_softmax(logits, counts), counts, item, annotator, task, label).mean()
        (gradient,) = torch.autograd.grad(loss, logits)
        results.append((loss.detach(), gradient))
    expected = torch.stack(
        [-torch.log_softmax(logits[i, : counts[i]], 0)[k] for i, k in zip(item, label, strict=True)]
    ).mean()
    assert torch.allclose(results[0][0], expected, atol=1e-12)
    assert torch.allclose(results[0][0], results[1][0], atol=1e-12)
    assert torch.allclose(results[0][1], results[1][1], atol=1e-12)


@pytest.mark.parametrize("kind", ["seq2seq", "causal", "bert"])
def test_gradients_against_finite_differences(kind: str, tiny_model, tmp_path) -> None:
    made = trainer(tiny_model(kind), crowd(12, per_item=2), tmp_path, double=True)
    model = made.model.eval()
    batch = next(iter(made.get_train_dataloader()))

    def loss() -> torch.Tensor:
        return -model(**batch).mean()

    loss().backward()
    generator = np.random.default_rng(0)
    checked = 0
    for name, parameter in model.named_parameters():
        if parameter.grad is None or float(parameter.grad.abs().max()) < 1e-7:
            continue
        flat, gradient = parameter.data.view(-1), parameter.grad.view(-1)
        for place in generator.choice(len(flat), size=1):
            step, before = 1e-6, float(flat[place])
            flat[place] = before + step
            above = loss().item()
            flat[place] = before - step
            below = loss().item()
            flat[place] = before
            expected = (above - below) / (2 * step)
            assert expected == pytest.approx(float(gradient[place]), rel=1e-4, abs=1e-8), name
            checked += 1
    assert checked > 5


@settings(max_examples=60, deadline=None)
@given(
    omega=st.floats(-1e4, 1e4),
    k=st.integers(2, 26),
    wide=st.integers(0, 3),
    sharp=st.floats(0.0, 200.0),
    seed=st.integers(0, 2**16),
)
def test_labels_of_an_item_sum_to_one_and_stay_finite(omega, k, wide, sharp, seed) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = sharp * torch.randn(1, k + wide, generator=generator, dtype=torch.float64)
    channel = UniformChannel(annotators=1, start=omega).double()
    counts = torch.tensor([k])
    log_probs = masked_log_softmax(logits.requires_grad_(), counts)
    zeros = torch.zeros(k, dtype=torch.long)
    terms = likelihood(channel, log_probs, counts, zeros, zeros, zeros, torch.arange(k))
    assert torch.isfinite(terms).all()
    assert float(terms.detach().exp().sum()) == pytest.approx(1.0, abs=1e-9)
    terms.sum().backward()
    assert torch.isfinite(logits.grad).all() and torch.isfinite(channel.omega.grad).all()


def test_a_probability_of_zero_is_finite() -> None:
    channel = UniformChannel(annotators=1, start=1e4)
    log_probs = torch.tensor([[0.0, float("-inf")]])
    zero = torch.tensor([0])
    assert torch.isfinite(likelihood(channel, log_probs, torch.tensor([2]), zero, zero, zero, torch.tensor([1]))).all()


def test_mixed_k_in_one_batch_equals_tasks_run_apart(tiny_model, tmp_path) -> None:
    import pandas as pd

    from realm.data import Annotations

    rows = [
        {"text": f"red house {i}", "task": task, "annotator": f"w{i % 3}", "label": labels[i % len(labels)]}
        for task, labels in (("two", ["no", "yes"]), ("four", ["blue", "green", "red", "white"]))
        for i in range(9)
    ]
    both = Annotations.from_pandas(pd.DataFrame(rows))
    for kind, answers in (("causal", "letters"), ("causal", "names"), ("seq2seq", "letters"), ("bert", "auto")):
        made = trainer(tiny_model(kind), both, tmp_path, double=True, answers=answers)
        scorer = made.scorer.eval()
        with torch.no_grad():
            together = scorer(scorer.collate(made.encoded, np.arange(both.n_items)))
            for task, k in ((0, 2), (1, 4)):
                items = np.flatnonzero(both.item_tasks == task)
                apart = scorer(scorer.collate(made.encoded, items))
                assert apart.shape[1] == k
                np.testing.assert_allclose(together[items, :k], apart, atol=1e-10)
                assert np.isneginf(together[items, k:]).all()
                np.testing.assert_allclose(together[items].exp().sum(1), 1.0, atol=1e-10)


def test_the_matrix_with_one_task_equals_the_scalar() -> None:
    torch.manual_seed(0)
    scalar, matrix = UniformChannel(annotators=3), UniformChannel(annotators=3, tasks=4)
    with torch.no_grad():
        scalar.omega.copy_(torch.randn(3, 1))
        matrix.omega.copy_(torch.randn(3, 4))
        matrix.omega[:, 2] = scalar.omega[:, 0]
    log_probs = torch.randn(5, 3).log_softmax(1)
    counts = torch.full((5,), 3)
    item, annotator, label = arrays([0, 1, 2, 3, 4], [0, 1, 2, 0, 1], [0, 1, 2, 0, 1])
    one = likelihood(scalar, log_probs, counts, item, annotator, torch.zeros(5, dtype=torch.long), label)
    other = likelihood(matrix, log_probs, counts, item, annotator, torch.full((5,), 2), label)
    torch.testing.assert_close(one, other)


def test_expertise_is_kept_apart_by_task(tiny_model, tmp_path) -> None:
    """An annotator who labels one task only moves in that task's column only."""
    table = crowd(24, tasks=2)
    keep = ~((table.annotator == 1) & (table.item_tasks[table.item] == 1))
    made = trainer(tiny_model("bert"), table.keep_annotations(keep), tmp_path, max_steps=3)
    made.train()
    omega = made.channel.omega.detach().numpy()
    assert omega.shape == (3, 2)
    assert omega[1, 1] == 0.0 and omega[1, 0] != 0.0


def test_deleting_the_gold_column_changes_no_byte_of_a_run(tiny_model, tmp_path) -> None:
    with_gold = crowd(24, per_item=2)
    without = replace(with_gold, gold=None)
    folders = []
    for name, table in (("with", with_gold), ("without", without)):
        made = trainer(
            tiny_model("causal"),
            table,
            tmp_path / name,
            max_steps=3,
            write_run=True,
            save_strategy="steps",
            save_steps=2,
        )
        made.train()
        folders.append(tmp_path / name)
    files = [sorted(p.relative_to(f) for p in f.rglob("*") if p.is_file()) for f in folders]
    assert files[0] == files[1] and len(files[0]) > 8
    for name in files[0]:
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes(), name


class CopyingCrowd(UniformChannel):
    """Annotators who err together, whose items have an offset, and whose labels count twice."""

    def evidence_exponent(self, observed):
        return torch.full((len(observed.item),), 0.3)

    def item_offset(self, scores):
        return torch.tensor([0.5, 0.0, -0.5, 0.0]).expand(len(scores.log_probs), 4)

    def annotation_weights(self, observed):
        return 2 * observed.weight


def test_exponent_weights_and_offset_enter_the_joint_likelihood(tiny_model, tmp_path) -> None:
    """Against enumeration: log sum_k P(k) exp(offset_k) prod_a P(label of a | k)^(w tau), of the items of a batch."""
    made = trainer(tiny_model("bert"), crowd(6), tmp_path, channel=CopyingCrowd(3), objective="joint")
    batch = next(iter(made.get_train_dataloader()))
    terms = made.model.eval()(**batch).detach()
    log_probs = made.scorer(batch).detach().double()
    torch.testing.assert_close(made.model.item_log_probs.double(), log_probs, msg="P itself stays as it is")
    item, label = batch["annotation_item"], batch["annotation_labels"]
    for index in torch.unique(item):
        rows, total = torch.nonzero(item == index)[:, 0], 0.0
        for k, offset in enumerate((0.5, 0.0, -0.5, 0.0)):
            factors = [(0.5 * float(label[row] == k) + 0.5 / 4) ** (2 * 0.3) for row in rows]  # beta = 0.5
            total += math.exp(log_probs[index, k] + offset) * math.prod(factors)
        assert float(terms[index]) == pytest.approx(math.log(total), rel=1e-5)
