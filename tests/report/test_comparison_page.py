from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from realm.errors import RealmError
from realm.report.comparison_page import comparison_page, holds_comparison
from tests.report.reader import Page, check_closed_in

METHODS: list[dict[str, Any]] = [
    {"method": "realm", "mean": 0.884, "std": 0.004},
    {"method": "noisy", "mean": 0.861, "std": 0.009, "realm_minus_this": 0.023, "p_seeds": 0.012, "p_items": 0.0004,
     "interval_items": [0.011, 0.034]},
    {"method": "oracle", "mean": 0.893, "std": 0.002, "realm_minus_this": -0.009, "p_seeds": None, "p_items": 0.21,
     "interval_items": [-0.019, 0.002]},
]  # fmt: skip


def write(folder: Path, methods: list[dict[str, Any]] = METHODS, seeds: int = 3) -> Path:
    folder.mkdir(exist_ok=True)
    trainings = [
        {"method": entry["method"], "seed": seed, "accuracy": entry["mean"] + (seed - 1) * entry["std"],
         "macro_f1": None, "expertise_spearman": 0.5 + 0.1 * seed if entry["method"] == "realm" else None}
        for entry in methods for seed in range(seeds)
    ]  # fmt: skip
    summary = {"regime": "sparse", "seeds": seeds, "gold_used": False, "methods": methods, "trainings": trainings}
    (folder / "results.json").write_text(json.dumps(summary))
    return folder


def test_means_differences_and_correlation_are_shown(tmp_path: Path) -> None:
    folder = write(tmp_path / "compared")
    assert holds_comparison(folder)
    path = comparison_page(folder)
    assert path == folder / "report.html"
    page = Page(path.read_text())
    check_closed_in(page)
    assert "88.4% ± 0.4" in page.text and "sparse regime, 3 seeds" in page.text
    assert "realm is 2.3 points above noisy; the interval excludes zero." in page.text
    assert "realm is 0.9 points below oracle; the interval holds zero" in page.text
    assert "noisy 0.012 < 0.001" in page.text and "oracle – 0.210" in page.text
    assert "+2.3 (+1.1 to +3.4)" in page.text
    assert "Rank correlation of learned expertise" in page.text and "0.60" in page.text
    assert "The oracle is trained on gold" in page.text and "Few seeds" not in page.text
    # One dot for every seed of every method, and of the correlation.
    assert page.source.count('class="dot"') == 3 * 3 + 3


def test_a_method_alone_and_one_seed_make_a_page(tmp_path: Path) -> None:
    page = Page(comparison_page(write(tmp_path / "one", METHODS[:1], seeds=1)).read_text())
    assert "nothing to hold against each other" in page.text and "Few seeds" in page.text
    assert "macro F1" in page.text and "nan" not in page.source


def test_hostile_method_names_are_text(tmp_path: Path) -> None:
    methods = [METHODS[0], {**METHODS[1], "method": "</script><script>alert(1)</script>\u202e"}]
    page = Page(comparison_page(write(tmp_path / "x", methods)).read_text())
    check_closed_in(page)
    assert "</script><script>alert(1)</script>⟨U+202E⟩" in page.text


def test_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RealmError, match=r"no results\.json"):
        comparison_page(tmp_path)
    folder = write(tmp_path / "broken")
    (folder / "results.json").write_text("{}")
    with pytest.raises(RealmError, match="run it again"):
        comparison_page(folder)
    (folder / "results.json").write_text("{")
    with pytest.raises(RealmError, match="not readable as JSON"):
        comparison_page(folder)
