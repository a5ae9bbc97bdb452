"""The benchmark of agreement without a model's help: its data, and an exit code that follows what it prints."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks import chance
from benchmarks._crowds import read_panel

from realm.comparison.simulation import realised_accuracies
from tests.tiny import crowd


def test_annotators_have_their_accuracies() -> None:
    """Who is asked must not depend on who is right: both are drawn with the same seed."""
    table = chance.ChanceData().load("realm", 0).annotations
    realised = realised_accuracies(table)[:, 0]
    assert np.abs(realised - chance.ACCURACIES).max() < 0.2
    assert np.abs(realised - chance.ACCURACIES).mean() < 0.05
    assert (table.annotations_per_annotator[-3:] >= 400).all() and set(table.annotations_per_item) == {10}


def test_texts_say_nothing_and_gold_has_no_annotators() -> None:
    tables = chance.ChanceData(items=50, test_items=20).load("oracle", 0)
    assert tables.annotations.n_annotations == 0 and tables.annotations.n_items == 50 and tables.test.n_items == 20
    again = chance.noise_table(50, 0)
    assert again.fingerprint(gold=True) == tables.annotations.fingerprint(gold=True)
    assert chance.ChanceData(items=50).fingerprint() != chance.ChanceData(items=51).fingerprint()


def test_so_many_annotations_of_each_item_are_drawn_by_weight() -> None:
    table = crowd(200, (0.9, 0.8, 0.7, 0.6))
    drawn = chance.drawn(table, np.array([1.0, 1.0, 1.0, 50.0]), 2, seed=3)
    assert set(drawn.annotations_per_item) == {2}
    counts = drawn.annotations_per_annotator
    assert counts[3] > 180 and counts[:3].max() < 100
    assert drawn.fingerprint() == chance.drawn(table, np.array([1.0, 1.0, 1.0, 50.0]), 2, seed=3).fingerprint()


def test_a_panel_is_read_by_column_and_blanks_are_no_labels(tmp_path: Path) -> None:
    (tmp_path / "panel.csv").write_text("item,text,gold,j1,j2\n0,a b,fine,fine,toxic\n1,c d,toxic,,toxic\n")
    table = read_panel(tmp_path / "panel.csv")
    assert table.n_annotations == 3 and table.annotators == ("j1", "j2") and table.n_items == 2


@pytest.mark.parametrize(
    ("ranks", "code"), [([0.9, 0.7], 0), ([0.9, 0.69], 1), ([1.0, None], 1)], ids=["enough", "too low", "not ranked"]
)
def test_the_mean_rank_correlation_is_held_to_its_bound(
    monkeypatch: pytest.MonkeyPatch, capsys, tmp_path: Path, ranks: list[float | None], code: int
) -> None:
    def train_cell(cell: chance.Cell) -> SimpleNamespace:
        return SimpleNamespace(metrics={"accuracy": 0.5, "spearman": 0.9, "spearman_trained": ranks[cell.seed]})

    monkeypatch.setattr(chance, "train_cell", train_cell)
    assert chance.main(["--seeds", "2", "--data", str(tmp_path)]) == code
    printed = capsys.readouterr().out
    assert ("**FAILS**: with a model at chance" in printed) == bool(code) and "**not measured**: on DICES" in printed


@pytest.mark.parametrize(("mace", "holds"), [(0.75, True), (0.5, True), (0.25, False)])
def test_mace_is_held_against_the_majority(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys, mace: float, holds: bool
) -> None:
    rows = "".join(f"{item},text {item},a,a,b\n" for item in range(4))
    (tmp_path / "panel.csv").write_text("item,text,gold,r1,r2\n" + rows)
    shares = {"majority": 0.5, "mace": mace}

    def aggregate(table, method: str, seed: int) -> SimpleNamespace:
        return SimpleNamespace(labels=(np.arange(4) >= 4 * shares.get(method, 0)).astype(int))

    monkeypatch.setattr(chance, "aggregate", aggregate)
    assert chance.dices(tmp_path).holds is holds
    assert f"| mace | {mace:.3f} |" in capsys.readouterr().out


def test_the_program_trains_and_aggregates(tmp_path: Path, tiny_model, capsys) -> None:
    panel = crowd(30, (0.9, 0.8, 0.7), labels=2).to_pandas()
    panel = panel.pivot(index=["item", "text", "gold"], columns="annotator", values="label").reset_index()
    (tmp_path / "dices350").mkdir()
    panel.to_csv(tmp_path / "dices350" / "panel.csv", index=False)
    words = ["--model", tiny_model("bert"), "--train-layers", "1", "--seeds", "1", "--epochs", "0.05"]
    code = chance.main([*words, "--data", str(tmp_path)])
    printed = capsys.readouterr().out
    assert "| 0 | " in printed and "| majority | " in printed and "not measured" not in printed
    assert code == int("**FAILS**" in printed)
