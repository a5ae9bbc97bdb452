"""`realm relabel`: what to have labelled again, by whom, and on which items model and annotators disagree."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from realm.cli.emit import beside, check_outputs, emit
from realm.cli.flags import Overwrite, Raw, RunFolder
from realm.cli.terminal import ROWS, listed, note, show_frame
from realm.display import counted
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

    from realm.crowd.relabel import QueueSummary
    from realm.runs import Run

Costs = Annotated[
    Path | None, typer.Option("--costs", metavar="FILE", help="CSV of annotator and cost (of one annotation).")
]
MostEach = Annotated[
    int | None, typer.Option("--most-each", metavar="N", min=1, help="Most annotations to ask of one annotator.")
]


def relabel(
    folder: RunFolder,
    budget: Annotated[
        float, typer.Option(metavar="N", help="Annotations to ask for; with --costs, what they may cost in all.")
    ] = 100,
    costs: Costs = None,
    most_each: MostEach = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="CSV of the queue; NAME.contradictions.csv has what is contradicted."),
    ] = None,
    raw: Raw = False,
    overwrite: Overwrite = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print queue and contradictions as JSON.")] = False,
) -> None:
    """List the items where one more label helps most, and whom to ask.

    Also what it is expected to change, and the items on which the model is sure of one label and the reliable
    annotators of another. With --costs, only the annotators named there are asked.
    """
    from realm.crowd.relabel import summarise_queue
    from realm.runs import Run

    second = beside(output, "contradictions")
    check_outputs(output, second, reads=[costs], overwrite=overwrite)
    run = Run.open(folder)
    prices = read_costs(costs)
    queue, disputed = run.relabel(budget, prices, most_each), run.contradictions()
    summary = summarise_queue(queue, run.estimate)
    for remark in _remarks(run, queue, budget, prices):
        note(f"note: {remark}")
    if len(queue):
        note(_expectation(summary))
    expected = {name: value for name, value in vars(summary).items() if name != "workload"}
    figures: dict[str, Any] = {"probabilities": run.probabilities, "expected": expected}
    figures |= {"queue": queue, "contradictions": disputed, "workload": summary.workload}
    files = {output: queue, second: disputed}
    emit(queue, lambda: _show(queue, disputed, summary.workload), files, figures, as_json=as_json, raw=raw)


def read_costs(path: Path | None) -> dict[str, float] | None:
    """Cost of one annotation by annotator."""
    if path is None:
        return None
    import pandas as pd

    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise RealmError(f"--costs: {path} cannot be read: {error}.") from None
    if not {"annotator", "cost"} <= set(frame.columns):
        raise RealmError(f"--costs: {path} needs the columns annotator and cost.")
    prices = pd.to_numeric(frame["cost"], errors="coerce")
    for row, (name, is_wrong, is_repeated) in enumerate(
        zip(frame["annotator"], prices.isna(), frame["annotator"].duplicated(), strict=True), 1
    ):
        if is_wrong or is_repeated:
            what = f"the cost of {name!r} is not a number" if is_wrong else f"a second price for {name!r}"
            raise RealmError(f"--costs: {path}, row {row}: {what}.")
    return dict(zip(frame["annotator"], prices.astype(float).tolist(), strict=True))


def _remarks(run: Run, queue: pd.DataFrame, budget: float, prices: dict[str, float] | None) -> list[str]:
    remarks, names = [], run.annotations.annotators
    if unknown := [name for name in prices or () if name not in names]:
        remarks.append(f"--costs: {len(unknown):,} of its annotators are not in the run: {listed(unknown)}.")
    if prices and (unpriced := [name for name in names if name not in prices]):
        remarks.append(f"--costs: {len(unpriced):,} annotators have no price and are not asked: {listed(unpriced)}.")
    if run.estimate.relative:
        remarks.append("most items have one label: accuracies are relative, and depend on how confident the model is.")
    if (run.estimate.exponent < 1).any():
        remarks.append("annotators make the same mistakes here: another label tells less, which the queue allows for.")
    cheapest = min((prices or {"": 1.0}).values())
    if queue.empty and cheapest > budget:
        remarks.append(f"nothing to ask: the cheapest annotation costs {cheapest:g}. Raise --budget.")
    elif queue.empty:
        remarks.append("nothing to ask: no affordable annotator who is better than chance has an item left to label.")
    return remarks


def _expectation(summary: QueueSummary) -> str:
    """What the queue is expected to buy, in words."""
    return (
        f"{counted(summary.annotations, 'annotation')} at a cost of {summary.cost:g}: expected to correct "
        f"{summary.labels:.1f} of the {summary.wrong_now:.1f} labels that are expected to be wrong, and to remove "
        f"{summary.bits:.1f} of {summary.bits_now:.1f} bits of uncertainty."
    )


def _show(queue: pd.DataFrame, disputed: pd.DataFrame, workload: pd.DataFrame) -> None:
    asked = ["text", "label", "confidence", "labels_given", "gain_bits", "gain_labels", "ask", "cost", "or_else"]
    sides = ["text", "model", "model_confidence", "annotators_say", "annotators_confidence", "labels_given"]
    for title, frame, columns in (
        ("To label again", queue, asked),
        ("Who is asked", workload, ["annotator", "annotations", "cost", "gain_bits", "gain_labels"]),
        ("Contradictions: the model is sure of one label, reliable annotators of another", disputed, sides),
    ):
        if len(frame):
            more = f" (the first {ROWS} of {len(frame):,})" if len(frame) > ROWS else ""
            show_frame(title + more, frame[columns].head(ROWS))
