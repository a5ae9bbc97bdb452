"""`realm import`, as a person types it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from realm.cli.entry import main
from realm.data import Annotations
from realm.data.write import to_arrow

EXPORTS = Path(__file__).parents[1] / "fixtures" / "exports"
Typed = Callable[..., tuple[int, str]]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Type `realm import ...`: the exit code and what it said."""

    def run(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["realm", "import", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), capsys.readouterr().err

    return run


@pytest.mark.parametrize("name", ["labels.csv", "labels.parquet"])
def test_the_canonical_table_is_the_export(typed: Typed, tmp_path: Path, name: str) -> None:
    code, said = typed(EXPORTS / "label_studio.json", "--output", tmp_path / name, "--multi", "drop")
    assert code == 0
    assert "1 x cancelled annotation" in said
    assert "--pseudonymise" in said
    assert "6 annotations of 4 items" in " ".join(said.split())
    export = Annotations.read(EXPORTS / "label_studio.json", multi="drop")
    assert to_arrow(Annotations.read(tmp_path / name)).equals(to_arrow(export))


def test_only_the_mapped_columns_are_written(typed: Typed, tmp_path: Path) -> None:
    typed(EXPORTS / "argilla_flat.jsonl", "--text", "review", "--output", tmp_path / "t.csv")
    assert list(pd.read_csv(tmp_path / "t.csv")) == ["item", "task", "text", "annotator", "label"]


def test_names_become_keyed_hashes(typed: Typed, tmp_path: Path) -> None:
    key, source = tmp_path / "key", EXPORTS / "label_studio.json"
    hashed = ["--multi", "drop", "--pseudonymise", "--key-file", key, "--output"]
    assert typed(source, *hashed, tmp_path / "a.csv")[0] == 0
    assert typed(source, *hashed, tmp_path / "b.csv")[0] == 0
    written = (tmp_path / "a.csv").read_bytes()
    assert b"example.org" not in written
    assert written == (tmp_path / "b.csv").read_bytes()
    typed(source, "--multi", "drop", "--pseudonymise", "--output", tmp_path / "c.csv")
    assert written != (tmp_path / "c.csv").read_bytes()
    people = pd.read_csv(tmp_path / "a.csv")["annotator"]
    assert people.str.fullmatch("a[0-9a-f]{12}").all()
    assert people.nunique() == 3


def test_nothing_is_written_over_or_after_a_mistake(typed: Typed, tmp_path: Path) -> None:
    output = tmp_path / "t.csv"
    output.write_text("mine")
    code, said = typed(EXPORTS / "label_studio.json", "--output", output, "--multi", "drop")
    assert code == 2
    assert "--overwrite" in said
    assert output.read_text() == "mine"
    assert typed(EXPORTS / "label_studio.json", "--output", output, "--multi", "drop", "--overwrite")[0] == 0
    for bad in (["--output", tmp_path / "new.csv"], ["--output", tmp_path / "new.xlsx", "--multi", "drop"]):
        code, said = typed(EXPORTS / "label_studio.json", *bad)
        assert code == 2
        assert said.startswith("error: ")
    code, said = typed(EXPORTS / "label_studio.json", "--output", tmp_path / "k.csv", "--key-file", tmp_path / "key")
    assert code == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv"]


def test_an_order_of_labels_that_the_table_cannot_tell_is_said(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("text,annotator,label\na,w,lo\nb,w,hi\n")
    _, said = typed(tmp_path / "t.csv", "--labels", "lo,hi", "--output", tmp_path / "out.csv")
    assert "give --labels lo,hi:" in " ".join(said.split())


def test_labels_with_a_comma_are_said_in_quotes_and_read_back(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('text,annotator,label\na,w,"yes, sir"\nb,w,no\n')
    labels = '"yes, sir",no'
    code, said = typed(tmp_path / "t.csv", "--labels", labels, "--output", tmp_path / "out.csv")
    assert (code, f"give --labels '{labels}':" in " ".join(said.split())) == (0, True)
    assert typed(tmp_path / "out.csv", "--labels", labels, "--output", tmp_path / "again.csv")[0] == 0
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "out.csv").read_bytes()


def test_a_blank_label_is_refused(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("text,annotator,label\na,w,neg\nb,w,pos\n")
    code, said = typed(tmp_path / "t.csv", "--labels", "neg,pos,", "--output", tmp_path / "out.csv")
    assert code == 2
    assert "a label is blank" in " ".join(said.split())
