"""`realm judges`: which judges of a panel are worth their price, and which items to send to a human."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from realm.cli.emit import beside, emit
from realm.cli.flags import LabelsFiles, Overwrite, Raw, takes
from realm.cli.output_files import check_outputs
from realm.cli.reading_flags import ReadingFlags
from realm.cli.relabel import read_costs
from realm.cli.terminal import ROWS, note, note_ledger, show_frame, write_out
from realm.display import counted
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

    from realm.crowd.panel import Panel, SubPanel
    from realm.data import Annotations
    from realm.data.orders import OrderHabits

NAMED = 10
"""Prices without a judge that a note names: one line."""


@takes(ReadingFlags)
def judges(
    files: LabelsFiles,
    reading: ReadingFlags,
    costs: Annotated[
        Path | None, typer.Option(help="CSV with columns annotator and cost (of one label). Default: 1 each.")
    ] = None,
    within: Annotated[
        float, typer.Option(help="How much less accurate than the whole panel a cheaper part may be.")
    ] = 0.01,
    humans: Annotated[int, typer.Option(min=0, help="How many items to list for a human: the least sure.")] = 20,
    expert: Annotated[
        list[str] | None, typer.Option(help="Annotator taken to be an expert, such as a person; may be repeated.")
    ] = None,
    use_gold: Annotated[
        bool, typer.Option("--use-gold", help="Judge by the items with gold; otherwise accuracy is measured on them.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="CSV to write the judges to; items for a human go to NAME.humans.csv."),
    ] = None,
    raw: Raw = False,
    overwrite: Overwrite = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print judges, panels and items as JSON.")] = False,
) -> None:
    """How accurate each judge of a panel is, what each adds, the cheapest part that does as well, items for a human."""
    from realm.crowd.panel import Panel

    second = beside(output, "humans")
    check_outputs(output, second, reads=[*files, costs, *reading.files()], overwrite=overwrite)
    annotations, orders = _read(reading, files)
    if use_gold and annotations.gold is None:
        raise RealmError(f"{', '.join(map(str, files))}: --use-gold: there is no gold column. Name it with --gold.")
    prices = read_costs(costs)
    panel = Panel(annotations, costs=prices, experts=expert, gold=annotations.gold if use_gold else None)
    table, queue = _judges_table(panel, orders), panel.for_a_human(humans)
    cheapest = panel.cheapest(within)
    remarks = _remarks(panel, prices)
    summary = _summary(panel, cheapest, within, humans)
    if len(annotations.tasks) == 1:
        table, queue = table.drop(columns="task"), queue.drop(columns="task")
    note_ledger(annotations.ledger)
    for remark in remarks:
        note(f"note: {remark}")

    if output is not None:
        note(f"{counted(len(table), 'judge')} in {output}, {counted(len(queue), 'item')} for a human in {second}")
    figures = {
        "judges": table,
        "independent_judges": None if panel.screens.independence is None else panel.screens.independence.effective,
        "whole": _entry(panel.whole),
        "cheapest": _entry(cheapest),
        "panels": [_entry(part) for part in panel.path()],
        "expected_with_humans": panel.expected_with_humans(humans),
        "humans": queue,
        "dropped": annotations.ledger.counts,
        "warnings": [*annotations.ledger.warnings, *remarks],
    }

    def show() -> None:
        more = f": the first {ROWS} of {len(table):,}" if len(table) > ROWS and output is not None else ""
        show_frame(f"Judges{more}", table.head(ROWS) if more else table)
        show_frame("Panels, as judges leave one by one", _panels_table(panel.path()))
        if len(queue):
            least = queue[["text", *queue.columns.drop(["item", "text"])]].head(ROWS)
            show_frame("The least sure items, for a human", least)
        for sentence in summary:
            write_out(sentence)

    emit(table, show, {output: table.round(6), second: queue.round(6)}, figures, as_json=as_json, raw=raw)


def _read(reading: ReadingFlags, files: Sequence[Path]) -> tuple[Annotations, OrderHabits | None]:
    """The table, and what the order of the options did where judges were asked in two."""
    from realm.data.orders import join_orders

    suffix = reading.order_suffix
    annotations = reading.read(files, keep_rows=True, keep_orders=True)
    return (annotations, None) if suffix is None else join_orders(annotations, suffix)


def _judges_table(panel: Panel, orders: OrderHabits | None) -> pd.DataFrame:
    table = panel.table()
    if orders is None:
        return table
    row_of = {name: row for row, name in enumerate(panel.annotations.annotators)}
    rows = table["annotator"].map(row_of).to_numpy()
    asked, torn, first = (
        counts[rows].astype(float) for counts in (orders.asked_twice, orders.torn, orders.first_shown)
    )
    missing = float("nan")
    contradicts = [each / of if of else missing for each, of in zip(torn, asked, strict=True)]
    prefers = [each / of if of else missing for each, of in zip(first, torn, strict=True)]
    return table.assign(contradicts_itself=contradicts, then_first_shown=prefers)


def _remarks(panel: Panel, prices: dict[str, float] | None) -> list[str]:
    remarks = []
    names = panel.annotations.annotators
    if copies := [names[index] for index in panel.copies.nonzero()[0]]:
        remarks.append(
            f"the same verdicts as another judge, mistakes included: {', '.join(copies)}. The panel does without."
        )
    if unknown := [name for name in prices or () if name not in names]:
        shown = ", ".join(unknown[:NAMED]) + ", ..." * (len(unknown) > NAMED)
        remarks.append(f"--costs: {len(unknown):,} of its annotators are not in the table: {shown}.")
    if panel.estimate.relative:
        remarks.append("mostly one label per item: accuracies are relative, and what judges add cannot be told.")
    return remarks


def _summary(panel: Panel, cheapest: SubPanel, within: float, humans: int) -> list[str]:
    """What the tables come to, in sentences."""
    whole = panel.whole
    sentences = [f"The panel: {len(whole.members)} judges, cost {whole.cost:g} a label, {_accuracy(whole)}."]
    if panel.screens.independence is not None:
        worth = f"{panel.screens.independence}"
        sentences.append(f"{worth[0].upper()}{worth[1:]}.")
    sentences.append(
        f"The cheapest part within {within:g} of it: {len(cheapest.members)} judges, cost {cheapest.cost:g}, "
        f"{_accuracy(cheapest)}: {', '.join(cheapest.members)}."
    )
    if humans:
        sentences.append(
            f"With a human, always right, on the {humans:,} least sure items: {panel.expected_with_humans(humans):.3f} "
            "expected."
        )
    return sentences


def _accuracy(part: SubPanel) -> str:
    measured = "" if part.measured is None else f", {part.measured:.3f} measured on gold"
    return f"labels right {part.expected:.3f} of the time expected{measured}"


def _panels_table(path: list[SubPanel]) -> pd.DataFrame:
    """A row for each panel on the way; `left` is who left before it."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for before, part in zip([path[0], *path], path, strict=False):
        gone = ", ".join(name for name in before.members if name not in part.members)
        rows.append(
            {"left": gone or "(all)", "judges": len(part.members), "cost": part.cost, "expected": part.expected}
        )
        if part.measured is not None:
            rows[-1]["measured"] = part.measured
    return pd.DataFrame(rows)


def _entry(part: SubPanel) -> dict[str, Any]:
    return {"members": list(part.members), "cost": part.cost, "expected": part.expected, "measured": part.measured}
