"""The pictures: a panel for each configuration, and what is drawn in it."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from realm.comparison.results import Results
from realm.errors import RealmError
from realm_lab.plots import ForestRow, draw_plots, draw_recovery, forest, save
from tests.lab.small_benchmark import fill, write_spec


def pictures(folder: Path, **keys: object) -> dict[str, Figure]:
    spec = write_spec(folder, curve=10, **keys)
    level = {"realm": 0.6, "noisy": 0.5, "oracle": 0.9}
    return dict(draw_plots(spec, fill(folder / "results", spec, lambda cell: level[cell.method] + cell.seed / 50)))


def test_curves_have_a_line_and_a_band_per_method(tmp_path: Path) -> None:
    drawn = pictures(tmp_path, noise=["uniform", "systematic"], benchmark=["arc", "obqa"], method=["realm", "noisy"])
    kinds = ("curves", "expertise", "recovery")
    assert set(drawn) == {f"made-{kind}-{noise}.svg" for kind in kinds for noise in ("uniform", "systematic")}
    curves = drawn["made-curves-uniform.svg"].axes
    assert [axes.get_title() for axes in curves] == ["ARC", "OBQA"]
    for axes in curves:
        assert [line.get_label() for line in axes.lines] == ["REALM", "Noisy"] and len(axes.collections) == 2
        np.testing.assert_allclose(axes.lines[0].get_ydata(), [0.25, 0.405, 0.61])  # of .60 and .62
    trained = drawn["made-expertise-uniform.svg"].axes[0]
    assert {line.get_label() for line in trained.lines} >= {"a1 (0.9)", "a2 (0.1)", "a3 (0.1)"}


def test_settings_that_are_compared_have_files_of_their_own(tmp_path: Path) -> None:
    settings = {"expertise_start": [-2, 2], "expertise_learning_rate": [0.1, 1.0]}
    drawn = pictures(tmp_path, settings=settings, method=["realm", "noisy"])
    words = {f"rate-{rate}-expertise-start-{start}" for start in ("minus-2", "2") for rate in ("0.1", "1")}
    assert {name for name in drawn if "curves" in name} == {f"made-curves-{each}.svg" for each in words}


def test_text_is_text_and_escaped(tmp_path: Path) -> None:
    for name, picture in pictures(tmp_path, title="<b>1 & 2</b> $x$").items():
        save(picture, tmp_path / name)
        content = (tmp_path / name).read_text()
        assert "&lt;b&gt;1 &amp; 2&lt;/b&gt;" in content and ElementTree.fromstring(content) is not None


def test_a_spec_without_finished_cells_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RealmError, match="no cell is finished yet"):
        list(draw_plots(write_spec(tmp_path), Results(tmp_path / "none")))


def test_the_line_of_recovery_turns_at_chance() -> None:
    row = {"true_accuracy": 0.9, "expertise_trained": 0.8, "expertise": 1.4, "options": 2}
    axes = Figure().add_subplot()
    draw_recovery(axes, pd.DataFrame([row]))
    line, trained, reported = axes.lines
    assert list(zip(*line.get_data(), strict=True)) == [(0, 0), (0.5, 0), (1, 1)]
    assert trained.get_ydata()[0] == 0.8 and reported.get_ydata()[0] == 1.0


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
