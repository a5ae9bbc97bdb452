"""`realm relabel`, as a person types it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from realm.data import Annotations, Task
from realm.runs import Run
from tests.report.folders import write_run

TASKS = (Task("mood", ("bad", "good")),)
PEOPLE = ["=CY()", "Ann", "Bob", "Guess"]


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


def test_the_queue_goes_to_a_pipe_as_csv(realm_cli, folder: Path) -> None:
    code, out, _ = realm_cli("relabel", folder, "--budget", 10)
    found = rows(out)
    assert code == 0 and len(found) == 10
    gains = [float(row["gain_bits"]) for row in found]
    assert gains[0] == max(gains) > 0.3
    assert all(gain >= 0.5 * max(gains[place:]) for place, gain in enumerate(gains)), "sharing costs half at most"
    table = Run.open(folder).annotations.to_pandas()
    labelled = set(zip(table["item"], table["annotator"], strict=True))
    for row in found:
        assert row["text"].startswith("'=text") and row["ask"] != "Guess"
        assert (row["item"], row["ask"].removeprefix("'")) not in labelled


def test_a_file_holds_the_queue(realm_cli, folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "new" / "again.csv"
    code, out, err = realm_cli("relabel", folder, "--budget", 12, "--output", output)
    assert code == 0 and "12 rows in" in err and len(rows(output.read_text())) == 12
    assert "To label again" in out and "Who is asked" in out


def test_json_says_what_a_budget_is_expected_to_buy(realm_cli, folder: Path) -> None:
    code, out, err = realm_cli("relabel", folder, "--budget", 12, "--json")
    found = json.loads(out)
    expected = found["expected"]
    assert code == 0 and expected["annotations"] == len(found["queue"]) == 12
    assert found["probabilities"] == "in-sample"
    assert expected["bits"] == pytest.approx(sum(row["gain_bits"] for row in found["queue"]))
    assert 0 < expected["labels"] <= expected["wrong_now"]
    assert sum(row["annotations"] for row in found["workload"]) == 12
    said = " ".join(err.split())
    assert f"12 annotations at a cost of 12: expected to correct {expected['labels']:.1f} of the" in said
    assert f"remove {expected['bits']:.1f} bits of uncertainty" in said


def test_costs_decide_whom_to_ask(realm_cli, folder: Path, tmp_path: Path) -> None:
    costs = tmp_path / "costs.csv"
    costs.write_text("annotator,cost\nBob,0.5\nanne,1\n")
    code, out, err = realm_cli("relabel", folder, "--budget", 4, "--costs", costs)
    found, said = rows(out), " ".join(err.split())
    assert code == 0 and len(found) == 8 and {row["ask"] for row in found} == {"Bob"}
    assert "1 of its annotators are not in the run: anne." in said and "have no price and are not asked" in said
    costs.write_text("annotator,cost\n=CY(),50\nAnn,1.5\nBob,1\n")
    code, out, _ = realm_cli("relabel", folder, "--budget", 4, "--costs", costs)
    assert code == 0 and {row["ask"] for row in rows(out)} <= {"Ann", "Bob"}
    assert 3 <= sum(float(row["cost"]) for row in rows(out)) <= 4
    code, _, err = realm_cli("relabel", folder, "--budget", 0.5, "--costs", costs)
    assert code == 0 and "the cheapest annotation costs 1. Raise --budget" in " ".join(err.split())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("annotator,price\nBob,1\n", "needs the columns annotator and cost"),
        ("annotator,cost\nBob,1\nAnn,cheap\n", "row 2: the cost of 'Ann' is not a number"),
        ("annotator,cost\nBob,0.5\nAnn,1\nBob,2\n", "row 3: a second price for 'Bob'"),
        ("annotator,cost\nBob,-1\n", "more than 0"),
        ("annotator,cost\nZoe,1\n", "names none of the annotators"),
        (None, "costs.csv cannot be read"),
    ],
)
def test_unusable_costs_end_with_a_message(realm_cli, folder: Path, tmp_path: Path, text, says: str) -> None:
    costs = tmp_path / "costs.csv"
    if text is not None:
        costs.write_text(text)
    code, _, err = realm_cli("relabel", folder, "--costs", costs)
    assert code == 2 and says in err and "Traceback" not in err


def test_nobody_gets_it_all_and_a_most_may_be_named(realm_cli, folder: Path) -> None:
    for flags, most in (((), 6), (("--most-each", 2), 2)):
        code, out, _ = realm_cli("relabel", folder, "--budget", 12, *flags)
        loads = pd.Series([row["ask"] for row in rows(out)]).value_counts()
        assert code == 0 and loads.max() <= most and len(loads) >= 3
    for flags, message in ((("--most-each", 0), "--most-each"), (("--budget", 0), "`budget`")):
        code, _, err = realm_cli("relabel", folder, *flags)
        assert code == 2 and message in err
