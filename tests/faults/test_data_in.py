"""Odd inputs and mutated exports, by the hundred: read right or refused; never a wrong result, a traceback or a hang.

`python -m tests.faults.data_in` runs as many as one likes and shows what failed.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.faults import odd_inputs
from tests.faults.data_in import try_mutations, try_odd_inputs
from tests.faults.error_paths import REFUSED, count
from tests.faults.odd_inputs import LOSSLESS, WRONG_BYTES, WRONG_FLAGS, WRONG_SIMULATIONS, WRONG_TABLES, Case, judge
from tests.faults.outcomes import Tally, attempt


def passed(tally: Tally) -> bool:
    print(tally)
    assert not tally.failures, f"{tally}\n" + "\n".join(tally.failures[:10])
    return True


def test_odd_inputs(tmp_path: Path) -> None:
    tally = try_odd_inputs(range(300), tmp_path)
    assert passed(tally) and tally.counts["read"] > 80 and tally.counts["refused"] > 80


def test_mutated_exports(tmp_path: Path) -> None:
    tally = try_mutations(range(200), tmp_path)
    assert passed(tally) and tally.counts["read"] > 20 and tally.counts["refused"] > 100


@pytest.mark.slow
def test_many_odd_inputs(tmp_path: Path) -> None:
    assert passed(try_odd_inputs(range(300, 2500), tmp_path))


@pytest.mark.slow
def test_many_mutated_exports(tmp_path: Path) -> None:
    assert passed(try_mutations(range(200, 3000), tmp_path))


def test_every_kind_of_odd_input_is_tried(tmp_path: Path) -> None:
    names = set()
    for seed in range(2500):
        place = tmp_path / str(seed)
        names.add(odd_inputs.make_case(seed, place).name)
    kinds = {*LOSSLESS, *WRONG_TABLES, *WRONG_BYTES, *WRONG_FLAGS, *WRONG_SIMULATIONS, "doccano"}
    assert names >= kinds, kinds - names


# ---------------------------------------------------------------- the harness itself


def test_the_harness_sees_what_is_wrong(tmp_path: Path) -> None:
    """A judge who never complains proves nothing."""
    case = Case("x", ["check", "t.csv"], truth=Counter({("a", "w", "x"): 1}), output=tmp_path / "out.csv")
    assert case.output is not None
    case.output.write_text("text,annotator,label\na,w,x\n")
    assert judge(case, 0, "", "") == ("read", "")
    case.output.write_text("text,annotator,label\na,w,y\n")
    assert judge(case, 0, "", "")[0] == "wrong"
    assert judge(case, 1, "", "")[0] == judge(case, 2, "", "Traceback (most")[0] == "traceback"
    assert judge(case, -1, "", "")[0] == "hang"
    assert judge(case, 2, "", "no") == ("wrong", "refused, and wrote a file")
    case.output.unlink()
    assert judge(case, 2, "", "no")[0] == "unread"
    refused = Case("x", ["check", "t.csv"], refuse=True)
    assert judge(refused, 0, "{}", "")[0] == "wrong" and judge(refused, 2, "", "no")[0] == "refused"


def test_the_harness_counts_tracebacks_and_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    from realm.errors import RealmError
    from tests.faults import outcomes

    def fail(error: Exception) -> None:
        raise error

    def work() -> None:
        while True:
            pass

    monkeypatch.setattr(outcomes, "LONGEST", 1)
    tally = Tally()
    attempt(tally, "a", lambda: fail(KeyError("x")))
    attempt(tally, "b", lambda: fail(RealmError("x")))
    attempt(tally, "c", lambda: fail(RealmError("")))
    attempt(tally, "d", lambda: 1, lambda value: "one is wrong")
    attempt(tally, "e", work)
    assert tally.counts == {"traceback": 2, "refused": 1, "wrong": 1, "hang": 1} and len(tally.failures) == 4


# ---------------------------------------------------------------- in processes of their own


def run(folder: Path, *words: str, memory: int | None = None, timeout: int = 120) -> subprocess.CompletedProcess[str]:
    def limit() -> None:
        if memory is not None:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    return subprocess.run(
        [sys.executable, "-m", "realm", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=timeout,
        preexec_fn=limit,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
    )


@pytest.mark.slow
def test_a_zip_bomb_in_a_process_of_little_memory(tmp_path: Path) -> None:
    """1.5 GB in 1.5 MB, as a zip, a gzip, and a gzip in a zip, in 2 GB of addresses."""
    import gzip
    import io
    import zipfile

    zeros = io.BytesIO()
    with gzip.GzipFile(fileobj=zeros, mode="wb") as file:
        for _ in range(2500):
            file.write(b"0" * 1_000_000)
    (tmp_path / "t.csv.gz").write_bytes(zeros.getvalue())
    with (
        zipfile.ZipFile(tmp_path / "plain.zip", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("t.csv", "w", force_zip64=True) as member,
    ):
        for _ in range(2500):
            member.write(b"0" * 1_000_000)
    with zipfile.ZipFile(tmp_path / "nested.zip", "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("t.csv.gz", zeros.getvalue())
    for name in ("t.csv.gz", "plain.zip", "nested.zip"):
        done = run(tmp_path, "check", name, memory=2 << 30)
        assert done.returncode == 2 and "unpacks to" in done.stderr and "max_unpacked_gb" in done.stderr, done


@pytest.mark.slow
def test_error_paths_end_with_two_however_often(tmp_path: Path) -> None:
    """A thread that outlives the interpreter ended 2 of 60 such calls with `terminate called` and exit code 134."""
    ends = count(200, tmp_path)
    assert sum(ends.values()) == 200 and {code for _, code in ends} == {REFUSED}, ends
