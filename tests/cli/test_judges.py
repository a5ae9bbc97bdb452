"""`realm judges`: the tables on screen, as JSON and as CSV; costs, gold, experts, orders, and what is refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest


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


def test_a_panel_as_json(realm_cli, panel: Path, tmp_path: Path) -> None:
    costs = costs_file(tmp_path, good=10, _fair=2, weak=1, naysayer=1, nobody=3)
    code, out, err = realm_cli("judges", panel, "--wide", "rest", "--costs", costs, "--humans", 5, "--json")
    assert code == 0 and "1 of its annotators are not in the table: nobody." in err
    assert "gold was not used but to measure" in err and "--use-gold" in err
    found = json.loads(out)
    judges = {row["annotator"]: row for row in found["judges"]}
    assert set(judges) == {"good", "=fair", "weak", "naysayer"}
    assert judges["good"]["cost"] == 10 and judges["good"]["low"] < judges["good"]["accuracy"] < judges["good"]["high"]
    assert found["cheapest"]["cost"] <= found["whole"]["cost"] == 14
    assert found["cheapest"]["expected"] >= found["whole"]["expected"] - 0.01
    assert [len(part["members"]) for part in found["panels"]] == [4, 3, 2, 1]
    assert len(found["humans"]) == 5 and found["expected_with_humans"] > found["whole"]["expected"]
    assert 1 <= found["independent_judges"] <= 4


def test_a_pipe_gets_the_judges_and_files_get_the_items_too(realm_cli, panel: Path, tmp_path: Path) -> None:
    code, out, _ = realm_cli("judges", panel, "--wide", "rest")
    rows = list(csv.DictReader(out.splitlines()))
    assert code == 0 and {row["annotator"] for row in rows} == {"good", "'=fair", "weak", "naysayer"}
    assert {"accuracy", "low", "high", "adds", "adds_measured", "habit", "verdict"} <= set(rows[0])
    output = tmp_path / "judges.csv"
    code, out, err = realm_cli("judges", panel, "--wide", "rest", "--humans", 7, "--output", output)
    assert code == 0 and "4 rows in" in err
    assert len(pd.read_csv(output)) == 4 and len(pd.read_csv(tmp_path / "judges.humans.csv")) == 7
    assert "The cheapest part within 0.01 of it:" in out and "measured on gold" in out


def test_gold_and_experts_are_used_if_asked(realm_cli, panel: Path) -> None:
    code, out, _ = realm_cli("judges", panel, "--wide", "rest", "--use-gold", "--json")
    used = json.loads(out)
    assert code == 0 and used["whole"]["measured"] is None and not used["humans"]  # every item has gold
    code, out, _ = realm_cli("judges", panel, "--wide", "rest", "--expert", "good", "--json")
    good = next(row for row in json.loads(out)["judges"] if row["annotator"] == "good")
    assert code == 0 and good["accuracy"] > 0.99


def test_judges_asked_in_two_orders(realm_cli, panel: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(panel)
    frame["good/2"] = frame["good"]
    frame["weak/2"] = np.where(frame["weak"] == "no", "yes", "no")  # always the other way round
    frame.loc[:39, "weak/2"] = frame.loc[:39, "weak"]
    frame.to_csv(tmp_path / "orders.csv", index=False)
    (tmp_path / "config.yaml").write_text('wide: rest\norder-suffix: "/2"\n')
    code, out, _ = realm_cli("judges", tmp_path / "orders.csv", "--config", tmp_path / "config.yaml", "--json")
    found = json.loads(out)
    judges = {row["annotator"]: row for row in found["judges"]}
    assert code == 0 and set(judges) == {"good", "=fair", "weak", "naysayer"}
    assert judges["good"]["contradicts_itself"] == 0 and judges["weak"]["contradicts_itself"] == 0.5
    assert judges["=fair"]["contradicts_itself"] is None
    first = (frame["weak"][40:] == "no").mean()  # `no` is the first option, and `yes` the first of the other order
    assert judges["weak"]["then_first_shown"] == pytest.approx(first)
    assert judges["weak"]["annotations"] == 40 and sum(found["dropped"].values()) == 160


def test_mistakes_are_named(realm_cli, panel: Path, tmp_path: Path) -> None:
    for flags, message in (
        ([], 'give `wide="rest"`'),
        (["--wide", "rest", "--use-gold", "--gold", "nothing"], '`gold="nothing"`'),
        (["--wide", "rest", "--expert", "nobody"], "no such annotator: nobody"),
        (["--wide", "rest", "--costs", costs_file(tmp_path, good=1)], "`costs` has no price for"),
    ):
        code, _, err = realm_cli("judges", panel, *flags)
        assert code == 2 and message in " ".join(err.split())
    pd.read_csv(panel).drop(columns="gold").to_csv(panel, index=False)
    code, _, err = realm_cli("judges", panel, "--wide", "rest", "--use-gold")
    assert code == 2 and "there is no gold column" in " ".join(err.split())


def test_people_and_models_are_told_apart(realm_cli, panel: Path, tmp_path: Path) -> None:
    long = pd.read_csv(panel).melt(id_vars=["text", "gold"], var_name="annotator", value_name="label")
    long["kind"] = np.where(long.annotator == "good", "person", "model")
    long.to_csv(tmp_path / "long.csv", index=False)
    code, out, _ = realm_cli("judges", tmp_path / "long.csv", "--group", "kind", "--expert", "good", "--json")
    judges = {row["annotator"]: row for row in json.loads(out)["judges"]}
    assert code == 0 and judges["good"]["group"] == "person" and judges["weak"]["group"] == "model"
    assert judges["good"]["accuracy"] > 0.99  # pinned
