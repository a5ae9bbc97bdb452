"""The model card: what the checkpoint answers, how it is asked, and a snippet that needs nothing but transformers."""

from __future__ import annotations

import re
from typing import Any

from realm.data import Task
from realm.scorers.base import Scorer
from realm.scorers.language import LanguageScorer
from realm.scorers.prompts import LETTERS, lead, render

_MARK = "\ue000"
"""A character of no language, so that no instruction holds what stands for the text and the options."""
_LOADERS = {"seq2seq": "AutoModelForSeq2SeqLM", "causal": "AutoModelForCausalLM"}


def model_card(scorer: Scorer, base_model: str, method: str) -> str:
    """The card as Markdown."""
    base = base_model.replace("\\", "/").rstrip("/").split("/")
    name = "/".join(base[-2:]) if len(base) <= 2 else base[-1]
    code = snippet(scorer)
    fence = _fence(code, least=3)
    kind = "text-classification" if scorer.kind == "classifier" else "text-generation"
    return "\n".join(
        [
            f"---\nlibrary_name: transformers\npipeline_tag: {kind}\ntags: [realm]\n---",
            f"# A model fine-tuned on crowd labels\n\nBase model: {_code(name)}. Method: {method}.",
            "Trained with REALM on labels of annotators of uneven quality. They have left no parameter in it: "
            f"it is a plain checkpoint. Items longer than {scorer.style.max_length} tokens should have their text "
            "shortened, not their options.\n",
            _labels(scorer.tasks),
            "## Use\n",
            f"{fence}python\n{code}{fence}\n",
        ]
    )


def _labels(tasks: tuple[Task, ...]) -> str:
    lines = ["## Labels\n"]
    for task in tasks:
        names = "each item lists its own options" if task.labels is None else ", ".join(map(_code, task.labels))
        lines.append(f"- task {_code(task.name)}: {names}")
    return "\n".join(lines)


def _code(name: str) -> str:
    """A name from the data as a code span, in which Markdown and HTML mean nothing."""
    fence = _fence(name, least=1)
    return f"{fence} {name!r} {fence}"


def _fence(text: str, least: int) -> str:
    """More backticks in a row than the text has anywhere."""
    return "`" * max([least, *(len(run) + 1 for run in re.findall("`+", text))])


def snippet(scorer: Scorer) -> str:
    """Code that answers one item, from the folder of the checkpoint."""
    if not isinstance(scorer, LanguageScorer):
        return _classifier_snippet(scorer)
    first = scorer.tasks[0]
    options = [f"{_MARK}option{i}" for i in range(2)]
    asked = render(scorer.style, f"{_MARK}text", None, options, scorer.tokenizer)
    head = [
        "import torch",
        f"from transformers import AutoTokenizer, {_LOADERS[scorer.kind]}",
        "",
        'folder = "."  # where this card lies',
        "tokenizer = AutoTokenizer.from_pretrained(folder)",
        f"model = {_LOADERS[scorer.kind]}.from_pretrained(folder, dtype=torch.float32).eval()",
        *_by_task(scorer.tasks, "labels", [list(task.labels or ()) for task in scorer.tasks], _own_options(first)),
        "",
        "",
        "def prompt(text, options):",
        *_prompt_lines(scorer, asked, options),
        "",
        "",
    ]
    body = _cloze_lines(scorer) if scorer.style.answers == "cloze" else _token_lines(scorer)
    return "\n".join([*head, *body, ""])


def _own_options(task: Task) -> str:
    return "" if task.labels is not None else "  # every item lists its own options"


def _by_task(tasks: tuple[Task, ...], name: str, values: list[Any], comment: str = "") -> list[str]:
    """`name = value`, or a choice by task where there are several."""
    if len(tasks) == 1:
        return [f"{name} = {values[0]!r}{comment}"]
    chosen = {task.name: value for task, value in zip(tasks, values, strict=True)}
    choose = [f"task = {tasks[0].name!r}  # or another of the tasks above"] if name == "labels" else []
    return [*choose, f"{name} = {chosen!r}[task]{comment}"]


