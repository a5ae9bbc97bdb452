"""`Run`: a finished run read back, and what can be asked of it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml

from realm import Annotations, Items, RealmError, RealmTrainer, Run
from realm.files import read_tensors, write_manifest, write_yaml
from realm.runs.annotations_file import read_annotations, write_annotations
from tests.report.folders import crowd as crowd_of
from tests.report.folders import write_run
from tests.tiny import crowd, save_tiny
from tests.trainers import trainer


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> RealmTrainer:
    """A trainer that has written its run, with a test table."""
    folder = tmp_path_factory.mktemp("trained")
    model = save_tiny(folder / "model", "bert", layers=1, width=16)
    made = trainer(model, crowd(30, per_item=2), folder / "run", test=crowd(12, seed=5), write_run=True, max_steps=4)
    made.train()
    return made


@pytest.fixture(scope="module")
def run(trained: RealmTrainer) -> Run:
    return Run.open(trained.run)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A run folder without a model."""
    table, log_probs = crowd_of()
    return write_run(tmp_path / "run", table, log_probs, trained=np.linspace(0.1, 0.9, 5)[:, None])


# -------------------------------------------------------------------- what was trained is what is read


def test_tables_and_estimate_are_those_of_the_training(trained: RealmTrainer, run: Run) -> None:
    pd.testing.assert_frame_equal(run.expertise, trained.expertise())
    before, after = trained.estimate().to_arrays(), run.estimate.to_arrays()
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array, err_msg=name)
    np.testing.assert_array_equal(run.log_probs, trained.scores().log_probs.astype(np.float32))
    assert run.annotations.fingerprint() == trained.annotations.fingerprint()
    assert list(run.channel_summary) == ["expertise_trained"]
    trajectory = read_tensors(run.folder / "trajectory.safetensors")
    assert trajectory["steps"].tolist() == [1, 2, 3, 4]
    np.testing.assert_array_equal(trajectory["expertise_trained"][-1], run.channel_summary["expertise_trained"])


def test_labels_as_a_dataset_have_the_labels_by_name_and_number(run: Run) -> None:
    made, labels = run.labels_dataset(), run.labels
    assert made.features["label"].names == list(run.tasks[0].labels or ())
    assert made.features["label"].int2str(made["label"][:]) == labels["label"].tolist()
    assert made["confidence"][:] == labels["confidence"].tolist() and made["item"][:] == labels["item"].tolist()
    assert made.column_names == list(labels.columns)


def test_csv_files_hold_the_same_tables_for_people(run: Run) -> None:
    for name, table in (("expertise.csv", run.expertise), ("labels.csv", run.labels)):
        shown = pd.read_csv(run.folder / name, dtype={"item": str}, keep_default_na=name != "expertise.csv")
        pd.testing.assert_frame_equal(shown, table, check_dtype=False)


# -------------------------------------------------------------------- predict, evaluate, relabel


def test_texts_items_and_tables_get_the_same_answers(run: Run) -> None:
    texts = ["the small red bird", "a green tree", "the old boat"]
    answers = run.predict(texts)
    assert answers.columns.tolist() == ["item", "task", "label", "confidence", "probabilities"]
    assert answers["item"].tolist() == ["0", "1", "2"]
    assert set(answers["label"]) <= set(run.tasks[0].labels or ())
    pd.testing.assert_frame_equal(run.predict(Items.from_texts(texts, run.tasks)), answers)
    frame = pd.DataFrame({"text": texts, "note": [1, 2, 3]}, index=[7, 8, 8])
    table = run.predict(frame)
    pd.testing.assert_frame_equal(table[["text", "note"]], frame)
    pd.testing.assert_frame_equal(
        table[["label", "confidence", "probabilities"]].reset_index(drop=True), answers.iloc[:, 2:]
    )
    arrow = run.predict(pa.Table.from_pandas(frame, preserve_index=False))
    assert arrow["note"].tolist() == [1, 2, 3] and arrow["label"].tolist() == answers["label"].tolist()
    for row, log_probs in zip(answers.itertuples(), trained_log_probs(run, texts), strict=True):
        np.testing.assert_allclose(
            list(json.loads(row.probabilities).values()), np.exp(log_probs), rtol=1e-5, atol=1e-6
        )


