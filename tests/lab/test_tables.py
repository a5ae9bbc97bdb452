"""Tables and pictures against results made up for the purpose, and the record that they can be drawn from."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from realm import RealmError
from realm.comparison import cells as comparison_cells
from realm.comparison.cells import Cell
from realm.comparison.results import Results
from realm_lab import Recorded, expand, load_spec, packaged_specs, paper_figures, spec_tables
from realm_lab.plots import ForestRow, draw_plots, forest, save
from realm_lab.recorded import record
from realm_lab.specs import Spec
from tests.lab.small_benchmark import fill, write_spec

SPEC: dict[str, Any] = {
    "settings": {"learning_rate": 5.0e-5}, "model": ["google/flan-t5-small", "google/flan-t5-base"],
    "benchmark": ["arc", "obqa"], "noise": ["uniform", "systematic"], "method": ["realm", "noisy", "oracle"],
    "seeds": 4, "steps": 200,
}  # fmt: skip
REALM = [0.60, 0.62, 0.64, 0.66]


def accuracy(cell: Cell) -> float | None:
    if cell.method == "oracle":
        return 0.80
    if cell.data.benchmark == "obqa" and cell.data.noise == "systematic":
        return None if cell.seed else {"realm": 0.4, "noisy": 0.5}[cell.method]
    return REALM[cell.seed] - {"realm": 0.0, "noisy": 0.1}[cell.method]


def figures(folder: Path, level: Any = accuracy, **keys: Any) -> pd.DataFrame:
    spec = write_spec(folder, **keys)
    return pd.read_csv(io.StringIO(spec_tables(spec, fill(folder / "results", spec, level), "csv")))


def test_means_deviations_and_leads_stand_beside_the_papers_figures(tmp_path: Path) -> None:
    found = figures(tmp_path, paper="tab:results_noise_types", **SPEC).set_index(
        ["model", "benchmark", "noise", "method", "quantity"]
    )
    mine = found.loc["base", "arc", "uniform", "realm", "accuracy"]
    assert (mine["mean"], mine["seeds"]) == (pytest.approx(63), 4)
    assert mine["std"] == pytest.approx(np.std([60, 62, 64, 66], ddof=1), rel=1e-5)
    assert found.loc["base", "arc", "systematic", "noisy", "accuracy"]["paper"] == 41.77
    lead = found.loc["base", "arc", "systematic", "realm", "delta"]
    assert (lead["mean"], lead["paper"]) == (pytest.approx(10), 1.37)
    average = found.loc["small", "average", "uniform", "realm", "accuracy"]
    assert (average["mean"], average["paper"]) == (pytest.approx(63), 40.2)
    partial = found.loc["base", "obqa", "systematic", "realm", "accuracy"]
    assert (partial["seeds"], partial["of"]) == (1, 4)
    spec = load_spec(tmp_path / "made.yaml")
    text = spec_tables(spec, Results(tmp_path / "results"))
    assert "[41.77, +11.23]" in text and "(1 of 4 seeds)" in text and "12 of 96 trainings are missing." in text
    assert "+10.0 (" in text and "\\begin{tabular}" in spec_tables(spec, None, "latex")


def test_real_annotators_are_compared_with_the_best_baseline(tmp_path: Path) -> None:
    gain = {"wikiattack": 0.2, "sentpolarity": -0.1, "goemotions": 0.4}

    def level(cell: Cell) -> float:
        own = {"realm": gain[cell.data.benchmark], "majority": 0.05}
        return 0.5 + own.get(cell.method, 0.0)

    found = figures(
        tmp_path, level, benchmark=list(gain), noise=None, pool="contrast:20", shows="counts",
        method=["realm", "noisy", "majority", "oracle"], regime=["sparse", "shared"],
    )  # fmt: skip
    leads = found[(found["quantity"] == "delta") & (found["benchmark"] != "average")]
    assert leads.set_index(["benchmark", "regime"])["mean"].round(6).to_dict() == {
        ("wikiattack", "sparse"): 20, ("sentpolarity", "sparse"): -10, ("goemotions", "sparse"): 40,
        ("wikiattack", "shared"): 15, ("sentpolarity", "shared"): -15, ("goemotions", "shared"): 35,
    }  # fmt: skip
    of_all = found[found["benchmark"] == "all"].set_index("quantity")["mean"]
    assert (of_all["configurations"], of_all["wins"], of_all["average-delta"]) == (4, 2, 2.5), "without GoEmotions"


def test_the_value_with_the_best_test_accuracy_is_shown(tmp_path: Path) -> None:
    level = {0.1: 0.5, 0.5: 0.7}
    found = figures(
        tmp_path, lambda cell: level[cell.settings["expertise_learning_rate"]] if cell.method == "realm" else 0.4,
        settings={"expertise_learning_rate": list(level)}, method=["realm", "noisy"], best="expertise_learning_rate",
        pool=["D1", "D2"],
    )  # fmt: skip
    accuracies = found[found["quantity"] == "accuracy"]
    assert sorted(accuracies["mean"]) == [40, 40, 70, 70] and (accuracies["seeds"] == 2).all()
    every = figures(
        tmp_path, lambda cell: level[cell.settings["expertise_learning_rate"]] if cell.method == "realm" else 0.4,
        settings={"expertise_learning_rate": list(level)}, method=["realm", "noisy"],
    )  # fmt: skip
    assert every[every["method"] == "realm"].groupby("rate")["mean"].first().to_dict() == {0.1: 50, 0.5: 70}


def test_learned_expertise_is_shown_by_annotator_and_summarised_of_a_large_pool(tmp_path: Path) -> None:
    pools = ["D1", "graded:10", "one-reliable:10"]
    found = figures(tmp_path, lambda cell: 0.5, shows="expertise", benchmark="arc", pool=pools)
    learned = found[found["quantity"] == "expertise"].set_index(["pool", "annotator"])["mean"].round(4).to_dict()
    assert learned["D1", "a1"] == learned["one-reliable:10", "a1"] == round(0.65 / 0.75, 4)
    assert learned["one-reliable:10", "others"] == 0.01 and not any(pool == "graded:10" for pool, _ in learned)
    assert (found[found["quantity"] == "spearman"]["mean"] == 0.8).all()


class Guessed:
    """Results in which REALM is always ahead, with nothing but accuracies: for tables that count what is finished."""

    def frame(self, cells: Sequence[Cell]) -> pd.DataFrame:
        return pd.DataFrame([{"id": c.id, "accuracy": 0.5 + c.seed / 100 + (c.method == "realm") / 10} for c in cells])

    def correct(self, ids: Sequence[str]) -> None:
        return None

    def table(self, name: str, ids: Sequence[str]) -> pd.DataFrame:
        return pd.DataFrame()


def test_every_accuracy_lead_and_expertise_of_the_paper_finds_its_place() -> None:
    every = paper_figures()
    every = every[every["quantity"].isin(["accuracy", "delta", "expertise", "spearman", "significant-wins", "wins"])]
    left = set(zip(every["table"], every["quantity"], every["mean"], strict=True))
    for name in packaged_specs():
        if (spec := load_spec(name)).paper is not None:
            shown = pd.read_csv(io.StringIO(spec_tables(spec, Guessed(), "csv"))).dropna(subset="paper")
            tables = [each.strip() for each in spec.paper.split(",")]
            left -= {(t, q, m) for t in tables for q, m in zip(shown["quantity"], shown["paper"], strict=True)}
    # the multi-task table prints no lead of its own kind, and the text counts wins that the abstract counts, too
    assert {(table, quantity) for table, quantity, _ in left} <= {("app:significance", "wins")}


# -------------------------------------------------------------------- the record


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[Spec, Results, Path]:
    own = {"benchmark": "sentpolarity", "noise": None, "pool": "contrast:20", "regime": ["sparse", "shared"]}
    spec = write_spec(tmp_path, method=["realm", "noisy", "majority", "crowd-layer", "oracle"], seeds=3, **own)
    level = {"realm": 0.8, "noisy": 0.6, "majority": 0.5, "oracle": 0.9}
    results = fill(tmp_path / "results", spec, lambda cell: None if cell.seed == 2 else level[cell.method])
    (tmp_path / "recorded").mkdir()
    for name, text in record(results, expand(spec)).items():
        (tmp_path / "recorded" / name).write_text(text, encoding="utf-8")
    return spec, results, tmp_path / "recorded"


def test_tables_of_the_record_are_those_of_the_results(recorded: tuple[Spec, Results, Path]) -> None:
    spec, results, folder = recorded
    store = Recorded(folder)
    for form in ("md", "latex", "csv"):
        assert spec_tables(spec, store, form) == spec_tables(spec, results, form)
    ids = [cell.id for cell in expand(spec) if cell.method == "noisy" and cell.seed < 2]
    np.testing.assert_array_equal(store.correct(ids), results.correct(ids))
    assert store.correct([*ids, "unknown"]) is None and store.stale == {}


def test_a_changed_default_is_stale_and_a_new_setting_is_not(
    recorded: tuple[Spec, Results, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, _, folder = recorded
    ids, resolved = {cell.id for cell in expand(spec)}, comparison_cells._resolved

    def with_setting(name: str, value: object) -> Recorded:
        monkeypatch.setattr(comparison_cells, "_resolved", lambda *arguments: {**resolved(*arguments), name: value})
        return Recorded(folder)

    store = with_setting("a_new_setting", 3)
    changed = expand(spec)
    assert ids.isdisjoint(cell.id for cell in changed)
    assert len(store.frame(changed)) == 2 * 8 and not store.stale
    store = with_setting("weight_decay", 0.123)
    assert len(store.frame(expand(spec))) == 0 and list(store.stale.values()) == [["weight_decay"]] * 16


def test_what_is_no_record_is_said(tmp_path: Path) -> None:
    for content in (None, "{", json.dumps({"id": 1})):
        if content is not None:
            (tmp_path / "settings.json").write_text("{}")
            (tmp_path / "cells.jsonl").write_text(content)
        with pytest.raises(RealmError, match="recorded results cannot be read"):
            Recorded(tmp_path)


# -------------------------------------------------------------------- pictures


def test_curves_have_a_panel_per_configuration_with_a_line_and_a_band_per_method(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, curve=10, benchmark=["arc", "obqa"], method=["realm", "noisy"], title="<b>1 & 2</b>")
    with pytest.raises(RealmError, match="no cell is finished yet"):
        list(draw_plots(spec, Results(tmp_path / "none")))
    level = {"realm": 0.6, "noisy": 0.5}
    results = fill(tmp_path / "results", spec, lambda cell: level[cell.method] + cell.seed / 50)
    drawn = dict(draw_plots(spec, results))
    assert list(drawn) == ["made-curves.svg", "made-expertise.svg"]
    panels = drawn["made-curves.svg"].axes
    assert [axes.get_title() for axes in panels] == ["ARC", "OBQA"]
    for axes in panels:
        assert [line.get_label() for line in axes.lines] == ["REALM", "Noisy"] and len(axes.collections) == 2
        np.testing.assert_allclose(axes.lines[0].get_ydata(), [0.25, 0.405, 0.61])  # of .60 and .62
    save(drawn["made-curves.svg"], tmp_path / "made.svg")
    content = (tmp_path / "made.svg").read_text()
    assert "&lt;b&gt;1 &amp; 2&lt;/b&gt;" in content and ElementTree.fromstring(content) is not None


def test_the_forest_has_a_mark_and_an_interval_for_each_lead(tmp_path: Path) -> None:
    rows = [ForestRow("Group"), ForestRow("one", ((1.0, 0.5, 1.5), None)), ForestRow("two", ((2.0, -9.0, 3.0),) * 2)]
    picture = forest("Title", rows)
    marks = [container.lines[0].get_xdata().tolist() for container in picture.axes[0].containers]
    assert marks == [[1.0, 2.0], [2.0]]
    texts = [str(row) for row in rows]
    assert texts == ["Group: ", "one: +1.0 (+0.5 to +1.5)", "two: +2.0 (-9.0 to +3.0), +2.0 (-9.0 to +3.0)"]
    for name in ("first.svg", "second.svg"):
        save(picture, tmp_path / name, "; ".join(texts))
    assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "second.svg").read_bytes()
