"""The picture of the README is drawn from what a demo recorded, and shows nothing else."""

from __future__ import annotations

import importlib.util
import re
import xml.etree.ElementTree as ET
from typing import Any

from tests.contracts.modules import ROOT

SVG = "{http://www.w3.org/2000/svg}"
PICTURE = ROOT / "docs" / "pictures" / "overview.svg"


def drawn(experiment: dict[str, Any]) -> ET.Element:
    path = ROOT / "docs" / "pictures" / "make_overview.py"
    spec = importlib.util.spec_from_file_location("make_overview", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rows = [{"item": "1", "text": "<b>" + "long " * 30, "annotator": "ada", "label": "spam & ham"}]
    return ET.fromstring(module.overview(rows, {"1": ("ham", 0.876)}, experiment, 480))


def words(picture: ET.Element) -> list[str]:
    return ["".join(text.itertext()) for text in picture.iter(f"{SVG}text")]


def test_the_picture_shows_what_the_demo_recorded() -> None:
    annotators = [
        {"annotator": "ada", "true": 0.9, "learned": 0.8, "low": 0.7, "high": 0.95, "verdict": "reliable"},
        {"annotator": "bob", "true": 0.2, "learned": 0.3, "low": 0.1, "high": 0.5, "verdict": "no better than chance"},
    ]
    figures = {"noisy": {"accuracy": 0.5}, "realm": {"accuracy": 0.75}, "oracle": {"accuracy": 1.0}}
    picture = drawn({"annotators": annotators, "figures": figures})
    shown = words(picture)
    assert {"50.0%", "75.0%", "100.0%", "ham", "confidence 88%", "ada: spam & ham", "reliable"} <= set(shown)
    assert any(text.startswith("<b>long") and text.endswith("…") for text in shown)
    bars = [float(bar.get("width", 0)) for bar in picture.iter(f"{SVG}rect")][-3:]
    assert bars[1] / bars[2] == 0.75
    lines = [re.findall(r"M([\d.]+),\d+ H([\d.]+)", line.get("d", "")) for line in picture.iter(f"{SVG}path")]
    (first, last), *_ = [found[0] for found in lines if found]
    dots = [float(dot.get("cx", 0)) for dot in picture.iter(f"{SVG}circle")]
    assert float(first) < dots[0] < float(last) and dots[1] < dots[0]


def test_the_picture_of_the_readme_is_one_of_a_demo() -> None:
    picture = ET.parse(PICTURE).getroot()
    shown = words(picture)
    assert {"Ada", "Ben", "Cleo", "Dan", "Eve", "Finn"} <= set(shown)
    assert len(list(picture.iter(f"{SVG}circle"))) == 6
    assert "https://" not in PICTURE.read_text().replace("http://www.w3.org", "")
