"""A method is one row of `realm.methods`: with it, the method trains, and every command knows of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from realm.crowd.aggregation import aggregate
from realm.data.write import write_table
from realm.errors import RealmError
from realm.methods import METHODS, Method
from realm.training.labels import training_labels
from realm.training.settings import Settings, check_values
from tests.contracts.commands import run_commands
from tests.tiny import crowd

GLAD = Method("glad", "GLAD", "trained on GLAD labels", "glad")

WITH_ROW = """
from realm.methods import METHODS, Method
METHODS["glad"] = Method("glad", "GLAD", "trained on GLAD labels", "glad")
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
        ["train", labels, *model, "--method", "glad", "--output", run],
        ["compare", labels, "--test", test, *model, "--methods", "noisy,glad", "--seeds", 1, "--output", compared],
        ["train", labels, *model, "--method", "magic", "--output", tmp_path / "none"],
    )
    assert [code for code, _, _ in results] == [0, 0, 0, 0, 0, 2], results
    train_help, compare_help, check, _, _, refused = results
    assert "glad" in train_help[1] and "glad" in compare_help[1]
    verdicts = {verdict["name"]: verdict["applies"] for verdict in json.loads(check[1])["methods"]}
    assert list(verdicts) == [*METHODS, "glad"] and verdicts["glad"] == "yes"
    assert "glad (trained on GLAD labels)" in (run / "report.html").read_text()
    comparison = json.loads((compared / "results.json").read_text())
    assert [entry["method"] for entry in comparison["methods"]] == ["noisy", "glad"]
    assert f"must be one of {', '.join(METHODS)}, glad" in " ".join(refused[2].split())


def test_a_row_says_which_labels_are_trained_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RealmError, match="`method=glad`: must be one of"):
        check_values(Settings(method="glad"))
    monkeypatch.setitem(METHODS, "glad", GLAD)
    check_values(Settings(method="glad"))
    table = crowd(60, (0.9, 0.6, 0.4))
    trained_on = training_labels(table, "glad").annotations
    assert trained_on.n_annotations == table.n_items and trained_on.annotators == ("aggregate",)
    assert (trained_on.label == aggregate(table, "glad").labels).all()


def test_what_the_rows_need_and_learn() -> None:
    assert [name for name, method in METHODS.items() if method.learns_expertise] == ["realm"]
    assert [name for name, method in METHODS.items() if method.needs_gold] == ["oracle"]
    aggregators = {name: method.aggregator for name, method in METHODS.items() if method.aggregator}
    assert aggregators == {name: name.removeprefix("soft-") for name in aggregators}
    assert all(method.soft == name.startswith("soft-") for name, method in METHODS.items())
    assert set(aggregators) == {"majority", "soft-majority", "dawid-skene", "soft-dawid-skene"}
    assert all(name == method.name for name, method in METHODS.items())
