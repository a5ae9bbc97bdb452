"""The benchmark of judges: five gold items per subset see through majorities that are wrong; recorded models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks import judges
from benchmarks.judges import ESTIMATE, distilled, judges_table, labels_of, shares_right, some_gold


@pytest.mark.shared
@pytest.mark.parametrize(("method", "least"), [("dawid-skene", 0.70), (ESTIMATE, 0.66)])
def test_five_gold_items_per_subset_turn_the_majority_round(shared_data: Path, method: str, least: float) -> None:
    table = judges_table(shared_data / "llmbar_judges", gpt4=False)
    none = np.full(table.n_items, -1, dtype=np.int32)
    majority = shares_right(table, labels_of(table, "majority", None), none)
    assert majority[0] < 0.5 and majority[1] < 0.3, "without gold the crowd is wrong"
    gold = some_gold(table, 5, seed=0)
    over_all, inverted = shares_right(table, labels_of(table, method, gold), gold)
    assert over_all > least and inverted > 0.75


def test_recorded_models_distilled_from_three_judges_are_ahead(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(distilled()) == []
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| distilled by realm | 5 |")]
    assert len(rows) == 1, "the five seeds of the default, without those of the paper's setting"
    monkeypatch.setattr(judges, "MODEL_TARGETS", {"noisy": 0.5, "nobody": 0.0})
    missed = list(distilled())
    assert len(missed) == 2 and "less than 0.5 ahead" in missed[0] and "nobody" in missed[1]


@pytest.mark.parametrize(("accuracy", "missed"), [(0.66, []), (0.7, [judges.TAKEN, judges.SHARE])])
def test_models_of_single_judges_are_rows_and_are_held_against_realm(
    accuracy: float, missed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    single = pd.DataFrame({"accuracy": [accuracy] * 2, "macro_f1": [0.6, 0.7]})
    low = single.assign(accuracy=accuracy - 0.03)
    found = list(distilled({judges.TAKEN: single, judges.SHARE: low, judges.BY_GOLD: single.assign(accuracy=0.9)}))
    assert [name for name in (judges.TAKEN, judges.SHARE) if any(name in each for each in found)] == missed
    out = capsys.readouterr().out
    assert f"| {judges.TAKEN} | 2 | {accuracy:.3f} | 0.000 | 0.650 |" in out and "| 2 | 0.900 |" in out
