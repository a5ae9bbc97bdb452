"""REALM on a task that can be learnt: it beats noisy training, ranks the annotators and recovers their ratios."""

from __future__ import annotations

import numpy as np
import pytest

from realm.channels import IdentityChannel, uniform
from realm.methods import METHODS, RAW
from realm.training import RealmTrainer
from tests.tiny import crowd, save_tiny
from tests.trainers import trainer

ACCURACIES = (0.9, 0.3, 0.3)
SETTINGS = {
    "learning_rate": 7e-3,
    "expertise_learning_rate": 0.2,
    "max_steps": 220,
    "per_device_train_batch_size": 32,
    "gradient_accumulation_steps": 1,
    "logging_steps": 1000,
}


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return save_tiny(tmp_path_factory.mktemp("learning") / "model", "bert", layers=1, width=32)


def accuracy(model, folder, seed: int, method: str) -> tuple[float, RealmTrainer]:
    train = crowd(600, ACCURACIES, per_item=1, seed=10 * seed)
    made = trainer(model, train, folder, test=crowd(200, (1.0, 1.0), seed=999), seed=seed, method=method, **SETTINGS)
    made.train()
    return made.evaluate()["eval_accuracy"], made


@pytest.fixture(scope="module")
def runs(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return {(m, s): accuracy(model, folder, s, m) for m in ("realm", "noisy") for s in range(3)}


def test_realm_beats_noisy_by_a_clear_margin_on_every_seed(runs) -> None:
    for seed in range(3):
        assert runs["realm", seed][0] > runs["noisy", seed][0] + 0.05
        assert runs["realm", seed][0] > 0.8


def test_realm_ranks_the_annotators_and_recovers_the_ratio_of_their_expertise(runs) -> None:
    """Implied beta at K=4: (0.9 - 1/4) / (3/4) = 0.867 against (0.3 - 1/4) / (3/4) = 0.067, a ratio of 0.077."""
    for seed in range(3):
        made = runs["realm", seed][1]
        beta = made.channel.expertise().numpy()[:, 0]
        by_name = dict(zip(made.annotations.annotators, beta, strict=True))
        assert by_name["w0"] > 0.6
        assert max(by_name["w1"], by_name["w2"]) < 0.25
        assert (by_name["w1"] + by_name["w2"]) / 2 / by_name["w0"] == pytest.approx(0.077, abs=0.12)
        table = made.expertise().set_index("annotator")
        assert table["accuracy"].idxmax() == "w0" and (table["scale"] == "relative").all()


class Ignorant(IdentityChannel):
    """What `realm` would be if it took every label for the truth."""

    @classmethod
    def from_annotations(cls, annotations, start=0.0):
        return cls()


def test_the_margin_is_the_channels_doing(model, runs, tmp_path, monkeypatch) -> None:
    """With the identity channel in place of the mixture, `realm` is no better than noisy: the margins above fail."""
    monkeypatch.setattr(uniform, "UniformChannel", Ignorant)
    without, _ = accuracy(model, tmp_path, 0, "realm")
    assert without == runs["noisy", 0][0]


def test_every_method_trains_on_its_own_labels(model, tmp_path) -> None:
    table = crowd(60, (0.9, 0.8, 0.3))
    for method, row in METHODS.items():
        made = trainer(model, table, tmp_path, method=method, **{**SETTINGS, "max_steps": 2})
        made.train()
        per_item = made.training_annotations.annotations_per_item
        assert (per_item > 0).all() if row.soft else (per_item == (3 if row.labels == RAW else 1)).all()
        assert (made.channel is None) == (row.channel == "identity")
        if method == "oracle":
            np.testing.assert_array_equal(made.training_annotations.label, table.gold)
