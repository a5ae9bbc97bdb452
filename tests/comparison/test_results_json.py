"""`results.json` of a comparison and the cells of `results.sqlite`: what was written, or refused by name."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from realm.comparison.results import Results
from realm.comparison.results_json import RESULTS, read_results
from realm.errors import RealmError
from tests.comparison.test_results import cell, result
from tests.report.test_comparison_page import METHODS, ranked, write

Summary = dict[str, Any]


def written(folder: Path, summary: Summary) -> Path:
    (folder / RESULTS).write_text(json.dumps(summary))
    return folder


@cache
def ranked_once() -> str:
    """The summary as text: its intervals take a tenth of a second, and every test changes its own."""
    return json.dumps(ranked())


def test_what_was_written_is_read(tmp_path) -> None:
    summary = ranked()
    assert read_results(written(tmp_path, summary)) == json.loads(json.dumps(summary))
    assert len(read_results(write(tmp_path / "earlier"))["methods"]) == len(METHODS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("methods"), "lacks `methods`"),
        (lambda s: s.update(methods=[]), "`methods` is empty"),
        (lambda s: s.update(trainings=[]), "`trainings` are not those of `methods`"),
        (lambda s: s.update(seeds=0), "`seeds` is 0"),
        (lambda s: s["methods"].append(s["methods"][0]), "names a method twice"),
        (lambda s: s["methods"][1].update(mean="0.9"), r"`methods\.1\.mean` is '0.9', not a number"),
        (lambda s: s["methods"][0]["figures"].pop("accuracy"), "realm lacks its labels, or the figures"),
        (lambda s: s["methods"][0].pop("labels"), "realm lacks its labels"),
        (lambda s: s["methods"][2]["labels"].clear(), "labels of different tasks"),
        (lambda s: s["methods"][0]["labels"][0]["confusion"].pop(), "`confusion` of realm has not a row"),
        (lambda s: s["methods"][1].update(interval_items=[0.1]), "no interval of a difference"),
        (lambda s: s["trainings"][0].update(accuracy=1.5), r"`trainings\.0\.accuracy` is 1.5"),
        (lambda s: s["trainings"][0].update(log_loss=1e300), r"`trainings\.0\.log_loss`"),
        (lambda s: s["ranking"].update(by="beauty"), r"`ranking\.by` is 'beauty'"),
        (lambda s: s["ranking"]["order"].pop(), "not an order of the methods"),
        (lambda s: s["ranking"].update(leader="majority"), "names a leader, a reference or a best method"),
        (lambda s: s["ranking"]["contrasts"][0].update(first="majority"), "not between two of the methods"),
        (lambda s: s["ranking"]["contrasts"][0].update(low=0.5, high=0.1), "ends below its beginning"),
        (lambda s: s["ranking"]["contrasts"][0].update(outcome="better"), r"`ranking\.contrasts\.0\.outcome`"),
        (lambda s: [each["figures"].pop("macro_f1") for each in s["methods"]], "lacks"),
    ],
)
def test_what_cannot_be_is_refused_by_name(change: Callable[[Summary], Any], message: str, tmp_path) -> None:
    summary = json.loads(ranked_once())
    change(summary)
    with pytest.raises(RealmError, match=message) as error:
        read_results(written(tmp_path, summary))
    assert str(tmp_path / RESULTS) in str(error.value)


def test_a_key_that_stands_twice_is_refused(tmp_path) -> None:
    text = ranked_once().replace('"seeds": 3', '"seeds": 3, "seeds": 5', 1)
    (tmp_path / RESULTS).write_text(text)
    with pytest.raises(
        RealmError, match=r"results\.json: .*the key 'seeds' stands 2 times in one object, with 3 and 5"
    ):
        read_results(tmp_path)


# -------------------------------------------------------------------- the cells of results.sqlite


@pytest.mark.parametrize(
    ("column", "value", "read", "message"),
    [
        ("metrics", "{", "metrics", "not readable as JSON in metrics of cell"),
        ("metrics", "[]", "metrics", "`metrics of cell .*` is a list, not an object"),
        ("metrics", '{"accuracy": 2}', "metrics", "is 2, which lies outside"),
        ("metrics", '{"accuracy": 0.5, "accuracy": 0.9}', "metrics", "the key 'accuracy' stands 2 times"),
        ("metrics", "{}", "metrics", "lacks `accuracy`"),
        ("config", '{"warnings": "none"}', "config", "is 'none', not a list"),
        ("labels", b"\x01\x02", "predictions", "`labels` of cell .* holds no numbers"),
        ("labels", "text", "predictions", "holds no numbers"),
        ("labels", b"\x00\x00\x00\x00", "predictions", "are not an answer for every true label"),
        ("gold_log_probs", b"\x00\x00\xc0\x7f", "gold_log_probs", "is no log-probability"),
    ],
)
def test_a_damaged_cell_is_refused_by_its_column(column, value, read, message, tmp_path) -> None:
    results = Results.open(tmp_path / "results.sqlite", create=True)
    results.add(result(cell(0)))
    getattr(results, read)(cell(0).id)  # as it was written
    results.close()
    with closing(sqlite3.connect(tmp_path / "results.sqlite")) as connection, connection:
        connection.execute(f"UPDATE cells SET {column} = ?", [value])
    with pytest.raises(RealmError, match=message) as error:
        getattr(Results.open(tmp_path / "results.sqlite"), read)(cell(0).id)
    assert str(tmp_path / "results.sqlite") in str(error.value) and cell(0).id in str(error.value)


@pytest.mark.parametrize(
    ("column", "value", "read"),
    [
        ("curve", "[[1, 2, 3]]", "curves"),
        ("trajectory", '{"annotators": ["a"], "tasks": ["t"], "points": [[1, [[0.5, 0.5]]]]}', "trajectories"),
        ("expertise", '[{"annotator": 3}]', "expertise"),
    ],
)
def test_lists_of_a_cell_have_their_lengths(column, value, read, tmp_path) -> None:
    results = Results.open(tmp_path / "results.sqlite", create=True)
    results.add(result(cell(0)))
    getattr(results, read)([cell(0).id])
    with closing(sqlite3.connect(tmp_path / "results.sqlite")) as connection, connection:
        connection.execute(f"UPDATE cells SET {column} = ?", [value])
    with pytest.raises(RealmError, match=f"{column} of cell|`{column}` of cell"):
        getattr(results, read)([cell(0).id])


def test_a_file_whose_pages_are_damaged_is_refused(tmp_path) -> None:
    path = tmp_path / "results.sqlite"
    results = Results.open(path, create=True)
    for number in range(40):
        results.add(result(cell(number)))
    results.close()
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    with pytest.raises(RealmError, match=r"damaged|cannot be used"):
        Results.open(path).frame([cell(number) for number in range(40)])


def test_a_reader_undoes_what_a_killed_writer_left(tmp_path) -> None:
    """Only a writer may roll back, and whoever asks for a table is none."""
    path = tmp_path / "results.sqlite"
    results = Results.open(path, create=True)
    for number in range(40):
        results.add(result(cell(number)))
    results.close()
    if (process := os.fork()) == 0:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA cache_size = 5")  # pages go to the file before the transaction ends
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE cells SET metrics = '{}' || hex(randomblob(2000))")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(process, 0)
    assert path.with_name("results.sqlite-journal").exists()
    reader = Results.open(path)
    assert len(reader.frame([cell(number) for number in range(40)])) == 40
    assert not path.with_name("results.sqlite-journal").exists()
