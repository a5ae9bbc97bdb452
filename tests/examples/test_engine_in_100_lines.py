"""The model of annotators in one file gives the numbers of the package."""

from __future__ import annotations

import ast
import importlib.util
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from realm.crowd import engine

FILE = Path(__file__).parents[2] / "examples" / "engine_in_100_lines.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("engine_in_100_lines", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_is_short_and_imports_numpy_alone() -> None:
    source = FILE.read_text()
    assert len(source.splitlines()) <= 100 and max(map(len, source.splitlines())) <= 120
    imported = {
        alias.name.split(".")[0]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported == {"csv", "math", "sys", "numpy"}


@pytest.mark.parametrize("options", [2, 3, 5])
@pytest.mark.parametrize("weighted", [False, True])
def test_it_equals_the_package(options: int, weighted: bool, example) -> None:
    rng = np.random.default_rng(options)
    n, people = 120, 9
    accuracy = np.linspace(0.15, 0.95, people - 1)  # the last annotator gives no labels at all
    truth = rng.choice(options, n, p=rng.dirichlet(np.full(options, 3.0)))
    item = np.sort(rng.integers(0, n - 5, 400))  # uneven numbers of labels; five items have none
    annotator = rng.choice(people - 1, 400, p=rng.dirichlet(np.ones(people - 1)))
    label = np.where(rng.random(400) < accuracy[annotator], truth[item], rng.integers(0, options, 400))
    weight = rng.uniform(0.1, 2.0, 400) if weighted else None
    table = engine.LabelTable(item, annotator, label, n, people, options, weight)
    priors = engine.PRIORS["confusion"]
    pool = engine.Pool.of(table, priors)
    for iterations in (0, 1, 30):
        fitted = engine.fit(table, priors, pool, table.vote_shares, max_iter=iterations, tol=0.0)
        posterior, confusion, b, xi, d, classes = example.fit(
            item, annotator, label, n, people, options, weight, iterations
        )
        parameters = fitted.parameters
        for ours, theirs in (
            (fitted.posterior, posterior), (parameters.skill, b), (parameters.habit, xi), (parameters.shared, d),
            (fitted.class_shares, classes),
            (np.exp(parameters.evidence), confusion[table.cell_annotator, :, table.cell_label]),
        ):  # fmt: skip
            np.testing.assert_allclose(ours, theirs, atol=1e-9, rtol=1e-9)
    np.testing.assert_allclose(confusion.sum(axis=2), 1, atol=1e-12)


def test_its_statistics_add_up_over_shards_of_items(example) -> None:
    rng = np.random.default_rng(0)
    item, annotator, label = (rng.integers(0, size, 90) for size in (20, 4, 3))
    posterior, weight = rng.dirichlet(np.ones(3), 20), rng.random(90)
    whole = example.statistics(posterior, item, annotator, label, weight, 4)
    parts = [item % 3 == shard for shard in range(3)]
    shards = [example.statistics(posterior, item[p], annotator[p], label[p], weight[p], 4) for p in parts]
    np.testing.assert_allclose(sum(shards), whole, atol=1e-12)


def test_it_runs_on_a_file(tmp_path, monkeypatch, capsys) -> None:
    lines = ["text,annotator,label"]
    for row in range(30):
        truth = "yes" if row % 3 else "no"
        lines += [f"text {row},ada,{truth}", f"text {row},bob,{truth}", f"text {row},cyd,yes"]
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    monkeypatch.setattr(sys, "argv", ["engine", str(tmp_path / "labels.csv")])
    runpy.run_path(str(FILE), run_name="__main__")
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 33 and out[0].endswith("%") and float(out[0].split()[0]) > 0.95
    assert float(out[2].split()[0]) < 0.75
    assert sum(line.startswith("no") for line in out[3:]) == 10
