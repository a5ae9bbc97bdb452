"""A result knows the settings that made it: another default of any setting that decides a result is another key."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

import realm.training
from realm.comparison import cells
from realm.comparison.cells import Cell
from realm.comparison.compare import TableData
from realm.methods import METHODS
from realm.training import RealmConfig
from realm.training.settings import Settings, settings_of
from tests.tiny import crowd

CHANGED: dict[str, Any] = {
    "learning_rate": 1e-4,
    "length_grouping": False,
    "train_layers": 2,
    "max_length": 128,
    "weight_decay": 0.1,
    "gradient_accumulation_steps": 2,
    "lr_scheduler_type": "linear",
    "expertise_learning_rate": 0.5,
    "expertise_start": 1.0,
    "expertise_update": "gradient",
    "channel": "habit",
    "objective": "paper",
}


@pytest.fixture
def data() -> TableData:
    return TableData(crowd(20), crowd(10, seed=5))


@pytest.fixture
def default(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Change a default of `RealmConfig`, as an edit of its source would."""

    def change(name: str, value: Any) -> None:
        base = next(each for each in dataclasses.fields(RealmConfig) if each.name == name)
        field = dataclasses.field(default=value, metadata=base.metadata)
        changed = dataclasses.make_dataclass("Changed", [(name, base.type, field)], bases=(RealmConfig,))
        monkeypatch.setattr(realm.training, "RealmConfig", changed)
        cells._resolved.cache_clear()

    yield change
    cells._resolved.cache_clear()


def keys(data: TableData, **changed: Any) -> dict[str, str]:
    return {method: Cell("m", data, method, 0, **changed).id for method in METHODS}


@pytest.mark.parametrize("name", CHANGED)
def test_a_changed_default_changes_the_keys_of_the_cells_that_read_it(name, data, default) -> None:
    before = keys(data)
    default(name, CHANGED[name])
    after = keys(data)
    affected = {method for method in METHODS if cells.is_read(name, method)}
    assert {method for method in METHODS if before[method] != after[method]} == affected
    of_the_channel = name.startswith("expertise") or name in ("channel", "objective")
    by_rate = {row.name for row in METHODS.values() if row.update == "gradient"}
    learning = {"realm"} | (by_rate if name == "expertise_learning_rate" else set())
    assert affected == (learning if of_the_channel else set(METHODS))


def test_a_key_that_ignores_defaults_would_fail(data, default, monkeypatch) -> None:
    """The test above can fail: a key of the given settings alone does not notice a changed default."""
    monkeypatch.setattr(cells, "effective_settings", lambda method, seed, steps, settings: dict(settings))
    before = keys(data)
    default("learning_rate", 1e-4)
    assert keys(data) == before


def test_a_setting_of_transformers_alone_is_in_the_key(data) -> None:
    before = keys(data)
    after = keys(data, settings={"lr_scheduler_kwargs": {"num_cycles": 2}})
    assert all(before[method] != after[method] for method in METHODS)


def test_a_given_value_shields_a_cell_from_its_default(data, default) -> None:
    before = keys(data, settings={"learning_rate": 5e-5})
    default("learning_rate", 1e-4)
    assert keys(data, settings={"learning_rate": 5e-5}) == before


def test_every_setting_that_decides_a_result_is_in_the_key(data) -> None:
    content = cells.effective_settings("realm", 0, -1, {})
    deciding = {each.name for each in settings_of(Settings) if each.metadata["changes_results"] is True}
    assert deciding <= set(content)


def test_a_changed_row_of_a_method_changes_its_key(data, monkeypatch) -> None:
    before = keys(data)
    monkeypatch.setitem(METHODS, "noisy", dataclasses.replace(METHODS["noisy"], objective="joint"))
    after = keys(data)
    assert {method for method in METHODS if before[method] != after[method]} == {"noisy"}


def test_other_tables_are_other_keys(data) -> None:
    before = keys(data)
    assert keys(TableData(crowd(21), data.test)).items().isdisjoint(before.items())
    assert keys(TableData(data.annotations, crowd(11, seed=5))).items().isdisjoint(before.items())
    assert keys(TableData(data.annotations, data.test, "sparse")).items().isdisjoint(before.items())
