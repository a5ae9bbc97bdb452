from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from realm.cli.entry import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`realm aggregate ...` in this process: exit code, standard output, standard error."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["realm", "aggregate", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return call


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    """Ann and Bob agree; Cy, whose name a spreadsheet would run, is always wrong. Item 4 has gold against them all."""
    path = tmp_path / "labels.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["item", "text", "annotator", "label", "gold"])
        for item in range(8):
            truth = ["no", "yes"][item % 2]
            other = ["yes", "no"][item % 2]
            gold = other if item == 4 else truth
            for annotator in ("Ann", "Bob", "=CY()"):
                label = other if annotator == "=CY()" else truth
                writer.writerow([f"i{item}", f"=text {item}", annotator, label, gold])
    return path


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


@pytest.mark.parametrize("method", ["realm", "majority", "dawid-skene", "one-coin", "mace"])
def test_labels_go_to_a_pipe_as_csv(run: Run, labels: Path, method: str) -> None:
    code, out, err = run(labels, "--method", method)
    assert code == 0
    found = rows(out)
    assert [row["label"] for row in found] == ["no", "yes"] * 4
    assert list(found[0]) == ["item", "text", "label", "confidence", "annotations"]
    assert found[0]["text"] == "'=text 0" and found[0]["annotations"] == "3"
    assert 0.5 < float(found[0]["confidence"]) <= 1
    assert "87.5% of the 8 labels with gold are right (gold was not used; 95% interval 53% to 98%)" in err


