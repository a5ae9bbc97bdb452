"""Every family of backbones, every way to train it: the same loss and gradients with and without a cache, a run that
is resumed, written, loaded by plain `transformers` and asked; or one error that names the family and says what to do.

The families that differ most are tested in `make test`, each trained in one way; all in all ways in `make test-all`.
`python -m tests.scorers.test_families` rewrites the table of the docs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from transformers import TrainerCallback

from realm.errors import RealmError
from realm.runs import Run
from realm.scorers import Scorer, load_scorer
from realm.scorers.freezing import freeze_layers
from realm.scorers.frozen_cache import FrozenLayersCache
from realm.scorers.lora import add_lora
from realm.scorers.scoring import score
from tests.scorers.families import FAMILIES, HOW, Family, families_table
from tests.tiny import crowd, save_tiny
from tests.trainers import trainer

TABLE, TEST = crowd(16, per_item=2), crowd(6, seed=3)
BATCH = np.arange(12)
DOCS = Path(__file__).parents[2] / "docs" / "choosing-a-model.md"
GENERATED = re.compile(r"(<!-- families: [^\n]* -->\n)(.*)(<!-- end of families -->)", re.DOTALL)


def cell(family: Family, how: Any, fast: bool) -> Any:
    return pytest.param(family, how, id=f"{family.name}-{how}", marks=[] if fast else pytest.mark.slow)


BOUNDARIES = [
    cell(family, layers, family.fast is not None or bool(family.refused))
    for family in FAMILIES
    for layers in ((1, 2, 3) if family.kind == "seq2seq" else (1, 2))
]
RUNS = [cell(family, how, family.fast == how) for family in FAMILIES for how in HOW]


@pytest.fixture(scope="module")
def model_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Family], str]:
    """`model_of(family)` gives the path of its tiny checkpoint."""
    paths: dict[str, str] = {}

    def of(family: Family) -> str:
        if family.name not in paths:
            paths[family.name] = family.save(tmp_path_factory.mktemp("family") / "model")
        return paths[family.name]

    return of


def load(family: Family, path: str) -> Scorer:
    torch.manual_seed(1)  # a new head is the same every time
    answers = "letters" if family.kind != "classifier" else "auto"
    return load_scorer(path, TABLE.items, scorer=family.scorer, answers=answers)


def loss_and_gradients(scorer: Scorer, batch: dict[str, torch.Tensor]) -> tuple[float, dict[str, torch.Tensor]]:
    """A loss that uses every item, in training mode, and its gradient in each parameter that trains."""
    scorer.train()
    weights = torch.linspace(1, 2, len(batch["option_counts"]))
    loss = -(scorer(batch)[:, 1] * weights).sum()
    loss.backward()
    return float(loss.detach()), {n: p.grad for n, p in scorer.backbone.named_parameters() if p.requires_grad}


def assert_same(found: tuple[float, dict[str, torch.Tensor]], expected: tuple[float, dict[str, torch.Tensor]]) -> None:
    assert found[0] == pytest.approx(expected[0], rel=1e-5)
    for name, gradient in found[1].items():
        other = expected[1][name]
        if gradient is None or other is None:  # what is read nowhere
            assert gradient is None and other is None, name
        else:
            largest = float(other.abs().max())
            torch.testing.assert_close(gradient, other, rtol=1e-3, atol=1e-4 * largest + 1e-7, msg=name)


@pytest.mark.parametrize(("family", "layers"), BOUNDARIES)
def test_frozen_layers_have_the_loss_and_gradients_of_the_whole_model(family, layers, model_of, monkeypatch) -> None:
    """Encoder-decoders have 3 + 2 layers: with 3, the boundary lies inside the encoder."""
    path = model_of(family)
    whole, frozen = load(family, path), load(family, path)
    encoded = whole.encode(TABLE.items)
    if "frozen layers" in family.refused:
        with pytest.raises(RealmError, match=rf"`train_layers`: {type(frozen.backbone).__name__}.*`train_layers=head`"):
            frozen.freeze_below(layers)
        return
    expected = loss_and_gradients(whole, whole.collate(encoded, BATCH))
    frozen.freeze_below(layers)
    found = loss_and_gradients(frozen, frozen.collate(encoded, BATCH))
    assert_same(found, expected)
    trained = set(found[1])
    stack = frozen.frozen_layers.layers
    assert any(gradient is not None and gradient.any() for gradient in found[1].values())
    lower = {id(p) for layer in stack[: frozen.frozen_layers.depth] for p in layer.parameters()}
    rows = frozen.backbone.get_input_embeddings().weight
    assert not any(id(frozen.backbone.get_parameter(name)) in lower | {id(rows)} for name in trained)

    filling = load(family, path)
    filling.freeze_below(layers)
    cache = FrozenLayersCache(filling, encoded, 1.0)
    assert_same(loss_and_gradients(filling, cache.collate(BATCH)), expected)

    fresh = load(family, path)  # it has computed no layer of its own
    fresh.freeze_below(layers)
    monkeypatch.setattr(fresh, "frozen_states", lambda batch: pytest.fail("the states were not found"))
    again = FrozenLayersCache(fresh, encoded, 1.0)
    assert again.states is cache.states and again.states is not None
    assert_same(loss_and_gradients(fresh, again.collate(BATCH)), expected)


class Stop(TrainerCallback):
    """Ends the second step by an interrupt, after the checkpoint of the first."""

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == 2:
            raise KeyboardInterrupt


@pytest.mark.parametrize(("family", "how"), RUNS)
def test_a_run_is_resumed_written_and_read_by_plain_transformers(family, how, model_of, tmp_path) -> None:
    settings = {
        **HOW[how],
        "scorer": family.scorer,
        "answers": "letters" if family.kind != "classifier" else "auto",
        "max_steps": 3,
        "learning_rate": 1e-2,
        "per_device_train_batch_size": 8,
        "cross_fit": 0,
    }
    path = model_of(family)
    if how in family.refused:
        with pytest.raises(RealmError, match=r"`train_layers.*Use"):
            trainer(path, TABLE, tmp_path / "run", **settings)
        return
    plain = trainer(path, TABLE, tmp_path / "plain", cache_gb=0, **settings)
    before = plain.score_training_items().log_probs
    plain.train()
    expected = plain.score_training_items().log_probs
    assert np.abs(expected - before).max() > 1e-3

    saving = {"write_run": True, "save_strategy": "steps", "save_steps": 1}
    stopped = trainer(path, TABLE, tmp_path / "run", **settings, **saving)
    stopped.add_callback(Stop())
    with pytest.raises(KeyboardInterrupt):
        stopped.train()
    resumed = trainer(path, TABLE, tmp_path / "run", **settings, **saving)
    resumed.train(resume_from_checkpoint=True)
    np.testing.assert_allclose(resumed.score_training_items().log_probs, expected, rtol=2e-3, atol=2e-3)

    run = Run.open(tmp_path / "run")
    scorer = run.scorer.eval()
    answers = score(scorer, scorer.encode(TEST.items)).log_probs
    np.testing.assert_allclose(own_answers(tmp_path / "run" / "model", scorer), answers, rtol=1e-4, atol=1e-4)
    predictions = run.predict([item.text for item in TEST.items])
    assert predictions["label"].tolist() == [TEST.label_name(i, k) for i, k in enumerate(answers.argmax(1))]


def own_answers(folder: Any, scorer: Scorer) -> np.ndarray:
    """What plain `transformers` makes of the test items with the checkpoint, whose logits nothing of ours touches."""
    loaders = {"classifier": "SequenceClassification", "causal": "CausalLM", "seq2seq": "Seq2SeqLM"}
    loader = getattr(transformers, f"AutoModelFor{loaders[scorer.kind]}")
    model, loading = loader.from_pretrained(folder, output_loading_info=True)
    assert not any(loading.values()), loading
    batch = scorer.collate(scorer.encode(TEST.items), np.arange(len(TEST.items)))
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask", "decoder_input_ids") if name in batch}
    with torch.no_grad():
        logits = model.eval()(**inputs).logits
    if scorer.kind != "classifier":
        last = batch.get("decoder_lengths", batch["attention_mask"].sum(1)) - 1
        logits = logits[torch.arange(len(last)), last][:, scorer.answer_tokens[0, :4]]
    return torch.log_softmax(logits.double() / scorer.temperature, dim=1).numpy()


def test_what_lies_below_frozen_layers_has_no_dropout_without_a_cache_either(tmp_path) -> None:
    scorer = load_scorer(save_tiny(tmp_path, "gpt2", dropout=0.5), TABLE.items, answers="letters")
    scorer.freeze_below(1)
    batch = scorer.collate(scorer.encode(TABLE.items), BATCH)
    read: list[torch.Tensor] = []
    scorer.frozen_layers.layers[-1].register_forward_pre_hook(lambda layer, inputs: read.append(inputs[0]))
    scorer.train()
    scorer(batch)
    assert scorer.training and scorer.backbone.transformer.drop.training  # which the trained layer's own still is
    torch.testing.assert_close(read[-1], scorer.eval().frozen_states(batch))


def test_layers_that_stand_in_no_list_of_their_own_are_refused() -> None:
    sizes = {"vocab_size": 40, "emb_dim": 16, "n_layers": 2, "n_heads": 2}
    backbone = transformers.XLMForSequenceClassification(transformers.XLMConfig(**sizes))  # its parts stand in four
    with pytest.raises(RealmError, match=r"`train_layers`: XLMForSequenceClassification keeps.*no list.*`lora_rank`"):
        freeze_layers(backbone, 1, lambda: None)


def test_adapters_need_a_head_that_can_be_told_from_the_rest(tiny_model, monkeypatch) -> None:
    scorer = load_scorer(tiny_model("bert"), TABLE.items)
    monkeypatch.setattr(type(scorer.backbone), "base_model_prefix", "")
    with pytest.raises(RealmError, match=r"`lora_rank`: BertForSequenceClassification.*`train_layers=1`"):
        add_lora(scorer, 2)


def test_adapters_leave_a_classifiers_head_to_train_as_it_is(tiny_model) -> None:
    scorer = load_scorer(tiny_model("bert"), TABLE.items)
    add_lora(scorer, 2)
    trained = {name for name, parameter in scorer.backbone.named_parameters() if parameter.requires_grad}
    assert {name for name in trained if "lora_" not in name} == {"classifier.weight", "classifier.bias"}
    assert "bert.encoder.layer.0.attention.self.query.lora_A.default.weight" in trained


def with_table(page: str) -> str:
    """The page with the table as it is now."""
    return GENERATED.sub(lambda found: found[1] + families_table() + found[3], page)


def test_the_docs_have_the_table() -> None:
    page = DOCS.read_text()
    assert GENERATED.search(page) and with_table(page) == page, "run python -m tests.scorers.test_families"
    assert sum(family.fast is not None for family in FAMILIES) >= 8


if __name__ == "__main__":
    DOCS.write_text(with_table(DOCS.read_text()))