def trained_log_probs(run: Run, texts: list[str]) -> np.ndarray:
    from realm.scorers.scoring import score

    scorer = run.scorer
    assert scorer is run.scorer, "loaded once"
    return score(scorer, scorer.encode(Items.from_texts(texts, run.tasks))).log_probs


@pytest.mark.parametrize(
    ("items", "arguments", "message"),
    [
        ("new.csv", {}, "looks like a file"),
        (Path("nosuch.csv"), {}, "nosuch.csv"),
        (["a"], {"context": "x"}, "`context` names a column"),
        (Items.from_texts(["a"], crowd(4).tasks), {"task": "nope"}, "know their own"),
        (3, {}, "`items` is int"),
        (["a", " "], {}, "text 2 is"),
        (pd.DataFrame({"text": ["a"]}), {"task": "nope"}, "there is no such column"),
    ],
)
def test_what_cannot_be_answered_is_refused(run: Run, items, arguments, message) -> None:
    with pytest.raises(RealmError, match=message):
        run.predict(items, **arguments)


def test_evaluate_gives_the_metrics_that_training_recorded(trained: RealmTrainer, run: Run, tmp_path: Path) -> None:
    test = trained.test
    assert test is not None
    metrics = run.evaluate(test)
    recorded = run.metrics["test"]
    assert _numbers(metrics) == pytest.approx(_numbers(recorded), rel=1e-5)
    assert metrics["labels"] == recorded["labels"] and metrics["confusion"] == recorded["confusion"]
    test.to_pandas()[["item", "text", "gold"]].drop_duplicates().to_csv(tmp_path / "test.csv", index=False)
    assert _numbers(run.evaluate(tmp_path / "test.csv")) == pytest.approx(_numbers(metrics), rel=1e-5)


def _numbers(metrics: dict[str, Any]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if isinstance(value, int | float)}


