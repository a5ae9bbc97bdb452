"""The model card: what the checkpoint answers, what it was trained on and how well it did, and a snippet that asks it
with nothing but transformers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from realm.data import Annotations
from realm.metrics import METRICS
from realm.models.store import models
from realm.scorers.base import Scorer
from realm.scorers.language import LanguageScorer
from realm.scorers.prompts import LETTERS, answer_separator, render

_MARK = "\ue000"
"""A character of no language, so that no instruction holds what stands for text, context and options."""


def model_card(
    scorer: Scorer,
    base_model: str,
    method: str,
    annotations: Annotations,
    findings: Sequence[str] = (),
    test: Mapping[str, Any] | None = None,
) -> str:
    """The card as Markdown (`card.md.jinja`). It counts annotators and names none.

    Args:
        annotations: what was trained on; it has gold only if training read it.
        findings: what a user must know before using the model.
        test: the figures of `realm.metrics.evaluate` on a test table.
    """
    from huggingface_hub import ModelCardData

    code, contexts = snippet(scorer), annotations.items.contexts
    named = next((model for model in models() if model.name == base_model), None)
    is_id = re.fullmatch(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", base_model, re.ASCII) and not Path(base_model).exists()
    hub_id = base_model if named is None and is_id else None
    metadata = ModelCardData(
        library_name="transformers", pipeline_tag=scorer.pipeline_tag, base_model=hub_id, tags=["realm"]
    )
    return _template("card.md.jinja").render(
        metadata=metadata.to_yaml(),
        named=named,
        hub_id=hub_id,
        base_folder=Path(base_model).name,
        method=method,
        scorer=scorer,
        findings=findings,
        data=annotations,
        has_context=contexts is not None and contexts.null_count < annotations.n_items,
        tasks=[_label_shares(annotations, task) for task in range(len(annotations.tasks))],
        test=test,
        metrics=METRICS.values(),
        fence=_fence(code, least=3),
        snippet=code,
    )


def _label_shares(annotations: Annotations, task: int) -> dict[str, Any]:
    """The name of a task, its items and annotations, and the share of each label among these."""
    given = annotations.label[annotations.item_tasks[annotations.item] == task]
    name, labels = annotations.tasks[task].name, annotations.tasks[task].labels or ()
    shares = dict(zip(labels, np.bincount(given, minlength=len(labels)) / max(len(given), 1), strict=False))
    items = int((annotations.item_tasks == task).sum())
    return {"name": name, "n_items": items, "n_annotations": len(given), "shares": shares}


def _plain(text: str) -> str:
    """A text in which the names of labels and tasks mean nothing to Markdown or HTML."""
    return re.sub(r"([!\"#$&'*+<=>?@\[\\\]^_`{|}~])", r"\\\1", " ".join(text.split()))


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
    names, labels = [task.name for task in tasks], [list(task.labels or ()) for task in tasks]
    values: dict[str, Any] = {"style": scorer.style, "tasks": tasks, "labels": labels}
    values |= {"loader": scorer.auto_class, "temperature": scorer.temperature}
    if isinstance(scorer, LanguageScorer):
        values |= {"prompt": _prompt(scorer), "lead": answer_separator(scorer.style)}
        values["prefixes"] = [list(answer.prefix) for answer in scorer.answers]
        values["tokens"] = [list(answer.tokens) for answer in scorer.answers]
        values["scale"] = scorer.extra_state().get("cloze_scale")
        values["start"] = getattr(scorer, "start_token", None)
    elif scorer.has_head:
        values["first"] = [sum(map(len, labels[:index])) for index in range(len(labels))]
    else:
        loader = scorer.auto_class
        return f'from transformers import {loader}\n\n\nfolder = "."\nmodel = {loader}.from_pretrained(folder)\n'

    def by_task(values: list[Any]) -> str:
        """The value of the only task, or a choice by task."""
        return repr(values[0]) if len(tasks) == 1 else f"{dict(zip(names, values, strict=True))}[task]"

    return _template("snippet.py.jinja").render(values, by_task=by_task)


@cache
def _template(name: str) -> jinja2.Template:
    environment = jinja2.Environment(trim_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined)
    environment.filters |= {"repr": repr, "code": _code, "plain": _plain}
    return environment.from_string((files("realm.runs") / name).read_text(encoding="utf-8"))


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
