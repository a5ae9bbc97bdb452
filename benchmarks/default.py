"""Does the default keep its promise? Each row of "never worse than doing without it", measured and judged.

    python -m benchmarks.default --data FOLDER --model mpnet-base --train-layers head [--only ROW ...] [--seeds 5]

Prints tables in Markdown and a line for each thing that must hold; exit code 1 where one fails. Finished trainings are
kept in `WORK/results.sqlite` under keys that know every setting: the same command continues where it was stopped, and
`--report` prints what is there without training anything. A key does not know the code: after a change of it,
`--tag NAME` trains the default anew and keeps the others. Rows:

| row | what is measured |
|---|---|
| sentpolarity | real annotators, contrast-20 of 100+ and of 10+ labels, all 203; sparse and shared |
| civilcomments | 24 LLM judges; all, 3 and 1 per item |
| cebab | four tasks, the same annotators: expertise per task, and one number per annotator |
| dices | aggregation alone, against an expert |
| simulated | five pools, three kinds of noise, K = 2 and 3, sparse and shared; a model with an opinion |
| equals | five annotators of accuracy .8, shared |
| chance | ten labels per item, texts that say nothing |
| sensitivity | each constant of the default over a 50-fold range |

What must hold of each is in `verdicts`, and in docs/benchmarks.md.
In every row that trains, macro-F1, recall of the rarest label and log loss are no worse than `noisy`'s within noise.
A loss is significant where the paired t-test over seeds and the paired bootstrap over test items both say so.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import _default_measures as measures
from benchmarks._default_data import ChanceData, GoldApart, KeptApart, Noted, PanelData, read_panel
from benchmarks._default_knobs import KNOBS, STARTS, scaled
from benchmarks._default_measures import Measured, Table, Verdict
from realm import METHODS, RealmError
from realm.comparison.cells import Cell, CellData
from realm.comparison.grid import CellFinished, run_cells
from realm.comparison.results import Results
from realm.comparison.simulation import read_pool
from realm.lab.benchmark_cells import BenchmarkData
from realm.training.settings import PAPER

RATES = (0.01, 0.05, 0.1, 0.5, 1.0)
"""The rates of expertise of the paper's ablation, of which its setting gets the best on test."""
SHOWN = ("noisy", "majority", "dawid-skene", "mace", "soft-majority", "soft-dawid-skene", "soft-mace", "oracle")
"""The methods beside `realm`, as far as `METHODS` has them."""
POOLS = ("D1", "D2", "D3", "graded:5", "graded:10")
NOISES = {"sentpolarity": ("uniform",), "cebab/food": ("uniform", "asymmetric", "systematic-offset")}
"""With two options an error has one value: the three kinds of noise are the same annotations."""
SAME_K = {"sentpolarity": "piqa", "cebab/food": "pubmedqa"}
"""The paper's set with as many options, whose rank correlations of expertise are the bar."""
EQUALS = "0.8,0.8,0.8,0.8,0.8"
OPINION: dict[str, Any] = {"num_train_epochs": 40.0, "learning_rate": 1e-3, "method": "oracle"}
"""Of fine-tuning on the 24 gold items kept apart: one batch an epoch, so forty steps, enough to fit a new head."""
ONE_NUMBER = "one number"


MAX_LENGTH = 96
"""Tokens of an item that are read: of the comments of CivilComments, the longest texts, four in five are shorter."""


@dataclass(frozen=True)
class Arm:
    """What is trained in a configuration: a method and the settings it has beside those of all."""

    name: str
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    shared_tasks: bool = False


@dataclass(frozen=True)
class Configuration:
    """Data to train on, from which model, by which arms. `gold_data` is what an oracle trains on."""

    title: str
    model: str
    data: CellData
    gold_data: CellData
    arms: tuple[Arm, ...]

    def cells(self, arm: Arm, options: argparse.Namespace) -> list[Cell]:
        data = self.gold_data if METHODS[arm.method].needs_gold else self.data
        if options.tag and arm.method == "realm" and not arm.name.startswith(measures.PAPER):
            data = Noted(data, options.tag)
        settings = {**common_settings(options), **arm.settings}
        return [
            Cell(self.model, data, arm.method, seed, settings=settings, shared_tasks=arm.shared_tasks)
            for seed in range(options.seeds)
        ]


