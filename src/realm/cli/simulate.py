"""`realm simulate`: annotators of known quality over questions with gold, in the paper's pools and noises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from realm.cli.flags import takes
from realm.cli.outputs import note_inventory, refuse_existing
from realm.cli.screen import note, show_table
from realm.cli.source import Source

if TYPE_CHECKING:
    from realm.data import Annotations


@takes(Source)
def simulate(
    file: Annotated[Path, typer.Argument(metavar="QUESTIONS", help="Table with text and gold.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Table to write: .csv or .parquet.")],
    source: Source,
    pool: Annotated[
        str, typer.Option(help="`D1`, `D2`, `D3`, `graded:N`, `one-reliable:N`, or accuracies such as 0.9,0.5,0.1.")
    ] = "D1",
    matrix: Annotated[
        str | None, typer.Option(help="In place of --pool, as many annotators as tasks: `D1`, `D2` or `D3`.")
    ] = None,
    noise: Annotated[
        str, typer.Option(help="`uniform`, `asymmetric`, `systematic` or `systematic-offset`.")
    ] = "uniform",
    regime: Annotated[str, typer.Option(help="`sparse`: a disjoint share each; `shared`: everyone all.")] = "sparse",
    per_item: Annotated[int | None, typer.Option(help="In place of --regime: annotators drawn for each item.")] = None,
    adjacent: Annotated[
        str, typer.Option(help="Asymmetric: share of the adjacent class, by its `weight` or as the `paper` states it.")
    ] = "weight",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulation.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output if it exists.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the annotators as JSON.")] = False,
) -> None:
    """Label questions with simulated annotators, and say how accurate they came out."""
    from realm.comparison.simulation import read_pool, task_matrix
    from realm.comparison.simulation import simulate as make
    from realm.data.write import write_table

    refuse_existing(output, overwrite)
    questions = source.read_test(file)
    accuracies: Any = read_pool(pool) if matrix is None else task_matrix(matrix, len(questions.tasks))
    how: dict[str, Any] = {"noise": noise, "regime": regime, "adjacent": adjacent}
    made = make(questions, accuracies, per_item=per_item, seed=seed, **how)
    write_table(made, output)
    for warning in made.ledger.warnings:
        note(f"warning: {warning}")
    records = annotators_of(made, accuracies)
    if as_json:
        typer.echo(json.dumps({"annotators": records, "annotations": made.n_annotations, "items": made.n_items}))
    else:
        columns = list(records[0])
        show_table("Simulated annotators", columns, [[record[name] for name in columns] for record in records])
    note_inventory(made)
    note(f"{made.n_annotations:,} annotations of {made.n_items:,} items in {output}")


def annotators_of(made: Annotations, accuracies: Any) -> list[dict[str, Any]]:
    """One record per annotator and task: the accuracy asked for, the realised one, and the expertise it implies."""
    import numpy as np

    from realm.comparison.simulation import implied_expertise, realised_accuracies

    realised = realised_accuracies(made)
    wanted = np.asarray(accuracies, dtype=float)
    wanted = np.broadcast_to(wanted if wanted.ndim == 2 else wanted[:, None], realised.shape)
    records = []
    for task, said in enumerate(made.tasks):
        of_task = made.item_tasks == task
        options = 1 / np.mean(1 / made.option_counts[of_task]) if of_task.any() else np.nan
        for person, name in enumerate(made.annotators):
            record: dict[str, Any] = {"annotator": name} | ({"task": said.name} if len(made.tasks) > 1 else {})
            value = float(realised[person, task])
            record |= {
                "accuracy": float(wanted[person, task]),
                "realised": None if np.isnan(value) else value,
                "implied expertise": float(implied_expertise(wanted[person, task], options)),
            }
            records.append(record)
    return records
