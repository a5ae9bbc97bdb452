"""Turn a GGUF file of the Llama family into a plain safetensors checkpoint that `transformers` loads.

Weights are unpacked to float32 exactly as ggml defines its blocks, config and tokenizer are rebuilt from the file's own
metadata, and nothing of the quantisation is left. Reading the file here rather than through `transformers` keeps the
one thing that its conversion loses, the pre-tokenizer, and needs neither torch nor the `gguf` package.
"""

from __future__ import annotations

import json
import re
import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from realm.errors import RealmError

# struct code of each fixed-size metadata type of the GGUF specification; 8 is a string, 9 an array
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9

_F32, _F16, _Q4_1, _Q8_0 = 0, 1, 3, 8  # numbers of ggml's types
_BLOCK = 32  # values per block in Q4_1 and Q8_0
_BLOCK_BYTES = {_Q4_1: 20, _Q8_0: 34}  # 16 bytes of nibbles and two float16; 32 bytes and one float16

_CONTROL, _USER_DEFINED = 3, 4  # token types that are matched whole in the text

_OUTSIDE_LAYERS = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_IN_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


@dataclass(frozen=True)
class Gguf:
    """A GGUF file: its metadata, and per tensor its shape (torch order), ggml type and place in `content`."""

    path: Path
    content: bytes
    metadata: dict[str, Any]
    tensors: dict[str, tuple[tuple[int, ...], int, int]]

    def tensor(self, name: str) -> NDArray[np.float32]:
        """One tensor, unpacked to float32, in the shape the file states."""
        shape, kind, start = self.tensors[name]
        raw = np.frombuffer(self.content, np.uint8, _byte_count(shape, kind), start)
        if kind in _BLOCK_BYTES:
            return _unpack(raw.reshape(-1, _BLOCK_BYTES[kind]), kind).reshape(shape)
        return raw.view("<f4" if kind == _F32 else "<f2").astype(np.float32).reshape(shape)


def read(path: Path) -> Gguf:
    """Parse metadata and tensor table of a GGUF file, version 2 or 3."""
    content = path.read_bytes()
    try:
        return _Reader(content).file(path)
    except (struct.error, UnicodeDecodeError, KeyError, ValueError) as error:
        raise RealmError(f"{path.name} is not a GGUF file that can be read: {error}") from None


def convert(path: Path, folder: Path) -> None:
    """Write the GGUF file at `path` as a checkpoint into the existing `folder`: config, float32 weights, tokenizer."""
    gguf = read(path)
    if (architecture := gguf.metadata.get("general.architecture")) != "llama":
        raise RealmError(f"{path.name} holds a {architecture} model; only the llama architecture can be converted.")
    try:
        _write_config(gguf, folder)
        _write_weights(gguf, folder)
        _write_tokenizer(gguf, folder)
    except KeyError as error:
        raise RealmError(f"{path.name} does not say what its {error.args[0]} is, so it cannot be converted.") from None


