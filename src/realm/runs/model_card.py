"""The model card: what the checkpoint answers, how it is asked, and a snippet that needs nothing but transformers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import jinja2

from realm.data import Task
from realm.scorers.base import Scorer
from realm.scorers.language import LanguageScorer
from realm.scorers.prompts import LETTERS, answer_separator, render

_MARK = "\ue000"
"""A character of no language, so that no instruction holds what stands for text, context and options."""
_LOADERS = {
    "classifier": "AutoModelForSequenceClassification",
    "seq2seq": "AutoModelForSeq2SeqLM",
    "causal": "AutoModelForCausalLM",
}


def model_card(scorer: Scorer, base_model: str, method: str, findings: Sequence[str] = ()) -> str:
    """The card as Markdown; `findings` are what a user must know before using the model."""
    path = base_model.replace("\\", "/").rstrip("/").split("/")
    code = snippet(scorer)
    fence = _fence(code, least=3)
    pipeline = "text-classification" if scorer.kind == "classifier" else "text-generation"
    return "\n".join(
        [
            f"---\nlibrary_name: transformers\npipeline_tag: {pipeline}\ntags: [realm]\n---",
            "# A model fine-tuned on crowd labels\n",
            f"Base model: {_code('/'.join(path[-2:]) if len(path) <= 2 else path[-1])}. Method: {method}.",
            "Trained with REALM on labels of annotators of uneven quality. They have left no parameter in it: "
            f"it is a plain checkpoint. Items longer than {scorer.style.max_length} tokens should have their text "
            "shortened, not their options.\n",
            *_findings(findings),
            *_confidence(scorer),
            "## Labels\n",
            *map(_labels, scorer.tasks),
            "## Use\n",
            f"{fence}python\n{code}{fence}\n",
        ]
    )


def _findings(findings: Sequence[str]) -> list[str]:
    """What training found, as text in which the names of labels and tasks mean nothing to Markdown or HTML."""
    if not findings:
        return []
    escaped = [re.sub(r"([!\"#$&'*+<=>?@\[\\\]^_`{|}~])", r"\\\1", " ".join(text.split())) for text in findings]
    return ["## What training found\n", *(f"- {text}" for text in escaped), ""]


def _confidence(scorer: Scorer) -> list[str]:
    """How sure the model may be, where its answers are softened."""
    if scorer.temperature == 1:
        return ["Its probabilities are those of `realm predict`.\n"]
    softened = "Its probabilities are too sure of themselves: divide the logits of the options by"
    return [
        f"{softened} {scorer.temperature:.3f}, as the code below does, to get those of `realm predict`. The answers "
        "are the same.\n"
    ]


def _labels(task: Task) -> str:
    names = "each item lists its own options" if task.labels is None else ", ".join(map(_code, task.labels))
    return f"- task {_code(task.name)}: {names}"


def _code(name: str) -> str:
    """A name from the data as a code span, in which Markdown and HTML mean nothing."""
    fence = _fence(name, least=1)
    return f"{fence} {name!r} {fence}"


def _fence(text: str, least: int) -> str:
    """More backticks in a row than the text has anywhere."""
    return "`" * max([least, *(len(backticks) + 1 for backticks in re.findall("`+", text))])


def snippet(scorer: Scorer) -> str:
    """Code that answers one item, from the folder of the checkpoint."""
    tasks = scorer.tasks
    labels = [list(task.labels or ()) for task in tasks]
    values: dict[str, Any] = {"kind": scorer.kind, "style": scorer.style, "tasks": tasks, "labels": labels}
    values |= {"loader": _LOADERS[scorer.kind], "temperature": scorer.temperature}
    if isinstance(scorer, LanguageScorer):
        values |= {"prompt": _prompt(scorer), "lead": answer_separator(scorer.style)}
        values["prefixes"] = [list(answer.prefix) for answer in scorer.answers]
        values["tokens"] = [list(answer.tokens) for answer in scorer.answers]
        values["scale"] = scorer.extra_state().get("cloze_scale")
        values["start"] = getattr(scorer, "start_token", None)
    else:
        values["first"] = [sum(map(len, labels[:index])) for index in range(len(labels))]

    def by_task(values: list[Any]) -> str:
        """The value of the only task, or a choice by task."""
        return (
            repr(values[0]) if len(tasks) == 1 else f"{dict(zip([t.name for t in tasks], values, strict=True))}[task]"
        )

    environment = jinja2.Environment(trim_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined)
    environment.filters |= {"repr": repr, "by_task": by_task}
    template = (files("realm.runs") / "snippet.py.jinja").read_text(encoding="utf-8")
    return environment.from_string(template).render(values)


def _prompt(scorer: LanguageScorer) -> str:
    """The prompt as an expression: what an item has is joined to it, so that no character in it has a meaning."""
    options = [f"{_MARK}option{index}" for index in range(2)]
    prompt = render(scorer.style, f"{_MARK}text", f"{_MARK}context", options, scorer.tokenizer)
    code_of = {f"{_MARK}text": "text", f"{_MARK}context\n": '(context + "\\n" if context else "")'}
    if scorer.style.answers == "letters":
        listed = "\n".join(f"{letter}) {option}" for letter, option in zip(LETTERS, options, strict=False))
        code_of[listed] = f'"\\n".join(f"{{letter}}) {{option}}" for letter, option in zip({LETTERS!r}, options))'
    elif scorer.style.answers == "names":
        code_of[", ".join(options)] = '", ".join(options)'
    pieces = re.split("(" + "|".join(map(re.escape, code_of)) + ")", prompt)
    return " + ".join(code_of.get(piece) or repr(piece) for piece in pieces)
