"""Compressed files from strangers: what unpacks to too much is refused before it is in memory, the damaged is named."""

from __future__ import annotations

import gzip
import io
import os
import random
import struct
import threading
import time
import tracemalloc
import weakref
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from realm.data import Annotations, Task
from realm.data.readers import contents, files
from realm.data.readers.streaming import stream_rows
from realm.errors import RealmError

TABLE = b"text,annotator,label\n" + b"".join(b"t%d,w%d,%s\n" % (n, n % 3, b"xy"[n % 2 : n % 2 + 1]) for n in range(60))
TASKS = (Task("default", ("x", "y")),)


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of 0.1 MB, so that bombs need not be large."""
    monkeypatch.setattr(files, "USUAL_GB", 1e-4)


def zipped(path: Path, method: int = zipfile.ZIP_DEFLATED, **files: bytes) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name.replace("_", "."), content)
    return path


def rows(count: int) -> bytes:
    generator = random.Random(0)
    return b"text,annotator,label\n" + b"".join(
        b"%d %d,w%d,%s\n" % (n, generator.getrandbits(256), n % 3, b"xy"[n % 2 : n % 2 + 1]) for n in range(count)
    )


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("name", ["t.csv.gz", "t.zip", "t.jsonl.gz", "nested.zip", "t.parquet"])
def test_more_than_the_limit_is_refused_and_may_be_allowed(tmp_path: Path, name: str) -> None:
    content, path = rows(2000), tmp_path / name
    if name == "t.zip":
        zipped(path, t_csv=content)
    elif name == "nested.zip":
        zipped(path, **{"t.csv_gz": gzip.compress(content)})
    elif name == "t.parquet":
        lines = [line.split(",") for line in content.decode().splitlines()]
        pq.write_table(pa.table({k: [line[n] for line in lines[1:]] for n, k in enumerate(lines[0])}), path)
    elif name == "t.jsonl.gz":
        lines = [line.split(",") for line in content.decode().splitlines()[1:]]
        records = (
            b'{"text": "%s", "annotator": "%s", "label": "%s"}\n' % tuple(map(str.encode, line)) for line in lines
        )
        path.write_bytes(gzip.compress(b"".join(records)))
    else:
        path.write_bytes(gzip.compress(content))
    with pytest.raises(RealmError, match=r"unpacks to more than 0.0001 GB.*`max_unpacked_gb`"):
        Annotations.read(path)
    assert Annotations.read(path, max_unpacked_gb=0.01).n_annotations == 2000
    with pytest.raises(RealmError, match=r"unpacks to more than 0.00012 GB"):
        Annotations.read(path, max_unpacked_gb=0.00012)


def test_a_bomb_is_not_unpacked_before_it_is_refused(tmp_path: Path, monkeypatch) -> None:
    """Both what is declared and what comes out are held to the limit; neither puts more than the limit in memory."""
    packer = io.BytesIO()
    with gzip.GzipFile(fileobj=packer, mode="wb", compresslevel=1) as file:
        for _ in range(300):
            file.write(b"\0" * (1 << 20))
    (tmp_path / "t.csv.gz").write_bytes(packer.getvalue())
    path = tmp_path / "t.zip"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("t.csv", "w") as file,
    ):
        for _ in range(300):
            file.write(b"\0" * (1 << 20))
    monkeypatch.setattr(files, "USUAL_GB", 0.05)
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    for each in (tmp_path / "t.csv.gz", path):
        with pytest.raises(RealmError, match="unpacks to"):
            Annotations.read(each)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6 and pa.total_allocated_bytes() - before < 150e6


@pytest.mark.usefixtures("small_limits")
def test_a_zip_that_lies_about_its_sizes(tmp_path: Path) -> None:
    path = zipped(tmp_path / "t.zip", t_csv=rows(3000))
    content = bytearray(path.read_bytes())
    for mark, place in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        at = content.rfind(mark) if mark == b"PK\x01\x02" else content.find(mark)
        content[at + place : at + place + 4] = struct.pack("<I", 100)
    path.write_bytes(content)
    with pytest.raises(RealmError, match=r"not a readable zip|unpacks to"):
        Annotations.read(path)


def test_more_files_than_any_project_has(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(files, "MEMBERS", 5)
    members = {f"f{n}_jsonl": b'{"id": 1, "text": "a", "label": ["x"]}\n' for n in range(6)}
    path = zipped(tmp_path / "t.zip", **members)
    with pytest.raises(RealmError, match="6 files in the zip; 5 at most"):
        Annotations.read(path)
    (tmp_path / "folder").mkdir()
    for name, content in members.items():
        (tmp_path / "folder" / name.replace("_", ".")).write_bytes(content)
    with pytest.raises(RealmError, match="more than 5 files"):
        Annotations.read(tmp_path / "folder")


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_damaged_members_of_every_compression(tmp_path: Path, method: int) -> None:
    whole = zipped(tmp_path / "whole.zip", method, t_csv=TABLE * 3).read_bytes()
    generator = random.Random(method)
    outcomes = set()
    for _ in range(150):
        content = bytearray(whole)
        for _ in range(generator.randint(1, 4)):
            content[generator.randrange(len(content))] = generator.randrange(256)
        (tmp_path / "t.zip").write_bytes(content[: generator.choice([len(content), generator.randrange(len(content))])])
        try:
            Annotations.read(tmp_path / "t.zip")
            outcomes.add("read")
        except RealmError as error:
            outcomes.add("refused")
            assert "t.zip" in str(error)
    assert "refused" in outcomes


@pytest.mark.parametrize("gigabytes", [0, -1, float("nan"), float("inf")])
def test_limits_that_are_none(gigabytes: float) -> None:
    with pytest.raises(RealmError, match=r"`max_unpacked_gb=.*must be a number above 0"):
        Annotations.from_list([], max_unpacked_gb=gigabytes)


def test_the_flag(tmp_path: Path, realm_cli, monkeypatch) -> None:
    monkeypatch.setattr(files, "USUAL_GB", 1e-4)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(rows(2000)))
    code, _, error = realm_cli("check", tmp_path / "t.csv.gz")
    assert code == 2 and "max_unpacked_gb" in error
    (tmp_path / "c.yaml").write_text("max_unpacked_gb: 1\n")
    assert realm_cli("check", tmp_path / "t.csv.gz", "--config", tmp_path / "c.yaml")[0] == 0


def test_a_parquet_file_in_which_one_text_stands_for_all_rows(tmp_path: Path, monkeypatch) -> None:
    """What would be 6 GB is 4 kB: it is counted before it is there."""
    rows, path = 2000, tmp_path / "t.parquet"
    same = pa.array([0] * rows, pa.int32())
    text = pa.DictionaryArray.from_arrays(same, pa.array(["x" * 3_000_000]))
    other = pa.array([str(n % 2) for n in range(rows)])
    table = pa.table({"text": text, "annotator": other, "label": other})
    pq.write_table(table, path, dictionary_pagesize_limit=10**7, store_schema=False, compression="zstd")
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(RealmError, match="unpacks to more than 2 GB"):
        Annotations.read(path)
    with pytest.raises(RealmError, match="unpacks to more than 2 GB"):
        list(stream_rows(path, tasks=TASKS))
    assert pa.default_memory_pool().max_memory() - before < 500e6
    text = pa.DictionaryArray.from_arrays(same, pa.array(["some text"]))
    pq.write_table(
        pa.table({"text": text, "annotator": pa.array([f"w{n}" for n in range(rows)]), "label": other}), path
    )
    assert Annotations.read(path).n_annotations == rows, "any ratio is right"


def test_columns_of_parquet_are_what_they_were(tmp_path: Path) -> None:
    columns = {
        "text": pa.array(["a", "b", "c"]),
        "annotator": pa.array([1, 2, 1]),
        "label": pa.array(["x", "y", None]).dictionary_encode(),
        "gold": pa.array(["x", None, "y"], pa.large_string()),
        "options": pa.array([["x", "y"]] * 3),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    table = Annotations.read(tmp_path / "t.parquet", missing="drop")
    frame = table.to_pandas()
    assert frame["text"].tolist() == ["a", "b"] and frame["annotator"].tolist() == ["1", "2"]
    pq.write_table(pa.table(columns).slice(0, 0), tmp_path / "none.parquet")
    with pytest.raises(RealmError, match="there are no rows"):
        Annotations.read(tmp_path / "none.parquet")


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="needs a device without an end")
def test_a_device_without_an_end(monkeypatch) -> None:
    monkeypatch.setattr(files, "USUAL_GB", 0.01)
    with pytest.raises(RealmError, match=r"/dev/zero: unpacks to more than 0.01 GB"):
        Annotations.read("/dev/zero")


@pytest.mark.parametrize("form", ["plain", "gzip", "zip", "ragged", "stream", "parquet"])
def test_no_thread_of_arrows_is_left_with_anything_of_pythons(tmp_path: Path, monkeypatch, form: str) -> None:
    """One that is could release it while the interpreter ends, which ends the process with `terminate called`."""
    main, elsewhere, of_python = threading.get_ident(), [], []

    class Handler:
        def __init__(self, function) -> None:
            self.function = function
            weakref.finalize(self, lambda: elsewhere.append(form) if threading.get_ident() != main else None)

        def __call__(self, row) -> str:
            return self.function(row)

    py_buffer, buffer_reader = pa.py_buffer, pa.BufferReader
    read_csv, options = contents.pa_csv.read_csv, contents.pa_csv.ParseOptions

    def buffer_of(data) -> pa.Buffer:
        buffer = py_buffer(data)
        if not isinstance(data, pa.Buffer):
            of_python.append(buffer)
        return buffer

    def reader_of(data) -> pa.BufferReader:
        assert isinstance(data, pa.Buffer), "bytes of Python's own"
        assert not any(each.address <= data.address < each.address + max(each.size, 1) for each in of_python)
        return buffer_reader(data)

    def read(source, *args):
        assert isinstance(source, pa.NativeFile), "a file of Python's own"
        return read_csv(source, *args)

    def parse_options(*args, invalid_row_handler=None, **kwargs):
        if invalid_row_handler is not None:
            kwargs["invalid_row_handler"] = Handler(invalid_row_handler)
        return options(*args, **kwargs)

    monkeypatch.setattr(pa, "py_buffer", buffer_of)
    monkeypatch.setattr(pa, "BufferReader", reader_of)
    monkeypatch.setattr(contents.pa_csv, "read_csv", read)
    monkeypatch.setattr(contents.pa_csv, "ParseOptions", parse_options)
    path = tmp_path / {"gzip": "t.csv.gz", "zip": "t.zip", "parquet": "t.parquet"}.get(form, "t.csv")
    content = TABLE + b"ragged\n" if form == "ragged" else TABLE
    if form == "zip":
        zipped(path, t_csv=content)
    elif form == "parquet":
        pq.write_table(pa.table({"text": ["a", "b"], "annotator": ["w", "w"], "label": ["x", "y"]}), path)
    else:
        path.write_bytes(gzip.compress(content) if form == "gzip" else content)
    for _ in range(150):
        if form == "stream":
            list(stream_rows(path, tasks=TASKS, text="text"))
        elif form == "ragged":
            with pytest.raises(RealmError, match="row 61: 1 cells"):
                Annotations.read(path)
        else:
            Annotations.read(path)
    time.sleep(0.05)
    assert not elsewhere
