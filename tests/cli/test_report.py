from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from realm.cli.entry import main
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


def test_a_comparison_gets_its_own_page(run: Run, folder: Path, tmp_path: Path) -> None:
    compared = write_comparison(tmp_path / "compared")
    assert run(compared)[0] == 0
    assert "Methods compared" in (compared / "report.html").read_text()
    code, err = run(compared, folder)
    assert code == 2 and "give it alone" in err and "realm compare" in err
    code, err = run(compared, "--title", "Both")
    assert code == 2 and "--title: is for the report of a run or table" in err


def test_mistakes_end_with_two_and_a_word(run: Run, folder: Path, tmp_path: Path) -> None:
    code, err = run(tmp_path / "nowhere")
    assert code == 2 and "no such run folder" in err
    code, err = run(tmp_path)
    assert code == 2 and "is not a run folder" in err
    code, err = run(folder, "--output", tmp_path)
    assert code == 2 and "is a folder; name a file" in err


@pytest.fixture
def table(tmp_path: Path) -> Path:
    annotations, _ = crowd(n_items=60)
    rows = [
        (f"t{item}", annotations.annotators[who], "abc"[label])
        for item, who, label in zip(annotations.item, annotations.annotator, annotations.label, strict=True)
    ]
    pd.DataFrame(rows, columns=["text", "annotator", "label"]).to_csv(tmp_path / "labels.csv", index=False)
    return tmp_path / "labels.csv"


def test_a_table_gets_a_report_here(run: Run, table: Path, tmp_path: Path) -> None:
    code, err = run(table)
    assert code == 0 and "labels.report.html" in err, err
    page = (tmp_path / "labels.report.html").read_text()
    assert "Can I use these labels?" in page and "worker-0" in page
    code, err = run(table)
    assert code == 2 and "exists already" in err
    assert run(table, "--overwrite", "--pseudonymise", "--title", "Spring")[0] == 0
    page = (tmp_path / "labels.report.html").read_text()
    assert "worker-0" not in page and "Spring · annotator report" in page


def test_several_tables_are_one(run: Run, table: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(table)
    for name, part in (("one.csv", frame[: len(frame) // 2]), ("two.csv", frame[len(frame) // 2 :])):
        part.to_csv(tmp_path / name, index=False)
    code, err = run(tmp_path / "one.csv", tmp_path / "two.csv")
    assert code == 0, err
    assert "one.csv, two.csv" in (tmp_path / "one.report.html").read_text()


def test_a_table_is_read_by_the_flags_of_other_commands(run: Run, table: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(table).rename(columns={"text": "review", "annotator": "who", "label": "said"})
    frame.to_csv(tmp_path / "other.csv", index=False)
    code, err = run(tmp_path / "other.csv")
    assert code == 2 and "no column 'text'" in err and "`text`" in err and "Traceback" not in err
    assert run(tmp_path / "other.csv", "--text", "review", "--annotator", "who", "--label", "said")[0] == 0
    assert (tmp_path / "other.report.html").exists()
    code, err = run(table, "--use-gold")
    assert code == 2 and "`use_gold` needs gold labels" in err and "`gold`" in err


def test_what_does_not_go_together_is_refused(run: Run, folder: Path, table: Path, tmp_path: Path) -> None:
    for paths in ((table, folder), (folder, folder)):
        code, err = run(*paths)
        assert code == 2 and f"{folder}: each run gets a report of its own" in err and "`realm compare`" in err
    code, err = run(folder, "--text", "review")
    assert code == 2 and "--text: is for a table" in err
    code, err = run(folder, "--use-gold")
    assert code == 2 and "--use-gold: is for a table" in err
    code, err = run(table, "--output", table, "--overwrite")
    assert code == 2 and "the command reads this file" in err
    sparse = pd.read_csv(table).drop_duplicates("text")
    sparse.to_csv(tmp_path / "sparse.csv", index=False)
    code, err = run(tmp_path / "sparse.csv")
    assert code == 2 and "no item has two annotations" in err


def test_torch_is_not_loaded(folder: Path) -> None:
    code = (
        "import sys; sys.argv = ['realm', 'report', *sys.argv[1:]]\n"
        "from realm.cli.entry import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code and 'torch' not in sys.modules, (end.code, 'torch')\n"
    )
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True, capture_output=True)
