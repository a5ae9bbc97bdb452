"""The tables against results made up for the purpose: shapes, means, differences, what is missing."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from realm.lab.paper import PaperTable, corresponds, paper_figures, records
from realm.lab.spec import Spec, expand, load_spec, packaged_specs
from realm.lab.spec_results import load_spec_results
from realm.lab.tables import make_tables
from realm.lab.tables.render import escape_latex
from realm.lab.tables.table import Entry, Table

from realm.comparison.cells import Cell
from realm.comparison.results import Results
from realm.errors import RealmError
from tests.lab.small_benchmark import SMALL
from tests.lab.tables.fake_results import fake_result, fill, write_spec

SPEC = """
table: noise-types
settings: {learning_rate: 5.0e-5}
grid:
  model: [google/flan-t5-small, google/flan-t5-base]
  benchmark: [arc, obqa]
  noise: [uniform, systematic]
  pool: [D1]
  regime: [sparse]
  method: [realm, noisy, oracle]
  seeds: 4
  steps: [200]
"""
REALM = [0.60, 0.62, 0.64, 0.66]


def accuracy(cell: Cell) -> float | None:
    if cell.method == "oracle":
        return 0.80
    if cell.data.benchmark == "obqa" and cell.data.noise == "systematic":
        return None if cell.seed else {"realm": 0.4, "noisy": 0.5}[cell.method]
    return REALM[cell.seed] - {"realm": 0.0, "noisy": 0.1}[cell.method]


def entry(spec_text: str, folder: Path, label: tuple[str, ...], head: tuple[str, str]) -> Entry:
    spec = write_spec(folder, spec_text)
    table = make_tables(spec, fill(folder / "r.sqlite", spec, accuracy)).main
    place = next(i for i, column in enumerate(table.columns) if (column.group, column.name) == head)
    found = next(row for row in table.rows if row.labels == label).entries[place]
    assert isinstance(found, Entry)
    return found


def test_means_and_population_deviations_over_seeds(tmp_path: Path) -> None:
    found = entry(SPEC, tmp_path, ("Base", "ARC"), ("uniform", "REALM"))
    assert found.summary is not None
    assert found.summary.mean == pytest.approx(63.0) and found.summary.std == pytest.approx(
        np.std([60, 62, 64, 66], ddof=1)
    )
    assert found.best and found.paper is None and not found.partial


def test_the_oracle_is_one_column_for_all_noises(tmp_path: Path) -> None:
    found = entry(SPEC, tmp_path, ("Small", "OBQA"), ("", "Oracle"))
    assert found.summary is not None and found.summary.mean == pytest.approx(80.0) and found.summary.seeds == 4


def test_the_paper_stands_beside_ours_where_the_spec_names_its_table(tmp_path: Path) -> None:
    named = SPEC.replace("table:", "paper: tab:results_noise_types\ntable:")
    found = entry(named, tmp_path, ("Base", "ARC"), ("systematic", "Noisy"))
    assert found.paper == (41.77, 0.61)
    assert found.difference == pytest.approx(53.0 - 41.77)
    delta = entry(named, tmp_path, ("Base", "ARC"), ("systematic", "Δ"))
    assert delta.paper is not None and delta.paper[0] == 1.37
    assert delta.summary is not None and delta.summary.mean == pytest.approx(10.0)
    assert delta.contrast is not None and delta.contrast.significant and delta.contrast.signs == "+4"
    assert delta.contrast.low is not None and delta.contrast.low > 0
    average = entry(named, tmp_path, ("Small", "Avg"), ("uniform", "REALM"))
    assert average.paper == (40.2, 1.19) and average.summary is not None and average.summary.mean == pytest.approx(63.0)


def test_what_is_missing_is_said_with_the_command_that_runs_it(tmp_path: Path) -> None:
    found = entry(SPEC, tmp_path, ("Base", "OBQA"), ("systematic", "REALM"))
    assert found.partial and found.summary is not None and found.summary.seeds == 1
    spec = load_spec(tmp_path / "made.yaml")
    results = tmp_path / "r.sqlite"
    text = make_tables(spec, fill(results, spec, accuracy), "realm lab run made.yaml").text("md")
    assert "(1 of 4 seeds)" in text
    assert "12 of 80 cells are missing. To run them: realm lab run made.yaml" in text
    nothing = make_tables(spec, None).text("md")
    assert "80 of 80 cells are missing" in nothing and "| missing |" in nothing


def test_wins_are_counted_below_the_table(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, SPEC)
    text = make_tables(spec, fill(tmp_path / "r.sqlite", spec, accuracy)).text("md")
    assert "ahead by mean in 6 of 8 configurations (behind in 2)" in text
    assert "better in 6, worse in 0, undecided in 2; in 6 of the 6" in text


def test_comma_separated_values_have_a_line_per_figure(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, SPEC.replace("table:", "paper: tab:results_noise_types\ntable:"))
    made = make_tables(spec, fill(tmp_path / "r.sqlite", spec, accuracy))
    lines = list(csv.DictReader(io.StringIO(made.text("csv"))))
    assert len(lines) == len(made.main.entries)
    line = next(
        one for one in lines
        if (one["model"], one["benchmark"], one["noise"], one["quantity"]) == ("base", "arc", "uniform", "delta")
    )  # fmt: skip
    assert (line["mean"], line["paper_mean"], line["ahead"], line["against"]) == ("10", "3.42", "4", "noisy")


def test_latex_has_as_many_cells_in_every_row_and_escapes_text(tmp_path: Path) -> None:
    text = SPEC.replace("table:", "title: 50% of a_b & <c>\npaper: tab:results_noise_types\ntable:")
    spec = write_spec(tmp_path, text)
    made = make_tables(spec, fill(tmp_path / "r.sqlite", spec, accuracy))
    latex = made.text("latex")
    assert r"50\% of a\_b \& $<$c$>$" in latex
    body = latex.split(r"\end{tabular}")[0]
    rows = [line for line in body.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
    assert {line.replace(r"\&", "").count("&") for line in rows} == {len(made.main.columns) + 1}
    assert escape_latex("\\x{y}") == r"\textbackslash{}x\{y\}"


def test_layouts_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, SPEC.replace("noise-types", "nonesuch"))
    with pytest.raises(RealmError, match="there is no table 'nonesuch'"):
        make_tables(spec, None)


# -------------------------------------------------------------------- every layout


@pytest.mark.parametrize("name", [name for name in packaged_specs() if name.endswith("-real")])
def test_specs_of_our_own_have_a_table_without_the_paper(name: str) -> None:
    spec = load_spec(name)
    table = make_tables(spec, None).main
    assert spec.paper is None and not table.has_paper
    assert all(len(row.entries) == len(table.columns) for row in table.rows)
    assert table.rows or spec.table == "wins"  # which counts what is finished


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


def test_every_figure_of_the_paper_finds_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all that were transcribed, and not only of the tables that some spec names; in the table of its spec once."""
    placed: set[tuple[str, ...]] = set()
    look_up = PaperTable.figure

    def noted(self: PaperTable, method: str | None, quantity: str, **fields: object) -> Any:
        found = look_up(self, method, quantity, **fields)
        if found is not None:
            wanted = {"method": method, "quantity": quantity, **fields}
            (row,) = (row for row in self.rows if corresponds(row, wanted))
            placed.add(tuple(str(value) for value in row.values()))
        return found

    monkeypatch.setattr(PaperTable, "figure", noted)
    for name in packaged_specs():
        if (spec := load_spec(name)).paper is None:
            continue
        counted = name in ("wins", "significance")
        table = make_tables(spec, Guessed() if counted else None).main  # type: ignore[arg-type]
        if counted or name == "curves":  # which shows a part of another spec's table
            continue
        figures = pd.concat([paper_figures(label.strip()) for label in str(spec.paper).split(",")])
        figures = figures[figures["quantity"] != "epochs"]
        expected = list(zip(figures["quantity"], figures["mean"], strict=True))
        printed = [(e.key["quantity"].split()[0], e.paper[0]) for e in table.entries if e.paper is not None]
        if name == "multitask":  # the oracle of a model stands in each of its rows
            printed, expected = list(set(printed)), list(set(expected))
        assert sorted(printed) == sorted(expected), name
    rows = {tuple(str(value) for value in row.values()): row for row in records(paper_figures())}
    left = {(row["table"], row["quantity"]) for said, row in rows.items() if said not in placed}
    assert left == set(NO_PLACE)


