from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from realm.comparison.compare import _figures
from realm.comparison.ranking import MethodResults, ScoredItems, method_labels, rank_metric, ranking
from realm.crowd.label_figures import macro_f1, rarest_recall
from realm.data import Task
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
    assert "realm is 2.3 points of accuracy above noisy; the interval excludes zero." in page.text
    assert "realm is 0.9 points of accuracy below oracle; the interval holds zero" in page.text
    assert "written by an earlier version" in page.text and "best" not in page.text and 'id="labels"' not in page.source
    assert "noisy 0.012 < 0.001" in page.text and "oracle – 0.210" in page.text
    assert "+2.3 (+1.1 to +3.4)" in page.text
    assert "Rank correlation of learned expertise" in page.text and "0.60" in page.text
    assert "The oracle is trained on gold" in page.text and "Few seeds" not in page.text
    # One dot for every seed of every method, and of the correlation.
    assert page.source.count('class="dot"') == 3 * 3 + 3


def ranked(**changed: Any) -> dict[str, Any]:
    """The summary of a comparison in which noisy finds the label `yes` and realm does not."""
    generator = np.random.default_rng(0)
    gold = (np.arange(600) % 4 == 0).astype(np.int64)
    items = ScoredItems(gold, np.zeros(600, np.int64), (Task("toxic", ("no", changed.pop("label", "yes"))),))
    methods = {}
    for name, recalls in (("realm", (0.97, 0.35)), ("noisy", (0.85, 0.75)), ("oracle", (0.9, 0.9))):
        found = generator.random((3, 600)) < np.array(recalls)[gold]
        labels = np.where(found, gold, 1 - gold)
        log_probs = np.log(np.where(labels == gold, 0.8, 0.2))
        rows = [evaluate_labels(gold, one) for one in labels]
        metrics = {key: np.array([row[key] for row in rows]) for key in rows[0]} | {"log_loss": -log_probs.mean(1)}
        methods[name] = MethodResults(metrics, labels, log_probs)
    metric = rank_metric(changed.pop("rank_by", None), items)
    entries = [
        {"method": name, "figures": _figures(method), "labels": method_labels(method, items),
         "mean": method.mean("accuracy"), "std": 0.0}
        for name, method in methods.items()
    ]  # fmt: skip
    trainings = [
        {"method": name, "seed": seed, **{key: float(values[seed]) for key, values in method.metrics.items()}}
        for name, method in methods.items()
        for seed in range(3)
    ]
    ranks = ranking(methods, items, metric)
    return {"regime": "shared", "seeds": 3, "methods": entries, "trainings": trainings, "ranking": ranks, **changed}


def evaluate_labels(gold: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    return {
        "accuracy": float((gold == labels).mean()),
        "base_rate": float(np.bincount(gold).max() / len(gold)),
        "macro_f1": macro_f1(gold, labels),
        "rarest_recall": rarest_recall(gold, labels),
    }


def test_figures_labels_and_the_verdict_are_shown(tmp_path: Path) -> None:
    folder = tmp_path / "compared"
    folder.mkdir()
    summary = ranked(rank_by="accuracy")
    (folder / "results.json").write_text(json.dumps(summary))
    page = Page(comparison_page(folder).read_text())
    check_closed_in(page)
    assert "earlier version" not in page.text and "base rate" in page.text and 'href="#labels"' in page.source
    [yes] = [row for row in summary["methods"][0]["labels"][0]["labels"] if row["label"] == "yes"]
    assert f"{yes['recall']:.3f}" in page.text and "above" in page.text
    assert "Confusion matrix" in page.text and "Macro F1" in page.text
    assert "is best" not in page.text and "no method is called best" in page.text
    assert "realm against noisy: " in page.text and "behind on" in page.text


def test_labels_from_data_are_text_here_too(tmp_path: Path) -> None:
    folder = tmp_path / "x"
    folder.mkdir()
    (folder / "results.json").write_text(json.dumps(ranked(label="<b onclick=alert(1)>y\u202e")))
    page = Page(comparison_page(folder).read_text())
    check_closed_in(page)
    assert "<b onclick=alert(1)>y⟨U+202E⟩" in page.text


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
    with pytest.raises(RealmError, match=r"results\.json: it lacks `methods`"):
        comparison_page(folder)
    (folder / "results.json").write_text("{")
    with pytest.raises(RealmError, match="not readable as JSON"):
        comparison_page(folder)
