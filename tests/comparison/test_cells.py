"""Cells are named by what they compute."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realm.comparison.cells import Cell
from realm.lab.benchmark_cells import benchmark_cell
from tests.forked import call

BASE = {
    "model": "m",
    "benchmark": "obqa",
    "noise": "uniform",
    "pool": "D1",
    "regime": "sparse",
    "method": "realm",
    "seed": 0,
    "steps": 200,
}


def cell(**changed) -> Cell:
    return benchmark_cell(**{**BASE, **changed})


@given(
    st.dictionaries(st.sampled_from(["learning_rate", "train_layers", "max_length"]), st.integers(1, 3)),
    st.randoms(),
)
def test_the_order_of_settings_does_not_matter(settings, random) -> None:
    shuffled = list(settings.items())
    random.shuffle(shuffled)
    assert cell(settings=settings).id == cell(settings=dict(shuffled)).id
    assert cell(settings=settings) == cell(settings=dict(shuffled))


def test_every_field_has_a_part_in_the_id() -> None:
    changed = [
        {"model": "n"},
        {"benchmark": "piqa"},
        {"noise": "systematic"},
        {"noise": None, "pool": "all"},
        {"pool": "D2"},
        {"regime": "shared"},
        {"method": "noisy"},
        {"seed": 1},
        {"steps": 100},
        {"items": 5},
        {"test_items": 5},
        {"settings": {"train_layers": 1}},
        {"choose": {"learning_rate": (1e-4, 1e-3)}},
        {"curve": 10},
        {"trial": True},
        {"shared_tasks": True},
    ]
    cells = [cell(), *(cell(**change) for change in changed)]
    assert len({made.id for made in cells}) == len(cells)
    for one, other in itertools.combinations(cells, 2):
        assert one != other


def test_an_id_is_the_same_in_another_process() -> None:
    """Results that somebody has computed must be found again."""
    other = call(print_id)
    assert other.stdout.strip() == cell().id


def print_id() -> None:
    print(cell().id)


def test_a_default_that_is_written_out_is_the_same_cell() -> None:
    assert cell(settings={"expertise_learning_rate": 0.1}) == cell()


def test_oracle_reads_neither_noise_nor_regime_nor_a_simulated_pool() -> None:
    oracles = {
        cell(method="oracle", noise=noise, pool=pool, regime=regime)
        for noise in ("uniform", "systematic")
        for pool in ("D1", "D2")
        for regime in ("sparse", "shared")
    }
    assert len(oracles) == 1 and oracles.pop().data.pool is None


def test_oracle_reads_the_pool_of_the_benchmark_itself() -> None:
    """Its items are those that the methods beside it are trained on."""
    own = {"method": "oracle", "noise": None}
    oracles = {
        cell(**own, pool=pool, regime=regime) for pool in ("all", "contrast:20") for regime in ("sparse", "shared")
    }
    assert {made.data.pool for made in oracles} == {"all", "contrast:20"} and len(oracles) == 2
    assert cell(**own, pool="all") != cell(method="oracle")


def test_only_realm_depends_on_settings_of_the_expertise() -> None:
    changes = [{"settings": {"expertise_learning_rate": 0.5}}, {"settings": {}}, {"shared_tasks": True}]
    assert len({cell(method="noisy", **change).id for change in changes}) == 1
    assert len({cell(method="realm", **change).id for change in changes}) == 3


def test_trials_are_every_combination_on_seed_zero_and_the_same_for_all_seeds() -> None:
    choose = {"expertise_learning_rate": (0.1, 0.5), "learning_rate": (1e-4, 1e-3, 1e-2)}
    trials = cell(seed=3, choose=choose, curve=10).trials()
    assert len(trials) == 6 and {trial.seed for trial in trials} == {0} and all(trial.trial for trial in trials)
    assert trials == cell(seed=0, choose=choose).trials()
    assert {trial.choose["learning_rate"] for trial in trials} == {(1e-4,), (1e-3,), (1e-2,)}
    assert [trial.trials() for trial in trials] == [[]] * 6
    assert cell(choose=choose).with_settings({"learning_rate": 1.0}).settings["learning_rate"] == 1.0


@pytest.mark.parametrize(("changed", "said"), [({}, "m obqa uniform D1 sparse realm seed 0 200 steps")])
def test_a_cell_can_be_told_to_a_person(changed, said) -> None:
    assert str(cell(**changed)) == said
    assert str(cell(trial=True, choose={"learning_rate": (0.5,)})).startswith("trial: ")
