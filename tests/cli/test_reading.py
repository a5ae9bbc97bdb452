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


def test_every_command_reads_several_files(tmp_path: Path, realm_cli) -> None:
    one, two = batches(tmp_path)
    flags = ("--exclude", "w3", "--map-labels", tmp_path / "map.yaml")
    code, out, error = realm_cli("check", one, two, *flags, "--json")
    told = json.loads(out)
    assert code == 0 and told["annotators"] == 3, error
    assert told["dropped"]["annotator excluded: w3"] and all(
        f"{tmp_path}" in row for row in told["rows"]["annotator excluded: w3"]
    )
    code, out, error = realm_cli("aggregate", one, two, *flags, "--method", "majority", "--json")
    assert code == 0 and len(json.loads(out)["annotators"]) == 3, error
    code, out, error = realm_cli("judges", one, two, *flags, "--json")
    assert code == 0 and len(json.loads(out)["judges"]) == 3, error
    code, _, error = realm_cli("import", one, two, *flags, "--output", tmp_path / "all.csv")
    assert code == 0 and "x annotator excluded: w3" in error
    both = Annotations.read([one, two], exclude=["w3"], map_labels=tmp_path / "map.yaml")
    assert Annotations.read(tmp_path / "all.csv").n_annotations == both.n_annotations
    code, _, error = realm_cli("import", tmp_path, *flags, "--output", tmp_path / "one.csv", "--overwrite")
    assert code == 2 and "the command reads this file" in error
    code, _, error = realm_cli("import", one, two, "--output", two, "--overwrite")
    assert code == 2 and "the command reads this file" in error
    code, _, error = realm_cli("import", one, two, *flags, "--output", tmp_path / "all.csv", "--overwrite")
    assert code == 0, error
    (tmp_path / "names.csv").write_text("annotator\nw3\n")
    words = ("--exclude", tmp_path / "names.csv", "--output", tmp_path / "names.csv", "--overwrite")
    code, _, error = realm_cli("import", one, two, *words)
    assert code == 2 and "the command reads this file" in error


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


def test_mistakes_name_arguments(tmp_path: Path, realm_cli) -> None:
    one, two = batches(tmp_path)
    for words, expected in (
        (("--exclude", "w33"), "`exclude=\"w33\"`: there is no such annotator. Did you mean 'w3'"),
        (("--map-labels", tmp_path / "absent.csv"), "`map_labels`: "),
        (("--encoding", "klingon"), '`encoding="klingon"`: there is no such encoding'),
        ((one,), "given twice"),
    ):
        code, _, error = realm_cli("check", one, two, *words)
        assert code == 2 and expected in " ".join(error.split()), error
    one.write_bytes("text,annotator,label\né,a,x\nb,a,y\n".encode("cp1252"))
    code, _, error = realm_cli("check", one)
    assert code == 2 and "Name its encoding with `encoding`" in " ".join(error.split())
    assert realm_cli("check", one, "--encoding", "cp1252")[0] == 0


def test_check_writes_a_label_map(tmp_path: Path, realm_cli) -> None:
    one, two = batches(tmp_path)
    path = tmp_path / "map.csv"
    code, out, error = realm_cli("check", one, two, "--exact-labels", "--write-label-map", path)
    assert code == 0 and "1 spelling in" in error and "say so with `map_labels`" in out
    entries = pd.read_csv(path)
    assert list(entries.columns) == ["from", "to"] and entries["from"][0] == entries["to"][0].upper()
    code, out, error = realm_cli("check", one, two, "--map-labels", path)
    assert code == 0 and "look alike" not in out
    code, _, error = realm_cli("check", one, two, "--exact-labels", "--write-label-map", path)
    assert code == 2 and f"--write-label-map {path}: exists already" in " ".join(error.split())
    code, _, error = realm_cli("check", one, two, "--write-label-map", one, "--overwrite")
    assert code == 2 and "the command reads this file" in error
    code, _, error = realm_cli("check", one, "--map-labels", path, "--write-label-map", tmp_path / "none.csv")
    assert code == 0 and "No labels look alike" in error and not (tmp_path / "none.csv").exists()


