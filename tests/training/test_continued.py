"""Going on from a run: the same numbers for the same names, the cost of what is new, and what changed since."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from realm import Annotations, RealmConfig, RealmError, RealmTrainer, Run
from realm.crowd.engine import log_softmax
from realm.training.continued import ContinuedRun, earlier_settings
from tests.tiny import COLOURS, crowd
from tests.trainers import BY_GRADIENT, DEFAULT, config

TEST_ITEMS = 40
SETTINGS = {**DEFAULT, "write_run": True, "max_steps": 4, "logging_steps": 2}


def frame(n_items: int = 120, **how) -> pd.DataFrame:
    return crowd(n_items, gold=False, **how).to_pandas().drop(columns="task", errors="ignore")


def table(rows: pd.DataFrame, labels=None) -> Annotations:
    return Annotations.from_pandas(rows, labels=labels)


def train(model, annotations: Annotations, folder: Path, **settings) -> Run:
    RealmTrainer(model, annotations, config(folder, **{**SETTINGS, **settings})).train()
    return Run.open(folder)


@pytest.fixture(scope="module", params=["bert", "seq2seq"])
def monday(request, tiny_model, tmp_path_factory) -> Run:
    rows = frame()
    rows = rows[rows.item.isin([f"i{i}" for i in range(100)])]
    return train(tiny_model(request.param), table(rows), tmp_path_factory.mktemp("monday") / "run")


def test_only_what_is_new_and_as_much_again_is_trained_on(monday, tmp_path) -> None:
    trainer = RealmTrainer(monday, table(frame()), config(tmp_path, **SETTINGS))
    continued = trainer.continued
    assert continued.diff.changed.sum() == 20 and continued.diff.new.sum() == 60
    assert len(continued.items) == 40 and set(np.flatnonzero(continued.diff.changed)) <= set(continued.items)
    assert trainer.training_annotations.n_items == 40 and trainer.channel_annotations.n_items == 120
    sampled = trainer.get_train_dataloader().batch_sampler.units
    assert len(sampled) == 40
    rows = continued.annotation_rows(trainer.channel_annotations)
    assert (trainer.channel_annotations.label[rows] == trainer.training_annotations.label).all()
    assert trainer.updates.updates_per_epoch == 3, "an update of the channel looks at all 120 items"


def labelled_again(monday: Run, items: list[int]) -> Annotations:
    """The run's table with one more annotation, by somebody new, of each of these items."""
    rows = monday.annotations.to_pandas()
    more = rows.drop_duplicates("item").set_index("item").loc[monday.annotations.item_ids.take(items).to_pylist()]
    return table(pd.concat([rows, more.reset_index().assign(annotator="zoe")]).drop(columns="task", errors="ignore"))


def test_doubtful_items_labelled_again_are_balanced_by_sure_ones(monday, tmp_path) -> None:
    order = np.argsort(monday.estimate.posterior.max(axis=1), kind="stable")
    doubtful = order[:10].tolist()
    later = labelled_again(monday, doubtful)
    continued = RealmTrainer(monday, later, config(tmp_path, **SETTINGS)).continued
    assert continued.diff.changed.sum() == 10 and len(continued.items) == 40
    parts = [np.isin(continued.diff.earlier_item[continued.items], part).sum() for part in np.split(order, 4)]
    assert parts == [10, 10, 10, 10]


@pytest.mark.parametrize("layers", [0, 1, "head"])
def test_the_weights_are_the_mean_of_both_runs_by_their_items(layers, monday, tmp_path, monkeypatch) -> None:
    settings = {**SETTINGS, "train_layers": layers}
    with monkeypatch.context() as patch:
        patch.setattr(ContinuedRun, "average_weights", lambda *_: None)
        alone = RealmTrainer(monday, table(frame()), config(tmp_path / "a", **settings))
        alone.train()
    both = RealmTrainer(monday, table(frame()), config(tmp_path / "b", **settings))
    both.train()
    alone.scorer.temperature = both.scorer.temperature = 1.0
    earlier, last = monday.scorer.backbone.state_dict(), alone.scorer.backbone.state_dict()
    share = 40 / 120  # 20 new items and 20 of the others, of 120
    moved = 0
    for name, weight in both.scorer.backbone.state_dict().items():
        if name.startswith("classifier"):  # has taken the temperature of its own run in
            continue
        expected = earlier[name] + share * (last[name] - earlier[name])
        torch.testing.assert_close(weight, expected, rtol=1e-4, atol=1e-6)
        moved += not torch.equal(weight, earlier[name])
    assert moved


