"""The method in one file gives the loss and the gradient of the package."""

from __future__ import annotations

import ast
import importlib.util
import runpy
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from realm.data import Annotations
from tests.forked import call
from tests.tiny import COLOURS, crowd, save_tiny
from tests.trainers import trainer

FILE = Path(__file__).parents[2] / "examples" / "realm_in_100_lines.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("realm_in_100_lines", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_is_short_and_imports_nothing_of_the_package() -> None:
    source = FILE.read_text()
    assert len(source.splitlines()) <= 100 and max(map(len, source.splitlines())) <= 120
    for node in ast.walk(ast.parse(source)):
        imported = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        imported += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert not [name for name in imported if name.split(".")[0] == "realm"]


@pytest.mark.parametrize("kind", ["causal", "gpt2"])
@pytest.mark.parametrize("objective", ["paper", "joint"])
@pytest.mark.parametrize("per_item", [1, 3])
def test_loss_and_gradient_are_those_of_the_package(kind, objective, per_item, example, tiny_model, tmp_path) -> None:
    table = crowd(12, (0.9, 0.6, 0.3), per_item=per_item)
    made = trainer(tiny_model(kind), table, tmp_path, double=True, objective=objective, answers="letters")
    model = made.model.eval()
    with torch.no_grad():
        model.channel.omega[:, 0] = torch.tensor([1.5, 0.2, -1.0])
    (batch,) = made.get_train_dataloader()
    (-model(**batch).sum() / model.count(batch)).backward()
    package = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    package_loss = -model(**batch).sum().item() / model.count(batch)

    model.zero_grad()
    omega = model.channel.omega.detach()[:, 0].clone().requires_grad_()
    item, annotator, label = (torch.from_numpy(column).long() for column in (table.item, table.annotator, table.label))
    log_p = example.log_probabilities(
        made.scorer.backbone, made.scorer.tokenizer, table.texts.to_pylist(), table.tasks[0].labels
    )
    value = example.loss(log_p, example.evidence(omega, annotator, label, 4), item, objective)
    value.backward()
    assert value.item() == pytest.approx(package_loss, rel=1e-9)
    torch.testing.assert_close(omega.grad, package.pop("channel.omega")[:, 0], rtol=1e-7, atol=1e-10)
    assert len(package) > 10
    for name, parameter in made.scorer.backbone.named_parameters(prefix="scorer.backbone"):
        if name in package:
            torch.testing.assert_close(parameter.grad, package[name], rtol=1e-6, atol=1e-9, msg=name)


def run_script(words: list[str]) -> None:
    sys.argv = words
    runpy.run_path(words[0], run_name="__main__")


def test_it_runs_from_a_table_to_a_model(tmp_path) -> None:
    table: Annotations = crowd(80, (0.97, 0.25), seed=1)
    table.to_pandas()[["text", "annotator", "label"]].to_csv(tmp_path / "labels.csv", index=False)
    model = save_tiny(tmp_path / "model", "causal")
    source = FILE.read_text().replace(
        "RATE, EXPERTISE_RATE = 3, 16, 5e-5, 0.1", "RATE, EXPERTISE_RATE = 8, 16, 3e-3, 0.1"
    )
    assert "8, 16, 3e-3" in source
    (tmp_path / "script.py").write_text(source)
    done = call(run_script, [str(tmp_path / "script.py"), str(tmp_path / "labels.csv"), model, str(tmp_path / "tuned")])
    assert done.returncode == 0, done.stderr
    (best, first), (worst, second) = (line.split() for line in done.stdout.splitlines())
    assert (first, second) == ("w0", "w1") and float(best) > float(worst) + 0.2
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "tuned") is not None
    assert set(COLOURS) == set(table.tasks[0].labels or ())
