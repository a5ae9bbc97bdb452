"""`realm simulate`: annotators of known quality over questions with gold, in the paper's pools and noises."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from realm.cli.emit import check_outputs, print_json, write_annotations
from realm.cli.flags import Overwrite, Seed, takes
from realm.cli.reading_flags import ReadingFlags
from realm.cli.terminal import show_frame

if TYPE_CHECKING:
    import pandas as pd

    from realm.data import Annotations


@takes(ReadingFlags)
def simulate(
    file: Annotated[Path, typer.Argument(metavar="QUESTIONS", help="Table with text and gold.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Table to write: .csv or .parquet.")],
    reading: ReadingFlags,
    pool: Annotated[str, typer.Option(metavar="TEXT", help="D1, D2, D3, graded:N, one-reliable:N, or 0.9,0.5.")] = "D1",
    noise: Annotated[str, typer.Option(metavar="TEXT", help="uniform, asymmetric or systematic[-offset].")] = "uniform",
    regime: Annotated[str, typer.Option(metavar="TEXT", help="sparse (one per item) or shared.")] = "sparse",
    per_item: Annotated[int | None, typer.Option(metavar="N", help="Annotators drawn for each item.")] = None,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the annotators as JSON.")] = False,
) -> None:
    """Simulate annotators of chosen accuracies over items with gold."""
    from realm.comparison.simulation import read_pool
    from realm.comparison.simulation import simulate as simulate_annotators

    check_outputs(output, reads=[file], overwrite=overwrite)
    questions, accuracies = reading.read_test(file), read_pool(pool)
    settings: dict[str, Any] = {"noise": noise, "regime": regime}
    annotations = simulate_annotators(questions, accuracies, per_item=per_item, seed=seed, **settings)
    write_annotations(annotations, output)
    table = annotators_table(annotations, accuracies)
    if as_json:
        sizes = {"annotations": annotations.n_annotations, "items": annotations.n_items}
        print_json({"annotators": table, **sizes, "dropped": annotations.ledger.counts})
    else:
        show_frame("Simulated annotators", table)


def annotators_table(annotations: Annotations, accuracies: Any) -> pd.DataFrame:
    """One row per annotator and task: the accuracy asked for, the realised one, and the expertise it implies."""
    import numpy as np
    import pandas as pd

    from realm.comparison.simulation import implied_expertise, realised_accuracies

    realised = realised_accuracies(annotations)  # (annotators, tasks)
    accuracy, tables = np.asarray(accuracies, dtype=float), []
    for index, task in enumerate(annotations.tasks):
        counts = annotations.option_counts[annotations.item_tasks == index]
        implied = implied_expertise(accuracy, 1 / np.mean(1 / counts) if len(counts) else np.nan)
        columns = {"annotator": annotations.annotators, "task": task.name, "accuracy": accuracy}
        tables.append(pd.DataFrame({**columns, "realised": realised[:, index], "implied expertise": implied}))
    table = pd.concat(tables, ignore_index=True)
    return table if len(tables) > 1 else table.drop(columns="task")
