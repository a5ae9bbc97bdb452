"""Fixtures that several parts share."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests import built_once  # noqa: F401  (for its effect)

# The same examples in every CI run, so that a landing does not hang on luck; elsewhere new ones are drawn. On a busy
# machine any example may take longer than Hypothesis' deadline of 200 ms.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("local", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")

# One thread, as in `make test`, unless told otherwise: how sums are split among threads changes their last digits, and
# some tests compare bytes with those of a process that runs on one. Set before anything imports torch.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# One date in all reports: some tests compare bytes, and may begin before midnight and end after it.
os.environ["SOURCE_DATE_EPOCH"] = "1763337600"


@pytest.fixture(autouse=True, scope="module")
def nothing_old_is_collected() -> None:
    """Leave what is there when the tests of a module begin out of garbage collection.

    Every training ends with a full collection (`accelerate` frees memory), which would walk through a million objects
    of torch and transformers each time: a third of the suite's time. What tests import as they run becomes as many.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets that lies beside the checkout."""
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the real data sets are not beside this checkout (../shared/data)")
    return folder


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory):
    """`tiny_model(kind)` gives the path of a tiny checkpoint: seq2seq, causal, gpt2, bert, mpnet or deberta."""
    from tests.tiny import save_tiny

    made: dict[str, str] = {}

    def of(kind: str) -> str:
        if kind not in made:
            made[kind] = save_tiny(tmp_path_factory.mktemp(kind) / "model", kind)
        return made[kind]

    return of


@pytest.fixture(autouse=True, scope="session")
def realm_home(tmp_path_factory: pytest.TempPathFactory):
    """Tests keep their cached states out of the user's folder."""
    before = os.environ.get("REALM_HOME")
    os.environ["REALM_HOME"] = str(tmp_path_factory.mktemp("realm-home"))
    yield
    if before is None:
        del os.environ["REALM_HOME"]
    else:
        os.environ["REALM_HOME"] = before


@pytest.fixture(scope="session")
def realm_cli():
    """`realm_cli("train", ...)` runs the command line in this process: (exit code, standard output, standard error)."""
    import contextlib
    import io
    import sys

    from realm.cli.entry import main

    def run(*words: object) -> tuple[int, str, str]:
        out, error = io.StringIO(), io.StringIO()
        before = sys.argv
        sys.argv = ["realm", *map(str, words)]
        code = 0
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
                main()
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            sys.argv = before
        return code, out.getvalue(), error.getvalue()

    return run
