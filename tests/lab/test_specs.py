"""Specs: what they expand to, what is said of mistakes in them, and that those of the paper have its configurations."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from realm import PAPER
from realm.comparison.cells import Cell, is_read
from realm.errors import RealmError
from realm_lab import expand, load_spec, packaged_specs
from realm_lab.specs import key_of, spec_rows
from tests.lab.small_benchmark import USUAL, write_spec

PAPERS = [name for name in packaged_specs() if not name.endswith("-real")]
RATES = {"arc": 1.0, "obqa": 0.1, "piqa": 0.5, "pubmedqa": 1.0, "riddlesense": 0.1}
"""Of the paper's main grid, as `tests/paper/test_figures.py` finds them in its figures."""


def cells_of(folder: Path, **keys: Any) -> list[Cell]:
    return expand(write_spec(folder, **keys))


@lru_cache
def packaged(name: str) -> list[Cell]:
    return expand(load_spec(name))


def test_a_grid_is_the_product_of_its_axes(tmp_path: Path) -> None:
    made = cells_of(tmp_path, pool=["D1", "D2", "D3"], method=["realm", "noisy"], seeds=5, steps=[3, 9])
    assert len(made) == 3 * 2 * 5 * 2 == len({cell.id for cell in made}) == len({key_of(cell) for cell in made})
    assert {cell.seed for cell in made} == {0, 1, 2, 3, 4} and {cell.steps for cell in made} == {3, 9}
    listed = {key: [value] for key, value in USUAL.items() if key != "seeds"}
    assert cells_of(tmp_path, **listed, seeds=[0, 1]) == cells_of(tmp_path)


def test_an_oracle_is_one_cell_that_stands_in_every_configuration(tmp_path: Path) -> None:
    axes = {"method": ["realm", "oracle"], "pool": ["D1", "D2"], "noise": ["uniform", "asymmetric"], "seeds": 1}
    spec = write_spec(tmp_path, **axes)
    assert [cell.method for cell in expand(spec)].count("oracle") == 1
    assert sum(row["method"] == "oracle" for row in spec_rows(spec)) == 4
    own = {"noise": None, "method": ["realm", "oracle"], "regime": ["sparse", "shared"], "seeds": 1}
    pools = [cell.data.pool for cell in cells_of(tmp_path, **own, pool=["contrast:10", "contrast:20"])]
    assert pools.count("contrast:10") == pools.count("contrast:20") == 2 + 1
    of_drawn = [cell.data.pool for cell in cells_of(tmp_path, **own, pool="per-item:3") if cell.method == "oracle"]
    assert of_drawn == ["all"]


def test_aggregation_has_no_cell_under_sparse(tmp_path: Path) -> None:
    made = cells_of(tmp_path, method=["noisy", "majority", "dawid-skene"], regime=["sparse", "shared"])
    assert {(cell.method, cell.data.regime) for cell in made if cell.method != "noisy"} == {
        ("majority", "shared"), ("dawid-skene", "shared"),
    }  # fmt: skip


def test_settings_by_benchmark_and_several_values(tmp_path: Path) -> None:
    rates = {"expertise_learning_rate": {"obqa": 0.1, "piqa": [0.5, 1.0]}}
    made = cells_of(tmp_path, benchmark=["obqa", "piqa", "arc"], method=["realm", "noisy"], seeds=1, by_benchmark=rates)
    of_realm = [(c.data.benchmark, c.settings.get("expertise_learning_rate")) for c in made if c.method == "realm"]
    assert of_realm == [("obqa", 0.1), ("piqa", 0.5), ("piqa", 1.0), ("arc", None)]
    assert sum(c.method == "noisy" for c in made) == 3, "what does not read a setting is trained once"


def test_a_grid_takes_what_stands_beside_it_and_a_spec_what_it_extends(tmp_path: Path) -> None:
    grid = [{}, {"items": 5, "settings": {"train_layers": 2}}]
    made = cells_of(tmp_path, grid=grid, items=50, seeds=1, settings={"learning_rate": 1e-3})
    assert [(cell.data.items, dict(cell.settings)) for cell in made] == [
        (50, {"learning_rate": 1e-3}), (5, {"learning_rate": 1e-3, "train_layers": 2}),
    ]  # fmt: skip
    (tmp_path / "more.yaml").write_text("extends: uniform\npool: D3\nsettings: {max_length: 64}\n")
    (grid,) = load_spec(tmp_path / "more.yaml").grids
    assert grid["pool"] == "D3" and grid["settings"]["max_length"] == 64 and grid["settings"]["paper"] is True


