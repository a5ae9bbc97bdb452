"""Several runs on one page: figures side by side, annotators and labels on which they differ, settings that differ."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from realm.crowd.engine import Floats
from realm.crowd.tables import OptionNames
from realm.display import counted
from realm.errors import RealmError
from realm.metrics import METRICS, Metric
from realm.report import annotator_charts, chart_data, charts, limits, wording
from realm.report.escaping import clipped
from realm.report.html import Figure, fill, write_page
from realm.report.item_lists import item_rows
from realm.report.pseudonyms import pseudonymised
from realm.report.run_data import RunData, read_run
from realm.report.svg import Plot, compact, percent, percent_range

NAME = "compare.html"
MOST_RUNS = 6
"""As many as a chart has colours and a table has room for."""
LISTED_ANNOTATORS, LISTED_ITEMS = 50, 100
"""Most annotators and items of the lists of differences: what a person reads through."""
DRAWN = 400
"""Most marks of a scatter plot: more cover each other."""
TEXT, LABEL = 420, 80
"""Most characters of a text (five lines or so), and of a name or label."""
SECTIONS = [
    ("summary", "In short"), ("people", "Annotators"), ("labels", "Labels"), ("training", "Training"),
    ("settings", "Settings"), ("limits", "Limits"),
]  # fmt: skip
Indices = npt.NDArray[np.int64]


class Common(NamedTuple):
    """What one run has in common with another, as this run sees it.

    | field | shape | meaning |
    |---|---|---|
    | pairs | (pairs in common,) | annotator * tasks + task |
    | verdict, accuracy, low, high | (pairs in common,) | the estimates of the pairs |
    | items | (items in common,) | rows of the run's table |
    | labels, confidence | (items in common,) | the names of the most probable labels, and their probability |
    """

    pairs: Indices
    verdict: npt.NDArray[np.integer]
    accuracy: Floats
    low: Floats
    high: Floats
    items: Indices
    labels: npt.NDArray[np.object_]
    confidence: Floats


def write_side_by_side(folders: Sequence[Path], *, output: Path | None = None, pseudonymise: bool = False) -> Path:
    """Write one page about two to six runs; compare.html here where no output is named."""
    if not 2 <= len(folders) <= MOST_RUNS:
        raise RealmError(f"name 2 to {MOST_RUNS} runs to set side by side, not {len(folders)}.")
    runs = [read_run(Path(folder)) for folder in folders]
    path = Path(output) if output is not None else Path(NAME)
    write_page(path, render(runs, pseudonymise=pseudonymise))
    return path


def render(runs: Sequence[RunData], *, pseudonymise: bool = False) -> str:
    """The page of several runs; all are compared with the first."""
    runs = pseudonymised(runs) if pseudonymise else list(runs)
    names = _names(runs)
    first, *others = names
    common = [_common(runs[0], other) for other in runs[1:]]
    context = {
        "names": names,
        "table": _figures(runs),
        "verdict_chart": annotator_charts.verdict_bars(
            [(name, chart_data.verdict_counts(run)[0]) for name, run in zip(names, runs, strict=True)]
        ),
        "several_tasks": any(run.several_tasks for run in runs),
        "scatters": [_scatter(runs[0], *both, first, name) for both, name in zip(common, others, strict=True)],
        "people": _changed_verdicts(runs[0], common, others),
        "agreement": [_agreement(*both, first, name) for both, name in zip(common, others, strict=True)],
        "items": _changed_labels(runs[0], common),
        "curves": _curves(runs, names),
        "settings": _settings(runs),
        "limits": _limits(runs),
    }
    return fill("runs.html", f"{' · '.join(names)} · side by side", SECTIONS, context)


def _names(runs: Sequence[RunData]) -> list[str]:
    names = [run.name for run in runs]
    return [f"{name} ({place})" if names.count(name) > 1 else name for place, name in enumerate(names, start=1)]


def _figures(runs: Sequence[RunData]) -> list[tuple[str, list[str]]]:
    """The first table: a name and a value for each run."""

    def test(metric: Metric, run: RunData) -> str:
        value = (run.metrics.get("test") or {}).get(metric.name)
        return "–" if value is None else format(value, metric.format)

    def reliable(run: RunData) -> str:
        counts, _ = chart_data.verdict_counts(run)
        return f"{counts[0]:,} of {sum(counts):,}"

    rows: list[tuple[str, Any]] = [
        ("Method", lambda run: run.method),
        ("Model", lambda run: str(run.config.get("model", "–"))),
        ("Seed", lambda run: str(run.settings.get("seed", "–"))),
        ("Gold", lambda run: "used" if run.gold_used else "not read"),
        ("Probabilities", lambda run: run.probabilities),
        ("Items", lambda run: f"{run.annotations.n_items:,}"),
        ("Annotators", lambda run: f"{run.annotations.n_annotators:,}"),
        ("Annotations", lambda run: f"{run.annotations.n_annotations:,}"),
        ("Found reliable", reliable),
        (
            f"Labels with a confidence of {percent(wording.SURE)} or more",
            lambda run: percent((run.confidence >= wording.SURE).mean()),
        ),
        ("Labels against the majority", lambda run: f"{int(run.overruled.sum()):,}"),
        *((f"Test {metric.name_in_text}", partial(test, metric)) for metric in METRICS.values() if not metric.needs),
    ]
    return [(name, [value_of(run) for run in runs]) for name, value_of in rows]


# -------------------------------------------------------------------- what two runs have in common


def _common(first: RunData, second: RunData) -> tuple[Common, Common]:
    """The annotators of a task, and the items, that are in both runs, in the order of the first."""
    pairs = _shared(_pair_keys(first), _pair_keys(second))
    items = _shared(item_rows(first), item_rows(second))
    return _seen_by(first, pairs[0], items[0]), _seen_by(second, pairs[1], items[1])


def _pair_keys(run: RunData) -> dict[tuple[str, str], int]:
    """(task, annotator) to pair, where there are annotations."""
    tasks, names = run.task_names, run.annotations.annotators
    return {(tasks[pair % len(tasks)], names[pair // len(tasks)]): pair for pair in run.ranked.tolist()}


def _shared(first: dict[tuple[str, str], int], second: dict[tuple[str, str], int]) -> tuple[Indices, Indices]:
    keys = [key for key in first if key in second]
    return np.array([first[key] for key in keys], np.int64), np.array([second[key] for key in keys], np.int64)


def _seen_by(run: RunData, pairs: Indices, items: Indices) -> Common:
    estimate = run.estimate
    accuracy, low, high = (values.reshape(-1)[pairs] for values in (estimate.accuracy, estimate.low, estimate.high))
    labels = OptionNames(run.annotations)(items, run.labels[items])
    return Common(pairs, run.verdicts.reshape(-1)[pairs], accuracy, low, high, items, labels, run.confidence[items])


# -------------------------------------------------------------------- annotators


def _scatter(run: RunData, one: Common, other: Common, first: str, second: str) -> Figure:
    """Accuracy in one run against accuracy in another: on the diagonal both say the same."""
    x, y = one.accuracy, other.accuracy
    changed = int((one.verdict != other.verdict).sum())
    mean = float(np.abs(x - y).mean()) if len(x) else 0.0
    note = (
        f"{counted(len(x), 'annotator')} in common; accuracies differ by {percent(mean)} on average, "
        f"{counted(changed, 'verdict')} differ{'s' * (changed == 1)}"
    )
    plot = Plot(500, 400, f"Accuracy in {first} and in {second}", note, x=(0, 1), y=(0, 1))
    plot.y_axis(f"accuracy in {second}", percent)
    plot.x_axis(f"accuracy in {first}", percent)
    plot.line(plot.x(0), plot.y(0), plot.x(1), plot.y(1), "guide")
    for i in np.unique(np.linspace(0, len(x) - 1, min(len(x), DRAWN)).round().astype(int)).tolist():
        hint = f"{run.pair_name(int(one.pairs[i]))}: {percent(x[i])} and {percent(y[i])}"
        plot.mark(plot.x(x[i]), plot.y(y[i]), int(one.verdict[i]), 3.2, hint=hint)
    return Figure(plot.markup("chart half"), f"{first} and {second}", note)


def _changed_verdicts(
    run: RunData, common: Sequence[tuple[Common, Common]], names: Sequence[str]
) -> list[dict[str, Any]]:
    """Annotators whose verdict is not the same in two runs, those whose accuracy differs most first."""
    rows = []
    for (one, other), name in zip(common, names, strict=True):
        for i in np.flatnonzero(one.verdict != other.verdict).tolist():
            sides = [
                {
                    "kind": int(side.verdict[i]),
                    "accuracy": percent(side.accuracy[i]),
                    "interval": percent_range(side.low[i], side.high[i]),
                }
                for side in (one, other)
            ]
            who = clipped(run.pair_name(int(one.pairs[i])), LABEL)
            rows.append({"who": who, "run": name, "sides": sides, "gap": abs(one.accuracy[i] - other.accuracy[i])})
    return sorted(rows, key=lambda row: -row["gap"])[:LISTED_ANNOTATORS]


# -------------------------------------------------------------------- labels


def _agreement(one: Common, other: Common, first: str, second: str) -> str:
    same = one.labels == other.labels
    if not len(same):
        return f"{first} and {second} have no items in common."
    return (
        f"{first} and {second} give the same label to {percent(float(same.mean()))} of the "
        f"{counted(len(same), 'item')} they have in common; {counted(int((~same).sum()), 'item')} differ."
    )


def _changed_labels(run: RunData, common: Sequence[tuple[Common, Common]]) -> list[dict[str, Any]]:
    """Items that another run labels differently from the first, where both are surest first."""
    certainty: dict[int, float] = {}
    for one, other in common:
        both = np.minimum(one.confidence, other.confidence)
        for i in np.flatnonzero(one.labels != other.labels).tolist():
            item = int(one.items[i])
            certainty[item] = max(certainty.get(item, 0.0), float(both[i]))
    items = sorted(certainty, key=lambda item: (-certainty[item], item))[:LISTED_ITEMS]
    names = OptionNames(run.annotations)(np.array(items, np.int64), run.labels[items])
    columns = [[_label(name, run.confidence[item]) for item, name in zip(items, names, strict=True)]]
    for one, other in common:
        place = {item: index for index, item in enumerate(one.items.tolist())}
        places = [place.get(item) for item in items]
        columns.append(["–" if i is None else _label(other.labels[i], other.confidence[i]) for i in places])
    texts, ids = run.annotations.texts, run.annotations.item_ids
    return [
        {"text": clipped(texts[item].as_py() or "", TEXT), "id": clipped(ids[item].as_py(), LABEL), "labels": labels}
        for item, labels in zip(items, zip(*columns, strict=True), strict=True)
    ]


def _label(name: str, confidence: float) -> str:
    return f"{clipped(name, LABEL)} ({percent(confidence)})"


# -------------------------------------------------------------------- training and settings


def _curves(runs: Sequence[RunData], names: Sequence[str]) -> list[Figure]:
    figures = []
    for figure, title, label, label_of in (
        ("loss", "Training loss", "loss per annotation", compact),
        ("eval_accuracy", "Accuracy on the test items", "accuracy", percent),
    ):
        series = [chart_data.history(run.metrics, figure, name) for run, name in zip(runs, names, strict=True)]
        if any(len(one.x) > 1 for one in series):
            figures.append(Figure(charts.line_chart(title, series, "training step", label, label_of), title))
    return figures


def _settings(runs: Sequence[RunData]) -> list[tuple[str, list[str]]]:
    """Settings that are not the same in all runs."""
    settings = [
        {"model": run.config.get("model"), "data": run.config.get("data", {}).get("fingerprint"), **run.settings}
        for run in runs
    ]
    names = dict.fromkeys(name for each in settings for name in each)
    rows = [(name, [str(each.get(name, "–")) for each in settings]) for name in names]
    return [(name, values) for name, values in rows if len(set(values)) > 1]


def _limits(runs: Sequence[RunData]) -> list[wording.Remark]:
    one_each = wording.Remark(
        "One run each",
        "A difference between two runs may be chance: another seed moves figures too. `realm compare` trains each "
        "method with several seeds and tests the differences.",
    )
    by_title = {remark.title: remark for run in runs for remark in limits.limits(run)}
    return [one_each, *by_title.values()]
