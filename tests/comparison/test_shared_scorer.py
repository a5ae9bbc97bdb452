"""A model shared by the cells of a process gives each of them what its own load would have given."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from realm.comparison import shared_scorer
from realm.comparison import training as cell_training
from realm.comparison.cells import Cell, CellTables
from realm.comparison.compare import TableData
from realm.comparison.training import Job, train_cell
from tests.tiny import crowd

SETTINGS = {
    "learning_rate": 1e-2,
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 1,
    "train_layers": 1,
}


class WithGold(TableData):
    """The same tables, and gold items to fit the model to first."""

    def load(self, method: str, seed: int) -> CellTables:
        return replace(super().load(method, seed), gold_apart=crowd(24, seed=9))


@pytest.fixture(params=[1, "head"])
def cells(request, tiny_model) -> list[Cell]:
    data = TableData(crowd(40, (0.9, 0.8, 0.6)), crowd(20, seed=5))
    order = [("realm", 0), ("noisy", 1), ("realm", 1), ("noisy", 0)]
    settings = {**SETTINGS, "train_layers": request.param}
    return [Cell(tiny_model("bert"), data, method, seed, 6, settings) for method, seed in order]


@pytest.fixture(autouse=True)
def nothing_loaded():
    shared_scorer._LATEST.clear()
    yield
    shared_scorer._LATEST.clear()


def test_every_cell_is_the_same_as_with_a_model_of_its_own(cells, monkeypatch) -> None:
    together = [train_cell(Job(cell)) for cell in cells]
    assert len(shared_scorer._LATEST) == 1
    monkeypatch.setattr(cell_training, "shared_scorer", lambda *arguments: None)
    alone = [train_cell(Job(cell)) for cell in cells]
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_array_equal(one.gold_log_probs, other.gold_log_probs)
        assert one.metrics == other.metrics and one.expertise == other.expertise and one.config == other.config
    assert not np.array_equal(together[1].gold_log_probs, together[3].gold_log_probs)  # a head is drawn by the seed


def test_a_model_fitted_to_gold_first_has_an_opinion_and_the_next_cell_has_none(cells, monkeypatch) -> None:
    """The fit must not stay behind in the shared model."""
    asked = []
    train = cell_training.RealmTrainer.train

    def recording(trainer, *arguments, **settings):
        asked.append((trainer.args.method, trainer.scorer.new_head, trainer.args.max_steps))
        return train(trainer, *arguments, **settings)

    monkeypatch.setattr(cell_training.RealmTrainer, "train", recording)
    plain = cells[0]
    with_gold = replace(plain, data=WithGold(plain.data.annotations, plain.data.test))
    first, fitted, again = (train_cell(Job(cell)) for cell in (plain, with_gold, plain))
    opinion = ("oracle", True, cell_training.OPINION_STEPS)
    assert asked == [("realm", True, 6), opinion, ("realm", False, 6), ("realm", True, 6)]
    np.testing.assert_array_equal(first.gold_log_probs, again.gold_log_probs)
    assert not np.array_equal(first.gold_log_probs, fitted.gold_log_probs)


def test_weights_and_tokens_are_read_once_for_a_seed(cells, monkeypatch) -> None:
    loads = []
    load = shared_scorer.load_scorer
    monkeypatch.setattr(shared_scorer, "load_scorer", lambda *a, **k: loads.append(a) or load(*a, **k))
    for cell in cells:
        train_cell(Job(cell))
    assert len(loads) == 2


def test_a_model_that_trains_as_a_whole_is_not_shared(cells) -> None:
    for changed in ({"train_layers": 0}, {"train_layers": 0, "lora_rank": 2}):
        cell = Cell(cells[0].model, cells[0].data, "noisy", 0, 1, {**SETTINGS, **changed})
        train_cell(Job(cell))
        assert not shared_scorer._LATEST