def test_one_against_the_others_is_shown_of_a_large_pool(tmp_path: Path) -> None:
    spec = write_spec(
        tmp_path,
        "table: expertise\ngrid: {model: m, benchmark: arc, noise: uniform, pool: ['one-reliable:10', 'graded:10'], "
        "regime: sparse, method: realm, seeds: 2, steps: 5}\n",
    )
    table = make_tables(spec, fill(tmp_path / "r.sqlite", spec, lambda cell: 0.5)).main
    assert [column.name for column in table.columns] == ["0.9", "others, 0.1", "rho", "rho"]
    first, others = table.rows[0].entries[:2]
    assert isinstance(first, Entry) and first.summary and first.summary.mean == pytest.approx(0.65 / 0.75)
    assert isinstance(others, Entry) and others.summary and others.summary.mean == pytest.approx(0.01)


def test_real_annotators_are_counted_as_in_the_abstract(tmp_path: Path) -> None:
    spec = write_spec(
        tmp_path,
        "table: real\npaper: tab:results_real\ngrid: {model: m, benchmark: [wikiattack, sentpolarity, goemotions], "
        "pool: 'contrast:20', regime: sparse, method: [realm, noisy], seeds: 2, steps: 5}\n",
    )
    gain = {"wikiattack": 0.2, "sentpolarity": -0.1, "goemotions": 0.4}
    results = fill(tmp_path / "r.sqlite", spec, lambda cell: 0.5 + gain[cell.data.benchmark] * (cell.method == "realm"))
    counted = make_tables(spec, results).behind[0]
    assert counted.rows[0].labels == ("2",) and counted.rows[0].entries[0] == "2"
    assert [e.summary.mean for e in counted.entries if e.summary] == pytest.approx([1, 5, 20])
    assert [e.paper[0] for e in counted.entries if e.paper] == [12, 2.9, 7.7]


