"""Pages without names: of the table's annotators, of those who were left out, of those who have left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from realm.data import Annotations
from realm.report.pseudonyms import pseudonymised
from realm.report.run_data import read_run, read_table
from realm.report.run_page import render, write_table_report
from tests.report.folders import crowd, data_of, write_run
from tests.report.reader import Page

NAMES = ["Ada Lovelace", "grace", "Karen <Jones>", "emmy", "7"]


def test_pseudonyms_leave_no_name_anywhere(tmp_path: Path) -> None:
    table, log_probs = crowd(names=NAMES)
    run = write_run(
        tmp_path / "run-of-grace", table, log_probs, trained=np.full((5, 1), 0.5), trajectory=np.full((3, 5, 1), 0.5),
        settings={"experts": ["Ada Lovelace"], "scorer": "emmy's own", "seed": 7},
        metrics={"warnings": ["Karen <Jones> labelled item i3 twice.", "2 rows were left out."]},
    )  # fmt: skip
    data = read_run(run)
    open_page, page = Page(render(data)), Page(render(data, pseudonymise=True))
    for name in ("Ada Lovelace", "grace", "Karen", "emmy"):
        assert name in open_page.source
        assert name not in page.source
    assert [row["annotator"] for row in page.annotators] == [f"Annotator {place}" for place in range(1, 6)]
    assert "2 rows were left out." in page.text and "labelled item i3" not in page.text
    assert "seed 7" in page.text


def test_numbers_follow_the_ranking() -> None:
    data = data_of(*crowd(n_items=300))
    hidden = pseudonymised(data)
    ranked = [hidden.annotations.annotators[pair] for pair in hidden.ranked]
    assert ranked == [f"Annotator {place}" for place in range(1, 6)]
    taken, _ = crowd(names=["Annotator 1", "b", "c", "d", "e"])
    assert "Person 1" in pseudonymised(data_of(taken)).annotations.annotators, "a name is no pseudonym"


def labels_csv(path: Path, names: list[str]) -> Path:
    table, _ = crowd(n_items=300, names=names, accuracies=(0.9, 0.9, 0.9, 0.9, 1 / 3, 1 / 3), per_item=4)
    texts = [table.texts[int(item)].as_py() for item in table.item]
    who = [table.annotators[annotator] for annotator in table.annotator]
    labels = [("no", "yes", "maybe")[label] for label in table.label]
    pd.DataFrame({"text": texts, "annotator": who, "label": labels}).to_csv(path, index=False)
    return path


def test_nobody_who_was_excluded_is_named(tmp_path: Path) -> None:
    """Neither by the ledger, nor by a warning of a file of names in which one is not in the table."""
    names = ["ada", "grace", "karen", "emmy", "bob@x.org", "eve@x.org"]
    file = labels_csv(tmp_path / "labels-of-grace.csv", names)
    (tmp_path / "people.txt").write_text("eve@x.org\nnobody@x.org\n")
    table = Annotations.read(file, exclude=["bob@x.org", str(tmp_path / "people.txt")], keep_rows=True)
    counts = {name: table.ledger.counts[f"annotator excluded: {name}"] for name in ("bob@x.org", "eve@x.org")}
    shown = Page(write_table_report(table, file, output=tmp_path / "a.html").read_text())
    hidden = Page(write_table_report(table, file, output=tmp_path / "b.html", pseudonymise=True).read_text())
    gone = [*names, "nobody@x.org"]
    for name in gone:
        assert name in shown.source and name not in hidden.source
    assert f"annotator excluded {sum(counts.values())}" in hidden.text, "the counts of both are added up"
    assert "Annotator 4" in hidden.text and "agrees little" not in shown.text


def test_a_run_hides_whom_it_was_told_to_exclude() -> None:
    table, log_probs = crowd()
    data = data_of(table, log_probs, metrics={"warnings": ["zoe and worker-1 differ."]}, config={"exclude": ["zoe"]})
    assert "zoe" in render(data) and "zoe" not in render(data, pseudonymise=True)


def test_whom_somebody_copies_is_hidden() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=300)
    label = np.where(rng.random((300, 6)) < 0.75, truth[:, None], 1 - truth[:, None])[:, [0, 0, 1, 2, 3, 4, 5]]
    names = ["zoe", "yan", "xia", "wim", "vic", "una", "tom"]
    rows = [(f"text {i}", names[a], ["no", "yes"][label[i, a]]) for i in range(300) for a in range(7)]
    table = Annotations.from_pandas(pd.DataFrame(rows, columns=["text", "annotator", "label"]))
    data = data_of(table, np.log(np.full((300, 2), 0.5)))
    assert "gives the same labels as “yan”" in render(data)
    hidden = render(data, pseudonymise=True)
    assert "gives the same labels as “Annotator" in hidden and "yan" not in Page(hidden).text


def test_names_that_the_texts_hold_are_reported() -> None:
    table, log_probs = crowd(names=["alice", "bob", "carol", "dave", "eve"], texts=["thanks to alice"] * 80)
    page = Page(render(data_of(table, log_probs), pseudonymise=True))
    assert "1 annotator name also occurs in the items' own texts" in page.text


@pytest.mark.parametrize("name", ["-", ".*", "no"])
def test_names_that_are_patterns_hide_nothing_else(name: str) -> None:
    table, _ = crowd(names=[name, "b", "c", "d", "e"])
    data = replace(read_table(table, Path("t.csv")), metrics={"warnings": ["3 rows were left out."]})
    assert "3 rows were left out." in render(data, pseudonymise=True)
