"""Saved models are plain checkpoints, and what was separate or tied stays so."""

from __future__ import annotations

import json
import logging

import numpy as np
import pandas as pd
import pytest
import torch

from realm.data import Annotations, Items, Task
from realm.errors import RealmError
from realm.runs import Run
from realm.runs.model_card import snippet
from realm.scorers import load_scorer, loading
from realm.scorers.prompts import render
from realm.scorers.scoring import score
from tests.tiny import crowd, save_tiny
from tests.trainers import trainer

SETTINGS = {"write_run": True, "max_steps": 2}


def reload(path):
    import transformers as t

    from realm.scorers import scorer_class, scorer_kind

    config = t.AutoConfig.from_pretrained(path)
    return getattr(t, scorer_class(scorer_kind(config)).auto_class).from_pretrained(path)


def test_an_output_layer_that_differs_from_the_embedding_survives(tmp_path) -> None:
    """Flan-T5: transformers forces tied embeddings on T5 configs, while the checkpoint holds two matrices."""
    from transformers import T5ForConditionalGeneration

    path = save_tiny(tmp_path / "model", "seq2seq")
    backbone = T5ForConditionalGeneration.from_pretrained(path)
    torch.manual_seed(5)
    backbone.lm_head.weight = torch.nn.Parameter(torch.randn_like(backbone.lm_head.weight))
    backbone.save_pretrained(path)
    loaded = T5ForConditionalGeneration.from_pretrained(path)
    assert not torch.equal(loaded.lm_head.weight, loaded.shared.weight)
    torch.testing.assert_close(loaded.lm_head.weight, backbone.lm_head.weight)
    made = trainer(path, crowd(20), tmp_path / "run", **SETTINGS)
    assert made.scorer.head.layer.weight is made.scorer.backbone.lm_head.weight
    made.train()
    again = reload(tmp_path / "run" / "model")
    assert not torch.equal(again.lm_head.weight, again.shared.weight)
    torch.testing.assert_close(again.lm_head.weight, made.scorer.backbone.lm_head.weight)
    torch.testing.assert_close(again.shared.weight, made.scorer.backbone.shared.weight)
    assert again.config.scale_decoder_outputs == backbone.config.scale_decoder_outputs


def test_a_tied_decoder_saves_and_reloads(tiny_model, tmp_path) -> None:
    made = trainer(tiny_model("causal"), crowd(20), tmp_path / "run", **SETTINGS)
    made.train()
    again = reload(tmp_path / "run" / "model")
    assert again.lm_head.weight.data_ptr() == again.model.embed_tokens.weight.data_ptr()
    torch.testing.assert_close(again.lm_head.weight, made.scorer.backbone.lm_head.weight)


@pytest.mark.parametrize("kind", ["seq2seq", "causal", "bert"])
@pytest.mark.parametrize("how", [{}, {"lora_rank": 4}, {"train_layers": 1}, {"train_layers": "head"}])
def test_a_run_read_back_answers_the_same(kind, how, tiny_model, tmp_path) -> None:
    table = crowd(20)
    made = trainer(tiny_model(kind), table, tmp_path / "run", **SETTINGS, **how)
    made.train()
    scorer = Run.open(tmp_path / "run").scorer.eval()
    again = score(scorer, scorer.encode(table.items)).log_probs
    np.testing.assert_allclose(again, made.score_training_items().log_probs, rtol=1e-5, atol=1e-5)
    assert not any("lora" in name for name, _ in scorer.backbone.named_parameters())


@pytest.mark.parametrize(
    ("kind", "answers"),
    [
        ("seq2seq", "letters"),
        ("seq2seq", "names"),
        ("seq2seq", "cloze"),
        ("causal", "letters"),
        ("causal", "names"),
        ("causal", "cloze"),
        ("bert", "auto"),
    ],
)
def test_the_model_cards_snippet_gives_the_same_answers(kind, answers, tiny_model, tmp_path, monkeypatch) -> None:
    table = crowd(16)
    made = trainer(tiny_model(kind), table, tmp_path / "run", answers=answers, **SETTINGS)
    with torch.no_grad():  # an untrained model says nearly the same of everything; make it opinionated
        for name, parameter in made.scorer.backbone.named_parameters():
            if "norm" not in name.lower():
                parameter.mul_(4)
    made.train()
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert "red" in card
    code = card.split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path / "run" / "model")
    names: dict = {}
    exec(compile(code, "README.md", "exec"), names)
    expected = [table.label_name(i, k) for i, k in enumerate(made.score_training_items().labels)]
    assert [names["answer"](text.as_py()) for text in table.texts] == expected
    assert len(set(expected)) > 1


