"""What those who know Hugging Face or scikit-learn try first works, or says what to do; objects show what they are."""

from __future__ import annotations

import copy
import inspect
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from transformers import AutoModel, TrainingArguments

import realm
from realm import Annotations, RealmConfig, RealmError, RealmTrainer, Run
from realm.display import notebook_html
from realm.testing import small_annotations
from tests.trainers import trainer

HOSTILE = "<script>alert(1)</script>"

# -------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("load", r"Run\.open\(folder\)"),
        ("Trainer", "RealmTrainer"),
        ("Annotation", "Did you mean `Annotations`"),
        ("quaternion", "has no attribute 'quaternion'$"),
    ],
)
def test_names_that_the_package_has_not(name: str, message: str) -> None:
    with pytest.raises(AttributeError, match=message):
        getattr(realm, name)
    assert not hasattr(realm, "__wrapped__")  # what pytest and inspect look for


def test_a_notebook_completes_the_public_names() -> None:
    assert set(realm.__all__) <= set(dir(realm))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tests": None}, "Did you mean `test`"),
        ({"quaternion": None}, "It has: model, annotations, config"),
    ],
)
def test_trainer_arguments_by_other_names(arguments: dict, message: str) -> None:
    with pytest.raises(RealmError, match=message):
        RealmTrainer(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lerning_rate": 1}, "no argument `lerning_rate`. Did you mean `learning_rate`"),
        ({"quaternion": 1}, r"See help\(RealmConfig\)"),
    ],
)
def test_settings_by_other_names(arguments: dict, message: str, tmp_path: Path) -> None:
    with pytest.raises(RealmError, match=message):
        RealmConfig(str(tmp_path), **arguments)


def test_settings_given_to_a_comparison_say_where_they_belong() -> None:
    table = small_annotations(12)
    with pytest.raises(
        RealmError, match=r"compare: there is no argument `max_steps`. It is a setting: .*settings={'max"
    ):
        realm.compare(table, table, max_steps=2)
    with pytest.raises(RealmError, match="Did you mean `methods`"):
        realm.compare(table, table, method="noisy")
    assert list(inspect.signature(realm.compare).parameters)[:3] == ["annotations", "test", "model"]


def test_signatures_are_those_of_the_constructors() -> None:
    """A notebook's help shows them."""
    assert list(inspect.signature(RealmTrainer).parameters)[:4] == ["model", "annotations", "config", "test"]
    assert "train_layers" in inspect.signature(RealmConfig).parameters


# -------------------------------------------------------------------- types


def test_arguments_of_other_types_say_how_to_make_them(tiny_model, tmp_path: Path) -> None:
    model, table, config = tiny_model("bert"), small_annotations(12), RealmConfig(str(tmp_path), use_cpu=True)
    frame = table.to_pandas()
    for arguments, message in (
        ((model, config, table), "`annotations` is a RealmConfig, not `Annotations`"),
        ((model, frame, config), r"`annotations` is a DataFrame.*Annotations\.from_pandas\(frame\)"),
        ((model, "labels.csv", config), r"Annotations\.read\('labels\.csv'\)"),
        ((model, table.to_dataset(), config), r"Annotations\.from_dataset\(dataset\)"),
        ((model, frame.to_dict("records"), config), r"`annotations` is a list.*Annotations\.from_list\(records\)"),
        ((model, table.items, config), "`annotations` is a Items, not `Annotations`"),
        ((model, table, "runs/x"), r"`config` is a str"),
        ((model, table, TrainingArguments(str(tmp_path))), "`config` is a TrainingArguments"),
        ((AutoModel.from_pretrained(model), table, config), "`model` is a BertModel"),
        ((None, table, config), "`model` is a NoneType"),
    ):
        with pytest.raises(RealmError, match=message):
            RealmTrainer(*arguments)
    with pytest.raises(RealmError, match=r"`test` is a DataFrame.*test_from_pandas\(frame, tasks="):
        RealmTrainer(model, table, config, test=frame)
    with pytest.raises(RealmError, match=r"`test` is 'test.csv'.*read_test\(path, tasks="):
        RealmTrainer(model, table, config, test="test.csv")
    for channel in ("habit", 3):
        with pytest.raises(RealmError, match=r"`channel` is .* it must be a `Channel`"):
            RealmTrainer(model, table, config, channel=channel)
    with pytest.raises(RealmError, match="`eval_strategy=steps`: give the table to evaluate on as `test`"):
        RealmTrainer(model, table, RealmConfig(str(tmp_path), use_cpu=True, eval_strategy="steps"))
    made = RealmTrainer(Path(model), table, config)
    assert made.model_name == model


def test_functions_that_take_annotations_say_so() -> None:
    frame = small_annotations(12).to_pandas()
    for call in (
        lambda: realm.aggregate(frame, "majority"),
        lambda: realm.estimate(frame, np.zeros((12, 4))),
        lambda: realm.compare(frame, small_annotations(12)),
        lambda: realm.simulate(frame, [0.9]),
    ):
        with pytest.raises(RealmError, match=r"`annotations` is a DataFrame.*from_pandas"):
            call()
    with pytest.raises(RealmError, match="`test` is a DataFrame"):
        realm.compare(small_annotations(12), frame)


