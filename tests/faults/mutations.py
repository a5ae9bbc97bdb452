"""Exports of annotation tools, mutated: bytes flipped, cut and put in; records and fields taken out, doubled, replaced.

Every fixture of tests/fixtures/exports and one small export of each other format is a seed. What a mutated file means
nobody knows, so it may be read or refused; any other exception is a failure, and so is a hang.
"""

from __future__ import annotations

import copy
import gzip
import io
import json
import random
import zipfile
from pathlib import Path
from typing import Any

EXPORTS = Path(__file__).parents[1] / "fixtures" / "exports"
OTHERS: dict[str, Any] = {
    "prodigy.jsonl": [
        {
            "text": t,
            "_input_hash": n,
            "answer": "accept",
            "_annotator_id": f"db-{w}",
            "options": [{"id": "x"}, {"id": "y"}],
            "accept": ["xy"[n % 2]],
        }
        for n, t in enumerate("abcd")
        for w in ("ada", "bob")
    ],
    "ada.jsonl": [{"id": n, "text": t, "label": ["xy"[n % 2]], "Comments": []} for n, t in enumerate("abcd")],
    "doccano_old.json": [
        {"id": n, "text": t, "annotations": [{"label": 7 + n % 2, "user": 1}, {"label": 8, "user": 2}]}
        for n, t in enumerate("abcd")
    ],
    "hugging_face.json": [
        {"id": n, "text": t, "annotators": [{"label": n % 2, "annotator_id": 7}, {"label": 1, "annotator_id": 8}]}
        for n, t in enumerate("abcd")
    ],
    "lewidi.json": {
        str(n): {"text": t, "annotators": "A1,A2", "annotations": {"A1": str(n % 2), "A2": "1"}}
        for n, t in enumerate("abcd")
    },
    "go_emotions.jsonl": [
        {"text": t, "id": t, "rater_id": w, "example_very_unclear": False, "joy": n % 2, "anger": 1 - n % 2}
        for n, t in enumerate("abcd")
        for w in (3, 4)
    ],
    "options.jsonl": [
        {"text": t, "options": ["x", "y", "z"], "annotator": w, "label": (n + w) % 3, "gold": n % 3}
        for n, t in enumerate("abcd")
        for w in (1, 2)
    ],
    "mturk.csv": "HITId,WorkerId,AssignmentStatus,Input.text,Answer.x\n"
    "h1,w1,Approved,a,p\nh1,w2,Rejected,a,q\nh2,w1,Approved,b,q\n",
    "toloka.tsv": "INPUT:t\tOUTPUT:result\tGOLDEN:result\tASSIGNMENT:worker_id\tASSIGNMENT:status\n"
    "a\tp\tp\tw1\tAPPROVED\nb\tq\t\tw1\tAPPROVED\na\tq\t\tw2\tREJECTED\n",
    "table.csv": 'text,annotator,label,gold,weight\na,w1,x,x,1\nb,w2,"y\nz",x,0.5\n"c ""q""",w1,1.0,,2\n',
}
TOKENS = (
    b"", b'"', b"'", b",", b"\t", b"\n", b"\r", b"\x00", b"\xff", b"\xef\xbb\xbf", b"{", b"}", b"[", b"]", b":", b"#",
    b"\\",
    b"\\ud800", b"null", b"true", b"NaN", b"Infinity", b"-1", b"1e999", b"99999999999999999999", b"\xed\xa0\x80",
    b"\xc3",
    b"\x1f\x8b", b"PAR1", b"PK\x03\x04", b"A" * 3000, b"[" * 300, b'"id"', b'"label"', b'"text"',
)  # fmt: skip
NODES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, float("nan"), float("inf"), 10**30, "", " ", "x", "nan", "\ud800", "\x00", "#", [],
    {},
    [1, 2], ["a", None], {"a": 1}, [{}], [[]], {"label": [1]}, {"choices": ["a"]}, [None], "2020-01-01", "x" * 3000,
    {"\udc00": 1}, [[["deep"]]], {"id": 1, "text": "t"}, "1.0", "\u202e", {"": ""},
)  # fmt: skip
NAMES = (
    "id",
    "text",
    "label",
    "annotator",
    "gold",
    "options",
    "",
    "\ud800",
    "annotations",
    "value",
    "user",
    "task",
    "0",
)
WRAPPINGS = ("plain", "plain", "plain", "gzip", "zip", "gzip, then mutated", "zip, then mutated")


