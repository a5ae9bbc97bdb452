"""`realm demo`: a small crowd of known quality, what each method makes of it, and what to type next."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from realm.cli.models import fetch_named_model
from realm.cli.screen import console, interactive, note, show_table
from realm.errors import RealmError

if TYPE_CHECKING:
    from realm.demo.story import Demo, Outcome

RECORD = "demo.json"
LINES_EVERY = 15


def demo(
    quick: Annotated[bool, typer.Option("--quick", help="A small encoder instead of a language model.")] = False,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write.")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the messages, the annotators and the training.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Six annotators, four of them guessing: train on what they said, and see who was right."""
    if output.exists() and (not output.is_dir() or (any(output.iterdir()) and not (output / RECORD).exists())):
        raise RealmError(f"--output {output}: holds something that no demo wrote. Name another folder.")
    note("Loading ...")
    from realm.demo import story
    from realm.files import write_json

    size = story.QUICK if quick else story.FULL
    fetch_named_model(size.model)
    output.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {"model": size.model, "seed": seed}
    write_json(output / RECORD, record)
    played = story.Demo(size, output, Screen(), seed=seed, progress=interactive())
    _introduce(played)
    began = time.monotonic()
    outcomes = played.play()
    record |= {"seconds": round(time.monotonic() - began), "acts": [_record(outcome) for outcome in outcomes]}
    write_json(output / RECORD, record)
    if as_json:
        typer.echo(json.dumps(record))
        return
    for outcome in outcomes:
        _show(outcome)
    _close(played, record["seconds"])


class Screen:
    """Progress bars in a terminal, now and then a line elsewhere."""

    def __init__(self) -> None:
        self.bar: Any = None
        self.what, self.steps, self.done = "", 0, 0

    def say(self, message: str) -> None:
        note(f"  {message}")

    def begin(self, what: str, steps: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.what, self.steps, self.done = what, steps, 0
        if interactive():
            self.bar = Progress(
                TextColumn("  {task.description:<12}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("steps, loss {task.fields[loss]}"),
                TimeRemainingColumn(),
                console=console(stderr=True),
                transient=True,
            )
            self.job = self.bar.add_task(what, total=steps, loss="-")
            self.bar.start()
        else:
            note(f"  {what}: {steps} steps")

    def step(self, loss: float | None) -> None:
        self.done += 1
        shown = "-" if loss is None else f"{loss:.2f}"
        if self.bar is not None:
            self.bar.update(self.job, advance=1, loss=shown)
        elif self.done % LINES_EVERY == 0:
            note(f"  {self.what}: step {self.done} of {self.steps}, loss {shown}")

    def end(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None


def _introduce(played: Demo) -> None:
    from realm.demo.story import CROWD

    asked, _ = played.tables()
    note("")
    note(f"{asked.n_items} messages to a help desk. What is each about: {', '.join(asked.options_of(0))}? For example:")
    note(f"    {asked.texts[0].as_py()}  -> {asked.label_name(0, int(asked.gold[0]))}")  # type: ignore[index]
    note(f"{len(CROWD)} annotators label them, one label each. Two are careful, four guess, and nobody says who.")
    note(f"{played.size.model} is trained on these labels by each method, with the same number of steps:")
    note("    noisy believes every label; realm learns whom to believe; oracle is told the truth, as a yardstick.")
    note("")


def _record(outcome: Outcome) -> dict[str, Any]:
    people = [] if outcome.annotators is None else outcome.annotators.to_dict("records")
    return {"act": outcome.title, "accuracy": outcome.accuracy, "annotators": people}


def _show(outcome: Outcome) -> None:
    rows = [(method, f"{100 * accuracy:.1f}") for method, accuracy in outcome.accuracy.items()]
    show_table(f"Right on new messages, {outcome.title}", ["method", "test accuracy %"], rows)
    if outcome.annotators is not None:
        people: Any = outcome.annotators.itertuples()
        shown = [
            (p.annotator, f"{p.true:.2f}", f"{p.learned:.2f}", f"{p.low:.2f} to {p.high:.2f}", p.verdict)
            for p in people
        ]
        columns = ["annotator", "true", "learned", "95% interval", "verdict"]
        show_table(f"How often each annotator is right, {outcome.title}", columns, shown)


def _close(played: Demo, seconds: float) -> None:
    typer.echo(f"Report: {played.run_folder / 'report.html'} (open it in a browser). It took {seconds} seconds.")
    typer.echo("Next, with labels of your own (text, annotator, label):")
    typer.echo("    realm check labels.csv")
    typer.echo(f"    realm train labels.csv --model {played.size.model} --output runs/mine")
    typer.echo("    realm report runs/mine")
