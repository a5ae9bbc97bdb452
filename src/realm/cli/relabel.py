"""`realm relabel`: what to have labelled again, by whom, and on which items model and annotators disagree."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from realm.cli.emit import emit
from realm.cli.flags import Overwrite, Raw, RunFolder
from realm.cli.output_files import check_outputs
from realm.cli.terminal import ROWS, note, show_frame, write_out
from realm.display import counted
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

    from realm.crowd.relabel import QueueSummary
    from realm.data import Annotations
    from realm.runs import Run

NAMED = 10
"""Unknown annotators that a note names: one line."""
Costs = Annotated[
    Path | None,
    typer.Option(
        "--costs", help="CSV with columns annotator and cost (of one annotation); only those named are asked."
    ),
]
MostEach = Annotated[
    int | None,
    typer.Option(
        "--most-each",
        help="Most annotations to ask of one annotator. Default: the best annotators share the work.",
        min=1,
    ),
]


def relabel(
    folder: RunFolder,
    budget: Annotated[
        float, typer.Option(help="Number of annotations to ask for; with --costs, what they may cost in all.")
    ] = 100,
    costs: Costs = None,
    most_each: MostEach = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File to write; items on which model and annotators disagree go to NAME.contradictions.csv.",
        ),
    ] = None,
    format: Annotated[
        Literal["csv", "label-studio"], typer.Option(help="`csv`, or tasks to import into Label Studio.")
    ] = "csv",
    raw: Raw = False,
    overwrite: Overwrite = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print queue and contradictions as JSON.")] = False,
) -> None:
    """List the items where one more label would help most, whom to ask, and what it is expected to change.

    Also lists items on which the model is sure of one label and the reliable annotators of another.
    """
    from realm.crowd.relabel import summarise_queue
    from realm.files import write_text, writing
    from realm.runs import Run

    second = None if output is None else output.with_name(f"{output.stem}.contradictions.csv")
    check_outputs(output, second, reads=[costs], overwrite=overwrite)
    run = Run.open(folder)
    prices = read_costs(costs)
    queue, disputed = run.relabel(budget, prices, most_each), run.contradictions()
    summary = summarise_queue(queue, run.estimate)
    for remark in _remarks(run, queue, budget, prices):
        note(f"note: {remark}")
    if len(queue):
        note(_expectation(summary))

    if output is not None:
        note(f"{counted(len(queue), 'item')} to label again in {output}")
        note(f"{counted(len(disputed), 'item')} on which the model and reliable annotators disagree in {second}")
    expected = {name: value for name, value in vars(summary).items() if name != "workload"}
    figures: dict[str, Any] = {"probabilities": run.probabilities, "expected": expected}
    figures |= {"queue": queue, "contradictions": disputed, "workload": summary.workload}
    files = {output: queue, second: disputed}
    if format == "label-studio" and output is not None:
        with writing(output, advice=""):
            write_text(output, _label_studio(run.annotations, queue))
        del files[output]
    elif format == "label-studio" and not as_json and not sys.stdout.isatty():
        write_out(_label_studio(run.annotations, queue))
        return
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
    if missing := [name for name in ("annotator", "cost") if name not in frame.columns]:
        raise RealmError(f"--costs: {path} lacks {' and '.join(missing)}; it needs the columns annotator and cost.")
    prices = pd.to_numeric(frame["cost"], errors="coerce")
    if prices.isna().any():
        row = int(prices.isna().to_numpy().argmax())
        raise RealmError(f"--costs: {path}, row {row + 1}: the cost {frame['cost'].iloc[row]!r} is not a number.")
    if (repeated := frame["annotator"].duplicated().to_numpy()).any():
        row = int(repeated.argmax())
        name = frame["annotator"].iloc[row]
        first = int((frame["annotator"] == name).to_numpy().argmax())
        raise RealmError(f"--costs: {path}, rows {first + 1} and {row + 1}: two prices for the annotator {name!r}.")
    return dict(zip(frame["annotator"], prices.astype(float).tolist(), strict=True))


def _remarks(run: Run, queue: pd.DataFrame, budget: float, prices: dict[str, float] | None) -> list[str]:
    remarks = []
    if unknown := [name for name in prices or () if name not in run.annotations.annotators]:
        names = ", ".join(unknown[:NAMED]) + (", ..." if len(unknown) > NAMED else "")
        remarks.append(f"--costs: {len(unknown):,} of its annotators are not in the run: {names}.")
    if prices and (unpriced := [name for name in run.annotations.annotators if name not in prices]):
        names = ", ".join(unpriced[:NAMED]) + (", ..." if len(unpriced) > NAMED else "")
        remarks.append(f"--costs: {len(unpriced):,} of the run's annotators have no price and are not asked: {names}.")
    if run.estimate.relative:
        remarks.append("most items have one label: accuracies are relative, and depend on how confident the model is.")
    if (run.estimate.exponent < 1).any():
        remarks.append(
            "annotators make the same mistakes here: another label tells less than one by an independent annotator, "
            "which the expectation below allows for."
        )
    cheapest = min((prices or {"": 1.0}).values())
    if queue.empty and cheapest > budget:
        remarks.append(f"nothing to ask: the cheapest annotation costs {cheapest:g}. Raise --budget.")
    elif queue.empty:
        remarks.append("nothing to ask: no affordable annotator who is better than chance has an item left to label.")
    return remarks


def _expectation(summary: QueueSummary) -> str:
    """What the queue is expected to buy, in words."""
    labels, bits = (total / max(summary.annotations, 1) for total in (summary.labels, summary.bits))
    return (
        f"{counted(summary.annotations, 'annotation')} at a cost of {summary.cost:g}: expected to correct "
        f"{summary.labels:.1f} of the {summary.wrong_now:.1f} labels that are expected to be wrong, and to remove "
        f"{summary.bits:.1f} of {summary.bits_now:.1f} bits of uncertainty. "
        f"Per annotation: {labels:.3f} labels, {bits:.3f} bits; "
        f"per unit of cost: {summary.labels / summary.cost:.3f} labels, {summary.bits / summary.cost:.3f} bits."
    )


def _label_studio(annotations: Annotations, queue: pd.DataFrame) -> str:
    """Tasks for Label Studio's JSON import. Nothing is filled in: a second opinion must not know the first."""
    names = [annotations.tasks[task].name for task in annotations.item_tasks]
    row_of = {key: row for row, key in enumerate(zip(names, annotations.item_ids.to_pylist(), strict=True))}
    tasks = []
    for line in queue.to_dict("records"):
        row = row_of[line["task"], line["item"]]
        data = {name: line[name] for name in ("item", "task", "text")}
        # As Label Studio's <Choices value="$options"> wants them.
        data["options"] = [{"value": option} for option in annotations.options_of(row)]
        if annotations.items.contexts is not None and annotations.items.contexts[row].is_valid:
            data["context"] = annotations.items.contexts[row].as_py()
        meta = {name: line[name] for name in ("ask", "or_else", "gain_bits")}
        tasks.append({"data": data, "meta": meta})
    return json.dumps(tasks, ensure_ascii=False, indent=1)


def _show(queue: pd.DataFrame, disputed: pd.DataFrame, workload: pd.DataFrame) -> None:
    for title, frame, columns in (
        (
            "To label again",
            queue,
            ["text", "label", "confidence", "labels_given", "gain_bits", "gain_labels", "ask", "cost", "or_else"],
        ),
        ("Who is asked", workload, ["annotator", "annotations", "cost", "gain_bits", "gain_labels"]),
        (
            "Contradictions: the model is sure of one label, reliable annotators of another",
            disputed,
            ["text", "model", "model_confidence", "annotators_say", "annotators_confidence", "labels_given"],
        ),
    ):
        if len(frame):
            more = f" (the first {ROWS} of {len(frame):,})" if len(frame) > ROWS else ""
            show_frame(title + more, frame[columns].head(ROWS))
