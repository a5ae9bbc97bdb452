"""Several runs on one page: figures side by side, annotators and labels on which they differ, settings that differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from realm.crowd.evidence import Floats
from realm.crowd.tables import OptionNames
from realm.errors import RealmError
from realm.metrics import METRICS, Metric
from realm.report import annotator_charts, chart_data, charts, wording
from realm.report.escaping import clipped
from realm.report.html import Figure, fill, write_page
from realm.report.pseudonyms import pseudonymised
from realm.report.run_data import RunData, read_run
from realm.report.svg import Plot, compact, percent

NAME = "compare.html"
MOST_RUNS = 6
LISTED_PEOPLE, LISTED_ITEMS = 50, 100
DRAWN = 400
TEXT, LABEL = 420, 80
SECTIONS = [
    ("summary", "In short"), ("people", "Annotators"), ("labels", "Labels"), ("training", "Training"),
    ("settings", "Settings"), ("limits", "Limits"),
]  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """Two runs and what they have in common.

    | field | shape | meaning |
    |---|---|---|
    | cells, other_cells | (annotators in common,) | cells (annotator x task) of the first run and of the second |
    | items, other_items | (items in common,) | items of the first run and of the second |
    | labels, other_labels | (items in common,) | the names of the labels they give |
    """

    first: RunData
    second: RunData
    cells: npt.NDArray[np.int64]
    other_cells: npt.NDArray[np.int64]
    items: npt.NDArray[np.int64]
    other_items: npt.NDArray[np.int64]
    labels: npt.NDArray[np.object_]
    other_labels: npt.NDArray[np.object_]


def write_side_by_side(folders: Sequence[Path], *, output: Path | None = None, pseudonymise: bool = False) -> Path:
    """Write one page about two to six runs; compare.html here where no output is named."""
    if not 2 <= len(folders) <= MOST_RUNS:
        raise RealmError(f"name 2 to {MOST_RUNS} runs to set side by side, not {len(folders)}.")
    runs = [read_run(Path(folder)) for folder in folders]
    path = Path(output) if output is not None else Path(NAME)
    write_page(path, render(runs, pseudonymise=pseudonymise))
    return path


def render(runs: Sequence[RunData], *, pseudonymise: bool = False) -> str:
    """The page of several runs; all are held against the first."""
    runs = pseudonymised(runs) if pseudonymise else list(runs)
    names = _names(runs)
    pairs = [_pair(runs[0], other) for other in runs[1:]]
    context = {
        "names": names,
        "table": _figures(runs),
        "verdict_chart": annotator_charts.verdict_bars(
            [(name, chart_data.verdict_counts(run)[0]) for name, run in zip(names, runs, strict=True)]
        ),
        "several_tasks": any(run.several_tasks for run in runs),
        "scatters": [_scatter(pair, names[0], name) for pair, name in zip(pairs, names[1:], strict=True)],
        "people": _changed_people(pairs, names),
        "labels": [_agreement(pair, names[0], name) for pair, name in zip(pairs, names[1:], strict=True)],
        "items": _changed_items(runs[0], pairs),
        "curves": _curves(runs, names),
        "settings": _settings(runs),
        "limits": _limits(runs),
    }
    return fill("runs.html", f"{' · '.join(names)} · side by side", SECTIONS, context)


def _names(runs: Sequence[RunData]) -> list[str]:
    given = [run.name for run in runs]
    return [f"{name} ({place})" if given.count(name) > 1 else name for place, name in enumerate(given, start=1)]


def _figures(runs: Sequence[RunData]) -> list[tuple[str, list[str]]]:
    """What is set side by side: a name and a value for each run."""

    def test(metric: Metric, run: RunData) -> str:
        value = (run.metrics.get("test") or {}).get(metric.name)
        return "–" if value is None else format(value, metric.format)

    def reliable(run: RunData) -> str:
        counts, _ = chart_data.verdict_counts(run)
        return f"{counts[0]:,} of {sum(counts):,}"

    rows: list[tuple[str, Any]] = [
        ("Method", lambda run: run.method),
        ("Model", lambda run: str(run.config.get("model", "–"))),
        ("Seed", lambda run: str(run.config.get("settings", {}).get("seed", "–"))),
        ("Gold", lambda run: "used" if run.gold_used else "not read"),
        ("Probabilities", lambda run: run.probabilities),
        ("Items", lambda run: f"{run.annotations.n_items:,}"),
        ("Annotators", lambda run: f"{run.annotations.n_annotators:,}"),
        ("Annotations", lambda run: f"{run.annotations.n_annotations:,}"),
        ("Found reliable", reliable),
        (f"Labels {percent(wording.SURE)} sure or more", lambda run: percent((run.confidence >= wording.SURE).mean())),
        ("Labels against the majority", lambda run: f"{int(run.overruled.sum()):,}"),
        *((f"Test {metric.name_in_text}", partial(test, metric)) for metric in METRICS.values() if not metric.needs),
    ]
    return [(name, [say(run) for run in runs]) for name, say in rows]


# -------------------------------------------------------------------- what two runs have in common


def _pair(first: RunData, second: RunData) -> Pair:
    cells, other_cells = _common(_people(first), _people(second))
    items, other_items = _common(_items(first), _items(second))
    labels, other_labels = _labels(first, items), _labels(second, other_items)
    return Pair(first, second, cells, other_cells, items, other_items, labels, other_labels)


def _people(run: RunData) -> dict[tuple[str, str], int]:
    """(task, annotator) to cell, where there are annotations."""
    tasks, names = run.task_names, run.annotations.annotators
    found = {}
    for cell in run.ranked.tolist():
        person, task = divmod(cell, len(tasks))
        found[tasks[task], names[person]] = cell
    return found


def _items(run: RunData) -> dict[tuple[str, str], int]:
    """(task, id) to item."""
    tasks = run.task_names
    every = zip(run.annotations.item_tasks.tolist(), run.annotations.item_ids.to_pylist(), strict=True)
    return {(tasks[task], item): row for row, (task, item) in enumerate(every)}


def _common(
    first: dict[tuple[str, str], int], second: dict[tuple[str, str], int]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    shared = [key for key in first if key in second]
    return np.array([first[key] for key in shared], np.int64), np.array([second[key] for key in shared], np.int64)


def _labels(run: RunData, items: npt.NDArray[np.int64]) -> npt.NDArray[np.object_]:
    return OptionNames(run.annotations)(items, run.labels[items])


# -------------------------------------------------------------------- annotators


def _scatter(pair: Pair, first: str, second: str) -> Figure:
    """Accuracy in one run against accuracy in another: on the diagonal both say the same."""
    x, y = (_flat(run.estimate.accuracy, c) for run, c in ((pair.first, pair.cells), (pair.second, pair.other_cells)))
    kinds = _flat(pair.first.verdicts, pair.cells).astype(int)
    others = _flat(pair.second.verdicts, pair.other_cells).astype(int)
    changed = int((kinds != others).sum())
    mean = float(np.abs(x - y).mean()) if len(x) else 0.0
    said = (
        f"{wording.plural(len(x), 'annotator')} in common; accuracies differ by {percent(mean)} on average, "
        f"{wording.plural(changed, 'verdict')} differ{'s' * (changed == 1)}"
    )
    plot = Plot(500, 400, f"Accuracy in {first} and in {second}", said, x=(0, 1), y=(0, 1))
    plot.y_axis(f"accuracy in {second}", percent)
    plot.x_axis(f"accuracy in {first}", percent)
    plot.line(plot.x(0), plot.y(0), plot.x(1), plot.y(1), "guide")
    for i in np.unique(np.linspace(0, len(x) - 1, min(len(x), DRAWN)).round().astype(int)).tolist():
        name = _person(pair.first, int(pair.cells[i]))
        plot.mark(plot.x(x[i]), plot.y(y[i]), int(kinds[i]), 3.2, hint=f"{name}: {percent(x[i])} and {percent(y[i])}")
    return Figure(plot.markup("chart half"), f"{first} and {second}", said)


def _flat(values: npt.NDArray[Any], cells: npt.NDArray[np.int64]) -> Floats:
    return values.reshape(-1)[cells].astype(np.float64)


def _person(run: RunData, cell: int) -> str:
    person, task = divmod(cell, len(run.annotations.tasks))
    name = run.annotations.annotators[person]
    return f"{name}, {run.task_names[task]}" if run.several_tasks else name


def _judged(run: RunData, cells: npt.NDArray[np.int64]) -> list[Floats]:
    """Verdict, accuracy, low and high of these cells."""
    estimate = run.estimate
    return [_flat(values, cells) for values in (run.verdicts, estimate.accuracy, estimate.low, estimate.high)]


def _changed_people(pairs: Sequence[Pair], names: Sequence[str]) -> list[dict[str, Any]]:
    """Annotators whose verdict is not the same in two runs, those whose accuracy differs most first."""
    found = []
    for pair, name in zip(pairs, names[1:], strict=True):
        before, after = _judged(pair.first, pair.cells), _judged(pair.second, pair.other_cells)
        for i in np.flatnonzero(before[0] != after[0]).tolist():
            sides = [
                {
                    "kind": int(side[0][i]),
                    "accuracy": percent(side[1][i]),
                    "interval": f"{percent(side[2][i])[:-1]}–{percent(side[3][i])}",
                }
                for side in (before, after)
            ]
            who = clipped(_person(pair.first, int(pair.cells[i])), LABEL)
            found.append({"who": who, "run": name, "sides": sides, "gap": abs(before[1][i] - after[1][i])})
    return sorted(found, key=lambda row: -row["gap"])[:LISTED_PEOPLE]


# -------------------------------------------------------------------- labels


def _agreement(pair: Pair, first: str, second: str) -> str:
    same = pair.labels == pair.other_labels
    if not len(same):
        return f"{first} and {second} have no items in common."
    return (
        f"{first} and {second} give the same label to {percent(float(same.mean()))} of the "
        f"{wording.plural(len(same), 'item')} they have in common; {wording.plural(int((~same).sum()), 'item')} differ."
    )


def _changed_items(first: RunData, pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """Items that another run labels differently from the first, where both are surest first."""
    gaps: dict[int, float] = {}
    for pair in pairs:
        differs = np.flatnonzero(pair.labels != pair.other_labels)
        sure = np.minimum(first.confidence[pair.items], pair.second.confidence[pair.other_items])
        for item, gap in zip(pair.items[differs].tolist(), sure[differs].tolist(), strict=True):
            gaps[item] = max(gaps.get(item, 0.0), gap)
    chosen = sorted(gaps, key=lambda item: (-gaps[item], item))[:LISTED_ITEMS]
    own = _labels(first, np.array(chosen, np.int64))
    said = {item: [_said(label, first.confidence[item])] for item, label in zip(chosen, own, strict=True)}
    for pair in pairs:
        place = {item: index for index, item in enumerate(pair.items.tolist())}
        for item, so_far in said.items():
            at = place.get(item)
            confidence = None if at is None else pair.second.confidence[pair.other_items[at]]
            so_far.append("–" if at is None else _said(pair.other_labels[at], confidence))
    texts, ids = first.annotations.texts, first.annotations.item_ids
    return [
        {"text": clipped(texts[item].as_py() or "", TEXT), "id": clipped(ids[item].as_py(), LABEL), "said": said[item]}
        for item in chosen
    ]


def _said(label: str, confidence: Any) -> str:
    return f"{clipped(label, LABEL)} ({percent(confidence)})"


# -------------------------------------------------------------------- training and settings


def _curves(runs: Sequence[RunData], names: Sequence[str]) -> list[Figure]:
    made = []
    for figure, title, label in (
        ("loss", "Training loss", "loss per annotation"),
        ("eval_accuracy", "Accuracy on the test items", "accuracy"),
    ):
        series = [chart_data.history(run.metrics, figure, name) for run, name in zip(runs, names, strict=True)]
        if any(len(one.x) > 1 for one in series):
            shown = percent if figure == "eval_accuracy" else compact
            picture: Markup = charts.line_chart(title, series, "training step", label, shown)
            made.append(Figure(picture, title))
    return made


def _settings(runs: Sequence[RunData]) -> list[tuple[str, list[str]]]:
    """Settings that are not the same in all runs."""
    every = [
        {"model": run.config.get("model"), "data": run.config.get("data", {}).get("fingerprint"),
         **run.config.get("settings", {})}
        for run in runs
    ]  # fmt: skip
    keys = list(dict.fromkeys(key for settings in every for key in settings))
    rows = [(key, [str(settings.get(key, "–")) for settings in every]) for key in keys]
    return [(key, values) for key, values in rows if len(set(values)) > 1]


def _limits(runs: Sequence[RunData]) -> list[wording.Limit]:
    found = [
        wording.Limit(
            "One run each",
            "A difference between two runs may be chance: another seed moves figures too. `realm compare` trains each "
            "method with several seeds and tests the differences.",
        )
    ]
    known: dict[str, wording.Limit] = {limit.title: limit for run in runs for limit in wording.limits(run)}
    return found + list(known.values())
