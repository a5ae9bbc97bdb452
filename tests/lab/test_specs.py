"""Specs: what they expand to, what is said of mistakes in them, and that those of the paper have its configurations."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from realm import PAPER
from realm.comparison.cells import Cell, is_read
from realm.errors import RealmError
from realm_lab import expand, load_spec, packaged_specs
from realm_lab.results import method_of
from realm_lab.specs import key_of
from tests.lab.small_benchmark import USUAL, write_spec

NAMES = packaged_specs()
PAPERS = [name for name in NAMES if not name.endswith("-real")]
RATES = {"arc": 1.0, "obqa": 0.1, "piqa": 0.5, "pubmedqa": 1.0, "riddlesense": 0.1}
"""Of the paper's main grid, as `tests/paper/test_figures.py` finds them in its figures."""


def cells_of(folder: Path, **keys: Any) -> list[Cell]:
    return expand(write_spec(folder, **keys))


@lru_cache
def packaged(name: str) -> list[Cell]:
    return expand(load_spec(name))


# -------------------------------------------------------------------- expansion


def test_a_grid_is_the_product_of_its_axes(tmp_path: Path) -> None:
    made = cells_of(tmp_path, pool=["D1", "D2", "D3"], method=["realm", "noisy"], seeds=5, steps=[3, 9])
    assert len(made) == 3 * 2 * 5 * 2 == len({cell.id for cell in made}) == len({key_of(cell) for cell in made})
    assert {cell.seed for cell in made} == {0, 1, 2, 3, 4} and {cell.steps for cell in made} == {3, 9}


def test_one_value_as_a_list_and_a_number_as_text_change_nothing(tmp_path: Path) -> None:
    usual = cells_of(tmp_path, settings={"expertise_learning_rate": 1.0, "learning_rate": 5e-5})
    listed = {key: [value] for key, value in USUAL.items() if key != "seeds"}
    settings = {"learning_rate": "5e-5", "expertise_learning_rate": [1]}
    assert [c.id for c in cells_of(tmp_path, **listed, seeds=[0, 1], settings=settings)] == [c.id for c in usual]


def test_oracle_and_repeated_cells_appear_once(tmp_path: Path) -> None:
    one = {"method": ["realm", "oracle"], "pool": ["D1", "D2"], "noise": ["uniform", "asymmetric"], "seeds": 1}
    made = cells_of(tmp_path, grid=[one, one])
    assert [cell.method for cell in made].count("oracle") == 1 and len(made) == 4 + 1


def test_oracles_of_own_annotators_keep_their_pool_and_share_regimes(tmp_path: Path) -> None:
    own = {"noise": None, "method": ["realm", "oracle"], "regime": ["sparse", "shared"], "seeds": 1}
    pools = [cell.data.pool for cell in cells_of(tmp_path, **own, pool=["contrast:10", "contrast:20"])]
    assert pools.count("contrast:10") == pools.count("contrast:20") == 2 + 1
    found = cells_of(tmp_path, **own, pool=None)
    assert [cell.data.pool for cell in found if cell.method == "oracle"] == ["all"]
    (joined,) = cells_of(tmp_path, **{**own, "method": "oracle"}, pool=None, benchmark="arc+obqa")
    assert joined.data.pool is None


def test_aggregation_has_no_cell_under_sparse(tmp_path: Path) -> None:
    made = cells_of(tmp_path, method=["noisy", "majority", "dawid-skene"], regime=["sparse", "shared"])
    assert {(cell.method, cell.data.regime) for cell in made if cell.method != "noisy"} == {
        ("majority", "shared"), ("dawid-skene", "shared"),
    }  # fmt: skip


def test_settings_by_benchmark_and_choices_by_method(tmp_path: Path) -> None:
    rates = {"expertise_learning_rate": {"obqa": 0.1, "piqa": [0.5, 1]}}
    made = cells_of(tmp_path, benchmark=["obqa", "piqa", "arc"], method=["realm", "noisy"], seeds=1, by_benchmark=rates)
    of_realm = [(c.data.benchmark, c.settings.get("expertise_learning_rate")) for c in made if c.method == "realm"]
    assert of_realm == [("obqa", 0.1), ("piqa", 0.5), ("piqa", 1.0), ("arc", None)]
    choose = {"realm": {"expertise_learning_rate": [0.1, 0.5]}}
    chosen = cells_of(tmp_path, method=["realm", "noisy"], choose=choose, seeds=1)
    assert [dict(cell.choose) for cell in chosen] == [{"expertise_learning_rate": (0.1, 0.5)}, {}]


