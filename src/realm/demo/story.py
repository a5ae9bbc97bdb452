"""The demo's two acts, on the public interface alone: the same items and budget for every method.

First act: six annotators, four of them guessing, one label per item, so that there is nothing to vote on. Second act:
fewer items with several labels each, where voting and Dawid-Skene can be set beside REALM.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from transformers import TrainerCallback
from transformers.trainer_callback import PrinterCallback, ProgressCallback

from realm import Annotations, RealmConfig, RealmTrainer, simulate
from realm.comparison.simulation import realised_accuracies
from realm.data.write import write_table
from realm.demo.grammar import messages
from realm.report.page import write_report

if TYPE_CHECKING:
    import pandas as pd

CROWD = {"Ada": 0.95, "Ben": 0.9, "Cleo": 0.3, "Dan": 0.25, "Eve": 0.25, "Finn": 0.2}
"""The annotators and how often each is right; with four options, 0.25 is guessing."""


@dataclass(frozen=True)
class Size:
    """How large a demo is. Every method of an act has the same items, steps, batches and learning rates."""

    model: str
    answers: str
    train_layers: int
    items: int
    test_items: int
    steps: int
    second_items: int
    second_steps: int
    batch: int
    learning_rate: float
    expertise_learning_rate: float
    labels_per_item: int = 3


FULL = Size(
    model="smollm2-135m",
    answers="names",
    train_layers=3,
    items=500,
    test_items=250,
    steps=80,
    second_items=150,
    second_steps=35,
    batch=32,
    learning_rate=2e-4,
    expertise_learning_rate=0.3,
)
"""On a language model: some minutes on two cores."""

QUICK = Size(
    model="minilm-l6",
    answers="auto",
    train_layers=3,
    items=480,
    test_items=240,
    steps=60,
    second_items=160,
    second_steps=30,
    batch=32,
    learning_rate=5e-4,
    expertise_learning_rate=0.3,
)
"""On a small encoder: under 90 seconds on two cores."""


class Watch(Protocol):
    """Who is told how far the demo is."""

    def say(self, message: str) -> None:
        """A line of the story."""

    def begin(self, what: str, steps: int) -> None:
        """A training of this many steps begins."""

    def step(self, loss: float | None) -> None:
        """A step is done; the loss where it is known."""

    def end(self) -> None:
        """The training is over."""


@dataclass(frozen=True)
class Act:
    """One comparison: a table of annotations, and the methods that train on it in turn."""

    title: str
    table: Annotations
    methods: tuple[str, ...]
    steps: int


@dataclass
class Outcome:
    """What came of an act: test accuracy by method, and each annotator's true and learned reliability."""

    title: str
    accuracy: dict[str, float] = field(default_factory=dict)
    annotators: pd.DataFrame | None = None


@dataclass(frozen=True)
class Demo:
    """The whole demo. It writes `labels.csv`, `test.csv` and the run of `realm` to `folder`.

    | argument | meaning |
    |---|---|
    | size | how large it is: `FULL` or `QUICK` |
    | folder | where it writes |
    | watch | who is told how far it is |
    | seed | of the messages, the annotators and the training |
    | second | whether the second act is played |
    | progress | whether someone watches a terminal: the frozen layers then show a bar |
    """

    size: Size
    folder: Path
    watch: Watch
    seed: int = 0
    second: bool = True
    progress: bool = False

    @property
    def run_folder(self) -> Path:
        return self.folder / "run"

    def tables(self) -> tuple[Annotations, Annotations]:
        """The messages to label and those to test on, with gold and without annotations; all distinct."""
        every = messages(self.size.items + self.size.test_items, seed=self.seed)
        order = np.arange(every.n_items)
        return every.take_items(order[: self.size.items]), every.take_items(order[self.size.items :])

    def acts(self, asked: Annotations) -> list[Act]:
        """The acts on these messages."""
        crowd: dict[str, Any] = {"accuracies": list(CROWD.values()), "names": list(CROWD), "seed": self.seed}
        first = Act(
            "one label per item",
            simulate(asked, **crowd, regime="sparse"),
            ("noisy", "realm", "oracle"),
            self.size.steps,
        )
        if not self.second:
            return [first]
        few = asked.take_items(np.arange(self.size.second_items))
        each = self.size.labels_per_item
        second = Act(
            f"{each} labels per item",
            simulate(few, **crowd, per_item=each),
            ("majority", "dawid-skene", "realm"),
            self.size.second_steps,
        )
        return [first, second]

    def play(self) -> list[Outcome]:
        """Play the acts; what came of each."""
        asked, test = self.tables()
        acts = self.acts(asked)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_table(acts[0].table, self.folder / "labels.csv")
        write_table(test, self.folder / "test.csv")
        return [self._play(act, test, keep=index == 0) for index, act in enumerate(acts)]

    def _play(self, act: Act, test: Annotations, keep: bool) -> Outcome:
        outcome = Outcome(act.title)
        for method in act.methods:
            kept = keep and method == "realm"
            trainer = self._trainer(act, method, test, write_run=kept)
            if keep and method == act.methods[0] and self.size.answers == "names":
                outcome.accuracy["before training"] = _accuracy(trainer)
            trainer.train()
            outcome.accuracy[method] = _accuracy(trainer)
            self.watch.say(f"{method}: {outcome.accuracy[method]:.1%} of the test messages are right")
            if method == "realm":
                outcome.annotators = side_by_side(act.table, trainer.expertise())
            if kept:
                write_report(self.run_folder)
        return outcome

    def _trainer(self, act: Act, method: str, test: Annotations, write_run: bool) -> RealmTrainer:
        size = self.size
        config = RealmConfig(
            str(self.run_folder),
            method=method,
            write_run=write_run,
            overwrite=True,
            save_strategy="no",
            answers=size.answers,
            train_layers=size.train_layers,
            max_steps=act.steps,
            per_device_train_batch_size=size.batch,
            gradient_accumulation_steps=1,
            learning_rate=size.learning_rate,
            expertise_learning_rate=size.expertise_learning_rate,
            logging_steps=5,
            seed=self.seed,
            disable_tqdm=not self.progress,
        )
        trainer = RealmTrainer(size.model, act.table, config, test=test, callbacks=[_Steps(self.watch, method)])
        for callback in (PrinterCallback, ProgressCallback):
            trainer.remove_callback(callback)
        return trainer


def side_by_side(table: Annotations, learned: pd.DataFrame) -> pd.DataFrame:
    """Annotators by learned accuracy: annotator, true (share of their labels that are right), learned, low, high,
    verdict."""
    true = dict(zip(table.annotators, realised_accuracies(table)[:, 0], strict=True))
    ranked = learned.sort_values("accuracy", ascending=False, kind="stable").reset_index(drop=True)
    ranked.insert(1, "true", ranked["annotator"].map(true))
    return ranked.rename(columns={"accuracy": "learned"})[["annotator", "true", "learned", "low", "high", "verdict"]]


def _accuracy(trainer: RealmTrainer) -> float:
    return float(trainer.evaluate()["eval_accuracy"])


class _Steps(TrainerCallback):  # type: ignore[misc]
    """Tells the watch of every step."""

    def __init__(self, watch: Watch, method: str) -> None:
        self.watch, self.method = watch, method
        self.loss: float | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.watch.begin(self.method, state.max_steps)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> None:
        self.loss = (logs or {}).get("loss", self.loss)

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.watch.step(self.loss)

    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.watch.end()
