"""Flags that say how a table is read, as typed: several files, annotators left out, labels renamed, encodings."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from realm.data import Annotations
from realm.data.roles import TrainedColumns
from realm.errors import RealmError
from realm.runs import Run
from tests.tiny import crowd


def batches(folder: Path) -> list[Path]:
    """Two batches in which one label is spelled in two ways, and an annotator who guesses."""
    table = crowd(40, (0.9, 0.9, 0.8, 0.5)).to_pandas().drop(columns=["item", "task"])
    first = table["label"].unique()[0]
    table["label"] = table["label"].where((table.index % 5 != 0) | (table["label"] != first), first.upper())
    paths = [folder / "one.csv", folder / "two.csv"]
    for path, part in zip(paths, (table[:70], table[70:]), strict=True):
        part.to_csv(path, index=False)
    (folder / "map.yaml").write_text(f"{first.upper()}: {first}\n")
    return paths


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny_model, realm_cli) -> Path:
    folder = tmp_path_factory.mktemp("reading")
    paths = batches(folder)
    flags = ("--model", tiny_model("bert"), "--steps", "3", "--cross-fit", "0", "--output", folder / "run")
    code, _, error = realm_cli("train", *paths, "--exclude", "w3", "--map-labels", folder / "map.yaml", *flags)
    assert code == 0, error
    return folder / "run"


def test_a_run_remembers_how_its_table_was_read(trained: Path, tmp_path: Path, tiny_model, realm_cli) -> None:
    run, folder = Run.open(trained), trained.parent
    assert run.config["exclude"] == ["w3"] and len(run.config["map_labels"]) == 1
    assert "w3" not in run.annotations.annotators and len(run.tasks[0].labels) == 4
    ((variant, label),) = run.config["map_labels"].items()
    test = pd.DataFrame({"text": ["a red boat", "the old tree"], "gold": [variant, label]})
    test.to_csv(tmp_path / "test.csv", index=False)
    code, out, error = realm_cli("evaluate", trained, tmp_path / "test.csv", "--json")
    assert code == 0 and json.loads(out)["items"] == 2, error
    one = Annotations.read(folder / "one.csv", trained=run.trained_columns)
    assert "w3" not in one.annotators and len(one.tasks[0].labels) == 4
    assert any(f"left out as in the run {trained}: w3" in warning for warning in one.ledger.warnings)
    back = Annotations.read(folder / "one.csv", trained=run.trained_columns, exclude=[""])
    assert "w3" in back.annotators and not back.ledger.warnings
    raw = Annotations.read(folder / "one.csv")
    assert raw.corrections.exclude == () and not raw.corrections.map_labels and "w3" in raw.annotators


def test_a_run_without_corrections_says_nothing_of_them(tmp_path: Path) -> None:
    from realm.runs.writer import describe

    table = crowd(10)
    entries = describe("m", table, {}, gold_used=False).as_dict()
    assert "exclude" not in entries and "map_labels" not in entries


def test_no_run_is_written_into_a_folder_that_is_read(tmp_path: Path, realm_cli) -> None:
    (tmp_path / "batches").mkdir()
    batches(tmp_path / "batches")
    (tmp_path / "batches" / "map.yaml").unlink()
    inside = ("--output", tmp_path / "batches" / "run", "--model", tmp_path / "no model")
    for words in (("train",), ("compare", "--test", tmp_path / "no test")):
        code, _, error = realm_cli(*words, tmp_path / "batches", *inside)
        assert code == 2 and "which is read as a table. Name a folder elsewhere" in " ".join(error.split())
    outside = ("--output", tmp_path / "batches-run", "--model", tmp_path / "no model")
    code, _, error = realm_cli("train", tmp_path / "batches", *outside)
    assert code == 2 and "elsewhere" not in error


def test_both_orders_of_an_excluded_judge_are_left_out(tmp_path: Path, realm_cli) -> None:
    rows = [
        (t, f"{who}{order}", "xy"[n % 2])
        for n, t in enumerate("abcdef")
        for who in ("gpt", "llm", "qwen")
        for order in ("", "-2")
    ]
    pd.DataFrame(rows, columns=["text", "annotator", "label"]).to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "c.yaml").write_text("order_suffix: '-2'\n")
    code, out, error = realm_cli(
        "judges", tmp_path / "t.csv", "--config", tmp_path / "c.yaml", "--exclude", "gpt", "--json"
    )
    assert code == 0 and {judge["annotator"] for judge in json.loads(out)["judges"]} == {"llm", "qwen"}, error


def test_read_refuses_an_annotator_who_is_not_there(tmp_path: Path) -> None:
    one, two = batches(tmp_path)
    with pytest.raises(RealmError, match=r"one\.csv and .*two\.csv: `exclude=\"zed\"`"):
        Annotations.read([one, two], exclude="zed")


def test_a_test_table_needs_no_ids(tmp_path: Path, tiny_model, realm_cli) -> None:
    """Flags of the table trained on name columns that identify an item: a test table need not have them."""
    table = crowd(40, per_item=2).to_pandas().rename(columns={"item": "doc", "text": "words", "task": "job"})
    table = table.assign(sure=1.0, team="a")
    table[:-10].to_csv(tmp_path / "labels.csv", index=False)
    test = crowd(20, seed=5).to_pandas()[["text", "gold"]].drop_duplicates().rename(columns={"text": "words"})
    test.to_csv(tmp_path / "test.csv", index=False)
    (tmp_path / "c.yaml").write_text("weight: sure\n")
    flags = ("--item", "doc", "--text", "words", "--task", "job", "--group", "team", "--config", tmp_path / "c.yaml")
    both = (tmp_path / "labels.csv", *flags, "--test", tmp_path / "test.csv")
    code, out, error = realm_cli("check", *both, "--json")
    assert code == 0 and "not compared" not in error, error
    training = ("--model", tiny_model("bert"), "--steps", "2", "--output")
    code, _, error = realm_cli("train", *both, *training, tmp_path / "run")
    assert code == 0, error
    assert Run.open(tmp_path / "run").metrics["test"]["items"] == len(test)
    code, out, error = realm_cli("evaluate", tmp_path / "run", tmp_path / "test.csv", "--json")
    assert code == 0 and json.loads(out)["items"] == len(test), error
    code, _, error = realm_cli("compare", *both, "--methods", "noisy", "--seeds", "1", *training, tmp_path / "compared")
    assert code == 0, error


def test_other_columns_of_a_test_table_are_still_demanded(tmp_path: Path, realm_cli) -> None:
    table = crowd(40, per_item=2).to_pandas().rename(columns={"item": "doc", "text": "words"})
    table.to_csv(tmp_path / "labels.csv", index=False)
    test = table[["words", "gold"]].drop_duplicates()
    command = ("train", tmp_path / "labels.csv", "--output", tmp_path / "run", "--model", tmp_path / "none")
    for changed, flags, expected in (
        (test.rename(columns={"words": "text"}), (), '`text="words"`: there is no such column'),
        (test.rename(columns={"gold": "truth"}), ("--gold", "gold"), '`gold="gold"`: there is no such column'),
        (test.rename(columns={"gold": "truth"}), (), "Name the right one with `gold`"),
    ):
        changed.to_csv(tmp_path / "test.csv", index=False)
        words = (*command, "--item", "doc", "--text", "words", *flags, "--test", tmp_path / "test.csv")
        code, _, error = realm_cli(*words)
        assert code == 2 and expected in " ".join(error.split()), error
    table.assign(task=["a", "b"] * (len(table) // 2), doc=range(len(table))).to_csv(tmp_path / "two.csv", index=False)
    test.to_csv(tmp_path / "test.csv", index=False)
    words = (tmp_path / "two.csv", "--text", "words", "--item", "doc", "--task", "task", "--test")
    code, _, error = realm_cli("check", *words, tmp_path / "test.csv")
    assert code == 2 and '`task="task"`: there is no such column' in " ".join(error.split()), error


def test_a_column_that_is_typed_for_the_table_itself_is_demanded(tmp_path: Path) -> None:
    path = tmp_path / "test.csv"
    path.write_text("words,gold\na,x\nb,y\n")
    with pytest.raises(RealmError, match="there is no such column"):
        Annotations.read_test(path, text="words", item="doc")
    table = Annotations.read_test(path, text="words", item="doc", optional=("item",))
    assert table.n_items == 2 and table.columns == {"text": "words"}


def test_an_export_as_test_table_needs_no_ids(tmp_path: Path) -> None:
    """A field that is named for the training table is looked for where the tool keeps the fields of its items."""
    tasks = [
        {"id": n, "data": {"text": f"t{n}", "doc": f"d{n % 2}", "truth": "x"}, "annotations": []} for n in range(2)
    ]
    path = tmp_path / "test.json"
    path.write_text(json.dumps(tasks))
    read = partial(Annotations.read_test, path, item="doc", gold="truth", optional=("item",))
    assert read().items.ids.to_pylist() == ["d0", "d1"]
    for task in tasks:
        del task["data"]["doc"]
    path.write_text(json.dumps(tasks))
    assert read().items.ids.to_pylist() == ["0", "1"]
    trained = TrainedColumns("runs/earlier", {"text": "text", "item": "doc"}, "label-studio")
    assert Annotations.read_test(path, gold="truth", trained=trained).n_items == 2
    with pytest.raises(RealmError, match='`item="doc"`: there is no such field'):
        Annotations.read_test(path, item="doc", gold="truth", trained=trained)