def test_learned_expertise_has_trained_re_estimated_and_implied(tmp_path: Path) -> None:
    spec = load_spec(SMALL / "expertise-small.yaml")
    table = make_tables(spec, fill(tmp_path / "r.sqlite", spec, lambda cell: 0.6)).main
    trained, again, implied = table.rows[:3]
    assert [row.labels[-1] for row in table.rows[:3]] == ["trained", "re-estimated", "implied"]
    assert [column.name for column in table.columns[:4]] == ["0.9", "0.1", "0.1", "rho"]
    first = trained.entries[0]
    assert isinstance(first, Entry) and first.summary is not None and first.summary.mean == pytest.approx(0.65 / 0.75)
    assert implied.entries[:4] == ("0.87", "-0.20", "-0.20", "(max 0.90)")
    assert isinstance(again.entries[3], Entry) and again.entries[3].summary is not None
    assert again.entries[3].summary.mean == pytest.approx(0.85)


def test_real_configurations_take_the_best_baseline(tmp_path: Path) -> None:
    spec = load_spec(SMALL / "real-small.yaml")
    level = {"realm": 0.8, "noisy": 0.6, "majority": 0.5, "dawid-skene": 0.7, "oracle": 0.9}
    table = make_tables(spec, fill(tmp_path / "r.sqlite", spec, lambda cell: level[cell.method])).main
    heads = [(column.group, column.name) for column in table.columns]
    assert heads[:4] == [("", "Oracle"), ("sparse", "REALM"), ("sparse", "Noisy"), ("sparse", "Δ")]
    deltas = [e.summary.mean for e in table.entries if e.key["quantity"] == "delta" and e.summary is not None]
    assert deltas == pytest.approx([20.0, 10.0])


def test_an_oracle_stands_beside_its_own_pool(tmp_path: Path) -> None:
    spec = write_spec(
        tmp_path,
        "table: matrix\ngrid: {model: m, benchmark: sentpolarity, pool: ['contrast:10', 'contrast:20'], regime: "
        "shared, method: [realm, noisy, oracle], seeds: 2, steps: 5}\n",
    )
    level = {"contrast:10": 0.7, "contrast:20": 0.9}
    table = make_tables(spec, fill(tmp_path / "r.sqlite", spec, lambda cell: level[cell.data.pool or ""])).main
    assert table.columns[0].name == "Oracle"
    oracles = {row.labels: row.entries[0] for row in table.rows}
    assert {label: (e.summary.mean, e.seeds) for label, e in oracles.items() if isinstance(e, Entry) and e.summary} == {
        ("contrast:10",): (pytest.approx(70.0), 2),
        ("contrast:20",): (pytest.approx(90.0), 2),
    }


