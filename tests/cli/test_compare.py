"""`realm compare`: methods side by side, kept when finished."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.tiny import crowd


@pytest.fixture
def common(tmp_path, tiny_model):
    crowd(60, (0.9, 0.8, 0.4, 0.3)).to_pandas().to_csv(tmp_path / "labels.csv", index=False)
    test = crowd(30, seed=5).to_pandas()[["item", "text", "gold"]].drop_duplicates()
    test.to_csv(tmp_path / "test.csv", index=False)
    return [
        "compare",
        tmp_path / "labels.csv",
        "--test",
        tmp_path / "test.csv",
        "--model",
        tiny_model("bert"),
        "--output",
        tmp_path / "out",
        "--steps",
        "2",
        "--seeds",
        "2",
    ]


def stored(folder: Path) -> dict[tuple[str, int], dict]:
    """The record of each training of a comparison."""
    records = (json.loads(path.read_text()) for path in (folder / "cells").glob("*.json"))
    return {(r["content"]["method"], r["content"]["seed"]): r for r in records}


def test_another_gold_is_another_comparison(common, realm_cli, tmp_path) -> None:
    assert realm_cli(*common, "--methods", "realm,oracle")[0] == 0
    test = pd.read_csv(tmp_path / "test.csv")
    test.assign(gold=test["gold"].sample(frac=1, random_state=0).to_list()).to_csv(tmp_path / "test.csv", index=False)
    code, _, error = realm_cli(*common, "--methods", "realm")
    assert code == 2 and "other data or settings" in error
    test.to_csv(tmp_path / "test.csv", index=False)
    labels = pd.read_csv(tmp_path / "labels.csv")
    labels.assign(gold=labels["gold"].iloc[0]).to_csv(tmp_path / "labels.csv", index=False)
    assert realm_cli(*common, "--methods", "realm")[0] == 0
    code, _, error = realm_cli(*common, "--methods", "oracle")
    assert code == 2 and "other data or settings" in error


def with_training_texts(words: list, test: Path, count: int) -> list:
    """The same command with a test table so many of whose 30 items are trained on."""
    labels, before = Path(words[1]), words.index("--test") + 1
    old = pd.read_csv(labels).drop_duplicates("item")[["item", "text", "gold"]].head(count)
    new = pd.read_csv(words[before]).iloc[count:]
    pd.concat([old.assign(item="old" + old["item"]), new]).to_csv(test, index=False)
    return [*words[:before], test, *words[before + 1 :]]


def test_training_texts_in_the_test_are_said_everywhere(common, realm_cli, tmp_path) -> None:
    words = with_training_texts(common, tmp_path / "leaked.csv", 9)
    code, _, err = realm_cli(*words, "--methods", "noisy,realm", "--seeds", "1")
    said = "9 of the 30 test items are among those trained on"
    assert code == 0 and said in " ".join(err.split())
    assert any(said in text for text in json.loads((tmp_path / "out" / "results.json").read_text())["warnings"])
    assert said in (tmp_path / "out" / "report.html").read_text()


def test_a_test_of_training_texts_is_refused(common, realm_cli, tmp_path) -> None:
    code, _, err = realm_cli(*with_training_texts(common, tmp_path / "leaked.csv", 16))
    assert code == 2 and "16 of the 30 test items" in " ".join(err.split())
    assert not (tmp_path / "out").exists()


def test_an_oracle_without_gold_names_the_flag_of_the_methods(common, realm_cli, tmp_path) -> None:
    """The message spoke of --method, which `compare` has not."""
    pd.read_csv(common[1]).drop(columns="gold").to_csv(tmp_path / "labels.csv", index=False)
    code, _, err = realm_cli(*common, "--methods", "oracle,realm")
    assert code == 2 and "`methods`: oracle needs gold" in " ".join(err.split())


@pytest.mark.parametrize("change", [str, str.upper, lambda text: f" {text}\t"])
def test_gold_that_is_trained_on_must_be_held_out_of_the_test(change, common, realm_cli, tmp_path) -> None:
    labels, test = Path(common[1]), tmp_path / "leaked.csv"
    table = pd.read_csv(labels)
    leaked = table.drop_duplicates("item").head(3)
    leaked.assign(text=leaked["text"].map(change)).to_csv(test, index=False)
    words = [*common]
    words[words.index("--test") + 1] = test
    code, _, err = realm_cli(*words, "--use-gold", "--output", tmp_path / "out")
    assert code == 2 and "`use_gold`: 3 of the items whose gold" in err
    assert not (tmp_path / "out").exists()


def test_a_comparison_says_that_gold_was_used_and_ranks_nobody_by_it(common, realm_cli, tmp_path) -> None:
    words = [*common, "--methods", "realm,noisy", "--seeds", 1]
    for flags in ([], ["--use-gold"]):
        folder = tmp_path / f"out{len(flags)}"
        code, _, err = realm_cli(*words, *flags, "--output", folder)
        assert code == 0, err
        assert json.loads((folder / "results.json").read_text())["gold_used"] is bool(flags)
        assert ("expertise_spearman" in pd.read_csv(folder / "results.csv")) == (not flags)
        assert ("Gold was used" in (folder / "report.html").read_text()) == bool(flags)


def test_overwrite_removes_only_comparisons(common, realm_cli, tmp_path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("precious")
    code, _, error = realm_cli(*common, "--overwrite")
    assert code == 2 and "holds no" in error and (tmp_path / "out" / "thesis.tex").exists()


def mean_of(results: pd.DataFrame, method: str, figure: str) -> float:
    return results[results["method"] == method][figure].mean()


def test_every_method_has_the_steps_of_realm(common, realm_cli, tmp_path) -> None:
    """Where epochs decide: the oracle has fewer items, and other methods one label for several annotations."""
    labels = pd.read_csv(common[1])
    labels.loc[labels["item"] < "i3", "gold"] = None
    labels.to_csv(tmp_path / "labels.csv", index=False)
    words = [*common[:-4], "--seeds", 1, "--epochs", 1, "--micro-batch-size", 16]
    assert realm_cli(*words, "--methods", "realm,majority,oracle")[0] == 0
    steps = {
        method: record["config"]["settings"]["max_steps"] for (method, _), record in stored(tmp_path / "out").items()
    }
    assert steps == dict.fromkeys(("realm", "majority", "oracle"), 4), "60 items in batches of 16"
    assert any("trained for 4 steps" in text for text in stored(tmp_path / "out")["realm", 0]["config"]["warnings"])


def test_one_row_per_method_and_finished_cells_are_kept(common, realm_cli, tmp_path) -> None:
    code, out, error = realm_cli(*common)
    assert code == 0, error
    results = pd.read_csv(tmp_path / "out" / "results.csv")
    assert list(results["method"].unique()) == ["realm", "noisy", "majority", "dawid-skene", "oracle"]
    assert len(results) == 10 and results["accuracy"].between(0, 1).all()
    summary = json.loads((tmp_path / "out" / "results.json").read_text())
    noisy = next(entry for entry in summary["methods"] if entry["method"] == "noisy")
    pd.testing.assert_frame_equal(pd.DataFrame(summary["trainings"]), results, check_dtype=False)
    mine = results[results["method"] == "noisy"]["accuracy"]
    assert noisy["mean"] == pytest.approx(mine.mean()) and noisy["std"] == pytest.approx(mine.std(ddof=1))
    assert {"p_seeds", "p_items", "interval_items"} <= set(noisy)
    assert "dawid-skene" in out and "macro F1" in out and "(base rate)" in out
    assert "Always giving the most frequent label" in error
    assert summary["ranking"]["by"] == "macro_f1" and set(summary["ranking"]["order"]) == set(results["method"])
    [task] = noisy["labels"]
    answered = np.array(task["confusion"])
    assert answered.sum() == 2 * 30 and [row["support"] for row in task["labels"]] == (answered.sum(1) / 2).tolist()
    assert noisy["figures"]["macro_f1"]["mean"] == pytest.approx(mean_of(results, "noisy", "macro_f1"))
    base_rate = pd.read_csv(common[3])["gold"].value_counts(normalize=True).max()
    assert results["base_rate"].unique() == pytest.approx([base_rate])
    finished = stored(tmp_path / "out")
    (tmp_path / "out" / "cells" / f"{finished['noisy', 1]['id']}.json").unlink()
    code, _, error = realm_cli(*common)
    assert code == 0 and "noisy, seed 1" in error and "seed 0" not in error
    again = pd.read_csv(tmp_path / "out" / "results.csv")
    pd.testing.assert_frame_equal(again, results)
    changed = {key for key, record in stored(tmp_path / "out").items() if finished[key] != record}
    assert changed == {("noisy", 1)} and len(finished) == 10
    code, _, error = realm_cli(*common[:-4], "--steps", "3", "--seeds", "2")
    assert code == 2 and "other data or settings" in error


def test_a_comparison_says_how_far_each_training_is(common, realm_cli, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("realm.cli.progress.SOONEST", 0.0)
    code, out, error = realm_cli(*common, "--methods", "noisy,realm", "--seeds", 1, "--json")
    assert code == 0 and json.loads(out)["seeds"] == 1, error
    log = (tmp_path / "out" / "progress.log").read_text()
    for text in (error, log):
        for method in ("noisy", "realm"):
            assert f"{method} seed 0" in text and "[1/2] noisy, seed 0: accuracy" in text
        assert re.search(r"shared realm seed 0.*, training: 1 of \d+ \(\d+%\), about", text)
    assert f"Progress is logged to {tmp_path / 'out' / 'progress.log'}" in " ".join(error.split())
    code, out, error = realm_cli(*common, "--methods", "noisy,realm", "--seeds", 1)
    assert code == 0 and "training:" not in error, "nothing is trained again"
    assert "±" not in out, "one seed has no spread"
    summary = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [entry["std"] for entry in summary["methods"]] == [None, None]
    assert summary["methods"][0]["figures"]["accuracy"]["std"] is None


def test_sparse_leaves_aggregation_out(common, realm_cli, tmp_path) -> None:
    code, _, error = realm_cli(*common, "--regime", "sparse", "--methods", "noisy,majority,oracle")
    assert code == 0, error
    assert set(pd.read_csv(tmp_path / "out" / "results.csv")["method"]) == {"noisy", "oracle"}
    assert "majority: left out, because every item has one annotation" in error


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--methods", "magic"], "magic"),
        (["--regime", "dense"], "`regime=dense`"),
    ],
)
def test_flags_that_make_no_sense(flags, said, common, realm_cli) -> None:
    code, _, error = realm_cli(*common, *flags)
    assert code == 2 and said in error
