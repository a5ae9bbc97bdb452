"""From an annotation tool and back: a Label Studio export in, a run, cleaned labels out that it imports."""

from __future__ import annotations

import json

import pandas as pd

from tests.tiny import crowd


def label_studio(table) -> list[dict]:
    """The table as Label Studio exports it, with a cancelled annotation and a task nobody labelled."""
    tasks = []
    people = [{"id": i, "email": f"{name}@x.org"} for i, name in enumerate(table.annotators)]
    for item, (_, text, _, options) in enumerate(table.items):
        marks = range(table.offsets[item], table.offsets[item + 1])
        given = [
            {
                "id": int(mark),
                "completed_by": people[table.annotator[mark]],
                "result": [
                    {"from_name": "colour", "to_name": "text", "type": "choices",
                     "value": {"choices": [options[table.label[mark]]]}}
                ],
                "was_cancelled": False,
            }
            for mark in marks
        ]  # fmt: skip
        tasks.append({"id": item + 1, "data": {"text": text}, "annotations": given, "predictions": []})
    tasks[0]["annotations"].append({**tasks[0]["annotations"][0], "id": 999, "was_cancelled": True})
    tasks.append({"id": 500, "data": {"text": "nobody"}, "annotations": [], "predictions": []})
    return tasks


def test_label_studio_in_and_out(realm_cli, tiny_model, tmp_path) -> None:
    table = crowd(30)
    (tmp_path / "export.json").write_text(json.dumps(label_studio(table)))
    code, _, error = realm_cli(
        "train", tmp_path / "export.json", "--model", tiny_model("bert"), "--output", tmp_path / "run", "--steps", "2"
    )
    assert code == 0, error
    labels = pd.read_csv(tmp_path / "run" / "labels.csv")
    assert len(labels) == 30 and labels["annotations"].eq(3).all()
    assert (tmp_path / "run" / "report.html").stat().st_size > 1000
    code, _, error = realm_cli(
        *("export", tmp_path / "run", "--format", "label-studio", "-o", tmp_path / "back.json"),
        *("--control", "colour"),
    )
    assert code == 0 and "30 labels" in error
    back = json.loads((tmp_path / "back.json").read_text())
    assert [task["data"]["text"] for task in back] == table.texts.to_pylist()
    for task, label in zip(back, labels["label"], strict=True):
        (result,) = task["predictions"][0]["result"]
        assert (result["from_name"], result["to_name"]) == ("colour", "text") and result["value"] == {
            "choices": [label]
        }
        assert 0 <= task["predictions"][0]["score"] <= 1
    code, _, _ = realm_cli("export", tmp_path / "run", "-o", tmp_path / "back.csv")
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "back.csv"), labels)
    code, _, error = realm_cli("export", tmp_path / "run", "-o", tmp_path / "run" / "labels.csv")
    assert code == 2 and "a file of the run itself" in " ".join(error.split())
    for place in (tmp_path, tmp_path / "back.csv" / "labels.json"):
        code, _, error = realm_cli("export", tmp_path / "run", "--format", "label-studio", "-o", place)
        assert code == 2 and ("cannot be written" in error or "is a folder" in error)
