"""The pictures: well-formed, escaped, and drawn where the figures are."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from realm.lab.plot_panels import HEAD_LETTER, Panel, over_seeds, recovery_panel, spread
from realm.lab.plots import draw_plots
from realm.lab.spec import Spec, expand, load_spec

from realm.comparison.results import Results
from realm.comparison.simulation import read_pool
from realm.errors import RealmError
from tests.lab.small_benchmark import SMALL
from tests.lab.tables.fake_results import fill, write_spec

SVG = "{http://www.w3.org/2000/svg}"


def write_plots(spec: Spec, results: Results, folder: Path) -> list[Path]:
    folder.mkdir(exist_ok=True)
    paths = []
    for name, picture in draw_plots(spec, results):
        paths.append(folder / name)
        paths[-1].write_text(picture, encoding="utf-8")
    return paths


def drawn(path: Path) -> ElementTree.Element:
    return ElementTree.fromstring(path.read_text(encoding="utf-8"))


def texts(panel: ElementTree.Element) -> set[str]:
    """What is written, without what shows when pointed at."""
    return {(text.find(f"{SVG}title").tail if len(text) else text.text) or "" for text in panel.iter(f"{SVG}text")}  # type: ignore[union-attr]


def test_curves_have_a_line_and_a_band_per_method(tmp_path: Path) -> None:
    spec = load_spec(SMALL / "curves-small.yaml")
    results = fill(tmp_path / "r.sqlite", spec, lambda cell: 0.5 + cell.seed / 50 + 0.1 * (cell.method == "realm"))
    written = write_plots(spec, results, tmp_path / "plots")
    assert {path.name for path in written} == {
        f"curves-small-{kind}-{noise}.svg"
        for kind in ("curves", "expertise", "recovery")
        for noise in ("uniform", "asymmetric", "systematic")
    }
    sheet = drawn(tmp_path / "plots" / "curves-small-curves-uniform.svg")
    panels = sheet.findall(f"{SVG}svg")
    assert len(panels) == 2
    for panel in panels:
        classes = [path.get("class") for path in panel.iter(f"{SVG}path")]
        assert classes == ["band c0", "curve c0", "band c1", "curve c1"]
        assert {"REALM", "Noisy"} <= texts(panel)


def test_trajectories_and_recovery_of_all_pools(tmp_path: Path) -> None:
    spec = load_spec(SMALL / "expertise-small.yaml")
    written = write_plots(spec, fill(tmp_path / "r.sqlite", spec, lambda cell: 0.6), tmp_path)
    assert [path.name for path in written] == ["expertise-small-expertise.svg", "expertise-small-recovery.svg"]
    ways = drawn(written[0]).findall(f"{SVG}svg")
    assert len(ways) == 10
    assert "a1 (0.9)" in texts(ways[0])
    assert len([path for path in ways[0].iter(f"{SVG}path") if "curve" in (path.get("class") or "")]) == 3
    dots = [dot for dot in drawn(written[1]).iter(f"{SVG}circle") if dot.get("class") == "spot c0"]
    assert len(dots) == sum(len(read_pool(cell.data.pool or "")) for cell in expand(spec))


def test_settings_that_are_compared_have_files_of_their_own(tmp_path: Path) -> None:
    spec = write_spec(
        tmp_path,
        "table: uniform\ncurve: 5\nsettings: {expertise_start: [-2, 2], expertise_learning_rate: [0.1, 1.0]}\n"
        "grid: {model: m, benchmark: arc, noise: uniform, pool: D1, regime: sparse, method: [realm, noisy], seeds: 2, "
        "steps: 10}\n",
    )
    written = write_plots(spec, fill(tmp_path / "r.sqlite", spec, lambda cell: 0.5), tmp_path)
    assert {path.name for path in written} == {
        f"made-{kind}-rate-{rate}-expertise-start-{start}.svg"
        for kind in ("curves", "expertise", "recovery")
        for rate in ("0.1", "1")
        for start in ("minus2", "2")
    }
    for path in written:
        if "-curves-" in path.name:
            assert {"REALM", "Noisy"} <= texts(drawn(path))


def test_a_spec_without_finished_cells_is_refused(tmp_path: Path) -> None:
    results = Results.open(tmp_path / "r.sqlite", create=True)
    with pytest.raises(RealmError, match="no cell is finished yet"):
        write_plots(load_spec(SMALL / "noise-small.yaml"), results, tmp_path)


def test_text_is_escaped(tmp_path: Path) -> None:
    spec = write_spec(
        tmp_path,
        "title: <script>alert(1)</script> & more\ntable: uniform\ngrid: {model: '<b>m</b>', benchmark: arc, noise: "
        "uniform, pool: D1, regime: sparse, method: [realm], seeds: 1, steps: 10}\n",
    )
    for path in write_plots(spec, fill(tmp_path / "r.sqlite", spec, lambda cell: 0.5), tmp_path):
        text = path.read_text(encoding="utf-8")
        assert "<script" not in text and "&lt;script&gt;" in text and "made" in path.name


def test_bands_are_one_sample_deviation() -> None:
    frame = pd.DataFrame({"step": [0, 0, 10, 10], "accuracy": [0.5, 0.5, 0.6, 0.8]})
    line = over_seeds("x", 0, frame, "accuracy")
    assert line.steps.tolist() == [0, 10]
    np.testing.assert_allclose(line.middle, [0.5, 0.7])
    np.testing.assert_allclose(line.high - line.low, [0.0, 2 * np.sqrt(0.02)])


def test_the_line_of_recovery_turns_at_chance() -> None:
    learned = pd.DataFrame(
        {"annotator": ["a"], "true_accuracy": [0.9], "expertise_trained": [0.8], "expertise": [1.4], "chance": [0.5]}
    )
    panel = recovery_panel("head", learned)
    root = ElementTree.fromstring(panel.file())
    guide = next(path for path in root.iter(f"{SVG}path") if path.get("class") == "guide")
    points = [tuple(map(float, point.split(","))) for point in (guide.get("d") or "").removeprefix("M").split("L")]
    assert points[1] == pytest.approx((panel.x(0.5), panel.y(0.0)), abs=0.05)
    assert points[2] == pytest.approx((panel.x(1.0), panel.y(1.0)), abs=0.05)
    ring = next(dot for dot in root.iter(f"{SVG}circle") if dot.get("class") == "hollow c1")
    assert float(ring.get("cy") or 0) == pytest.approx(panel.y(1.0), abs=0.05)


@given(st.lists(st.floats(0, 300), min_size=1, max_size=8), st.floats(1, 20))
def test_labels_are_kept_apart_in_their_order(places: list[float], apart: float) -> None:
    moved = spread(places, apart)
    order = np.argsort(places, kind="stable")
    assert all(np.diff(np.array(moved)[order]) >= apart - 1e-6)
    assert np.mean(moved) == pytest.approx(np.mean(places), abs=1e-6)


def test_titles_are_broken_into_lines_and_never_cut(tmp_path: Path) -> None:
    title = "Accuracy of every method under each of the three kinds of noise, in a title too long for a line"
    spec = write_spec(
        tmp_path,
        f"title: {title}\ntable: uniform\ngrid: {{model: m, benchmark: arc, noise: uniform, pool: D1, regime: sparse, "
        "method: [realm, noisy], seeds: 1, steps: 5}\ncurve: 1\n",
    )
    results = fill(tmp_path / "r.sqlite", spec, lambda cell: 0.6)
    for path in write_plots(spec, results, tmp_path / "plots"):
        sheet = drawn(path)
        heads = [text.text or "" for text in sheet.findall(f"{SVG}text")]
        assert " ".join(heads).endswith(title) and len(heads) > 1
        assert max(map(len, heads)) * HEAD_LETTER <= float(sheet.get("width", 0))
        panel = sheet.find(f"{SVG}svg")
        assert panel is not None and float(panel.get("y", 0)) > 14 * len(heads), "the panels stand below it"


def test_a_long_title_of_a_panel_moves_its_axes_down() -> None:
    short, long = (Panel(title, "", (0, 1), (0, 1)) for title in ("short", "a rather long title " * 4))
    assert short.top < long.top < long.y(0.0) and short.y(1.0) == short.top and long.y(1.0) == long.top