def test_a_grid_takes_what_stands_beside_it_and_a_spec_what_it_extends(tmp_path: Path) -> None:
    grid = [{}, {"items": 5, "settings": {"train_layers": 2}}]
    made = cells_of(tmp_path, grid=grid, items=50, seeds=1, settings={"learning_rate": 1e-3})
    assert [(cell.data.items, dict(cell.settings)) for cell in made] == [
        (50, {"learning_rate": 1e-3}), (5, {"learning_rate": 1e-3, "train_layers": 2}),
    ]  # fmt: skip
    (tmp_path / "more.yaml").write_text("extends: made.yaml\npool: D3\ngrid: {items: 7}\nsettings: {max_length: 64}\n")
    (cell,) = expand(load_spec(tmp_path / "more.yaml"))
    assert (cell.data.pool, cell.data.items) == ("D3", 7)
    assert dict(cell.settings) == {"learning_rate": 1e-3, "max_length": 64}


def test_a_channel_of_ones_own_is_a_method_and_its_source_a_part_of_the_cell(tmp_path: Path) -> None:
    source = "from realm import UniformChannel\n\nclass Mine(UniformChannel):\n    '''{}'''\n"
    keys = []
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "mine.py").write_text(source.format(number))
        (cell,) = cells_of(folder, method="mine.py:Mine", seeds=1)
        assert cell.method == "realm" and method_of(cell) == "Mine"
        keys.append(key_of(cell))
    assert keys[0] != keys[1]
    (rival,) = cells_of(tmp_path, method="crowd-layer", seeds=1)
    assert method_of(rival) == "crowd-layer" and rival.settings["expertise_update"] == "gradient"
    with pytest.raises(RealmError, match=r"channel .*none\.py:Mine: .*FILE.py:CLASS"):
        cells_of(tmp_path, method="none.py:Mine")
    (tmp_path / "broken.py").write_text("class Mine(")
    with pytest.raises(RealmError, match=r"channel .*broken\.py:Mine: .*line 1"):
        cells_of(tmp_path, method="broken.py:Mine")
    with pytest.raises(RealmError, match=r"no subclass of realm\.Channel"):
        cells_of(tmp_path, method="pathlib:Path")


# -------------------------------------------------------------------- mistakes

MISTAKES: list[tuple[dict[str, Any], list[str]]] = [
    ({"benchmark": "obqua"}, ["benchmark", "obqua", "obqa"]),
    ({"noise": "loud"}, ["noise", "loud", "uniform"]),
    ({"pool": "D9"}, ["D9", "graded:N"]),
    ({"pool": "contrast:20"}, ["contrast:20", "D1"]),
    ({"pool": "all", "noise": None, "benchmark": "arc+obqa"}, ["noise is missing", "arc+obqa"]),
    ({"pool": "D3", "benchmark": "arc+obqa"}, ["D3", "three tasks"]),
    ({"pool": "contrast:none", "noise": None}, ["contrast:none", "contrast:20"]),
    ({"regime": "dense"}, ["regime", "dense", "shared"]),
    ({"method": "magic"}, ["method", "magic", "oracle"]),
    ({"method": []}, ["method", "empty"]),
    ({"method": 3}, ["method", "text", "3"]),
    ({"seeds": 0}, ["seeds", "1 or more"]),
    ({"seeds": "five"}, ["seeds", "whole number"]),
    ({"steps": 1.5}, ["steps", "whole number"]),
    ({"colour": 1}, ["unknown key colour", "benchmark"]),
    ({"items": -1}, ["items", "1 or more"]),
    ({"settings": {"learning_rat": 1}}, ["no such setting", "learning_rate"]),
    ({"settings": {"seed": 1}}, ["seed", "seeds"]),
    ({"settings": {"use_gold": True}}, ["use_gold", "oracle"]),
    ({"settings": [1]}, ["settings", "name: value"]),
    ({"choose": [1]}, ["choose", "name: value"]),
    ({"by_benchmark": {"train_layers": 2}}, ["by_benchmark", "arc: 2"]),
    ({"settings": {"learning_rate": 1}, "choose": {"realm": {"learning_rate": [1]}}}, ["learning_rate", "in one"]),
    ({"grid": [1]}, ["grid", "key: value"]),
    ({"benchmarks": {"mine": {"train": "a.csv"}}}, ["benchmarks: mine", "reviews-test.csv"]),
    ({"benchmarks": {"mine": {"train": "a.csv", "test": "b.csv"}}}, ["mine", "no file", "a.csv"]),
    ({"benchmarks": {"arc": {}}}, ["arc", "choose another"]),
]  # fmt: skip


@pytest.mark.parametrize(("keys", "words"), MISTAKES, ids=lambda value: str(value)[:40])
def test_mistakes_name_the_file_the_key_and_the_mending(keys: Any, words: list[str], tmp_path: Path) -> None:
    with pytest.raises(RealmError) as error:
        write_spec(tmp_path, **keys)
    for word in ["made.yaml", *words]:
        assert word in str(error.value)


