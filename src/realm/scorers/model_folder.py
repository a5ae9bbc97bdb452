"""Model folders that are damaged, incomplete or made to do harm are refused, saying what is wrong, before and after
`transformers` loads them: what it would fill in at random, guess or allocate without a word."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from realm.errors import RealmError
from realm.files import read_json
from realm.schema import parse
from realm.scorers.finite import first_not_finite

logger = logging.getLogger(__name__)

CONFIG, ADAPTER = "config.json", "adapter_config.json"
MOST_CONFIG = 1 << 24
"""Bytes of a config: the longest lists a million labels."""
VOCABULARIES = ("tokenizer.json", "vocab*", "merges.txt", "*.model", "*.tiktoken", "tekken.json", "*.vocab")
"""Files of which a tokenizer has one at least, unless it reads bytes."""
BYTE_TOKENIZERS = ("ByT5Tokenizer", "CanineTokenizer", "PerceiverTokenizer")
PARAMETERS_PER_BYTE = 16
"""Most parameters for each byte of weights: files hold two a byte at the least, and tied ones once."""
SMALL = 50_000_000
"""Parameters that a model may have whatever its files hold: a new head, 200 MB."""
MOST_LAYERS = 10_000
"""More than any model has, where the number of its tensors is not known."""
NAMED = 3
"""Tensors that a message names."""


@dataclass(frozen=True)
class Weights:
    """What the files of a folder hold: bytes, and tensors where they are safetensors."""

    size: int
    tensors: int | None


def check_folder(folder: Path, name: str) -> Weights:
    """Refuse a folder whose config, tokenizer or weights are missing or unreadable. `name` is for messages."""
    config = parse(folder / CONFIG, read_json(folder / CONFIG, MOST_CONFIG), dict[str, Any])
    kernels = [config.get(key) for key in ("attn_implementation", "_attn_implementation")]
    # a kernel on the hub (`owner/repository`) would be fetched and run
    if any("/" in json.dumps(kernel) for kernel in kernels):
        raise RealmError(
            f"`model={name}`: {folder / CONFIG} names an attention kernel to fetch and run, which is not done here. "
            "Remove attn_implementation from it."
        )
    if (folder / ADAPTER).exists():
        raise RealmError(
            f"`model={name}`: {folder / ADAPTER}: an adapter would load another model than this folder's. Merge it "
            "(`merge_and_unload` of peft), save the result and name that folder."
        )
    _check_tokenizer(folder, name)
    return _check_weights(folder, name)


def _check_tokenizer(folder: Path, name: str) -> None:
    if any(path.is_file() and path.stat().st_size for pattern in VOCABULARIES for path in folder.glob(pattern)):
        return
    path = folder / "tokenizer_config.json"
    settings = read_json(path, MOST_CONFIG) if path.is_file() else {}
    if isinstance(settings, dict) and settings.get("tokenizer_class") in BYTE_TOKENIZERS:
        return
    raise RealmError(
        f"`model={name}`: the folder has no tokenizer (tokenizer.json, vocab.txt, a sentencepiece model, ...). Put "
        "that of the model it was made from there: `AutoTokenizer.from_pretrained(...).save_pretrained(folder)`."
    )


def _check_weights(folder: Path, name: str) -> Weights:
    for index in ("model.safetensors.index.json", "pytorch_model.bin.index.json"):
        if (folder / index).is_file() and not (folder / index.removesuffix(".index.json")).is_file():
            _check_index(folder, index, name)
    tensors = sorted(path for path in folder.glob("*.safetensors") if path.is_file())
    pickles = sorted(path for path in folder.glob("pytorch_model*.bin") if path.is_file())
    if not tensors and not pickles:
        raise RealmError(f"`model={name}`: the folder has no weights (model.safetensors). Save the model there again.")
    count = sum(_tensor_count(path, name) for path in tensors)
    return Weights(sum(path.stat().st_size for path in (*tensors, *pickles)), None if pickles else count)


def _check_index(folder: Path, index: str, name: str) -> None:
    content = parse(folder / index, read_json(folder / index), dict[str, Any])
    for file in sorted(set(parse(folder / index, content.get("weight_map"), dict[str, str]).values())):
        if Path(file).name != file or not (folder / file).is_file():
            raise RealmError(f"`model={name}`: {folder / index} names {file!r}, which is not a file beside it.")


def _tensor_count(path: Path, name: str) -> int:
    try:
        with safe_open(path, framework="np") as file:
            return len(file.keys())
    except (SafetensorError, OSError, ValueError, TypeError, OverflowError) as error:
        raise RealmError(
            f"`model={name}`: {path} is not whole: {error}. Copy it again from where it came from."
        ) from None


def check_config(config: Any, name: str) -> None:
    """Refuse a config whose architectures belong to another kind of model, or whose sizes are none."""
    import transformers

    for architecture in getattr(config, "architectures", None) or ():
        architecture_class = getattr(transformers, architecture, None)
        expected = getattr(architecture_class, "config_class", None)
        if expected is None:
            logger.warning(
                "`model=%s`: transformers knows no %s, the architecture that its config names; it is loaded as %s.",
                *(name, architecture, config.model_type),
            )
        elif not (isinstance(config, expected) or issubclass(expected, type(config))):
            raise RealmError(
                f"`model={name}`: its config.json contradicts itself: `architectures` says {architecture}, a model of "
                f"type {expected.model_type}, and `model_type` says {config.model_type}. Restore the config that "
                "belongs to the weights."
            )
    for size in ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"):
        value = getattr(config, size, None)
        if isinstance(value, int) and (isinstance(value, bool) or not 1 <= value < 2**31):
            raise RealmError(f"`model={name}`: its config.json says {size} = {value}, which no model has.")


def check_sizes(config: Any, auto_class: Any, weights: Weights, name: str) -> None:
    """Refuse a config that asks for a far larger model than the weights hold, before anything of it is allocated."""
    most = MOST_LAYERS if weights.tensors is None else max(weights.tensors, 1)
    described = config.to_dict()
    for key, value in described.items():
        is_count = isinstance(value, int) and any(part in key for part in ("layer", "expert", "block"))
        if is_count and value > max(most, 64):
            raise RealmError(f"`model={name}`: its config.json says {key} = {value}; the weights have {most} tensors.")
    if getattr(config, "quantization_config", None) is not None:
        return
    count = _parameters(auto_class, _Described(f"{type(config)} {described}", config))
    if count > PARAMETERS_PER_BYTE * weights.size + SMALL:
        raise RealmError(
            f"`model={name}`: its config.json describes a model of {count:,} parameters; its weights are "
            f"{weights.size / 1e6:,.1f} MB. Restore the config that belongs to the weights."
        )


@dataclass(frozen=True)
class _Described:
    """A config, the same as any that says the same."""

    text: str
    config: Any = field(compare=False)


@lru_cache(maxsize=64)
def _parameters(auto_class: Any, described: _Described) -> int:
    """How many numbers a model of this config has: counted once, as a comparison loads one model many times."""
    # on the meta device shapes are computed and nothing else; random numbers stay where they are
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        model = auto_class.from_config(described.config, trust_remote_code=False)
    return sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers()))


def new_weights(backbone: Any, info: dict[str, Any], name: str, *, may_have_new_head: bool) -> bool:
    """Whether the head is new, that is random, because the folder has none that fits; anything else is refused.

    `info` is the loading info of `from_pretrained`.
    """
    missing = [str(key) for key in info["missing_keys"]]
    resized = [str(key[0]) for key in info["mismatched_keys"]]
    body = f"{backbone.base_model_prefix}."
    lost = sorted(
        key
        for key in (*missing, *resized)
        if not may_have_new_head or (key.startswith(body) and "pooler" not in key.split("."))
    )
    if lost:
        of_size = " of this size" if set(lost) & set(resized) else ""
        more = f" and {len(lost) - NAMED:,} more" if len(lost) > NAMED else ""
        raise RealmError(
            f"`model={name}`: the weights lack {', '.join(lost[:NAMED])}{more}{of_size}: they would be random. The "
            f"files are incomplete, or of another model than {type(backbone).__name__}."
        )
    if info.get("error_msgs"):
        raise RealmError(f"`model={name}`: {str(info['error_msgs'][0]).strip().splitlines()[0]}")
    return bool(missing or resized)


def check_tokenizer(tokenizer: Any, config: Any, name: str) -> None:
    """Refuse a tokenizer that knows no words, and let it read some: whatever else is wrong with it comes out here."""
    _give_padding(tokenizer, config, name)
    vocabulary = len(tokenizer.get_vocab())
    if vocabulary <= len(tokenizer.all_special_ids) and type(tokenizer).__name__ not in BYTE_TOKENIZERS:
        raise RealmError(f"`model={name}`: its tokenizer knows no words: its vocabulary is missing.")
    rows = tokenizer(["a text", "Another one, longer."], truncation=True, max_length=16)["input_ids"]
    rows += tokenizer(["a text"], add_special_tokens=False, truncation=False, verbose=False)["input_ids"]
    tokenizer.decode(rows[0], skip_special_tokens=True)
    if not all(row and all(isinstance(token, int) for token in row) for row in rows):
        raise RealmError(f"`model={name}`: its tokenizer makes no tokens of a text.")


def check_loaded(backbone: Any, tokenizer: Any, name: str) -> None:
    """Refuse weights that are no numbers, and a tokenizer that does not belong to them."""
    if (parameter := first_not_finite(backbone.named_parameters())) is not None:
        raise RealmError(
            f"`model={name}`: its weights {parameter} hold values that are infinite or not a number: it was damaged, "
            "or its training diverged."
        )
    rows = backbone.get_input_embeddings().weight.shape[0]
    ids = {*tokenizer.get_vocab().values(), *tokenizer.all_special_ids}
    if max(ids) >= rows or min(ids) < 0:
        raise RealmError(
            f"`model={name}`: its tokenizer numbers tokens up to {max(ids)}; the model has embeddings for {rows}. Take "
            "the tokenizer that belongs to it, or `resize_token_embeddings(len(tokenizer))` and save it."
        )


def _give_padding(tokenizer: Any, config: Any, name: str) -> None:
    """Give a tokenizer without a padding token one, as users of such models do: padding is masked, so any will do."""
    if tokenizer.pad_token_id is not None:
        return
    ids = [tokenizer.eos_token_id, getattr(config, "pad_token_id", None)]
    end = getattr(config, "eos_token_id", None)
    ids += [*(end if isinstance(end, list) else [end]), tokenizer.unk_token_id, tokenizer.bos_token_id]
    ids += [tokenizer.sep_token_id]
    known = [number for number in ids if isinstance(number, int) and 0 <= number < len(tokenizer)]
    if not known:
        raise RealmError(
            f"`model={name}`: its tokenizer has no padding token and no other special one (eos, unk, bos, sep) to "
            'take. Set `tokenizer.pad_token = "..."`, a token it knows, and save it.'
        )
    tokenizer.pad_token = tokenizer.convert_ids_to_tokens(known[0])
