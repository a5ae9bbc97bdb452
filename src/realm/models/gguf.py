"""The one GGUF file of the store, SmolLM2, as a plain safetensors checkpoint that `transformers` loads.

`transformers` reads such files with the `gguf` package, which is no dependency of REALM, and loses how the tokenizer
cuts digits. The file is known to the byte, so what it holds is not checked here.
"""

from __future__ import annotations

import re
import struct
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# struct code of each fixed-size metadata type of the GGUF specification; 8 is a string, 9 an array
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
F32, Q4_1, Q8_0 = 0, 3, 8  # numbers of ggml's types
BLOCK_BYTES = {F32: 128, Q4_1: 20, Q8_0: 34}  # of 32 values; Q4_1: two float16 and 32 nibbles; Q8_0: one, and 32 bytes
CONTROL, USER_DEFINED = 3, 4  # token types that are matched whole in the text
NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
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


def convert(path: Path, folder: Path) -> None:
    """Write the file at `path` as a checkpoint into the existing `folder`: config, float32 weights, tokenizer."""
    from safetensors.numpy import save_file
    from transformers import LlamaConfig

    metadata, tensors = read(path)
    heads = {"attn_q": metadata["llama.attention.head_count"], "attn_k": metadata["llama.attention.head_count_kv"]}
    LlamaConfig(
        architectures=["LlamaForCausalLM"],
        vocab_size=len(metadata["tokenizer.ggml.tokens"]),
        hidden_size=metadata["llama.embedding_length"],
        intermediate_size=metadata["llama.feed_forward_length"],
        num_hidden_layers=metadata["llama.block_count"],
        num_attention_heads=heads["attn_q"],
        num_key_value_heads=heads["attn_k"],
        max_position_embeddings=metadata["llama.context_length"],
        rms_norm_eps=float(str(np.float32(metadata["llama.attention.layer_norm_rms_epsilon"]))),  # 1e-05, as written
        rope_parameters={"rope_type": "default", "rope_theta": metadata["llama.rope.freq_base"]},
        tie_word_embeddings=True,
        dtype="float32",
        **{f"{token}_token_id": metadata[f"tokenizer.ggml.{token}_token_id"] for token in ("bos", "eos")},
        pad_token_id=metadata["tokenizer.ggml.padding_token_id"],
    ).save_pretrained(folder)
    weights = {}
    for name, tensor in tensors.items():
        layer, own = re.fullmatch(r"(?:blk\.(\d+)\.)?(\w+)\.weight", name).groups()  # type: ignore[union-attr]
        if own in heads:  # rows of a head: from pairs, as ggml rotates, to halves, as `transformers` does
            pairs = tensor.reshape(heads[own], -1, 2, tensor.shape[1])
            tensor = np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(tensor.shape))
        weights[f"model.layers.{layer}.{NAMES[own]}.weight" if layer else f"{NAMES[own]}.weight"] = tensor
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    write_tokenizer(metadata, folder)


def read(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[np.float32]]]:
    """The metadata and the tensors of the file, unpacked to float32."""
    content, position = path.read_bytes(), 4  # behind the letters GGUF

    def value(kind: int) -> Any:
        nonlocal position
        if kind == ARRAY:
            element, count = value(4), value(10)
            return [value(element) for _ in range(count)]
        if kind == STRING:
            length = value(10)
            position += length
            return content[position - length : position].decode("utf-8")
        (number,) = struct.unpack_from("<" + SCALARS[kind], content, position)
        position += struct.calcsize("<" + SCALARS[kind])
        return number

    _version, n_tensors, n_metadata = value(4), value(10), value(10)
    metadata = {value(STRING): value(value(4)) for _ in range(n_metadata)}
    table = []
    for _ in range(n_tensors):
        name = value(STRING)
        shape = tuple(value(10) for _ in range(value(4)))[::-1]
        table.append((name, shape, value(4), value(10)))
    data = -(-position // 32) * 32
    return metadata, {name: unpack(content, shape, kind, data + start) for name, shape, kind, start in table}


def unpack(content: bytes, shape: tuple[int, ...], kind: int, start: int) -> NDArray[np.float32]:
    """The tensor at `start`, from blocks of 32 values: Q8_0 is d * q; Q4_1 is d * q + m, low nibbles first."""
    size = BLOCK_BYTES[kind]
    blocks = np.frombuffer(content, np.uint8, prod(shape) // 32 * size, start).reshape(-1, size)
    if kind == F32:
        return blocks.view("<f4").reshape(shape)
    scale = blocks[:, :2].copy().view("<f2").astype(np.float32)
    if kind == Q8_0:
        return (scale * blocks[:, 2:].view(np.int8).astype(np.float32)).reshape(shape)
    offset = blocks[:, 2:4].copy().view("<f2").astype(np.float32)
    quants = np.concatenate([blocks[:, 4:] & 0x0F, blocks[:, 4:] >> 4], axis=1)
    return (scale * quants.astype(np.float32) + offset).reshape(shape)


def write_tokenizer(metadata: dict[str, Any], folder: Path) -> None:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    fields = {key.removeprefix("tokenizer.ggml."): value for key, value in metadata.items()}
    tokens = fields["tokens"]
    merges = [tuple(merge.split(" ")) for merge in fields["merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    # `pre = smollm`: every digit stands alone, and only then is the text cut as GPT-2 cuts it
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    for kind, add in ((CONTROL, tokenizer.add_special_tokens), (USER_DEFINED, tokenizer.add_tokens)):
        whole = [token for token, own in zip(tokens, fields["token_type"], strict=True) if own == kind]
        add([AddedToken(token, special=kind == CONTROL, normalized=False) for token in whole])
    roles = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
    checkpoint_tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=metadata["llama.context_length"],
        clean_up_tokenization_spaces=False,
        **{name: tokens[fields[f"{key}_token_id"]] for name, key in roles.items()},
    )
    checkpoint_tokenizer.chat_template = metadata["tokenizer.chat_template"]
    checkpoint_tokenizer.save_pretrained(folder)
