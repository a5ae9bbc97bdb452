"""The tiny models and annotations of `realm.testing` as tests name them, and tiny models of other families."""

from __future__ import annotations

from pathlib import Path

import torch

from realm.testing import COLOURS, FILLER, encoder_shape, sentences, tiny_model, tiny_tokenizer
from realm.testing import small_annotations as crowd

__all__ = ["COLOURS", "FILLER", "crowd", "save_tiny", "sentences", "tokenizer_for"]

KINDS = {"bert": "classifier", "causal": "causal", "seq2seq": "seq2seq"}


def tokenizer_for(kind: str):
    """The tokenizer of a kind (with an end token for encoder-decoders)."""
    return tiny_tokenizer(end=kind == "seq2seq")


def save_tiny(folder: Path, kind: str, *, seed: int = 0, **sizes) -> str:
    """Write a tiny checkpoint and return its path."""
    if kind in KINDS:
        return tiny_model(folder, KINDS[kind], seed=seed, **sizes)
    tokenizer = tokenizer_for(kind)
    torch.manual_seed(seed)
    _backbone(kind, len(tokenizer), **sizes).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def _backbone(kind: str, vocabulary: int, dropout: float = 0.0, layers: int = 3, width: int = 32):
    import transformers as t

    if kind == "gpt2":
        config = t.GPT2Config(
            vocab_size=vocabulary,
            n_embd=width,
            n_layer=layers,
            n_head=4,
            n_positions=128,
            attn_pdrop=dropout,
            embd_pdrop=dropout,
            resid_pdrop=dropout,
            bos_token_id=1,
            eos_token_id=2,
        )
        return t.GPT2LMHeadModel(config)
    shape = encoder_shape(vocabulary, layers, width, dropout)
    if kind == "mpnet":  # layers return tuples and share a position bias
        return t.MPNetModel(t.MPNetConfig(**shape, pad_token_id=0))
    if kind != "deberta":
        raise ValueError(f"no tiny model of the kind {kind!r}")
    # deberta's layers return pairs and share a norm
    relative = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "norm_rel_ebd": "layer_norm"}
    return t.DebertaV2Model(t.DebertaV2Config(**shape, **relative, position_buckets=16, max_relative_positions=32))
