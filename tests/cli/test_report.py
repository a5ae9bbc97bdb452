from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from realm.cli.main import main
from tests.report.folders import crowd, write_run
from tests.report.test_comparison_page import write as write_comparison

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """`realm report ...` in this process, in an empty folder: exit code and standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["realm", "report", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), capsys.readouterr().err

    return call


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table, log_probs = crowd(n_items=40)
    return write_run(tmp_path_factory.mktemp("runs") / "run", table, log_probs, trained=np.full((5, 1), 0.5))


def test_a_run_gets_its_report_beside_it(run: Run, folder: Path) -> None:
    code, err = run(folder)
    assert code == 0 and "open it in a browser" in err
    assert "worker-0" in (folder / "report.html").read_text()


def test_output_and_pseudonyms(run: Run, folder: Path, tmp_path: Path) -> None:
    assert run(folder, "--output", "new/page.html", "--pseudonymise")[0] == 0
    page = (tmp_path / "new" / "page.html").read_text()
    assert "worker-0" not in page and "Annotator 1" in page


def test_several_runs_go_side_by_side(run: Run, folder: Path, tmp_path: Path) -> None:
    assert run(folder, folder)[0] == 0
    assert "Settings that differ" in (tmp_path / "compare.html").read_text()


def test_a_comparison_gets_its_own_page(run: Run, folder: Path, tmp_path: Path) -> None:
    compared = write_comparison(tmp_path / "compared")
    assert run(compared)[0] == 0
    assert "Methods compared" in (compared / "report.html").read_text()
    code, err = run(compared, folder)
    assert code == 2 and "give it alone" in err


def test_mistakes_end_with_two_and_a_word(run: Run, folder: Path, tmp_path: Path) -> None:
    code, err = run(tmp_path / "nowhere")
    assert code == 2 and "no such run folder" in err
    code, err = run(tmp_path)
    assert code == 2 and "is not a run folder" in err
    code, err = run(folder, "--output", tmp_path)
    assert code == 2 and "is a folder; name a file" in err


def test_torch_is_not_loaded(folder: Path, tmp_path: Path) -> None:
    code = (
        "import sys; sys.argv = ['realm', 'report', *sys.argv[1:]]\n"
        "from realm.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code and 'torch' not in sys.modules, (end.code, 'torch')\n"
    )
    for arguments in ([folder], [folder, folder, "--output", tmp_path / "two.html"]):
        subprocess.run([sys.executable, "-c", code, *map(str, arguments)], check=True, capture_output=True)
