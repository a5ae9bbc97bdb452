"""`realm compare`: methods side by side on the same annotations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from realm.cli.flags import takes
from realm.cli.screen import note, show_table
from realm.cli.source import Source
from realm.cli.training_flags import Training
from realm.errors import RealmError
from realm.methods import METHODS

if TYPE_CHECKING:
    from realm.compare.compare import Comparison

TRIALS = "Choosing rates (held-out annotations of one seed, no gold)"


# a comparison varies the method and the seed itself, and writes no run folders
@takes(Source, Training, without=("method", "seed", "overwrite", "logging_steps", "cross_fit"))
def compare(
    file: Annotated[Path, typer.Argument(metavar="LABELS", help="Table or export with the annotations.")],
    test: Annotated[Path, typer.Option(help="Table with gold to score on.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")],
    source: Source,
    training: Training,
    methods: Annotated[str, typer.Option(help="Comma separated.")] = ",".join(METHODS),
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 3,
    regime: Annotated[str, typer.Option(help="`shared` keeps all annotations, `sparse` one per item.")] = "shared",
    contrast: Annotated[int, typer.Option(help="Keep the m best and m worst annotators against gold.")] = 0,
    min_annotations: Annotated[int, typer.Option(help="For --contrast: rank annotators with n or more.")] = 1,
    expertise_rates: Annotated[
        str | None, typer.Option(help="Expertise rates to try for `realm`.", rich_help_panel=TRIALS)
    ] = None,
    learning_rates: Annotated[
        str | None, typer.Option(help="As many model rates to try for the others.", rich_help_panel=TRIALS)
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Start again.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a script.")] = False,
) -> None:
    """Train each method with several seeds and set them side by side, with paired tests against `realm`."""
    annotations = source.read(file)
    tested = source.read(test, need="gold", tasks=annotations.tasks)
    if contrast:
        annotations = annotations.contrast(contrast, min_annotations)

    from realm.compare.compare import Comparison, check_comparison_output
    from realm.files import write_json
    from realm.report.compare_methods import comparison_page
    from realm.training.labels import training_labels

    wanted = [method.strip() for method in methods.split(",")]
    comparison = Comparison(
        annotations,
        tested,
        training.model,
        training.config,
        output,
        methods=wanted,
        seeds=seeds,
        regime=regime,
        trials=_trials(wanted, expertise_rates, learning_rates),
        say=note,
    )
    if "oracle" in wanted:
        training_labels(annotations, "oracle")  # refuses a table without gold before anything is trained
    check_comparison_output(output, overwrite)
    note(repr(annotations))
    results = comparison.run()
    results.to_csv(output / "results.csv", index=False)
    summary = summarise(comparison, results)
    write_json(output / "results.json", summary)
    comparison_page(output)
    if as_json:
        typer.echo((output / "results.json").read_text())
    else:
        _show(summary)
        note(f"results.csv, results.json and report.html are in {output}")


def _trials(methods: list[str], expertise_rates: str | None, learning_rates: str | None) -> dict[str, dict[str, Any]]:
    trials: dict[str, dict[str, Any]] = {}
    for method in methods:
        name, given = (
            ("expertise_learning_rate", expertise_rates) if method == "realm" else ("learning_rate", learning_rates)
        )
        if given:
            try:
                trials[method] = {name: [float(value) for value in given.split(",")]}
            except ValueError:
                raise RealmError(f"rates must be numbers, comma separated, not {given!r}.") from None
    return trials


def summarise(comparison: Comparison, results: Any) -> dict[str, Any]:
    """One entry per method: mean and std over seeds, and `realm` against it."""
    from realm.compare.significance import paired_bootstrap, paired_t_test

    def accuracy(method: str) -> Any:
        return results[results["method"] == method]["accuracy"].to_numpy()

    ran = list(dict.fromkeys(results["method"]))
    entries = []
    for method in ran:
        values = accuracy(method)
        entry: dict[str, Any] = {"method": method, "mean": float(values.mean()), "std": float(values.std())}
        if "realm" in ran and method != "realm":
            seeds = paired_t_test(accuracy("realm"), values)
            items = paired_bootstrap(comparison.right("realm"), comparison.right(method))
            entry |= {
                "realm_minus_this": seeds.difference,
                "p_seeds": seeds.p_value,
                "p_items": items.p_value,
                "interval_items": [items.low, items.high],
            }
        entries.append(entry)
    gold = "used in training" if comparison.uses_gold else "not read, but by the oracle"
    return {"regime": comparison.regime, "seeds": comparison.seeds, "gold": gold, "methods": entries}


def _show(summary: dict[str, Any]) -> None:
    rows = []
    for entry in summary["methods"]:
        interval = entry.get("interval_items")
        rows.append(
            [
                entry["method"],
                f"{100 * entry['mean']:.1f}",
                f"{100 * entry['std']:.1f}",
                "-" if interval is None else f"{100 * entry['realm_minus_this']:+.1f}",
                entry.get("p_seeds"),
                "-" if interval is None else f"{100 * interval[0]:+.1f} to {100 * interval[1]:+.1f}",
                entry.get("p_items"),
            ]
        )
    columns = ["method", "accuracy %", "std", "realm - this", "p (seeds)", "95% over items", "p (items)"]
    show_table(f"{summary['regime']} regime, {summary['seeds']} seeds", columns, rows)
