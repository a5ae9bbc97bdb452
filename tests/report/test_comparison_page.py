from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from realm.comparison.compare import _summary, rank_metric
from realm.comparison.significance import MethodResults, ScoredItems, ranking
from realm.crowd.label_figures import macro_f1, rarest_recall
from realm.data import Task
from realm.errors import RealmError
from realm.report.comparison_page import comparison_page, holds_comparison
from tests.report.reader import Page, check_closed_in


def write(folder: Path, **changed: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "results.json").write_text(json.dumps(ranked(**changed)))
    return folder


def write_with_methods(folder: Path, names: list[str]) -> Path:
    """A comparison with methods of any name, which are as `noisy` is."""
    summary = ranked()
    for records in (summary["methods"], summary["trainings"]):
        records += [{**each, "method": name} for name in names for each in records if each["method"] == "noisy"]
    folder.mkdir(exist_ok=True)
    (folder / "results.json").write_text(json.dumps(summary))
    return folder


def ranked(
    label: str = "yes",
    rank_by: str | None = None,
    seeds: int = 3,
    names: tuple[str, ...] = ("realm", "noisy", "oracle"),
) -> dict[str, Any]:
    """The summary of a comparison in which noisy finds the label `yes` and realm does not."""
    generator = np.random.default_rng(0)
    gold = (np.arange(600) % 4 == 0).astype(np.int64)
    items = ScoredItems(gold, np.zeros(600, np.int64), (Task("toxic", ("no", label)),))
    methods, trainings = {}, []
    for name, recalls in zip(names, ((0.97, 0.35), (0.85, 0.75), (0.9, 0.9)), strict=False):
        found = generator.random((seeds, 600)) < np.array(recalls)[gold]
        labels = np.where(found, gold, 1 - gold)
        log_probs = np.log(np.where(labels == gold, 0.8, 0.2))
        rows = [evaluate_labels(gold, one) for one in labels]
        metrics = {key: np.array([row[key] for row in rows]) for key in rows[0]} | {"log_loss": -log_probs.mean(1)}
        methods[name] = MethodResults(metrics, labels, log_probs)
        learned = {"expertise_spearman": 0.6 if name == "realm" else None}
        for seed in range(seeds):
            figures = {key: float(values[seed]) for key, values in metrics.items()}
            trainings.append({"method": name, "seed": seed, **figures, **learned})
    ranks = ranking(methods, items, rank_metric(rank_by, items))
    entries = [_summary(name, method, items, ranks) for name, method in methods.items()]
    return {"regime": "sparse", "seeds": seeds, "methods": entries, "trainings": trainings, "ranking": ranks}


def evaluate_labels(gold: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    return {
        "accuracy": float((gold == labels).mean()),
        "base_rate": float(np.bincount(gold).max() / len(gold)),
        "macro_f1": macro_f1(gold, labels),
        "rarest_recall": rarest_recall(gold, labels),
    }


def test_figures_labels_and_the_verdict_are_shown(tmp_path: Path) -> None:
    folder = write(tmp_path / "compared", rank_by="accuracy")
    assert holds_comparison(folder)
    path = comparison_page(folder)
    assert path == folder / "report.html"
    page, summary = Page(path.read_text()), ranked(rank_by="accuracy")
    check_closed_in(page)
    noisy = summary["methods"][1]
    assert f"noisy {100 * noisy['mean']:.1f}% ± {100 * noisy['std']:.1f}" in page.text
    assert "sparse regime, 3 seeds" in page.text and "base rate" in page.text and 'href="#labels"' in page.source
    [yes] = [row for row in summary["methods"][0]["labels"][0]["labels"] if row["label"] == "yes"]
    assert f"{yes['recall']:.3f}" in page.text and "above" in page.text
    assert "is best" not in page.text and "no method is called best" in page.text
    assert " behind " in page.text and "expertise, rank correlation" in page.text and "0.60" in page.text
    assert "The oracle is trained on gold" in page.text and "Few seeds" not in page.text
    low, high = (f"{100 * value:+.1f}" for value in noisy["interval_items"])
    assert f"({low} to {high})" in page.text
    assert page.source.count('class="figure"') == 2, "an interval for each other method"


def test_a_method_alone_and_one_seed_make_a_page(tmp_path: Path) -> None:
    page = Page(comparison_page(write(tmp_path / "one", names=("realm",), seeds=1)).read_text())
    assert "nothing to hold against each other" in page.text and "Few seeds" in page.text
    assert "macro F1" in page.text and "nan" not in page.source


def test_with_one_seed_differences_are_shown_and_not_tested(tmp_path: Path) -> None:
    page = Page(comparison_page(write(tmp_path / "one", seeds=1)).read_text())
    assert (
        "not tested" in page.text
        and "ahead" not in page.text.split("Ahead, behind")[0]
        and "fewer than 3 seeds" in page.text
    )


@pytest.mark.parametrize("change", [
    lambda s: s["methods"][0].pop("figures"), lambda s: s["ranking"].update(by="beauty"),
    lambda s: s["ranking"].update(reference="majority"), lambda s: s.update(methods=[3]),
    lambda s: s["ranking"]["contrasts"][0].pop("outcome"), lambda s: s["trainings"][0].update(accuracy="much"),
])  # fmt: skip
def test_a_damaged_summary_is_refused_by_name(change: Any, tmp_path: Path) -> None:
    summary = ranked()
    change(summary)
    (tmp_path / "results.json").write_text(json.dumps(summary))
    with pytest.raises(RealmError, match=r"results\.json: not readable as the results of a comparison"):
        comparison_page(tmp_path)


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