def _prompt_lines(scorer: LanguageScorer, asked: str, options: list[str]) -> list[str]:
    """The prompt with the text and the options put in by plain replacement, so that no character has a meaning."""
    if scorer.style.answers == "letters":
        listed = "\n".join(f"{letter}) {option}" for letter, option in zip(LETTERS, options, strict=False))
        made = f'"\\n".join(f"{{letter}}) {{option}}" for letter, option in zip({LETTERS!r}, options))'
    elif scorer.style.answers == "names":
        listed, made = ", ".join(options), '", ".join(options)'
    else:
        listed, made = "", ""
    places = sorted(
        (asked.index(mark), mark, code) for mark, code in ((f"{_MARK}text", "text"), (listed, made)) if mark
    )
    pieces, done = [], 0
    for place, mark, code in places:
        pieces += [repr(asked[done:place]), code]
        done = place + len(mark)
    return [f"    return {' + '.join([*pieces, repr(asked[done:])])}"]


def _token_lines(scorer: LanguageScorer) -> list[str]:
    found = scorer.answers
    special = "" if not scorer.style.chat_template else ", add_special_tokens=False"
    start = "1" if scorer.kind == "seq2seq" else "inputs.input_ids.shape[1]"
    return [
        *_by_task(scorer.tasks, "shared", [list(f.prefix) for f in found], "  # tokens that every answer begins with"),
        *_by_task(scorer.tasks, "tokens", [list(f.tokens) for f in found], "  # then the token that says each option"),
        "",
        "",
        "def answer(text, options=labels):",
        f'    inputs = tokenizer(prompt(text, options), return_tensors="pt"{special})',
        f"    start = {start}",
        "",
        "    def allowed(_, ids):",
        "        said = len(ids) - start",
        "        return [shared[said]] if said < len(shared) else tokens[: len(options)]",
        "",
        "    output = model.generate(**inputs, max_new_tokens=len(shared) + 1, do_sample=False, num_beams=1,",
        "                            prefix_allowed_tokens_fn=allowed)",
        "    return options[tokens.index(int(output[0, start + len(shared)]))]",
    ]


def _cloze_lines(scorer: LanguageScorer) -> list[str]:
    if scorer.kind == "seq2seq":
        score = [
            '    inputs = tokenizer(prompt(text, options), return_tensors="pt")',
            '    target = tokenizer(option, return_tensors="pt").input_ids',
            "    target = target[:, :-1] if target[0, -1] == tokenizer.eos_token_id else target",
            "    logits = model(**inputs, labels=target).logits[0].log_softmax(-1)",
            "    return logits.gather(1, target[0][:, None]).mean().item()",
        ]
    else:
        special = not scorer.style.chat_template
        score = [
            f"    before = tokenizer(prompt(text, options), add_special_tokens={special}).input_ids",
            f"    said = tokenizer({lead(scorer.style)!r} + option, add_special_tokens=False).input_ids",
            "    logits = model(torch.tensor([before + said])).logits[0, len(before) - 1 : -1].log_softmax(-1)",
            "    return logits.gather(1, torch.tensor(said)[:, None]).mean().item()",
        ]
    return [
        "@torch.no_grad()",
        "def likelihood(text, options, option):",
        *score,
        "",
        "",
        "def answer(text, options=labels):",
        "    return max(options, key=lambda option: likelihood(text, options, option))",
    ]


def _classifier_snippet(scorer: Scorer) -> str:
    sizes = [len(task.labels or ()) for task in scorer.tasks]
    first = [sum(sizes[:index]) for index in range(len(sizes))]
    return "\n".join(
        [
            "import torch",
            "from transformers import AutoModelForSequenceClassification, AutoTokenizer",
            "",
            'folder = "."  # where this card lies',
            "tokenizer = AutoTokenizer.from_pretrained(folder)",
            "model = AutoModelForSequenceClassification.from_pretrained(folder).eval()",
            *_by_task(scorer.tasks, "labels", [list(task.labels or ()) for task in scorer.tasks]),
            *_by_task(scorer.tasks, "first", first, "  # the row of the head that speaks for the first label"),
            "",
            "",
            "@torch.no_grad()",
            "def answer(text):",
            f'    inputs = tokenizer(text, truncation=True, max_length={scorer.style.max_length}, return_tensors="pt")',
            "    return labels[int(model(**inputs).logits[0, first : first + len(labels)].argmax())]",
            "",
        ]
    )
