"""`realm relabel`: what to have labelled again, and by whom."""

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
            help="File to write.",
        ),
    ] = None,
    format: Annotated[
        Literal["csv", "label-studio"], typer.Option(help="`csv`, or tasks to import into Label Studio.")
    ] = "csv",
    raw: Raw = False,
    overwrite: Overwrite = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the queue as JSON.")] = False,
) -> None:
    """List the items where one more label would help most, whom to ask, and what it is expected to change."""
    from realm.files import write_text, writing
    from realm.runs import Run

    check_outputs(output, reads=[costs], overwrite=overwrite)
    run = Run.open(folder)
    prices = read_costs(costs)
    queue = run.relabel(budget, prices, most_each)
    by_annotator = queue.groupby("ask", sort=False)[["cost", "gain_bits", "gain_labels"]]
    workload = by_annotator.sum().assign(annotations=by_annotator.size()).rename_axis("annotator").reset_index()
    workload = workload.sort_values("annotations", ascending=False, kind="stable")
    expected = {"annotations": len(queue), "cost": float(queue["cost"].sum())}
    expected |= {"labels": float(queue["gain_labels"].sum()), "bits": float(queue["gain_bits"].sum())}
    expected["wrong_now"] = float((1 - run.estimate.posterior.max(axis=1, initial=0.0)).sum())
    for remark in _remarks(run, queue, budget, prices):
        note(f"note: {remark}")
    if len(queue):
        note(_expectation(**expected))

    if output is not None:
        note(f"{counted(len(queue), 'item')} to label again in {output}")
    figures: dict[str, Any] = {"probabilities": run.probabilities, "expected": expected}
    figures |= {"queue": queue, "workload": workload}
    files = {output: queue}
    if format == "label-studio" and output is not None:
        with writing(output, advice=""):
            write_text(output, _label_studio(run.annotations, queue))
        del files[output]
    elif format == "label-studio" and not as_json and not sys.stdout.isatty():
        write_out(_label_studio(run.annotations, queue))
        return
    emit(queue, lambda: _show(queue, workload), files, figures, as_json=as_json, raw=raw)


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


def _expectation(annotations: float, cost: float, labels: float, bits: float, wrong_now: float) -> str:
    """What the queue is expected to buy, in words."""
    return (
        f"{counted(int(annotations), 'annotation')} at a cost of {cost:g}: expected to correct {labels:.1f} of the "
        f"{wrong_now:.1f} labels that are expected to be wrong, and to remove {bits:.1f} bits of uncertainty. "
        f"Per annotation: {labels / annotations:.3f} labels, {bits / annotations:.3f} bits; "
        f"per unit of cost: {labels / cost:.3f} labels, {bits / cost:.3f} bits."
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


def _show(queue: pd.DataFrame, workload: pd.DataFrame) -> None:
    for title, frame, columns in (
        (
            "To label again",
            queue,
            ["text", "label", "confidence", "labels_given", "gain_bits", "gain_labels", "ask", "cost", "or_else"],
        ),
        ("Who is asked", workload, ["annotator", "annotations", "cost", "gain_bits", "gain_labels"]),
    ):
        if len(frame):
            more = f" (the first {ROWS} of {len(frame):,})" if len(frame) > ROWS else ""
            show_frame(title + more, frame[columns].head(ROWS))
