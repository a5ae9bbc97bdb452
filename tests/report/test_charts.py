from __future__ import annotations

import math
from xml.etree import ElementTree

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from realm.report.charts import Axis, Cell, Row, interval_rows, line_chart, matrix, ranking
from realm.report.escaping import clipped, coded, isolated, visible
from realm.report.svg import MARKS, Picture, ticks

HIDDEN = "\u202e\u2066\u200b\u2028\x00\x1b\ufeff\U000e0041\ud800"


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.integers(2, 8))
def test_ticks_are_round_and_inside(low: float, span: float, about: int) -> None:
    assume(span > 1e-6 * abs(low))  # a span that doubles can still divide
    found = ticks(low, low + span, about)
    assert 1 <= len(found) <= 2 * about + 2
    assert all(low - 1e-6 * span <= tick <= low + span + 1e-6 * span for tick in found)
    steps = np.diff(found)
    if len(steps):
        assert np.allclose(steps, steps[0])
        digits = steps[0] / 10 ** math.floor(math.log10(steps[0]) + 1e-9)
        assert any(math.isclose(digits, factor, rel_tol=1e-3) for factor in (1, 2, 2.5, 5, 10))


@given(st.text(), st.text())
def test_pictures_are_well_formed_whatever_they_say(title: str, text: str) -> None:
    picture = Picture(10, 10, title, text)
    picture.text(1, 2, text, "name", hint=title)
    picture.add("rect", hint=text, x=1, y=2, width=3, height=4, class_=title)
    root = ElementTree.fromstring(str(picture.markup("chart")))
    assert root.find("title").text in (visible(title), None)
    shown = root.find("text")
    assert ("".join(shown.itertext())).endswith(visible(text).replace("\r", "\n"))


@given(st.text(alphabet=st.characters() | st.sampled_from(HIDDEN)))
def test_visible_text_hides_nothing_and_can_be_written(text: str) -> None:
    shown = visible(text)
    shown.encode("utf-8")
    assert not set(shown) & set(HIDDEN)
    assert visible(shown) == shown
    assert "<" not in str(isolated(text)).removeprefix("<bdi>").removesuffix("</bdi>")


def test_what_is_spelled_out_and_what_is_not() -> None:
    assert visible("a\u202eb\r\nc\td") == "a⟨U+202E⟩b\nc\td"
    joined = "می\u200cخواهم 👩\u200d💻 日本"
    assert visible(joined) == joined
    assert clipped("  one two three ", 8) == "one two…" and clipped("short", 8) == "short"
    assert coded("with `exclude`, <b>`<i>`") == "with <code>exclude</code>, &lt;b&gt;<code>&lt;i&gt;</code>"
    assert coded("one ` alone") == "one ` alone"


def test_of_many_annotators_a_part_is_drawn_evenly_over_the_ranks() -> None:
    def drawn(n: int) -> str:
        accuracy = np.linspace(0.95, 0.2, n)
        figures = np.stack([accuracy, accuracy - 0.1, accuracy + 0.05], axis=1)
        return str(ranking("", [f"w{i}" for i in range(n)], figures, np.arange(n) % 5, 0.5))

    few, many = drawn(12), drawn(5_000)
    assert all(f">w{i}</text>" in few for i in range(12)) and "95%  (85–100%)" in few
    assert ">w7</text>" not in many and ">w0</text>" in many and ">w4999</text>" in many
    assert many.count('class="figure"') == 60 and "1,000 reliable, 1,000 middling" in many


def rows_of(markup: object) -> ElementTree.Element:
    return ElementTree.fromstring(str(markup))


def test_every_verdict_has_a_shape_of_its_own() -> None:
    rows = [Row(f"r{kind}", 0.5, 0.4, 0.6, "", kind) for kind in range(5)]
    drawn = rows_of(interval_rows("t", "d", rows, domain=(0, 1), guide=(0, "zero")))
    marks = [(e.get("d"), e.get("class")) for e in drawn.iter("path")]
    classes = ["mark v0", "mark v1", "mark v2 ring", "mark v3", "mark v4 cross"]
    assert marks == list(zip(MARKS, classes, strict=True)) and len(set(marks)) == 5


def test_marks_and_intervals_stand_where_their_figures_are() -> None:
    rows = [Row("a", 0.5, 0.25, 1.0, ""), Row("b", 0, -3, 4, "")]
    drawn = rows_of(interval_rows("t", "d", rows, domain=(0, 1), guide=(0, "zero")))
    grid = {e.text: float(e.get("x")) for e in drawn.iter("text") if e.get("class") == "tick"}
    first, second = (e for e in drawn.iter("line") if "whisker" in (e.get("class") or ""))
    left, right = grid["0%"], grid["100%"]
    assert math.isclose(float(first.get("x1")), left + 0.25 * (right - left), abs_tol=0.1)
    assert [float(second.get(end)) for end in ("x1", "x2")] == [left, right], "cut at the ends of the axis"
    mark = next(e for e in drawn.iter("path"))
    assert math.isclose(float(mark.get("transform").split("(")[1].split()[0]), (left + right) / 2, abs_tol=0.1)


def test_a_matrix_tells_empty_cells_from_bad_ones() -> None:
    cells = [
        [Cell("95%", 0.9, "above", ""), None],
        [Cell("30%", 0.8, "below", ""), Cell("55%", 0.1, "above", "", True)],
    ]
    drawn = rows_of(matrix("t", "d", ["a", "b"], ["s", "t"], cells))
    assert [e.get("class") for e in drawn.iter("rect")] == ["cell above", "cell none", "cell below", "cell above"]
    figures = [(e.text, e.get("class")) for e in drawn.iter("text") if (e.get("class") or "").startswith("heat")]
    assert figures == [("95%", "heat strong"), ("30%", "heat strong"), ("55%", "heat unsure")]
    opacity = [float(e.get("fill-opacity")) for e in drawn.iter("rect") if e.get("fill-opacity")]
    assert opacity[0] > opacity[1] > opacity[2]


def test_curves_skip_what_is_not_finite_and_stay_small() -> None:
    x = np.arange(5_000.0)
    y = np.where(x == 7, np.nan, 1 / (1 + x))
    drawn = str(line_chart("t", x, y, Axis("step"), Axis("loss")))
    assert "nan" not in drawn and len(drawn) < 20_000 and "from 1 to 0.0002" in drawn
