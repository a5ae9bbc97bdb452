"""The confidence of answers: fitted out of fold where there are folds, and in the plain checkpoint of a classifier."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from realm.runs import Run
from realm.scorers import load_scorer
from realm.scorers.scoring import score
from tests.tiny import crowd
from tests.trainers import DEFAULT, trainer


def softened(log_probs: np.ndarray, temperature: float) -> np.ndarray:
    scores = log_probs / temperature
    return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))


def best_temperature(log_probs: np.ndarray, said: np.ndarray) -> float:
    """By brute force: the temperature of 1 or more with the least cross-entropy."""
    grid = np.exp(np.linspace(0, np.log(20), 2001))
    return float(grid[np.argmin([-(said * softened(log_probs, each)).sum() for each in grid])])


def overconfident(table, strength: float = 2.0) -> np.ndarray:
    """P of a model that knows something of the truth and is four times too sure of it. (items, K)"""
    scores = np.random.default_rng(3).normal(size=(table.n_items, 4))
    scores[np.arange(table.n_items), table.gold] += strength
    return softened(scores, 0.25)


@pytest.mark.parametrize("use_gold", [False, True])
def test_the_temperature_is_that_of_the_truth_and_reads_gold_only_if_asked(
    use_gold, tiny_model, tmp_path, monkeypatch
) -> None:
    table = crowd(200, accuracies=(0.9, 0.8, 0.6))
    log_probs = overconfident(table)
    flipped = replace(table, gold=((table.gold + 1) % 4).astype(np.int32))  # so that reading it would show
    monkeypatch.setattr("realm.training.results.cross_fit", lambda *_, **__: log_probs)
    made = trainer(tiny_model("causal"), flipped, tmp_path, **DEFAULT, cross_fit=2, max_steps=1, use_gold=use_gold)
    made.train()
    votes = np.zeros((200, 4))
    np.add.at(votes, (table.item, table.label), 1 / 3)
    truth, labels = (best_temperature(log_probs, said) for said in (np.eye(4)[table.gold], votes))
    assert (made.temperature > 1.2 * labels) == use_gold, "all of this gold speaks against the model"
    assert use_gold or 0.8 * truth < made.temperature, (
        "labels are right 77% of the time, and P is no surer than they are"
    )
    assert made.scorer.temperature == made.temperature
    assert any("labels of items that were not trained on" in note for note in made.notes)


@pytest.mark.parametrize("method", ["realm", "noisy", "majority"])
def test_every_method_is_calibrated_and_never_sharpened(method, tiny_model, tmp_path, monkeypatch) -> None:
    table = crowd(200, accuracies=(0.9, 0.8, 0.6)).without_gold()
    temperatures = []
    for distortion in (0.25, 3.0):
        log_probs = softened(overconfident(crowd(200, accuracies=(0.9, 0.8, 0.6))), 4 * distortion)
        monkeypatch.setattr("realm.training.results.cross_fit", lambda *_, said=log_probs, **__: said)
        made = trainer(tiny_model("causal"), table, tmp_path, **DEFAULT, method=method, cross_fit=2, max_steps=1)
        made.train()
        temperatures.append(made.scorer.temperature)
    assert temperatures[0] > 1.5 and temperatures[1] == 1.0


@pytest.mark.parametrize("layers", [0, "head"])
def test_the_plain_checkpoint_of_a_classifier_is_as_sure_as_predict(layers, tiny_model, tmp_path, monkeypatch) -> None:
    table = crowd(40, tasks=2)
    settings = {**DEFAULT, "write_run": True, "max_steps": 5, "train_layers": layers, "cross_fit": 0}
    found = {}
    for fitted in (1.0, 2.5):
        monkeypatch.setattr("realm.crowd.model.AnnotatorModel.best_temperature", lambda *_, t=fitted, **__: t)
        made = trainer(tiny_model("bert"), table, tmp_path / str(fitted), **settings)
        made.train()
        found[fitted] = made.score_training_items().log_probs
    np.testing.assert_allclose(found[2.5], softened(found[1.0], 2.5), rtol=1e-4, atol=1e-5)
    run = Run.open(tmp_path / "2.5")
    assert json.loads((run.folder / "scorer.json").read_text())["temperature"] == 1.0
    assert "those of `realm predict`" in (run.folder / "model" / "README.md").read_text()
    tokenizer = AutoTokenizer.from_pretrained(run.folder / "model")
    model = AutoModelForSequenceClassification.from_pretrained(run.folder / "model").eval()
    text = table.texts[0].as_py()
    with torch.no_grad():
        logits = model(
            **{k: v for k, v in tokenizer(text, return_tensors="pt").items() if k != "token_type_ids"}
        ).logits
    shares = json.loads(run.predict([text], task="t0")["probabilities"][0])
    np.testing.assert_allclose(logits[0, :4].softmax(0), list(shares.values()), atol=2e-6)


def test_a_head_that_cannot_take_the_temperature_is_left_as_it_was(tiny_model, monkeypatch) -> None:
    table = crowd(20)
    scorer = load_scorer(tiny_model("bert"), table.items)
    weight = scorer.backbone.classifier.weight.detach().clone()
    forward = scorer.backbone.classifier.forward
    monkeypatch.setattr(scorer.backbone.classifier, "forward", lambda states: forward(states) + 1)
    encoded = scorer.encode(table.items)
    sharp = score(scorer, encoded).log_probs
    scorer.temperature = 3.0
    scorer.merge_temperature()
    assert scorer.temperature == 3.0 and torch.equal(scorer.backbone.classifier.weight, weight)
    np.testing.assert_allclose(score(scorer, encoded).log_probs, softened(sharp, 3.0), rtol=1e-5)
