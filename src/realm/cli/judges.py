"""`realm judges`: which judges of a panel are worth their price, and which items to send to a human."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from realm.cli.emit import beside, check_outputs, emit
from realm.cli.flags import LabelsFiles, Output, Overwrite, Raw, takes
from realm.cli.reading_flags import ReadingFlags
from realm.cli.relabel import Costs, read_costs
from realm.cli.terminal import ROWS, listed, note, note_ledger, show_frame, write_out
from realm.errors import RealmError

if TYPE_CHECKING:
    from realm.crowd.panel import Panel, SubPanel


@takes(ReadingFlags)
def judges(
    files: LabelsFiles,
    reading: ReadingFlags,
    output: Output = None,
    costs: Costs = None,
    humans: Annotated[int, typer.Option(metavar="N", min=0, help="Items to list for a human.")] = 20,
    expert: Annotated[list[str] | None, typer.Option(metavar="TEXT", help="An expert; may be repeated.")] = None,
    within: Annotated[float, typer.Option(metavar="N", help="Accuracy that a cheaper part may lack.")] = 0.01,
    use_gold: Annotated[bool, typer.Option("--use-gold", help="Judge by the items with gold.")] = False,
    raw: Raw = False,
    overwrite: Overwrite = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print judges, panels and items as JSON.")] = False,
) -> None:
    """Find the judges of a panel who are worth their price.

    How accurate each is, what each adds, the cheapest part that does as well, and the least sure items, for a human.
    With --output, NAME.humans.csv has the items.
    """
    import numpy as np
    import pandas as pd

    from realm.crowd.panel import Panel

    second = beside(output, "humans")
    check_outputs(output, second, reads=[*files, costs, *reading.files()], overwrite=overwrite)
    annotations, orders = reading.read(files, keep_rows=True, keep_orders=True), None
    if reading.order_suffix is not None:
        from realm.data.orders import join_orders

        annotations, orders = join_orders(annotations, reading.order_suffix)
    if use_gold and annotations.gold is None:
        raise RealmError(f"{', '.join(map(str, files))}: --use-gold: there is no gold column. Name it with --gold.")
    prices = read_costs(costs)
    panel = Panel(annotations, costs=prices, experts=expert, gold=annotations.gold if use_gold else None)
    table, queue = panel.table(), panel.for_a_human(humans)
    if orders is not None:  # shares of the items asked twice, and of the contradictions
        rows = table["annotator"].map({name: row for row, name in enumerate(annotations.annotators)})
        asked, torn, first = (counts[rows] for counts in (orders.asked_twice, orders.torn, orders.first_shown))
        with np.errstate(invalid="ignore"):
            table = table.assign(contradicts_itself=torn / asked, then_first_shown=first / torn)
    cheapest, remarks = panel.cheapest(within), _remarks(panel, prices)
    if annotations.gold is not None and not use_gold:
        remarks.append("gold was not used but to measure: where `expected` and `measured` differ, give --use-gold.")
    if len(annotations.tasks) == 1:
        table, queue = table.drop(columns="task"), queue.drop(columns="task")
    note_ledger(annotations.ledger)
    for remark in remarks:
        note(f"note: {remark}")
    figures = {
        "judges": table,
        "independent_judges": None if panel.screens.independence is None else panel.screens.independence.effective,
        "whole": panel.whole._asdict(),
        "cheapest": cheapest._asdict(),
        "panels": [part._asdict() for part in panel.path()],
        "expected_with_humans": panel.expected_with_humans(humans),
        "humans": queue,
        "dropped": annotations.ledger.counts,
        "warnings": [*annotations.ledger.warnings, *remarks],
    }

    def show() -> None:
        show_frame("Judges", table if output is None else table.head(ROWS))
        panels = pd.DataFrame(panel.path())[["cost", "expected", "measured", "members"]]
        show_frame("Panels, as judges leave one by one", panels.assign(members=panels["members"].map(", ".join)))
        if len(queue):
            least = queue[["text", *queue.columns.drop(["item", "text"])]].head(ROWS)
            show_frame("The least sure items, for a human", least)
        for sentence in _summary(panel, cheapest, within, humans):
            write_out(sentence)

    emit(table, show, {output: table.round(6), second: queue.round(6)}, figures, as_json=as_json, raw=raw)


def _remarks(panel: Panel, prices: dict[str, float] | None) -> list[str]:
    remarks = []
    names = panel.annotations.annotators
    if copies := [names[index] for index in panel.copies.nonzero()[0]]:
        remarks.append(
            f"the same verdicts as another judge, mistakes included: {', '.join(copies)}. The panel does without."
        )
    if unknown := [name for name in prices or () if name not in names]:
        remarks.append(f"--costs: {len(unknown):,} of its annotators are not in the table: {listed(unknown)}.")
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
        right = panel.expected_with_humans(humans)
        sentences.append(f"With a human, always right, on the {humans:,} least sure items: {right:.3f} expected.")
    return sentences


def _accuracy(part: SubPanel) -> str:
    measured = "" if part.measured is None else f", {part.measured:.3f} measured on gold"
    return f"labels right {part.expected:.3f} of the time expected{measured}"