class _Reader:
    """A cursor over the bytes of a GGUF file."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.position = 0

    def file(self, path: Path) -> Gguf:
        if self.content[:4] != b"GGUF":
            raise ValueError("it does not start with the letters GGUF")
        self.position = 4
        version, tensor_count, metadata_count = self.number("I"), self.number("Q"), self.number("Q")
        if version not in (2, 3):
            raise ValueError(f"its version is {version}, not 2 or 3")
        metadata = {}
        for _ in range(metadata_count):
            key = self.string()
            metadata[key] = self.value(self.number("I"))
        table = []
        for _ in range(tensor_count):
            name = self.string()
            dimensions = [self.number("Q") for _ in range(self.number("I"))]
            table.append((name, tuple(reversed(dimensions)), self.number("I"), self.number("Q")))
        alignment = metadata.get("general.alignment", 32)  # 32 is the specification's default
        data = -(-self.position // alignment) * alignment
        for name, shape, kind, offset in table:
            if data + offset + _byte_count(shape, kind) > len(self.content):
                raise ValueError(f"it ends in the middle of the tensor {name}")
        return Gguf(
            path, self.content, metadata, {name: (shape, kind, data + offset) for name, shape, kind, offset in table}
        )

    def number(self, code: str) -> Any:
        (value,) = struct.unpack_from("<" + code, self.content, self.position)
        self.position += struct.calcsize("<" + code)
        return value

    def string(self) -> str:
        length = self.number("Q")
        text = self.content[self.position : self.position + length]
        if len(text) < length:
            raise ValueError("it ends in the middle of a string")
        self.position += length
        return text.decode("utf-8")

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            element, count = self.number("I"), self.number("Q")
            return [self.value(element) for _ in range(count)]
        return self.number(_SCALARS[kind])


def _byte_count(shape: tuple[int, ...], kind: int) -> int:
    if kind in _BLOCK_BYTES:
        return prod(shape) // _BLOCK * _BLOCK_BYTES[kind]
    if kind in (_F32, _F16):
        return prod(shape) * (4 if kind == _F32 else 2)
    raise ValueError(f"it has tensors of ggml type {kind}; F32, F16, Q4_1 and Q8_0 are known here")


def _unpack(blocks: NDArray[np.uint8], kind: int) -> NDArray[np.float32]:
    """Blocks of 32 values, (blocks, bytes) to (blocks, 32): Q8_0 is d * q; Q4_1 is d * q + m, low nibbles first."""
    scale = blocks[:, :2].copy().view("<f2").astype(np.float32)
    if kind == _Q8_0:
        return scale * blocks[:, 2:].view(np.int8).astype(np.float32)
    offset = blocks[:, 2:4].copy().view("<f2").astype(np.float32)
    quants = np.concatenate([blocks[:, 4:] & 0x0F, blocks[:, 4:] >> 4], axis=1)
    return scale * quants.astype(np.float32) + offset


def _write_config(gguf: Gguf, folder: Path) -> None:
    from transformers import LlamaConfig

    metadata = gguf.metadata
    heads = metadata["llama.attention.head_count"]
    token_ids = {
        "bos_token_id": metadata["tokenizer.ggml.bos_token_id"],
        "eos_token_id": metadata["tokenizer.ggml.eos_token_id"],
        "pad_token_id": metadata.get("tokenizer.ggml.padding_token_id"),
    }
    LlamaConfig(
        architectures=["LlamaForCausalLM"],
        vocab_size=gguf.tensors["token_embd.weight"][0][0],
        hidden_size=metadata["llama.embedding_length"],
        intermediate_size=metadata["llama.feed_forward_length"],
        num_hidden_layers=metadata["llama.block_count"],
        num_attention_heads=heads,
        num_key_value_heads=metadata.get("llama.attention.head_count_kv", heads),
        max_position_embeddings=metadata["llama.context_length"],
        rms_norm_eps=_as_written(metadata["llama.attention.layer_norm_rms_epsilon"]),
        # 10000 is what a Llama file without the key means.
        rope_parameters={"rope_type": "default", "rope_theta": _as_written(metadata.get("llama.rope.freq_base", 1e4))},
        tie_word_embeddings="output.weight" not in gguf.tensors,
        dtype="float32",
        **token_ids,
    ).save_pretrained(folder)
    (folder / "generation_config.json").write_text(json.dumps(token_ids, indent=2) + "\n", encoding="utf-8")


def _as_written(value: float) -> float:
    """The short decimal that a float32 of the metadata stands for: 9.999999747e-06 is 1e-05."""
    return float(str(np.float32(value)))


def _write_weights(gguf: Gguf, folder: Path) -> None:
    from safetensors.numpy import save_file

    heads = gguf.metadata["llama.attention.head_count"]
    heads_of = {"attn_q": heads, "attn_k": gguf.metadata.get("llama.attention.head_count_kv", heads)}
    weights = {}
    for name in gguf.tensors:
        tensor = gguf.tensor(name)
        inside = re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight", name)
        if inside and inside[2] in _IN_LAYER:
            if inside[2] in heads_of:
                tensor = _split_halves(tensor, heads_of[inside[2]])
            weights[f"model.layers.{inside[1]}.{_IN_LAYER[inside[2]]}.weight"] = tensor
        elif name in _OUTSIDE_LAYERS:
            weights[_OUTSIDE_LAYERS[name]] = tensor
        else:
            raise RealmError(f"{gguf.path.name}: the tensor {name} has no place in a Llama checkpoint.")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _split_halves(weight: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Undo ggml's row order: it interleaves the two halves that the rotary embedding of `transformers` rotates."""
    rows, columns = weight.shape
    halves = weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2)
    return np.ascontiguousarray(halves.reshape(rows, columns))


def _write_tokenizer(gguf: Gguf, folder: Path) -> None:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    fields = {key.removeprefix("tokenizer.ggml."): value for key, value in gguf.metadata.items()}
    if (kind := f"{fields['model']}/{fields.get('pre')}") != "gpt2/smollm":
        raise RealmError(f"{gguf.path.name}: its tokenizer is {kind}; only gpt2/smollm can be rebuilt.")
    tokens = fields["tokens"]
    merges = [tuple(merge.split(" ")) for merge in fields["merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    # What `smollm` means: every digit stands alone, and only then is the text cut as GPT-2 cuts it.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = list(zip(tokens, fields["token_type"], strict=True))
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t, k in kinds if k == _CONTROL])
    tokenizer.add_tokens([AddedToken(t, special=False, normalized=False) for t, k in kinds if k == _USER_DEFINED])
    roles = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
    checkpoint_tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=gguf.metadata["llama.context_length"],
        clean_up_tokenization_spaces=False,
        **{name: tokens[fields[f"{key}_token_id"]] for name, key in roles.items() if f"{key}_token_id" in fields},
    )
    checkpoint_tokenizer.chat_template = gguf.metadata.get("tokenizer.chat_template")
    checkpoint_tokenizer.save_pretrained(folder)
