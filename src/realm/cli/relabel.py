"""`realm relabel`: what to have labelled again, and by whom."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from realm.cli.emit import check_outputs, emit
from realm.cli.flags import Output, Overwrite, Raw, RunFolder
from realm.cli.terminal import ROWS, listed, note, show_frame
from realm.display import counted
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

    from realm.runs import Run

Costs = Annotated[
    Path | None, typer.Option("--costs", metavar="FILE", help="CSV of annotator and cost (of one annotation).")
]
MostEach = Annotated[
    int | None, typer.Option("--most-each", metavar="N", min=1, help="Most annotations to ask of one annotator.")
]


def relabel(
    folder: RunFolder,
    budget: Annotated[float, typer.Option(metavar="N", help="Annotations to ask for, or what they may cost.")] = 100,
    costs: Costs = None,
    most_each: MostEach = None,
    output: Output = None,
    raw: Raw = False,
    overwrite: Overwrite = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print queue and workload as JSON.")] = False,
) -> None:
    """List the items where one more label helps most, and whom to ask.

    Also what it is expected to change. With --costs, only the annotators named there are asked.
    """
    from realm.runs import Run

    check_outputs(output, reads=[costs], overwrite=overwrite)
    run = Run.open(folder)
    prices = read_costs(costs)
    queue = run.relabel(budget, prices, most_each)
    by_annotator = queue.groupby("ask", sort=False)[["cost", "gain_bits", "gain_labels"]]
    workload = by_annotator.sum().assign(annotations=by_annotator.size()).rename_axis("annotator").reset_index()
    workload = workload.sort_values("annotations", ascending=False, kind="stable")
    wrong_now = float((1 - run.estimate.posterior.max(axis=1, initial=0.0)).sum())
    cost, labels, bits = (float(queue[name].sum()) for name in ("cost", "gain_labels", "gain_bits"))
    for remark in _remarks(run, queue, budget, prices):
        note(f"note: {remark}")
    if len(queue):
        note(
            f"{counted(len(queue), 'annotation')} at a cost of {cost:g}: expected to correct {labels:.1f} of the "
            f"{wrong_now:.1f} labels that are expected to be wrong, and to remove {bits:.1f} bits of uncertainty."
        )
    expected = {"annotations": len(queue), "cost": cost, "labels": labels, "bits": bits, "wrong_now": wrong_now}
    figures = {"probabilities": run.probabilities, "expected": expected, "queue": queue, "workload": workload}
    emit(queue, lambda: _show(queue, workload), {output: queue}, figures, as_json=as_json, raw=raw)


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
    costs: dict[str, float] = {}
    for row, (name, price) in enumerate(zip(frame["annotator"], frame["cost"], strict=True), 1):
        if name in costs:
            raise RealmError(f"--costs: {path}, row {row}: a second price for {name!r}.")
        try:
            costs[name] = float(price)
        except ValueError:
            raise RealmError(f"--costs: {path}, row {row}: the cost of {name!r} is not a number.") from None
    return costs


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


def _show(queue: pd.DataFrame, workload: pd.DataFrame) -> None:
    asked = ["text", "label", "confidence", "labels_given", "gain_bits", "gain_labels", "ask", "cost", "or_else"]
    for title, frame, columns in (
        ("To label again", queue, asked),
        ("Who is asked", workload, ["annotator", "annotations", "cost", "gain_bits", "gain_labels"]),
    ):
        if len(frame):
            more = f" (the first {ROWS} of {len(frame):,})" if len(frame) > ROWS else ""
            show_frame(title + more, frame[columns].head(ROWS))
