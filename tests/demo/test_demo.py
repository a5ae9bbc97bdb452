from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from realm.cli.demo import _check_folder
from realm.cli.main import app
from realm.data import Annotations
from realm.demo.grammar import SLOT, load_grammar, messages
from realm.errors import RealmError
from tests.tiny import save_tiny

# -------------------------------------------------------------------- the grammar


def pattern_of(sentences: list[str], words: dict[str, list[str]]) -> re.Pattern[str]:
    """A regular expression for everything that sentences of the grammar can become."""
    choices = {slot: f"(?:{'|'.join(map(re.escape, each))})" for slot, each in words.items()}
    parts = [SLOT.split(sentence) for sentence in sentences]
    filled = ("".join(choices[p] if i % 2 else re.escape(p) for i, p in enumerate(split)) for split in parts)
    return re.compile("|".join(filled), re.IGNORECASE)


def test_messages_are_distinct_balanced_and_seeded() -> None:
    table = messages(2000, seed=3)
    texts = table.texts.to_pylist()
    assert len(set(texts)) == table.n_items == 2000
    assert table.gold is not None
    assert np.bincount(table.gold).tolist() == [500] * 4
    assert texts == messages(2000, seed=3).texts.to_pylist()
    assert texts != messages(2000, seed=4).texts.to_pylist()
    assert table.n_annotations == 0


def test_a_message_has_the_trouble_of_its_label_and_many_mention_another_that_is_fine() -> None:
    grammar = load_grammar()
    patterns = {
        kind: {label: pattern_of(parts[kind], grammar["words"]) for label, parts in grammar["matters"].items()}
        for kind in ("trouble", "fine")
    }
    table = messages(600, seed=1)
    assert table.gold is not None
    mentioned = 0
    for text, gold in zip(table.texts.to_pylist(), table.gold, strict=True):
        label = list(grammar["matters"])[gold]
        assert [name for name, pattern in patterns["trouble"].items() if pattern.search(text)] == [label], text
        fine = [name for name, pattern in patterns["fine"].items() if pattern.search(text)]
        assert label not in fine
        mentioned += bool(fine)
    assert mentioned > 150


def test_more_messages_than_there_are_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    matters = {"a": {"trouble": ["x"], "fine": ["y"]}, "b": {"trouble": ["z"], "fine": ["w"]}}
    small = {"frames": ["{Trouble}."], "matters": matters, "asides": ["u"], "words": {}}
    monkeypatch.setattr("realm.demo.grammar.load_grammar", lambda: small)
    with pytest.raises(RealmError, match="cannot write 9"):
        messages(9)


# -------------------------------------------------------------------- the experiments


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny(tmp_path_factory.mktemp("tiny") / "encoder", "bert")