def common_settings(options: argparse.Namespace) -> dict[str, Any]:
    """The settings of every training, the same for all methods."""
    layers = options.train_layers
    return {
        "train_layers": int(layers) if layers.isdigit() else layers,
        "learning_rate": options.learning_rate,
        "num_train_epochs": float(options.epochs),
        "per_device_train_batch_size": options.batch_size,
        "gradient_accumulation_steps": 1,
        "max_length": MAX_LENGTH,
        "logging_steps": 100,
    }


def arms(options: argparse.Namespace, *, aggregated: bool = True, paper: bool = False) -> tuple[Arm, ...]:
    """`realm` and the methods beside it; without aggregation where every item has one annotation."""
    names = options.methods or ["realm", *(name for name in SHOWN if name in METHODS)]
    selected = [Arm(name, name) for name in names if aggregated or METHODS[name].aggregator is None]
    if paper and options.paper:
        selected += [
            Arm(f"{measures.PAPER} {rate:g}", "realm", {**PAPER, "expertise_learning_rate": rate}) for rate in RATES
        ]
    return tuple(selected)


# -------------------------------------------------------------------- the rows


def sentpolarity(options: argparse.Namespace) -> list[Configuration]:
    pools = {"contrast-20 of 100+": "contrast:20:100", "contrast-20 of 10+": "contrast:20:10", "all 203": "all"}
    make = partial(BenchmarkData, "sentpolarity", **sizes(options))
    return [
        Configuration(
            f"{title}, {regime}",
            options.model,
            make(pool=pool, regime=regime),
            make(pool=pool),
            arms(options, aggregated=regime == "shared"),
        )
        for title, pool in pools.items()
        for regime in ("sparse", "shared")
    ]


def civilcomments(options: argparse.Namespace) -> list[Configuration]:
    make = partial(
        PanelData, "civilcomments", options.data / "civilcomments_judges", items=options.items,
        test_items=options.test_items,
    )  # fmt: skip
    return [
        Configuration(
            f"{judges or 24} per item",
            options.model,
            make(judges=judges),
            make(),
            arms(options, aggregated=judges != 1),
        )
        for judges in (0, 3, 1)
    ]


def cebab(options: argparse.Namespace) -> list[Configuration]:
    make = partial(BenchmarkData, "cebab", **sizes(options))
    one_number = Arm(ONE_NUMBER, "realm", shared_tasks=True)
    data = make(pool="all", regime="shared")
    return [Configuration("four aspects, shared", options.model, data, make(pool="all"), (*arms(options), one_number))]


def simulated(options: argparse.Namespace) -> list[Configuration]:
    configurations = []
    for benchmark, noises in NOISES.items():
        model = with_opinion(options, benchmark)
        for pool in POOLS:
            for noise in noises:
                for regime in ("sparse", "shared"):
                    selected = arms(options, aggregated=regime == "shared", paper=True)
                    title = f"{benchmark}, {pool}, {noise}, {regime}"
                    configurations.append(_simulated(options, title, benchmark, model, noise, pool, regime, selected))
    return configurations


def equals(options: argparse.Namespace) -> list[Configuration]:
    return [
        _simulated(
            options, benchmark, benchmark, with_opinion(options, benchmark), "uniform", EQUALS, "shared", arms(options)
        )
        for benchmark in NOISES
    ]


def _simulated(
    options: argparse.Namespace, title: str, benchmark: str, model: str, noise: str, pool: str, regime: str,
    selected: tuple[Arm, ...],
) -> Configuration:  # fmt: skip
    gold = BenchmarkData(benchmark, **sizes(options))
    data = replace(gold, noise=noise, pool=pool, regime=regime)
    if regime == "shared":
        selected = tuple(_as_many_steps(arm, options, len(read_pool(pool))) for arm in selected)
    return Configuration(title, model, KeptApart(data, gold), KeptApart(gold, gold), selected)