SETTINGS = """
table: uniform
settings: {}
grid: {{model: m, benchmark: [arc, obqa], noise: uniform, pool: [D1, D3], regime: sparse, method: {methods}, seeds: 2,
       steps: 5}}
"""


def compared(tmp_path: Path, settings: str, methods: str = "[realm, noisy, oracle]", table: str = "uniform") -> Spec:
    text = SETTINGS.format(settings, methods=methods).replace("table: uniform", f"table: {table}")
    return write_spec(tmp_path, text)


def means_by_row(table: Table) -> dict[tuple[str, ...], list[float]]:
    return {
        row.labels: [e.summary.mean for e in row.entries if isinstance(e, Entry) and e.summary] for row in table.rows
    }


def by_rate(cell: Cell) -> float:
    return {1e-4: 0.5, 5e-4: 0.7}[cell.settings["learning_rate"]] + {"realm": 0.1}.get(cell.method, 0.0)


def test_a_setting_that_a_spec_compares_makes_rows(tmp_path: Path) -> None:
    spec = compared(tmp_path, "{learning_rate: [1.0e-4, 5.0e-4]}")
    made = make_tables(spec, fill(tmp_path / "r.sqlite", spec, by_rate))
    table = made.main
    assert table.stub == ("Learning rate", "Dataset")
    assert [row.labels for row in table.rows[:3]] == [("0.0001", "ARC"), ("0.0001", "OBQA"), ("0.0001", "Avg")]
    means = means_by_row(table)
    assert means["0.0001", "ARC"] == pytest.approx([50, 60, 50, 10, 60, 50, 10])
    assert means["0.0005", "Avg"] == pytest.approx([70, 80, 70, 10, 80, 70, 10])
    assert {entry.seeds for entry in table.entries} == {2}
    assert made.behind[0].stub == ("Dataset", "Pool", "Learning rate") and len(made.behind[0].rows) == 8
    assert "learning_rate" in made.text("csv").splitlines()[0].split(",")


def test_a_method_that_does_not_read_the_setting_stands_beside_each_value(tmp_path: Path) -> None:
    spec = compared(tmp_path, "{expertise_start: [-2, 0, 2]}")
    level = {-2.0: 0.5, 0.0: 0.6, 2.0: 0.7}

    def given(cell: Cell) -> float:
        return level[cell.settings["expertise_start"]] if cell.method == "realm" else 0.4

    table = make_tables(spec, fill(tmp_path / "r.sqlite", spec, given)).main
    found = means_by_row(table)
    assert list(found)[::3] == [("-2", "ARC"), ("0", "ARC"), ("2", "ARC")]
    assert found["2", "OBQA"][:4] == pytest.approx([40, 70, 40, 30]) and len(found) == 9


def test_expertise_is_shown_for_each_value_of_a_setting(tmp_path: Path) -> None:
    spec = compared(tmp_path, "{expertise_start: [-2, 0, 2]}", "realm", "expertise-start")
    table = make_tables(spec, fill(tmp_path / "r.sqlite", spec, lambda cell: 0.5)).main
    assert [column.name for column in table.columns[:5]] == ["accuracy", "0.9", "0.1", "0.1", "rho"]
    assert table.stub == ("Dataset", "Expertise start", "Expertise") and len(table.rows) == 2 * 3 * 3
    assert {entry.seeds for entry in table.entries} == {2}


@pytest.mark.parametrize("said", ["regime: [sparse, shared]", "regime: sparse\n  steps: [5, 9]"])
def test_no_field_is_averaged_over_for_want_of_a_place(said: str, tmp_path: Path) -> None:
    steps = "" if "steps" in said else "  steps: 5\n"
    text = f"table: uniform\ngrid:\n  model: m\n  benchmark: arc\n  noise: uniform\n  pool: D1\n  {said}\n{steps}"
    spec = write_spec(tmp_path, text + "  method: [realm, noisy]\n  seeds: 2\n")
    table = make_tables(spec, fill(tmp_path / "r.sqlite", spec, lambda cell: 0.5)).main
    assert len(table.rows) == 2 and {entry.seeds for entry in table.entries} == {2}


