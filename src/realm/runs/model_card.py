"""The model card: what the checkpoint answers, what it was trained on and how well it did, and a snippet that asks it
with nothing but transformers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jinja2
import numpy as np

from realm.data import Annotations
from realm.metrics import METRICS
from realm.models.store import models
from realm.scorers.base import Scorer
from realm.scorers.language import LanguageScorer
from realm.scorers.prompts import LETTERS, answer_separator, render

if TYPE_CHECKING:
    import pandas as pd

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

    code, base, contexts = snippet(scorer), _base(base_model), annotations.items.contexts
    metadata = ModelCardData(
        library_name="transformers", pipeline_tag=scorer.pipeline_tag, base_model=base.hub_id, tags=["realm"]
    )
    return _template("card.md.jinja").render(
        metadata=metadata.to_yaml(),
        source=base.source,
        licence=base.licence,
        method=method,
        scorer=scorer,
        findings=findings,
        data=annotations,
        has_context=contexts is not None and contexts.null_count < annotations.n_items,
        tasks=_task_shares(annotations),
        test=test,
        figures=[] if test is None else _figures(test),
        fence=_fence(code, least=3),
        snippet=code,
    )


def annotator_section(expertise: pd.DataFrame) -> str:
    """The annotators by name, with their accuracy: for a card whose reader may know who they are."""
    several = expertise["task"].nunique() > 1
    rows = []
    for row in expertise.itertuples():
        task = f" in task {_code(str(row.task))}" if several else ""
        interval = f"{row.accuracy:.2f} ({row.low:.2f} to {row.high:.2f})"
        rows.append(f"- {_code(str(row.annotator))}{task}: accuracy {interval}, {row.annotations:,} annotations")
    heading = "## Annotators\n\nThe estimated accuracy of each, with its 95% interval.\n"
    return "\n".join([heading, *rows, ""])


class _Base(NamedTuple):
    """The base model: what the card says of its source and licence; its id on the hub, None where that has it not."""

    source: str
    licence: str
    hub_id: str | None = None


def _base(name: str) -> _Base:
    inherited = "The licence of the base model applies to this one too."
    named = next((model for model in models() if model.name == name), None)
    if named is not None:
        packages = ", ".join(wheel.package for wheel in named.wheels)
        source = f"{_code(name)} ({named.description}; from the Python package index: {packages} {named.version})."
        return _Base(source, f"The base model's licence is {named.licence}.")
    if re.fullmatch(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", name, re.ASCII) and not Path(name).exists():
        return _Base(f"{_code(name)} of the Hugging Face hub.", inherited, name)
    folder = name.replace("\\", "/").rstrip("/").split("/")[-1]
    return _Base(f"{_code(folder)}, a folder." if name else "without a name.", inherited)


def _task_shares(annotations: Annotations) -> list[tuple[str, int, int, list[tuple[str, float]]]]:
    """Of each task its name, its items and annotations, and the share of each label among these."""
    rows = []
    task_of = annotations.item_tasks[annotations.item]
    for index, task in enumerate(annotations.tasks):
        given = annotations.label[task_of == index]
        shares: list[tuple[str, float]] = []
        if task.labels is not None and len(given):
            shares = list(zip(task.labels, np.bincount(given, minlength=len(task.labels)) / len(given), strict=True))
        rows.append((task.name, int((annotations.item_tasks == index).sum()), len(given), shares))
    return rows


def _figures(test: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """The test figures, accuracy never alone: of all tasks and of each, its name, figures and recall by label."""
    rows = []
    for task, figures in (("", test), *test.get("tasks", {}).items()):
        values = [
            f"{metric.name_in_text} {figures[metric.name]:{metric.format}}"
            for metric in METRICS.values()
            if figures.get(metric.name) is not None
        ]
        labels = (figures.get("labels") or ()) if not figures.get("by_position") else ()
        recalls = [
            f"{_code(row['label'])} {'-' if row['recall'] is None else format(row['recall'], '.3f')}" for row in labels
        ]
        rows.append((f"task {_code(task)}: " if task else "", ", ".join(values), ", ".join(recalls)))
    return rows


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
    labels = [list(task.labels or ()) for task in tasks]
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
        return (
            repr(values[0]) if len(tasks) == 1 else f"{dict(zip([t.name for t in tasks], values, strict=True))}[task]"
        )

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
