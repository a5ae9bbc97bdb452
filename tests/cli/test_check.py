"""`realm check`, as a person types it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from realm.cli.main import main

EXPORTS = Path(__file__).parents[1] / "fixtures" / "exports"
Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Type `realm check ...`: the exit code, what it printed, and what it said on stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["realm", "check", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


@pytest.mark.shared
def test_sentpolarity(typed: Typed, shared_data: Path) -> None:
    folder = shared_data / "sentpolarity"
    code, out, err = typed(folder / "annotations.csv", "--test", folder / "test.csv", "--json")
    told = json.loads(out)
    assert (code, err) == (0, "")
    assert (told["items"], told["annotators"], told["annotations"]) == (4999, 203, 27746)
    assert told["label_balance"] == {"default": {"negative": 12918, "positive": 14828}}
    assert told["krippendorff_alpha"]["default"] == pytest.approx(0.4276, abs=1e-4)
    together = told["independent_annotators"]
    assert 1 <= together["worth"] <= together["annotations_per_item"]
    assert " annotators per item are worth about " in together["text"]
    assert told["dropped"] == {}
    assert {method["name"]: method["applies"] for method in told["methods"]}["dawid-skene"] == "yes"
    assert "text leak" not in {finding["code"] for finding in told["findings"]}


@pytest.mark.shared
def test_cebab(typed: Typed, shared_data: Path) -> None:
    code, out, _ = typed(shared_data / "cebab_aspects" / "annotations.csv")
    lines = out.splitlines()
    assert code == 0
    assert {"items: 10,053", "annotators: 175", "annotations: 50,305", "tasks: 4", "items with gold: 2,883"} <= set(
        lines
    )


def test_an_error_in_json_names_flags(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("text,annotator,label\na,x,p\nb,x,\nc,y,q\n")
    code, out, _ = typed(tmp_path / "t.csv", "--json")
    assert code == 2 and "--missing drop" in json.loads(out)["error"]


def test_a_pipe_gets_one_fact_per_line_and_no_colour(typed: Typed) -> None:
    code, out, _ = typed(EXPORTS / "label_studio.json", "--multi", "drop")
    assert code == 0
    assert "cancelled annotation (was_cancelled or skipped): 1 (rows 1)" in out.splitlines()
    assert "\x1b" not in out
    assert "─" not in out
    assert "note: 1 annotator is named by e-mail address." in out


def test_a_terminal_gets_tables(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    _, out, _ = typed(EXPORTS / "label_studio.json", "--multi", "drop")
    assert "Dropped or changed on reading" in out
    assert "Methods" in out


def test_an_unusable_table_ends_with_2(typed: Typed, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("text,annotator,label\na,w,x\nb,w,\n")
    code, out, err = typed(path)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {path}, row 2: no label")
    assert "Traceback" not in err
    code, out, _ = typed(path, "--json")
    assert code == 2
    assert json.loads(out)["usable"] is False
    assert "row 2: no label" in json.loads(out)["error"]


def test_text_from_the_data_cannot_write_to_the_terminal(typed: Typed, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("text,annotator,label\n" + "".join(f"t{k},w{k % 2},\x1b[2Jx{k % 2}\n" for k in range(40)))
    _, out, _ = typed(path)
    assert "\x1b" not in out
    assert "\\x1b[2Jx0" in out


def test_columns_are_named_by_flags_or_a_config_file(typed: Typed, tmp_path: Path) -> None:
    path, config = tmp_path / "t.csv", tmp_path / "c.yaml"
    path.write_text("review,worker,answer\na,w,x\na,v,y\nb,w,y\n")
    flags = ["--text", "review", "--annotator", "worker", "--label", "answer"]
    assert typed(path, *flags)[0] == 0
    config.write_text("text: review\nannotator: worker\nlabel: answer\n")
    assert typed(path, "--config", config)[0] == 0
    code, _, err = typed(path)
    assert code == 2
    assert "there is no column 'text'. The columns are: review, worker, answer" in err
    assert err.rstrip().endswith("with --text, and likewise --label.")  # all at once
    assert typed(path, *flags[:4])[2].rstrip().endswith("with --label.")


def test_the_format_that_was_recognised_is_said(typed: Typed, tmp_path: Path) -> None:
    _, out, _ = typed(EXPORTS / "label_studio.json", "--multi", "drop")
    assert out.splitlines()[0] == "format: label-studio"
    (tmp_path / "t.csv").write_text("text,annotator,label\na,w,x\nb,w,y\n")
    assert json.loads(typed(tmp_path / "t.csv", "--json")[1])["format"] == "table"


def test_an_error_about_a_file_whose_name_is_not_utf8_is_still_json(typed: Typed, tmp_path: Path) -> None:
    code, out, _ = typed(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.csv"), "--json")
    assert code == 2
    assert "there is no such file" in json.loads(out)["error"]
    out.encode("utf-8")