def test_items_changed_evenly_need_no_others(monday, tmp_path) -> None:
    order = np.argsort(monday.estimate.posterior.max(axis=1), kind="stable")
    later = labelled_again(monday, order[::5].tolist())
    continued = RealmTrainer(monday, later, config(tmp_path, **SETTINGS)).continued
    assert continued.diff.changed.sum() == 20 and len(continued.items) == 20


def test_the_model_starts_where_the_run_ended_and_annotators_from_what_it_said(monday, tmp_path) -> None:
    trainer = RealmTrainer(monday, table(frame()), config(tmp_path, **SETTINGS))
    before = dict(monday.scorer.backbone.named_parameters())
    for name, parameter in trainer.scorer.backbone.named_parameters():
        assert torch.equal(parameter, before[name]), name
    started = []
    trainer.channel.fit = lambda scores, annotations: started.append(scores.log_probs.numpy().copy())
    trainer.channel.update = lambda scores, annotations: trainer.channel.fitted_model()
    trainer.train()
    np.testing.assert_array_equal(started[0], trainer.out_of_sample())


def test_a_channel_by_gradient_starts_where_the_runs_ended(tiny_model, tmp_path) -> None:
    settings = {"write_run": True, "max_steps": 3}
    rows = frame()
    first = train(tiny_model("bert"), table(rows[rows.item < "i2"]), tmp_path / "a", **{**BY_GRADIENT, **settings})
    newcomer = rows[rows.annotator == "w0"].assign(annotator="w9")
    later = RealmTrainer(first, table(pd.concat([rows, newcomer])), config(tmp_path / "b", **settings))
    np.testing.assert_allclose(
        later.channel.expertise()[:3].numpy(), first.channel_summary["expertise_trained"], rtol=1e-5
    )
    assert float(later.channel.expertise()[3, 0]) == 0.5


def test_what_was_said_before_training_judges_labels_and_annotators(monday, tmp_path) -> None:
    tuesday = train(monday, table(frame()), tmp_path / "run")
    assert tuesday.annotations.n_items == 120 and tuesday.estimate.annotations.sum() == 360
    old = tuesday.annotations.items
    new = [i for i, each in enumerate(old.ids.to_pylist()) if int(each[1:]) >= 100]
    match = {each: i for i, each in enumerate(monday.annotations.item_ids.to_pylist())}
    rows = [(i, match[each]) for i, each in enumerate(old.ids.to_pylist()) if each in match]
    here, there = np.array(rows).T
    temperature = tuesday.metrics["temperature"]  # what P still needs, which was calibrated by the earlier run
    assert np.allclose(tuesday.log_probs[here], log_softmax(monday.log_probs[there] / temperature), atol=1e-5)
    asked = monday.predict(tuesday.annotations.items.take(np.array(new)))
    before = log_softmax(tuesday.log_probs[new] * temperature)
    assert np.allclose(np.exp(before.max(axis=1)), asked.confidence, atol=1e-4)
    assert tuesday.probabilities == monday.probabilities
    assert tuesday.config["start"]["folder"].endswith("run") and tuesday.config["model"] == monday.config["model"]


def test_what_changed_is_said(monday, tmp_path) -> None:
    rows = frame()
    rows = rows[rows.annotator != "w2"]  # who has left, with all labels
    newcomer = rows[rows.annotator == "w0"].assign(annotator="w9")
    tuesday = train(monday, table(pd.concat([rows, newcomer]), labels=COLOURS), tmp_path / "run")
    changes = tuesday.changes
    assert changes.new_items == 20 and changes.new_annotators == ["w9"] and changes.gone_annotations == 100
    assert [row["annotator"] for row in changes.left] == ["w2"]
    known = monday.expertise.set_index("annotator").loc["w2"]
    kept = tuesday.expertise.set_index("annotator").loc["w2"]
    assert kept["annotations"] == 0 and kept["accuracy"] == pytest.approx(known["accuracy"])
    assert "no labels in this table" in kept["notes"]
    assert "w2" in (tmp_path / "run" / "expertise.csv").read_text()
    wednesday = train(
        tuesday, table(pd.concat([rows.assign(annotator="w1x"), rows, newcomer]), COLOURS), tmp_path / "b"
    )
    assert [row["annotator"] for row in wednesday.changes.left] == ["w2"], "who left before is still known"
    flipped = {row["item"]: row for row in changes.flipped}
    before, now = (run.labels.set_index("item")["label"] for run in (monday, tuesday))
    both = [each for each in before.index if before[each] != now[each]]
    assert sorted(flipped) == sorted(both) and changes.flipped_items == len(both)
    assert all(row["before"] == before[item] and row["now"] == now[item] for item, row in flipped.items())
    told = " ".join(changes.sentences())
    assert "w9" in told and "w2" in told and "20 new items" in told


