"""GGUF to checkpoint, with a tiny Llama written as GGUF here: weights, config and tokenizer come back as they were."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tokenizers.pre_tokenizers import ByteLevel
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase

from realm.models import gguf

CONTROL, USER_DEFINED, NORMAL = 3, 4, 1
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>"]
MERGES = ["Ġ Ġ", "ĠĠ ĠĠ", "Ġ a", "a b", "1 2", "Ġ 1", "Ċ Ċ"]
TOKENS = [*SPECIAL, *sorted(ByteLevel.alphabet()), *(merge.replace(" ", "") for merge in MERGES)]
HEADS, GROUPS = 4, 2


def metadata() -> dict[str, Any]:
    return {
        "general.architecture": "llama",
        "llama.block_count": 2,
        "llama.context_length": 64,
        "llama.embedding_length": 32,
        "llama.feed_forward_length": 64,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": GROUPS,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.freq_base": 100000.0,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.token_type": [CONTROL] * 3 + [USER_DEFINED] + [NORMAL] * (len(TOKENS) - 4),
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.padding_token_id": 2,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": "{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}",
    }


def llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(TOKENS),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        num_key_value_heads=GROUPS,
        max_position_embeddings=64,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 100000.0},
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config).eval()


def as_ggml(model: LlamaForCausalLM) -> dict[str, NDArray[np.float32]]:
    """The weights under llama.cpp's names, rows of queries and keys in its order (convert_hf_to_gguf's `permute`)."""
    names = {
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        "o_proj": "attn_output",
        **{f"{x}_proj": f"attn_{x}" for x in "qkv"},
        **{f"{x}_proj": f"ffn_{x}" for x in ("gate", "up", "down")},
    }
    outside = {"embed_tokens": "token_embd", "norm": "output_norm"}
    made = {}
    for name, parameter in model.named_parameters():
        weight, parts = parameter.detach().numpy(), name.split(".")
        if "layers" not in parts:
            made[f"{outside[parts[-2]]}.weight"] = weight
            continue
        if (heads := {"q_proj": HEADS, "k_proj": GROUPS}.get(parts[-2])) is not None:
            rows, columns = weight.shape
            weight = weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)
        made[f"blk.{parts[2]}.{names[parts[-2]]}.weight"] = weight
    return made


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def typed(value: Any) -> tuple[int, bytes]:
    match value:
        case bool():
            return 7, struct.pack("<?", value)
        case int():
            return 4, struct.pack("<I", value)
        case float():
            return 6, struct.pack("<f", value)
        case str():
            return 8, text(value)
    kind = typed(value[0])[0]
    return 9, struct.pack("<IQ", kind, len(value)) + b"".join(typed(element)[1] for element in value)


def write(path: Path, facts: dict[str, Any], weights: dict[str, NDArray[np.float32]]) -> Path:
    """A GGUF file with float32 tensors."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(weights), len(facts))
    for key, value in facts.items():
        code, packed = typed(value)
        head += text(key) + struct.pack("<I", code) + packed
    data = b""
    for name, weight in weights.items():
        shape = struct.pack(f"<I{weight.ndim}Q", weight.ndim, *reversed(weight.shape))
        head += text(name) + shape + struct.pack("<IQ", 0, len(data))
        data += weight.tobytes().ljust(-(-weight.nbytes // 32) * 32, b"\0")
    path.write_bytes(head.ljust(-(-len(head) // 32) * 32, b"\0") + data)
    return path


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gguf")
    (folder / "checkpoint").mkdir()
    gguf.convert(write(folder / "model.gguf", metadata(), as_ggml(llama())), folder / "checkpoint")
    return folder / "checkpoint"


@pytest.fixture(scope="module")
def tokenizer(checkpoint: Path) -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(checkpoint)


def test_the_model_computes_what_it_did_before(checkpoint: Path) -> None:
    model, loading = AutoModelForCausalLM.from_pretrained(checkpoint, output_loading_info=True)
    assert not any(loading.values()), loading
    ids = torch.tensor([[1, 17, 4, 250, 99, 2]])
    with torch.no_grad():
        assert torch.equal(model(ids).logits, llama()(ids).logits)


def test_nothing_of_the_quantisation_is_left(checkpoint: Path) -> None:
    config = AutoModelForCausalLM.from_pretrained(checkpoint).config
    assert not hasattr(config, "quantization_config")
    assert config.architectures == ["LlamaForCausalLM"]
    assert (config.rms_norm_eps, config.rope_parameters["rope_theta"]) == (1e-5, 100000.0)
    assert (config.bos_token_id, config.eos_token_id, config.pad_token_id) == (1, 2, 2)


@pytest.mark.parametrize(
    ("given_text", "tokens"),
    [
        ("1212", ["1", "2", "1", "2"]),
        (" 12", ["Ġ", "1", "2"]),
        ("ab12ab", ["ab", "1", "2", "ab"]),
        ("ab  ab", ["ab", "Ġ", "Ġa", "b"]),
        ("a     a", ["a", "ĠĠĠĠ", "Ġa"]),
        ("a\n\n\na", ["a", "ĊĊ", "Ċ", "a"]),
        ("<|im_start|>ab<|im_end|>", ["<|im_start|>", "ab", "<|im_end|>"]),
        ("<think>1", ["<think>", "1"]),
    ],
)
def test_digits_stand_alone_and_spaces_run(
    given_text: str, tokens: list[str], tokenizer: PreTrainedTokenizerBase
) -> None:
    assert tokenizer.convert_ids_to_tokens(tokenizer(given_text).input_ids) == tokens


def test_special_tokens_and_chat_template_are_kept(tokenizer: PreTrainedTokenizerBase) -> None:
    assert (tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token) == (SPECIAL[1], SPECIAL[2], SPECIAL[2])
    assert tokenizer.unk_token == SPECIAL[0]
    assert tokenizer.model_max_length == 64
    chat = tokenizer.apply_chat_template([{"role": "user", "content": "ab"}], tokenize=False)
    assert chat == "<|im_start|>ab<|im_end|>"
    ids = tokenizer("<|im_start|>ab<think>").input_ids
    assert tokenizer.decode(ids, skip_special_tokens=True) == "ab<think>"


@settings(max_examples=50)
@given(st.binary(min_size=16, max_size=16), *[st.floats(-100, 100, width=16)] * 2)
def test_q4_1_is_scale_times_nibble_plus_offset(quants: bytes, scale: float, offset: float) -> None:
    nibbles = [byte & 15 for byte in quants] + [byte >> 4 for byte in quants]
    expected = [np.float32(scale) * np.float32(nibble) + np.float32(offset) for nibble in nibbles]
    content = b"in front" + struct.pack("<ee", scale, offset) + quants
    np.testing.assert_array_equal(gguf.unpack(content, (2, 16), gguf.Q4_1, 8).ravel(), np.array(expected, np.float32))


@settings(max_examples=50)
@given(st.lists(st.integers(-128, 127), min_size=32, max_size=32), st.floats(-100, 100, width=16))
def test_q8_0_is_scale_times_byte(quants: list[int], scale: float) -> None:
    expected = [np.float32(scale) * np.float32(quant) for quant in quants]
    content = struct.pack("<e32b", scale, *quants)
    np.testing.assert_array_equal(gguf.unpack(content, (32,), gguf.Q8_0, 0), np.array(expected, np.float32))
