"""Finished runs asked in odd ways: answered right or refused; never a wrong result, a traceback or a hang.

`python -m tests.faults.asking` runs as many tries as one likes and shows what failed.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.faults.asking import (
    COMMANDS,
    READABLE,
    WRONG_COSTS,
    WRONG_FLAGS,
    AskedRun,
    Case,
    judge,
    make_case,
    train_runs,
    try_asking,
    wrong_tables,
)
from tests.faults.odd_inputs import LOSSLESS, WRONG_BYTES
from tests.faults.outcomes import Tally


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, AskedRun]:
    return train_runs(tmp_path_factory.mktemp("asked"))


def passed(tally: Tally) -> bool:
    print(tally)
    assert not tally.failures, f"{tally}\n" + "\n".join(tally.failures[:10])
    return True


def test_finished_runs_are_asked(tmp_path: Path, runs: dict[str, AskedRun]) -> None:
    tally = try_asking(range(100), tmp_path, runs)
    assert passed(tally) and tally.counts["read"] > 30 and tally.counts["refused"] > 30


@pytest.mark.slow
def test_finished_runs_are_asked_by_the_hundred(tmp_path: Path, runs: dict[str, AskedRun]) -> None:
    assert passed(try_asking(range(100, 900), tmp_path, runs))


def test_every_kind_of_question_is_asked(tmp_path: Path, runs: dict[str, AskedRun]) -> None:
    cases = [make_case(seed, tmp_path / str(seed), runs) for seed in range(2500)]
    kinds = {*LOSSLESS, *WRONG_FLAGS, *WRONG_COSTS, *(name for name in WRONG_BYTES if name not in READABLE)}
    kinds |= {*wrong_tables("evaluate", runs["pairs"].columns), "the run's own file"}
    names = {case.name for case in cases}
    assert names >= kinds, kinds - names
    assert {case.words[0] for case in cases} == {*COMMANDS}


# ---------------------------------------------------------------- the harness itself


def test_the_judge_sees_what_is_wrong(tmp_path: Path, runs: dict[str, AskedRun]) -> None:
    """A judge who never complains proves nothing."""
    run = runs["pairs"]
    rows = [{"hypothesis": "a bird", "text": premise, "label": "mine"} for premise in ("near", "far", "near")]
    output = tmp_path / "out.jsonl"
    case = Case("x", ["predict"], run, rows=rows, columns=run.columns, output=output)

    def write(answers: list[dict]) -> tuple[str, str]:
        output.write_text("".join(json.dumps(answer) + "\n" for answer in answers))
        return judge(case, 0, "", "")

    good = []
    for row in rows:
        shares = run.shares_of(row["hypothesis"], row["text"])
        best = max(shares, key=lambda label: shares[label])
        good.append(row | {"predicted_label": best, "confidence": shares[best], "probabilities": shares})
    assert write(good) == ("read", "")
    alone = run.shares_of("a bird", None)
    worst = min(good[0]["probabilities"], key=lambda label: good[0]["probabilities"][label])
    for bad in (
        good[:2],
        [good[1], good[0], good[2]],
        [good[0] | {"probabilities": alone}, *good[1:]],
        [good[0] | {"predicted_label": worst}, *good[1:]],
        [{k: v for k, v in row.items() if k != "label"} for row in good],
        [good[0] | {"item": "4f"}, *good[1:]],
        [good[0], good[1], good[2] | {"probabilities": {k: v + 1e-9 for k, v in good[2]["probabilities"].items()}}],
    ):
        assert write(bad)[0] == "wrong", bad
    output.write_text("label\nx\n")
    assert judge(case, 0, "", "")[0] == "wrong"
    assert judge(case, 1, "", "")[0] == "traceback" and judge(case, -1, "", "")[0] == "hang"
    assert judge(case, 2, "", "error: no") == ("wrong", "refused, and wrote a file")
    output.unlink()
    assert judge(case, 2, "", "error: no")[0] == "unread"
    figures = {"items": 2, "accuracy": 0.0}
    asked = Case(
        "x", ["evaluate"], run, rows=[row | {"gold": good[0]["predicted_label"]} for row in rows], columns=run.columns
    )
    assert judge(asked, 0, json.dumps(figures | {"items": 3}), "")[0] == "wrong"
    assert judge(asked, 0, json.dumps(figures), "")[0] == "wrong"
    refused = Case("x", ["report"], run, refuse=True)
    assert judge(refused, 0, "", "")[0] == "wrong" and judge(refused, 2, "", "error: no")[0] == "refused"