def test_the_report_says_what_changed_and_hides_names_where_asked(monday, tmp_path) -> None:
    from realm.report.run_page import write_report

    rows = frame()
    rows = pd.concat([rows[rows.annotator != "w2"], rows[rows.annotator == "w0"].assign(annotator="newcomer")])
    tuesday = train(monday, table(rows, labels=COLOURS), tmp_path / "run")
    page = write_report(tuesday).read_text()
    assert "Since the last run" in page and "Who left" in page and "20 new items" in page
    assert "Since the last run" not in write_report(monday, output=tmp_path / "m.html").read_text()
    hidden = write_report(tuesday, output=tmp_path / "hidden.html", pseudonymise=True).read_text()
    part = hidden[hidden.index('id="since"') : hidden.index('id="limits"')]
    assert "Who left" in part and "w2" not in part and "newcomer" not in hidden


def test_where_most_is_new_everything_is_trained_on(monday, tmp_path) -> None:
    trainer = RealmTrainer(monday, table(frame(300)), config(tmp_path, **SETTINGS))
    assert trainer.continued.retrain_all and trainer.training_annotations.n_items == 300
    trainer.train()
    assert np.isfinite(Run.open(tmp_path).log_probs).all()


def test_a_new_label_grows_the_head_and_keeps_its_rows(tiny_model, tmp_path) -> None:
    rows = frame(labels=3)
    monday = train(tiny_model("bert"), table(rows[rows.item < "i2"]), tmp_path / "a")
    assert set(monday.tasks[0].labels) == set(COLOURS[:3])
    more = rows.copy()
    more.loc[more.item == "i7", "label"] = COLOURS[3]
    more.loc[more.item == "i8", "label"] = "amber"  # before all others where labels are sorted
    trainer = RealmTrainer(monday, table(more), config(tmp_path / "b", **SETTINGS))
    labels = trainer.annotations.tasks[0].labels
    assert labels[:3] == monday.tasks[0].labels and set(labels[3:]) == {COLOURS[3], "amber"}
    head, old = trainer.scorer.backbone.classifier, monday.scorer.backbone.classifier
    assert torch.equal(head.weight[:3], old.weight) and torch.equal(head.bias[:3], old.bias)
    assert head.weight.shape[0] == 5 and head.weight[3:].abs().max().item() > 0
    trainer.train()
    tuesday = Run.open(tmp_path / "b")
    assert tuesday.scorer.backbone.config.num_labels == 5
    assert tuesday.predict(["the small bird"]).label[0] in labels
    assert tuesday.changes.new_labels == {tuesday.tasks[0].name: list(labels[3:])}
    assert np.isfinite(tuesday.log_probs).all(), "no old item calls a new label impossible"


def test_a_removed_label_is_an_error_that_names_it(monday, tmp_path) -> None:
    rows = frame()
    with pytest.raises(RealmError, match=r"knows the label 'white'.*`labels`"):
        RealmTrainer(monday, table(rows[rows.label != "white"]), config(tmp_path, **SETTINGS))
    listed = table(rows[rows.label != "white"], labels=COLOURS)
    RealmTrainer(monday, listed, config(tmp_path, **SETTINGS))


def test_labels_in_another_order_mean_the_same(monday, tmp_path) -> None:
    rows = frame()
    tables = [table(rows, labels=names) for names in (COLOURS, COLOURS[::-1])]
    made = [RealmTrainer(monday, each, config(tmp_path, **SETTINGS)).annotations for each in tables]
    assert made[0].fingerprint() == made[1].fingerprint() and made[0].tasks == monday.tasks


def test_a_table_without_news_is_refused(monday, tmp_path) -> None:
    with pytest.raises(RealmError, match=r"nothing that .* was not trained on"):
        RealmTrainer(monday, monday.annotations, config(tmp_path, **SETTINGS))


