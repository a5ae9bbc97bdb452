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
    """A family of models: the class of its config and of the model that is saved, and the sizes of a tiny one."""

    name: str
    kind: str
    model: str
    sizes: dict[str, Any] = field(default_factory=dict)

    def save(self, folder: Path) -> str:
        """Write a tiny checkpoint and return its path."""
        import transformers

        torch.manual_seed(0)
        tokenizer = tokenizer_for(self.kind)
        model_class = getattr(transformers, self.model)
        config = model_class.config_class(vocab_size=len(tokenizer) + SPARE, **self.sizes)
        model_class(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return str(folder)


def _encoder(name: str, model: str, **sizes: Any) -> Family:
    return Family(name, "classifier", model, {**ENCODER, **sizes})


def _decoder(name: str, model: str, shape: dict[str, Any] = GROUPED, **sizes: Any) -> Family:
    return Family(name, "causal", model, {**shape, **sizes})


def _both(name: str, model: str, shape: dict[str, Any], **sizes: Any) -> Family:
    return Family(name, "seq2seq", model, {**shape, **sizes})


DISTIL = {"dim": WIDTH, "hidden_dim": 24, "n_layers": LAYERS, "n_heads": HEADS, "max_position_embeddings": 256}
FAMILIES = [
    _encoder("BERT", "BertModel"),
    _encoder("RoBERTa", "RobertaModel"),
    _encoder("XLM-RoBERTa", "XLMRobertaModel"),
    _encoder("CamemBERT", "CamembertModel"),
    Family("DistilBERT", "classifier", "DistilBertModel", {**DISTIL, "pad_token_id": 0, "dropout": 0.0,
           "attention_dropout": 0.0, "seq_classif_dropout": 0.0}),
    _encoder("ALBERT", "AlbertModel", embedding_size=8, classifier_dropout_prob=0.0),
    _encoder("ELECTRA", "ElectraModel", embedding_size=8),
    _encoder("MPNet", "MPNetModel"),
    _encoder("DeBERTa", "DebertaModel", **RELATIVE),
    _encoder("DeBERTa-v2, -v3", "DebertaV2Model", **RELATIVE, norm_rel_ebd="layer_norm", position_buckets=16,
             share_att_key=True, pooler_dropout=0.0),
    _encoder("ModernBERT", "ModernBertModel", global_attn_every_n_layers=2, local_attention=8, cls_token_id=3,
             sep_token_id=4, bos_token_id=1, eos_token_id=2),
    _encoder("Longformer", "LongformerModel", attention_window=8),
    _encoder("BigBird", "BigBirdModel", attention_type="original_full"),
    Family("XLNet", "classifier", "XLNetModel", {"d_model": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "d_inner": 24,
           "dropout": 0.0, "summary_last_dropout": 0.0, **SPECIAL}),
    _decoder("GPT-2", "GPT2LMHeadModel", GPT),
    _decoder("GPT-J", "GPTJForCausalLM", GPT, rotary_dim=4),
    _decoder("GPT-NeoX, Pythia", "GPTNeoXForCausalLM", {**SHAPE, **SPECIAL}),
    _decoder("OPT", "OPTForCausalLM", {**SHAPE, **SPECIAL}, ffn_dim=24, word_embed_proj_dim=WIDTH, dropout=0.0),
    _decoder("BLOOM", "BloomForCausalLM", {"hidden_size": WIDTH, "n_layer": LAYERS, "n_head": HEADS, **SPECIAL}),
    _decoder("Falcon", "FalconForCausalLM", {**SHAPE, **SPECIAL}),
    _decoder("Llama", "LlamaForCausalLM"),
    _decoder("Mistral", "MistralForCausalLM", sliding_window=8),
    _decoder("Mixtral", "MixtralForCausalLM", num_local_experts=4, num_experts_per_tok=2),
    _decoder("Qwen2, Qwen2.5", "Qwen2ForCausalLM"),
    _decoder("Qwen3", "Qwen3ForCausalLM", head_dim=8),
    _decoder("Qwen3-MoE", "Qwen3MoeForCausalLM", head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16),
    _decoder("Gemma", "GemmaForCausalLM", head_dim=8),
    _decoder("Gemma 2", "Gemma2ForCausalLM", head_dim=8, sliding_window=8),
    _decoder("Gemma 3", "Gemma3ForCausalLM", head_dim=8, sliding_window=8),
    _decoder("Phi", "PhiForCausalLM", {**SHAPE, **SPECIAL}),
    _decoder("Phi-3, Phi-4", "Phi3ForCausalLM"),
    _decoder("SmolLM3", "SmolLM3ForCausalLM"),
    _decoder("OLMo 2", "Olmo2ForCausalLM"),
    _decoder("Mamba", "MambaForCausalLM", {"hidden_size": WIDTH, "state_size": 4, "num_hidden_layers": LAYERS, **SPECIAL}),
    _both("T5", "T5ForConditionalGeneration", T5),
    _both("Flan-T5, T5 v1.1", "T5ForConditionalGeneration", GATED),
    _both("mT5", "MT5ForConditionalGeneration", GATED),
    _both("UMT5", "UMT5ForConditionalGeneration", GATED),
    _both("LongT5", "LongT5ForConditionalGeneration", GATED, local_radius=4),
    _both("BART", "BartForConditionalGeneration", BART),
    _both("mBART", "MBartForConditionalGeneration", BART),
    _both("Pegasus", "PegasusForConditionalGeneration", BART),
]
