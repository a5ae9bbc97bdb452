"""`realm train`, `evaluate` and `predict`, as a person types them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from realm.runs import Run
from realm.runs.folder import LOG, REPORT
from tests.tiny import crowd


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    crowd(40).to_pandas().to_csv(folder / "labels.csv", index=False)
    test = crowd(30, seed=5).to_pandas()[["item", "text", "gold"]].drop_duplicates()
    test.to_csv(folder / "test.csv", index=False)
    test[["item", "text"]].to_csv(folder / "new.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def run(files, tiny_model, tmp_path_factory, realm_cli) -> Path:
    folder = tmp_path_factory.mktemp("run") / "run"
    code, _, error = realm_cli(
        "train",
        files / "labels.csv",
        "--model",
        tiny_model("causal"),
        "--output",
        folder,
        "--steps",
        "3",
        "--test",
        files / "test.csv",
        "--eval-steps",
        "2",
    )
    assert code == 0, error
    return folder


def test_train_and_compare_say_what_was_read_and_left_out(files, tiny_model, tmp_path, realm_cli) -> None:
    table = pd.read_csv(files / "labels.csv")
    repeated = pd.concat([table, table.iloc[[3, 5]]])
    repeated.loc[len(repeated)] = {**table.iloc[7].to_dict(), "label": None}
    repeated.to_csv(tmp_path / "labels.csv", index=False)
    (tmp_path / "config.yaml").write_text("repeats: last\nmissing: drop\nsteps: 1\n")
    words = (tmp_path / "labels.csv", "--model", tiny_model("bert"), "--config", tmp_path / "config.yaml")
    code, output, error = realm_cli("train", *words, "--output", tmp_path / "run", "--json")
    assert code == 0, error
    assert "120 annotations of 40 items by 3 annotators\n" in error
    dropped = json.loads(output)["dropped"]
    assert sorted(dropped.values()) == [1, 2]
    assert all(f"{count} x {reason}\n" in error for reason, count in dropped.items())
    said = (tmp_path / "run" / LOG).read_text()
    assert all(f"{count} x {reason}" in said for reason, count in dropped.items())
    compared = ("--test", files / "test.csv", "--methods", "noisy", "--seeds", 1, "--output", tmp_path / "compared")
    code, _, error = realm_cli("compare", *words, *compared)
    assert code == 0 and all(f"{count} x {reason}\n" in error for reason, count in dropped.items()), error


def test_what_annotators_say_is_not_gold(files, tiny_model, tmp_path, realm_cli) -> None:
    table = pd.read_csv(files / "labels.csv").drop(columns="gold").rename(columns={"label": "verdict"})
    table.to_csv(tmp_path / "labels.csv", index=False)
    test = pd.read_csv(files / "test.csv").rename(columns={"gold": "verdict"})
    test.to_csv(tmp_path / "test.csv", index=False)
    words = ("train", tmp_path / "labels.csv", "--label", "verdict", "--output", tmp_path / "run", "--test")
    words += (tmp_path / "test.csv", "--model", tiny_model("bert"), "--steps", 1)
    code, _, error = realm_cli(*words)
    assert code == 2 and "Name the right one with `gold`" in error
    code, _, error = realm_cli(*words, "--gold", "verdict")
    assert code == 2 and "`label` and `gold` are both the column 'verdict'" in error
    test.rename(columns={"verdict": "gold"}).to_csv(tmp_path / "test.csv", index=False)
    assert realm_cli(*words)[0] == 0


def test_a_run_holds_what_the_charter_lists(run) -> None:
    for name in ("expertise.csv", "labels.csv", "metrics.json", "config.yaml", "channel.safetensors", "manifest.json"):
        assert (run / name).is_file(), name
    metrics = json.loads((run / "metrics.json").read_text())
    assert next(entry["step"] for entry in metrics["history"] if "eval_accuracy" in entry) == 2
    assert 0 <= metrics["test"]["accuracy"] <= 1
    assert yaml.safe_load((run / "config.yaml").read_text())["gold_used"] is False
    expertise = pd.read_csv(run / "expertise.csv")
    assert {"annotator", "task", "expertise", "expertise_trained", "accuracy", "low", "high", "annotations"} <= set(
        expertise
    )
    assert len(expertise) == 3 and (expertise["low"] <= expertise["accuracy"]).all()
    labels = pd.read_csv(run / "labels.csv")
    assert len(labels) == 40 and labels["confidence"].between(0, 1).all()


def test_evaluate_reports_the_answer_mass_and_warns(run, files, realm_cli) -> None:
    code, out, error = realm_cli("evaluate", run, files / "test.csv", "--json")
    figures = json.loads(out)
    assert code == 0
    assert {"accuracy", "macro_f1", "calibration_error", "answer_mass"} <= set(figures)
    assert figures["answer_mass"] < 0.9 and "Free generation" in error
    assert [row["label"] for row in figures["labels"]] == ["blue", "green", "red", "white"]
    assert sum(row["support"] for row in figures["labels"]) == np.sum(figures["confusion"]) == 30
    code, out, _ = realm_cli("evaluate", run, files / "test.csv")
    assert code == 0
    for shown in (
        "Accuracy",
        "Base rate",
        "Macro F1",
        "Log loss",
        "Calibration error",
        "precision",
        "recall",
    ):
        assert shown in out
    assert max(map(len, out.splitlines())) <= 80


def test_accuracy_at_the_base_rate_is_said(capsys) -> None:
    from realm.cli.evaluate import warn_of_base_rate

    warn_of_base_rate({"accuracy": 0.6, "base_rate": 0.5, "tasks": {"one": {"accuracy": 0.5, "base_rate": 0.5}}})
    assert "one: accuracy 50.0% is no better than the base rate, 50.0% (always giving" in capsys.readouterr().err
    warn_of_base_rate({"accuracy": 0.6, "base_rate": 0.5})
    assert capsys.readouterr().err == ""


def test_train_shows_the_test_and_how_unused_gold_judges_it(files, tiny_model, realm_cli, tmp_path) -> None:
    """With a gold column, and without: the same run, byte for byte; only the screen and the report differ."""
    bare = pd.read_csv(files / "labels.csv").drop(columns="gold")
    bare.to_csv(tmp_path / "labels.csv", index=False)
    words = ["--model", tiny_model("bert"), "--steps", "2", "--test", files / "test.csv"]
    shown = {}
    for name, labels in (("gold", files / "labels.csv"), ("bare", tmp_path / "labels.csv")):
        folder = tmp_path / name / "run"
        code, out, error = realm_cli("train", labels, *words, "--output", folder)
        assert code == 0, error
        assert "Base rate" in out and "mistaken most for" in out and "Recall of the rarest label" in out
        shown[name] = error
    assert "of the 40 labels with gold are right (gold was not used; 95% interval" in shown["gold"]
    assert "95% intervals" in shown["gold"] and "gold" not in shown["bare"]
    contents = [
        {
            path.relative_to(folder): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name not in (LOG, REPORT)  # which hold times, and the check against gold
        }
        for folder in (tmp_path / "gold" / "run", tmp_path / "bare" / "run")
    ]
    assert contents[0] == contents[1]
    pages = {name: (tmp_path / name / "run" / REPORT).read_text() for name in ("gold", "bare")}
    assert "of 40 cleaned labels are right" in pages["gold"] and "No gold was read" in pages["bare"]
    log = (tmp_path / "gold" / "run" / LOG).read_text()
    assert "The run is in" in log and "gold was not used" not in log, "gold that was not used is on the screen alone"
    code, _, error = realm_cli("train", files / "labels.csv", *words, "--use-gold", "--output", tmp_path / "used")
    assert code == 0 and "gold was not used" not in error


def test_flags_may_come_from_a_file_and_the_command_line_wins(files, tiny_model, realm_cli, tmp_path) -> None:
    chosen = {"model": tiny_model("bert"), "steps": 2, "learning-rate": 0.01, "expertise_learning_rate": 0.3}
    (tmp_path / "flags.yaml").write_text(yaml.safe_dump(chosen))
    code, _, error = realm_cli(
        "train", files / "labels.csv", "--config", tmp_path / "flags.yaml", "--output", tmp_path / "run", "--steps", "1"
    )
    assert code == 0, error
    settings = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["settings"]
    assert settings["max_steps"] == 1 and settings["learning_rate"] == 0.01
    assert settings["expertise_learning_rate"] == 0.3
    assert settings["expertise_learning_rate"] == 0.3
    (tmp_path / "flags.yaml").write_text(f"model: {tiny_model('bert')}\nspeed: 3")
    code, _, error = realm_cli("train", files / "labels.csv", "--config", tmp_path / "flags.yaml", "--output", "x")
    assert code == 2 and "there is no argument `speed`" in error


GOOD = "item,text,annotator,label,gold\n1,red bird,w1,red,red\n2,blue boat,w1,blue,blue\n3,red tree,w2,blue,red\n"


@pytest.mark.parametrize(
    ("name", "content", "flags", "said"),
    [
        ("missing.csv", None, [], "missing.csv"),
        ("empty.csv", b"", [], "empty.csv"),
        ("columns.csv", b"item,text,label\n1,a,b\n", [], "annotator"),
        ("gold.csv", GOOD.replace("w2,blue,red", "w2,blue,green").encode(), [], "green"),
        ("single.csv", b"text,annotator,label\na,w,red\nb,w,red\n", [], "red"),
        ("bytes.csv", GOOD.encode() + b"4,caf\xe9,w1,red,red\n", [], "UTF-8"),
        ("nan.csv", (GOOD + "4,x,w1,NaN,red\n").encode(), [], "4"),
        ("hole.csv", (GOOD + "4,x,w1,,red\n").encode(), [], "4"),
        ("good.csv", GOOD.encode(), ["--model", "no/such folder"], "`model`"),
        ("good.csv", GOOD.encode(), ["--text", "review"], "review"),
        ("good.csv", GOOD.encode(), ["--method", "magic"], "`method=magic`"),
        ("good.csv", GOOD.encode(), ["--batch-size", "10", "--micro-batch-size", "4"], "--batch-size"),
        ("good.csv", GOOD.encode(), ["--method", "majority"], "one"),
        ("good.csv", GOOD.encode(), ["--steps", "0"], "`steps=0`: must be 1 or more. Leave it out, and"),
        ("good.csv", GOOD.encode(), ["--steps", "-3"], "`steps=-3`: must be 1 or more"),
        ("good.csv", GOOD.encode(), ["--epochs", "-1"], "`epochs` must be more than 0"),
        ("good.csv", GOOD.encode(), ["--learning-rate", "0"], "`learning_rate` must be more than 0"),
        ("good.csv", GOOD.encode(), ["--learning-rate", "inf"], "`learning_rate` must be finite"),
    ],
)
def test_bad_input_says_what_and_where_and_writes_nothing(
    name, content, flags, said, tiny_model, realm_cli, tmp_path
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    model = [] if "--model" in flags else ["--model", tiny_model("bert")]
    code, out, error = realm_cli("train", tmp_path / name, "--output", tmp_path / "run", *model, *flags)
    assert code == 2 and said in error, error
    assert "Traceback" not in error + out and error.startswith("error:")
    assert not (tmp_path / "run").exists()


def test_an_output_folder_with_another_run_or_other_things(run, files, tiny_model, realm_cli, tmp_path) -> None:
    common = ("train", files / "labels.csv", "--model", tiny_model("bert"), "--steps", "1")
    code, _, error = realm_cli(*common, "--output", run)
    assert code == 2 and "`overwrite`" in error
    (tmp_path / "things").mkdir()
    (tmp_path / "things" / "thesis.tex").write_text("precious")
    code, _, error = realm_cli(*common, "--output", tmp_path / "things")
    assert code == 2 and "holds no run" in error
    (tmp_path / "things" / "config.yaml").write_text("model: minilm-l6\n")  # flags of a person, not a run's settings
    (tmp_path / "things" / "labels.csv").write_text("mine")
    (tmp_path / "things" / "model").mkdir()
    for flag in ("--overwrite", "--resume"):
        code, _, error = realm_cli(*common, "--output", tmp_path / "things", flag)
        assert code == 2 and "holds no run" in error
    assert (tmp_path / "things" / "labels.csv").read_text() == "mine"


def test_a_new_run_takes_only_the_old_ones_files(files, tiny_model, realm_cli, tmp_path) -> None:
    common = (
        "train",
        files / "labels.csv",
        "--model",
        tiny_model("bert"),
        "--steps",
        "1",
        "--output",
        tmp_path / "run",
    )
    assert realm_cli(*common)[0] == 0
    (tmp_path / "run" / "notes.csv").write_text("mine")
    assert realm_cli(*common, "--overwrite")[0] == 0
    assert (tmp_path / "run" / "notes.csv").read_text() == "mine"


def test_runs_that_are_not_there_or_damaged(run, files, realm_cli, tmp_path) -> None:
    import shutil

    code, _, error = realm_cli("evaluate", tmp_path / "none", files / "test.csv")
    assert code == 2 and "no such run folder" in error
    shutil.copytree(run, tmp_path / "copy")
    (tmp_path / "copy" / "scorer.json").write_text("{}")
    code, _, error = realm_cli("evaluate", tmp_path / "copy", files / "test.csv")
    assert code == 2 and "changed or damaged" in error


def test_gold_experts_and_folds_reach_the_training(tiny_model, realm_cli, tmp_path, caplog) -> None:
    """What the flags ask for is in the files that a person reads."""
    table = crowd(40, (0.95, 0.9, 0.3))
    table.to_pandas().drop(columns="gold").to_csv(tmp_path / "labels.csv", index=False)
    known = table.to_pandas()[["item", "gold"]].drop_duplicates().head(30)
    known.to_csv(tmp_path / "gold.csv", index=False)
    common = ["train", tmp_path / "labels.csv", "--model", tiny_model("bert"), "--steps", 2, "--output"]

    code, _, error = realm_cli(*common, tmp_path / "gold", "--use-gold", "--gold-items", tmp_path / "gold.csv")
    assert code == 0, error
    assert Run.open(tmp_path / "gold").gold_used
    labels = pd.read_csv(tmp_path / "gold" / "labels.csv").set_index("item")["label"]
    assert (labels[known["item"]].to_numpy() == known["gold"].to_numpy()).all(), "gold is the label where it is known"
    trained = pd.read_csv(tmp_path / "gold" / "expertise.csv").set_index("annotator")["expertise_trained"]
    assert trained["w0"] > 0.8 > trained["w2"], "two steps from where gold put them"

    code, _, error = realm_cli(*common, tmp_path / "second", "--expert", "w1", "--cross-fit", 2)
    assert code == 0, error
    assert "cross-fit: 2 folds to train" in caplog.text
    found = pd.read_csv(tmp_path / "second" / "expertise.csv").set_index("annotator")
    assert Run.open(tmp_path / "second").metrics["folds"] == 2
    assert set(found["probabilities"]) == {"out of fold (2 folds)"}
    assert "warning: the model is not clearly better than the base rate" in error
    assert found["accuracy"]["w1"] == pytest.approx(0.999) and found["low"]["w1"] == found["high"]["w1"]
    assert set(pd.read_csv(tmp_path / "second" / "labels.csv")["probabilities"]) == {"out of fold (2 folds)"}


def test_training_says_how_far_it_is_in_a_pipe_and_in_a_log(
    files, tiny_model, realm_cli, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("realm.cli.progress.SOONEST", 0.0)
    (tmp_path / "config.yaml").write_text("logging_steps: 1\n")
    words = ["train", files / "labels.csv", "--model", tiny_model("bert"), "--steps", "3", "--test", files / "test.csv"]
    words += [
        "--eval-steps",
        "2",
        "--cross-fit",
        "2",
        "--config",
        tmp_path / "config.yaml",
        "--output",
        tmp_path / "run",
    ]
    code, _, error = realm_cli(*words)
    assert code == 0, error
    log = (tmp_path / "run" / LOG).read_text()
    assert f"Progress is logged to {tmp_path / 'run' / LOG}" in " ".join(error.split())
    for text in (error, log):
        assert "training: 2 of 3 (67%), about" in text and ", loss " in text
        assert "fold 1 of 2, training: 1 of 3" in text and "training: done in" in text
        assert "step 2, on the test items: accuracy" in text and "base rate" in text and "macro F1" in text
        assert "{'" not in text, "no dictionary of Trainer's"
    assert "realm train" in log.splitlines()[0] and log.splitlines()[0].startswith("20")
    assert "gold was not used" in error and "gold was not used" not in log


def test_train_as_json(files, tiny_model, realm_cli, tmp_path) -> None:
    words = ["train", files / "labels.csv", "--model", tiny_model("bert"), "--steps", "2", "--test", files / "test.csv"]
    code, out, error = realm_cli(*words, "--json", "--output", tmp_path / "run")
    assert code == 0, error
    told, run = json.loads(out), Run.open(tmp_path / "run")
    assert told["run"] == str(tmp_path / "run") and told["probabilities"] == run.probabilities
    assert told["test"] == run.metrics["test"] and told["test"]["labels"][0]["support"] > 0
    assert [row["annotator"] for row in told["expertise"]] == run.expertise["annotator"].tolist()
    assert told["against_gold"]["items"] == 40 and told["findings"] == run.findings


def test_a_long_table_of_annotators_shows_both_ends_and_names_those_to_doubt(capsys, monkeypatch) -> None:
    from types import SimpleNamespace

    from realm.cli.train import BEST, WORST, show_annotators

    n = 60
    table = pd.DataFrame(
        {
            "annotator": [f"annotator-{index:02d}" for index in range(n)],
            "task": "default",
            "accuracy": np.linspace(0.95, 0.4, n),
            "low": np.linspace(0.9, 0.3, n),
            "high": np.linspace(0.99, 0.5, n),
            "expertise": np.linspace(0.9, 0.0, n),
            "annotations": [10] * (n - 3) + [100] * 3,
            "verdict": ["reliable"] * (n - 3) + ["no better than chance"] * 3,
            "scale": "absolute",
            "habit": "",
            "notes": "",
        }
    )
    monkeypatch.setenv("COLUMNS", "80")
    show_annotators(SimpleNamespace(expertise=table.sample(frac=1, random_state=0), probabilities="agreement alone"))
    shown, said = capsys.readouterr()
    lines = [line.split()[0] for line in shown.splitlines() if line.startswith("annotator-")]
    assert lines == [f"annotator-{index:02d}" for index in (*range(BEST), *range(n - WORST, n))]
    assert "task default" in shown and "scale absolute" in shown, "said once"
    assert "no better than chance: 3 (34% of the labels): annotator-57, annotator-58, annotator-59" in said
    show_annotators(SimpleNamespace(expertise=table.head(BEST + WORST), probabilities="agreement alone"))
    shown, said = capsys.readouterr()
    assert "worst of" not in shown and "reliable: 15 (100% of the labels)" in said and "chance" not in said
