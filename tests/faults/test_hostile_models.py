"""Model folders that are damaged, incomplete or nonsense: every command says what is wrong, and nothing is guessed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from realm.errors import RealmError
from realm.scorers import load_scorer
from tests.tiny import crowd, save_tiny

WEIGHTS = "model.safetensors"
ITEMS = crowd(6).items


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    made: dict[str, Path] = {}

    def of(kind: str) -> Path:
        if kind not in made:
            made[kind] = tmp_path_factory.mktemp(kind) / "model"
            save_tiny(made[kind], kind, layers=1, width=16)
        return made[kind]

    return of


@pytest.fixture
def folder(kinds: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a tiny model, to be damaged."""

    def of(kind: str) -> Path:
        return Path(shutil.copytree(kinds(kind), tmp_path / kind))

    return of


def refused(folder: Path, message: str, **how: Any) -> None:
    with pytest.raises(RealmError, match=message) as error:
        load_scorer(str(folder), ITEMS, **how)
    assert str(folder) in str(error.value)


def config(folder: Path, **values: Any) -> None:
    path = folder / "config.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in {**content, **values}.items() if value != "taken out"}))


# ---------------------------------------------------------------- tokenizers


def test_no_tokenizer(folder) -> None:
    """transformers would make an empty one for some kinds of model."""
    for kind in ("causal", "bert"):
        path = folder(kind)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            (path / name).unlink()
        refused(path, "the folder has no tokenizer")


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"model": 3}', "not json"])
def test_a_tokenizer_that_is_none(content: str, folder) -> None:
    path = folder("causal")
    (path / "tokenizer.json").write_text(content)
    refused(path, "no tokenizer|cannot be loaded|knows no words")


def test_a_tokenizer_larger_than_the_embedding(folder) -> None:
    from transformers import AutoTokenizer

    path = folder("causal")
    tokenizer = AutoTokenizer.from_pretrained(path)
    tokenizer.add_tokens(["<new-1>", "<new-2>"])
    tokenizer.save_pretrained(path)
    refused(path, "numbers tokens up to 385; the model has embeddings for 384")


# ---------------------------------------------------------------- configs


@pytest.mark.parametrize("content", ["", "not json", "[]", "null"])
def test_a_config_that_is_none(content: str, folder) -> None:
    path = folder("causal")
    (path / "config.json").write_text(content)
    refused(path, r"config\.json")


def test_a_type_that_does_not_fit_the_weights(folder) -> None:
    """Without architectures nothing contradicts it but the names of the weights: all would be random."""
    path = folder("bert")
    config(path, model_type="distilbert", architectures="taken out")
    load_scorer(str(folder("causal")), ITEMS)  # the same without the change
    refused(path, "lack|cannot be")


@pytest.mark.parametrize(
    "sizes",
    [
        {"num_hidden_layers": 2},
        {"num_attention_heads": 3},
        {"vocab_size": 200},
        {"intermediate_size": 32},
        {"hidden_size": "sixteen"},
        {"max_position_embeddings": 0},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["causal", "bert"])
def test_a_config_of_another_size_than_the_weights(kind: str, sizes: dict[str, Any], folder) -> None:
    path = folder(kind)
    config(path, **sizes)
    with pytest.raises(RealmError):
        load_scorer(str(path), ITEMS)


def test_an_adapter_would_load_another_model(folder) -> None:
    path = folder("causal")
    (path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "somebody/else"}))
    refused(path, "an adapter would load another model")


# ---------------------------------------------------------------- weights


def test_no_weights(folder) -> None:
    path = folder("causal")
    (path / WEIGHTS).unlink()
    refused(path, "has no weights")


@pytest.mark.parametrize("kind", ["causal", "gpt2", "seq2seq", "bert"])
def test_weights_that_are_missing_are_not_made_up(kind: str, folder) -> None:
    path = folder(kind)
    weights = load_file(path / WEIGHTS)
    lost = next(name for name in sorted(weights) if "norm" in name.lower() or "ln_" in name)
    save_file({k: v for k, v in weights.items() if k != lost}, path / WEIGHTS, metadata={"format": "pt"})
    refused(path, "the weights lack .*they would be random")


@pytest.mark.parametrize(
    "change",
    [
        lambda content: b"",
        lambda content: content[:100],
        lambda content: content[:-1],
        lambda content: b"PK\x03\x04" + content,
    ],
)
def test_safetensors_that_are_cut(change: Callable[[bytes], bytes], folder) -> None:
    path = folder("causal")
    (path / WEIGHTS).write_bytes(change((path / WEIGHTS).read_bytes()))
    refused(path, r"model\.safetensors is not whole")


def test_a_part_of_the_weights_that_was_not_copied(folder) -> None:
    path = folder("causal")
    (path / WEIGHTS).rename(path / "model-00001.safetensors")
    weights = {name: "model-00001.safetensors" for name in load_file(path / "model-00001.safetensors")}
    index = path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weights}))
    load_scorer(str(path), ITEMS)
    index.write_text(json.dumps({"metadata": {}, "weight_map": {**weights, "x": "model-00002.safetensors"}}))
    refused(path, r"model-00002\.safetensors")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers(value: float, folder) -> None:
    path = folder("bert")
    weights = load_file(path / WEIGHTS)
    weights["encoder.layer.0.output.dense.weight"][0, 0] = value
    save_file(weights, path / WEIGHTS, metadata={"format": "pt"})
    refused(path, r"encoder\.layer\.0\.output\.dense\.weight hold values that are infinite or not a number")


# ---------------------------------------------------------------- through the commands
