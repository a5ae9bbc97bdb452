from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from realm.cli.entry import main
from realm.data import Annotations, Task
from realm.report.items import Settling
from realm.report.run_data import read_run
from realm.runs import Run as Opened
from tests.report.folders import write_run

Run = Callable[..., tuple[int, str, str]]
TASKS = (Task("mood", ("bad", "good")),)
PEOPLE = ["=CY()", "Ann", "Bob", "Guess"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`realm relabel ...` in this process: exit code, standard output, standard error."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["realm", "relabel", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return call


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A finished run with what `relabel` reads. Item i0 looks broken: the model is sure, all annotators against it."""
    path = tmp_path / "run"
    path.mkdir()
    rng = np.random.default_rng(0)
    rows = []
    truth = rng.integers(0, 2, 120)
    for item in range(120):
        for person in rng.permutation(4)[:3] if item else [0, 1, 2]:
            right = rng.random() < (0.5 if person == 3 else 0.95) if item else True
            said = truth[item] if right else 1 - truth[item]
            rows.append((f"i{item}", "mood", f"=text {item}", PEOPLE[person], TASKS[0].labels[said]))
    frame = pd.DataFrame(rows, columns=["item", "task", "text", "annotator", "label"])
    annotations = Annotations.from_pandas(frame, tasks=TASKS)
    sure = np.where(rng.random(120) < 0.7, truth, 1 - truth)
    shares = np.where(np.arange(2) == sure[:, None], 0.7, 0.3)
    shares[0] = [0.999, 0.001] if truth[0] == 1 else [0.001, 0.999]
    order = [int(name[1:]) for name in annotations.item_ids.to_pylist()]
    return write_run(path, annotations, np.log(shares[order]), metrics={"probabilities": "in-sample"})


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


def test_the_queue_goes_to_a_pipe_as_csv(run: Run, folder: Path) -> None:
    code, out, _ = run(folder, "--budget", 10)
    assert code == 0
    found = rows(out)
    assert len(found) == 10
    gains = [float(row["gain_bits"]) for row in found]
    assert gains[0] == max(gains) > 0.3
    assert all(gain >= 0.5 * max(gains[place:]) for place, gain in enumerate(gains)), "sharing costs half at most"
    table = Opened.open(folder).annotations.to_pandas()
    labelled = set(zip(table["item"], table["annotator"], strict=True))
    for row in found:
        assert row["text"].startswith("'=text")
        assert (row["item"], row["ask"].removeprefix("'")) not in labelled
        assert row["ask"] != "Guess"


def test_label_studio_gets_tasks_with_no_answer_filled_in(run: Run, folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "again.json"
    code, _, _ = run(folder, "--budget", 3, "--format", "label-studio", "--output", output)
    assert code == 0
    tasks = json.loads(output.read_text())
    assert len(tasks) == 3
    assert set(tasks[0]) == {"data", "meta"}
    assert tasks[0]["data"]["text"].startswith("=text")
    assert tasks[0]["data"]["options"] == [{"value": "bad"}, {"value": "good"}]
    assert tasks[0]["meta"]["ask"] in PEOPLE


def test_json_for_a_script(run: Run, folder: Path) -> None:
    code, out, _ = run(folder, "--budget", 2, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["probabilities"] == "in-sample"
    assert len(found["queue"]) == 2


def test_costs_decide_whom_to_ask(run: Run, folder: Path, tmp_path: Path) -> None:
    costs = tmp_path / "costs.csv"
    costs.write_text("annotator,cost\nBob,0.5\n")
    code, out, _ = run(folder, "--budget", 4, "--costs", costs)
    assert code == 0
    found = rows(out)
    assert len(found) == 8 and {row["ask"] for row in found} == {"Bob"}


def test_a_budget_is_spent_on_what_it_can_buy(run: Run, folder: Path, tmp_path: Path) -> None:
    """The best annotator costs more than there is: the others are asked, and what they cost is not exceeded."""
    costs = tmp_path / "costs.csv"
    costs.write_text("annotator,cost\n=CY(),50\nAnn,1.5\nBob,1\n")
    code, out, _ = run(folder, "--budget", 4, "--costs", costs)
    rows = list(csv.DictReader(out.splitlines()))
    assert code == 0 and rows and {row["ask"] for row in rows} <= {"Ann", "Bob"}
    assert 3 <= sum(float(row["cost"]) for row in rows) <= 4
    code, out, err = run(folder, "--budget", 0.5, "--costs", costs)
    assert code == 0 and "the cheapest annotation costs 1. Raise --budget" in " ".join(err.split())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("annotator,price\nBob,1\n", "lacks cost"),
        ("annotator,cost\nBob,1\nAnn,cheap\n", "row 2: the cost 'cheap' is not a number"),
        ("annotator,cost\nBob,-1\n", "more than 0"),
        ("annotator,cost\nZoe,1\n", "names none of the annotators"),
    ],
)
def test_unusable_costs_end_with_a_message(run: Run, folder: Path, tmp_path: Path, text: str, says: str) -> None:
    costs = tmp_path / "costs.csv"
    costs.write_text(text)
    code, _, err = run(folder, "--costs", costs)
    assert code == 2 and says in err and "Traceback" not in err


def test_a_folder_that_is_no_run_and_a_missing_cost_file_are_refused(run: Run, folder: Path, tmp_path: Path) -> None:
    code, _, err = run(tmp_path)
    assert code == 2 and "not a run folder" in err
    code, _, err = run(folder, "--costs", tmp_path / "none.csv")
    assert code == 2 and "none.csv cannot be read" in err
    code, _, err = run(folder, "--budget", 0)
    assert code == 2 and "`budget`" in err


def test_neither_the_run_nor_the_costs_are_written_over(run: Run, folder: Path, tmp_path: Path) -> None:
    costs = tmp_path / "costs.csv"
    costs.write_text("annotator,cost\nAnn,1\n")
    before = {path: path.read_bytes() for path in [costs, *folder.iterdir()]}
    for output in (folder / "expertise.csv", folder / "model" / "x.csv", costs):
        assert run(folder, "--costs", costs, "--output", output)[0] == 2
    assert {path: path.read_bytes() for path in [costs, *folder.iterdir()]} == before
    assert run(folder, "--output", folder / "to-label.csv")[0] == 0


def test_costs_of_people_who_are_not_in_the_run_are_named(run: Run, folder: Path, tmp_path: Path) -> None:
    costs = tmp_path / "costs.csv"
    costs.write_text("annotator,cost\nBob,0.5\nanne,1\n")
    code, _, err = run(folder, "--budget", 4, "--costs", costs)
    assert code == 0
    assert "1 of its annotators are not in the run: anne." in " ".join(err.split())


def test_who_is_not_asked_for_want_of_a_price_is_said(run: Run, folder: Path, tmp_path: Path) -> None:
    """A misspelt name takes an annotator out of the queue."""
    costs = tmp_path / "costs.csv"
    costs.write_text("annotator,cost\nBob,0.5\n")
    code, _, err = run(folder, "--budget", 4, "--costs", costs)
    assert code == 0 and "of the run's annotators have no price and are not asked" in " ".join(err.split())
    costs.write_text("annotator,cost\n" + "".join(f'"{name}",1\n' for name in PEOPLE))
    code, _, err = run(folder, "--budget", 4, "--costs", costs)
    assert code == 0 and "have no price" not in " ".join(err.split())


def test_two_prices_for_one_annotator_are_refused(run: Run, folder: Path, tmp_path: Path) -> None:
    costs = tmp_path / "costs.csv"
    costs.write_text("annotator,cost\nBob,0.5\nAnn,1\nBob,2\n")
    code, _, err = run(folder, "--budget", 4, "--costs", costs)
    assert code == 2 and "rows 1 and 3" in err and "Bob" in err


def test_what_a_budget_is_expected_to_buy_is_said(run: Run, folder: Path, tmp_path: Path) -> None:
    code, out, err = run(folder, "--budget", 12, "--json")
    found = json.loads(out)
    expected = found["expected"]
    assert code == 0 and expected["annotations"] == len(found["queue"]) == 12
    assert expected["bits"] == pytest.approx(sum(row["gain_bits"] for row in found["queue"]))
    assert 0 < expected["labels"] <= expected["wrong_now"]
    assert sum(row["annotations"] for row in found["workload"]) == 12
    said = " ".join(err.split())
    assert f"12 annotations at a cost of 12: expected to correct {expected['labels']:.1f} of the" in said
    assert f"remove {expected['bits']:.1f} bits of uncertainty" in said


def test_nobody_gets_it_all_and_a_most_may_be_named(run: Run, folder: Path) -> None:
    code, out, _ = run(folder, "--budget", 12)
    loads = pd.Series([row["ask"] for row in rows(out)]).value_counts()
    assert code == 0 and loads.sum() == 12 and loads.max() <= 6
    code, out, _ = run(folder, "--budget", 12, "--most-each", 2)
    loads = pd.Series([row["ask"] for row in rows(out)]).value_counts()
    assert code == 0 and loads.max() == 2 and len(loads) >= 3
    code, _, err = run(folder, "--most-each", 0)
    assert code == 2 and "--most-each" in err


def test_who_is_asked_how_often_is_shown(run: Run, folder: Path, tmp_path: Path) -> None:
    code, out, _ = run(folder, "--budget", 12, "--output", tmp_path / "again.csv")
    assert code == 0 and "Who is asked" in out and "gain labels" in out


def test_the_report_lists_what_relabel_asks_for(run: Run, folder: Path) -> None:
    """The same items by the same annotators in the same order, though the report plans for more labels."""
    listed = [(item.id, item.ask) for item in Settling(read_run(folder)).items.items]
    for budget in (1, 7, 20, 60):
        code, out, _ = run(folder, "--budget", budget, "--json")
        queue = json.loads(out)["queue"]
        assert code == 0 and [(row["item"], row["ask"]) for row in queue] == listed[:budget]
    assert len(listed) > 60 and len({who for _, who in listed[:7]}) > 1