# -------------------------------------------------------------------- estimators


def test_aggregators_are_estimators() -> None:
    arrays = ([0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2], [1, 1, 0, 0, 0, 0])
    for aggregator in (realm.MajorityVote(), realm.DawidSkene(), realm.Mace(), realm.OneCoin()):
        labels = aggregator.fit_predict(*arrays, n_options=2)
        assert labels.tolist() == [1, 0] == aggregator.labels_.tolist()
        assert copy.deepcopy(aggregator).labels_.tolist() == [1, 0]
        with pytest.raises(RealmError, match=r"aggregate\(annotations, method\)"):
            aggregator.fit(small_annotations(3), None, None)


# -------------------------------------------------------------------- a trainer and its run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, tiny_model) -> RealmTrainer:
    frame = small_annotations(20).to_pandas()
    table = Annotations.from_pandas(
        frame.replace({"annotator": {"w1": HOSTILE}, "label": {"red": HOSTILE}}).assign(gold=None)
    )
    folder = tmp_path_factory.mktemp("manners") / "run"
    made = trainer(tiny_model("bert"), table, folder, write_run=True, max_steps=2, save_strategy="epoch")
    made.train()
    return made


def test_a_run_shows_what_it_is(trained: RealmTrainer) -> None:
    run = Run.open(trained.run)
    assert repr(run).endswith("20 items, 3 annotators, 60 annotations)") and "realm on" in repr(run)
    shown = run._repr_html_()
    assert HOSTILE not in shown and shown.count("&lt;script&gt;") >= 1  # an annotator
    assert "<td>w0</td>" in shown and "rest on" in shown
    assert copy.copy(run).folder == run.folder and copy.deepcopy(run).config == run.config


def test_settings_show_what_they_are() -> None:
    config = RealmConfig("runs/x", max_steps=7, experts=[HOSTILE])
    assert repr(config).startswith(f"RealmConfig('runs/x', experts=['{HOSTILE}']")


def test_results_show_what_they_are(trained: RealmTrainer) -> None:
    estimate = trained.estimate()
    assert repr(estimate) == "Estimate(20 items, 3 annotators, 1 task)"
    result = realm.aggregate(trained.annotations, "majority")
    assert repr(result) == "Aggregate(20 of 20 items labelled, 3 annotators)"


def test_both_ends_of_a_long_table_are_shown() -> None:
    table = pd.DataFrame({"a": range(100, 111), "b": 0.123456})
    shown = notebook_html("x", {"none": None, "empty": "", "zero": 0}, table)
    assert "the last 5 of 11 rows" in shown and shown.count("0.123<") == 10 and "zero" in shown
    assert "<td>104</td>" in shown and "<td>105</td>" not in shown and "<td>110</td>" in shown
    assert "none" not in shown and "empty" not in shown
    assert "rows" not in notebook_html("x", {}, table.head(10))


def test_a_run_is_opened_not_made() -> None:
    with pytest.raises(RealmError, match=r"Run\.open\('runs/x'\)"):
        Run("runs/x")  # type: ignore[arg-type]


def test_a_text_alone_is_answered_as_in_a_list(trained: RealmTrainer) -> None:
    run = Run.open(trained.run)
    one = run.predict("a red boat")
    pd.testing.assert_frame_equal(one, run.predict(["a red boat"]))
    rows = [{"text": "a red boat", "shelf": 3}, {"text": "the bird", "shelf": 4}]
    answers = run.predict(rows)
    assert answers["shelf"].tolist() == [3, 4] and answers["label"][0] == one["label"][0]
    import datasets

    pd.testing.assert_frame_equal(run.predict(datasets.Dataset.from_list(rows)), answers)
    assert run.model.config.model_type == "bert" and run.tokenizer("a").input_ids


@pytest.mark.parametrize("text", ["new.csv", "data/new.JSONL", " labels.parquet"])
def test_the_name_of_a_file_is_no_text(text: str, trained: RealmTrainer) -> None:
    for predict in (Run.open(trained.run).predict,):
        with pytest.raises(RealmError, match=r"looks like a file"):
            predict(text)
        assert len(predict([text])) >= 1  # the text itself


def test_a_trainer_evaluates_another_table(trained: RealmTrainer) -> None:
    tasks = trained.annotations.tasks
    frame = small_annotations(12, seed=5).to_pandas().replace({"gold": {"red": HOSTILE}})[["item", "text", "gold"]]
    test = Annotations.test_from_pandas(frame.drop_duplicates("item"), tasks=tasks)
    figures = trained.evaluate(test)
    assert Run.open(trained.run).evaluate(frame.to_dict("records"))["accuracy"] == figures["eval_accuracy"]
    with pytest.raises(RealmError, match="give `Items` or `Annotations`"):
        trained.evaluate(frame)
    with pytest.raises(RealmError, match="`test` is int"):
        Run.open(trained.run).evaluate(3)  # type: ignore[arg-type]
