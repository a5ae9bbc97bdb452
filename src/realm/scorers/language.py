"""What causal and encoder-decoder scorers share: answer tokens, the vocabulary's rows and the cloze scale."""

from __future__ import annotations

import logging
import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from realm.data import Items, Task
from realm.errors import RealmError
from realm.scorers.answers import AnswerTokens, VocabularyHead, mask_options, masked_log_softmax
from realm.scorers.base import Batch, Scorer
from realm.scorers.encoding import length_mask
from realm.scorers.prompts import LETTERS, Answers, answer_strings

logger = logging.getLogger(__name__)

# The charter's start. Mean log-likelihoods of options differ by tenths, which a scale of 1 would leave near uniform.
CLOZE_SCALE = 10.0


class LanguageScorer(Scorer):
    """A language model that answers with a token (`letters`, `names`) or by the likelihood of each option (`cloze`).

    `letters` and `names`: softmax over the K answer tokens at the answer position (the paper's restricted softmax).
    `cloze`: log_softmax(s * mean log-likelihood of each option), s trained, from 10. Where the label names of a task do
    not differ in one token, `names` falls back to `cloze` with a warning.
    """

    pipeline_tag = "text-generation"
    answer_tokens: Tensor

    def __init__(self, *parts: Any, **settings: Any) -> None:
        super().__init__(*parts, **settings)
        self.head = VocabularyHead(self.backbone)
        self.answers: list[AnswerTokens] = [] if self.style.answers == "cloze" else self._find_answers()
        if self.answers:
            widest = max(len(answer.tokens) for answer in self.answers)
            table = [[*answer.tokens, *[0] * (widest - len(answer.tokens))] for answer in self.answers]
            self.register_buffer("answer_tokens", torch.tensor(table), persistent=False)
        else:
            self.style = replace(self.style, answers="cloze")
            self.log_scale = nn.Parameter(torch.tensor(math.log(CLOZE_SCALE)))

    @classmethod
    def answers_for(cls, answers: Answers | None, tasks: tuple[Task, ...]) -> Answers | None:
        return answers or "letters"

    def check(self, name: str) -> Tensor:
        """The rows we project must give the logits the model itself gives; a backbone that does more is refused."""
        batch = self.probe()
        inputs = {name: value for name, value in batch.items() if name != "decoder_lengths"}
        expected: Tensor = self.backbone(**inputs).logits[:, -1, :3].float()
        rows = partial(self.head.rows, self.answer_states(batch), torch.tensor([[0, 1, 2]]))
        # far above the rounding of fp32, far below any scale, cap or bias that a model would apply
        same = partial(torch.allclose, other=expected, rtol=1e-3, atol=1e-3, equal_nan=True)
        if not same(rows()) and hasattr(self.backbone.config, "d_model"):  # UMT5 scales as T5 does, without a flag
            self.head.hidden_scale = float(self.backbone.config.d_model) ** -0.5
        if not same(rows()):
            raise RealmError(
                f"{type(self.backbone).__name__} changes its logits after the output layer in a way that is not known "
                "here; use another model."
            )
        return expected

    # ---------------------------------------------------------------- answers

    @abstractmethod
    def find_tokens(self, answers: Sequence[str], options: Sequence[str]) -> AnswerTokens | None:
        """The tokens of these answers after a prompt with these options, or None where they do not separate."""

    def _find_answers(self) -> list[AnswerTokens]:
        """The answer tokens of each task; none where `names` do not separate."""
        if self.style.answers == "letters":
            options = [f"option {letter}" for letter in LETTERS[: self.max_options]]
            letters = self.find_tokens(answer_strings(self.style, options), options)
            if letters is None:
                model = getattr(self.backbone.config, "_name_or_path", "") or type(self.backbone).__name__
                raise RealmError(
                    f"`answers=letters`: the tokenizer of {model} does not tell the answer letters apart in one token. "
                    "Use `answers=cloze`."
                )
            return [letters] * len(self.tasks)
        answers = []
        for task in self.tasks:
            if task.labels is None:
                raise RealmError(
                    f"`answers=names`: the items of task {task.name!r} have options of their own. Use letters or cloze."
                )
            names = self.find_tokens(answer_strings(self.style, task.labels), task.labels)
            if names is None:
                logger.warning(
                    "`answers=names`: the labels of task %r do not differ in one token; using cloze.", task.name
                )
                return []
            answers.append(names)
        return answers

    def check_options(self, items: Items) -> None:
        """Refuse items with more options than the scorer was built for."""
        most = int(items.option_counts.max(initial=0))
        if self.style.answers == "letters" and most > self.max_options:
            raise RealmError(f"an item has {most} options, but the model was trained with {self.max_options} at most.")

    @staticmethod
    def check_option(option: str, ids: list[int]) -> list[int]:
        """The tokens of an option for `cloze`; one without any would always be the most probable."""
        if not ids:
            raise RealmError(f"`answers=cloze`: the option {option!r} has no tokens.")
        return ids

    # ---------------------------------------------------------------- scoring

    @abstractmethod
    def answer_states(self, batch: Batch) -> Tensor:
        """Hidden state at the answer position. (items, width)"""

    @abstractmethod
    def option_states(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """For `cloze`: hidden states that predict option tokens (n, width), the tokens (n,), and their option (n,).

        Options are numbered over the batch: item after item, each with its own options.
        """

    def _states(self, batch: Batch) -> Tensor:
        """Hidden state at the answer position, over the cache where there is one. (items, width)"""
        if self.head_only:
            return self.head_input(batch)
        self._use_frozen_states(batch)
        return self.answer_states(batch)

    def head_states(self, batch: Batch) -> Tensor:
        return self.answer_states(batch)

    def _freeze_below_head(self) -> nn.Module:
        """What trains is a residual on the output layer's rows of the answer tokens."""
        if self.style.answers == "cloze":
            raise RealmError(
                "`train_layers=head` cannot be used with `answers=cloze`: no one state answers there. Use "
                "`answers=letters`, or `train_layers=1`."
            )
        self.backbone.requires_grad_(False)
        self.answer_residual = self.head.learn_residual(torch.unique(self.answer_tokens))
        backbone: nn.Module = self.backbone
        return backbone

    def merge_head(self) -> None:
        self.head.merge_residual(self.backbone)

    def forward_with_hidden(self, batch: Batch) -> tuple[Tensor, Tensor]:
        if self.style.answers == "cloze":
            raise RealmError(
                "a channel that needs hidden states cannot be used with `answers=cloze`: no one state answers there. "
                "Use `answers=letters`."
            )
        states = self._states(batch)
        logits = self.head.rows(states, self._option_tokens(batch))
        return masked_log_softmax(logits, batch["option_counts"]), states

    def forward(self, batch: Batch) -> Tensor:
        if self.style.answers != "cloze":
            return self.forward_with_hidden(batch)[0]
        self._use_frozen_states(batch)
        states, tokens, option = self.option_states(batch)
        counts = batch["option_counts"]
        n_options = int(counts.sum())
        likelihood = self.head.log_likelihood(states, tokens)
        total = likelihood.new_zeros(n_options).index_add(0, option, likelihood)
        lengths = likelihood.new_zeros(n_options).index_add(0, option, torch.ones_like(likelihood))
        scores = self.log_scale.exp() * total / lengths.clamp(min=1)
        mask = length_mask(counts, int(counts.max()))
        return masked_log_softmax(scores.new_zeros(mask.shape).masked_scatter(mask, scores), counts)

    @torch.no_grad()
    def answer_mass(self, batch: Batch) -> Tensor | None:
        if self.style.answers == "cloze":
            return None
        full = self.head.full(self._states(batch))
        rows = mask_options(full.gather(1, self._option_tokens(batch)), batch["option_counts"])
        return (rows.logsumexp(1) - full.logsumexp(1)).exp()

    def _option_tokens(self, batch: Batch) -> Tensor:
        return self.answer_tokens[batch["item_tasks"]][:, : int(batch["option_counts"].max())]

    # ---------------------------------------------------------------- parameters

    def scale_parameters(self) -> Iterable[nn.Parameter]:
        return (self.log_scale,) if self.style.answers == "cloze" else ()

    def head_parameters(self) -> Iterable[tuple[str, nn.Parameter]]:
        return (("answer_residual", self.answer_residual),) if self.head_only else ()

    def extra_state(self) -> dict[str, Any]:
        cloze = {"cloze_scale": float(self.log_scale.detach().exp())} if self.style.answers == "cloze" else {}
        return {**super().extra_state(), **cloze}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        for scale in self.scale_parameters():
            nn.init.constant_(scale, math.log(state.get("cloze_scale", CLOZE_SCALE)))