def test_what_cannot_be_told_apart_is_refused(tmp_path: Path) -> None:
    grid = (
        "  - {{model: m, benchmark: arc, noise: uniform, pool: D1, regime: sparse, method: realm, seeds: 1, steps: 5, "
        "choose: {}}}\n"
    )
    tries = ("{realm: {learning_rate: [1.0e-4]}}", "{realm: {learning_rate: [5.0e-4, 1.0e-4]}}")
    spec = write_spec(tmp_path, "table: uniform\ngrid:\n" + "".join(grid.format(one) for one in tries))
    with pytest.raises(RealmError, match=r"m arc uniform D1 sparse realm seed 0 5 steps is listed 2 times.*choose"):
        make_tables(spec, None)


def test_ranks_are_not_averaged_over_rates(tmp_path: Path) -> None:
    spec = write_spec(
        tmp_path,
        "table: real\nsettings: {expertise_learning_rate: [0.1, 1.0]}\ngrid: {model: m, benchmark: sentpolarity, "
        "regime: shared, method: realm, seeds: 2, steps: 5}\n",
    )
    results = Results.open(tmp_path / "r.sqlite", create=True)
    for cell in expand(spec):
        rate = cell.settings["expertise_learning_rate"]
        ranked = {"accuracy": 0.5, "spearman": 0.9, "spearman_trained": rate / 2, "spearman_trained_max": 1.0}
        results.add(replace(fake_result(cell, 0.5), metrics=ranked))
    (ranks,) = make_tables(spec, results).behind
    assert ranks.stub == ("Rate",) and [row.labels for row in ranks.rows] == [("0.1",), ("1",)]
    assert [e.summary.mean for e in ranks.entries[::2] if e.summary] == pytest.approx([0.05, 0.5])


def test_counts_of_significance_by_benchmark_and_model(tmp_path: Path) -> None:
    spec = load_spec(SMALL / "significance-small.yaml")

    def given(cell: Cell) -> float:
        gain = {"D1": 0.1, "D2": 0.0, "D3": -0.1}[cell.data.pool or ""]
        return 0.5 + 0.01 * cell.seed + (gain + 0.01 * (cell.seed % 2) if cell.method == "realm" and gain else 0.0)

    table = make_tables(spec, fill(tmp_path / "r.sqlite", spec, given)).main
    counts = {
        row.labels: [e.summary.mean for e in row.entries if isinstance(e, Entry) and e.summary is not None]
        for row in table.rows
    }
    assert counts["Dataset", "CEBaB/food"] == [9, 3, 3, 3]
    assert counts["Model", "minilm-l6"] == counts["All", ""] == [18, 6, 6, 6]
    assert "ahead by mean in 6 of 18 configurations (behind in 6)" in " ".join(table.notes)


# -------------------------------------------------------------------- pieces


def test_published_figures_are_found_under_both_names_of_a_pool() -> None:
    graded = PaperTable("tab:ablation_num_annotators")
    fields = {"model": "base", "benchmark": "arc", "noise": "uniform", "regime": "sparse", "steps": 200}
    assert graded.figure("realm", "accuracy", pool="D3", **fields) == (45.3, 0.26)
    assert graded.figure("realm", "accuracy", pool="D1", **fields) is None
    assert graded.figure("realm", "accuracy", pool="D3", **{**fields, "model": "minilm-l6"}) is None
    assert len(PaperTable(None)) == 0


def test_settings_do_not_hide_figures(tmp_path: Path) -> None:
    spec = load_spec(SMALL / "multitask-small.yaml")
    gathered = load_spec_results(spec, fill(tmp_path / "r.sqlite", spec, lambda cell: 0.5))
    assert "expertise" not in gathered.frame.columns
    assert set(gathered.frame["method"]) == {"realm", "realm-scalar", "noisy", "oracle"}
    assert gathered.missing == 0
