"""`realm aggregate`, as a person types it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    """Ann and Bob agree; Cy, whose name a spreadsheet would run, is always wrong. Item 4 has gold against them all."""
    path = tmp_path / "labels.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["item", "text", "annotator", "label", "gold"])
        for item in range(8):
            truth, other = ("no", "yes") if item % 2 == 0 else ("yes", "no")
            gold = other if item == 4 else truth
            for annotator in ("Ann", "Bob", "=CY()"):
                label = other if annotator == "=CY()" else truth
                writer.writerow([f"i{item}", f"=text {item}", annotator, label, gold])
    return path


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


@pytest.mark.parametrize("method", ["realm", "majority", "dawid-skene", "one-coin", "mace"])
def test_labels_go_to_a_pipe_as_csv(realm_cli, labels: Path, method: str) -> None:
    code, out, err = realm_cli("aggregate", labels, "--method", method)
    found = rows(out)
    assert code == 0 and [row["label"] for row in found] == ["no", "yes"] * 4
    assert list(found[0]) == ["item", "text", "label", "confidence", "annotations"]
    assert found[0]["text"] == "'=text 0" and found[0]["annotations"] == "3"
    assert 0.5 < float(found[0]["confidence"]) <= 1
    assert "87.5% of the 8 labels with gold are right (gold was not used; 95% interval 53% to 98%)" in err


def test_files_are_safe_for_a_spreadsheet_unless_raw(realm_cli, labels: Path, tmp_path: Path) -> None:
    output = tmp_path / "new" / "clean.csv"
    code, out, err = realm_cli("aggregate", labels, "--output", output)
    assert code == 0 and "clean.annotators.csv" in err and "Annotators, by realm" in out
    people = rows((tmp_path / "new" / "clean.annotators.csv").read_text())
    assert {row["annotator"]: round(float(row["accuracy"])) for row in people} == {"Ann": 1, "Bob": 1, "'=CY()": 0}
    assert rows(output.read_text())[0]["text"].startswith("'=")
    assert realm_cli("aggregate", labels, "--output", output, "--raw", "--overwrite")[0] == 0
    assert rows(output.read_text())[0]["text"].startswith("=")


def test_json_is_whole_and_unmarked(realm_cli, labels: Path) -> None:
    _, out, _ = realm_cli("aggregate", labels, "--method", "majority", "--json", "--seed", 3)
    found = json.loads(out)
    assert (found["method"], found["seed"], found["used_gold"]) == ("majority", 3, False)
    assert len(found["labels"]) == 8 and found["labels"][1]["label"] == "yes"
    worst = found["annotators"][2]
    assert 0.2 < worst.pop("high") < 0.3, "8 labels are few"
    assert worst == {"annotator": "=CY()", "accuracy": 0.0, "low": 0.0, "annotations": 8}


def test_gold_is_used_only_when_asked(realm_cli, labels: Path, tmp_path: Path) -> None:
    _, plain, _ = realm_cli("aggregate", labels)
    bare = tmp_path / "bare.csv"
    with labels.open() as source, bare.open("w", newline="") as file:
        csv.writer(file).writerows(row[:4] for row in csv.reader(source))
    assert plain == realm_cli("aggregate", bare)[1]
    _, used, err = realm_cli("aggregate", labels, "--use-gold", "--method", "majority")
    assert [row["label"] for row in rows(used)][4] == "yes" and "not used" not in err
    code, _, err = realm_cli("aggregate", bare, "--use-gold")
    assert code == 2 and "`use_gold`" in err and "`gold`" in err


def test_tasks_are_told_apart(realm_cli, tmp_path: Path) -> None:
    lines = ["item,task,text,annotator,label"]
    for item in range(6):
        lines += [f"{item},a,t{item},{who},{'x' if item % 2 else 'y'}" for who in ("Ann", "Bob")]
        lines += [f"{item},b,t{item},{who},{'p' if who == 'Ann' else 'q'}" for who in ("Ann", "Bob")]
    (tmp_path / "tasks.csv").write_text("\n".join(lines) + "\n")
    found = json.loads(realm_cli("aggregate", tmp_path / "tasks.csv", "--method", "majority", "--json")[1])
    assert {(row["task"], row["label"]) for row in found["labels"]} <= {("a", "x"), ("a", "y"), ("b", "p"), ("b", "q")}
    people = [(row["annotator"], row["task"]) for row in found["annotators"]]
    assert people == [("Ann", "a"), ("Bob", "a"), ("Ann", "b"), ("Bob", "b")]


@pytest.mark.parametrize(
    ("table", "flags", "code", "message"),
    [
        ("1,a,Ann,x\n2,b,Bob,y\n3,c,Ann,y\n", (), 2, "no item has two annotations"),
        ("1,a,Ann,x\n1,a,Bob,x\n2,b,Bob,y\n3,c,Ann,y\n", (), 0, "2 of 3 items (67%) have only one annotation"),
        ("1,a,Ann,x\n1,a,Bob,y\n", ("--method", "spectral"), 2, "one-coin"),
        ("1,a,Ann,x\n1,a,Bob,y\n", ("--seed", "-1"), 2, "--seed"),
    ],
)
def test_what_is_said_of_thin_tables_and_wrong_flags(realm_cli, tmp_path, table, flags, code, message) -> None:
    (tmp_path / "t.csv").write_text(f"item,text,annotator,label\n{table}")
    ended, _, err = realm_cli("aggregate", tmp_path / "t.csv", *flags)
    assert ended == code and message in err and "Traceback" not in err
