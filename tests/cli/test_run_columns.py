"""A run remembers the columns it was trained on; `predict` answers every row and keeps the table's own columns."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pandas as pd
import pytest

from realm.data import Annotations, Items
from realm.data.readers import streaming
from realm.errors import RealmError
from realm.runs import Run
from tests.tiny import crowd, sentences

PREMISES = ["the old boat sits", "a small bird runs", "the new house"]


def pairs(n: int = 40) -> pd.DataFrame:
    """Annotations of hypotheses, each under a premise: `text` is the premise, which is not the text."""
    table = crowd(n, (0.9, 0.8, 0.8), per_item=2).to_pandas().rename(columns={"text": "hypothesis", "item": "pair_id"})
    return table.assign(text=[PREMISES[int(item[1:]) % 3] for item in table["pair_id"]]).drop(columns=["gold", "task"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def plain(folder, tiny_model, realm_cli) -> Path:
    """A run of texts alone, without ids."""
    crowd(40).to_pandas().drop(columns=["item", "gold", "task"]).to_csv(folder / "plain.csv", index=False)
    flags = ("--model", tiny_model("bert"), "--steps", "3", "--output", folder / "plain")
    code, _, error = realm_cli("train", folder / "plain.csv", *flags)
    assert code == 0, error
    return folder / "plain"


@pytest.fixture(scope="module")
def nli(folder, tiny_model, realm_cli) -> Path:
    """A run trained on `--text hypothesis --context text`."""
    pairs().to_csv(folder / "pairs.csv", index=False)
    flags = ("--model", tiny_model("bert"), "--steps", "3", "--output", folder / "nli")
    columns = ("--text", "hypothesis", "--context", "text", "--item", "pair_id")
    code, _, error = realm_cli("train", folder / "pairs.csv", *columns, *flags)
    assert code == 0, error
    return folder / "nli"


def written(table: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".parquet":
        table.to_parquet(path, index=False)
    elif path.suffix == ".jsonl":
        table.to_json(path, orient="records", lines=True)
    elif path.suffix == ".json":
        table.to_json(path, orient="records")
    else:
        table.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    return path


def shares(frame: pd.DataFrame) -> list[dict[str, float]]:
    return [json.loads(cell) for cell in frame["probabilities"]]


# ---------------------------------------------------------------- every row its answer


REPEATED = pd.DataFrame(
    {
        "text": ["a red boat", "the old green tree", "a red boat", "a red boat", "the blue bird sits"],
        "note": ["first", "NA", "third, again", "=4", ""],
        "number": [1, 2, 3, 4, 5],
    }
)


@pytest.mark.parametrize("chunk_rows", [2, 1000])
@pytest.mark.parametrize("name", ["new.csv", "new.tsv", "new.jsonl", "new.json", "new.parquet"])
def test_predict_answers_every_row_in_order_with_its_own_columns(
    name, chunk_rows, plain, tmp_path, realm_cli, monkeypatch
) -> None:
    """5 rows came back as 3, under hashed ids and without the text."""
    monkeypatch.setattr(streaming, "CHUNK_ROWS", chunk_rows)
    path = written(REPEATED, tmp_path / name)
    code, _, error = realm_cli("predict", plain, path, "--output", tmp_path / "out.csv", "--raw")
    assert code == 0 and "5 predictions" in error, error
    answers = pd.read_csv(tmp_path / "out.csv", keep_default_na=False)
    assert answers.columns.tolist() == [*REPEATED.columns, "label", "confidence", "probabilities"]
    pd.testing.assert_frame_equal(answers[list(REPEATED.columns)], REPEATED)
    expected = Run.open(plain).predict(REPEATED["text"].tolist())
    assert answers["label"].tolist() == expected["label"].tolist()
    for ours, theirs in zip(shares(answers), shares(expected), strict=True):
        assert ours == pytest.approx(theirs, abs=2e-6)


def test_repeated_texts_get_the_same_answer(plain, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(streaming, "CHUNK_ROWS", 3)
    texts, _ = sentences(5, seed=4)
    table = pd.DataFrame({"text": [*texts, *texts[::-1], "a very very very very very old red boat", *texts]})
    answers = Run.open(plain).predict(written(table, tmp_path / "new.csv"))
    assert len(answers) == 16 and answers.groupby("text")["label"].nunique().tolist() == [1] * 6
    spread = answers.groupby("text")["confidence"].agg(lambda each: each.max() - each.min())
    assert spread.max() < 1e-5


def test_one_id_on_several_rows_is_answered_on_each(plain, tmp_path, realm_cli) -> None:
    table = pd.DataFrame({"item": ["x", "x", "y"], "text": ["a red boat", "a green tree", "a red boat"]})
    code, out, error = realm_cli("predict", plain, written(table, tmp_path / "new.csv"))
    assert code == 0, error
    assert pd.read_csv(io.StringIO(out))[["item", "text"]].equals(table)


def test_columns_of_the_table_that_are_called_like_an_answer_stay_and_it_is_said(plain, tmp_path, realm_cli) -> None:
    table = pd.DataFrame({"text": ["a red boat"], "label": ["mine"], "confidence": ["low"]})
    path = written(table, tmp_path / "new.csv")
    code, out, error = realm_cli("predict", plain, path)
    answer = pd.read_csv(io.StringIO(out)).iloc[0]
    assert code == 0 and answer["label"] == "mine" and answer["confidence"] == "low"
    assert answer["predicted_label"] in Run.open(plain).tasks[0].labels and 0 < answer["predicted_confidence"] <= 1
    assert "probabilities" in answer and "predicted_label" in error and "predicted_confidence" in error
    _, _, silent = realm_cli("predict", plain, written(table[["text"]], tmp_path / "other.csv"))
    assert "predicted_" not in silent


def test_json_keeps_the_types_of_the_table(plain, tmp_path, realm_cli) -> None:
    lines = [
        {"text": "a red boat", "tags": ["x", "y"], "n": 3, "by": {"who": "me"}, "gone": None},
        {"text": "a tree", "n": 4.5},
    ]
    (tmp_path / "new.jsonl").write_text("\n".join(map(json.dumps, lines)))
    for flags in (("--json",), ("--output", tmp_path / "out.jsonl")):
        code, out, error = realm_cli("predict", plain, tmp_path / "new.jsonl", *flags)
        assert code == 0, error
        out = out or (tmp_path / "out.jsonl").read_text()
        first, second = (json.loads(line) for line in out.splitlines())
        assert first["tags"] == ["x", "y"] and first["n"] == 3 and first["gone"] is None
        assert first["by"] == {"who": "me"}
        assert second["tags"] is None and second["n"] == 4.5
        assert sum(first["probabilities"].values()) == pytest.approx(1, abs=1e-5)
    code, out, _ = realm_cli("predict", plain, tmp_path / "new.jsonl")
    assert json.loads(pd.read_csv(io.StringIO(out))["tags"][0]) == ["x", "y"]


def test_an_output_that_is_no_table_of_ours_is_refused(plain, tmp_path, realm_cli) -> None:
    path = written(REPEATED, tmp_path / "new.csv")
    code, _, error = realm_cli("predict", plain, path, "--output", tmp_path / "out.parquet")
    assert code == 2 and ".csv" in error and ".jsonl" in error and not (tmp_path / "out.parquet").exists()


def test_an_export_is_answered_item_by_item_with_its_text(plain, tmp_path, realm_cli) -> None:
    tasks = [
        {"id": number, "data": {"text": text}, "annotations": [{"completed_by": 1, "result": []}]}
        for number, text in enumerate(["a red boat", "a tree"], 1)
    ]
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    code, out, error = realm_cli("predict", plain, tmp_path / "export.json")
    assert code == 0, error
    answers = pd.read_csv(io.StringIO(out))
    assert answers["text"].tolist() == ["a red boat", "a tree"] and answers["item"].tolist() == [1, 2]


@pytest.mark.parametrize("flag", ["--weight", "--annotator", "--label", "--gold", "--labels", "--missing", "--wide"])
def test_flags_that_predict_would_not_read_are_refused(flag, plain, tmp_path, realm_cli) -> None:
    """`predict --weight nosuch` was taken without a word."""
    code, _, error = realm_cli("predict", plain, written(REPEATED, tmp_path / "new.csv"), flag, "x")
    assert code == 2 and flag in error


# ---------------------------------------------------------------- the columns of the run


def hypotheses(n: int = 30) -> pd.DataFrame:
    """New pairs; the premises repeat, so that a reader who takes them for the text merges rows."""
    table = crowd(n, seed=5).to_pandas()[["item", "text", "gold"]].drop_duplicates()
    table = table.rename(columns={"text": "hypothesis", "item": "pair_id"})
    return table.assign(text=[PREMISES[row % 3] for row in range(n)])


def test_evaluate_takes_the_columns_that_the_run_was_trained_on(nli, tmp_path, realm_cli) -> None:
    """It took `text`, the premise, for the text, merged the rows and scored fewer items, with exit code 0."""
    path = written(hypotheses(), tmp_path / "test.csv")
    code, out, error = realm_cli("evaluate", nli, path, "--json")
    assert code == 0, error
    named = ("--text", "hypothesis", "--context", "text", "--item", "pair_id")
    assert json.loads(out) == json.loads(realm_cli("evaluate", nli, path, *named, "--json")[1])
    assert json.loads(out)["items"] == 30
    swapped = json.loads(realm_cli("evaluate", nli, path, "--text", "text", "--context", "hypothesis", "--json")[1])
    assert swapped["log_loss"] != json.loads(out)["log_loss"]


def test_predict_takes_the_columns_that_the_run_was_trained_on(nli, tmp_path, realm_cli) -> None:
    table = hypotheses()
    code, out, error = realm_cli("predict", nli, written(table, tmp_path / "new.csv"), "--json")
    assert code == 0, error
    scored = [json.loads(line) for line in out.splitlines()]
    assert [row["hypothesis"] for row in scored] == table["hypothesis"].tolist()
    run = Run.open(nli)
    assert run.columns == {"text": "hypothesis", "context": "text", "item": "pair_id"}
    canonical = table.rename(columns={"text": "context"}).rename(columns={"hypothesis": "text"})
    expected = run.predict(Items.from_pandas(canonical, item="pair_id", tasks=run.tasks))
    for row, answer in zip(scored, shares(expected), strict=True):
        assert row["probabilities"] == pytest.approx(answer, abs=2e-6)
    for again in (run.predict(table), run.predict(tmp_path / "new.csv")):
        assert again["label"].tolist() == expected["label"].tolist()
        assert again["text"].tolist() == table["text"].tolist()


@pytest.mark.parametrize(("column", "flag"), [("hypothesis", "`text`"), ("text", "`context`")])
@pytest.mark.parametrize("command", ["evaluate", "predict"])
def test_a_missing_column_of_the_run_is_an_error_that_names_it(command, column, flag, nli, tmp_path, realm_cli) -> None:
    path = written(hypotheses().drop(columns=column), tmp_path / "test.csv")
    code, _, error = realm_cli(command, nli, path)
    error = " ".join(error.split())
    assert code == 2 and f"'{column}'" in error and str(nli) in error and flag in error


@pytest.mark.parametrize("command", ["evaluate", "predict"])
def test_flags_name_other_columns_than_those_of_the_run(command, nli, tmp_path, realm_cli) -> None:
    table = hypotheses()
    other = table.rename(columns={"hypothesis": "claim", "text": "passage", "pair_id": "n"})
    flags = ("--text", "claim", "--context", "passage")
    extra = ("--item", "n", "--json") if command == "evaluate" else ("--json",)
    code, out, error = realm_cli(command, nli, written(other, tmp_path / "other.csv"), *flags, *extra)
    assert code == 0, error
    _, expected, _ = realm_cli(command, nli, written(table, tmp_path / "same.csv"), "--json")
    if command == "evaluate":
        assert json.loads(out) == json.loads(expected)
    else:
        assert [json.loads(line)["probabilities"] for line in out.splitlines()] == [
            json.loads(line)["probabilities"] for line in expected.splitlines()
        ]
    # naming the run's context column for the text leaves the context without one
    code, _, error = realm_cli(command, nli, tmp_path / "same.csv", "--text", "text")
    assert code == 2 and "`context`" in error


def test_ids_are_not_needed(nli, tmp_path, realm_cli) -> None:
    path = written(hypotheses().drop(columns="pair_id"), tmp_path / "test.csv")
    assert [realm_cli(command, nli, path)[0] for command in ("evaluate", "predict")] == [0, 0]


def test_a_column_that_the_run_was_not_trained_on_is_not_read(plain, tmp_path, realm_cli) -> None:
    """A run without contexts has never seen one: a column `context` beside the text changes no answer."""
    table = pd.DataFrame({"text": ["a red boat", "a tree"], "context": ["the blue bird", "x"], "task": ["p", "q"]})
    code, out, error = realm_cli("predict", plain, written(table, tmp_path / "new.csv"))
    assert code == 0, error
    alone = Run.open(plain).predict(["a red boat", "a tree"])
    assert pd.read_csv(io.StringIO(out))["label"].tolist() == alone["label"].tolist()
    for ours, theirs in zip(shares(pd.read_csv(io.StringIO(out))), shares(alone), strict=True):
        assert ours == pytest.approx(theirs, abs=2e-6)
    code, named, _ = realm_cli("predict", plain, tmp_path / "new.csv", "--context", "context")
    assert code == 0 and shares(pd.read_csv(io.StringIO(named))) != shares(pd.read_csv(io.StringIO(out)))


def test_texts_and_items_without_the_context_of_the_run_are_refused(nli, plain) -> None:
    run = Run.open(nli)
    for items in (["a red boat"], Items.from_texts(["a red boat"], run.tasks)):
        with pytest.raises(RealmError, match=r"context.*'text'"):
            run.predict(items)
    test = Annotations.test_from_pandas(crowd(10).to_pandas(), tasks=run.tasks)
    with pytest.raises(RealmError, match="context"):
        run.evaluate(test)
    assert len(Run.open(plain).predict(["a red boat"])) == 1


# ---------------------------------------------------------------- what goes back to people


def premise_of(folder: Path) -> dict[str, str]:
    items = Run.open(folder).annotations.items
    return dict(zip(items.ids.to_pylist(), items.contexts.to_pylist(), strict=True))


def test_people_are_shown_the_context_of_what_they_label_again(nli, plain, tmp_path, realm_cli) -> None:
    """A hypothesis was to be judged without its premise."""
    premises = premise_of(nli)
    code, _, error = realm_cli("relabel", nli, "--output", tmp_path / "again.csv", "--budget", 5)
    assert code == 0, error
    queue = pd.read_csv(tmp_path / "again.csv")
    assert len(queue) and [premises[item] for item in queue["item"]] == queue["context"].tolist()
    table = pd.read_csv(nli / "labels.csv")
    assert [premises[item] for item in table["item"]] == table["context"].tolist()
    assert realm_cli("relabel", plain, "--output", tmp_path / "plain.csv", "--budget", 5)[0] == 0
    assert "context" not in pd.read_csv(tmp_path / "plain.csv").columns
