"""How long a training is by default: by the size of the table."""

from __future__ import annotations

import pytest

from realm import RealmConfig
from realm.training.settings import training_budget
from tests.tiny import crowd
from tests.trainers import trainer


@pytest.mark.parametrize(
    ("items", "epochs"),
    [(10, 15.0), (100, 15.0), (256, 15.0), (500, 250 / 32), (1000, 250 / 63), (1400, 3.0), (10**6, 3.0)],
)
def test_small_tables_are_passed_over_more_often(items: int, epochs: float, tmp_path) -> None:
    budget = training_budget(RealmConfig(str(tmp_path), use_cpu=True), items)
    assert budget.epochs == pytest.approx(epochs)


def test_what_is_set_is_done(tmp_path) -> None:
    assert training_budget(RealmConfig(str(tmp_path), num_train_epochs=2, use_cpu=True), 100).epochs == 2
    assert training_budget(RealmConfig(str(tmp_path), max_steps=7, use_cpu=True), 100).epochs == 1


@pytest.mark.parametrize(("length", "folds"), [({}, 2), ({"num_train_epochs": 15}, 0), ({"cross_fit": 0}, 0)])
def test_a_small_table_left_to_itself_is_judged_out_of_fold(length, folds, tiny_model, tmp_path) -> None:
    """Its model knows the labels by heart: on 500 single labels log loss 1.16 in-sample, .61 out of fold."""
    made = trainer(tiny_model("bert"), crowd(24), tmp_path / "run", max_steps=-1, write_run=True, **length)
    made.train()
    assert made.folds == folds and made.state.global_step == 15 * 2
    assert made.config.num_train_epochs == 15
