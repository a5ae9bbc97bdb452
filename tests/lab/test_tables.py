"""The tables against results made up for the purpose: shapes, means, differences, what is missing."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from realm.comparison.cells import Cell
from realm.errors import RealmError
from realm_lab import load_spec, make_tables, packaged_specs, paper_figures
from realm_lab.spec_tables import Tables
from realm_lab.tables import Figure, Table
from tests.lab.small_benchmark import fill, write_spec

SPEC: dict[str, Any] = {
    "table": "noise-types", "settings": {"learning_rate": 5.0e-5},
    "model": ["google/flan-t5-small", "google/flan-t5-base"], "benchmark": ["arc", "obqa"],
    "noise": ["uniform", "systematic"], "method": ["realm", "noisy", "oracle"], "seeds": 4, "steps": 200,
}  # fmt: skip
REALM = [0.60, 0.62, 0.64, 0.66]


def accuracy(cell: Cell) -> float | None:
    if cell.method == "oracle":
        return 0.80
    if cell.data.benchmark == "obqa" and cell.data.noise == "systematic":
        return None if cell.seed else {"realm": 0.4, "noisy": 0.5}[cell.method]
    return REALM[cell.seed] - {"realm": 0.0, "noisy": 0.1}[cell.method]


def made(folder: Path, level: Any = accuracy, **keys: Any) -> Tables:
    spec = write_spec(folder, **keys)
    return make_tables(spec, fill(folder / "results", spec, level))


def figure(table: Table, row: tuple[str, ...], *column: str) -> Figure:
    return next(f for f in table.figures if f["row"] == row and f["column"][:2] == column and f.get("text") != "")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return made(tmp_path_factory.mktemp("tables"), paper="tab:results_noise_types", **SPEC)


def test_means_and_sample_deviations_over_seeds(tables: Tables) -> None:
    found = figure(tables.main, ("Base", "ARC"), "uniform", "REALM")
    assert found["mean"] == pytest.approx(63) and found["std"] == pytest.approx(np.std([60, 62, 64, 66], ddof=1))
    assert found["best"] and found["seeds"] == found["of_seeds"] == 4
    oracle = figure(tables.main, ("Small", "OBQA"), "", "Oracle")
    assert oracle["mean"] == pytest.approx(80) and oracle["seeds"] == 4
    columns = tables.main.frame().columns.tolist()
    assert columns == ["Model", "Dataset", "Oracle", *(f"{n} · {m}" for n in ("uniform", "systematic")
                                                       for m in ("REALM", "Noisy", "Δ"))]  # fmt: skip


def test_the_paper_stands_beside_ours(tables: Tables) -> None:
    assert figure(tables.main, ("Base", "ARC"), "systematic", "Noisy")["paper_mean"] == 41.77
    delta = figure(tables.main, ("Base", "ARC"), "systematic", "Δ")
    assert delta["paper_mean"] == 1.37 and delta["mean"] == pytest.approx(10)
    assert delta["test"].ahead == 4 and delta["test"].low > 0
    average = figure(tables.main, ("Small", "Avg"), "uniform", "REALM")
    assert (average["paper_mean"], average["paper_std"]) == (40.2, 1.19) and average["mean"] == pytest.approx(63)
    assert "[41.77, +11.23]" in tables.text("md")


def test_what_is_missing_is_said(tables: Tables, tmp_path: Path) -> None:
    partial = figure(tables.main, ("Base", "OBQA"), "systematic", "REALM")
    assert (partial["seeds"], partial["of_seeds"]) == (1, 4)
    assert "(1 of 4 seeds)" in tables.text("md") and "12 of 80 cells are missing." in tables.remarks
    nothing = make_tables(write_spec(tmp_path, **SPEC), None)
    assert "80 of 80 cells are missing." in nothing.remarks and "| missing |" in nothing.text("md")


def test_wins_are_counted_below_the_table(tables: Tables) -> None:
    assert "ahead by mean in 6 of 8 configurations (behind in 2)" in tables.remarks[0]
    assert "worse in 0, undecided in " in tables.remarks[0] and len(tables.behind[0].frame()) == 8


def test_comma_separated_values_have_a_line_per_figure(tables: Tables) -> None:
    lines = pd.read_csv(io.StringIO(tables.text("csv")))
    (line,) = lines.query(
        "model == 'base' and benchmark == 'arc' and noise == 'uniform' and quantity == 'delta'"
    ).to_dict("records")
    assert (round(line["mean"], 6), line["paper_mean"], line["ahead"], line["against"]) == (10, 3.42, 4, "noisy")


def test_latex_has_as_many_cells_in_every_row_and_escapes_text(tmp_path: Path) -> None:
    latex = made(tmp_path, title="50% of a_b", **SPEC).main.latex()
    assert r"50\%" in latex and r"$\pm$" in latex and r"$\Delta$" in latex
    rows = [line for line in latex.splitlines() if line.endswith(r"\\")]
    assert {line.count(" & ") for line in rows} == {8}


def test_layouts_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RealmError, match="there is no table 'nonesuch'"):
        make_tables(write_spec(tmp_path, table="nonesuch"), None)


# -------------------------------------------------------------------- every layout


@pytest.mark.parametrize("name", [name for name in packaged_specs() if name.endswith("-real")])
def test_specs_of_our_own_have_a_table_without_the_paper(name: str) -> None:
    spec = load_spec(name)
    frame = make_tables(spec, None).main.frame()
    assert spec.paper is None and len(frame) and frame.notna().all().all()


NO_PLACE = {
    ("app:impl", "epochs"): "sizes of the training halves, which the page on benchmarks sets beside ours",
    ("app:significance", "wins"): "the abstract's count, said again",
    ("app:significance", "configurations"): "the abstract's count, said again",
}
"""Figures that no table shows, and why."""


class Guessed:
    """Results in which REALM is always ahead, with nothing but accuracies: for tables that count what is finished."""

    def frame(self, cells: Sequence[Cell]) -> pd.DataFrame:
        return pd.DataFrame([{"id": c.id, "accuracy": 0.5 + c.seed / 100 + (c.method == "realm") / 10} for c in cells])

    def correct(self, ids: Sequence[str]) -> None:
        return None


def test_every_figure_of_the_paper_finds_its_place() -> None:
    """Of all that were transcribed, and not only of the tables that some spec names; in the table of its spec once."""
    every = paper_figures()
    left = {(t, q, m) for t, q, m in zip(every["table"], every["quantity"], every["mean"], strict=True)}
    for name in packaged_specs():
        if (spec := load_spec(name)).paper is None:
            continue
        counted = name in ("wins", "significance")
        tables = make_tables(spec, Guessed() if counted else None)  # type: ignore[arg-type]
        figures = [f for table in (tables.main, *tables.behind) for f in table.figures if "paper_mean" in f]
        shown = [(str(f["quantity"]), float(f["paper_mean"])) for f in figures]
        names = [each.strip() for each in f"{spec.paper}, {'abstract' if name == 'real' else spec.paper}".split(",")]
        left -= {(table, quantity, mean) for table in names for quantity, mean in shown}
        if counted or name == "curves":  # which shows a part of another spec's table
            continue
        printed = paper_figures(spec.paper).query("quantity != 'epochs'")
        expected = list(zip(printed["quantity"], printed["mean"], strict=True))
        shown = [each for each in shown if not each[0].startswith("real-")]
        if name == "multitask":  # the oracle of a model stands in each of its rows
            shown, expected = list(set(shown)), list(set(expected))
        assert sorted(shown) == sorted(expected), name
    assert {(table, quantity) for table, quantity, _ in left} == set(NO_PLACE)


def test_one_against_the_others_is_shown_of_a_large_pool(tmp_path: Path) -> None:
    pools = ["one-reliable:10", "graded:10"]
    table = made(tmp_path, lambda cell: 0.5, table="expertise", benchmark="arc", pool=pools, steps=5).main
    assert list(dict.fromkeys(f["column"][1] for f in table.figures)) == ["0.9", "others, 0.1", "rho"]
    assert figure(table, ("ARC", "trained"), "one reliable:10".replace(" ", "-"), "0.9")["mean"] == pytest.approx(
        0.65 / 0.75
    )
    assert figure(table, ("ARC", "trained"), "one-reliable:10", "others, 0.1")["mean"] == pytest.approx(0.01)


def test_learned_expertise_has_trained_reported_and_implied(tmp_path: Path) -> None:
    table = made(tmp_path, lambda cell: 0.6, table="expertise", pool=["D1", "graded:5"]).main
    assert [row[-1] for row in dict.fromkeys(f["row"] for f in table.figures)] == ["trained", "reported", "implied"]
    assert table.frame().iloc[2, 2:6].tolist() == ["0.87", "-0.20", "-0.20", "(max 0.90)"]
    assert figure(table, ("OBQA", "trained"), "D1", "0.9")["mean"] == pytest.approx(0.65 / 0.75)
    assert figure(table, ("OBQA", "reported"), "D1", "rho")["mean"] == pytest.approx(0.85)


def test_real_annotators_take_the_best_baseline_and_are_counted_as_in_the_abstract(tmp_path: Path) -> None:
    gain = {"wikiattack": 0.2, "sentpolarity": -0.1, "goemotions": 0.4}
    tables = made(
        tmp_path, lambda cell: 0.5 + (gain[cell.data.benchmark] if cell.method == "realm" else 0.0),
        table="real", paper="tab:results_real", benchmark=list(gain), noise=None, pool="contrast:20",
        method=["realm", "noisy", "majority", "oracle"], regime=["sparse", "shared"],
    )  # fmt: skip
    columns = tables.main.frame().columns.tolist()
    assert columns == ["Dataset", "Oracle", "sparse · REALM", "sparse · Noisy", "sparse · Δ", "shared · REALM",
                       "shared · Noisy", "shared · MV", "shared · Δ"]  # fmt: skip
    counted = tables.behind[0].figures
    assert [f["mean"] for f in counted] == pytest.approx([2, 5, 20]) and [f["paper_mean"] for f in counted] == [
        12,
        2.9,
        7.7,
    ]


def test_an_oracle_stands_beside_its_own_pool(tmp_path: Path) -> None:
    level = {"contrast:10": 0.7, "contrast:20": 0.9}
    own = {"benchmark": "sentpolarity", "noise": None, "pool": list(level), "regime": "shared"}
    table = made(
        tmp_path, lambda cell: level[cell.data.pool or ""], table="matrix", method=["realm", "noisy", "oracle"], **own
    ).main
    oracles = {f["row"]: f["mean"] for f in table.figures if f.get("method") == "oracle"}
    assert oracles == {("contrast:10",): pytest.approx(70), ("contrast:20",): pytest.approx(90)}


def test_a_setting_that_a_spec_compares_makes_rows(tmp_path: Path) -> None:
    level = {1e-4: 0.5, 5e-4: 0.7}
    tables = made(
        tmp_path, lambda cell: level[cell.settings["learning_rate"]] + 0.1 * (cell.method == "realm"), table="uniform",
        settings={"learning_rate": list(level)}, benchmark=["arc", "obqa"], pool=["D1", "D3"],
        method=["realm", "noisy", "oracle"],
    )  # fmt: skip
    frame = tables.main.frame()
    assert frame.columns[:2].tolist() == ["Learning rate", "Dataset"] and len(frame) == 6
    assert frame.iloc[0].tolist()[:5] == ["0.0001", "ARC", "50.00 ±0.00", "**60.00 ±0.00**", "50.00 ±0.00"]
    assert frame.iloc[5, :2].tolist() == ["0.0005", "Avg"] and len(tables.behind[0].frame()) == 8


def test_a_method_that_does_not_read_the_setting_stands_beside_each_value(tmp_path: Path) -> None:
    level = {-2.0: 0.5, 0.0: 0.6, 2.0: 0.7}
    table = made(
        tmp_path, lambda cell: level[cell.settings["expertise_start"]] if cell.method == "realm" else 0.4,
        table="uniform", settings={"expertise_start": list(level)}, method=["realm", "noisy"],
    ).main  # fmt: skip
    assert table.frame()["Expertise start"].tolist() == ["-2", "0", "2"]
    assert table.frame()["D1 · Noisy"].tolist() == ["40.00 ±0.00"] * 3


@pytest.mark.parametrize("several", [{"regime": ["sparse", "shared"]}, {"steps": [5, 9]}])
def test_no_field_is_averaged_over_for_want_of_a_place(several: dict[str, Any], tmp_path: Path) -> None:
    table = made(tmp_path, lambda cell: 0.5, table="uniform", method=["realm", "noisy"], **several).main
    assert len(table.frame()) == 2 and {f["of_seeds"] for f in table.figures if "mean" in f} == {2}


def test_configurations_that_a_table_cannot_tell_apart_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RealmError, match="listed twice"):
        make_tables(write_spec(tmp_path, grid=[{"settings": {"learning_rate": r}} for r in (1e-4, 1e-3)]), None)


def test_the_default_and_the_paper_are_two_methods(tmp_path: Path) -> None:
    grid = [{}, {"settings": {"paper": True}}, {"method": "crowd-layer"}, {"settings": {"expertise": "scalar"}}]
    frame = make_tables(write_spec(tmp_path, grid=grid), None).main.frame()
    assert {"REALM", "REALM, paper's setting", "Crowd layer", "REALM, one number each"} <= set(frame.columns)
