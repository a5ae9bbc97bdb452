"""What causal and encoder-decoder scorers share: answer tokens, the vocabulary's rows and the cloze scale."""

from __future__ import annotations

import logging
import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from realm.data import Items, Task
from realm.errors import RealmError
from realm.scorers.answers import AnswerTokens, require_letters
from realm.scorers.base import Batch, Scorer
from realm.scorers.prompts import LETTERS, PromptStyle, answer_strings
from realm.scorers.vocabulary import VocabularyHead, masked_log_softmax

logger = logging.getLogger(__name__)

CLOZE_SCALE = 10.0


class LanguageScorer(Scorer):
    """A language model that answers with a token (`letters`, `names`) or by the likelihood of each option (`cloze`).

    `letters` and `names`: softmax over the K answer tokens at the answer position (the paper's restricted softmax).
    `cloze`: log_softmax(s * mean log-likelihood of each option), s trained, from 10.
    """

    def __init__(
        self,
        backbone: Any,
        tokenizer: Any,
        style: PromptStyle,
        tasks: tuple[Task, ...],
        max_options: int,
        cloze_scale: float = CLOZE_SCALE,
    ) -> None:
        super().__init__(backbone, tokenizer, style, tasks)
        self.head = VocabularyHead(backbone)
        self.max_options = max_options
        self.answers: list[AnswerTokens] = []
        if style.answers != "cloze":
            self.answers = self._find_answers()
            widest = max(len(found.tokens) for found in self.answers)
            table = [[*found.tokens, *[0] * (widest - len(found.tokens))] for found in self.answers]
            self.register_buffer("answer_tokens", torch.tensor(table), persistent=False)
        else:
            self.log_scale = nn.Parameter(torch.tensor(math.log(cloze_scale)))

    # ---------------------------------------------------------------- answers

    @abstractmethod
    def find_tokens(self, answers: Sequence[str], options: Sequence[str]) -> AnswerTokens | None:
        """The tokens that say these answers behind a prompt with these options, or None."""

    def _find_answers(self) -> list[AnswerTokens]:
        name = getattr(self.backbone.config, "_name_or_path", "") or type(self.backbone).__name__
        if self.style.answers == "letters":
            options = [f"option {letter}" for letter in LETTERS[: self.max_options]]
            found = require_letters(self.find_tokens(answer_strings(self.style, options), options), name)
            return [found] * len(self.tasks)
        every = []
        for task in self.tasks:
            if task.labels is None:
                raise RealmError(
                    f"--answers names: the items of task {task.name!r} have options of their own. Use letters or cloze."
                )
            names = self.find_tokens(answer_strings(self.style, task.labels), task.labels)
            if names is None:
                raise NamesDoNotSeparateError(task.name)
            every.append(names)
        return every

    @staticmethod
    def some_tokens(option: str, ids: list[int]) -> list[int]:
        """The tokens of an option for `cloze`; one without any would always be the most probable."""
        if not ids:
            raise RealmError(f"--answers cloze: the option {option!r} has no tokens.")
        return ids

    def _option_tokens(self, batch: Batch) -> Tensor:
        width = int(batch["option_counts"].max())
        table = cast(Tensor, self.answer_tokens)
        return table[batch["item_tasks"]][:, :width]

    # ---------------------------------------------------------------- scoring

    @abstractmethod
    def answer_states(self, batch: Batch) -> Tensor:
        """Hidden state at the answer position. (items, width)"""

    @abstractmethod
    def option_states(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """For `cloze`: hidden states that predict option tokens (n, width), the tokens (n,), and their option (n,).

        Options are numbered over the batch: item after item, each with its own options.
        """

    def forward_with_hidden(self, batch: Batch) -> tuple[Tensor, Tensor]:
        if self.style.answers == "cloze":
            raise RealmError(
                "a channel that needs hidden states cannot be used with `answers=cloze`: no one state answers there. "
                "Use `answers=letters`."
            )
        self._use_trunk(batch)
        states = self.answer_states(batch)
        logits = self.head.rows(states, self._option_tokens(batch))
        return masked_log_softmax(logits, batch["option_counts"]), states

    def forward(self, batch: Batch) -> Tensor:
        if self.style.answers != "cloze":
            return self.forward_with_hidden(batch)[0]
        self._use_trunk(batch)
        states, tokens, option = self.option_states(batch)
        counts = batch["option_counts"]
        n_options = int(counts.sum())
        likelihood = self.head.log_likelihood(states, tokens)
        total = likelihood.new_zeros(n_options).index_add(0, option, likelihood)
        lengths = likelihood.new_zeros(n_options).index_add(0, option, torch.ones_like(likelihood))
        scores = self.log_scale.exp() * total / lengths.clamp(min=1)
        item = torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)
        place = torch.arange(n_options, device=counts.device) - (counts.cumsum(0) - counts)[item]
        logits = scores.new_zeros(len(counts), int(counts.max())).index_put((item, place), scores)
        return masked_log_softmax(logits, counts)

    @torch.no_grad()
    def answer_mass(self, batch: Batch) -> Tensor | None:
        if self.style.answers == "cloze":
            return None
        self._use_trunk(batch)
        full = self.head.full(self.answer_states(batch))
        rows = full.gather(1, self._option_tokens(batch))
        beyond = torch.arange(rows.shape[1], device=rows.device)[None, :] >= batch["option_counts"][:, None]
        return (rows.masked_fill(beyond, float("-inf")).logsumexp(1) - full.logsumexp(1)).exp()

    # ---------------------------------------------------------------- parameters

    def scale_parameters(self) -> Iterable[nn.Parameter]:
        return (self.log_scale,) if self.style.answers == "cloze" else ()

    def extra_state(self) -> dict[str, Any]:
        return {"cloze_scale": float(self.log_scale.detach().exp())} if self.style.answers == "cloze" else {}

    def check_options(self, items: Items) -> None:
        """Refuse items with more options than the scorer was made for."""
        most = int(items.option_counts.max(initial=0))
        if self.style.answers == "letters" and most > self.max_options:
            raise RealmError(f"an item has {most} options, but the model was trained with {self.max_options} at most.")


class NamesDoNotSeparateError(Exception):
    """The label names of a task do not differ in one token; the loader then falls back to `cloze`."""
