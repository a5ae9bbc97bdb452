"""What is missing from a model, named: what `transformers` would fill in at random or guess without a word."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from realm.errors import RealmError
from realm.files import read_json

VOCABULARIES = ("tokenizer.json", "vocab*", "merges.txt", "*.model", "*.tiktoken", "tekken.json", "*.vocab")
"""Files of which a tokenizer has one at least, unless it reads bytes."""
BYTE_TOKENIZERS = ("ByT5Tokenizer", "CanineTokenizer", "PerceiverTokenizer")


def check_folder(path: str, name: str) -> None:
    """Refuse a folder without tokenizer or whole weights, or that would load or run something else; a hub id passes.

    `name` is for messages.
    """
    folder = Path(path)
    if not folder.is_dir():
        return
    config = read_json(folder / "config.json")
    if not isinstance(config, dict):
        raise RealmError(f"`model={name}`: {folder / 'config.json'} is no model's: it holds no settings.")
    # a kernel on the hub (`owner/repository`) would be fetched and run
    if any("/" in json.dumps(config.get(key)) for key in ("attn_implementation", "_attn_implementation")):
        raise RealmError(f"`model={name}`: config.json names an attention kernel to fetch and run. Remove it.")
    if (folder / "adapter_config.json").exists():
        raise RealmError(
            f"`model={name}`: adapter_config.json: an adapter would load another model than this folder's. Merge it "
            "(`merge_and_unload` of peft), save the result and name that folder."
        )
    settings = folder / "tokenizer_config.json"
    own_class = str(dict(read_json(settings)).get("tokenizer_class")) if settings.is_file() else ""
    vocabularies = (file for pattern in VOCABULARIES for file in folder.glob(pattern))
    if own_class not in BYTE_TOKENIZERS and not any(file.stat().st_size for file in vocabularies):
        raise RealmError(f"`model={name}`: the folder has no tokenizer. Save that of the model it was made from there.")
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        raise RealmError(f"`model={name}`: the folder has no weights (model.safetensors). Save the model there again.")
    for file in weights:
        try:
            with safe_open(file, framework="np"):
                pass
        except (SafetensorError, OSError, ValueError) as error:
            raise RealmError(f"`model={name}`: {file} is not whole: {error}. Copy it again.") from None


def has_new_head(backbone: Any, info: dict[str, Any], name: str, *, allowed: bool) -> bool:
    """Whether the head is a random one, as the files have none that fits; refuse any other part that would be.

    `info` is the loading info of `from_pretrained`.
    """
    new = [*map(str, info["missing_keys"]), *(str(key[0]) for key in info["mismatched_keys"])]
    body = f"{backbone.base_model_prefix}."
    lost = sorted(key for key in new if not allowed or (key.startswith(body) and "pooler" not in key.split(".")))
    if lost:
        raise RealmError(
            f"`model={name}`: the weights lack {', '.join(lost[:3])}{' and more' if len(lost) > 3 else ''}, or have "
            f"another size: they would be random. The files are incomplete, or not of {type(backbone).__name__}."
        )
    return bool(new)


def check_loaded(backbone: Any, tokenizer: Any, name: str) -> None:
    """Refuse weights that are no numbers, and a tokenizer that does not belong to them; give it a padding token."""
    if (parameter := first_not_finite(backbone.named_parameters())) is not None:
        raise RealmError(
            f"`model={name}`: its weights {parameter} hold values that are infinite or not a number: it was damaged, "
            "or its training diverged."
        )
    rows, largest = backbone.get_input_embeddings().weight.shape[0], max(tokenizer.get_vocab().values(), default=0)
    if largest >= rows:
        raise RealmError(
            f"`model={name}`: its tokenizer numbers tokens up to {largest}; the model has embeddings for {rows}. Take "
            "the tokenizer that belongs to it, or `resize_token_embeddings(len(tokenizer))` and save it."
        )
    if tokenizer.pad_token_id is None:  # padding is masked, so any token will do
        end = getattr(backbone.config, "eos_token_id", None)
        ids = [tokenizer.eos_token_id, *(end if isinstance(end, list) else [end]), tokenizer.unk_token_id]
        known = [number for number in (*ids, tokenizer.bos_token_id, tokenizer.sep_token_id) if number is not None]
        if not known:
            raise RealmError(f"`model={name}`: its tokenizer has no padding token. Set `tokenizer.pad_token`, save it.")
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(known[0])


def first_not_finite(tensors: Iterable[tuple[str, Any]]) -> str | None:
    """The name of the first tensor with a value that is infinite or not a number; None where all are finite."""
    for name, tensor in tensors:
        if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point() or tensor.is_meta:
            continue
        value = tensor.detach()
        # the sum needs no memory, and is finite unless a value is not or it overflows: only then each is looked at
        if not bool(value.sum(dtype=torch.float32).isfinite()) and not bool(value.isfinite().all()):
            return name
    return None
