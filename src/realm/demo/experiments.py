"""The demo's two experiments, on the public interface: the same items and budget for every method.

The first has six annotators, four of them guessing, and one label per item, so that there is nothing to vote on. The
second has fewer items with several labels each, where majority vote and Dawid-Skene can be set beside REALM.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from transformers import TrainerCallback
from transformers.trainer_callback import PrinterCallback, ProgressCallback

from realm import Annotations, RealmConfig, RealmTrainer, simulate
from realm.comparison.simulation import realised_accuracies
from realm.data.write import write_table
from realm.demo.grammar import messages
from realm.progress import Progress, ignore_progress
from realm.report.run_page import write_report
from realm.training.trainer import StepProgress

if TYPE_CHECKING:
    import pandas as pd

CROWD = {"Ada": 0.95, "Ben": 0.9, "Cleo": 0.3, "Dan": 0.25, "Eve": 0.25, "Finn": 0.2}
"""The annotators and how often each is right; with four options, 0.25 is guessing."""
LOGGING_STEPS = 5
"""Between losses: often enough for a progress bar over 30 to 80 steps."""


@dataclass(frozen=True)
class Size:
    """How large a demo is. Every method of an experiment has the same items, steps, batches and learning rates."""

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
)
"""On a language model: some minutes on two cores."""
QUICK = replace(
    FULL, model="minilm-l6", answers="auto", items=480, test_items=240, steps=60, second_items=160, second_steps=30,
    learning_rate=5e-4,
)  # fmt: skip
"""On a small encoder: under 90 seconds on two cores."""


class DemoCallback(Protocol):
    """What the demo calls while it runs."""

    def message(self, text: str) -> None:
        """A line to print."""

    def begin(self, method: str, steps: int) -> None:
        """A training of this many steps begins."""

    def step(self, loss: float | None) -> None:
        """A step is over; the loss where there is one yet."""

    def end(self) -> None:
        """The training is over."""

    def annotators(self, result: ExperimentResult) -> None:
        """An experiment's table of annotators is there."""

    def figures(self, result: ExperimentResult) -> None:
        """An experiment is over."""


@dataclass(frozen=True)
class Experiment:
    """A table of annotations, and the methods that train on it in turn."""

    title: str
    table: Annotations
    methods: tuple[str, ...]
    steps: int


FIGURES = ("accuracy", "base_rate", "macro_f1", "rarest_recall", "log_loss")
"""What is measured on the test messages."""


@dataclass
class ExperimentResult:
    """Figures on the test messages by method and name, and each annotator's true and learned accuracy."""

    title: str
    figures: dict[str, dict[str, float]] = field(default_factory=dict)
    annotators: pd.DataFrame | None = None

    @property
    def accuracy(self) -> dict[str, float]:
        """Test accuracy by method."""
        return {method: figures["accuracy"] for method, figures in self.figures.items()}


