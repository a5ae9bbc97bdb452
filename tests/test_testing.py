"""`realm.testing`: tiny models and small annotations for users' own tests."""

from __future__ import annotations

import filecmp
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoTokenizer

import realm
from realm import RealmConfig, RealmError, RealmTrainer, Run
from realm.testing import COLOURS, small_annotations, tiny_model


@pytest.mark.parametrize(
    ("kind", "family"), [("classifier", "bert"), ("causal", "llama"), ("seq2seq", "t5")], ids=lambda value: value
)
def test_a_tiny_model_is_trained_and_asked(kind: str, family: str, tmp_path: Path) -> None:
    folder = tiny_model(tmp_path / "model", kind, layers=2, width=16)
    assert AutoConfig.from_pretrained(folder).model_type == family
    assert len(AutoTokenizer.from_pretrained(folder)("a red boat").input_ids) < 8
    settings = {"max_steps": 1, "use_cpu": True, "disable_tqdm": True, "save_strategy": "no"}
    RealmTrainer(folder, small_annotations(12), RealmConfig(str(tmp_path / "run"), **settings)).train()
    assert Run.open(tmp_path / "run").predict(["a red boat", "a blue bird"])["label"].isin(COLOURS).all()


def test_the_same_arguments_give_the_same_weights_and_leave_the_generator_alone(tmp_path: Path) -> None:
    state = torch.random.get_rng_state()
    folders = [Path(tiny_model(tmp_path / name, layers=1, seed=seed)) for name, seed in (("a", 0), ("b", 0), ("c", 1))]
    assert torch.equal(state, torch.random.get_rng_state())
    weights = [folder / "model.safetensors" for folder in folders]
    assert filecmp.cmp(weights[0], weights[1], shallow=False)
    assert not filecmp.cmp(weights[0], weights[2], shallow=False)


def test_small_annotations_are_what_was_asked_for() -> None:
    table = small_annotations(400, (0.9, 0.3), labels=3, tasks=2)
    assert [task.name for task in table.tasks] == ["t0", "t1"] and table.tasks[0].labels == tuple(COLOURS[:3])
    assert len(set(table.texts.to_pylist())) == 400
    right = table.label == table.gold[table.item]
    shares = [right[table.annotator == annotator].mean() for annotator in range(2)]
    np.testing.assert_allclose(shares, [0.9, 0.3], atol=0.08)
    assert (small_annotations(10, per_item=2, gold=False).annotations_per_item == 2).all()
    assert small_annotations(10, gold=False).gold is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tiny_model("nowhere", "bert"), "`kind=bert`: must be one of classifier"),
        (lambda: small_annotations(labels=5), "`labels=5`: must be 2 to 4"),
        (lambda: small_annotations(labels=1), "`labels=1`"),
        (lambda: small_annotations(per_item=4), "`per_item=4`: must be 1 to 3"),
    ],
)
def test_arguments_out_of_range_are_named(call, message: str) -> None:
    with pytest.raises(RealmError, match=message):
        call()


def test_the_module_is_an_attribute_of_the_package() -> None:
    assert realm.testing.tiny_model is tiny_model and "testing" in dir(realm)
