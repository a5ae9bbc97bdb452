"""Cells are named by what they compute."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from realm.comparison import cells
from realm.comparison.cells import Cell, cell_config
from tests.forked import call


@dataclass(frozen=True)
class FakeData:
    """Data that is never loaded."""

    origin: str = "here"
    size: int | None = None

    def describe(self) -> dict[str, Any]:
        return {"origin": self.origin, "size": self.size}

    def fingerprint(self) -> str:
        return f"fingerprint of {self.origin}"

    def __str__(self) -> str:
        return self.origin


def cell(**changed: Any) -> Cell:
    return Cell(**{"model": "m", "data": FakeData(), "method": "realm", "seed": 0, "steps": 200, **changed})


@given(
    st.dictionaries(st.sampled_from(["learning_rate", "train_layers", "max_length"]), st.integers(1, 3)),
    st.randoms(),
)
def test_the_order_of_settings_does_not_matter(settings, random) -> None:
    shuffled = list(settings.items())
    random.shuffle(shuffled)
    assert cell(settings=settings).id == cell(settings=dict(shuffled)).id
    assert cell(settings=settings) == cell(settings=dict(shuffled))


def test_every_field_has_a_part_in_the_id(monkeypatch) -> None:
    changed = [
        {"model": "n"},
        {"data": FakeData("there")},
        {"data": FakeData(size=5)},
        {"method": "noisy"},
        {"seed": 1},
        {"steps": 100},
        {"settings": {"train_layers": 1}},
        {"curve": 10},
    ]
    made = [cell(), *(cell(**change) for change in changed)]
    ids = {each.id for each in made}
    assert len(ids) == len(made)
    for one, other in itertools.combinations(made, 2):
        assert one != other
    monkeypatch.setattr(cells, "MEASURED", cells.MEASURED + 1)
    assert cell().id not in ids, "recorded in another way"


def test_an_id_is_the_same_in_another_process() -> None:
    """Results that somebody has computed must be found again."""
    assert call(print_id).stdout.strip() == cell().id


def print_id() -> None:
    print(cell().id)


def test_a_default_that_is_written_out_is_the_same_cell() -> None:
    assert cell(settings={"expertise_learning_rate": 0.1}) == cell()


def test_only_realm_depends_on_settings_of_the_expertise() -> None:
    changes = [{"settings": {"expertise_learning_rate": 0.5}}, {"settings": {}}]
    assert len({cell(method="noisy", **change).id for change in changes}) == 1
    assert len({cell(method="realm", **change).id for change in changes}) == 2


def test_a_cell_can_be_told_to_a_person() -> None:
    assert str(cell()) == "m here realm seed 0 200 steps"


def test_a_setting_of_the_cell_wins_over_that_of_its_data(tmp_path) -> None:
    config = cell_config(cell(settings={"instruction": "Mine."}), tmp_path, "Theirs.")
    assert config.instruction == "Mine." and cell_config(cell(), tmp_path, "Theirs.").instruction == "Theirs."
