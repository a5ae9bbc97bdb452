"""What the speed benchmarks run on: sentences of uneven length, crowds that label them, and models of a given shape."""

from __future__ import annotations

import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from realm.data import Annotations

LABELS = ["negative", "positive"]
LABEL_WORDS = {
    "negative": ["dull", "weak", "poor", "flat", "awful"],
    "positive": ["bright", "strong", "rich", "warm", "great"],
}
PLAIN = ["the", "a", "film", "story", "of", "two", "people", "who", "never", "meet", "and", "know", "each", "other"]
PLAIN += ["with", "its", "own", "slow", "honest", "study"]
PROMPT_WORDS = [
    "Labels",
    "Text",
    "Label",
    "Answer",
    ":",
    ",",
    ")",
    ".",
    "option",
    "text",
    *string.ascii_lowercase,
    *LABELS,
]
NAMES = [
    f"{first}{second}" for first in ("ka", "lo", "mi", "ru", "te", "so") for second in ("ban", "der", "nik", "sul")
]


def sentences(n: int, seed: int = 0) -> tuple[list[str], np.ndarray]:
    """Distinct sentences of 4 to 45 words, 18 on average, and the label that a word or two of each tell."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(2, size=n)
    lengths = np.clip(rng.lognormal(2.75, 0.5, size=n), 4, 45).astype(int)
    texts = []
    for index, (label, length) in enumerate(zip(truth, lengths, strict=True)):
        words = [*rng.choice(PLAIN, size=length), NAMES[index % len(NAMES)], NAMES[index // 24 % len(NAMES)]]
        for word in rng.choice(LABEL_WORDS[LABELS[label]], size=2):
            words.insert(int(rng.integers(len(words))), str(word))
        texts.append(" ".join(words))
    return texts, truth


def crowd(n_items: int, per_item: int, n_annotators: int = 50, seed: int = 0) -> Annotations:
    """Every item labelled by `per_item` annotators, right with an accuracy of their own between 0.55 and 0.95."""
    rng = np.random.default_rng(seed + 1)
    texts, truth = sentences(n_items, seed)
    accuracy = rng.uniform(0.55, 0.95, size=n_annotators)
    who = np.stack([rng.choice(n_annotators, size=per_item, replace=False) for _ in range(n_items)]).ravel()
    item = np.repeat(np.arange(n_items), per_item)
    right = rng.random(len(item)) < accuracy[who]
    labels = np.where(right, truth[item], 1 - truth[item])
    return annotated(texts, truth, item, who, labels)


def annotated(
    texts: Sequence[str], truth: np.ndarray, item: np.ndarray, who: np.ndarray, labels: np.ndarray
) -> Annotations:
    """A table of annotations by index: the item, the annotator and the label of each, and the truth of each item."""
    frame = pd.DataFrame(
        {
            "item": [f"i{i}" for i in item],
            "text": [texts[i] for i in item],
            "annotator": [f"w{i}" for i in who],
            "label": [LABELS[i] for i in labels],
            "gold": [LABELS[i] for i in truth[item]],
        }
    )
    return Annotations.from_pandas(frame, labels=LABELS)


def realm_trainer(model: str, table: Annotations, folder: str, test: Annotations | None = None, **settings: Any) -> Any:
    """A `RealmTrainer` on the CPU that shows and keeps nothing."""
    from realm.comparison.training import quiet_trainer
    from realm.training import RealmConfig

    fixed = {"write_run": False, "save_strategy": "no", "disable_tqdm": True, "use_cpu": True, "logging_steps": 10**6}
    return quiet_trainer(model, table, RealmConfig(folder, **{**fixed, **settings}), test)


def save_t5(folder: Path, small: bool = False) -> str:
    """A T5 of the shape of T5-small (60 million weights), or of a tiny one, with random weights."""
    from transformers import T5Config, T5ForConditionalGeneration

    shape = {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 4}
    config = T5Config(
        vocab_size=512 if small else 32128,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=1,
        dropout_rate=0.1,
        **(shape if small else {}),
    )
    return _save(folder, T5ForConditionalGeneration, config, ends=True)


def save_causal(folder: Path) -> str:
    """A tiny decoder with random weights, to try a benchmark with."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=512,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=6,
        num_attention_heads=4,
        num_key_value_heads=2,
        pad_token_id=0,
        eos_token_id=1,
        tie_word_embeddings=True,
    )
    return _save(folder, LlamaForCausalLM, config)


def save_encoder(folder: Path) -> str:
    """A tiny encoder with random weights."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=512,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return _save(folder, BertModel, config)


def _save(folder: Path, model: type, config: object, ends: bool = False) -> str:
    import torch

    torch.manual_seed(0)
    model(config).save_pretrained(folder)  # type: ignore[attr-defined,call-arg]
    _tokenizer(ends).save_pretrained(folder)
    return str(folder)


def _tokenizer(ends: bool):  # type: ignore[no-untyped-def]
    """A word is a token; with `ends` an end token follows, as in encoder-decoders."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    label_words = [word for words in LABEL_WORDS.values() for word in words]
    words = ["<pad>", "</s>", "<unk>", *dict.fromkeys([*PLAIN, *NAMES, *PROMPT_WORDS, *label_words])]
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if ends:
        tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")