# -------------------------------------------------------------------- several tasks, items with options of their own


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of two tasks; the items of one list their own options."""
    folder = tmp_path_factory.mktemp("mixed")
    model = save_tiny(folder / "model", "causal", layers=1, width=16)
    trained = trainer(model, mixed_table(), folder / "run", write_run=True, max_steps=2, answers="letters")
    trained.train()
    return Run.open(trained.run)


def test_a_run_of_several_tasks_answers_items_of_each(mixed: Run) -> None:
    two = pd.DataFrame({"text": ["a green tree", "the old boat"], "task": "fixed", "context": ["near", None]})
    answers = mixed.predict(two)
    assert set(answers["task"]) == {"fixed"} and set(answers["label"]) <= {"no", "yes"}
    frame = pd.DataFrame(
        {"item": ["1", "2"], "text": ["a green tree", "which?"], "task": ["fixed", "own"], "context": ["near", ""],
         "options": [None, ["red", "blue", "green"]]}
    )  # fmt: skip
    table = mixed.predict(frame)
    assert table["task"].tolist() == ["fixed", "own"]
    assert [list(json.loads(each)) for each in table["probabilities"]] == [["no", "yes"], ["red", "blue", "green"]]
    first = answers.loc[0, ["label", "confidence"]].tolist()
    assert table.loc[0, ["label", "confidence"]].tolist() == pytest.approx(first)
    of_items = mixed.predict(Items.from_pandas(frame, tasks=mixed.tasks))
    pd.testing.assert_frame_equal(of_items, table.drop(columns=["text", "options", "context"]))
    for arguments, message in (({}, "name the task"), ({"task": "own"}, "list their own options"),
                               ({"task": "third"}, "name the task"), ({"task": "fixed"}, "no context")):  # fmt: skip
        with pytest.raises(RealmError, match=message):
            mixed.predict(["a green tree"], **arguments)


def test_a_run_of_several_tasks_is_evaluated_in_all_and_by_task(mixed: Run) -> None:
    test = replace(mixed.annotations, gold=np.array([0, 1, 1, 0, 0, 2], np.int32))
    metrics = mixed.evaluate(test)
    assert metrics["items"] == 6 and {name: each["items"] for name, each in metrics["tasks"].items()} == {
        "fixed": 3, "own": 3
    }  # fmt: skip
    answers = mixed.predict(test.items)["label"]
    gold = [test.label_name(row, label) for row, label in enumerate(test.gold)]
    assert metrics["accuracy"] == pytest.approx((answers == gold).mean())


def test_labels_in_another_order_are_refused(run: Run, mixed: Run) -> None:
    """Answers are numbers: under other labels they would silently mean something else."""
    [task] = run.tasks
    turned = [replace(task, labels=task.labels[::-1])]
    with pytest.raises(RealmError, match=r"`tasks=run\.tasks`"):
        run.predict(Items.from_texts(["a"], turned))
    with pytest.raises(RealmError, match=r"`tasks=run\.tasks`"):
        run.evaluate(replace(crowd(4), items=replace(crowd(4).items, tasks=tuple(turned))))
    with pytest.raises(RealmError, match=r"`tasks=run\.tasks`"):
        mixed.predict(Items.from_texts(["a"], run.tasks))
    with pytest.raises(RealmError, match="no gold labels"):
        run.evaluate(replace(run.annotations, gold=None))


# -------------------------------------------------------------------- files


def test_state_is_booleans_and_numbers(run: Run, tmp_path: Path) -> None:
    config = yaml.safe_load((run.folder / "config.yaml").read_text())
    metrics = json.loads((run.folder / "metrics.json").read_text())
    assert config["gold_used"] is False and config["format"] == 2 and config["settings"]["use_gold"] is False
    assert metrics["out_of_fold"] is False and metrics["folds"] == 0 and metrics["temperature"] == 1.0
    assert run.gold_used is False
    table, log_probs = crowd_of()
    folds = Run.open(write_run(tmp_path / "folds", table, log_probs, folds=5, gold_used=True))
    assert folds.metrics["out_of_fold"] is True and folds.gold_used is True and folds.metrics["folds"] == 5
    assert set(folds.expertise["probabilities"]) == {"out of fold (5 folds)"}


def test_a_csv_edited_by_hand_changes_nothing(written: Path, realm_cli: Any, tmp_path: Path) -> None:
    def outputs() -> list[Any]:
        run = Run.open(written)
        code, _, error = realm_cli("relabel", written, "--output", tmp_path / "relabel.csv", "--overwrite")
        assert code == 0, error
        assert realm_cli("report", written)[0] == 0
        files = (written / "report.html", tmp_path / "relabel.csv")
        return [run.expertise.to_csv(), run.labels.to_csv(), *(path.read_bytes() for path in files)]

    before = outputs()
    for name in ("expertise.csv", "labels.csv"):
        text = (written / name).read_text()
        (written / name).write_text(text.replace("worker-1", "worker-3").replace("0.", "0.9"))
    assert outputs() == before
    for name in ("expertise.csv", "labels.csv"):
        (written / name).unlink()
    assert outputs() == before


@pytest.mark.parametrize("format", [None, 1, 3, "2"])
def test_a_run_of_another_version_is_refused_in_words(format: Any, written: Path) -> None:
    config = yaml.safe_load((written / "config.yaml").read_text())
    config |= {"realm": "9.9.9", "format": format}
    write_yaml(written / "config.yaml", {name: value for name, value in config.items() if value is not None})
    write_manifest(written)
    with pytest.raises(RealmError, match=r"written by realm 9\.9\.9 in format .*Train again"):
        Run.open(written)


def test_folders_that_hold_no_finished_run(written: Path, tmp_path: Path) -> None:
    with pytest.raises(RealmError, match="no such run folder"):
        Run.open(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(RealmError, match="not a run folder"):
        Run.open(tmp_path / "empty")
    (written / "manifest.json").unlink()
    with pytest.raises(RealmError, match=r"did not finish; .*`resume`"):
        Run.open(written)


def test_only_the_model_may_go_unverified(run: Run, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run.folder, copy)
    (copy / "model" / "config.json").write_text("{}")
    assert len(Run.open(copy, verify_model=False).expertise)
    with pytest.raises(RealmError, match=r"model/config\.json was changed"):
        Run.open(copy)
    (copy / "estimate.safetensors").write_bytes(b"")
    with pytest.raises(RealmError, match=r"estimate\.safetensors was changed"):
        Run.open(copy, verify_model=False)


def test_reading_a_run_imports_no_torch(written: Path) -> None:
    code = (
        "import sys; from realm import Run; from realm.report.run_page import write_report; "
        f"run = Run.open({str(written)!r}); run.expertise, run.labels, run.relabel(3); "
        "write_report(run); assert 'torch' not in sys.modules, 'torch was imported'"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def mixed_table() -> Annotations:
    """Two tasks, one whose items list their own options; contexts, weights, gold, an item that nobody labelled."""
    rows = []
    for item in range(6):
        options = [f"=a{item}", "1", "2"][: 2 + item % 2] if item % 2 else None
        for annotator in ("zoe", "007", "'x"):
            label = options[item % 2] if options else ["no", "yes"][annotator == "zoe"]
            row = {"item": str(item), "task": "own" if options else "fixed", "text": f"text\r\n{item}"}
            rows.append({**row, "context": None if item == 3 else f"c{item}", "options": options,
                         "annotator": annotator, "label": label})  # fmt: skip
    table = Annotations.from_pandas(pd.DataFrame(rows)).keep_annotations(np.arange(18) >= 3)
    generator = np.random.default_rng(0)
    gold = np.array([-1, 0, 0, 1, -1, 0], np.int32)
    return replace(
        table, gold=gold, weight=generator.random(15), annotators=(*table.annotators[::-1], "without annotations"),
        annotator=(2 - table.annotator).astype(np.int32),
    )  # fmt: skip


@pytest.mark.parametrize("plain", [True, False])
def test_annotations_are_read_back_exactly(plain: bool, tmp_path: Path) -> None:
    before = crowd_of()[0] if plain else mixed_table()
    write_annotations(before, tmp_path / "a.parquet")
    after = read_annotations(tmp_path / "a.parquet", before.tasks, before.annotators)
    assert after.annotators == before.annotators and after.tasks == before.tasks
    for name in ("item", "annotator", "label", "weight", "gold"):
        one, other = getattr(before, name), getattr(after, name)
        assert (one is None) == (other is None), name
        if one is not None:
            assert one.dtype == other.dtype, name
            np.testing.assert_array_equal(one, other, err_msg=name)
    for name in ("ids", "texts", "contexts", "options"):
        one, other = getattr(before.items, name), getattr(after.items, name)
        assert one is other is None or one.to_pylist() == other.to_pylist(), name
    assert after.fingerprint(gold=True) == before.fingerprint(gold=True)


def test_training_estimates_once(tmp_path: Path, realm_cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of the run, the report and the table on the screen come from one estimate."""
    import realm.crowd.model as module

    calls: list[object] = []
    original = module.estimate_from_evidence
    monkeypatch.setattr(module, "estimate_from_evidence", lambda *a, **k: (calls.append(1), original(*a, **k))[1])
    model = save_tiny(tmp_path / "model", "bert", layers=1, width=16)
    crowd(10).to_pandas().to_csv(tmp_path / "labels.csv", index=False)
    code, out, error = realm_cli(
        "train", tmp_path / "labels.csv", "--model", model, "--steps", 1, "--output", tmp_path / "run"
    )
    assert code == 0, error
    assert len(calls) == 1
    run = Run.open(tmp_path / "run")
    assert f"{run.expertise['accuracy'].max():.3f}" in out


def test_groups_are_read_back_and_damaged_ones_refused(tmp_path) -> None:
    before = crowd(20, gold=False)
    before = replace(before, groups=("person", "model", "model"))
    write_annotations(before, tmp_path / "a.parquet")
    after = read_annotations(tmp_path / "a.parquet", before.tasks, before.annotators)
    assert after.groups == before.groups and after.fingerprint() == before.fingerprint()
    with pytest.raises(RealmError, match="groups must have one entry for each annotator"):
        read_annotations(tmp_path / "a.parquet", before.tasks, (*before.annotators, "more"))
    plain = replace(before, groups=None)
    write_annotations(plain, tmp_path / "a.parquet")
    assert read_annotations(tmp_path / "a.parquet", plain.tasks, plain.annotators).groups is None