KINDS = [
    *[(kind, answers) for kind in ("seq2seq", "causal") for answers in ("letters", "names", "cloze")],
    ("bert", "auto"),
]


@pytest.mark.parametrize("with_context", [True, False])
@pytest.mark.parametrize(("kind", "answers"), KINDS)
def test_the_snippet_gives_the_probabilities_of_predict(
    kind, answers, with_context, tiny_model, tmp_path, monkeypatch
) -> None:
    """It left the context out: 0.631 where `realm predict` said 0.639."""
    frame = crowd(12).to_pandas().drop(columns="gold")
    if with_context:  # one item has none
        contexts = [None if item == "i3" else f"the old {item} boat" for item in frame["item"]]
        frame = frame.assign(context=contexts)
    table = Annotations.from_pandas(frame)
    made = trainer(tiny_model(kind), table, tmp_path / "run", answers=answers, instruction="Which colour?", **SETTINGS)
    with torch.no_grad():
        for name, parameter in made.scorer.backbone.named_parameters():
            if "norm" not in name.lower():
                parameter.mul_(4)
    made.train()
    made.scorer.temperature = 1.7
    from realm.training import run_output

    run_output.end(made, None)  # as a run that was softened is written
    run = Run.open(tmp_path / "run")
    assert run.scorer.temperature == pytest.approx(1.7)
    code = (tmp_path / "run" / "model" / "README.md").read_text().split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path / "run" / "model")
    names: dict = {}
    exec(compile(code, "README.md", "exec"), names)
    changed = 0
    for item, shares in zip(table.items, run.predict(table.items)["probabilities"], strict=True):
        expected = json.loads(shares)
        given = names["probabilities"](item.text, context=item.context)
        assert given == pytest.approx(expected, abs=1e-4)
        changed += item.context is not None and names["probabilities"](item.text) != pytest.approx(expected, abs=1e-3)
    assert not with_context or changed > 3, "the context must make a difference"


@pytest.mark.parametrize(
    ("kind", "answers"), [("causal", "letters"), ("causal", "names"), ("seq2seq", "cloze"), ("bert", "auto")]
)
def test_the_snippet_answers_for_every_task(kind, answers, tiny_model, tmp_path, monkeypatch) -> None:
    frame = crowd(12).to_pandas()
    other = frame.assign(
        task="size", item=frame["item"] + "s", label=["small" if i % 3 else "large" for i in frame.index]
    )
    both = pd.concat([frame.assign(task="colour"), other]).drop(columns="gold")
    table = Annotations.from_pandas(both)
    made = trainer(tiny_model(kind), table, tmp_path / "run", answers=answers, **SETTINGS)
    made.train()
    code = (tmp_path / "run" / "model" / "README.md").read_text().split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path / "run" / "model")
    for index, task in enumerate(table.tasks):
        names: dict = {}
        chosen = code.replace(f"task = {table.tasks[0].name!r}", f"task = {task.name!r}")
        exec(compile(chosen, "README.md", "exec"), names)
        items = np.flatnonzero(table.item_tasks == index)
        expected = [table.label_name(i, made.score_training_items().labels[i]) for i in items]
        assert [names["answer"](table.texts[int(i)].as_py()) for i in items] == expected


@pytest.mark.parametrize("answers", ["letters", "names", "cloze"])
def test_the_snippet_is_not_misled_by_the_instruction(answers, tiny_model, tmp_path) -> None:
    table = crowd(6)
    said = f"TEXT with {', '.join(table.tasks[0].labels or ())}, text"
    made = trainer(tiny_model("causal"), table, tmp_path, answers=answers, instruction=said)
    names: dict = {}
    (function,) = [part for part in snippet(made.scorer).split("\n\n") if "def prompt" in part]
    exec(function, names)
    options = list(table.tasks[0].labels or ())
    for context in (None, "near a boat"):
        expected = render(made.scorer.style, "a red bird", context, options)
        assert names["prompt"]("a red bird", options, context) == expected


