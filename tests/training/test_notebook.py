"""Training in a notebook: a bar and a table, and no dictionaries."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from realm.progress import ignore_progress
from realm.testing import small_annotations
from tests.trainers import trainer

CELLS = (
    """
import tempfile
from realm import RealmConfig, RealmTrainer
from realm.testing import small_annotations, tiny_model

folder = tempfile.mkdtemp()
settings = dict(max_steps=4, logging_steps=1, eval_strategy="steps", eval_steps=2, use_cpu=True, save_strategy="no")
config = RealmConfig(f"{folder}/run", **settings)
test = small_annotations(8, seed=5)
trainer = RealmTrainer(tiny_model(f"{folder}/model"), small_annotations(12), config, test=test)
output = trainer.train()
""",
    "trainer",
)


def test_the_table_has_no_empty_column() -> None:
    pytest.importorskip("IPython")
    from realm.training.notebook import EMPTY, TrainingTable

    table = TrainingTable()
    args = SimpleNamespace(eval_strategy="steps")
    state = SimpleNamespace(max_steps=4, global_step=2, epoch=1.0, log_history=[{"loss": 0.5, "step": 2}])
    table.on_evaluate(args, state, None, {"eval_accuracy": 0.1})  # outside training: nothing to add it to
    table.on_train_begin(args, state, None)
    for step, accuracy in ((2, 0.75), (4, 0.8)):
        state.global_step = step
        table.on_evaluate(args, state, None, {"eval_accuracy": accuracy, "eval_log_loss": 0.6})
    names, *rows = table.training_tracker.inner_table
    assert EMPTY not in names
    assert [dict(zip(names, row, strict=True)) for row in rows] == [
        {"Step": 2, "Training Loss": 0.5, "Accuracy": 0.75, "Log Loss": 0.6},
        {"Step": 4, "Training Loss": 0.5, "Accuracy": 0.8, "Log Loss": 0.6},
    ]


def test_what_takes_long_has_a_bar_until_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("IPython")
    from realm.training import notebook

    now, drawn = [0.0], []

    class Bar:
        def __init__(self, total: int, prefix: str, leave: bool) -> None:
            drawn.append(f"{prefix} of {total}")

        def update(self, done: int) -> None:
            drawn.append(done)

        def close(self) -> None:
            drawn.append("closed")

    monkeypatch.setattr(notebook, "NotebookProgressBar", Bar)
    monkeypatch.setattr(notebook.time, "monotonic", lambda: now[0])
    bars = notebook.ProgressBars()
    for done in range(4):  # soon done
        bars("scoring", done, 3)
    assert drawn == []
    for done in range(5):  # two seconds each
        bars("scoring", done, 4)
        now[0] += 2
    assert drawn == ["scoring of 4", 1, 2, 3, "closed"]


def test_outside_a_notebook_nothing_is_drawn(tiny_model, tmp_path) -> None:
    made = trainer(tiny_model("bert"), small_annotations(5), tmp_path, disable_tqdm=False)
    assert made._progress is ignore_progress
    assert not any("Table" in type(callback).__name__ for callback in made.callback_handler.callbacks)


@pytest.mark.slow
def test_a_kernel_shows_a_table_and_no_dictionaries() -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    nbclient.NotebookClient(made, timeout=600, kernel_name="python3").execute()
    training, shown = ([output for output in cell.outputs] for cell in made.cells)
    tables = [output.data["text/html"] for output in training if output.output_type == "display_data"]
    assert any("Training Loss" in table and "Accuracy" in table for table in tables)
    assert not any("Validation Loss" in table for table in tables)
    text = "".join(output.text for output in training if output.output_type == "stream")
    assert "{'loss'" not in text and "eval_accuracy" not in text
    assert "4 of 4 steps" in shown[0].data["text/html"]
