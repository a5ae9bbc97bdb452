"""What all prompts of a batch begin with is computed once, and changes neither an answer nor a gradient."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from realm.scorers import load_scorer
from realm.scorers.causal import MIN_SAVED, MIN_SHARED, CausalScorer
from realm.scorers.lora import add_lora
from realm.scorers.prompts import PromptStyle
from tests.tiny import crowd, tokenizer_for
from tests.trainers import keep_double


def states(scorer: CausalScorer, n: int = 12) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Log-probabilities with the beginning computed once and with every row on its own; how much was shared."""
    encoded = scorer.encode(crowd(n).items)
    batch = scorer.collate(encoded, np.arange(n))
    with torch.no_grad():
        shared = scorer._shared_prefix(batch["input_ids"], batch["attention_mask"])
        once = scorer(batch)
        each = torch.cat([scorer(scorer.collate(encoded, np.array([item]))) for item in range(n)])
    return once, each, shared


def gradients(scorer: CausalScorer, n: int = 12) -> tuple[dict[str, torch.Tensor], int]:
    """The gradient of a training batch, and how many tokens its rows had computed once."""
    batch = scorer.collate(scorer.encode(crowd(n).items), np.arange(n))
    shared = scorer._shares_prefix and scorer._shared_prefix(batch["input_ids"], batch["attention_mask"])
    scorer.zero_grad()
    scorer(batch)[:, 0].sum().backward()
    found = {name: p.grad.clone() for name, p in scorer.named_parameters() if p.grad is not None}
    return found, int(shared)


@pytest.mark.parametrize("answers", ["letters", "names", "cloze"])
@pytest.mark.parametrize("instruction", [None, "Which colour does the old house by the boat have?"])
def test_answers_are_the_same(answers, instruction, tiny_model) -> None:
    scorer = load_scorer(tiny_model("causal"), crowd(3).items, answers=answers, instruction=instruction).double().eval()
    once, each, shared = states(scorer)
    torch.testing.assert_close(once, each, rtol=1e-9, atol=1e-9)
    if instruction:
        assert shared >= MIN_SHARED


@pytest.mark.parametrize("answers", ["letters", "names", "cloze"])
@pytest.mark.parametrize("rank", [None, 4])
def test_gradients_are_the_same(answers, rank, tiny_model, monkeypatch) -> None:
    asked = {"answers": answers, "instruction": "Which colour does the old house by the boat have?"}
    scorer = load_scorer(tiny_model("causal"), crowd(3).items, **asked)
    if rank is not None:
        torch.manual_seed(1)
        add_lora(scorer, rank)
        for name, parameter in scorer.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(parameter, std=0.1)
    keep_double(scorer.double().train())
    once, shared = gradients(scorer)
    assert shared >= MIN_SHARED
    monkeypatch.setattr(CausalScorer, "_shared_prefix", lambda *_: 0)
    each, _ = gradients(scorer)
    assert once.keys() == each.keys()
    for name, gradient in each.items():
        assert gradient.abs().max() > 0 or "lora" not in name
        torch.testing.assert_close(once[name], gradient, rtol=1e-9, atol=1e-9)


def test_where_nothing_is_shared_prefix(tiny_model) -> None:
    scorer = load_scorer(
        tiny_model("causal"), crowd(3).items, instruction="Which colour does the old house have?"
    ).eval()
    batch = scorer.collate(scorer.encode(crowd(4).items), np.arange(4))
    ids, mask = batch["input_ids"], batch["attention_mask"]
    with torch.no_grad():
        whole = scorer._shared_prefix(ids, mask)
        assert whole >= MIN_SHARED
        assert scorer._shared_prefix(ids[:1], mask[:1]) == 0
        assert scorer._shared_prefix(ids[:1].repeat(3, 1), mask[:1].repeat(3, 1)) == int(mask[0].sum()) - 1
    assert 3 * whole >= MIN_SAVED
    assert scorer._shared_prefix(ids, mask) == whole  # gradients are asked for, and enough is spared
    scorer.backbone.gradient_checkpointing_enable()
    assert scorer._shared_prefix(ids, mask) == 0
    with torch.no_grad():
        assert scorer._shared_prefix(ids, mask) == whole
    scorer.backbone.gradient_checkpointing_disable()
    scorer.freeze_below(1)
    assert scorer._shared_prefix(ids, mask) == 0
    with torch.no_grad():
        assert scorer._shared_prefix(ids, mask) == 0


def test_training_shares_no_beginning_that_spares_too_little(tiny_model) -> None:
    scorer = load_scorer(tiny_model("causal"), crowd(3).items)
    ids = torch.arange(40).repeat(8, 1) + 40 * torch.arange(8)[:, None]
    ids[:, :6] = 1  # seven rows spared six tokens each
    mask = torch.ones_like(ids)
    assert 7 * 6 < MIN_SAVED <= 7 * 7
    assert scorer._shared_prefix(ids, mask) == 0
    ids[:, 6] = 1
    assert scorer._shared_prefix(ids, mask) == 7


def test_gradient_checkpointing_trains_on_whole_rows(tiny_model) -> None:
    scorer = load_scorer(tiny_model("causal"), crowd(3).items, instruction="Which colour does the old house have?")
    keep_double(scorer.double().train())
    plain, shared = gradients(scorer)
    assert shared >= MIN_SHARED
    scorer.backbone.gradient_checkpointing_enable()
    again, shared = gradients(scorer)
    assert shared == 0
    for name, gradient in plain.items():
        torch.testing.assert_close(again[name], gradient, rtol=1e-9, atol=1e-9)


def test_a_window_shorter_than_the_prompt_falls_back_to_whole_rows() -> None:
    from transformers import MistralConfig, MistralForCausalLM

    tokenizer = tokenizer_for("causal")
    torch.manual_seed(0)
    config = MistralConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, sliding_window=5, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    style = PromptStyle("names", "Which colour does the old house by the boat have?")
    scorer = CausalScorer(MistralForCausalLM(config).double(), tokenizer, style, crowd(3).tasks, 4).eval()
    once, each, shared = states(scorer)
    assert shared >= MIN_SHARED
    torch.testing.assert_close(once, each, rtol=1e-9, atol=1e-9)
    assert gradients(scorer.train())[1] == 0  # and is not tried again


def test_absolute_positions_go_on_behind_the_beginning() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    tokenizer = tokenizer_for("causal")
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=len(tokenizer), n_embd=32, n_layer=2, n_head=4, n_positions=256)
    style = PromptStyle("letters", "Which colour does the old house by the boat have?")
    scorer = CausalScorer(GPT2LMHeadModel(config).double(), tokenizer, style, crowd(3).tasks, 4).eval()
    once, each, shared = states(scorer)
    assert shared >= MIN_SHARED
    torch.testing.assert_close(once, each, rtol=1e-9, atol=1e-9)