def seeds() -> dict[str, bytes]:
    """The exports by name."""
    files = {path.name: path.read_bytes() for path in sorted(EXPORTS.glob("*.[jc]s*"))}
    for name, content in OTHERS.items():
        if isinstance(content, str):
            files[name] = content.encode()
        elif name.endswith(".jsonl"):
            files[name] = "".join(json.dumps(record) + "\n" for record in content).encode()
        else:
            files[name] = json.dumps(content).encode()
    files["table.parquet"] = _parquet()
    return files


def _parquet() -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [{"text": t, "annotator": w, "label": "xy"[n % 2]} for n, t in enumerate("abcd") for w in ("ada", "bob")]
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file)
    return file.getvalue()


def mutate(seed: int, files: dict[str, bytes]) -> tuple[str, bytes]:
    """A name and the bytes of a mutated export."""
    generator = random.Random(seed)
    name = generator.choice(sorted(files))
    content = files[name]
    wrapping = generator.choice(WRAPPINGS)
    if name.endswith((".json", ".jsonl")) and generator.random() < 0.6:
        content = _mutate_records(name, content, generator)
    elif "then" not in wrapping:
        content = mutate_bytes(content, generator)
    if wrapping.startswith("gzip"):
        name, content = f"{name}.gz", gzip.compress(content, mtime=0)
    elif wrapping.startswith("zip"):
        name, content = f"{name}.zip", _zip(name, content, generator)
    return name, mutate_bytes(content, generator) if "then" in wrapping else content


def _zip(name: str, content: bytes, generator: random.Random) -> bytes:
    file = io.BytesIO()
    methods = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    with zipfile.ZipFile(file, "w", generator.choice(methods)) as archive:
        archive.writestr(zipfile.ZipInfo(name), content)
        if generator.random() < 0.3:
            archive.writestr(zipfile.ZipInfo(f"sub/{name}"), content)
    return file.getvalue()


def mutate_bytes(content: bytes, generator: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(generator.randint(1, 4)):
        place, length = generator.randrange(len(data) + 1), generator.randint(1, 60)
        kind = generator.randrange(6)
        if kind == 0 and place < len(data):
            data[place] ^= 1 << generator.randrange(8)
        elif kind == 1:
            data[place:place] = generator.choice(TOKENS)
        elif kind == 2:
            del data[place : place + length]
        elif kind == 3:
            data[place:place] = data[place : place + length]
        elif kind == 4:
            data[place : place + length] = bytes(generator.randrange(256) for _ in range(length))
        elif generator.random() < 0.4:
            del data[place:]
    return bytes(data)


def _mutate_records(name: str, content: bytes, generator: random.Random) -> bytes:
    is_lines = name.endswith(".jsonl")
    document = [json.loads(line) for line in content.splitlines()] if is_lines else json.loads(content)
    mutate_document(document, generator)
    if is_lines and isinstance(document, list):
        return "".join(json.dumps(record) + "\n" for record in document).encode()
    return json.dumps(document).encode()


def mutate_document(document: Any, generator: random.Random) -> None:
    """Take out, rename, double or replace a few nodes of a document, in place."""
    for _ in range(generator.randint(1, 3)):
        places = _places(document)
        if not places:
            break
        *path, last = generator.choice(places)
        node = document
        for key in path:
            node = node[key]
        kind = generator.randrange(4)
        if kind == 0:
            del node[last]
        elif kind == 1 and isinstance(node, dict):
            node[generator.choice(NAMES)] = node.pop(last)
        elif kind == 2 and isinstance(node, list):
            node.insert(last, copy.deepcopy(generator.choice(node)))
        else:
            node[last] = copy.deepcopy(generator.choice(NODES))


def _places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [place for key, value in inside for place in [(*path, key), *_places(value, (*path, key))]]