def test_a_long_aggregation_says_how_far_it_is(run: Run, labels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "aggregating" not in run(labels)[2], "a short one is silent"
    monkeypatch.setattr("realm.cli.progress.SOONEST", 0.0)
    monkeypatch.setattr("realm.cli.progress.SHARE", 0.0)
    code, _, err = run(labels)
    assert code == 0 and "aggregating: 1 of 100 (1%), about" in err and "aggregating: done in" in err


def test_files_are_safe_for_a_spreadsheet_unless_raw(run: Run, labels: Path, tmp_path: Path) -> None:
    output = tmp_path / "new" / "clean.csv"
    code, out, err = run(labels, "--output", output)
    assert code == 0 and "clean.annotators.csv" in err
    assert "Annotators, by realm" in out
    people = rows((tmp_path / "new" / "clean.annotators.csv").read_text())
    assert {row["annotator"]: round(float(row["accuracy"])) for row in people} == {"Ann": 1, "Bob": 1, "'=CY()": 0}
    assert rows(output.read_text())[0]["text"].startswith("'=")
    code, _, err = run(labels, "--output", output, "--raw")
    assert code == 2 and "exists already. Give --overwrite" in err
    run(labels, "--output", output, "--raw", "--overwrite")
    assert rows(output.read_text())[0]["text"].startswith("=")


def test_json_is_whole_and_unmarked(run: Run, labels: Path) -> None:
    _, out, _ = run(labels, "--method", "majority", "--json", "--seed", 3)
    found = json.loads(out)
    assert (found["method"], found["seed"], found["used_gold"]) == ("majority", 3, False)
    assert len(found["labels"]) == 8 and found["labels"][1]["label"] == "yes"
    worst = found["annotators"][2]
    assert 0.2 < worst.pop("high") < 0.3, "8 labels are few"
    assert worst == {"annotator": "=CY()", "accuracy": 0.0, "low": 0.0, "annotations": 8}


def test_gold_is_used_only_when_asked(run: Run, labels: Path, tmp_path: Path) -> None:
    _, plain, _ = run(labels)
    bare = tmp_path / "bare.csv"
    with labels.open() as source, bare.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows(row[:4] for row in csv.reader(source))
    _, without, _ = run(bare)
    assert plain == without
    _, used, err = run(labels, "--use-gold", "--method", "majority")
    assert [row["label"] for row in rows(used)][4] == "yes" and "not used" not in err
    code, _, err = run(bare, "--use-gold")
    assert code == 2 and "`use_gold`" in err and "`gold`" in err


def test_tasks_are_told_apart(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "tasks.csv"
    lines = ["item,task,text,annotator,label"]
    for item in range(6):
        lines += [f"{item},a,t{item},{who},{'x' if item % 2 else 'y'}" for who in ("Ann", "Bob")]
        lines += [f"{item},b,t{item},{who},{'p' if who == 'Ann' else 'q'}" for who in ("Ann", "Bob")]
    path.write_text("\n".join(lines) + "\n")
    _, out, _ = run(path, "--method", "majority", "--json")
    found = json.loads(out)
    assert {(row["task"], row["label"]) for row in found["labels"]} <= {("a", "x"), ("a", "y"), ("b", "p"), ("b", "q")}
    assert [(row["annotator"], row["task"]) for row in found["annotators"]] == [
        ("Ann", "a"),
        ("Bob", "a"),
        ("Ann", "b"),
        ("Bob", "b"),
    ]


def test_one_label_per_item_is_refused_with_the_reason(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "sparse.csv"
    path.write_text("item,text,annotator,label\n1,a,Ann,x\n2,b,Bob,y\n3,c,Ann,y\n")
    code, out, err = run(path, "--output", tmp_path / "out.csv")
    assert code == 2 and "no item has two annotations" in err and "perfect" in err
    assert not out and not (tmp_path / "out.csv").exists()


def test_the_share_labelled_once_is_said(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "some.csv"
    path.write_text("item,text,annotator,label\n1,a,Ann,x\n1,a,Bob,x\n2,b,Bob,y\n3,c,Ann,y\n")
    code, _, err = run(path)
    assert code == 0 and "2 of 3 items (67%) have only one annotation" in err


def test_an_unknown_method_is_named(run: Run, labels: Path) -> None:
    code, _, err = run(labels, "--method", "spectral")
    assert code == 2 and "'spectral'" in err and "one-coin" in err


def test_an_abstention_is_an_answer_of_its_own(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "rules.csv"
    rows = [f"{i},text {i},rule{r},{label}" for i in range(12) for r, label in enumerate(_rules(i))]
    path.write_text("\n".join(["item,text,annotator,label", *rows]))
    code, out, _ = run(path, "--method", "mace", "--abstain", "none", "--json")
    assert code == 0 and {row["label"] for row in json.loads(out)["labels"]} == {"x", "y"}
    code, _, err = run(path, "--abstain", "none")
    assert code == 2 and "`abstain`" in err and "dawid-skene, mace" in " ".join(err.split())


def _rules(item: int) -> list[str]:
    even = item % 2 == 0
    return [
        "x" if even else "none",
        "none" if even else "y",
        "x" if even and item % 3 else "none",
        "x" if even else "y",
    ]


def test_torch_is_not_loaded(labels: Path) -> None:
    code = (
        "import sys; sys.argv = ['realm', 'aggregate', sys.argv[1]]\n"
        "from realm.cli.entry import main\n"
        "try: main()\n"
        "except SystemExit: assert 'torch' not in sys.modules, 'torch'\n"
    )
    subprocess.run([sys.executable, "-c", code, str(labels)], check=True, capture_output=True)


def test_the_annotations_are_not_written_over(run: Run, labels: Path) -> None:
    before = labels.read_bytes()
    others = labels.rename(labels.with_name("run.annotators.csv"))
    (labels.parent / "linked.csv").symlink_to(others)
    for output in (others, labels.parent / "linked.csv", labels.parent / "run.csv"):
        code, _, error = run(others, "--output", output)
        assert (code, others.read_bytes()) == (2, before)
        assert "would replace it" in " ".join(error.split())


def test_a_seed_below_zero(run: Run, labels: Path) -> None:
    code, _, error = run(labels, "--seed", -1)
    assert code == 2
    assert "--seed" in error and "Traceback" not in error


def test_groups_are_pooled_apart_and_named_in_the_table(run: Run, labels: Path, tmp_path: Path) -> None:
    found = rows(labels.read_text())
    for row in found:
        row["kind"] = "model" if row["annotator"] == "Bob" else "person"
    with labels.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(found[0]))
        writer.writeheader()
        writer.writerows(found)
    code, _, _ = run(labels, "--method", "mace", "--group", "kind", "-o", tmp_path / "clean.csv")
    assert code == 0
    annotators = {row["annotator"]: row["group"] for row in rows((tmp_path / "clean.annotators.csv").read_text())}
    assert annotators == {"Ann": "person", "Bob": "model", "'=CY()": "person"}
    labels.write_text(labels.read_text().replace("Bob,no,no,model", "Bob,no,no,person", 1))
    code, _, err = run(labels, "--method", "mace", "--group", "kind")
    assert code == 2 and "the annotator 'Bob' is in the group 'person' and in 'model'" in err and "rows 2 and 5" in err
