from __future__ import annotations

import json
import math
from xml.etree import ElementTree

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from realm.report.annotator_charts import Row, heat_map, interval_rows, ranking
from realm.report.chart_data import Pool, Series
from realm.report.charts import balance, fan, histogram, line_chart
from realm.report.escaping import clipped, data_block, isolated, visible
from realm.report.svg import Picture, Scale, ticks

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


def test_a_flat_scale_does_not_divide_by_zero() -> None:
    assert Scale(1, 1, 0, 10)(1) == 5
    assert ticks(3, 3) == [3] and ticks(0, math.inf) == [0]


@given(st.text(), st.text())
def test_pictures_are_well_formed_whatever_they_say(title: str, text: str) -> None:
    picture = Picture(10, 10, title, text)
    picture.text(1, 2, text, hint=title)
    picture.add("rect", hint=text, x=1, y=2, width=3, height=4, class_=title)
    root = ElementTree.fromstring(str(picture.markup()))
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


@given(
    st.recursive(
        st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_data_blocks_cannot_end_their_script_and_read_back_the_same(value: object) -> None:
    block = str(data_block(value))
    assert not set(block) & set("<>&\u2028\u2029")
    assert json.loads(block) == value


def pool(n: int) -> Pool:
    accuracy = np.linspace(0.95, 0.2, n)
    return Pool(
        task="", names=[f"w{i}" for i in range(n)], accuracy=accuracy, low=accuracy - 0.1, high=accuracy + 0.05,
        n=np.full(n, 20), verdict=np.arange(n) % 5, chance=0.5,
    )  # fmt: skip


def test_few_annotators_have_names_and_many_make_a_curve_of_bounded_size() -> None:
    few, many = str(ranking(pool(12))), str(ranking(pool(5_000)))
    assert all(f">w{i}</text>" in few for i in range(12))
    assert "95%  (85–100%)" in few
    assert ">w7</text>" not in many and len(many) < 120_000
    assert "1,000 reliable, 1,000 middling" in many
    assert "<title>w0: 95%" in many and "<title>w4999: 20%" in many


def test_every_verdict_has_a_shape_of_its_own() -> None:
    rows = [Row(f"r{kind}", 0.5, 0.4, 0.6, "", kind) for kind in range(5)]
    drawn = ElementTree.fromstring(str(interval_rows("t", "d", rows, domain=(0, 1))))
    marks = [(e.tag, e.get("class")) for e in drawn.iter() if (e.get("class") or "").startswith("mark")]
    assert marks == [
        *[("circle", "mark v0"), ("path", "mark v1"), ("circle", "mark v2 ring")],
        *[("rect", "mark v3"), ("path", "mark v4 cross")],
    ]


def test_the_figures_beside_a_line_have_room() -> None:
    note = "+.090  (+.035 to +.146)"
    drawn = ElementTree.fromstring(str(interval_rows("t", "d", [Row("r", 0.5, 0.4, 0.6, note)], domain=(0, 1))))
    text = next(e for e in drawn.iter("text") if e.get("class") == "figure")
    assert float(drawn.get("width")) - float(text.get("x")) > 7.2 * len(note), "digits of the widest font in use"


def test_intervals_outside_the_axis_are_cut_at_its_ends() -> None:
    drawn = ElementTree.fromstring(
        str(interval_rows("t", "d", [Row("r", 0.5, -3, 4, "")], domain=(0, 1), zones=[(-1, 0.2, "zone low")]))
    )
    whisker = next(e for e in drawn.iter("line") if "whisker" in (e.get("class") or ""))
    assert 0 < float(whisker.get("x1")) < float(whisker.get("x2")) < float(drawn.get("width"))
    assert float(next(drawn.iter("rect")).get("x")) == float(whisker.get("x1"))


def test_the_heat_map_tells_empty_cells_from_bad_ones() -> None:
    beta = np.array([[0.9, np.nan], [-0.4, 0.1]])
    drawn = ElementTree.fromstring(
        str(heat_map(["a", "b"], ["s", "t"], beta, (1 + beta) / 2, np.array([[0, -1], [4, 2]])))
    )
    classes = [e.get("class") for e in drawn.iter("rect")]
    assert classes == ["cell above", "cell none", "cell below", "cell above"]
    figures = [e.text for e in drawn.iter("text") if (e.get("class") or "").startswith("heat")]
    assert figures == ["95%", "30%", "55%"]


def test_curves_skip_what_is_not_finite_and_stay_small() -> None:
    x = np.arange(5_000.0)
    y = np.where(x == 7, np.nan, 1 / (1 + x))
    drawn = str(line_chart("t", [Series("loss", x, y), Series("none", x[:0], y[:0])], "step", "loss"))
    assert "nan" not in drawn and len(drawn) < 20_000
    assert "from 1 to 0.0002" in drawn
    one = str(line_chart("t", [Series("loss", x[:1], y[:1])], "step", "loss"))
    assert "spot" in one and "nan" not in one


def test_expertise_of_a_pool_is_a_band_and_of_a_few_are_lines() -> None:
    steps = np.arange(0, 100, 10)
    few = str(fan(steps, np.random.default_rng(0).random((10, 4)), np.array([0, 1, 2, -1]), ["a", "b", "c", "d"]))
    many = str(fan(steps, np.random.default_rng(0).random((10, 900)), np.full(900, -1), []))
    assert few.count('class="thread') == 4 and "band" not in few and 'class="thread v2"' in few
    assert many.count('class="band') == 2 and many.count('class="thread') <= 36


def test_bars_say_their_figures() -> None:
    assert "90% to 100%: 3" in str(histogram("t", np.array([1, 3]), np.array([0.8, 0.9, 1.0]), "x"))
    drawn = str(balance("t", ["no", "yes"], [("as given", np.array([0.25, 0.75])), ("cleaned", np.array([0.5, 0.5]))]))
    assert "as given: no 25%, yes 75%" in drawn and "<title>yes, cleaned: 50%</title>" in drawn
