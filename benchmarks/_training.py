"""Training beside a plain `transformers.Trainer` that has one row per annotation.

Four sides, each in a process of its own, train epoch after epoch in turn: REALM as it comes, the fit of its annotators
included; REALM in the paper's setting; the rival at its best (rows grouped by length, logits at the answer alone); the
rival as it comes. All but the last take the micro-batch that is fastest for them: REALM case by case, since it pads
items of different lengths; the rival as found where every item has one row,
since the rows of an item are alike and more of them change nothing. In its turn REALM trains as many epochs as the
rival has rows for an item, so that both are measured for about as long. Nothing counts unless all took as many
annotations to an optimiser step and the same annotations gave the same gradient under the paper's loss.
"""

from __future__ import annotations

import gc
import sys
import tempfile
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks import _material, _rival, _sides
from benchmarks._sides import Result, Targets, ask, median, peak_of

OURS = ("realm", "realm, paper's setting")
SIDES = (*OURS, "trainer, tuned", "trainer, defaults")
ROUNDS, TRIALS = 5, 3
MICRO = 8
GRADIENT_ITEMS = 8
"""Items whose gradient is compared: enough for a decoder to compute what they begin with once."""
MICRO_BATCHES = (4, 8, 16, 32)
"""Micro-batches among which REALM and the tuned rival have their choice; the defaults are 8."""


@dataclass(frozen=True)
class Case:
    """What is trained on, how many items (one optimiser step takes them all), and the ratios that are asked for."""

    regime: str
    per_item: int
    items: int
    against_tuned: float
    against_defaults: float | None = None

    @property
    def annotations(self) -> int:
        return self.items * self.per_item


CASES = [
    Case("shared, 5 per item", per_item=5, items=16, against_tuned=4.0),
    Case("shared, 10 per item", per_item=10, items=16, against_tuned=7.5),
    Case("sparse", per_item=1, items=48, against_tuned=1.0, against_defaults=1.15),
]


@dataclass(frozen=True)
class Setup(_sides.Setup):
    epochs: int


def serve(side: str, setup: Setup, pipe: Connection) -> None:
    """Make ready for a case, give the gradient of some items, train epoch after epoch: whatever is asked."""
    _sides.quiet()
    at_hand: list[Epochs] = []

    def prepare(case: Case, micro: int) -> None:
        while at_hand:
            at_hand.pop().finish()
        gc.collect()
        tuned = side == "trainer, tuned"
        at_hand.append(
            realm_epochs(setup, case, micro, side != "realm")
            if side in OURS
            else trainer_epochs(setup, case, tuned, micro)
        )

    def gradient() -> None:
        save = _rival.save_realm_gradient if side in OURS else _rival.save_gradient
        save(at_hand[0].trainer, GRADIENT_ITEMS, Path(setup.folder) / side)

    _sides.answer(pipe, {"prepare": prepare, "gradient": gradient, "epoch": lambda: at_hand[0].epoch()})


class Epochs:
    """A training that stops at the end of every epoch until it is asked for the next."""

    def __init__(self, trainer: Any, counts: list[int]) -> None:
        from transformers.trainer_callback import TrainerCallback

        self.trainer, self.counts = trainer, counts
        self.steps: list[int] = []
        self.turn: Any = None
        self.finished = False
        outer = self

        class Watch(TrainerCallback):
            def on_step_end(self, *_: Any, **__: Any) -> None:
                outer.steps.append(sum(counts))
                counts.clear()

            def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
                outer.turn.switch()
                control.should_training_stop = control.should_training_stop or outer.finished

        trainer.add_callback(Watch())

    def epoch(self) -> list[int]:
        """Train for one epoch; the annotations of each of its steps."""
        if self.turn is None:
            self.turn = Turn(self.trainer.train)
        self.steps.clear()
        self.turn.switch_in()
        return list(self.steps)

    def finish(self) -> None:
        """Let the training end, so that nothing holds on to its memory."""
        self.finished = True
        if self.turn is not None:
            self.turn.switch_in()
            self.turn = None


class Turn:
    """Runs a function in a thread that moves only while it is its turn."""

    def __init__(self, run: Any) -> None:
        import threading

        self.go, self.stopped = threading.Semaphore(0), threading.Semaphore(0)

        def body() -> None:
            self.go.acquire()
            try:
                run()
            finally:
                self.stopped.release()

        threading.Thread(target=body, daemon=True).start()

    def switch(self) -> None:
        self.stopped.release()
        self.go.acquire()

    def switch_in(self) -> None:
        self.go.release()
        self.stopped.acquire()


