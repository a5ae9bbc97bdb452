"""Tables written in odd ways, by the hundred: read right or refused; never a wrong result or a traceback.

A try begins with a table that is known. It is written in an odd way: one that loses nothing, so that exactly that table
must be read, or one that loses something, so that it must be refused. The same seed gives the same tries.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from realm.data import Annotations
from realm.errors import RealmError

Row = dict[str, Any]
TEXTS = (
    "plain", "comma, inside", 'a "quoted" word', "two\nlines", "tab\tinside", "=1+1", "'; DROP TABLE x; --",
    "🙂 emoji",
    "עברית", "\u202eright to left", "naïve café", "nul\x00byte", "trailing ", "#", "[]", "{}", "1.0", "null",
    "None", "<b>bold</b>", "a;b", "\\ud800", "ﬁ ligature", "e\u0301", "x" * 5000, "carriage\rreturn", "{0} %s",
)  # fmt: skip
LABEL_SETS = (
    ("x", "y"), ("C#", "C", "Java"), ("yes", "no", "may be"), ("0", "1"), ("10", "9", "2"), ("a,b", "a"), ("=x", "+y"),
    ("真", "假"), ("True", "False"), ("#", "a"), ("a;b", "c|d"),
)  # fmt: skip
PEOPLE = ("ada", "bob", "cyd@example.org", "7", "Ünal", "=cmd()", "a b", "O'Neil", "x#y", "[dan]", "-", "..")


def known_table(seed: int) -> list[Row]:
    """Rows of a table: every item by two annotators or more, every label given by somebody, gold for all."""
    generator = random.Random(seed)
    labels, people = generator.choice(LABEL_SETS), generator.sample(PEOPLE, generator.randint(2, 6))
    rows: list[Row] = []
    for number, text in enumerate(generator.sample(TEXTS, generator.randint(4, 9))):
        truth = labels[number % len(labels)]
        for place, who in enumerate(generator.sample(people, generator.randint(2, len(people)))):
            label = truth if place == 0 or generator.random() < 0.7 else generator.choice(labels)
            rows.append({"text": text, "annotator": who, "label": label, "gold": truth})
    return rows


# ---------------------------------------------------------------- ways of writing that lose nothing


def as_csv(rows: list[Row], delimiter: str = ",", end: str = "\r\n", quoting: int = csv.QUOTE_MINIMAL) -> bytes:
    if any("\r" in str(value) for row in rows for value in row.values()):
        quoting = csv.QUOTE_ALL  # csv does not quote a lone carriage return
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=delimiter, lineterminator=end, quoting=quoting)
    writer.writerows([list(rows[0]), *(list(row.values()) for row in rows)])
    return file.getvalue().encode()


def as_lines(rows: list[Row], ascii: bool = False) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=ascii) + "\n" for row in rows).encode()


def as_parquet(rows: list[Row], dictionary: bool = False) -> bytes:
    table, file = pa.Table.from_pylist(rows), io.BytesIO()
    if dictionary:
        columns = [column.dictionary_encode() for column in table.columns]
        table = pa.table(dict(zip(table.column_names, columns, strict=True)))
    pq.write_table(table, file)
    return file.getvalue()


LOSSLESS: dict[str, Callable[[list[Row]], bytes]] = {
    "t.csv": as_csv,
    "newlines.csv": lambda rows: as_csv(rows, end="\n"),
    "semicolons.csv": lambda rows: as_csv(rows, ";"),
    "tabs.tsv": lambda rows: as_csv(rows, "\t"),
    "tabs.csv": lambda rows: as_csv(rows, "\t"),
    "all quoted.csv": lambda rows: as_csv(rows, quoting=csv.QUOTE_ALL),
    "mark.csv": lambda rows: b"\xef\xbb\xbf" + as_csv(rows),
    "utf-16.csv": lambda rows: as_csv(rows).decode().encode("utf-16"),
    "utf-32.csv": lambda rows: as_csv(rows).decode().encode("utf-32"),
    "utf-16.json": lambda rows: json.dumps(rows, ensure_ascii=False).encode("utf-16"),
    "no last line end.csv": lambda rows: as_csv(rows).rstrip(b"\r\n"),
    "blank lines.csv": lambda rows: as_csv(rows) + b"\r\n\r\n",
    "CAPITAL.CSV": as_csv,
    "no ending": as_csv,
    "t.csv.gz": lambda rows: gzip.compress(as_csv(rows)),
    "gzip by another name.csv": lambda rows: gzip.compress(as_csv(rows)),
    "two members.csv.gz": lambda rows: gzip.compress(as_csv(rows)[:99]) + gzip.compress(as_csv(rows)[99:]),
    "t.json": lambda rows: json.dumps(rows).encode(),
    "t.jsonl": as_lines,
    "escaped.ndjson": lambda rows: as_lines(rows, ascii=True),
    "blanks.jsonl": lambda rows: as_lines(rows).replace(b"\n", b"\r\n \n"),
    "mark.jsonl": lambda rows: b"\xef\xbb\xbf" + as_lines(rows),
    "any order.jsonl": lambda rows: as_lines([dict(reversed(row.items())) for row in rows[:2]] + rows[2:]),
    "t.jsonl.gz": lambda rows: gzip.compress(as_lines(rows)),
    "t.parquet": as_parquet,
    "dictionaries.parquet": lambda rows: as_parquet(rows, dictionary=True),
}


def read(path: Path) -> tuple[Counter[tuple[str, str, str]], dict[str, str]]:
    """(text, annotator, label) of each annotation, and the gold of each text."""
    frame = Annotations.read(path, exact_labels=True).to_pandas()
    triples = Counter(zip(frame["text"], frame["annotator"], frame["label"], strict=True))
    return triples, dict(zip(frame["text"], frame["gold"], strict=True)) if "gold" in frame else {}


def expected(rows: list[Row]) -> tuple[Counter[tuple[str, str, str]], dict[str, str]]:
    return Counter((r["text"], r["annotator"], r["label"]) for r in rows), {r["text"]: r["gold"] for r in rows}


@pytest.mark.parametrize("name", LOSSLESS)
def test_what_loses_nothing_is_read_as_it_is(name: str, tmp_path: Path) -> None:
    for seed in range(12):
        rows = known_table(seed)
        (tmp_path / name).write_bytes(LOSSLESS[name](rows))
        assert read(tmp_path / name) == expected(rows), seed


def test_a_table_in_several_files_and_forms(tmp_path: Path) -> None:
    for seed in range(12):
        rows = known_table(seed)
        (tmp_path / "a.csv").write_bytes(as_csv(rows[:4]))
        (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(as_lines(rows[4:6])))
        (tmp_path / "c.parquet").write_bytes(as_parquet(rows[6:]))
        (tmp_path / ".hidden.csv").write_bytes(b"junk")
        assert read(tmp_path) == expected(rows), seed


@pytest.mark.parametrize("ending", [".jsonl", ".JSONL", ".ndjson", ".json", ".jsonl.gz"])
def test_doccano_has_a_file_for_each_annotator(ending: str, tmp_path: Path) -> None:
    for seed in range(12):
        rows, folder = known_table(seed), tmp_path / str(seed)
        folder.mkdir()
        ids = {text: number for number, text in enumerate(dict.fromkeys(row["text"] for row in rows), 1)}
        people = [who for who in dict.fromkeys(row["annotator"] for row in rows) if who not in ("-", "..")]
        rows = [row for row in rows if row["annotator"] in people]
        for who in people:
            own = [
                {"id": ids[r["text"]], "text": r["text"], "label": [r["label"]]} for r in rows if r["annotator"] == who
            ]
            content = json.dumps(own).encode() if ending == ".json" else as_lines(own)
            (folder / f"{who}{ending}").write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
        if len({row["label"] for row in rows}) > 1 and len(people) > 1:
            assert read(folder)[0] == expected(rows)[0], seed


# ---------------------------------------------------------------- what must be refused


def _put(name: str, value: Any) -> Callable[[list[Row]], list[Row]]:
    return lambda rows: [*rows[:-1], {**rows[-1], name: value}]


def _all(name: str, value: Any) -> Callable[[list[Row]], list[Row]]:
    return lambda rows: [{**row, name: value} for row in rows]


def _renamed(old: str, new: str) -> Callable[[list[Row]], list[Row]]:
    return lambda rows: [{new if key == old else key: value for key, value in row.items()} for row in rows]


WRONG_TABLES: dict[str, Callable[[list[Row]], list[Row]]] = {
    **{f"no {name}": _renamed(name, "other") for name in ("text", "annotator", "label")},
    "label by another name": _renamed("label", "Label "),
    "a blank text": _put("text", " "),
    "a blank annotator": _put("annotator", ""),
    "a blank label": _put("label", ""),
    "a label nan": _put("label", "nan"),
    "gold that nobody gave": _put("gold", "never heard of"),
    "a weight below 0": _all("weight", "-1"),
    "a weight that is none": _all("weight", "inf"),
    "one id, two texts": _all("item", "1"),
}
WRONG_BYTES: dict[str, Callable[[list[Row]], bytes]] = {
    "empty.csv": lambda rows: b"",
    "blank.jsonl": lambda rows: b" \n\n",
    "a header alone.csv": lambda rows: b"text,annotator,label\r\n",
    "utf-16 without a mark.csv": lambda rows: as_csv(rows).decode().encode("utf-16-le"),
    "latin-1.csv": lambda rows: "text,annotator,label\ncafé,w,x\nb,w,y\n".encode("latin-1"),
    "a row too long.csv": lambda rows: as_csv(rows) + b"a,b,c,d,e\r\n",
    "a row too short.csv": lambda rows: as_csv(rows) + b"a,b\r\n",
    "an open quote.csv": lambda rows: as_csv(rows) + b'"a,b,x,x\r\n',
    "a column twice.csv": lambda rows: as_csv(rows).replace(b"gold", b"label", 1),
    "cut.csv.gz": lambda rows: gzip.compress(as_csv(rows))[:-9],
    "junk behind.csv.gz": lambda rows: gzip.compress(as_csv(rows)) + b"junk",
    "cut.json": lambda rows: json.dumps(rows).encode()[:-5],
    "cut.jsonl": lambda rows: as_lines(rows)[:-9],
    "a number.json": lambda rows: b"7",
    "numbers.json": lambda rows: b"[1, 2]",
    "deep.json": lambda rows: b"[" * 50_000,
    "half a character in a name.jsonl": lambda rows: as_lines(rows).replace(b'"text"', b'"te\\udc00xt"'),
    "half a character beside.json": lambda rows: json.dumps([{**r, "z\ud800": 1} for r in rows]).encode(),
    "half a character in a value.jsonl": lambda rows: as_lines([{**rows[0], "text": "\ud800"}, *rows], ascii=True),
    "a number without end.json": lambda rows: b"[" + b"9" * 10_000 + b"]",
    "cut.parquet": lambda rows: as_parquet(rows)[:-20],
    "no more than its name.parquet": lambda rows: b"PAR1PAR1",
    "a spreadsheet.csv": lambda rows: b"PK\x03\x04" + bytes(100),
    "a pickle.json": lambda rows: b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x02os.",
}


@pytest.mark.parametrize("name", [*WRONG_TABLES, *WRONG_BYTES])
def test_what_loses_something_is_refused(name: str, tmp_path: Path) -> None:
    for seed in range(6):
        rows = known_table(seed)
        if name in WRONG_TABLES:
            (tmp_path / "t.csv").write_bytes(as_csv(WRONG_TABLES[name](rows)))
        else:
            (tmp_path / name).write_bytes(WRONG_BYTES[name](rows))
        with pytest.raises(RealmError, match=str(tmp_path)):
            Annotations.read(tmp_path / ("t.csv" if name in WRONG_TABLES else name))
