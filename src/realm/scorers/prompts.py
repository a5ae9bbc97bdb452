"""Items to text: the question or text, its context, the options, and the cue that asks for the answer.

Three ways of answering (charter, section 3) need three prompts:

- `letters` lists the options under letters and asks for a letter, as in the paper;
- `names` lists the label names, then the text, and asks for one of them (zero-shot, a small decoder told two labels
  apart with an AUC of 0.78 this way and of 0.45 with the names behind the text);
- `cloze` lists nothing: each option is scored as the continuation.

Truncation shortens the context first, then the text; the instruction, the options and the cue are never cut.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Literal

from realm.errors import RealmError

Answers = Literal["letters", "names", "cloze"]
LETTERS = string.ascii_lowercase
CUE, LABEL_CUE = "Answer:", "Label:"


@dataclass(frozen=True)
class PromptStyle:
    """How items are asked. Saved with a run, so that later items are asked in the same way.

    `max_length` bounds the tokens of a prompt; `chat_template` wraps it as one user turn of the tokenizer's template.
    """

    answers: Answers = "letters"
    instruction: str | None = None
    max_length: int = 512
    chat_template: bool = False

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def render(style: PromptStyle, text: str, context: str | None, options: Sequence[str], tokenizer: Any = None) -> str:
    """The prompt of one item as text, ending where the answer begins.

    Example:
        >>> print(render(PromptStyle(), "Is water wet?", None, ["yes", "no"]))
        Is water wet?
        a) yes
        b) no
        Answer:
    """
    if style.answers == "letters" and len(options) > len(LETTERS):
        raise RealmError(f"an item has {len(options)} options; {len(LETTERS)} is the most that letters can name.")
    if style.answers == "names":
        asked = [style.instruction, f"Labels: {', '.join(options)}", context, text and f"Text: {text}"]
    else:
        asked = [style.instruction, context, text]
    parts = [part for part in asked if part]
    if style.answers == "letters":
        parts += [f"{letter}) {option}" for letter, option in zip(LETTERS, options, strict=False)]
    if not style.chat_template:
        return "\n".join([*parts, LABEL_CUE if style.answers == "names" else CUE])
    if getattr(tokenizer, "chat_template", None) is None:
        raise RealmError("--chat-template on: this model's tokenizer has no chat template. Use --chat-template off.")
    turn = [{"role": "user", "content": "\n".join(parts)}]
    return str(tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True))


def lead(style: PromptStyle) -> str:
    """What stands between the prompt and the answer: a chat turn starts bare, a cue is followed by a space."""
    return "" if style.chat_template else " "


def answer_strings(style: PromptStyle, options: Sequence[str]) -> list[str]:
    """What the model says for each option."""
    return list(LETTERS[: len(options)]) if style.answers == "letters" else list(options)


def tokenize(tokenizer: Any, text: str, *, chat: bool = False) -> list[int]:
    """Token ids of a prompt, with the special tokens its model expects (a chat template writes its own)."""
    ids = tokenizer(text, add_special_tokens=not chat, truncation=False, verbose=False)["input_ids"]
    return [int(token) for token in ids]


def encode_prompt(
    tokenizer: Any, style: PromptStyle, text: str, context: str | None, options: Sequence[str], reserve: int = 0
) -> list[int]:
    """Token ids of an item's prompt, at most `style.max_length - reserve` of them."""
    limit = style.max_length - reserve
    chat = style.chat_template
    ids = tokenize(tokenizer, render(style, text, context, options, tokenizer), chat=chat)
    while len(ids) > limit:
        excess = len(ids) - limit
        if context:
            context = _shorten(tokenizer, context, excess)
        elif text:
            text = _shorten(tokenizer, text, excess)
        else:
            raise RealmError(
                f"the instruction, options and cue alone take {len(ids)} tokens; --max-length allows {limit}."
            )
        ids = tokenize(tokenizer, render(style, text, context, options, tokenizer), chat=chat)
    return ids


def encode_prompts(
    tokenizer: Any, style: PromptStyle, items: Iterable[tuple[str, str | None, Sequence[str], int]]
) -> Iterator[list[int]]:
    """`encode_prompt` of every (text, context, options, reserve), many to a call of the tokenizer, which is faster."""
    items = iter(items)
    while part := list(islice(items, 1000)):
        prompts = [render(style, text, context, options, tokenizer) for text, context, options, _ in part]
        special = not style.chat_template
        rows = tokenizer(prompts, add_special_tokens=special, truncation=False, verbose=False)["input_ids"]
        for row, (text, context, options, reserve) in zip(rows, part, strict=True):
            fits = len(row) <= style.max_length - reserve
            yield list(row) if fits else encode_prompt(tokenizer, style, text, context, options, reserve)


def _shorten(tokenizer: Any, text: str, excess: int) -> str:
    """The text without its last `excess` tokens (all of it where it has no more); always shorter than before."""
    ids = tokenizer(text, add_special_tokens=False, truncation=False, verbose=False)["input_ids"]
    kept = tokenizer.decode(ids[: max(len(ids) - excess, 0)], skip_special_tokens=True).rstrip()
    return kept if len(kept) < len(text) else text[: len(text) // 2]