def _as_many_steps(arm: Arm, options: argparse.Namespace, annotators: int) -> Arm:
    """The paper's batches are of annotations: its epochs are divided, so that every method takes as many steps."""
    if not arm.name.startswith(f"{measures.PAPER} "):
        return arm
    return replace(arm, settings={**arm.settings, "num_train_epochs": options.epochs / annotators})


def chance(options: argparse.Namespace) -> list[Configuration]:
    data = ChanceData()
    return [Configuration("600 items, ten labels each", options.model, data, data, arms(options))]


def sizes(options: argparse.Namespace) -> dict[str, Any]:
    return {"items": options.items, "test_items": options.test_items, "folder": options.data}


TRAINED: dict[str, Callable[[argparse.Namespace], list[Configuration]]] = {
    "sentpolarity": sentpolarity,
    "civilcomments": civilcomments,
    "cebab": cebab,
    "simulated": simulated,
    "equals": equals,
    "chance": chance,
}
ROWS = (*TRAINED, "dices", "sensitivity")


def verdicts(row: str, table: Table) -> list[Verdict]:
    """What must hold of a row."""
    if row == "chance":
        figures = {title: one["realm"].mean("spearman_trained") for title, one in table.items() if "realm" in one}
        return [measures.at_least("trained expertise follows agreement", figures, dict.fromkeys(table, 0.8))]
    found = [measures.quality_kept(table)]
    if row == "sentpolarity":
        sparse = [title for title in table if title.startswith("contrast") and title.endswith("sparse")]
        found += [measures.no_losses(table), measures.lead(table, "noisy", 2, sparse)]
    elif row == "civilcomments":
        aggregations = [name for name in SHOWN if name in METHODS and METHODS[name].aggregator]
        found += [measures.never_below(table, ["noisy", *aggregations])]
        found += [measures.lead(table, "noisy", 1, ["3 per item", "1 per item"], each=True)]
    elif row == "cebab":
        found += [measures.lead(table, ONE_NUMBER, 0), measures.no_losses(table)]
    elif row == "simulated":
        found += [measures.ahead_of_paper(table), measures.no_losses(table), _as_in_the_paper(table)]
    elif row == "equals":
        found += [measures.lead(table, rival, -0.5, each=True) for rival in ("noisy", "soft-majority")]
    return found


def _as_in_the_paper(table: Table) -> Verdict:
    """Trained expertise ranks the simulated annotators as well as in the paper's table, where K agrees."""
    from realm.lab import paper_figures

    printed = paper_figures("tab:learned_expertise")
    printed = printed[printed["quantity"] == "spearman"].set_index(["benchmark", "noise", "pool", "regime"])["mean"]
    bounds, figures = {}, {}
    for title, one in table.items():
        benchmark, pool, noise, regime = title.split(", ")
        key = (SAME_K[benchmark], noise, pool, regime)
        if key in printed.index and "realm" in one:
            bounds[title] = float(printed[key])
            figures[title] = one["realm"].mean("pool_spearman_trained")
    return measures.at_least("rank correlation of expertise at least the paper's", figures, bounds)


# -------------------------------------------------------------------- a model with an opinion


def with_opinion(options: argparse.Namespace, benchmark: str) -> str:
    """A model with an opinion on a benchmark: a language model as it is; of an encoder, one with a head fine-tuned on
    gold items that are kept apart from everything measured."""
    from transformers import AutoConfig

    from realm.models.store import resolve
    from realm.scorers.loading import scorer_kind

    if scorer_kind(AutoConfig.from_pretrained(resolve(options.model))) != "classifier":
        return str(options.model)
    some = "" if options.items is None else f"-{options.items}"  # of fewer items other ones are kept apart
    name = f"{Path(options.model).name}-{benchmark.replace('/', '-')}{some}-opinion"
    folder = options.work / "models" / name
    if not (folder / "config.json").is_file():
        if options.report:
            raise RealmError(f"{folder}: no model with an opinion yet. Run without --report.")
        _fine_tune(options, benchmark, folder)
    return str(folder)


