"""Tiny random models with a tokenizer trained here, so that no test needs a download."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import torch

from realm.data import Annotations

COLOURS = ["red", "green", "blue", "white"]
FILLER = ["the", "a", "small", "large", "bird", "house", "boat", "tree", "saw", "near", "under", "with", "old", "new"]
FILLER += ["very", "quite", "runs", "sits"]


def tokenizer_for(kind: str):
    """A byte-level BPE tokenizer trained on the tests' own words (with an end token for encoder-decoders)."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    corpus = [
        " ".join(FILLER),
        " ".join(COLOURS),
        "Answer: a b c d e positive negative Labels: Text: Label: option Question",
        "a) b) c) d) , . yes no maybe 0 1 2 3",
        "text word item",
    ] * 20
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=["<pad>", "<s>", "</s>", "[CLS]", "[SEP]"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    if kind == "seq2seq":
        tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>")


def backbone_for(kind: str, vocabulary: int, dropout: float = 0.0, layers: int = 3, width: int = 32):
    import transformers as t

    if kind == "seq2seq":
        config = t.T5Config(
            vocab_size=vocabulary,
            d_model=width,
            d_kv=8,
            d_ff=64,
            num_layers=layers,
            num_decoder_layers=2,
            num_heads=4,
            dropout_rate=dropout,
            decoder_start_token_id=0,
            pad_token_id=0,
            eos_token_id=2,
            feed_forward_proj="gated-gelu",
            tie_word_embeddings=False,
        )
        return t.T5ForConditionalGeneration(config)
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
    if kind == "causal":
        config = t.LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=width,
            intermediate_size=64,
            num_hidden_layers=layers,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=256,
            tie_word_embeddings=True,
            attention_dropout=dropout,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
        )
        return t.LlamaForCausalLM(config)
    shape = {
        "vocab_size": vocabulary,
        "hidden_size": width,
        "intermediate_size": 64,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "max_position_embeddings": 256,
        "hidden_dropout_prob": dropout,
        "attention_probs_dropout_prob": dropout,
    }
    if kind == "mpnet":  # layers return tuples and share a position bias
        return t.MPNetModel(t.MPNetConfig(**shape, pad_token_id=0))
    if kind == "deberta":  # layers return pairs and share a norm
        relative = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "norm_rel_ebd": "layer_norm"}
        return t.DebertaV2Model(t.DebertaV2Config(**shape, **relative, position_buckets=16, max_relative_positions=32))
    config = t.BertConfig(
        **shape,
        classifier_dropout=dropout,
    )
    return t.BertModel(config)


def save_tiny(folder: Path, kind: str, *, seed: int = 0, **sizes) -> str:
    """Write a tiny checkpoint and return its path."""
    torch.manual_seed(seed)
    tokenizer = tokenizer_for(kind)
    backbone = backbone_for(kind, len(tokenizer), **sizes)
    backbone.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def sentences(n: int, seed: int = 0, labels: int = 4) -> tuple[list[str], np.ndarray]:
    """Distinct sentences whose label is the colour they name."""
    generator = np.random.default_rng(seed)
    texts, truth = [], generator.integers(labels, size=n)
    for index, label in enumerate(truth):
        words = list(generator.choice(FILLER, size=generator.integers(3, 8)))
        words.insert(int(generator.integers(len(words) + 1)), COLOURS[label])
        texts.append(" ".join([*words, *str(index)]))
    return texts, truth


def crowd(
    n_items: int = 60,
    accuracies=(0.9, 0.5, 0.3),
    per_item: int | None = None,
    seed: int = 0,
    labels: int = 4,
    tasks: int = 1,
    gold: bool = True,
) -> Annotations:
    """Annotations of `sentences` by annotators of these accuracies, errors uniform; all label every item, or some."""
    generator = np.random.default_rng(seed + 1)
    texts, truth = sentences(n_items, seed, labels)
    rows = []
    for index, (text, label) in enumerate(zip(texts, truth, strict=True)):
        who = np.arange(len(accuracies))
        if per_item is not None:
            who = generator.choice(len(accuracies), size=per_item, replace=False)
        for annotator in who:
            right = generator.random() < accuracies[annotator]
            said = label if right else (label + 1 + generator.integers(labels - 1)) % labels
            rows.append(
                {
                    "item": f"i{index}",
                    "text": text,
                    "annotator": f"w{annotator}",
                    "label": COLOURS[said],
                    "gold": COLOURS[label],
                    "task": f"t{index % tasks}",
                }
            )
    frame = pd.DataFrame(rows)
    if tasks == 1:
        frame = frame.drop(columns="task")
    if not gold:
        frame = frame.drop(columns="gold")
    return Annotations.from_pandas(frame, labels=COLOURS[:labels])
