"""`realm report`, as a person types it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.report.folders import crowd, write_run
from tests.report.test_comparison_page import write as write_comparison


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table, log_probs = crowd(n_items=40)
    return write_run(tmp_path_factory.mktemp("runs") / "run", table, log_probs, trained=np.full((5, 1), 0.5))


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    annotations, _ = crowd(n_items=60)
    rows = [
        (f"t{item}", annotations.annotators[who], "abc"[label])
        for item, who, label in zip(annotations.item, annotations.annotator, annotations.label, strict=True)
    ]
    pd.DataFrame(rows, columns=["text", "annotator", "label"]).to_csv(tmp_path / "labels.csv", index=False)
    return tmp_path / "labels.csv"


def test_a_run_gets_its_report_beside_it_or_elsewhere(realm_cli, folder: Path, tmp_path: Path) -> None:
    code, _, err = realm_cli("report", folder)
    assert code == 0 and "open it in a browser" in err and "worker-0" in (folder / "report.html").read_text()
    assert realm_cli("report", folder, "--output", tmp_path / "new" / "page.html", "--pseudonymise")[0] == 0
    page = (tmp_path / "new" / "page.html").read_text()
    assert "worker-0" not in page and "Annotator 1" in page


def test_a_comparison_gets_its_own_page(realm_cli, folder: Path, tmp_path: Path) -> None:
    compared = write_comparison(tmp_path / "compared")
    assert realm_cli("report", compared)[0] == 0
    assert "Methods compared" in (compared / "report.html").read_text()
    code, _, err = realm_cli("report", compared, folder)
    assert code == 2 and "give it alone" in err


def test_a_table_gets_a_report_here(realm_cli, table: Path, tmp_path: Path) -> None:
    code, _, err = realm_cli("report", table)
    assert code == 0 and "labels.report.html" in err, err
    page = (tmp_path / "labels.report.html").read_text()
    assert "Can I use these labels?" in page and "worker-0" in page
    code, _, err = realm_cli("report", table)
    assert code == 2 and "exists already" in err
    assert realm_cli("report", table, "--overwrite", "--pseudonymise")[0] == 0
    assert "worker-0" not in (tmp_path / "labels.report.html").read_text()


def test_several_tables_are_one(realm_cli, table: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(table)
    frame[: len(frame) // 2].to_csv(tmp_path / "one.csv", index=False)
    frame[len(frame) // 2 :].to_csv(tmp_path / "two.csv", index=False)
    code, _, err = realm_cli("report", tmp_path / "one.csv", tmp_path / "two.csv")
    assert code == 0 and "one.csv, two.csv" in (tmp_path / "one.report.html").read_text(), err


def test_what_does_not_go_together_is_refused(realm_cli, folder: Path, table: Path, tmp_path: Path) -> None:
    pd.read_csv(table).drop_duplicates("text").to_csv(tmp_path / "sparse.csv", index=False)
    for words, message in (
        ((tmp_path / "nowhere",), "no such run folder"),
        ((tmp_path,), "is not a run folder"),
        ((folder, "--output", tmp_path), "is a folder; name a file"),
        ((table, folder), f"{folder}: each run gets a report of its own"),
        ((folder, "--text", "review"), "is not a file"),
        ((folder, "--use-gold"), "is not a file"),
        ((table, "--use-gold"), "`use_gold` needs gold labels"),
        ((table, "--output", table, "--overwrite"), "the command reads this file"),
        ((tmp_path / "sparse.csv",), "no item has two annotations"),
    ):
        code, _, err = realm_cli("report", *words)
        assert code == 2 and message in err and "Traceback" not in err, err


@pytest.mark.parametrize("command", ["report", "aggregate", "check"])
def test_torch_is_not_loaded(command: str, folder: Path, table: Path) -> None:
    code = (
        "import sys; sys.argv = ['realm', *sys.argv[1:]]\n"
        "from realm.cli.entry import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code and 'torch' not in sys.modules, (end.code, 'torch')\n"
    )
    read = folder if command == "report" else table
    subprocess.run([sys.executable, "-c", code, command, str(read)], check=True, capture_output=True)