def test_check_compares_the_labels_of_a_test_table(tmp_path: Path, realm_cli) -> None:
    (tmp_path / "t.csv").write_text("text,annotator,label\na,v,good\nb,v,bad\na,w,good\nc,w,mixed\n")
    (tmp_path / "test.csv").write_text("text,gold\na,gооd\nx,bad\nb,Bad\ny,awful\n")
    code, out, _ = realm_cli("check", tmp_path / "t.csv", "--test", tmp_path / "test.csv", "--json")
    findings = {finding["code"]: finding for finding in json.loads(out)["findings"]}
    assert code == 0 and findings["labels only in test"]["about"] == ["awful"]
    assert findings["labels not in test"]["about"] == ["mixed"] and findings["test spelling"]["about"] == ["gооd"]
    assert "`map_labels`" in findings["test spelling"]["remedy"] and "text leak" in findings
    (tmp_path / "map.yaml").write_text("gооd: good\nawful: bad\nmixed: bad\n")
    flags = ("--test", tmp_path / "test.csv", "--map-labels", tmp_path / "map.yaml")
    code, out, _ = realm_cli("check", tmp_path / "t.csv", *flags)
    assert code == 0 and "of the test table" not in out and "spells" not in out
    (tmp_path / "test.csv").write_text("text\na\n")
    code, out, error = realm_cli("check", tmp_path / "t.csv", "--test", tmp_path / "test.csv")
    assert (
        code == 0
        and "1 of 1 test items are in the table too" in out
        and "labels of the test table are not compared" in error
    )
    (tmp_path / "test.csv").write_text("nothing\na\n")
    assert realm_cli("check", tmp_path / "t.csv", "--test", tmp_path / "test.csv")[0] == 2


def test_both_orders_of_an_excluded_judge_are_left_out(tmp_path: Path, realm_cli) -> None:
    rows = [
        (t, f"{who}{order}", "xy"[n % 2])
        for n, t in enumerate("abcdef")
        for who in ("gpt", "llm", "qwen")
        for order in ("", "-2")
    ]
    pd.DataFrame(rows, columns=["text", "annotator", "label"]).to_csv(tmp_path / "t.csv", index=False)
    code, out, error = realm_cli("judges", tmp_path / "t.csv", "--order-suffix=-2", "--exclude", "gpt", "--json")
    assert code == 0 and {judge["annotator"] for judge in json.loads(out)["judges"]} == {"llm", "qwen"}, error


def test_read_refuses_an_annotator_who_is_not_there(tmp_path: Path) -> None:
    one, two = batches(tmp_path)
    with pytest.raises(RealmError, match=r"one\.csv and .*two\.csv: `exclude=\"zed\"`"):
        Annotations.read([one, two], exclude="zed")


def test_a_test_table_needs_no_ids(tmp_path: Path, tiny_model, realm_cli) -> None:
    """Flags of the table trained on name columns that identify an item: a test table need not have them."""
    table = crowd(40, per_item=2).to_pandas().rename(columns={"item": "doc", "text": "words", "task": "job"})
    table = table.assign(sure=1.0, team="a")
    table.to_csv(tmp_path / "more.csv", index=False)
    table[:-10].to_csv(tmp_path / "labels.csv", index=False)
    test = crowd(20, seed=5).to_pandas()[["text", "gold"]].drop_duplicates().rename(columns={"text": "words"})
    test.to_csv(tmp_path / "test.csv", index=False)
    flags = ("--item", "doc", "--text", "words", "--task", "job", "--weight", "sure", "--group", "team")
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
    # going on, the test table is read by the columns of the earlier run too
    more = ("train", tmp_path / "more.csv", "--from", tmp_path / "run", "--test", tmp_path / "test.csv")
    code, _, error = realm_cli(*more, "--group", "team", "--output", tmp_path / "more")
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
