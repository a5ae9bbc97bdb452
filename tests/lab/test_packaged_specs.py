"""The specs that come with the package: they load, and hold the configurations that the paper counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from realm.lab.spec import count_cells, expand, load_spec, packaged_specs, read_spec
from realm.lab.spec_settings import allowed_settings

from realm import PAPER, RealmConfig
from realm.comparison.cells import Cell, deciding_settings, is_read

NAMES = packaged_specs()
PAPERS = [name for name in NAMES if not name.endswith("-real")]
REAL = [name for name in NAMES if name.endswith("-real")]
STORE = {"minilm-l6", "mpnet-base", "smollm2-135m"}
RATES = {"arc": 1.0, "obqa": 0.1, "piqa": 0.5, "pubmedqa": 1.0, "riddlesense": 0.1}
"""Of the paper's main grid, as `tests/paper/test_figures.py` finds them in its figures."""


def cells(name: str) -> list[Cell]:
    return expand(load_spec(name))


def configurations(name: str) -> set[tuple[str, str, str | None, str | None]]:
    return {(c.model, c.data.benchmark, c.data.noise, c.data.pool) for c in cells(name) if c.method == "realm"}


@pytest.mark.parametrize("name", NAMES)
def test_every_spec_expands(name: str) -> None:
    spec = load_spec(name)
    made = expand(spec)
    assert len({cell.id for cell in made}) == len(made) > 0
    assert spec.table and spec.title != spec.name


@pytest.mark.parametrize("name", REAL)
def test_specs_at_real_budgets_decide_something(name: str) -> None:
    """The default beside plain fine-tuning, 300 steps of 64 items or more, five seeds, models of the store."""
    made = cells(name)
    assert {cell.model for cell in made} <= STORE and {"realm", "noisy"} <= {cell.method for cell in made}
    assert all(cell.steps >= 300 and cell.settings["per_device_train_batch_size"] == 64 for cell in made)
    assert {cell.seed for cell in made} == set(range(5))


@pytest.mark.parametrize("name", PAPERS)
def test_every_spec_of_the_paper_states_its_setting_so_that_no_default_changes_it(name: str) -> None:
    for cell in cells(name):
        stated = {key: value for key, value in PAPER.items() if is_read(key, cell.method)}
        assert set(stated) <= set(cell.settings), cell
        assert not {key for key, value in stated.items() if cell.settings[key] != value}


def test_what_real_specs_share_is_run_once() -> None:
    assert len(set(cells("annotators-real")) & set(cells("noise-real"))) == 2 * 2 * 2 * 5
    assert len(set(cells("capacity-real")) & (set(cells("noise-real")) | set(cells("real-real")))) == 50


def test_the_paper_counts_135_and_27_configurations() -> None:
    assert len(configurations("significance")) == 135
    assert len(configurations("multitask")) == 27
    assert len(configurations("wins")) == 162
    assert configurations("wins") == configurations("significance") | configurations("multitask")


def test_what_tables_share_is_run_once() -> None:
    noises = {cell for name in ("noise-d1", "noise-d2", "noise-d3") for cell in cells(name)}
    assert set(cells("uniform")) < noises
    assert set(cells("significance")) < noises
    assert set(cells("multitask-tasks")) == set(cells("multitask"))
    trained = {cell for cell in cells("expertise") if cell.data.pool in ("D1", "D2", "D3")}
    assert trained < noises
    assert {cell for cell in cells("annotators") if cell.data.pool == "D3"} < noises
    same_rate = [c for c in cells("expertise-rate") if c.settings["expertise_learning_rate"] == RATES[c.data.benchmark]]
    assert len(same_rate) == 25 and set(same_rate) < noises


def test_simulated_cells_have_the_paper_settings() -> None:
    for name in ("uniform", "noise-d2", "multitask", "aggregation", "wins"):
        for cell in cells(name):
            settings = dict(cell.settings)
            assert (settings["learning_rate"], settings["batch_unit"], cell.steps) == (5e-5, "annotation", 200)
            assert (settings["per_device_train_batch_size"], settings["gradient_accumulation_steps"]) == (8, 8)
            assert settings["answers"] == "letters"
            if cell.method == "realm":
                assert settings["expertise_optimizer"] == "adamw"
                if cell.data.benchmark in RATES:
                    assert settings["expertise_learning_rate"] == RATES[cell.data.benchmark] and not cell.choose
                else:  # of several tasks the paper's figures do not give the rate away
                    assert dict(cell.choose) == {"expertise_learning_rate": (0.1, 0.5, 1.0)}
    assert {cell.seed for cell in cells("uniform")} == set(range(5))


def test_the_page_on_the_lab_counts_cells_and_trainings() -> None:
    full = [cells(name) for name in PAPERS]
    page = (Path(__file__).parents[2] / "docs" / "lab.md").read_text(encoding="utf-8")
    shared = len({cell for made in full for cell in made})
    assert f"{sum(map(len, full)):,} cells in all tables are {shared:,} trainings" in " ".join(page.split())


def test_real_cells_have_the_paper_budgets_and_layouts() -> None:
    budgets = {(c.model.rsplit("-", 1)[-1], c.data.benchmark): c.steps for c in cells("real")}
    assert budgets["base", "wikiattack"] == budgets["base", "sentpolarity"] == 3000
    assert budgets["large", "wikitoxicity"] == 2000
    assert budgets["base", "goemotions"] == budgets["large", "goemotions"] == 1000
    layout = {
        c.model.rsplit("-", 1)[-1]: tuple(
            c.settings[name] for name in ("per_device_train_batch_size", "gradient_accumulation_steps")
        )
        for c in cells("real")
    }
    assert layout == {"base": (64, 1), "large": (16, 4)}
    assert {c.choose["expertise_learning_rate"] for c in cells("real") if c.method == "realm"} == {(0.005, 0.01, 0.1)}
    pools = {c.data.benchmark: c.data.pool for c in cells("real") if c.data.pool}
    assert pools == {"wikiattack": "contrast:150", "wikitoxicity": "contrast:150", "sentpolarity": "contrast:20",
                     "goemotions": "contrast:10"}  # fmt: skip
    assert {c.seed for c in cells("real")} == {0, 1, 2}


@pytest.mark.parametrize("name", NAMES)
def test_cells_are_counted_without_their_ids(name: str) -> None:
    assert count_cells(read_spec(name)) == len(expand(load_spec(name)))


def test_the_settings_of_a_spec_are_those_that_decide_a_training() -> None:
    deciding = set(RealmConfig("unused", use_cpu=True).settings()) - {"effective_batch_size"}
    assert set(deciding_settings()) == deciding
    assert set(allowed_settings()) >= {"learning_rate", "max_length", "channel"}
