"""Training in a notebook: a bar and a table, and no dictionaries."""

from __future__ import annotations

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


def test_outside_a_notebook_nothing_is_drawn(tiny_model, tmp_path) -> None:
    made = trainer(tiny_model("bert"), small_annotations(5), tmp_path, disable_tqdm=False)
    assert made._progress is ignore_progress
    assert not any("Notebook" in type(callback).__name__ for callback in made.callback_handler.callbacks)


@pytest.mark.slow
def test_a_kernel_shows_a_table_and_no_dictionaries() -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    nbclient.NotebookClient(made, timeout=600, kernel_name="python3").execute()
    training, shown = ([output for output in cell.outputs] for cell in made.cells)
    tables = [output.data["text/html"] for output in training if output.output_type == "display_data"]
    assert any("Training Loss" in table and "Accuracy" in table for table in tables)
    text = "".join(output.text for output in training if output.output_type == "stream")
    assert "{'loss'" not in text and "eval_accuracy" not in text
    assert "4 of 4 steps" in shown[0].data["text/html"]
