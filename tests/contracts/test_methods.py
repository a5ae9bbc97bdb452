"""A method is one row of `realm.methods`: with it, the method trains, and every command knows of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from realm.channels import UniformChannel, channel_class
from realm.comparison.cells import is_read
from realm.crowd.aggregation import aggregate
from realm.data.write import write_table
from realm.errors import RealmError
from realm.methods import COMPARED, METHODS, Method
from realm.objectives import OBJECTIVES
from realm.training import RealmTrainer
from realm.training.labels import training_labels
from realm.training.settings import Settings, check_values
from tests.contracts.commands import run_commands
from tests.tiny import crowd
from tests.trainers import config, trainer

ONE_COIN = Method("one-coin", "One coin", "trained on one-coin labels", "one-coin")

WITH_ROW = """
from realm.methods import METHODS, Method
METHODS["one-coin"] = Method("one-coin", "One coin", "trained on one-coin labels", "one-coin")
"""


def test_one_row_reaches_every_command(tmp_path: Path, tiny_model) -> None:
    labels, test, run, compared = (tmp_path / name for name in ("labels.csv", "test.csv", "run", "compared"))
    write_table(crowd(40, (0.9, 0.8, 0.6)), labels)
    crowd(20, seed=5).to_pandas()[["item", "text", "gold"]].drop_duplicates().to_csv(test, index=False)
    model = ["--model", tiny_model("bert"), "--steps", 2]
    results = run_commands(
        WITH_ROW,
        ["train", "--help"],
        ["compare", "--help"],
        ["check", labels, "--json"],
        ["train", labels, *model, "--method", "one-coin", "--output", run],
        ["compare", labels, "--test", test, *model, "--methods", "noisy,one-coin", "--seeds", 1, "--output", compared],
        ["train", labels, *model, "--method", "magic", "--output", tmp_path / "none"],
    )
    assert [code for code, _, _ in results] == [0, 0, 0, 0, 0, 2], results
    train_help, _, check, _, _, refused = results
    assert "one-coin" in train_help[1]
    verdicts = {verdict["name"]: verdict["applies"] for verdict in json.loads(check[1])["methods"]}
    assert list(verdicts) == [*METHODS, "one-coin"] and verdicts["one-coin"] == "yes"
    assert "one-coin (trained on one-coin labels)" in (run / "report.html").read_text()
    comparison = json.loads((compared / "results.json").read_text())
    assert [entry["method"] for entry in comparison["methods"]] == ["noisy", "one-coin"]
    assert f"must be one of {', '.join(METHODS)}, one-coin" in " ".join(refused[2].split())


def test_a_row_says_which_labels_are_trained_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RealmError, match="`method=one-coin`: must be one of"):
        check_values(Settings(method="one-coin"))
    monkeypatch.setitem(METHODS, "one-coin", ONE_COIN)
    check_values(Settings(method="one-coin"))
    table = crowd(60, (0.9, 0.6, 0.4))
    trained_on = training_labels(table, "one-coin").annotations
    assert trained_on.n_annotations == table.n_items and trained_on.annotators == ("aggregate",)
    assert (trained_on.label == aggregate(table, "one-coin").labels).all()


def test_what_the_rows_need_and_learn() -> None:
    learning = [name for name, method in METHODS.items() if method.learns_expertise]
    assert learning == ["realm", "raykar"]
    assert set(COMPARED) <= set(METHODS)
    assert [name for name, method in METHODS.items() if method.needs_gold] == ["oracle"]
    aggregators = {name: method.aggregator for name, method in METHODS.items() if method.aggregator}
    assert aggregators == {name: name.removeprefix("soft-") for name in aggregators}
    assert all(method.soft == name.startswith("soft-") for name, method in METHODS.items())
    assert set(aggregators) == {"majority", "soft-majority", "dawid-skene", "soft-dawid-skene", "mace", "soft-mace"}
    assert all(name == method.name for name, method in METHODS.items())


RIVALS = [name for name, method in METHODS.items() if method.channel not in (None, "identity")]


@pytest.mark.parametrize("method", RIVALS)
def test_a_row_says_how_its_channel_learns_whatever_is_set(method: str, tiny_model, tmp_path: Path) -> None:
    """Channel, objective and update are the row's; the same training comes out of other settings."""
    row, table = METHODS[method], crowd(40, (0.9, 0.6, 0.3))
    runs = []
    for channel, objective, update in (("uniform", "paper", "gradient"), ("habit", "joint", "em")):
        settings = {"channel": channel, "objective": objective, "expertise_update": update}
        made = RealmTrainer(tiny_model("bert"), table, config(tmp_path, method=method, max_steps=4, **settings))
        assert type(made.channel) is channel_class(row.channel)
        assert made.model.objective is OBJECTIVES[row.objective]
        assert (made.updates.channel is not None) == (row.update == "em")
        assert row.channel_settings.items() <= made.channel.settings().items()
        made.train()
        runs.append(made.channel.state())
    start = channel_class(row.channel).from_annotations(table, **row.channel_settings).state()
    assert any(not np.array_equal(value, start[name]) for name, value in runs[0].items()), "the channel has learned"
    for name, value in runs[0].items():
        np.testing.assert_array_equal(value, runs[1][name], err_msg=name)
    for name in ("channel", "objective", "expertise_update", "expertise_start"):
        assert not is_read(name, method) and is_read(name, "realm")
    assert is_read("expertise_learning_rate", method) == (row.update == "gradient")


@pytest.mark.parametrize("method", RIVALS)
def test_a_rival_is_cross_fitted_with_its_own_channel_and_no_other(method: str, tiny_model, tmp_path: Path) -> None:
    table = crowd(30, (0.9, 0.8, 0.7))
    made = trainer(tiny_model("bert"), table, tmp_path, method=method, max_steps=2, cross_fit=2)
    made.train()
    assert made.folds == 2 and np.isfinite(made.out_of_sample()).all()
    with pytest.raises(RealmError, match="has a channel of its own"):
        trainer(tiny_model("bert"), table, tmp_path, method=method, channel=UniformChannel(3))


def test_the_joint_objective_of_a_row_needs_batches_of_items(tmp_path: Path) -> None:
    with pytest.raises(RealmError, match="`method=raykar` needs all annotations of an item at once"):
        config(tmp_path, method="raykar", batch_unit="annotation")
    config(tmp_path, method="noisy", objective="joint", batch_unit="annotation")  # which does not read the objective
