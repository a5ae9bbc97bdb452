"""What all prompts of a batch begin with is computed once when answering, and changes no answer."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from realm.prompts import PromptStyle
from realm.scorers import load_scorer
from realm.scorers.causal import SHARED, CausalScorer
from tests.tiny import crowd, tokenizer_for


def states(scorer: CausalScorer, n: int = 12) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Log-probabilities with the beginning computed once and with every row on its own; how much was shared."""
    encoded = scorer.encode(crowd(n))
    batch = scorer.collate(encoded, np.arange(n))
    with torch.no_grad():
        shared = scorer._shared(batch["input_ids"], batch["attention_mask"])
        once = scorer(batch)
    with torch.enable_grad():
        each = scorer(batch).detach()
    return once, each, shared


@pytest.mark.parametrize("answers", ["letters", "names", "cloze"])
@pytest.mark.parametrize("instruction", [None, "Which colour does the old house by the boat have?"])
def test_answers_are_the_same(answers, instruction, tiny_model) -> None:
    scorer = load_scorer(tiny_model("causal"), crowd(3), answers=answers, instruction=instruction).double().eval()
    once, each, shared = states(scorer)
    torch.testing.assert_close(once, each, rtol=1e-9, atol=1e-9)
    if instruction:
        assert shared >= SHARED


def test_nothing_is_shared_while_training_or_over_frozen_layers(tiny_model) -> None:
    scorer = load_scorer(tiny_model("causal"), crowd(3), instruction="Which colour does the old house have?").eval()
    assert states(scorer)[2] >= SHARED
    batch = scorer.collate(scorer.encode(crowd(4)), np.arange(4))
    ids, mask = batch["input_ids"], batch["attention_mask"]
    assert scorer._shared(ids, mask) == 0  # gradients are asked for
    with torch.no_grad():
        assert scorer._shared(ids[:1], mask[:1]) == 0
        assert scorer._shared(ids[:1].repeat(3, 1), mask[:1].repeat(3, 1)) == int(mask[0].sum()) - 1
        assert scorer.train()._shared(ids, mask) == 0
        scorer.eval().freeze_below(1)
        assert scorer._shared(ids, mask) == 0


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
    assert shared >= SHARED
    torch.testing.assert_close(once, each, rtol=1e-9, atol=1e-9)


def test_absolute_positions_go_on_behind_the_beginning() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    tokenizer = tokenizer_for("causal")
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=len(tokenizer), n_embd=32, n_layer=2, n_head=4, n_positions=256)
    style = PromptStyle("letters", "Which colour does the old house by the boat have?")
    scorer = CausalScorer(GPT2LMHeadModel(config).double(), tokenizer, style, crowd(3).tasks, 4).eval()
    once, each, shared = states(scorer)
    assert shared >= SHARED
    torch.testing.assert_close(once, each, rtol=1e-9, atol=1e-9)