def _fine_tune(options: argparse.Namespace, benchmark: str, folder: Path) -> None:
    from benchmarks._material import realm_trainer
    from realm.files import replacing_folder

    tables = GoldApart(BenchmarkData(benchmark, **sizes(options))).load("oracle", 0)
    settings = {**common_settings(options), **OPINION}
    trainer = realm_trainer(options.model, tables.annotations, str(options.work / "opinion"), tables.test, **settings)
    trainer.train()
    accuracy = trainer.evaluate()["eval_accuracy"]
    print(f"opinion on {benchmark}: right on {100 * accuracy:.1f}% of the test items", file=sys.stderr, flush=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with replacing_folder(folder) as partial_folder:
        trainer.save_model(str(partial_folder))


# -------------------------------------------------------------------- running and reading


def run_row(configurations: Sequence[Configuration], results: Results, options: argparse.Namespace) -> Table:
    """Train what is missing (unless only to report), and read what there is."""
    cells = [cell for one in configurations for arm in one.arms for cell in one.cells(arm, options)]
    if not options.report:
        failed = run_cells(list(dict.fromkeys(cells)), results, jobs=options.jobs, on_finished=_progress)
        for cell, error in failed.items():
            print(f"failed: {cell}: {error}", file=sys.stderr)
    return {
        one.title: {
            arm.name: measured for arm in one.arms if (measured := read(one.cells(arm, options), results)) is not None
        }
        for one in configurations
    }


def _progress(event: CellFinished) -> None:
    outcome = event.result
    figure = str(outcome) if isinstance(outcome, RealmError) else f"{100 * outcome.metrics['accuracy']:.1f}"
    seconds = 0.0 if isinstance(outcome, RealmError) else outcome.seconds
    left = f"{event.done} of {event.total}, {event.seconds_left / 60:.0f} min left"
    print(f"{event.cell}: {figure} ({seconds:.1f} s; {left})", file=sys.stderr, flush=True)


def read(cells: Sequence[Cell], results: Results) -> Measured | None:
    """The finished cells of an arm, one per seed; None where there is none."""
    missing = set(results.missing(cells))
    done = [cell for cell in cells if cell not in missing]
    if not done:
        return None
    metrics = [whole_metrics(results.metrics(cell.id)) for cell in done]
    names = dict.fromkeys(name for each in metrics for name in each)
    predictions = [results.predictions(cell.id) for cell in done]
    return Measured(
        {name: np.array([each.get(name, np.nan) for each in metrics], dtype=np.float64) for name in names},
        np.stack([labels for labels, _ in predictions]),
        predictions[0][1],
        np.stack([results.gold_log_probs(cell.id) for cell in done]).astype(np.float64),
    )


def whole_metrics(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The metrics over all tasks; one that is defined within a task alone is the mean over tasks."""
    whole: dict[str, float] = {}
    for name, value in metrics.items():
        if "/" in name:
            continue
        parts = [part for key, part in metrics.items() if key.startswith(f"{name}/") and part is not None]
        whole[name] = float(np.mean(parts)) if value is None and parts else np.nan if value is None else float(value)
    return whole


# -------------------------------------------------------------------- rows of another shape


def dices(options: argparse.Namespace) -> tuple[str, list[Verdict]]:
    """Aggregation of 123 raters against one expert: no model, no training."""
    from realm.crowd.aggregation import METHODS as AGGREGATIONS
    from realm.crowd.aggregation import aggregate

    table = read_panel(options.data / "dices350" / "panel.csv")
    shares = {
        method: float(np.mean([np.mean(aggregate(table, method, seed).labels == table.gold) for seed in range(3)]))
        for method in AGGREGATIONS
    }
    printed = measures.markdown(["method", "items right"], [[name, f"{share:.3f}"] for name, share in shares.items()])
    bound = {"mace": shares["majority"]}
    return printed, [measures.at_least("MACE not below the majority", shares, bound)]


def sensitivity(results: Results, options: argparse.Namespace) -> tuple[str, list[Verdict]]:
    """The default under other values of its constants, in this process: workers would not know of them."""
    options = argparse.Namespace(**{**vars(options), "methods": ["realm"], "jobs": 1})
    data = {one.title: one for one in sentpolarity(options) if one.title == "contrast-20 of 10+, sparse"}
    data |= {f"CivilComments, {one.title}": one for one in civilcomments(options) if one.title == "3 per item"}
    accuracies: dict[str, dict[float, float]] = {}
    for title, configuration in data.items():
        for knob in KNOBS:
            by_factor = accuracies.setdefault(f"{title}: {knob.name}", {})
            for factor in knob.factors:
                noted = Noted(configuration.data, f"{knob.name} x {factor:g}")
                one = configuration if factor == 1 else replace(configuration, data=noted)
                with scaled(knob, factor):
                    table = run_row([one], results, options)
                if "realm" in table[one.title]:
                    by_factor[factor] = table[one.title]["realm"].mean("accuracy")
        by_start = accuracies.setdefault(f"{title}: expertise_start", {})
        for start in STARTS:
            arm = Arm("realm", "realm", {"expertise_start": start} if start else {})
            table = run_row([replace(configuration, arms=(arm,))], results, options)
            if "realm" in table[configuration.title]:
                by_start[float(np.exp(start))] = table[configuration.title]["realm"].mean("accuracy")
    rows = [
        [name, ", ".join(f"x {factor:.2g}: {100 * value:.1f}" for factor, value in by.items())]
        for name, by in accuracies.items()
    ]
    return measures.markdown(["data and constant", "accuracy by factor"], rows), [measures.small_range(accuracies, 1)]


# -------------------------------------------------------------------- the program


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the data sets")
    parser.add_argument("--work", type=Path, default=Path("runs/default"), help="folder of results and opinions")
    parser.add_argument("--model", default="mpnet-base")
    parser.add_argument("--train-layers", default="head", help="head, or how many top layers train")
    parser.add_argument("--only", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, metavar="METHOD", help="in place of the usual ones")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=float, default=10)
    parser.add_argument("--learning-rate", type=float, default=1e-4, help="of the model, for every method")
    parser.add_argument("--batch-size", type=int, default=64, help="items (or, in the paper's setting, annotations)")
    parser.add_argument("--items", type=int, help="training items; by default all")
    parser.add_argument("--test-items", type=int, help="test items; by default all")
    parser.add_argument("--no-paper", dest="paper", action="store_false", help="leave the paper's setting out")
    parser.add_argument("--tag", default="", help="train the default anew under this name, after a change of its code")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at once")
    parser.add_argument("--differences", action="store_true", help="also print each difference with its tests")
    parser.add_argument("--report", action="store_true", help="train nothing: print what is there")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    options = arguments(words)
    gc.freeze()  # what is imported never goes; without this each training's collections walk over all of it
    failed = False
    with closing(Results.open(options.work / "results.sqlite", create=True)) as results:
        for row in options.only:
            print(f"\n### {row}\n", flush=True)
            if row == "dices":
                printed, found = dices(options)
            elif row == "sensitivity":
                printed, found = sensitivity(results, options)
            else:
                table = run_row(TRAINED[row](options), results, options)
                parts = [measures.accuracy_table(table), measures.quality_table(table)]
                parts += [measures.difference_table(table)] if options.differences else []
                printed, found = "\n\n".join(parts), verdicts(row, table)
            print(printed, "", *found, sep="\n", flush=True)
            failed |= any(verdict.holds is False for verdict in found)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
