"""Items to text: the question or text, its context, the options, and the cue before the answer.

Three ways of answering (charter, section 3) need three prompts:

- `letters` lists the options under letters and asks for a letter, as in the paper;
- `names` lists the label names, then the text, and asks for one of them (zero-shot, a small decoder told two labels
  apart with an AUC of 0.78 this way and of 0.45 with the names after the text);
- `cloze` lists nothing: each option is scored as the continuation.

Truncation shortens the context first, then the text; the instruction, the options and the cue are never cut.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Literal

from realm.data import Items
from realm.errors import RealmError

Answers = Literal["letters", "names", "cloze"]
LETTERS = string.ascii_lowercase
CUE, LABEL_CUE = "Answer:", "Label:"

# Prompts to a call of the tokenizer: enough to keep its threads busy, few enough to hold as text.
TOKENIZED_TOGETHER = 1000


@dataclass(frozen=True)
class PromptStyle:
    """How prompts are written. Saved with a run, so that later items are prompted in the same way.

    `max_length` bounds the tokens of a prompt; `chat_template` wraps it as one user turn of the tokenizer's template.
    """

    answers: Answers | None = "letters"
    instruction: str | None = None
    max_length: int = 512
    chat_template: bool = False

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def render(style: PromptStyle, text: str, context: str | None, options: Sequence[str], tokenizer: Any = None) -> str:
    """The prompt of one item as text, ending where the answer begins.

    Examples:
        >>> print(render(PromptStyle(), "Is water wet?", None, ["yes", "no"]))
        Is water wet?
        a) yes
        b) no
        Answer:
    """
    if style.answers == "letters" and len(options) > len(LETTERS):
        raise RealmError(f"an item has {len(options)} options; {len(LETTERS)} is the most that letters can name.")
    if style.answers == "names":
        parts = [style.instruction, f"Labels: {', '.join(options)}", context, text and f"Text: {text}"]
    else:
        parts = [style.instruction, context, text]
    lines = [part for part in parts if part]
    if style.answers == "letters":
        lines += [f"{letter}) {option}" for letter, option in zip(LETTERS, options, strict=False)]
    if not style.chat_template:
        return "\n".join([*lines, LABEL_CUE if style.answers == "names" else CUE])
    if getattr(tokenizer, "chat_template", None) is None:
        raise RealmError("`chat_template=True`: the model's tokenizer has no chat template. Use `chat_template=False`.")
    turn = [{"role": "user", "content": "\n".join(lines)}]
    return str(tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True))


def answer_separator(style: PromptStyle) -> str:
    """What stands between the prompt and the answer: nothing at the start of a chat turn, a space after a cue."""
    return "" if style.chat_template else " "


def answer_strings(style: PromptStyle, options: Sequence[str]) -> list[str]:
    """The answer that stands for each option."""
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
    while True:
        ids = tokenize(tokenizer, render(style, text, context, options, tokenizer), chat=style.chat_template)
        excess = len(ids) - limit
        if excess <= 0:
            return ids
        if context:
            context = _shorten(tokenizer, context, excess)
        elif text:
            text = _shorten(tokenizer, text, excess)
        else:
            raise RealmError(
                f"the instruction, options and cue alone take {len(ids)} tokens; `max_length` allows {limit}."
            )


def encode_prompts(
    tokenizer: Any, style: PromptStyle, items: Items, reserve: Sequence[int] | None = None
) -> Iterator[list[int]]:
    """`encode_prompt` of every item, many to a call of the tokenizer, which is faster.

    `reserve[i]` tokens are left free after item i's prompt.
    """
    pairs = zip(items, reserve or [0] * len(items), strict=True)
    while chunk := list(islice(pairs, TOKENIZED_TOGETHER)):
        prompts = [render(style, item.text, item.context, item.options, tokenizer) for item, _ in chunk]
        special = not style.chat_template
        rows = tokenizer(prompts, add_special_tokens=special, truncation=False, verbose=False)["input_ids"]
        for row, (item, free) in zip(rows, chunk, strict=True):
            fits = len(row) <= style.max_length - free
            yield list(row) if fits else encode_prompt(tokenizer, style, item.text, item.context, item.options, free)


def _shorten(tokenizer: Any, text: str, excess: int) -> str:
    """The text without its last `excess` tokens (all of it where it has no more); always shorter than before."""
    ids = tokenizer(text, add_special_tokens=False, truncation=False, verbose=False)["input_ids"]
    shorter = tokenizer.decode(ids[: max(len(ids) - excess, 0)], skip_special_tokens=True).rstrip()
    return shorter if len(shorter) < len(text) else text[: len(text) // 2]
