"""`realm predict` on files of any length: the same answers in parts, one part held at a time, whole files or none."""

from __future__ import annotations

import json
import weakref
from contextlib import nullcontext

import pandas as pd
import pytest

from realm.data.readers import streaming
from realm.data.readers.streaming import stream_rows
from realm.runs import Run
from realm.scorers import load_scorer
from realm.scorers.scoring import predict_chunks
from tests.tiny import crowd, sentences


@pytest.fixture(scope="module")
def run(tiny_model, tmp_path_factory, realm_cli):
    folder = tmp_path_factory.mktemp("run")
    crowd(40).to_pandas().to_csv(folder / "labels.csv", index=False)
    words = ("--model", tiny_model("bert"), "--steps", "3", "--output", folder / "run")
    code, _, error = realm_cli("train", folder / "labels.csv", *words)
    assert code == 0, error
    return folder / "run"


@pytest.fixture
def new(tmp_path):
    texts, _ = sentences(90, seed=7)
    table = pd.DataFrame({"item": [f"=n{i}" for i in range(90)], "text": texts})
    table = pd.concat([table, table.iloc[:10]])  # ten come again
    table.to_csv(tmp_path / "new.csv", index=False)
    table.to_json(tmp_path / "new.jsonl", orient="records", lines=True)
    table.to_parquet(tmp_path / "new.parquet", index=False)
    return tmp_path


@pytest.mark.parametrize("name", ["new.csv", "new.jsonl", "new.parquet"])
def test_answers_in_parts_are_the_answers_of_the_whole(name, run, new, realm_cli, monkeypatch) -> None:
    answers = []
    for size in (8, 1000):
        monkeypatch.setattr(streaming, "CHUNK_ROWS", size)
        code, _, error = realm_cli("predict", run, new / name, "--output", new / f"{size}.csv")
        assert code == 0 and "100 predictions" in error
        answers.append(pd.read_csv(new / f"{size}.csv"))
    in_parts, whole = answers
    assert list(in_parts["item"]) == [f"'=n{i}" for i in (*range(90), *range(10))]
    pd.testing.assert_frame_equal(
        in_parts.drop(columns="probabilities"), whole.drop(columns="probabilities"), atol=2e-6
    )
    again = in_parts.iloc[90:].reset_index(drop=True)
    pd.testing.assert_frame_equal(again, in_parts.iloc[:10])  # the very same answers


class Recorder:
    """A display that keeps what it is told."""

    def __init__(self, calls: list[tuple[str, int, int]]) -> None:
        self.calls = calls

    def __call__(self, *call) -> None:
        self.calls.append(call)


@pytest.mark.parametrize(
    ("command", "table", "expected"),
    [
        ("predict", "new.csv", {"scoring", "scoring after 80 items"}),
        ("evaluate", "test.csv", {"scoring"}),
    ],
)
def test_progress_is_shown(command, table, expected, run, new, realm_cli, monkeypatch) -> None:
    calls: list[tuple[str, int, int]] = []
    monkeypatch.setattr(streaming, "CHUNK_ROWS", 8)
    monkeypatch.setattr(f"realm.cli.{command}.progress_display", lambda: nullcontext(Recorder(calls)))
    crowd(10, seed=3).to_pandas().to_csv(new / "test.csv", index=False)
    code, _, error = realm_cli(command, run, new / table)
    assert code == 0, error
    assert expected <= {what for what, _, _ in calls}
    for title in expected:
        counts = [(done, total) for what, done, total in calls if what == title and total is not None]
        assert counts[0][0] == 0 and counts[-1][0] == counts[-1][1] > 0 and counts == sorted(counts)


def test_the_screen_gets_one_header(run, new, realm_cli, monkeypatch) -> None:
    monkeypatch.setattr(streaming, "CHUNK_ROWS", 8)
    code, out, _ = realm_cli("predict", run, new / "new.csv")
    lines = out.splitlines()
    assert code == 0 and len(lines) == 101 and sum(line.startswith("item,text,label") for line in lines) == 1


def test_one_part_is_held_at_a_time(tiny_model, new) -> None:
    table = crowd(10)
    scorer = load_scorer(tiny_model("bert"), table.items)
    alive: list[weakref.ref] = []

    def watched():
        for part in stream_rows(new / "new.csv", tasks=table.tasks, chunk_rows=8):
            alive.append(weakref.ref(part.items))
            yield part.items
            del part

    answered = 0
    for frame in predict_chunks(scorer, watched()):
        answered += len(frame)
        assert sum(ref() is not None for ref in alive) <= 2  # the one in hand, and the one just answered
    assert answered == 100 and len(alive) == 13


def test_an_error_in_a_late_part_leaves_what_was_there(run, new, realm_cli, monkeypatch) -> None:
    monkeypatch.setattr(streaming, "CHUNK_ROWS", 8)
    with (new / "new.csv").open("a", encoding="utf-8") as file:
        file.write("late,\n")
    (new / "answers.csv").write_text("earlier\n", encoding="utf-8")
    code, _, error = realm_cli("predict", run, new / "new.csv", "--output", new / "answers.csv", "--overwrite")
    assert code == 2 and "row 101: no text" in error
    assert (new / "answers.csv").read_text(encoding="utf-8") == "earlier\n"
    assert not list(new.glob(".answers.csv-*"))


def test_json_is_for_the_screen(run, new, realm_cli) -> None:
    code, _, error = realm_cli("predict", run, new / "new.csv", "--json", "--output", new / "out.json")
    assert code == 2 and "give one of the two" in error
    assert not (new / "out.json").exists()


def test_texts_in_place_of_a_file(run, tmp_path, realm_cli) -> None:
    texts = ["the old boat sits", "a small bird / a new house"]
    expected = Run.open(run).predict(texts)
    code, out, error = realm_cli("predict", run, *texts)
    assert code == 0, error
    for text, label, confidence in zip(texts, expected["label"], expected["confidence"], strict=True):
        assert any({label, f"{confidence:.3f}"} <= set(line.split()) and text in line for line in out.splitlines())
    code, out, error = realm_cli("predict", run, "great", "--json")
    answer = json.loads(out)
    assert code == 0 and answer["text"] == "great" and answer["label"] in answer["probabilities"], error
    code, _, error = realm_cli("predict", run, *texts, "--output", tmp_path / "answers.csv")
    assert code == 0 and "2 predictions in" in error
    written = pd.read_csv(tmp_path / "answers.csv")
    assert list(written["text"]) == texts and list(written["label"]) == list(expected["label"])


@pytest.mark.parametrize(
    "name", ["tset.csv", "my tset.csv", "data/tset", "./tset one", "/no/such thing", "~/x.y", "TSET.JSONL"]
)
def test_a_mistyped_path_is_no_text(name, run, tmp_path, realm_cli, monkeypatch) -> None:
    (tmp_path / "test.csv").write_text("text\na\n")
    monkeypatch.chdir(tmp_path)
    code, out, error = realm_cli("predict", run, name)
    said = " ".join(error.split())
    assert code == 2 and out == "" and f"{name} looks like a file. Check the path" in said


def test_what_is_refused_with_texts(run, tmp_path, new, realm_cli) -> None:
    for words, expected in (
        (("what a film", new / "new.csv"), "give one file alone, or texts"),
        (("what a film", "--text", "words"), "`text` is for tables"),
        (("what a film", "--task", "other"), "`task=other`: name the task of the texts"),
        (("  ",), "not blank"),
        (("caf\udce9 au lait",), "not valid Unicode"),
    ):
        code, out, error = realm_cli("predict", run, *words)
        assert code == 2 and out == "" and expected in " ".join(error.split()), error
