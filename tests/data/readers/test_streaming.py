"""A table read in parts is the table read whole, row by row, in the memory of one part."""

from __future__ import annotations

import gzip
import json
import tracemalloc

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realm.data import Task
from realm.data.readers.streaming import RowChunk, stream_rows
from realm.errors import RealmError

TASKS = (Task("tone", ("bad", "good")), Task("quiz", None))


def frame(rows: int) -> pd.DataFrame:
    """Items of two tasks, one after the other; some come twice, texts hold quotes, commas and line ends."""
    texts = [f'text {i % (rows // 4)}, "so"\nhe said' if i % 3 else f"plain {i}" for i in range(rows)]
    tasks = ["tone" if i < rows // 2 else "quiz" for i in range(rows)]
    options = [None if task == "tone" else json.dumps(["yes", "no"]) for task in tasks]
    return pd.DataFrame({"text": texts, "task": tasks, "options": options})


def write(table: pd.DataFrame, path) -> None:
    name = path.name
    if name.endswith(".parquet"):
        table.to_parquet(path)
    elif name.endswith(".jsonl"):
        records = [{k: v for k, v in row.items() if v is not None and v == v} for row in table.to_dict("records")]
        path.write_text("\n".join(json.dumps(record) for record in records), encoding="utf-8")
    else:
        text = table.to_csv(index=False, sep="\t" if ".tsv" in name else ",")
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else b"\xef\xbb\xbf" + text.encode())


def items(chunks) -> list:
    """The task, the item and the own columns of every row."""
    return [
        (chunk.items.tasks[task].name, *item, row)
        for chunk in chunks
        for task, item, row in zip(chunk.items.item_tasks, chunk.items, chunk.table.to_pylist(), strict=True)
    ]


def read_whole(path, **columns) -> RowChunk:
    (chunk,) = stream_rows(path, chunk_rows=1_000_000, **columns)
    return chunk


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz", "a.jsonl", "a.parquet"])
@pytest.mark.parametrize("chunk_rows", [1, 7, 1000])
def test_parts_hold_what_the_whole_table_holds(name, chunk_rows, tmp_path) -> None:
    write(frame(40), tmp_path / name)
    whole = read_whole(tmp_path / name, tasks=TASKS)
    parts = list(stream_rows(tmp_path / name, tasks=TASKS, chunk_rows=chunk_rows))
    assert items(parts) == items([whole])
    assert max(len(part) for part in parts) <= chunk_rows
    rows = [row for *_, row in items(parts)]
    assert len(rows) == 40 and pd.DataFrame(rows)[["text", "task"]].equals(frame(40)[["text", "task"]])


CELLS = st.text(st.sampled_from('ab ,;"\n\r\t'), min_size=1, max_size=6).filter(lambda cell: cell.strip())


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(CELLS, min_size=1, max_size=12), chunk_rows=st.integers(1, 5), quoting=st.sampled_from([0, 1]))
def test_any_cells_survive_the_cutting(texts, chunk_rows, quoting, tmp_path_factory) -> None:
    path = tmp_path_factory.mktemp("cells") / "a.csv"
    table = pd.DataFrame({"text": [f"{text}{i}" for i, text in enumerate(texts)], "note": texts})
    path.write_bytes(table.to_csv(index=False, quoting=quoting).encode())
    tasks = TASKS[:1]
    try:
        expected = items([read_whole(path, tasks=tasks)])
    except RealmError as error:
        with pytest.raises(RealmError) as ours:
            list(stream_rows(path, tasks=tasks, chunk_rows=chunk_rows))
        assert str(ours.value) == str(error)
    else:
        assert items(stream_rows(path, tasks=tasks, chunk_rows=chunk_rows)) == expected


@pytest.mark.parametrize(
    "rows",
    [
        ["i1,a", "i2,b", "i3,", "i4,d"],  # no text
        ["i1,a", "i2,b", "i3,c,d"],  # ragged
        ["i1,a", "i2,b", 'i3,"c'],  # a quote that is not closed
        ["i1,a", "i2,b", "i3,\xff"],
    ],
)
def test_what_is_wrong_is_said_as_the_whole_reading_says_it(rows, tmp_path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("\n".join(["item,text", *rows, ""]).encode("latin-1"))
    with pytest.raises(RealmError) as whole:
        read_whole(path, tasks=TASKS[:1])
    with pytest.raises(RealmError) as parts:
        list(stream_rows(path, tasks=TASKS[:1], chunk_rows=1))
    assert str(parts.value) == str(whole.value)


def test_quotes_within_bare_cells_and_exports_are_read_whole(tmp_path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('text\na 5" pipe\nanother 6" one\nlast\n', encoding="utf-8")
    assert [item[2] for item in items(stream_rows(path, tasks=TASKS[:1], chunk_rows=1))] == [
        'a 5" pipe',
        'another 6" one',
        "last",
    ]
    export = tmp_path / "b.json"
    export.write_text(json.dumps([{"text": "one"}, {"text": "two"}]), encoding="utf-8")
    assert len(items(stream_rows(export, tasks=TASKS[:1], chunk_rows=1))) == 2


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_memory_is_that_of_a_part(name, tmp_path) -> None:
    """30,000 rows of 5 kB, 150 MB in all, are read in parts of 100 within a fraction of that."""
    table = pd.DataFrame({"text": [f"{i} " + "word " * 1000 for i in range(30_000)]})
    if name.endswith(".parquet"):
        table.to_parquet(tmp_path / name, row_group_size=400)
    else:
        write(table, tmp_path / name)
    del table
    before, most, seen = pa.total_allocated_bytes(), 0, 0
    tracemalloc.start()
    try:
        for part in stream_rows(tmp_path / name, tasks=TASKS[:1], chunk_rows=100):
            seen += len(part)
            most = max(most, pa.total_allocated_bytes() - before)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert seen == 30_000
    assert most < 60e6 and peak < 12e6, (most, peak)
