"""Exports of annotation tools, mutated: bytes flipped, cut and put in; records and fields taken out, doubled, replaced.

Every fixture of tests/fixtures/exports and one small export of each other format is a seed. What a mutated file means
nobody knows, so it may be read or refused; any other exception is a failure.
"""

from __future__ import annotations

import copy
import gzip
import json
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from realm.check import examine
from realm.data import Annotations, Items, Task
from realm.data.readers.streaming import stream_rows
from realm.errors import RealmError

EXPORTS = Path(__file__).parents[1] / "fixtures" / "exports"
PRODIGY = {"_input_hash": 1, "answer": "accept", "_annotator_id": "db-ada", "options": [{"id": "x"}, {"id": "y"}]}
OTHERS: dict[str, Any] = {
    "prodigy.jsonl": [{**PRODIGY, "text": t, "_input_hash": n, "accept": ["xy"[n % 2]]} for n, t in enumerate("abcd")],
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
    "verdicts.jsonl": [
        {"id": n, "text": t, "verdicts": {"gpt": {"label": "xy"[n % 2]}, "llama": "x"}} for n, t in enumerate("abcd")
    ],
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
    b"", b'"', b",", b"\t", b"\n", b"\r", b"\x00", b"\xff", b"\xef\xbb\xbf", b"{", b"}", b"[", b"]", b"#", b"\\",
    b"\\ud800", b"null", b"true", b"NaN", b"1e999", b"99999999999999999999", b"\xed\xa0\x80", b"\x1f\x8b", b"PAR1",
    b"A" * 3000, b"[" * 300, b'"id"', b'"label"',
)  # fmt: skip
NODES: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, float("nan"), float("inf"), 10**30, "", " ", "x", "nan", "\ud800", "\x00", "#", [], {},
    [1, 2], ["a", None], {"a": 1}, [{}], [[]], {"label": [1]}, {"choices": ["a"]}, [None], "2020-01-01", "x" * 3000,
    {"\udc00": 1}, [[["deep"]]], "1.0", "\u202e", {"": ""},
)  # fmt: skip
NAMES = ("id", "text", "label", "annotator", "gold", "options", "", "\ud800", "annotations", "value", "user", "task")


def seeds() -> dict[str, bytes]:
    """The exports by name."""
    files = {path.name: path.read_bytes() for path in sorted(EXPORTS.glob("*.[jc]s*"))}
    for name, content in OTHERS.items():
        lines = "".join(json.dumps(record) + "\n" for record in content) if name.endswith("jsonl") else None
        files[name] = (content if isinstance(content, str) else lines or json.dumps(content)).encode()
    return files


def mutate(seed: int, files: dict[str, bytes]) -> tuple[str, bytes]:
    """A name and the bytes of a mutated export."""
    generator = random.Random(seed)
    name = generator.choice(sorted(files))
    content = files[name]
    if name.endswith((".json", ".jsonl")) and generator.random() < 0.6:
        is_lines = name.endswith(".jsonl")
        document = [json.loads(line) for line in content.splitlines()] if is_lines else json.loads(content)
        for _ in range(generator.randint(1, 3)):
            mutate_node(document, generator)
        content = b"\n".join(json.dumps(each).encode() for each in (document if is_lines else [document]))
    else:
        content = mutate_bytes(content, generator)
    if generator.random() < 0.2:
        name, content = f"{name}.gz", gzip.compress(content, mtime=0)
        content = mutate_bytes(content, generator) if generator.random() < 0.5 else content
    return name, content


def mutate_bytes(content: bytes, generator: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(generator.randint(1, 4)):
        place, length, kind = generator.randrange(len(data) + 1), generator.randint(1, 60), generator.randrange(6)
        if kind == 0 and place < len(data):
            data[place] ^= 1 << generator.randrange(8)
        elif kind == 1:
            data[place:place] = generator.choice(TOKENS)
        elif kind == 2:
            del data[place : place + length]
        elif kind == 3:
            data[place:place] = data[place : place + length]
        elif kind == 4:
            data[place : place + length] = generator.randbytes(length)
        elif generator.random() < 0.4:
            del data[place:]
    return bytes(data)


def mutate_node(document: Any, generator: random.Random) -> None:
    """Take out, rename, double or replace a node of a document, in place."""
    if not (all_places := places(document)):
        return
    *path, last = generator.choice(all_places)
    node, kind = document, generator.randrange(4)
    for key in path:
        node = node[key]
    if kind == 0:
        del node[last]
    elif kind == 1 and isinstance(node, dict):
        node[generator.choice(NAMES)] = node.pop(last)
    elif kind == 2 and isinstance(node, list):
        node.insert(last, copy.deepcopy(generator.choice(node)))
    else:
        node[last] = copy.deepcopy(generator.choice(NODES))


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [place for key, value in inside for place in [(*path, key), *places(value, (*path, key))]]


def try_all(numbers: range, folder: Path) -> int:
    """How many of the mutated exports of these seeds were read."""
    files, n_read, tasks = seeds(), 0, (Task("default", ("x", "y")),)
    for seed in numbers:
        name, content = mutate(seed, files)
        (folder / name).write_bytes(content)
        multi, missing = (None, "first", "drop")[seed % 3], ("error", "drop")[seed % 2]
        with suppress(RealmError):
            table = Annotations.read(folder / name, multi=multi, missing=missing)
            assert len(table.label) == table.n_annotations and (table.label >= 0).all(), seed
            if table.n_annotations:
                json.dumps(examine(table).as_dict())
            n_read += 1
        with suppress(RealmError):
            Annotations.read_test(folder / name)
        with suppress(RealmError):
            assert len(Items.read(folder / name)), seed
        with suppress(RealmError):
            assert list(stream_rows(folder / name, tasks=tasks, chunk_rows=2)), seed
        (folder / name).unlink()
    return n_read


def test_mutated_exports(tmp_path: Path) -> None:
    assert try_all(range(250), tmp_path) > 20


@pytest.mark.slow
def test_many_mutated_exports(tmp_path: Path) -> None:
    assert try_all(range(250, 3000), tmp_path) > 200
