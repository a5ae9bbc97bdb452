"""The benchmark of the default's constants: each is there, is changed while a cell trains, and is put back."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks import sensitivity
from benchmarks.sensitivity import CONFIGURATIONS, CONSTANTS, FACTORS, START, Constant, scaled

import realm.crowd.engine as engine
import realm.crowd.temperature as temperature
from realm.comparison.cells import Cell
from tests.tiny import crowd


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Both sets, small: forty annotators of ten labels each, and three judges in columns."""
    place = tmp_path_factory.mktemp("data")
    for name in ("sentpolarity", "civilcomments_judges"):
        (place / name).mkdir()
    words = {"red": "negative", "green": "positive"}
    many = crowd(12, tuple(np.linspace(0.95, 0.4, 40)), labels=2).to_pandas().replace(words)
    many.to_csv(place / "sentpolarity" / "annotations.csv", index=False)
    test = crowd(10, seed=5, labels=2).to_pandas()[["item", "text", "gold"]].drop_duplicates()
    test.replace(words).to_csv(place / "sentpolarity" / "test.csv", index=False)
    judged = crowd(20, (0.9, 0.8, 0.7, 0.6), labels=2).to_pandas()
    judged.pivot(index=["item", "text", "gold"], columns="annotator", values="label").reset_index().to_csv(
        place / "civilcomments_judges" / "panel.csv", index=False
    )
    test.to_csv(place / "civilcomments_judges" / "test.csv", index=False)
    return place


def trainings(monkeypatch: pytest.MonkeyPatch, accuracy) -> list[Cell]:
    """In place of a training, `accuracy` of its cell; the cells in their order."""
    cells: list[Cell] = []

    def train_cell(cell: Cell) -> SimpleNamespace:
        cells.append(cell)
        return SimpleNamespace(metrics={"accuracy": accuracy(cell)})

    monkeypatch.setattr(sensitivity, "train_cell", train_cell)
    return cells


def test_a_constant_is_changed_wherever_it_was_imported_and_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = engine.KAPPAS
    monkeypatch.setattr(temperature, "KAPPAS", before, raising=False)
    with pytest.raises(KeyboardInterrupt), scaled(Constant("realm.crowd.engine", "KAPPAS"), 2.0):
        np.testing.assert_array_equal(engine.KAPPAS, 2 * before)
        assert temperature.KAPPAS is engine.KAPPAS
        raise KeyboardInterrupt
    assert temperature.KAPPAS is engine.KAPPAS is before


def test_the_default_has_the_changed_prior_meanwhile() -> None:
    before = dict(engine.PRIORS)
    with scaled(Constant("realm.crowd.engine", "ROWS"), 2.0):
        assert engine.PRIORS["confusion"].rows == 2 * before["confusion"].rows
        assert engine.PRIORS["habit"] == before["habit"]
    assert before == engine.PRIORS


def test_a_tuple_is_changed_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "PAIR", (1.0, 2.0), raising=False)
    with scaled(Constant("realm.crowd.engine", "PAIR"), 3.0):
        assert engine.PAIR == (3.0, 6.0)


@pytest.mark.parametrize("constant", CONSTANTS, ids=str)
def test_every_constant_is_one_of_the_project(constant: Constant) -> None:
    with scaled(constant, 1.5):
        pass
    with pytest.raises(AttributeError), scaled(Constant(constant.module, "NO_SUCH"), 1.5):
        pass


def test_cells_are_those_of_the_spec(monkeypatch: pytest.MonkeyPatch, folder: Path, capsys) -> None:
    cells = trainings(monkeypatch, lambda cell: 0.8)
    assert sensitivity.main(["--data", str(folder), "--seeds", "2"]) == 0
    assert capsys.readouterr().out.count("**holds**") == 2
    assert len(cells) == 2 * 2 * (1 + 2 * (len(CONSTANTS) + 1)) and {cell.seed for cell in cells} == {0, 1}
    assert {cell.method for cell in cells} == {"realm"} and all("objective" not in cell.settings for cell in cells)
    assert {cell.steps for cell in cells} == {780} and {cell.settings["learning_rate"] for cell in cells} == {1e-4}
    assert {(d["benchmark"], d["pool"], d["regime"]) for d in (cell.data.describe() for cell in cells)} == {
        tuple(one.values()) for one in CONFIGURATIONS
    }
    starts = {round(float(np.exp(cell.settings[START])), 6) for cell in cells if START in cell.settings}
    assert starts == {round(FACTORS[0], 6), round(FACTORS[2], 6)} and FACTORS[2] / FACTORS[0] == pytest.approx(50)
    sparse, three = (next(c for c in cells if c.data.origin == one["benchmark"]) for one in CONFIGURATIONS)
    assert set(sparse.data.load("realm", 0).annotations.annotations_per_item) == {1}
    assert set(three.data.load("realm", 0).annotations.annotations_per_item) == {3}


@pytest.mark.parametrize(("moved", "code"), [(0.010, 0), (0.011, 1)])
def test_a_constant_that_moves_accuracy_by_more_than_a_point_fails(
    monkeypatch: pytest.MonkeyPatch, folder: Path, capsys, moved: float, code: int
) -> None:
    """And it is changed while the cell trains, here in the first of the two sets alone."""
    before = engine.ROWS

    def accuracy(cell: Cell) -> float:
        changed = before < engine.ROWS and cell.data.origin == "sentpolarity"
        return 0.83 - moved if changed else 0.83

    trainings(monkeypatch, accuracy)
    assert sensitivity.main(["--data", str(folder)]) == code
    printed = capsys.readouterr().out
    assert printed.count("**FAILS**: sentpolarity") == code and "**holds**: civilcomments" in printed
    assert f"| realm.crowd.engine.ROWS | 83.0 | 83.0 | {83 - 100 * moved:.1f} |" in printed
    assert before == engine.ROWS


def test_the_program_trains(monkeypatch: pytest.MonkeyPatch, folder: Path, tiny_model, capsys) -> None:
    monkeypatch.setattr(sensitivity, "CONSTANTS", CONSTANTS[:1])
    monkeypatch.setattr(sensitivity, "CONFIGURATIONS", CONFIGURATIONS[:1])
    words = ["--data", str(folder), "--model", tiny_model("bert"), "--steps", "1", "--items", "8"]
    code = sensitivity.main(words)
    printed = capsys.readouterr()
    assert code == int("**FAILS**" in printed.out) and printed.err.count(" x ") == 4
    assert printed.out.count("| sentpolarity contrast:20:10 sparse |") == 2


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="--data FOLDER"):
        sensitivity.main(["--data", str(tmp_path / "none")])
