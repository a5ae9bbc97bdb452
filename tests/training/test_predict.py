"""`trainer.predict` answers; test tables that were trained on are noticed."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from realm.data import Annotations, Items, Task
from realm.data.overlap import shown_in
from realm.errors import RealmError
from realm.runs import Run
from tests.tiny import crowd
from tests.trainers import trainer

# -------------------------------------------------------------------- trainer.predict


def test_predict_gives_log_probabilities_and_what_gold_says(tiny_model, tmp_path) -> None:
    """It returned None within a `PredictionOutput`."""
    made = trainer(tiny_model("bert"), crowd(20), tmp_path / "run", write_run=True, max_steps=2)
    made.train()
    test = crowd(12, seed=5)
    answers = made.predict(test)
    np.testing.assert_allclose(np.exp(answers.predictions).sum(axis=1), 1, rtol=1e-6)
    assert answers.label_ids.tolist() == test.gold.tolist()
    right = float((answers.predictions.argmax(1) == test.gold).mean())
    assert made.evaluate(test)["eval_accuracy"] == pytest.approx(right)
    run = Run.open(tmp_path / "run")
    shares = [json.loads(row) for row in run.predict(test.items)["probabilities"]]
    expected = np.array([[row[label] for label in test.tasks[0].labels] for row in shares])
    np.testing.assert_allclose(np.exp(answers.predictions), expected, atol=2e-5)
    same = made.predict(test.items)
    np.testing.assert_allclose(same.predictions, answers.predictions, rtol=1e-5, atol=1e-6)
    assert same.label_ids is None


def test_predict_says_what_it_takes(tiny_model, tmp_path) -> None:
    made = trainer(tiny_model("bert"), crowd(20), tmp_path)
    for asked in (3, ["a"], Items.from_texts(["a"], [Task("x", ("p", "q"))])):
        with pytest.raises(RealmError, match=r"with `tasks=annotations.tasks`"):
            made.predict(asked)


# -------------------------------------------------------------------- test items that were trained on


def leaked(table: Annotations, test: Annotations, count: int, change=str) -> Annotations:
    """The test table with so many of its items replaced by ones that are trained on."""
    old, new = table.to_pandas(), test.to_pandas()
    columns = ["item", "text", "gold"]
    old, new = (frame[columns].drop_duplicates("item") for frame in (old, new))
    both = pd.concat([old.head(count).assign(item=lambda f: "old" + f["item"]), new.iloc[count:]])
    both.loc[both["item"].str.startswith("old"), "text"] = both["text"].map(change)
    return Annotations.test_from_pandas(both, tasks=table.tasks)


@pytest.mark.parametrize("change", [str, str.upper, lambda text: f"  {text.replace(' ', '   ')} "])
def test_test_items_that_were_trained_on_are_counted_and_said(change, tiny_model, tmp_path) -> None:
    table, test = crowd(20), crowd(12, seed=5)
    mixed = leaked(table, test, 4, change)
    made = trainer(tiny_model("bert"), table, tmp_path / "run", test=mixed, write_run=True, max_steps=1)
    assert any("4 of the 12 test items are among those trained on" in text for text in made.warnings)
    made.train()
    run = Run.open(tmp_path / "run")
    assert any("4 of the 12 test items" in text for text in run.metrics["warnings"])
    assert run.metrics["test"]["items_trained_on"] == 4 == run.evaluate(mixed)["items_trained_on"]
    clean = trainer(tiny_model("bert"), table, tmp_path / "clean", test=test)
    assert not any("trained on" in text for text in clean.warnings)
    assert run.evaluate(test)["items_trained_on"] == 0


def test_a_test_table_most_of_which_was_trained_on_is_refused(tiny_model, tmp_path) -> None:
    table, test = crowd(20), crowd(12, seed=5)
    trainer(tiny_model("bert"), table, tmp_path, test=leaked(table, test, 6))  # half is not above half
    with pytest.raises(RealmError, match="7 of the 12 test items"):
        trainer(tiny_model("bert"), table, tmp_path, test=leaked(table, test, 7))
    with pytest.raises(RealmError, match="20 of the 20 test items"):
        trainer(tiny_model("bert"), table, tmp_path, test=table)


def test_a_test_table_without_the_context_that_is_trained_on_is_refused(tiny_model, tmp_path) -> None:
    table = Annotations.from_pandas(crowd(20).to_pandas().assign(context="near a boat"))
    test = Annotations.test_from_pandas(crowd(12, seed=5).to_pandas(), tasks=table.tasks)
    with pytest.raises(RealmError, match="`context`"):
        trainer(tiny_model("bert"), table, tmp_path, test=test)


def test_one_text_under_two_contexts_or_in_two_tasks_is_not_the_same_item() -> None:
    tasks = [Task("a", ("x", "y")), Task("b", ("x", "y")), Task("own", None)]
    rows = [("a", "t", "c", None), ("b", "t", None, None), ("own", "q", None, ["p", "q"])]
    frame = pd.DataFrame(rows, columns=["task", "text", "context", "options"])
    items = Items.from_pandas(frame, tasks=tasks)
    others = [("a", "t", "d", None), ("a", "t", None, None), ("own", "q", None, ["p", "z"])]
    other = Items.from_pandas(pd.DataFrame(others, columns=frame.columns), tasks=tasks)
    assert shown_in(items, items).all() and not shown_in(items, other).any()
    same = frame.assign(text=["T ", " t", "Q"], options=[None, None, ["Q", "P "]])
    assert shown_in(Items.from_pandas(same, tasks=tasks), items).all()
