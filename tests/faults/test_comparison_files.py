"""Mutated files of comparisons and of the lab, by the hundred: read or refused in words, and no figure that is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.comparison_files import NO_NUMBER, Subject, make_subject, try_comparisons
from tests.faults.outcomes import Tally, run_command

FAST = 60


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    return make_subject(tmp_path_factory.mktemp("comparisons"))


def passed(tally: Tally) -> bool:
    print(tally)
    assert not tally.failures, f"{tally}\n" + "\n".join(tally.failures[:20])
    return True


def test_comparisons(subject: Subject, tmp_path: Path) -> None:
    tally = try_comparisons(range(FAST), tmp_path, subject)
    assert passed(tally) and tally.counts["read"] > 5 and tally.counts["refused"] > 15


@pytest.mark.slow
def test_many_comparisons(subject: Subject, tmp_path: Path) -> None:
    assert passed(try_comparisons(range(FAST, 1000), tmp_path, subject))


def test_untouched_they_are_read(subject: Subject, tmp_path: Path) -> None:
    """The harness would prove nothing if it refused everything."""
    for words in (
        ["report", str(subject.compared), "--output", str(tmp_path / "page.html")],
        [*subject.words, str(subject.compared)],
        ["lab", "table", subject.spec, "--results", str(subject.grid)],
        ["lab", "plot", subject.spec, "--results", str(subject.grid), "--output", str(tmp_path / "plots")],
    ):
        code, _, error = run_command(words)
        assert code == 0, (words, error)


def test_the_harness_sees_a_figure_that_is_none() -> None:
    assert all(NO_NUMBER.search(text) for text in ("d='M 1 nan'", '"mean": NaN', ">inf<", "-Infinity %"))
    assert not any(NO_NUMBER.search(text) for text in ("finance", "banana", "info", "tabular-nan-x"))
