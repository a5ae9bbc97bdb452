"""Contract 2: scorers and prediction take `Items`, which know nothing of annotators, labels or gold."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest

import realm.scorers
from realm.data import Annotations, Items, Task
from realm.scorers import load_scorer
from realm.scorers.base import Scorer
from realm.scorers.causal import CausalScorer
from realm.scorers.classifier import ClassifierScorer
from realm.scorers.scoring import predict_chunks, predictions_table, score
from realm.scorers.seq2seq import Seq2SeqScorer

MODULES = sorted(Path(realm.scorers.__file__).parent.glob("*.py"))
FORBIDDEN = re.compile(r"annotat(ion|or)s?|golds?", re.IGNORECASE)
TASK = Task("tone", ("bad", "good"))


def mentions(source: str) -> list[str]:
    """Names, attributes, arguments, imports and string keys of a module that speak of annotators or gold.

    `from __future__ import annotations` and docstrings are prose of the language, not of the data.
    """
    tree = ast.parse(source)
    tree.body = [node for node in tree.body if not (isinstance(node, ast.ImportFrom) and node.module == "__future__")]
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    words: list[str] = []
    for node in ast.walk(tree):
        for attribute in ("id", "attr", "arg", "name", "module"):
            if isinstance(word := getattr(node, attribute, None), str):
                words.append(word)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            words.append(node.value)
    return [word for word in words if any(FORBIDDEN.fullmatch(part) for part in re.split(r"[^A-Za-z]+", word))]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_no_scorer_module_speaks_of_annotators_or_gold(path: Path) -> None:
    assert mentions(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "from realm.data import Annotations",
        "from realm.data.annotations import UNKNOWN",
        "def encode(self, annotations): ...",
        "def f(table): return table.gold",
        "def f(table): return table.annotator[0]",
        "def f(table): return getattr(table, 'gold')",
        "def f(batch): return batch['item_annotators']",
    ],
)
def test_the_check_sees_every_way_in(source: str) -> None:
    assert mentions(source)
    assert not mentions('from __future__ import annotations\n"""Knows nothing of annotators."""\nmask = items.texts')


@pytest.mark.parametrize(
    ("function", "argument"),
    [
        *((kind.encode, "items") for kind in (Scorer, CausalScorer, Seq2SeqScorer, ClassifierScorer)),
        (load_scorer, "items"),
    ],
)
def test_the_signatures_take_items(function, argument: str) -> None:
    assert get_type_hints(function)[argument] is Items


def test_items_hold_nothing_of_annotators() -> None:
    names = {*(field.name for field in fields(Items)), *vars(Items)}
    assert names.isdisjoint({"annotators", "annotator", "annotations", "label", "labels", "weight", "gold", "ledger"})


@pytest.mark.parametrize("kind", ["seq2seq", "causal", "bert"])
def test_items_alone_are_scored_and_a_table_of_annotations_is_not(kind: str, tiny_model) -> None:
    items = Items.from_texts(["a film", "a bore", "a film"], [TASK])
    scorer = load_scorer(tiny_model(kind), items)
    encoded = scorer.encode(items)
    table = predictions_table(items, score(scorer, encoded))
    assert list(table["item"]) == ["0", "1", "2"] and set(table["label"]) <= set(TASK.labels or ())
    (chunk,) = predict_chunks(scorer, iter([items]))
    np.testing.assert_allclose(chunk["confidence"], table["confidence"], rtol=1e-5)
    nothing = np.zeros(0, dtype=np.int32)
    annotations = Annotations(items, annotators=(), item=nothing, annotator=nothing, label=nothing)
    with pytest.raises((TypeError, AttributeError)):
        predictions_table(annotations, score(scorer, encoded))
