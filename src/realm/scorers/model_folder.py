"""What is missing from a model, named: what `transformers` would fill in at random or guess without a word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from realm.errors import RealmError
from realm.files import read_json
from realm.scorers.finite import first_not_finite

VOCABULARIES = ("tokenizer.json", "vocab*", "merges.txt", "*.model", "*.tiktoken", "tekken.json", "*.vocab")
"""Files of which a tokenizer has one at least, unless it reads bytes."""
BYTE_TOKENIZERS = ("ByT5Tokenizer", "CanineTokenizer", "PerceiverTokenizer")
NAMED = 3
"""Tensors that a message names."""


def check_folder(path: str, name: str) -> None:
    """Refuse a folder that lacks a tokenizer or whole weights in safetensors; a name of the hub passes.

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
        raise RealmError(
            f"`model={name}`: {folder / 'config.json'} names an attention kernel to fetch and run, which is not done "
            "here. Remove attn_implementation from it."
        )
    if (folder / "adapter_config.json").exists():
        raise RealmError(
            f"`model={name}`: {folder / 'adapter_config.json'}: an adapter would load another model than this "
            "folder's. Merge it (`merge_and_unload` of peft), save the result and name that folder."
        )
    settings = folder / "tokenizer_config.json"
    own_class = str(dict(read_json(settings)).get("tokenizer_class")) if settings.is_file() else ""
    files = (file for pattern in VOCABULARIES for file in folder.glob(pattern))
    if own_class not in BYTE_TOKENIZERS and not any(file.stat().st_size for file in files):
        raise RealmError(
            f"`model={name}`: the folder has no tokenizer (tokenizer.json, vocab.txt, a sentencepiece model, ...). Put "
            "that of the model it was made from there: `AutoTokenizer.from_pretrained(...).save_pretrained(folder)`."
        )
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        raise RealmError(
            f"`model={name}`: the folder has no weights (model.safetensors). Save the model there again: "
            "`AutoModel.from_pretrained(...).save_pretrained(folder)`."
        )
    for file in weights:
        try:
            with safe_open(file, framework="np"):
                pass
        except (SafetensorError, OSError, ValueError) as error:
            raise RealmError(
                f"`model={name}`: {file} is not whole: {error}. Copy it again from where it came from."
            ) from None


def new_weights(backbone: Any, info: dict[str, Any], name: str, *, may_have_new_head: bool) -> tuple[str, ...]:
    """The parameters of a new head, that is a random one, as the files have none that fits; others are refused.

    `info` is the loading info of `from_pretrained`.
    """
    resized = [str(key[0]) for key in info["mismatched_keys"]]
    new = [*map(str, info["missing_keys"]), *resized]
    body = f"{backbone.base_model_prefix}."
    lost = sorted(
        key for key in new if not may_have_new_head or (key.startswith(body) and "pooler" not in key.split("."))
    )
    if lost:
        of_size = " of this size" if set(lost) & set(resized) else ""
        more = f" and {len(lost) - NAMED:,} more" if len(lost) > NAMED else ""
        raise RealmError(
            f"`model={name}`: the weights lack {', '.join(lost[:NAMED])}{more}{of_size}: they would be random. The "
            f"files are incomplete, or of another model than {type(backbone).__name__}."
        )
    return tuple(new)


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
            raise RealmError(
                f"`model={name}`: its tokenizer has no padding token and no other special one (eos, unk, bos, sep) to "
                'take. Set `tokenizer.pad_token = "..."`, a token it knows, and save it.'
            )
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(known[0])
