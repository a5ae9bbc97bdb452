"""A key that stands twice in one object: the last value would win in silence, so that it is an error that names it."""

from __future__ import annotations

import gzip

import pytest

from realm.data import Annotations
from realm.errors import RealmError
from realm.files import read_json, read_yaml

ROW = '{"item": "1", "text": "what a film", "label": "good", "annotator": "ann"}'
TWICE = '{"item": "2", "text": "a bore", "annotator": "ann", "label": "bad", "label": "good"}'
SAID = r"the key 'label' stands twice in one object, with 'bad' and 'good'"


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("labels.jsonl", f"{ROW}\n{TWICE}\n", r"labels\.jsonl, line 2: "),
        ("labels.ndjson", f"\n{ROW}\n\n{TWICE}\n", r"labels\.ndjson, line 4: "),
        ("labels.json", f"[{ROW}, {TWICE}]", r"labels\.json: "),
        ("labels.json", f"{ROW}\n{TWICE}\n", r"labels\.json, line 2: "),
        ("labels", f"{ROW}\n{TWICE}\n", r"labels, line 2: "),
    ],
)
def test_in_a_table_it_is_an_error_that_names_file_line_and_key(name, content, place, tmp_path) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(RealmError, match=place + r".*" + SAID):
        Annotations.read(path)
    path.write_text(content.replace(', "label": "good"}', "}"))
    assert Annotations.read(path).n_annotations == 2


def test_in_packed_tables_too(tmp_path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(f"{ROW}\n{TWICE}\n".encode()))
    with pytest.raises(RealmError, match=r"line 2: .*" + SAID):
        Annotations.read(tmp_path / "a.jsonl.gz")


def test_deep_inside_the_export_of_a_tool(tmp_path) -> None:
    choice = '{"choices": ["good"], "choices": ["bad"]}'
    result = f'[{{"from_name": "s", "to_name": "t", "type": "choices", "value": {choice}}}]'
    task = f'{{"id": 1, "data": {{"text": "x"}}, "annotations": [{{"id": 1, "completed_by": 1, "result": {result}}}]}}'
    path = tmp_path / "export.json"
    path.write_text(f"[{task}]")
    with pytest.raises(RealmError, match=r"export\.json: .*the key 'choices' stands twice"):
        Annotations.read(path)


def test_a_stream_of_rows_names_the_line_of_the_file(tmp_path) -> None:
    from realm.data.items import Task
    from realm.data.readers.streaming import stream_rows

    path = tmp_path / "rows.jsonl"
    path.write_text(f"{ROW}\n{TWICE}\n")
    with pytest.raises(RealmError, match=r"line 2: .*" + SAID):
        list(stream_rows(path, tasks=[Task("", ("good", "bad"))], chunk_rows=1))


# -------------------------------------------------------------------- machine files


def test_in_json_of_ours(tmp_path) -> None:
    path = tmp_path / "metrics.json"
    path.write_text('{"a": {"steps": 1, "steps": 2}}')
    with pytest.raises(RealmError, match=r"metrics\.json: .*the key 'steps' stands twice in one object, with 1 and 2"):
        read_json(path)
    path.write_text('{"a": {"steps": 1}, "b": {"steps": 2}}')
    assert read_json(path) == {"a": {"steps": 1}, "b": {"steps": 2}}


@pytest.mark.parametrize(
    ("text", "line"),
    [("a: 1\nb: 2\na: 3\n", 3), ("a:\n  - x: 1\n    x: 1\n", 3), ("'a': 1\n\"a\": 2\n", 2)],
)
def test_in_yaml(text: str, line: int, tmp_path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(RealmError, match=rf"config\.yaml: .*the key '[ax]' of line {line} stands there several times"):
        read_yaml(path)
