"""A metric is one row of `realm.metrics`: with it, every place that shows metrics shows it."""

from __future__ import annotations

import json
from pathlib import Path

from realm.data.write import write_table
from realm.metrics import METRICS
from tests.contracts.commands import run_commands
from tests.tiny import crowd

WITH_ROW = """
import numpy as np
from realm.metrics import METRICS, Metric
METRICS["brier"] = Metric("brier", "Brier score", lambda a: float(
    ((np.exp(a.log_probs) - (np.arange(a.log_probs.shape[1]) == a.truth[:, None])) ** 2).sum(axis=1).mean()
), False, ".4f")
"""


def test_one_row_reaches_train_evaluate_compare_and_the_reports(tmp_path: Path, tiny_model) -> None:
    assert "brier" not in METRICS
    labels, test, run, compared = (tmp_path / name for name in ("labels.csv", "test.csv", "run", "compared"))
    write_table(crowd(40, (0.9, 0.8, 0.6)), labels)
    crowd(20, seed=5).to_pandas()[["item", "text", "gold"]].drop_duplicates().to_csv(test, index=False)
    model = ["--model", tiny_model("bert"), "--steps", 2]
    results = run_commands(
        WITH_ROW,
        ["train", labels, *model, "--test", test, "--output", run],
        ["evaluate", run, test, "--json"],
        ["compare", labels, "--test", test, *model, "--methods", "noisy,realm", "--seeds", 1, "--output", compared],
    )
    assert [code for code, _, _ in results] == [0, 0, 0], results
    evaluated = json.loads(results[1][1])
    recorded = json.loads((run / "metrics.json").read_text())["test"]
    assert 0 < evaluated["brier"] < 2 and abs(recorded["brier"] - evaluated["brier"]) < 1e-6
    assert "Brier score" in (run / "report.html").read_text()
    assert "brier" in (compared / "results.json").read_text()
    assert "brier score" in (compared / "report.html").read_text().lower()
