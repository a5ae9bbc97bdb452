"""`realm demo`: a small crowd of known quality, what each method makes of it, and what to type next."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from realm.cli.emit import print_json
from realm.cli.models import fetch_named_model
from realm.cli.progress import progress_display
from realm.cli.terminal import note, show_frame, show_table
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

    from realm.demo.experiments import Demo, ExperimentResult

RECORD = "demo.json"


def demo(
    quick: Annotated[bool, typer.Option("--quick", help="A small encoder instead of a language model.")] = False,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write.")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of messages, annotators and training.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Train on labels of six annotators, four of whom guess."""
    _check_folder(output)
    note("Loading ...")
    from realm.demo import experiments
    from realm.files import write_json, writing
    from realm.locks import holding

    size = experiments.QUICK if quick else experiments.FULL
    fetch_named_model(size.model)
    record: dict[str, Any] = {"model": size.model, "seed": seed}
    with ExitStack() as held, progress_display() as progress:
        with writing(output, advice=""):
            held.enter_context(holding(output))
            write_json(output / RECORD, record)
        demo = experiments.Demo(size, output, seed)
        _introduce(demo)
        start = time.monotonic()
        results = demo.run(_say if as_json else _show, progress)
        record["seconds"] = round(time.monotonic() - start)
        record["experiments"] = [
            {"title": each.title, "figures": each.figures, "annotators": _records(each.annotators)} for each in results
        ]
        with writing(output, advice=""):
            write_json(output / RECORD, record)
    if as_json:
        print_json(record)
        return
    page = demo.run_folder / "report.html"
    typer.echo(f"""Report: {page} (open it in a browser). It took {record["seconds"]} seconds.
Next, with labels of your own (text, annotator, label):
    realm check labels.csv
    realm train labels.csv --model {size.model} --output runs/mine
    realm report runs/mine""")


def _records(table: pd.DataFrame | None) -> list[dict[Any, Any]]:
    return [] if table is None else table.to_dict("records")


def _check_folder(folder: Path) -> None:
    """Refuse a folder with anything but a demo in it, or what is left of one that was killed at its start."""
    from realm.files import partial_files
    from realm.locks import LOCK

    if not folder.exists() or (folder.is_dir() and (folder / RECORD).exists()):
        return
    if not folder.is_dir() or set(folder.iterdir()) - {folder / LOCK, *partial_files(folder)}:
        raise RealmError(f"--output {folder}: is not empty and was not written by `realm demo`. Name another folder.")


def _show(what: str, result: ExperimentResult) -> None:
    """The tables of an experiment, and a line for each method that is done."""
    from realm.metrics import METRICS

    if what == "annotators" and result.annotators is not None:
        show_frame(f"How often each annotator is right, {result.title}", result.annotators)
    elif what == "figures":
        names = ("accuracy", "macro_f1", "rarest_recall", "log_loss")
        rows = [
            (method, *(format(figures[name], METRICS[name].format) for name in names))
            for method, figures in result.figures.items()
        ]
        base = next(iter(result.figures.values()))["base_rate"]
        title = f"On new messages, {result.title} (always the most frequent answer: {100 * base:.1f}% right)"
        show_table(title, ["method", *(METRICS[name].name_in_text for name in names)], rows)
    else:
        _say(what, result)


def _say(what: str, result: ExperimentResult) -> None:
    if what in result.figures:
        note(f"  {what}: {result.accuracy[what]:.1%} of the test messages are right")


def _introduce(demo: Demo) -> None:
    from realm.demo.experiments import CROWD

    items, _ = demo.tables()
    assert items.gold is not None
    note(f"""
{items.n_items} messages to a help desk. What is each about: {", ".join(items.options_of(0))}? For example:
    {items.texts[0].as_py()}  -> {items.label_name(0, int(items.gold[0]))}
{len(CROWD)} annotators label them, one label each. Two are careful, four guess; no method is told who.
{demo.size.model} is trained on these labels by each method, with the same number of steps:
    noisy trusts every label; realm learns whom to trust; oracle has the true labels, for comparison.
""")