def test_a_table_of_new_items_alone_is_warned_of(monday, tmp_path) -> None:
    rows = frame()
    fresh = rows[rows.item.isin([f"i{i}" for i in range(100, 120)])]
    assert any("may forget" in text for text in RealmTrainer(monday, table(fresh, COLOURS), config(tmp_path)).warnings)
    assert not any("may forget" in text for text in RealmTrainer(monday, table(rows), config(tmp_path)).warnings)


def test_settings_of_the_scorer_cannot_change(monday, tmp_path) -> None:
    with pytest.raises(RealmError, match=r"`instruction=Judge.`: .* goes on as it began"):
        RealmTrainer(monday, table(frame()), config(tmp_path, **SETTINGS, instruction="Judge."))


def test_settings_are_those_of_the_run_and_steps_become_epochs(monday, tmp_path) -> None:
    like = RealmConfig.like(monday, str(tmp_path), learning_rate=0.5)
    assert like.learning_rate == 0.5 and like.channel != "" and like.max_steps == -1
    assert like.num_train_epochs == pytest.approx(4 * 16 / 100)
    assert earlier_settings(monday)["seed"] == 0 and like.effective_batch_size == 16


def test_a_run_that_goes_on_resumes_to_the_byte(monday, tmp_path) -> None:
    settings = {**SETTINGS, "max_steps": 4, "save_strategy": "steps", "save_steps": 2}
    whole = train(monday, table(frame()), tmp_path / "whole", **settings)

    class Stop(Exception):
        pass

    cut = RealmTrainer(monday, table(frame()), config(tmp_path / "cut", **settings))
    step = cut.training_step

    def training_step(*args, **kwargs):
        if cut.state.global_step == 3:
            raise Stop
        return step(*args, **kwargs)

    cut.training_step = training_step
    with pytest.raises(Stop):
        cut.train()
    again = RealmTrainer(monday, table(frame()), config(tmp_path / "cut", **settings))
    again.train(resume_from_checkpoint=True)
    for name in ("model/model.safetensors", "estimate.safetensors", "channel.safetensors", "changes.json"):
        assert (tmp_path / "cut" / name).read_bytes() == (whole.folder / name).read_bytes(), name


def test_the_earlier_model_is_held_against_the_same_test(monday, tmp_path) -> None:
    test = crowd(TEST_ITEMS, seed=9)
    trainer = RealmTrainer(monday, table(frame()), config(tmp_path, **SETTINGS), test=test)
    trainer.train()
    tuesday = Run.open(tmp_path)
    before = monday.evaluate(trainer.test)
    assert tuesday.changes.test["before"]["accuracy"] == pytest.approx(before["accuracy"])
    assert tuesday.changes.test["now"]["accuracy"] == pytest.approx(tuesday.metrics["test"]["accuracy"])


def test_groups_go_on_with_their_annotators(tiny_model, tmp_path) -> None:
    def grouped(rows: pd.DataFrame) -> Annotations:
        kind = rows.annotator.map(lambda name: "model" if name == "w2" else "person")
        return Annotations.from_pandas(rows.assign(kind=kind), labels=COLOURS, group="kind")

    rows = frame()
    first = train(tiny_model("bert"), grouped(rows[rows.item.isin([f"i{i}" for i in range(100)])]), tmp_path / "a")
    assert first.annotations.groups == ("person", "person", "model")
    assert first.expertise.set_index("annotator")["group"].to_dict() == {"w0": "person", "w1": "person", "w2": "model"}
    assert "group" in (tmp_path / "a" / "expertise.csv").read_text().splitlines()[0].split(",")
    newcomer = rows[rows.annotator == "w0"].assign(annotator="w9")
    second = train(first, grouped(pd.concat([rows[rows.annotator != "w2"], newcomer])), tmp_path / "b")
    groups = dict(zip(second.annotations.annotators, second.annotations.groups, strict=True))
    assert groups == {"w0": "person", "w1": "person", "w2": "model", "w9": "person"}
    assert second.expertise.set_index("annotator")["group"].to_dict() == groups
    with pytest.raises(RealmError, match=r"had groups of annotators \(person, model\), and the table has none"):
        RealmTrainer(first, table(rows), config(tmp_path / "c", **SETTINGS))
