"""`realm judges`: the tables on screen, as JSON and as CSV; costs, gold, experts, orders, and what is refused."""

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

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`realm judges ...` in this process: exit code, standard output, standard error."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["realm", "judges", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return call


@pytest.fixture
def panel(tmp_path: Path) -> Path:
    """A column for each of four judges; one answers `no` nine times of ten."""
    draw = np.random.default_rng(0)
    truth = draw.integers(2, size=80)
    columns = {"text": [f"t{i}" for i in range(80)], "gold": np.where(truth, "yes", "no")}
    for name, accuracy in {"good": 0.9, "=fair": 0.8, "weak": 0.65}.items():
        columns[name] = np.where(np.where(draw.random(80) < accuracy, truth, 1 - truth), "yes", "no")
    columns["naysayer"] = np.where(draw.random(80) < 0.1, "yes", "no")
    path = tmp_path / "panel.csv"
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


def costs_file(folder: Path, **costs: float) -> Path:
    path = folder / "costs.csv"
    path.write_text("annotator,cost\n" + "".join(f"{name.replace('_', '=')},{cost}\n" for name, cost in costs.items()))
    return path


def test_a_panel_as_json(run: Run, panel: Path, tmp_path: Path) -> None:
    costs = costs_file(tmp_path, good=10, _fair=2, weak=1, naysayer=1, nobody=3)
    code, out, err = run(panel, "--wide", "rest", "--costs", costs, "--within", 0.2, "--humans", 5, "--json")
    assert code == 0 and "1 of its annotators are not in the table: nobody." in err
    found = json.loads(out)
    judges = {row["annotator"]: row for row in found["judges"]}
    assert set(judges) == {"good", "=fair", "weak", "naysayer"}
    assert judges["good"]["cost"] == 10 and judges["good"]["low"] < judges["good"]["accuracy"] < judges["good"]["high"]
    assert found["cheapest"]["cost"] < found["whole"]["cost"] == 14
    assert found["cheapest"]["expected"] >= found["whole"]["expected"] - 0.2
    assert [len(part["members"]) for part in found["panels"]] == [4, 3, 2, 1]
    assert len(found["humans"]) == 5 and found["expected_with_humans"] > found["whole"]["expected"]
    assert 1 <= found["independent_judges"] <= 4


def test_a_pipe_gets_the_judges_and_files_get_the_items_too(run: Run, panel: Path, tmp_path: Path) -> None:
    code, out, _ = run(panel, "--wide", "rest")
    rows = list(csv.DictReader(out.splitlines()))
    assert code == 0 and {row["annotator"] for row in rows} == {"good", "'=fair", "weak", "naysayer"}
    assert {"accuracy", "low", "high", "adds", "adds_measured", "habit", "verdict"} <= set(rows[0])
    output = tmp_path / "judges.csv"
    code, out, err = run(panel, "--wide", "rest", "--humans", 7, "--output", output)
    assert code == 0 and "4 judges in" in err
    assert len(pd.read_csv(output)) == 4 and len(pd.read_csv(tmp_path / "judges.humans.csv")) == 7
    assert "The cheapest part within 0.01 of it:" in out and "measured on gold" in out and "(all)" in out
    code, _, err = run(panel, "--wide", "rest", "--output", output)
    assert code == 2 and "--overwrite" in err


def test_gold_and_experts_are_used_if_asked(run: Run, panel: Path) -> None:
    code, out, _ = run(panel, "--wide", "rest", "--use-gold", "--json")
    used = json.loads(out)
    assert code == 0 and used["whole"]["measured"] is None and not used["humans"]  # every item has gold
    code, out, _ = run(panel, "--wide", "rest", "--expert", "good", "--json")
    good = next(row for row in json.loads(out)["judges"] if row["annotator"] == "good")
    assert code == 0 and good["accuracy"] > 0.99


def test_judges_asked_in_two_orders(run: Run, panel: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(panel)
    frame["good/2"] = frame["good"]
    frame["weak/2"] = np.where(frame["weak"] == "no", "yes", "no")  # always the other way round
    frame.loc[:39, "weak/2"] = frame.loc[:39, "weak"]
    frame.to_csv(tmp_path / "orders.csv", index=False)
    code, out, _ = run(tmp_path / "orders.csv", "--wide", "rest", "--order-suffix", "/2", "--json")
    found = json.loads(out)
    judges = {row["annotator"]: row for row in found["judges"]}
    assert code == 0 and set(judges) == {"good", "=fair", "weak", "naysayer"}
    assert judges["good"]["contradicts_itself"] == 0 and judges["weak"]["contradicts_itself"] == 0.5
    assert judges["=fair"]["contradicts_itself"] is None
    first = (frame["weak"][40:] == "no").mean()  # `no` is the first option, and `yes` the first of the other order
    assert judges["weak"]["then_first_shown"] == pytest.approx(first)
    assert judges["weak"]["annotations"] == 40
    assert sum(found["dropped"].values()) == 160


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], 'give `wide="rest"`'),
        (["--wide", "rest", "--within", "2"], "`within=2.0`"),
        (["--wide", "rest", "--use-gold", "--gold", "nothing"], '`gold="nothing"`'),
        (["--wide", "rest", "--expert", "nobody"], "no such annotator: nobody"),
    ],
)
def test_mistakes_are_named(run: Run, panel: Path, flags: list[str], message: str) -> None:
    code, _, err = run(panel, *flags)
    assert code == 2 and message in " ".join(err.split())


def test_a_judge_without_a_price_and_gold_that_is_not_there(run: Run, panel: Path, tmp_path: Path) -> None:
    code, _, err = run(panel, "--wide", "rest", "--costs", costs_file(tmp_path, good=1))
    assert code == 2 and "`costs` has no price for" in " ".join(err.split())
    pd.read_csv(panel).drop(columns="gold").to_csv(panel, index=False)
    code, _, err = run(panel, "--wide", "rest", "--use-gold")
    assert code == 2 and "there is no gold column" in " ".join(err.split())


def test_people_and_models_are_told_apart(run: Run, panel: Path, tmp_path: Path) -> None:
    wide = pd.read_csv(panel)
    long = wide.melt(id_vars=["text", "gold"], var_name="annotator", value_name="label")
    long["kind"] = np.where(long.annotator == "good", "person", "model")
    long.to_csv(tmp_path / "long.csv", index=False)
    code, out, _ = run(tmp_path / "long.csv", "--group", "kind", "--expert", "good", "--json")
    assert code == 0
    judges = {row["annotator"]: row for row in json.loads(out)["judges"]}
    assert {name: row["group"] for name, row in judges.items()} == {
        "good": "person",
        "=fair": "model",
        "weak": "model",
        "naysayer": "model",
    }
    assert judges["good"]["accuracy"] > 0.99  # pinned
    code, out, _ = run(tmp_path / "long.csv", "--json")
    assert code == 0 and "group" not in json.loads(out)["judges"][0]