def test_the_snippet_of_items_with_their_own_options(tiny_model, tmp_path, monkeypatch) -> None:
    rows = [
        {
            "text": f"bird {i}",
            "options": ["red boat", "old tree", "house"][: 2 + i % 2],
            "annotator": "w",
            "label": i % 2,
        }
        for i in range(8)
    ]
    table = Annotations.from_pandas(pd.DataFrame(rows), label_form="index")
    made = trainer(tiny_model("seq2seq"), table, tmp_path / "run", **SETTINGS)
    made.train()
    code = (tmp_path / "run" / "model" / "README.md").read_text().split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path / "run" / "model")
    names: dict = {}
    exec(compile(code, "README.md", "exec"), names)
    for item, (_, text, _, options) in enumerate(table.items):
        assert names["answer"](text, options) == options[made.score_training_items().labels[item]]


def test_gradient_checkpointing_and_bf16_train(tiny_model, tmp_path) -> None:
    plain = trainer(tiny_model("causal"), crowd(20), tmp_path, max_steps=3)
    plain.train()
    saving = trainer(tiny_model("causal"), crowd(20), tmp_path, max_steps=3, gradient_checkpointing=True)
    saving.train()
    torch.testing.assert_close(plain.channel.omega, saving.channel.omega, rtol=1e-5, atol=1e-5)
    half = trainer(tiny_model("causal"), crowd(20), tmp_path, max_steps=3, bf16=True)
    half.train()
    assert half.channel.omega.dtype == torch.float32
    torch.testing.assert_close(plain.channel.omega, half.channel.omega, atol=0.1, rtol=0)


def test_annotators_read_back_are_in_the_order_of_omega(tiny_model, tmp_path) -> None:
    """Rows of a file may come in any order of items, the run's own table is sorted by item."""
    rows = [("1", "red bird", "zoe", "red"), ("2", "blue boat", "amy", "blue"), ("1", "red bird", "bob", "blue"),
            ("2", "blue boat", "zoe", "blue"), ("1", "red bird", "amy", "red")]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["item", "text", "annotator", "label"])
    table = Annotations.from_pandas(frame)
    made = trainer(tiny_model("bert"), table, tmp_path / "run", **SETTINGS)
    made.train()
    run = Run.open(tmp_path / "run")
    assert run.annotations.annotators == table.annotators == ("zoe", "amy", "bob")
    np.testing.assert_array_equal(run.annotations.annotator, table.annotator)
    np.testing.assert_allclose(run.channel_summary["expertise_trained"], made.channel.expertise(), atol=1e-6)


def test_a_model_that_is_not_there_gets_the_nearest_name(monkeypatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)  # nothing is asked for over a network
    with pytest.raises(RealmError, match=r"`model=minilm`: it is no folder.* Did you mean `minilm-l6`\?$"):
        load_scorer("minilm", crowd(4).items)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("LocalEntryNotFoundError", "the Hugging Face hub could not be reached"),
        ("RepositoryNotFoundError", "it has no model of this name, or a private one"),
        ("ValueError", "cannot be loaded from the Hugging Face hub: We couldn't connect"),
    ],
)
def test_a_hub_that_cannot_be_reached_is_not_one_without_the_model(kind, expected, monkeypatch, caplog) -> None:
    """What was tried, what is the matter and what to do in one line, without addresses and attempts."""

    class Loader:
        @staticmethod
        def from_pretrained(path: str, **_: object) -> None:
            logging.getLogger("huggingface_hub.utils._http").warning("Retrying https://huggingface.co in 1s [1/5].")
            try:
                raise type(kind, (Exception,), {})("HEAD https://huggingface.co/a/b/resolve/main/config.json")
            except Exception as error:
                raise OSError("We couldn't connect\nto https://huggingface.co") from error

    monkeypatch.setattr(loading.transformers, "AutoConfig", Loader)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.delenv("REALM_OFFLINE", raising=False)
    items = Items.from_texts(["x"], (Task("t", ("a", "b")),))
    level = logging.getLogger("huggingface_hub").level
    with pytest.raises(RealmError) as caught:
        load_scorer("a/b", items)
    message = str(caught.value)
    assert expected in message and message.startswith("`model=a/b`: ") and "\n" not in message
    assert "https://" not in message and caplog.text == ""
    assert kind == "ValueError" or "no named model (`realm models` lists them)" in message
    assert logging.getLogger("huggingface_hub").level == level
    monkeypatch.setenv("REALM_OFFLINE", "1")
    monkeypatch.setattr("realm.models.store._close_the_hub", lambda: None)
    with pytest.raises(RealmError) as caught:
        load_scorer("a/b", items)
    assert "the Hugging Face hub may not be asked (offline)" in str(caught.value)