def test_methods_of_the_lab_are_realm_with_another_channel_or_setting(tmp_path: Path) -> None:
    made = cells_of(tmp_path, method=["realm-paper", "realm-scalar", "crowd-layer"], seeds=1)
    assert {cell.method for cell in made} == {"realm"} and made[0].settings.items() >= PAPER.items()
    assert made[1].data.channel.endswith("OneNumberChannel") and made[2].settings["expertise_update"] == "gradient"
    source = "from realm import UniformChannel\n\nclass Mine(UniformChannel):\n    '''{}'''\n"
    keys = []
    for number in (1, 2):
        (tmp_path / "mine.py").write_text(source.format(number))
        keys.append(key_of(cells_of(tmp_path, method="mine.py:Mine", seeds=1)[0]))
    assert keys[0] != keys[1], "the source is a part of the cell"


MISTAKES: list[tuple[dict[str, Any], list[str]]] = [
    ({"method": "magic"}, ["method", "magic", "oracle"]),
    ({"method": 3}, ["method", "text", "3"]),
    ({"seeds": "five"}, ["seeds", "whole number"]),
    ({"steps": 1.5}, ["steps", "whole number"]),
    ({"items": -1}, ["items", "whole number"]),
    ({"colour": 1}, ["unknown key colour", "benchmark"]),
    ({"settings": {"seed": 1}}, ["seed", "seeds"]),
    ({"settings": [1]}, ["settings", "name: value"]),
    ({"by_benchmark": [1]}, ["by_benchmark", "name: value"]),
    ({"grid": [1]}, ["grid", "key: value"]),
    *[({name: None}, [f"{name} is missing"]) for name in ("model", "benchmark", "regime", "method", "seeds", "steps")],
]


@pytest.mark.parametrize(("keys", "words"), MISTAKES, ids=lambda value: str(value)[:40])
def test_mistakes_name_the_file_the_key_and_the_mending(keys: Any, words: list[str], tmp_path: Path) -> None:
    with pytest.raises(RealmError) as error:
        cells_of(tmp_path, **keys)
    for word in ["made.yaml", *words]:
        assert word in str(error.value)


@pytest.mark.parametrize("content", ["- 1", "a: [", "title: !!python/object/apply:os.getcwd []", "extends: none"])
def test_what_is_no_spec_at_all(content: str, tmp_path: Path) -> None:
    (tmp_path / "made.yaml").write_text(content)
    for name in (tmp_path / "made.yaml", tmp_path / "gone.yaml", "no-such-spec"):
        with pytest.raises(RealmError, match=r"made\.yaml|realm_lab list"):
            load_spec(name)


@pytest.mark.parametrize("name", PAPERS)
def test_specs_of_the_paper_train_by_the_papers_method_whatever_the_default_is(name: str) -> None:
    for cell in packaged(name):
        assert {
            key: value for key, value in PAPER.items() if is_read(key, cell.method)
        }.items() <= cell.settings.items()


def test_what_specs_share_is_run_once() -> None:
    annotators, noise, capacity = (
        {cell.id for cell in packaged(f"{name}-real")} for name in ("annotators", "noise", "capacity")
    )
    assert len(annotators & noise) == 2 * 2 * 2 * 5
    assert len(capacity & (noise | {cell.id for cell in packaged("real-real")})) == 50


def test_the_paper_counts_135_and_27_configurations() -> None:
    def configurations(name: str) -> set[Any]:
        return {(c.model, c.data.benchmark, c.data.noise, c.data.pool) for c in packaged(name) if c.method == "realm"}

    single = configurations("noise-d1") | configurations("noise-d2") | configurations("noise-d3")
    assert len(single) == 135 == len(configurations("significance")) and len(configurations("multitask")) == 27
    assert configurations("wins") == single | configurations("multitask")


def test_cells_have_the_papers_rates_and_budgets() -> None:
    found = {
        (c.data.benchmark, c.settings["expertise_learning_rate"]) for c in packaged("uniform") if c.method == "realm"
    }
    assert dict(found) == RATES and len(found) == 5
    rates = {c.settings["expertise_learning_rate"] for c in packaged("multitask") if c.method == "realm"}
    assert rates == {0.1, 0.5, 1.0}
    real = packaged("real")
    budgets = {(c.model.rsplit("-", 1)[-1], c.data.benchmark): c.steps for c in real}
    assert budgets["base", "wikiattack"] == budgets["base", "sentpolarity"] == 3000
    assert budgets["large", "wikitoxicity"] == 2000 and budgets["base", "goemotions"] == 1000
    assert {c.settings["expertise_learning_rate"] for c in real if c.method == "realm"} == {0.005, 0.01, 0.1}
    pools = {c.data.benchmark: c.data.pool for c in real}
    assert pools["wikiattack"] == "contrast:150" and pools["goemotions"] == "contrast:10"


def test_the_page_on_the_lab_counts_cells_and_trainings() -> None:
    full = [packaged(name) for name in PAPERS]
    page = (Path(__file__).parents[2] / "docs" / "lab.md").read_text(encoding="utf-8")
    shared = len({cell.id for made in full for cell in made})
    assert f"{sum(map(len, full)):,} cells in all tables are {shared:,} trainings" in " ".join(page.split())
