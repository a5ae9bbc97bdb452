"""What every scorer offers: items in, log-probabilities over each item's own options out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from realm.data import Items, Task
from realm.errors import RealmError
from realm.progress import Progress, ignore_progress
from realm.scorers.encoding import EncodedItems, length_mask
from realm.scorers.freezing import CANNOT, HEAD, FrozenLayers, freeze_layers, refusal
from realm.scorers.prompts import Answers, PromptStyle

Batch = dict[str, Tensor]

# Tokens to a batch. A layer's output should fit a processor's caches: batches of 8,192 tokens took 1.8 times as long
# there (docs/speed.md), while an accelerator needs many to be busy.
CPU_TOKENS, ACCELERATOR_TOKENS = 1024, 8192


class Scorer(nn.Module, ABC):
    """A backbone and its tokenizer behind one interface. Knows nothing of annotators.

    `forward(batch)` takes what `collate` returns and gives (items, K) log-probabilities, K the largest option count in
    the batch, -inf beyond an item's own options.
    """

    kind: ClassVar[str]
    """Its row of `realm.scorers.SCORERS`, as runs record it."""
    auto_class: ClassVar[str]
    """The class of transformers that loads the backbone."""
    pipeline_tag: ClassVar[str] = "text-classification"
    """The task that the Hugging Face hub lists the model under."""
    has_head: ClassVar[bool] = False
    """Whether what answers is a head above the base model: it may be new, and trains whole where the base does not."""

    def __init__(
        self, backbone: Any, tokenizer: Any, style: PromptStyle, tasks: tuple[Task, ...], max_options: int = 0
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.tokenizer = tokenizer
        self.style = style
        self.tasks = tasks
        self.max_options = max_options  # of an item
        self.new_head = False
        """Whether what answers was not in the checkpoint, so that the model can have no opinion yet."""
        self.temperature = 1.0
        """The temperature of answers (`realm.scorers.scoring.score`): P^(1/T), normalised."""
        self.train_layers: int | str = 0
        """What `freeze_below` left to train; 0 for all of it."""
        self.frozen_layers: FrozenLayers | None = None
        self.frozen_hash: str | None = None
        self._frozen_modules: list[nn.Module] = []
        self._mode: bool | None = None  # what `train` last set

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def head_only(self) -> bool:
        return self.train_layers == HEAD

    # ---------------------------------------------------------------- loading

    @classmethod
    def matches(cls, config: Any) -> bool:
        """Whether a model with this config is asked in this way unless the settings say otherwise."""
        return False

    @classmethod
    def answers_for(cls, answers: Answers | None, tasks: tuple[Task, ...]) -> Answers | None:
        """How it answers: as the settings say, or its default where they say nothing; None if there is one way only."""
        return None

    @classmethod
    def load_options(cls, tasks: tuple[Task, ...]) -> dict[str, Any]:
        """What `from_pretrained` is told beside the folder."""
        return {}

    @abstractmethod
    def check(self, name: str) -> Tensor:
        """Refuse a backbone that does not answer as it is read here, by this name; returns its logits for `probe`."""

    # ---------------------------------------------------------------- items to batches

    @abstractmethod
    def encode(self, items: Items) -> EncodedItems:
        """Token ids of every item (whose tasks are the scorer's)."""

    def collate(self, encoded: EncodedItems, items: npt.NDArray[np.integer]) -> Batch:
        """Tensors for these items (by index), padded on the right."""
        ids, lengths = encoded.rows.pad(encoded.rows_of(items), self.tokenizer.pad_token_id)
        return {
            "input_ids": ids,
            "attention_mask": length_mask(lengths, ids.shape[1]).long(),
            **self.collate_options(encoded, items),
        }

    def collate_options(self, encoded: EncodedItems, items: npt.NDArray[np.integer]) -> Batch:
        """What `collate` says of the items beside their tokens."""
        return {
            "item_tasks": torch.from_numpy(encoded.tasks[items].astype(np.int64)),
            "option_counts": torch.from_numpy(encoded.option_counts[items].astype(np.int64)),
        }

    def eval_batches(
        self,
        encoded: EncodedItems,
        what: str,
        progress: Progress = ignore_progress,
        items: npt.NDArray[np.integer] | None = None,
        lengths: npt.NDArray[np.integer] | None = None,
    ) -> Iterator[npt.NDArray[np.integer]]:
        """Yield the items (all, unless given) in batches that suit the device, longest first, in eval mode.

        `lengths` is how many tokens of each item are computed (items,), all unless given.
        """
        order = np.arange(len(encoded)) if items is None else items
        lengths = encoded.lengths if lengths is None else lengths
        order = order[np.argsort(-lengths[order], kind="stable")]
        lengths = lengths[order]
        tokens = CPU_TOKENS if self.device.type == "cpu" else ACCELERATOR_TOKENS
        training = self.training
        self.eval()
        try:
            progress(what, 0, len(order))
            start = 0
            while start < len(order):
                end = min(start + max(1, tokens // max(int(lengths[start]), 1)), len(order))
                yield order[start:end]
                progress(what, end, len(order))
                start = end
        finally:
            self.train(training)

    # ---------------------------------------------------------------- scoring

    def forward(self, batch: Batch) -> Tensor:
        """Log-probabilities over each item's options. (items, K)"""
        return self.forward_with_hidden(batch)[0]

    @abstractmethod
    def forward_with_hidden(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """`forward`, and the state that each item's answer is read from. (items, K), (items, width)"""

    @abstractmethod
    def run_backbone(self, batch: Batch) -> Tensor:
        """The hidden states that scores are read from. (rows, tokens, width)"""

    def probe(self) -> Batch:
        """A batch of one short row without padding, to see what the backbone does with it."""
        ids = torch.tensor([[token for token in range(4) if token != self.tokenizer.pad_token_id]], device=self.device)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    def answer_mass(self, batch: Batch) -> Tensor | None:
        """Full-softmax probability that the next token is one of the answer tokens (items,); None where undefined."""
        return None

    # ---------------------------------------------------------------- the frozen layers

    def freeze_below(self, train_layers: int | str) -> None:
        """Train only the top layers, or the head alone (`head`); the rest is frozen, in eval mode, and can be cached.

        Where the head alone trains, what is frozen ends in one state per item.
        """
        if train_layers == self.train_layers:
            return
        if self.train_layers:
            raise RealmError(
                f"`train_layers={train_layers}`: the model is frozen for `train_layers={self.train_layers}` already. "
                "Load it again."
            )
        if isinstance(train_layers, int):
            self.frozen_layers, self._frozen_modules = freeze_layers(
                self.backbone, train_layers, lambda: self.run_backbone(self.probe())
            )
            self._check_frozen_states(self.frozen_layers)
        else:
            self._frozen_modules = [self._freeze_below_head()]
        self.train_layers, self._mode = train_layers, None
        self.train(self.training)

    @torch.no_grad()
    def _check_frozen_states(self, layers: FrozenLayers) -> None:
        """Refuse a backbone that answers otherwise when its frozen layers' output is put back in."""
        probe = {name: value.repeat_interleave(2, 0) for name, value in self.probe().items()}
        probe["attention_mask"][1, -1] = 0
        training = self.training
        self.eval()
        try:
            expected, states = self.run_backbone(probe), self.frozen_states(probe)
            layers.inject(states)
            same = torch.allclose(self.run_backbone(probe), expected, rtol=1e-3, atol=1e-5)  # far above rounding
            same &= states.shape[:2] == probe["input_ids"].shape
        except CANNOT:
            same = False
        finally:
            layers.inject(None)
            self.train(training)
        if not same:
            raise refusal(self.backbone, "does not go on from what its lower layers gave")

    def _freeze_below_head(self) -> nn.Module:
        """Freeze everything below the head and return it."""
        raise RealmError(f"`train_layers=head` cannot be used with `scorer={self.kind}`. Use `train_layers=1`.")

    def head_states(self, batch: Batch) -> Tensor:
        """The state that the head reads of each item, computed by what lies below it. (items, width)"""
        raise NotImplementedError

    @torch.no_grad()
    def frozen_states(self, batch: Batch) -> Tensor:
        """What is frozen, computed, to be put back as `batch["frozen_states"]`.

        The output of the frozen layers (rows, tokens, width); where the head alone trains, its input (items, width).
        """
        if self.frozen_layers is None:
            return self.head_states(batch)
        training = self.training
        self.eval()  # what lies below the layers has dropout too
        try:
            states = self.frozen_layers.capture(lambda: self.run_backbone(batch))
        finally:
            self.train(training)
        return states[:, : batch["input_ids"].shape[1]]

    def head_input(self, batch: Batch) -> Tensor:
        """Where the head alone trains: the states that it reads, those of the batch or computed. (items, width)"""
        return batch["frozen_states"] if "frozen_states" in batch else self.frozen_states(batch)

    def frozen_input(self, task: int) -> bytes:
        """What decides the frozen states of an item of this task beside the frozen weights and its tokens."""
        return b""

    def merge_head(self) -> None:
        """Write what was trained beside the backbone into it: the backbone then answers the same by itself."""

    def merge_temperature(self) -> None:
        """Write the temperature into the backbone where that changes nothing else; it is then 1."""

    def _use_frozen_states(self, batch: Batch) -> None:
        """Give the frozen layers their output, in training also where the batch has none: a cache changes nothing."""
        if self.frozen_layers is not None:
            computed = self.frozen_states(batch) if self.training and "frozen_states" not in batch else None
            self.frozen_layers.inject(batch.get("frozen_states", computed))

    def train(self, mode: bool = True) -> Scorer:
        # `Trainer` asks at every step, and walking all modules takes longer than a step of the head
        if self.head_only and self._mode == mode:
            return self
        super().train(mode)
        self._mode = mode
        for module in self._frozen_modules:
            module.eval()
        return self

    # ---------------------------------------------------------------- parameters

    def scale_parameters(self) -> Iterable[nn.Parameter]:
        """Parameters of the scorer that are not the backbone's (the scale of `cloze`)."""
        return ()

    def head_parameters(self) -> Iterable[tuple[str, nn.Parameter]]:
        """Parameters that the scorer trains for the backbone until `merge_head`, by name."""
        return ()

    def extra_state(self) -> dict[str, Any]:
        """What must be saved beside the backbone to answer the same way again."""
        return {} if self.temperature == 1 else {"temperature": self.temperature}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take what `extra_state` gave, among other keys."""
        self.temperature = float(state.get("temperature", 1.0))
