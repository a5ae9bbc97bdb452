"""However one comes in, by `RealmTrainer`, `AnnotatorLoss`, `estimate` or the model itself, annotators are the same."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from realm import AnnotatorLoss, estimate
from tests.tiny import crowd
from tests.trainers import BY_GRADIENT, DEFAULT, config, trainer


@pytest.mark.parametrize("per_item", [1, 3])
def test_the_loss_is_that_of_the_trainer(per_item: int, tiny_model, tmp_path) -> None:
    table = crowd(24, (0.9, 0.6, 0.3), per_item=per_item)
    made = trainer(tiny_model("causal"), table, tmp_path, double=True, per_device_train_batch_size=24, **DEFAULT)
    loss = AnnotatorLoss(table)
    made.channel.load_state(loss.model.state())
    (batch,) = made.get_train_dataloader()
    model = made.model.eval()
    with torch.no_grad():
        expected = -model(**batch).sum().item() / model.count(batch)
    log_probs = torch.from_numpy(np.asarray(made.score_training_items().log_probs, np.float64))
    assert loss(log_probs, items=torch.arange(table.n_items)).item() == pytest.approx(expected, rel=1e-5)


def test_the_annotators_are_those_of_the_trainer(tiny_model, tmp_path) -> None:
    table = crowd(60, (0.9, 0.8, 0.6, 0.3), per_item=3)
    made = trainer(tiny_model("causal"), table, tmp_path, per_device_train_batch_size=16, **DEFAULT)
    made.train()
    probs = np.exp(made.out_of_sample())
    reported, trained = made.estimate(), made.channel.state()
    loss = AnnotatorLoss(table)
    loss.model.load_state(trained)
    by_loss = loss.estimate(probs)
    for name, value in reported.to_arrays().items():
        np.testing.assert_allclose(by_loss.to_arrays()[name], value, atol=1e-6, err_msg=name)
    alone = estimate(table, probs)
    np.testing.assert_allclose(alone.accuracy, reported.accuracy, atol=0.05)
    assert (alone.posterior.argmax(axis=1) == reported.posterior.argmax(axis=1)).mean() > 0.9


@pytest.mark.parametrize("settings", [DEFAULT, BY_GRADIENT], ids=["closed form", "gradient"])
def test_judges_err_together_in_the_report_and_people_do_not(settings, tiny_model, tmp_path) -> None:
    table, confidence, kinds = crowd(60, (0.9, 0.8, 0.7), per_item=3), [], []
    for judges in (False, True):
        made = trainer(tiny_model("causal"), table, tmp_path, max_steps=2, **settings, judges=judges)
        made.train()
        kinds.append(made.report_model()[0].kind)
        confidence.append(made.estimate().posterior.max(axis=1).mean())
    assert kinds == [None, "models"] and confidence[1] < confidence[0] - 0.02
    assert "judges" not in config(tmp_path).settings() and config(tmp_path, judges=True).settings()["judges"]
