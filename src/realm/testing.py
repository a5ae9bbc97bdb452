"""For tests of your own code: a tiny random model with its tokenizer, and small annotations. Nothing is downloaded.

Examples:
    >>> from realm.testing import small_annotations, tiny_model
    >>> small_annotations(20)
    Annotations(20 items, 3 annotators, 60 annotations, 1 task)
    >>> RealmTrainer(tiny_model(folder), small_annotations(20), RealmConfig(output, max_steps=2))  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from realm.data import Annotations
from realm.errors import RealmError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

__all__ = ["COLOURS", "small_annotations", "tiny_model"]

COLOURS = ["red", "green", "blue", "white"]
"""The labels of `small_annotations`."""
FILLER = ["the", "a", "small", "large", "bird", "house", "boat", "tree", "saw", "near", "under", "with", "old", "new"]
FILLER += ["very", "quite", "runs", "sits"]
KINDS = ("classifier", "causal", "seq2seq")
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
"""Ids of the first special tokens of `tiny_tokenizer`."""


def tiny_model(
    folder: str | Path,
    kind: str = "classifier",
    *,
    layers: int = 3,
    width: int = 32,
    dropout: float = 0.0,
    seed: int = 0,
) -> str:
    """Write a tiny random model with its tokenizer as a Hugging Face checkpoint, and return its folder.

    It is written in a fraction of a second and learns the sentences of `small_annotations` in some dozens of steps at a
    learning rate of 1e-3. The same arguments give the same weights.

    Args:
        folder: where to write it, such as pytest's `tmp_path`; made where it is not there.
        kind: `classifier` (BERT), `causal` (Llama) or `seq2seq` (T5).
        layers: how many, in the encoder of a `seq2seq` (its decoder has two).
        width: of the hidden states; a multiple of 8.
        dropout: of everything that has one.
        seed: of the weights.
    """
    import torch

    if kind not in KINDS:
        raise RealmError(f"`kind={kind}`: must be one of {', '.join(KINDS)}.")
    tokenizer = tiny_tokenizer(end=kind == "seq2seq")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = _backbone(kind, len(tokenizer), layers, width, dropout)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def tiny_tokenizer(*, end: bool) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer trained on the words of `small_annotations`; `end` closes a text, as in T5."""
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
    special, alphabet = ["<pad>", "<s>", "</s>", "[CLS]", "[SEP]"], pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(corpus, trainer)
    if end:
        tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>")


def _backbone(kind: str, vocabulary: int, layers: int, width: int, dropout: float) -> PreTrainedModel:
    import transformers as t

    shape = encoder_shape(vocabulary, layers, width, dropout)
    if kind == "classifier":
        return t.BertModel(t.BertConfig(**shape, classifier_dropout=dropout))
    if kind == "causal":
        same = {name: shape[name] for name in list(shape)[:5]} | SPECIAL
        heads = {"num_key_value_heads": 2, "max_position_embeddings": 256, "attention_dropout": dropout}
        return t.LlamaForCausalLM(t.LlamaConfig(**same, **heads, tie_word_embeddings=True))
    sizes: dict[str, Any] = {"vocab_size": vocabulary, "d_model": width, "d_kv": 8, "d_ff": 64, "num_heads": 4}
    sizes |= {"num_layers": layers, "num_decoder_layers": 2, "dropout_rate": dropout, "decoder_start_token_id": 0}
    ends = {"pad_token_id": 0, "eos_token_id": 2, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
    return t.T5ForConditionalGeneration(t.T5Config(**sizes, **ends))


def encoder_shape(vocabulary: int, layers: int, width: int, dropout: float) -> dict[str, Any]:
    """What the configurations of BERT and its kin share."""
    return {
        "vocab_size": vocabulary,
        "hidden_size": width,
        "intermediate_size": 64,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "max_position_embeddings": 256,
        "hidden_dropout_prob": dropout,
        "attention_probs_dropout_prob": dropout,
    }


def small_annotations(
    n_items: int = 60,
    accuracies: Sequence[float] = (0.9, 0.5, 0.3),
    per_item: int | None = None,
    seed: int = 0,
    labels: int = 4,
    tasks: int = 1,
    gold: bool = True,
) -> Annotations:
    """Annotations of short sentences, whose true label is the colour that they name, by annotators `w0`, `w1`, ...

    Args:
        n_items: how many sentences, `i0`, `i1`, ...; no two are equal.
        accuracies: how often each annotator is right; their errors are uniform over the other labels.
        per_item: how many annotators, drawn at random, label each item; by default all of them.
        seed: of sentences and labels.
        labels: how many colours, 2 to 4.
        tasks: how many tasks, `t0`, `t1`, ..., the items take turns in.
        gold: whether the true labels are in the table.
    """
    import pandas as pd

    if not 2 <= labels <= len(COLOURS):
        raise RealmError(f"`labels={labels}`: must be 2 to {len(COLOURS)}.")
    if per_item is not None and not 1 <= per_item <= len(accuracies):
        raise RealmError(f"`per_item={per_item}`: must be 1 to {len(accuracies)}, as many as there are `accuracies`.")
    generator = np.random.default_rng(seed + 1)
    texts, truth = sentences(n_items, seed, labels)
    rows = []
    for index, (text, label) in enumerate(zip(texts, truth, strict=True)):
        who = np.arange(len(accuracies))
        if per_item is not None:
            who = generator.choice(len(accuracies), size=per_item, replace=False)
        for annotator in who:
            right = generator.random() < accuracies[int(annotator)]
            given = label if right else (label + 1 + generator.integers(labels - 1)) % labels
            rows.append((f"i{index}", text, f"w{annotator}", COLOURS[given], COLOURS[label], f"t{index % tasks}"))
    frame = pd.DataFrame(rows, columns=["item", "text", "annotator", "label", "gold", "task"])
    unwanted = [name for name, wanted in (("task", tasks > 1), ("gold", gold)) if not wanted]
    return Annotations.from_pandas(frame.drop(columns=unwanted), labels=COLOURS[:labels])


def sentences(n: int, seed: int = 0, labels: int = 4) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Distinct sentences, and the index of the colour that each names. (n,)"""
    generator = np.random.default_rng(seed)
    texts, truth = [], generator.integers(labels, size=n)
    for index, label in enumerate(truth):
        words = list(generator.choice(FILLER, size=generator.integers(3, 8)))
        words.insert(int(generator.integers(len(words) + 1)), COLOURS[label])
        texts.append(" ".join([*words, *str(index)]))
    return texts, truth