def realm_epochs(setup: Setup, case: Case, micro: int, paper: bool) -> Epochs:
    from realm.training.settings import PAPER

    settings = {**PAPER, "batch_unit": "item"} if paper else {}
    trainer = _material.realm_trainer(
        setup.model,
        _material.crowd(case.items, case.per_item),
        setup.folder,
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=case.items // micro,
        num_train_epochs=setup.epochs,
        **settings,
    )
    counts: list[int] = []
    loss = trainer.compute_loss

    def counting_loss(model: Any, inputs: Any, *more: Any, **keywords: Any) -> Any:
        counts.append(len(inputs["annotation_labels"]))
        return loss(model, inputs, *more, **keywords)

    trainer.compute_loss = counting_loss

    return Epochs(trainer, counts)


def trainer_epochs(setup: Setup, case: Case, tuned: bool, micro: int) -> Epochs:
    from realm.scorers import load_scorer

    table = _material.crowd(case.items, case.per_item)
    scorer: Any = load_scorer(setup.model, table.items)
    settings = {"num_train_epochs": setup.epochs, "lr_scheduler_type": "cosine"}
    trainer = _rival.trainer(table, scorer, Path(setup.folder), case.annotations, tuned, micro=micro, **settings)

    return Epochs(trainer, trainer.counts)


# ------------------------------------------------------------------------------------------------ both sides


def compare_all(name: str, model: str, cases: list[Case], targets: Targets) -> list[list[Any]]:
    """The rows of one model."""
    rounds = 2 if targets.quick else ROUNDS
    epochs = max(1 + TRIALS, *(rounds * case.per_item for case in cases))
    rows = []
    with (
        tempfile.TemporaryDirectory() as folder,
        _sides.sides(serve, SIDES, Setup(model, folder, epochs)) as pipes,
    ):
        micro = dict.fromkeys(SIDES, MICRO)
        micro["trainer, tuned"] = fastest_micro(pipes["trainer, tuned"], cases[-1], cases)
        for case in cases:
            micro |= {side: fastest_micro(pipes[side], case, [case]) for side in OURS}
            print(f"{name}, {case.regime}: micro-batches {list(micro.values())}", file=sys.stderr)
            for side, pipe in pipes.items():
                ask(pipe, "prepare", case, micro[side])
                ask(pipe, "gradient")
            apart = _rival.gradients_apart(*(Path(folder) / side for side in SIDES))
            timings = _sides.take_turns(pipes, "epoch", rounds, dict.fromkeys(OURS, case.per_item))
            rows.append(row(name, case, timings, apart, targets))
            print(f"{name}, {case.regime}: over tuned {rows[-1][7]}, over defaults {rows[-1][9]}", file=sys.stderr)
    return rows


def fastest_micro(pipe: Connection, case: Case, cases: list[Case]) -> int:
    """The micro-batch, of those that divide the step of all `cases`, in which `case` is fastest once it is warm."""
    timings = {}
    for micro in (size for size in MICRO_BATCHES if all(one.items % size == 0 for one in cases)):
        ask(pipe, "prepare", case, micro)
        ask(pipe, "epoch")
        timings[micro] = min(ask(pipe, "epoch").seconds for _ in range(TRIALS))
    return min(timings, key=lambda micro: timings[micro])


def row(name: str, case: Case, timings: dict[str, list[Result]], apart: float, targets: Targets) -> list[Any]:
    """One row of the table."""
    for results in timings.values():
        for result in results:
            assert result.value == [case.annotations], result.value
    seconds = {side: median(results) for side, results in timings.items()}
    tuned, defaults = (seconds[side] / seconds["realm"] for side in SIDES[len(OURS) :])
    paper = seconds["trainer, tuned"] / seconds[OURS[1]]
    what = f"{name}, {case.regime}"
    target = targets.hold(f"{what}, against the tuned trainer", tuned, case.against_tuned)
    if case.against_defaults is not None:
        target += f" / {targets.hold(f'{what}, against defaults', defaults, case.against_defaults)}"
    speeds = [f"{case.annotations / seconds[side]:.2f}" for side in SIDES]
    peaks = " / ".join(peak_of(timings[side]) for side in SIDES)
    return [
        name,
        case.regime,
        case.annotations,
        *speeds,
        f"{tuned:.2f}x",
        f"{paper:.2f}x",
        f"{defaults:.2f}x",
        target,
        f"{apart:.0e}",
        peaks,
    ]


def show(name: str, model: str, targets: Targets, steps: int = 1) -> None:
    """Print the table of a model, with `steps` times the items in a step; fail where a target is missed."""
    cases = CASES if targets.quick else [replace(case, items=steps * case.items) for case in CASES]
    columns = ["model", "regime", "annotations per step", *(f"{side}, annotations/s" for side in SIDES)]
    columns += ["over tuned", "in the paper's setting", "over defaults", "target", "gradients apart", "peak MB"]
    rows = compare_all(name, model, cases, targets)
    _sides.show("Annotations per second of processor, medians of the epochs of five turns", columns, rows)
    targets.finish()