@dataclass(frozen=True)
class Demo:
    """The whole demo. It writes `labels.csv`, `test.csv` and the run of `realm` to `folder`.

    | argument | meaning |
    |---|---|
    | size | how large it is: `FULL` or `QUICK` |
    | folder | where it writes |
    | callback | what it calls while it runs |
    | seed | of the messages, the annotators and the training |
    | second | whether there is a second experiment |
    | progress | told how far the frozen layers are computed |
    """

    size: Size
    folder: Path
    callback: DemoCallback
    seed: int = 0
    second: bool = True
    progress: Progress = ignore_progress

    @property
    def run_folder(self) -> Path:
        return self.folder / "run"

    def tables(self) -> tuple[Annotations, Annotations]:
        """The messages to label and those to test on, with gold and without annotations; all distinct."""
        table = messages(self.size.items + self.size.test_items, seed=self.seed)
        train, test = np.split(np.arange(table.n_items), [self.size.items])
        return table.take_items(train), table.take_items(test)

    def experiments(self, items: Annotations) -> list[Experiment]:
        """The experiments on these messages."""
        crowd: dict[str, Any] = {"accuracies": list(CROWD.values()), "names": list(CROWD), "seed": self.seed}
        sparse = simulate(items, **crowd, regime="sparse")
        # realm first: who can be trusted is what a person waits for
        first = Experiment("one label per item", sparse, ("realm", "noisy", "oracle"), self.size.steps)
        if not self.second:
            return [first]
        per_item = self.size.labels_per_item
        several = simulate(items.take_items(np.arange(self.size.second_items)), **crowd, per_item=per_item)
        methods = ("realm", "majority", "dawid-skene")
        return [first, Experiment(f"{per_item} labels per item", several, methods, self.size.second_steps)]

    def run(self) -> list[ExperimentResult]:
        """Run the experiments. The first one's run of `realm` is written, with its report."""
        items, test = self.tables()
        first, *more = self.experiments(items)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_table(first.table, self.folder / "labels.csv")
        write_table(test, self.folder / "test.csv")
        return [self._run(first, test, write=True), *(self._run(experiment, test, write=False) for experiment in more)]

    def _run(self, experiment: Experiment, test: Annotations, write: bool) -> ExperimentResult:
        result = ExperimentResult(experiment.title)
        for method in experiment.methods:
            write_run = write and method == "realm"
            trainer = self._trainer(experiment, method, test, write_run)
            # of the second method, so that nobody waits for it before the first table
            if write and method == experiment.methods[1] and self.size.answers == "names":
                result.figures = {"before training": _figures(trainer), **result.figures}
            trainer.train()
            if method == "realm":
                result.annotators = annotator_table(experiment.table, trainer.expertise())
                self.callback.annotators(result)
            result.figures[method] = _figures(trainer)
            self.callback.message(f"{method}: {result.accuracy[method]:.1%} of the test messages are right")
            if write_run:
                write_report(self.run_folder)
        self.callback.figures(result)
        return result

    def _trainer(self, experiment: Experiment, method: str, test: Annotations, write_run: bool) -> RealmTrainer:
        size = self.size
        config = RealmConfig(
            str(self.run_folder),
            method=method,
            write_run=write_run,
            overwrite=True,
            save_strategy="no",
            answers=size.answers,
            train_layers=size.train_layers,
            max_steps=experiment.steps,
            per_device_train_batch_size=size.batch,
            gradient_accumulation_steps=1,
            learning_rate=size.learning_rate,
            logging_steps=LOGGING_STEPS,
            seed=self.seed,
            disable_tqdm=True,
            cross_fit=0,  # three more trainings would double the demo's time
        )
        callbacks = [_Steps(self.callback, method)]
        trainer = RealmTrainer(
            size.model, experiment.table, config, test=test, callbacks=callbacks, progress=self.progress
        )
        for callback in (PrinterCallback, ProgressCallback, StepProgress):  # the demo reports its own steps
            trainer.remove_callback(callback)
        return trainer


def annotator_table(table: Annotations, expertise: pd.DataFrame) -> pd.DataFrame:
    """Annotators by learned accuracy: annotator, true (share of their labels that are right), learned, low, high,
    verdict."""
    true = dict(zip(table.annotators, realised_accuracies(table)[:, 0], strict=True))
    ranked = expertise.sort_values("accuracy", ascending=False, kind="stable").reset_index(drop=True)
    ranked = ranked.assign(true=ranked["annotator"].map(true)).rename(columns={"accuracy": "learned"})
    return ranked[["annotator", "true", "learned", "low", "high", "verdict"]]


def _figures(trainer: RealmTrainer) -> dict[str, float]:
    figures = trainer.evaluate()
    return {name: float(figures[f"eval_{name}"]) for name in FIGURES}


class _Steps(TrainerCallback):  # type: ignore[misc]
    """Passes every step on to the demo's callback."""

    def __init__(self, callback: DemoCallback, method: str) -> None:
        self.callback, self.method = callback, method
        self.loss: float | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.callback.begin(self.method, state.max_steps)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> None:
        self.loss = (logs or {}).get("loss", self.loss)

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.callback.step(self.loss)

    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.callback.end()
