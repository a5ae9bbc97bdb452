"""Which token answers: where the K answers first differ, and the token of each there.

A tokenizer may write `a` as a word mark followed by `a`, or ` a` as one token. Nothing is assumed: all K answers are
encoded, what they share is fed to the model, and the logits are read where they first differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from realm.errors import RealmError


@dataclass(frozen=True)
class AnswerTokens:
    """`prefix` is fed after the prompt; `tokens[k]` is then the token that says answer k."""

    prefix: tuple[int, ...]
    tokens: tuple[int, ...]


def find_answer_tokens(
    encode: Callable[[str], Sequence[int]], answers: Sequence[str], prompt: Sequence[int] = ()
) -> AnswerTokens | None:
    """Find the answer tokens, or None where the answers do not separate at one token.

    `encode(answer)` gives the ids of the prompt followed by the answer, and `prompt` those of the prompt alone, which
    must survive unchanged in front of every answer.
    """
    encoded = [tuple(encode(answer)) for answer in answers]
    shared = _common_prefix(encoded)
    if tuple(prompt) != shared[: len(prompt)]:
        return None
    if any(len(ids) <= len(shared) for ids in encoded):
        return None
    tokens = tuple(ids[len(shared)] for ids in encoded)
    if len(set(tokens)) < len(tokens):
        return None
    return AnswerTokens(prefix=shared[len(prompt) :], tokens=tokens)


def require_letters(found: AnswerTokens | None, model: str) -> AnswerTokens:
    if found is None:
        raise RealmError(
            f"--answers letters: the tokenizer of {model} does not tell the answer letters apart in one token. "
            "Use --answers cloze."
        )
    return found


def _common_prefix(sequences: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    shared = sequences[0]
    for sequence in sequences[1:]:
        size = 0
        while size < min(len(shared), len(sequence)) and shared[size] == sequence[size]:
            size += 1
        shared = shared[:size]
    return shared