@pytest.mark.parametrize("name", ["model", "benchmark", "regime", "method", "seeds", "steps"])
def test_a_key_that_is_needed_is_asked_for(name: str, tmp_path: Path) -> None:
    with pytest.raises(RealmError, match=f"{name} is missing"):
        write_spec(tmp_path, **{name: None})


@pytest.mark.parametrize("content", ["- 1", "a: [", "\x00", "title: !!python/object/apply:os.getcwd []",
                                     "extends: made.yaml", "extends: none"])  # fmt: skip
def test_what_is_no_spec_at_all(content: str, tmp_path: Path) -> None:
    (tmp_path / "made.yaml").write_text(content)
    with pytest.raises(RealmError, match=r"made\.yaml|realm_lab list"):
        load_spec(tmp_path / "made.yaml")


def test_a_spec_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RealmError, match="realm_lab list"):
        load_spec("no-such-spec")
    with pytest.raises(RealmError, match=r"gone\.yaml"):
        load_spec(tmp_path / "gone.yaml")


def test_tables_of_ones_own_are_a_benchmark(tmp_path: Path) -> None:
    for name in ("train", "test"):
        (tmp_path / f"{name}.csv").write_text("text,annotator,label,gold\na,x,no,no\nb,y,yes,yes\n")
    own = {"mine": {"train": "train.csv", "test": "test.csv", "instruction": "Which?"}}
    keys = {"benchmarks": own, "benchmark": ["mine", "obqa"], "noise": None, "pool": "all", "seeds": 1}
    mine, other = cells_of(tmp_path, **keys)
    assert [each.name for each in mine.data.own] == ["mine"] and other.data.own == ()
    tables = mine.data.load("realm", 0)
    assert (tables.annotations.n_annotations, tables.instruction, tables.test.n_items) == (2, "Which?", 2)
    (tmp_path / "train.csv").write_text("text,annotator,label,gold\na,x,no,no\nb,y,no,yes\n")
    assert cells_of(tmp_path, **keys)[0].id != mine.id, "another content is another cell"


# -------------------------------------------------------------------- the specs of the package


@pytest.mark.parametrize("name", NAMES)
def test_every_spec_expands(name: str) -> None:
    content = yaml.safe_load(load_spec(name).path.read_text())
    assert len({cell.id for cell in packaged(name)}) == len(packaged(name)) > 0 and content["title"]


def test_specs_at_real_budgets_decide_something() -> None:
    """The default beside plain fine-tuning, 300 steps of 64 items or more, five seeds, models of the store."""
    for name in set(NAMES) - set(PAPERS):
        made = packaged(name)
        assert {cell.model for cell in made} <= {"minilm-l6", "mpnet-base", "smollm2-135m"}
        assert {"realm", "noisy"} <= {cell.method for cell in made} and {cell.seed for cell in made} == set(range(5))
        assert all(cell.steps >= 300 and cell.settings["per_device_train_batch_size"] == 64 for cell in made)


def test_every_spec_of_the_paper_states_its_setting_so_that_no_default_changes_it() -> None:
    for cell in (cell for name in PAPERS for cell in packaged(name)):
        stated = {key: value for key, value in PAPER.items() if is_read(key, cell.method) and key not in cell.choose}
        assert stated.items() <= cell.settings.items(), cell


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


def test_cells_of_the_main_grid_have_the_papers_rates() -> None:
    found = {
        (c.data.benchmark, c.settings["expertise_learning_rate"]) for c in packaged("uniform") if c.method == "realm"
    }
    assert dict(found) == RATES and len(found) == 5
    chosen = {tuple(c.choose["expertise_learning_rate"]) for c in packaged("multitask") if c.method == "realm"}
    assert chosen == {(0.1, 0.5, 1.0)}


def test_real_cells_have_the_paper_budgets_and_layouts() -> None:
    made = packaged("real")
    budgets = {(c.model.rsplit("-", 1)[-1], c.data.benchmark): c.steps for c in made}
    assert budgets["base", "wikiattack"] == budgets["base", "sentpolarity"] == 3000
    assert budgets["large", "wikitoxicity"] == 2000
    assert budgets["base", "goemotions"] == budgets["large", "goemotions"] == 1000
    assert {c.choose["expertise_learning_rate"] for c in made if c.method == "realm"} == {(0.005, 0.01, 0.1)}
    assert {c.data.benchmark: c.data.pool for c in made} == {
        "wikiattack": "contrast:150", "wikitoxicity": "contrast:150", "sentpolarity": "contrast:20",
        "goemotions": "contrast:10",
    }  # fmt: skip


def test_the_page_on_the_lab_counts_cells_and_trainings() -> None:
    full = [packaged(name) for name in PAPERS]
    page = (Path(__file__).parents[2] / "docs" / "lab.md").read_text(encoding="utf-8")
    shared = len({cell.id for made in full for cell in made})
    assert f"{sum(map(len, full)):,} cells in all tables are {shared:,} trainings" in " ".join(page.split())
