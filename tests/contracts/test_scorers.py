"""Contract 9: a scorer is one file and one row of `SCORERS`; no other code asks which kind it is."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from realm import RealmConfig, Run
from realm.data import Items
from realm.errors import RealmError
from realm.scorers import SCORERS, scorer_class, scorer_kind
from realm.scorers.answers import masked_log_softmax
from realm.scorers.base import Batch, Scorer
from realm.scorers.encoding import EncodedItems, Ragged
from realm.scorers.scoring import score
from realm.training.settings import settings_of
from tests.contracts.modules import PACKAGE, modules
from tests.tiny import crowd, encoder_shape, tokenizer_for
from tests.trainers import trainer

TABLE = "scorers/__init__.py"
OWN = {path.partition(":")[0].removeprefix("realm.").replace(".", "/") + ".py" for path in SCORERS.values()}
TINY_MODELS = "testing.py"  # writes a tiny model for each kind, by a table of its own
CLASSES = {path.partition(":")[2] for path in SCORERS.values()}


def questions(source: str) -> list[str]:
    """Where a module asks for the kind of a scorer: it names one, compares `scorer.kind`, or asks for a class."""
    tree = ast.parse(source)
    found = []
    for node in ast.walk(tree):
        named = isinstance(node, ast.Constant) and node.value in SCORERS
        compared = isinstance(node, ast.Compare | ast.Match) and any(
            isinstance(each, ast.Attribute) and each.attr == "kind" and "scorer" in ast.unparse(each.value).lower()
            for each in ast.walk(node)
        )
        asked = isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass", "type")
        if named or compared or (asked and CLASSES & set(re.findall(r"\w+", ast.unparse(node)))):
            found.append(f"line {node.lineno}: {ast.unparse(node)}")
    return found


def test_no_module_asks_which_kind_a_scorer_is() -> None:
    sources = {path: source for path, source in modules().items() if path not in {TABLE, TINY_MODELS, *OWN}}
    assert len(OWN) == len(SCORERS) and len(sources) + len(OWN) + 2 == len(modules())
    assert {path: asked for path, source in sources.items() if (asked := questions(source))} == {}
    for template in PACKAGE.rglob("*.jinja"):
        assert not re.search(rf"""["']({"|".join(SCORERS)})["']""", template.read_text()), template


@pytest.mark.parametrize(
    "planted",
    [
        'if scorer.kind == "causal": ...',
        'knows = self.scorer.kind != "classifier"',
        'def f(kind):\n    return kind in ("seq2seq", "causal")',
        "if scorer.kind == OTHER: ...",
        "match scorer.kind:\n    case WORD: ...",
        'LOADERS = {"classifier": "AutoModelForSequenceClassification"}',
        "isinstance(scorer, ClassifierScorer)",
        "isinstance(scorer, classifier.ClassifierScorer | int)",
    ],
)
def test_a_planted_question_is_seen(planted: str) -> None:
    assert questions(planted)


@pytest.mark.parametrize(
    "source", ['settings = {"kind": scorer.kind}', 'if suspect.kind == "constant": ...', "isinstance(scorer, Scorer)"]
)
def test_other_questions_are_free(source: str) -> None:
    assert questions(source) == []


def test_a_file_has_its_row_and_a_row_its_file() -> None:
    assert {kind: scorer_class(kind).kind for kind in SCORERS} == {kind: kind for kind in SCORERS}


def test_the_settings_list_the_table_without_torch() -> None:
    (choices,) = (each.metadata["choices"] for each in settings_of(RealmConfig) if each.name == "scorer")
    assert choices == ("auto", *SCORERS)
    code = "import sys, realm.training.settings, realm.runs.machine_files; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class MaskedScorer(Scorer):
    """A masked language model, which says each label by its first token at the end of the text."""

    kind = "masked"
    auto_class = "AutoModelForMaskedLM"
    pipeline_tag = "fill-mask"

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        labels = [task.labels for task in self.tasks]
        self.words = torch.tensor([[self.tokenizer(label)["input_ids"][0] for label in own] for own in labels])

    @classmethod
    def matches(cls, config: Any) -> bool:
        return "ForMaskedLM" in " ".join(config.architectures or ())

    def check(self, name: str) -> Tensor:
        return self.backbone(**self.probe()).logits

    def encode(self, items: Items) -> EncodedItems:
        rows = [[*self.tokenizer(item.text)["input_ids"], self.tokenizer.eos_token_id] for item in items]
        starts = np.arange(len(items) + 1, dtype=np.int64)
        return EncodedItems(Ragged.of(rows), starts, items.item_tasks, items.option_counts)

    def run_backbone(self, batch: Batch) -> Tensor:
        inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
        return self.backbone.base_model(**inputs).last_hidden_state

    def forward_with_hidden(self, batch: Batch) -> tuple[Tensor, Tensor]:
        last = batch["attention_mask"].sum(1) - 1
        states = self.run_backbone(batch)[torch.arange(len(last)), last]
        logits = self.backbone.cls(states).gather(1, self.words[batch["item_tasks"]])
        return masked_log_softmax(logits, batch["option_counts"]), states


@pytest.fixture
def table_with_masked() -> Iterator[None]:
    """The table with one row more, which is asked first: a classifier suits every config."""
    rows = dict(SCORERS)
    SCORERS.clear()
    SCORERS.update({"masked": f"{__name__}:MaskedScorer", **rows})
    yield
    SCORERS.clear()
    SCORERS.update(rows)


@pytest.mark.usefixtures("table_with_masked")
def test_one_class_and_one_row_load_train_save_and_answer_again(tmp_path) -> None:
    import transformers as t

    tokenizer = tokenizer_for("bert")
    model = t.BertForMaskedLM(t.BertConfig(**encoder_shape(len(tokenizer), 2, 32, 0.0)))
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path / "model")
    assert scorer_kind(model.config) == "masked"

    training = trainer(str(tmp_path / "model"), crowd(12), tmp_path / "run", write_run=True, max_steps=2)
    assert isinstance(training.scorer, MaskedScorer)
    before = {name: weights.clone() for name, weights in training.scorer.backbone.named_parameters()}
    training.train()
    moved = {name for name, weights in training.scorer.backbone.named_parameters() if (weights != before[name]).any()}
    assert "cls.predictions.transform.dense.weight" in moved

    run = Run.open(tmp_path / "run")
    assert run.scorer_settings["kind"] == "masked" and isinstance(run.scorer, MaskedScorer)
    assert run.scorer_settings["style"]["answers"] is None
    items, own = crowd(12).items, training.scorer
    scores = score(own, own.encode(items))
    np.testing.assert_allclose(run.predict([item.text for item in items])["confidence"], scores.confidence, atol=1e-5)
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert "pipeline_tag: fill-mask" in card and "import AutoModelForMaskedLM" in card
    with pytest.raises(RealmError, match="`train_layers=head` cannot be used with `scorer=masked`"):
        trainer(str(tmp_path / "model"), crowd(12), tmp_path / "head", train_layers="head")
