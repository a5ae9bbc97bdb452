"""The demo's two experiments: the same items and steps for every method.

The first has six annotators, four of them guessing, and one label per item, so that there is nothing to vote on. The
second has fewer items with several labels each, where majority vote and Dawid-Skene can be set beside REALM.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from realm import METHODS, Annotations, simulate
from realm.comparison.cells import Cell
from realm.comparison.compare import TableData
from realm.comparison.training import CellResult, train_cell
from realm.data.write import write_table
from realm.demo.grammar import messages
from realm.progress import Progress, ignore_progress
from realm.report.run_page import write_report

CROWD = {"Ada": 0.95, "Ben": 0.9, "Cleo": 0.3, "Dan": 0.25, "Eve": 0.25, "Finn": 0.2}
"""The annotators and how often each is right; with four options, 0.25 is guessing."""
FIGURES = ("accuracy", "base_rate", "macro_f1", "rarest_recall", "log_loss")
"""What is shown of the test messages."""


@dataclass(frozen=True)
class Size:
    """How large a demo is. Every method of an experiment has the same items, steps, batches and learning rates."""

    model: str
    answers: str
    items: int
    test_items: int
    steps: int
    second_items: int
    second_steps: int
    learning_rate: float
    batch: int = 32
    train_layers: int = 3
    labels_per_item: int = 3


FULL = Size("smollm2-135m", "names", 500, 250, 80, second_items=150, second_steps=35, learning_rate=2e-4)
"""On a language model: some minutes on two cores."""
QUICK = Size("minilm-l6", "auto", 480, 240, 60, second_items=160, second_steps=30, learning_rate=5e-4)
"""On a small encoder: under 90 seconds on two cores."""


@dataclass
class ExperimentResult:
    """What the methods of an experiment have learned."""

    title: str
    figures: dict[str, dict[str, float]] = field(default_factory=dict)  # on the test messages, by method and name
    annotators: pd.DataFrame | None = None  # true and learned accuracy of each

    @property
    def accuracy(self) -> dict[str, float]:
        """Test accuracy by method."""
        return {method: figures["accuracy"] for method, figures in self.figures.items()}

    def add(self, finished: CellResult) -> None:
        if "curve" in finished.tables:
            untrained = finished.tables["curve"].iloc[0]
            self.figures = {"before training": {name: float(untrained[name]) for name in FIGURES}, **self.figures}
        if finished.cell.method == "realm":
            names = {"accuracy": "learned", "true_accuracy": "true"}
            ranked = finished.tables["expertise"].sort_values("accuracy", ascending=False, kind="stable")
            table = ranked.rename(columns=names).reset_index(drop=True)
            self.annotators = table[["annotator", "true", "learned", "low", "high", "verdict"]]
        self.figures[finished.cell.method] = {name: float(finished.metrics[name]) for name in FIGURES}


Show = Callable[[str, ExperimentResult], None]
"""Called with what there is to show of an experiment: `annotators`, the name of a method that is done, `figures`."""


@dataclass(frozen=True)
class Demo:
    """The whole demo. It writes `labels.csv`, `test.csv` and the run of `realm`, with its report, to `folder`.

    `seed` is that of the messages, the annotators and the training; `second`: whether there is a second experiment.
    """

    size: Size
    folder: Path
    seed: int = 0
    second: bool = True

    @property
    def run_folder(self) -> Path:
        return self.folder / "run"

    def tables(self) -> tuple[Annotations, Annotations]:
        """The messages to label and those to test on, with gold and without annotations; all distinct."""
        table = messages(self.size.items + self.size.test_items, seed=self.seed)
        train, test = np.split(np.arange(table.n_items), [self.size.items])
        return table.take_items(train), table.take_items(test)

    def experiments(self) -> dict[str, list[Cell]]:
        """The cells of each experiment by its title, `realm` first: who can be trusted is what a person waits for."""
        items, test = self.tables()
        crowd: dict[str, Any] = {"accuracies": list(CROWD.values()), "names": list(CROWD), "seed": self.seed}
        sparse, per_item = simulate(items, **crowd, regime="sparse"), self.size.labels_per_item
        several = simulate(items.take_items(np.arange(self.size.second_items)), **crowd, per_item=per_item)
        first = self._cells(("realm", "noisy", "oracle"), sparse, test, self.size.steps)
        second = self._cells(("realm", "majority", "dawid-skene"), several, test, self.size.second_steps)
        return {"one label per item": first} | ({f"{per_item} labels per item": second} if self.second else {})

    def _cells(self, methods: tuple[str, ...], table: Annotations, test: Annotations, steps: int) -> list[Cell]:
        settings = {
            "answers": self.size.answers,
            "train_layers": self.size.train_layers,
            "per_device_train_batch_size": self.size.batch,
            "gradient_accumulation_steps": 1,
            "learning_rate": self.size.learning_rate,
            "cross_fit": 0,  # three more trainings would double the demo's time
        }
        # a language model is scored before training too, with `noisy`, so that nobody waits for it at the first table
        curve = {"noisy": steps} if self.size.answers == "names" else {}
        data = {reads_gold: TableData(table, test, reads_gold=reads_gold) for reads_gold in (False, True)}
        return [
            Cell(self.size.model, data[METHODS[name].needs_gold], name, self.seed, steps, settings, curve.get(name))
            for name in methods
        ]

    def run(self, show: Show, progress: Progress = ignore_progress) -> list[ExperimentResult]:
        """Train the cells of both experiments, showing each table as soon as it is there."""
        experiments, outcomes = self.experiments(), list[ExperimentResult]()
        data: Any = next(iter(experiments.values()))[0].data
        self.folder.mkdir(parents=True, exist_ok=True)
        write_table(data.annotations, self.folder / "labels.csv")
        write_table(data.test, self.folder / "test.csv")
        for title, cells in experiments.items():
            outcome = ExperimentResult(title)
            for cell in cells:
                run = self.run_folder if cell.method == "realm" and not outcomes else None
                outcome.add(train_cell(cell, run=run, progress=progress))
                if cell.method == "realm":
                    show("annotators", outcome)
                show(cell.method, outcome)
                if run is not None:
                    write_report(run)
            show("figures", outcome)
            outcomes.append(outcome)
        return outcomes