@pytest.fixture
def small(tiny: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> object:
    """The demo on a tiny random model, with few items and steps, as `--quick`."""
    from realm.demo import experiments

    monkeypatch.setenv("REALM_HOME", str(tmp_path / "home"))
    counts = {
        "items": 36,
        "test_items": 16,
        "second_items": 12,
        "steps": 4,
        "second_steps": 2,
        "batch": 8,
        "train_layers": 1,
    }
    size = replace(experiments.QUICK, model=tiny, **counts)
    monkeypatch.setattr(experiments, "QUICK", size)
    return size


def test_every_method_of_an_experiment_gets_the_same_budget(small: object, tmp_path: Path) -> None:
    from realm.demo.experiments import CROWD, Demo

    demo = Demo(small, tmp_path / "demo")  # type: ignore[arg-type]
    cells = demo.experiments()
    titles, methods = ["one label per item", "3 labels per item"], ["realm", "noisy", "oracle"]
    several = ["realm", "majority", "dawid-skene"]
    assert [[(each.method, each.steps) for each in cells[title]] for title in titles] == [
        [(method, 4) for method in methods], [(method, 2) for method in several],
    ]  # fmt: skip
    assert all(each.settings == cells[titles[0]][0].settings for each in (*cells[titles[0]], *cells[titles[1]]))
    shown: list[tuple[str, str]] = []
    first, second = demo.run(lambda what, result: shown.append((result.title, what)))
    # each table as soon as it can be: the first one after a single training
    assert shown == [
        *((titles[0], what) for what in ("annotators", *methods, "figures")),
        *((titles[1], what) for what in ("annotators", *several, "figures")),
    ]
    assert list(first.accuracy) == methods
    assert list(second.accuracy) == several
    for outcome in (first, second):
        people = outcome.annotators
        assert people is not None and set(people["annotator"]) == set(CROWD)
        assert (people["learned"].diff().dropna() <= 0).all()
        assert people["true"].between(0, 1).all()
    assert (demo.run_folder / "report.html").exists()
    assert (demo.run_folder / "model" / "config.json").exists()
    assert sorted(path.name for path in demo.folder.iterdir()) == ["labels.csv", "run", "test.csv"]
    labels, test = Annotations.read(demo.folder / "labels.csv"), Annotations.read_test(demo.folder / "test.csv")
    assert (labels.annotations_per_item == 1).all() and labels.n_items == 36
    assert not set(labels.texts.to_pylist()) & set(test.texts.to_pylist())


def test_the_second_experiment_has_several_labels_for_some_of_the_items(small: object, tmp_path: Path) -> None:
    from realm.demo.experiments import Demo

    demo = Demo(small, tmp_path)  # type: ignore[arg-type]
    first, second = (cells[0].data.annotations for cells in demo.experiments().values())
    assert (second.annotations_per_item == 3).all()
    assert set(second.texts.to_pylist()) < set(first.texts.to_pylist())
    assert len(replace(demo, second=False).experiments()) == 1


def test_a_language_model_is_measured_before_training_too(small: object, tmp_path: Path) -> None:
    from realm.demo.experiments import Demo

    model = save_tiny(tmp_path / "causal", "causal")
    size = replace(small, model=model, answers="names", steps=1)  # type: ignore[type-var]
    (result,) = Demo(size, tmp_path / "demo", second=False).run(lambda what, result: None)
    assert list(result.figures) == ["before training", "realm", "noisy", "oracle"]
    assert result.figures["before training"]["log_loss"] > 0


def test_the_command_ends_with_tables_report_and_what_to_type_next(
    small: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch)
    result = CliRunner().invoke(app, ["demo", "--quick", "--output", str(tmp_path / "out")], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    for words in ("macro F1", "Ada", "true", "learned", "report.html", "realm check labels.csv", "realm train"):
        assert words in result.stdout
    assert "right" in result.stderr and "{'loss'" not in result.output
    again = CliRunner().invoke(app, ["demo", "--quick", "--output", str(tmp_path / "out"), "--json"])
    record = json.loads(again.stdout)
    assert record == json.loads((tmp_path / "out" / "demo.json").read_text())
    assert [experiment["title"] for experiment in record["experiments"]] == ["one label per item", "3 labels per item"]


def test_a_demo_that_was_killed_at_its_start_may_be_given_again(tmp_path: Path) -> None:
    _check_folder(tmp_path / "absent")
    for name in (".realm.lock", ".demo.json.realm-a1b2c3d4.json"):
        (tmp_path / name).touch()
    _check_folder(tmp_path)
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(RealmError, match="not written by"):
        _check_folder(tmp_path)
    (tmp_path / "demo.json").touch()
    _check_folder(tmp_path)


@pytest.mark.slow
def test_the_quick_demo_on_its_real_model(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["demo", "--quick", "--output", str(tmp_path), "--json"], catch_exceptions=False)
    first, second = json.loads(result.stdout)["experiments"]
    accuracy = {method: figures["accuracy"] for method, figures in first["figures"].items()}
    assert accuracy["realm"] > accuracy["noisy"] + 0.05
    ranked = [person["annotator"] for person in first["annotators"]]
    assert set(ranked[:2]) == {"Ada", "Ben"}
    assert set(person["annotator"] for person in second["annotators"][:2]) == {"Ada", "Ben"}


def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of the test's own counts as present: nothing is fetched."""
    from realm.cli import demo

    monkeypatch.setattr(demo, "fetch_named_model", lambda name: None)
