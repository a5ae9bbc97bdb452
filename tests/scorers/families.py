"""Tiny random models of the families people use, each from its own config: what the matrix of backbones is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from tests.tiny import tokenizer_for

WIDTH, LAYERS, HEADS = 16, 3, 2
SPARE = 8
"""Rows of the embedding for tokens that a family's own tokenizer class adds."""
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SHAPE = {
    "hidden_size": WIDTH,
    "intermediate_size": 24,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "max_position_embeddings": 256,
}
GROUPED = {**SHAPE, **SPECIAL, "num_key_value_heads": 1}
"""A decoder whose heads share keys and values."""
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
ENCODER = {**SHAPE, **NO_DROPOUT, "pad_token_id": 0}
RELATIVE = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "max_relative_positions": 32}
T5 = {
    "d_model": WIDTH,
    "d_kv": 8,
    "d_ff": 24,
    "num_layers": LAYERS,
    "num_decoder_layers": 2,
    "num_heads": HEADS,
    "dropout_rate": 0.0,
    "decoder_start_token_id": 0,
    "pad_token_id": 0,
    "eos_token_id": 2,
}
GATED = {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
BART = {
    "d_model": WIDTH,
    "encoder_layers": LAYERS,
    "decoder_layers": 2,
    "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 256,
    "dropout": 0.0,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
    **SPECIAL,
}
GPT = {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": 256, **SPECIAL}
GPT |= {"attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0}


@dataclass(frozen=True)
class Family:
    """A family of models: the class that is saved, the sizes of a tiny one, and what it cannot do, with the reason.

    `refused` maps one of `HOW` to the reason that the docs give. With `fast`, one of `HOW`, `make test` trains a run
    that way and tests the family's frozen layers.
    """

    name: str
    kind: str
    model: str
    sizes: dict[str, Any] = field(default_factory=dict)
    fast: str | None = None
    scorer: str = "auto"
    refused: dict[str, str] = field(default_factory=dict)

    def save(self, folder: Path) -> str:
        """Write a tiny checkpoint and return its path. Its weights are large, so that every layer changes answers."""
        import transformers

        torch.manual_seed(0)
        tokenizer = tokenizer_for(self.kind)
        model_class = getattr(transformers, self.model)
        rows, sizes = {"vocab_size": len(tokenizer) + SPARE}, dict(self.sizes)
        if "text_config" in sizes:
            sizes["text_config"] = rows | sizes["text_config"]
        else:
            sizes |= rows
        model = model_class(model_class.config_class(**sizes))
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if parameter.dim() > 1 and "embed" not in name:
                    parameter.normal_(0, 1.5 * parameter.shape[-1] ** -0.5)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return str(folder)


HOW: dict[str, dict[str, Any]] = {
    "full": {},
    "frozen layers": {"train_layers": 1},
    "head only": {"train_layers": "head"},
    "LoRA": {"lora_rank": 2},
}
"""Ways to train, by the settings that ask for them."""


def _encoder(
    name: str, model: str, *, fast: str | None = None, refused: dict[str, str] | None = None, **sizes: Any
) -> Family:
    return Family(name, "classifier", model, {**ENCODER, **sizes}, fast, refused=refused or {})


def _decoder(
    name: str, model: str, shape: dict[str, Any] = GROUPED, *, fast: str | None = None, **sizes: Any
) -> Family:
    return Family(name, "causal", model, {**shape, **sizes}, fast)


def _both(name: str, model: str, shape: dict[str, Any], *, fast: str | None = None, **sizes: Any) -> Family:
    return Family(name, "seq2seq", model, {**shape, **sizes}, fast)


DISTIL = {"dim": WIDTH, "hidden_dim": 24, "n_layers": LAYERS, "n_heads": HEADS, "max_position_embeddings": 256}
DISTIL |= {"dropout": 0.0, "attention_dropout": 0.0, "seq_classif_dropout": 0.0, "pad_token_id": 0}
XLNET = {"d_model": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "d_inner": 24, **SPECIAL}
XLNET |= {"dropout": 0.0, "summary_last_dropout": 0.0}
BLOOM = {"hidden_size": WIDTH, "n_layer": LAYERS, "n_head": HEADS, **SPECIAL}
BLOOM |= {"hidden_dropout": 0.0, "attention_dropout": 0.0}
MAMBA = {"hidden_size": WIDTH, "state_size": 4, "num_hidden_layers": LAYERS, **SPECIAL}
PLAIN = {**SHAPE, **SPECIAL}
"""A decoder whose heads have keys and values of their own."""
SMALL_HEADS = {**GROUPED, "head_dim": 8}
EXPERTS = {"num_experts_per_tok": 2, "router_jitter_noise": 0.0}
VISION = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
VISION |= {"image_size": 28, "patch_size": 14}

FAMILIES = [
    _encoder("BERT", "BertModel"),
    _encoder("RoBERTa", "RobertaModel"),
    _encoder("XLM-RoBERTa", "XLMRobertaModel"),
    _encoder("CamemBERT", "CamembertModel"),
    Family("DistilBERT", "classifier", "DistilBertModel", DISTIL, fast="LoRA"),
    _encoder(
        "ALBERT", "AlbertModel", embedding_size=8, classifier_dropout_prob=0.0, fast="head only",
        refused={"frozen layers": "its layers share their weights"},
    ),
    _encoder("ELECTRA", "ElectraModel", embedding_size=8),
    _encoder("MPNet", "MPNetModel"),
    _encoder("DeBERTa", "DebertaModel", **RELATIVE),
    _encoder(
        "DeBERTa-v2, -v3", "DebertaV2Model", **RELATIVE, norm_rel_ebd="layer_norm", position_buckets=16,
        share_att_key=True, pooler_dropout=0.0, fast="frozen layers",
    ),
    _encoder(
        "ModernBERT", "ModernBertModel", global_attn_every_n_layers=2, local_attention=8, cls_token_id=3,
        sep_token_id=4, bos_token_id=1, eos_token_id=2,
    ),
    _encoder("Longformer", "LongformerModel", attention_window=8, fast="head only"),
    _encoder("BigBird", "BigBirdModel", attention_type="original_full"),
    Family(
        "XLNet", "classifier", "XLNetModel", XLNET, scorer="classifier",
        refused={"frozen layers": "its layers keep states by token, then item"},
    ),
    _decoder("GPT-2", "GPT2LMHeadModel", GPT),
    _decoder("GPT-J", "GPTJForCausalLM", GPT, rotary_dim=4),
    _decoder("GPT-NeoX, Pythia", "GPTNeoXForCausalLM", PLAIN),
    _decoder("OPT", "OPTForCausalLM", PLAIN, ffn_dim=24, word_embed_proj_dim=WIDTH, dropout=0.0),
    _decoder("BLOOM", "BloomForCausalLM", BLOOM, fast="frozen layers"),
    _decoder("Falcon", "FalconForCausalLM", PLAIN),
    _decoder("Llama", "LlamaForCausalLM"),
    _decoder("Mistral", "MistralForCausalLM", sliding_window=8),
    _decoder("Mixtral", "MixtralForCausalLM", **EXPERTS, num_local_experts=4, fast="LoRA"),
    _decoder("Qwen2, Qwen2.5", "Qwen2ForCausalLM"),
    _decoder("Qwen3", "Qwen3ForCausalLM", SMALL_HEADS),
    _decoder("Qwen3-MoE", "Qwen3MoeForCausalLM", SMALL_HEADS, **EXPERTS, num_experts=4, moe_intermediate_size=16),
    _decoder("Gemma", "GemmaForCausalLM", SMALL_HEADS),
    _decoder("Gemma 2", "Gemma2ForCausalLM", SMALL_HEADS, sliding_window=8, fast="full"),
    _decoder("Gemma 3", "Gemma3ForCausalLM", SMALL_HEADS, sliding_window=8),
    Family(
        "Gemma 3 with images", "causal", "Gemma3ForConditionalGeneration",
        {"text_config": SMALL_HEADS | {"sliding_window": 8}, "vision_config": VISION, "mm_tokens_per_image": 4},
    ),
    _decoder("Phi", "PhiForCausalLM", PLAIN, resid_pdrop=0.0),
    _decoder("Phi-3, Phi-4", "Phi3ForCausalLM"),
    _decoder("SmolLM3", "SmolLM3ForCausalLM"),
    _decoder("OLMo 2", "Olmo2ForCausalLM"),
    _decoder("Mamba", "MambaForCausalLM", MAMBA, fast="LoRA"),
    _both("T5", "T5ForConditionalGeneration", T5),
    _both("Flan-T5, T5 v1.1", "T5ForConditionalGeneration", GATED),
    _both("mT5", "MT5ForConditionalGeneration", GATED),
    _both("UMT5", "UMT5ForConditionalGeneration", GATED, fast="head only"),
    _both("LongT5", "LongT5ForConditionalGeneration", GATED, local_radius=4),
    _both("BART", "BartForConditionalGeneration", BART, fast="frozen layers"),
    _both("mBART", "MBartForConditionalGeneration", BART),
    _both("Pegasus", "PegasusForConditionalGeneration", BART),
    _both("LED", "LEDForConditionalGeneration", BART, attention_window=8, max_encoder_position_embeddings=256),
    _both("Marian", "MarianMTModel", BART),
]  # fmt: skip
KINDS = {"classifier": "encoder", "causal": "decoder", "seq2seq": "encoder-decoder"}


def families_table() -> str:
    """The table of `docs/choosing-a-model.md`: families of a kind that can do the same in one row."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for family in FAMILIES:
        can = {how: "no" if how in family.refused else "yes" for how in HOW}
        reason = "".join(f"; {why}" for why in family.refused.values())
        cells = (can["full"], can["frozen layers"], can["frozen layers"], can["head only"], can["LoRA"], "yes")
        rows.setdefault((KINDS[family.kind], reason, *cells), []).append(family.name)
    lines = ["| kind | family | full | frozen layers | cached | head only | LoRA | resume |", "|---" * 8 + "|"]
    for (kind, reason, *cells), names in rows.items():
        lines.append(f"| {kind} | {', '.join(names)}{reason} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
