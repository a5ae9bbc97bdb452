"""Gold when there is some, experts, an earlier estimate, the update without a learning rate, and cross-fitting."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from realm.data import Annotations
from realm.errors import RealmError
from realm.runs import Run
from realm.training import RealmModel
from tests.tiny import COLOURS, crowd, save_tiny, sentences
from tests.trainers import DEFAULT, trainer, trajectory


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return save_tiny(tmp_path_factory.mktemp("gold") / "model", "bert", layers=1, width=32)


LONG = {
    "learning_rate": 7e-3, "max_steps": 150, "per_device_train_batch_size": 32, "gradient_accumulation_steps": 1,
    "logging_steps": 1000,
}  # fmt: skip


def colluders(n: int = 400, seed: int = 0) -> Annotations:
    """Four annotators who give the same wrong label on 40% of the items, and three honest ones at 0.7."""
    generator = np.random.default_rng(seed)
    texts, truth = sentences(n, seed)
    agreed = np.where(generator.random(n) < 0.4, (truth + 1) % 4, truth)
    rows = []
    for i in range(n):
        labels = {f"c{j}": agreed[i] for j in range(4)}
        for j in range(3):
            labels[f"h{j}"] = truth[i] if generator.random() < 0.7 else (truth[i] + generator.integers(1, 4)) % 4
        who = generator.permutation(list(labels))[:5]
        rows += [
            {"item": i, "text": texts[i], "annotator": w, "label": COLOURS[labels[w]], "gold": COLOURS[truth[i]]}
            for w in who
        ]
    rows += [{"item": i, "text": texts[i], "annotator": "e", "label": COLOURS[truth[i]], "gold": COLOURS[truth[i]]}
             for i in range(0, n, 10)]  # fmt: skip
    return Annotations.from_pandas(pd.DataFrame(rows), labels=COLOURS)


def cleaned(table: Annotations, truth: np.ndarray, made) -> float:
    return float((made.estimate().posterior.argmax(1) == truth).mean())


def trained_expertise(made) -> np.ndarray:
    return made.channel.summary()["expertise_trained"][:, 0]


def truly_right(table: Annotations, name: str) -> float:
    own = table.annotator == table.annotators.index(name)
    return float(np.mean(table.label[own] == table.gold[table.item[own]]))


def test_colluders_are_seen_through_by_what_they_copy_by_gold_and_by_one_expert(model, tmp_path) -> None:
    table = colluders()
    truth = table.gold
    some = np.where(np.arange(table.n_items) % 10 == 0, truth, -1).astype(np.int32)
    none = trainer(model, replace(table, gold=None), tmp_path, **LONG, **DEFAULT)
    gold = trainer(model, replace(table, gold=some), tmp_path, use_gold=True, **LONG, **DEFAULT)
    expert = trainer(model, replace(table, gold=None), tmp_path, experts=["e"], **LONG, **DEFAULT)
    found = {}
    for name, made in (("none", none), ("gold", gold), ("expert", expert)):
        made.train()
        frame = made.expertise().set_index("annotator")
        honest, crooked = frame.loc[["h0", "h1", "h2"]], frame.loc[["c0", "c1", "c2", "c3"]]
        found[name] = (cleaned(table, truth, made), honest, crooked)
    for how, (share, honest, crooked) in found.items():
        assert share > 0.75, found  # a vote, which the colluders decide: 0.6
        assert honest["accuracy"].min() > crooked["accuracy"].max(), found
        assert (crooked["verdict"] != "reliable").all(), found
        for name, one in honest.iterrows():
            assert one["low"] < truly_right(table, name) < one["high"], (how, name, found)
    trained = expert.channel.summary()["expertise_trained"]
    assert trained[list(table.annotators).index("e"), 0] > 0.99


def test_gold_is_learnt_by_the_model_and_stands_for_p_in_the_channel(tiny_model, tmp_path) -> None:
    table = crowd(6)
    gold = np.array([0, -1, 2, -1, -1, 1], dtype=np.int32)
    made = trainer(tiny_model("bert"), replace(table, gold=gold), tmp_path, double=True, use_gold=True)
    model: RealmModel = made.model.eval()
    batch = next(iter(made.get_train_dataloader()))
    assert model.count(batch) == table.n_annotations + 3
    found = model(**batch).exp()
    log_probs = model.scorer(batch)
    beta = model.channel.omega.sigmoid()[:, 0]
    expected = []
    for item, who, label in zip(
        batch["annotation_item"], batch["annotation_annotator"], batch["annotation_labels"], strict=True
    ):
        known = int(batch["gold"][item])
        p = log_probs[item, label].exp() if known < 0 else torch.tensor(float(known == label))
        expected.append(beta[who] * p + (1 - beta[who]) / 4)
    expected += [log_probs[i, g].exp() for i, g in enumerate(batch["gold"]) if g >= 0]
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-9, atol=1e-9, check_dtype=False)


def test_expertise_starts_at_its_estimate_on_gold_items(tiny_model, tmp_path) -> None:
    settings = {"use_gold": True, "max_steps": 1, "expertise_learning_rate": 0.0}
    made = trainer(tiny_model("bert"), crowd(60, (0.95, 0.3)), tmp_path, **settings)
    made.train()
    beta = trained_expertise(made)
    assert beta[0] > 0.85 and beta[1] < 0.25
    with pytest.raises(RealmError, match="`use_gold` needs gold"):
        trainer(tiny_model("bert"), crowd(5, gold=False), tmp_path, use_gold=True)


@pytest.mark.parametrize("method", ["noisy", "majority"])
def test_without_a_channel_gold_takes_the_place_of_the_labels(method, tiny_model, tmp_path) -> None:
    table = crowd(20)
    gold = np.where(np.arange(20) < 5, table.gold, -1).astype(np.int32)
    made = trainer(tiny_model("bert"), replace(table, gold=gold), tmp_path, use_gold=True, method=method, max_steps=2)
    assert (made.training_annotations.annotations_per_item[:5] == 0).all()
    losses, _ = trajectory(made)
    assert np.isfinite(losses).all()


def test_the_em_update_needs_no_rate_and_a_guesser_stays_low(model, tmp_path) -> None:
    """After 30 epochs on a small table the model could know every label by heart."""
    table = crowd(60, (0.95, 0.9, 0.25), seed=3)
    settings = {**LONG, "max_steps": -1, "num_train_epochs": 30, "learning_rate": 3e-3}
    made = trainer(model, table, tmp_path, **DEFAULT | {"channel": "uniform"}, **settings)
    made.train()
    beta = dict(zip(table.annotators, trained_expertise(made), strict=True))
    assert beta["w2"] < 0.2 and beta["w0"] > 0.5


def test_the_em_update_knows_all_the_gold_from_its_first_step(tiny_model, tmp_path) -> None:
    """An annotator known from 40 gold items must not fall to chance for two labels that an untrained model doubts."""
    table = crowd(60, (0.95, 0.3))
    gold = np.where(np.arange(60) < 40, table.gold, -1).astype(np.int32)
    made = trainer(
        tiny_model("bert"), replace(table, gold=gold), tmp_path, use_gold=True, expertise_update="em", max_steps=1,
        per_device_train_batch_size=2, gradient_accumulation_steps=1,
    )  # fmt: skip
    made.train()
    beta = trained_expertise(made)
    assert beta[0] > 0.8 and beta[1] < 0.3


def test_the_em_update_starts_from_an_earlier_estimate_and_weighs_it_by_its_interval(tiny_model, tmp_path) -> None:
    table = crowd(60, (0.25, 0.25, 0.25), per_item=1)
    rows = [
        {"annotator": who, "task": table.tasks[0].name, "accuracy": 0.925, "low": low, "high": high}
        for who, low, high in (("w0", 0.92, 0.93), ("w1", 0.6, 0.99))
    ]
    made = trainer(tiny_model("bert"), table, tmp_path, prior=pd.DataFrame(rows), expertise_update="em", max_steps=3)
    made.train()
    beta = dict(zip(table.annotators, trained_expertise(made), strict=True))
    assert beta["w0"] == pytest.approx(0.9, abs=0.05) and beta["w1"] > beta["w2"]
    doubted = np.full((60, 4), np.log((1 - 0.05) / 3))  # a model that doubts every label
    doubted[np.arange(60), table.label] = np.log(0.05)
    made.channel.annotators.update(doubted, steps=20)
    beta = dict(zip(table.annotators, trained_expertise(made), strict=True))
    assert beta["w0"] > 0.8 > beta["w1"] > beta["w2"]


def test_many_epochs_with_one_label_each_are_warned_of(tiny_model, tmp_path) -> None:
    one, several = crowd(40).sparse(0), crowd(40)
    long = {"expertise_update": "em", "max_steps": -1, "num_train_epochs": 12}
    assert any("memorises" in warning for warning in trainer(tiny_model("bert"), one, tmp_path, **long).warnings)
    for table, settings in (
        (several, long),
        (one, long | {"num_train_epochs": 2}),
        (one, long | {"expertise_update": "gradient"}),
    ):
        assert not any("memorises" in w for w in trainer(tiny_model("bert"), table, tmp_path, **settings).warnings)


def test_the_em_update_resumes(tiny_model, tmp_path) -> None:
    from tests.invariant.test_resume import SETTINGS, StopAt

    table = crowd(40)
    chosen = {**SETTINGS, "expertise_update": "em"}
    whole = trainer(tiny_model("bert"), table, tmp_path / "whole", **chosen)
    whole.train()
    stopped = trainer(tiny_model("bert"), table, tmp_path / "part", **chosen)
    stopped.add_callback(StopAt(5))
    with pytest.raises(KeyboardInterrupt):
        stopped.train()
    again = trainer(tiny_model("bert"), table, tmp_path / "part", **chosen)
    again.train(resume_from_checkpoint=True)
    states = again.channel.state(), whole.channel.state()
    assert states[0].keys() == states[1].keys()
    for name, value in states[0].items():
        np.testing.assert_array_equal(value, states[1][name], err_msg=name)
    np.testing.assert_array_equal(again.updates.log_probs, whole.updates.log_probs)
    assert trained_expertise(whole).std() > 0


def test_cross_fit_judges_items_by_models_that_did_not_see_them(tiny_model, tmp_path) -> None:
    table = crowd(30)
    made = trainer(tiny_model("bert"), table, tmp_path / "run", cross_fit=3, write_run=True, max_steps=4)
    made.train()
    run = Run.open(tmp_path / "run")
    assert run.metrics["out_of_fold"] and run.metrics["folds"] == 3 and run.metrics["temperature"] > 0
    plain = trainer(tiny_model("bert"), table, tmp_path / "plain", max_steps=4)
    plain.train()
    assert not np.allclose(run.log_probs, plain.scores().log_probs, equal_nan=True)
    with pytest.raises(RealmError, match="`cross_fit=1`"):
        trainer(tiny_model("bert"), table, tmp_path, cross_fit=1)


def test_a_run_whose_folds_cannot_be_trained_is_kept(tiny_model, tmp_path, monkeypatch) -> None:
    def fail(*_, **__):
        raise RealmError("no fold today.")

    monkeypatch.setattr("realm.training.results.cross_fit", fail)
    made = trainer(tiny_model("bert"), crowd(20), tmp_path / "run", cross_fit=2, max_steps=1, write_run=True)
    made.train()
    run = Run.open(tmp_path / "run")
    assert run.probabilities == "before each step" and run.metrics["out_of_fold"] is False
    assert any("nothing is out of fold: no fold today." in warning for warning in run.metrics["warnings"])


def test_a_fold_that_holds_all_of_the_gold_is_trained_without_it(tiny_model, tmp_path) -> None:
    table = crowd(12)
    some = np.where(np.arange(12) == 3, table.gold, -1).astype(np.int32)
    made = trainer(tiny_model("bert"), replace(table, gold=some), tmp_path, use_gold=True, cross_fit=2, max_steps=1)
    made.train()
    assert made.folds == 2, made.warnings


def test_more_folds_than_texts_and_unknown_experts_are_refused_before_training(tiny_model, tmp_path) -> None:
    with pytest.raises(RealmError, match="too few for 5 folds"):
        trainer(tiny_model("bert"), crowd(3), tmp_path, cross_fit=5)
    with pytest.raises(RealmError, match="`experts`: no such annotator: nobody"):
        trainer(tiny_model("bert"), crowd(3), tmp_path, method="noisy", experts=["nobody"])


def test_an_expert_stays_one_whatever_an_earlier_run_said(tiny_model, tmp_path) -> None:
    table = crowd(20)
    settings = {"max_steps": 1, "experts": [table.annotators[0]]}
    first = trainer(tiny_model("bert"), table, tmp_path, **settings)
    first.train()
    prior = first.expertise().assign(accuracy=0.475, low=0.4, high=0.55)
    made = trainer(tiny_model("bert"), table, tmp_path, prior=prior, **settings)
    assert float(made.channel.expertise()[0, 0]) == pytest.approx(0.999, abs=1e-5)
    assert any("estimates of 3 of the 3 annotators" in warning for warning in made.warnings)
    with pytest.raises(RealmError, match="numbers in accuracy"):
        trainer(tiny_model("bert"), table, tmp_path, prior=prior.drop(columns="accuracy"), **settings)


def test_an_epoch_counts_the_items_with_labels_only(tiny_model, tmp_path) -> None:
    """40 items with labels and 160 without: three epochs of ten steps each, and ten updates in each of them."""
    table = crowd(200)
    table = table.keep_annotations(table.item < 40).without_gold()
    updates = []
    made = trainer(
        tiny_model("bert"), table, tmp_path, **DEFAULT, max_steps=-1, num_train_epochs=3,
        per_device_train_batch_size=4,
    )  # fmt: skip
    update = made.channel.update
    made.channel.update = lambda *args: (updates.append(made.state.global_step), update(*args))
    made.train()
    assert made.state.global_step == 30 and updates == list(range(1, 31))
    one = crowd(200, per_item=1)
    one = one.keep_annotations(one.item < 20).without_gold()
    long = {"expertise_update": "em", "per_device_train_batch_size": 4, "max_steps": 60}  # 12 epochs of 20 items
    assert any("memorises" in text for text in trainer(tiny_model("bert"), one, tmp_path, **long).warnings)


def test_unlabelled_and_unvisited_items_have_probabilities_of_a_model_not_trained_on_them(tiny_model, tmp_path) -> None:
    table = crowd(60)
    table = table.keep_annotations(table.item < 40).without_gold()
    made = trainer(tiny_model("bert"), table, tmp_path, **DEFAULT, max_steps=3, per_device_train_batch_size=4)
    made.train()
    latest = made.updates.log_probs
    visited = ~np.isnan(latest[:, 0])
    assert visited.sum() == 12 and not visited[40:].any()
    found = made.out_of_sample()
    np.testing.assert_array_equal(found[visited], latest[visited])
    now = made.score_training_items().log_probs  # a temperature of 1 leaves P as it is
    assert made.temperature > 1 or np.allclose(found[~visited], now[~visited], atol=1e-6)
    assert np.isfinite(made.estimate().posterior).all()


def test_a_fold_knows_nothing_of_its_labels(tiny_model, tmp_path, monkeypatch) -> None:
    """The annotator model of a fold is fitted to the other folds' labels alone, and starts anew."""
    from realm.training import RealmTrainer

    table = crowd(30)
    folds = []
    train = RealmTrainer.train

    def spied(self, *args, **kwargs):
        result = train(self, *args, **kwargs)
        if self.is_fold:
            folds.append(self)
        return result

    monkeypatch.setattr(RealmTrainer, "train", spied)
    made = trainer(tiny_model("bert"), table, tmp_path, **DEFAULT, cross_fit=3, max_steps=2)
    made.train()
    fold_of_item = table.items.folds(3, seed=0)
    for fold, part in enumerate(folds):
        held_out = fold_of_item == fold
        model = part.channel.annotators
        assert model.annotations.n_annotations == (~held_out[table.item]).sum()
        assert not held_out[model.annotations.item].any()
        assert np.isnan(part.updates.log_probs[held_out]).all(), "its record is its own"
        np.testing.assert_allclose(
            made.out_of_sample()[held_out], part.score_training_items().log_probs[held_out], atol=1e-6
        )
        flipped = replace(
            table, label=np.where(held_out[table.item], (table.label + 1) % 4, table.label).astype(np.int32)
        )
        again = trainer(
            tiny_model("bert"), flipped.keep_annotations(~held_out[table.item]), tmp_path, **DEFAULT, max_steps=2
        )
        again.train()
        np.testing.assert_array_equal(
            again.channel.summary()["accuracy_trained"], part.channel.summary()["accuracy_trained"]
        )
    assert len(folds) == 3


def test_gold_items_come_from_a_file(tmp_path) -> None:
    from realm.data.gold import read_gold

    table = crowd(5, gold=False)
    (tmp_path / "gold.csv").write_text("item,gold\ni0,red\ni3,blue\n")
    found = read_gold(table, tmp_path / "gold.csv")
    assert found.gold.tolist() == [COLOURS.index("red"), -1, -1, COLOURS.index("blue"), -1]
    for content, said in (("item,gold\nx,red\n", "no item 'x'"), ("item,gold\ni0,pink\n", "'pink' is not among"),
                          ("item\ni0\n", "no column 'gold'")):  # fmt: skip
        (tmp_path / "gold.csv").write_text(content)
        with pytest.raises(RealmError, match=said):
            read_gold(table, tmp_path / "gold.csv")
