"""The page of `realm compare`: every method's accuracy over seeds, the differences with intervals, and their limits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from realm.errors import RealmError
from realm.files import read_json
from realm.metrics import METRICS
from realm.report import wording
from realm.report.annotator_charts import Row, interval_rows
from realm.report.html import NAME, Figure, fill, write_page
from realm.report.svg import compact

if TYPE_CHECKING:
    import pandas as pd

RESULTS, CELLS = "results.json", "results.csv"
SECTIONS = [("summary", "In short"), ("differences", "Differences"), ("figures", "All figures"), ("limits", "Limits")]
FIGURES = {name: (metric.name_in_text, metric.format) for name, metric in METRICS.items()} | {
    "expertise_spearman": ("expertise, rank correlation", ".2f"),
    "expertise_trained_spearman": ("as trained, rank correlation", ".2f"),
}


def holds_comparison(folder: Path) -> bool:
    """Whether a folder is the output of `realm compare`."""
    return (folder / RESULTS).is_file() and (folder / CELLS).is_file()


def comparison_page(folder: Path, *, output: Path | None = None) -> Path:
    """Write the page of a finished comparison; FOLDER/report.html where no output is named."""
    import pandas as pd

    folder = Path(folder)
    if not holds_comparison(folder):
        raise RealmError(
            f"{folder} holds no {RESULTS} and {CELLS}: it is not the folder of a finished `realm compare`."
        )
    summary = read_json(folder / RESULTS)
    cells = pd.read_csv(folder / CELLS)
    if not summary.get("methods") or not {"method", "seed", "accuracy"} <= set(cells.columns):
        raise RealmError(f"{folder / RESULTS} and {CELLS} are not what `realm compare` writes; run it again.")
    path = Path(output) if output is not None else folder / NAME
    write_page(path, render(folder.resolve().name, summary, cells))
    return path


def render(name: str, summary: dict[str, Any], cells: pd.DataFrame) -> str:
    """The page of a comparison: `summary` as results.json has it, `cells` a row per method and seed."""
    methods = summary["methods"]
    context = {
        "name": name,
        "regime": summary.get("regime", "shared"),
        "seeds": int(summary.get("seeds", 1)),
        "sentences": _sentences(summary),
        "means": _means(methods, cells),
        "differences": _differences(methods),
        "tests": _tests(methods),
        "expertise": _expertise(cells),
        "columns": [label for key, (label, _) in FIGURES.items() if key in cells.columns],
        "rows": _rows(methods, cells),
        "limits": _limits(summary),
    }
    return fill("comparison.html", f"{name} · methods compared", SECTIONS, context)


def _values(cells: pd.DataFrame, method: str, figure: str) -> list[float]:
    column = cells[cells["method"] == method][figure].to_numpy(np.float64)
    return [float(value) for value in column[np.isfinite(column)]]


def _means(methods: Sequence[dict[str, Any]], cells: pd.DataFrame) -> Figure:
    """Mean accuracy with one standard deviation over seeds; a dot for every seed."""
    rows = []
    for entry in sorted(methods, key=lambda entry: -entry["mean"]):
        mean, spread = float(entry["mean"]), float(entry["std"])
        dots = _values(cells, entry["method"], "accuracy")
        said = f"{100 * mean:.1f}%" + (f" ± {100 * spread:.1f}" if len(dots) > 1 else "")
        kind = 0 if entry["method"] == "realm" else 1
        rows.append(Row(entry["method"], mean, mean - spread, mean + spread, said, kind, dots))
    ends = [value for row in rows for value in (row.low, row.high, *row.dots)]
    room = max(0.06 * (max(ends) - min(ends)), 0.005)
    domain = (max(min(ends) - room, 0.0), min(max(ends) + room, 1.0))
    described = "; ".join(f"{row.name} {row.note}" for row in rows)
    picture = interval_rows("Accuracy on the test items by method", described, rows, domain=domain, shown=_finer)
    return Figure(
        picture, "Accuracy on the test items", "mean over seeds, bar: one standard deviation, dots: each seed"
    )


def _differences(methods: Sequence[dict[str, Any]]) -> Figure | None:
    rows = []
    for entry in methods:
        if (interval := entry.get("interval_items")) is None:
            continue
        low, high = (float(value) for value in interval)
        gap = float(entry["realm_minus_this"])
        said = f"{100 * gap:+.1f}  ({100 * low:+.1f} to {100 * high:+.1f})"
        rows.append(Row(f"realm − {entry['method']}", gap, low, high, said, 1 if low <= 0 <= high else 0))
    if not rows:
        return None
    ends = [0.0, *(value for row in rows for value in (row.low, row.high))]
    room = max(0.06 * (max(ends) - min(ends)), 0.005)
    domain = (min(ends) - room, max(ends) + room)
    described = "; ".join(f"{row.name}: {row.note} points" for row in rows)
    title = "realm minus each other method"
    guides = [(0.0, "no difference")]
    picture = interval_rows(title, described, rows, domain=domain, guides=guides, shown=_points)
    return Figure(picture, title, "points of accuracy, 95% interval over test items; hollow: the interval holds zero")


def _finer(share: float) -> str:
    return f"{100 * share:.1f}%"


def _points(gap: float) -> str:
    """A difference in points of accuracy."""
    return "0" if abs(gap) < 1e-9 else f"{100 * gap:+.3g}"


def _tests(methods: Sequence[dict[str, Any]]) -> list[tuple[str, str, str]]:
    def shown(value: float | None) -> str:
        return "–" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"

    return [
        (entry["method"], shown(entry.get("p_seeds")), shown(entry.get("p_items")))
        for entry in methods
        if "realm_minus_this" in entry
    ]


def _expertise(cells: pd.DataFrame) -> Figure | None:
    """How well learned expertise ranks the annotators, where it was measured."""
    if "expertise_spearman" not in cells.columns:
        return None
    rows = []
    for method in dict.fromkeys(cells["method"]):
        if dots := _values(cells, method, "expertise_spearman"):
            mean, spread = float(np.mean(dots)), float(np.std(dots))
            rows.append(Row(method, mean, mean - spread, mean + spread, f"{mean:.2f}", 0, dots))
    if not rows:
        return None
    low = min(0.0, *(min(row.dots) for row in rows))
    described = "; ".join(f"{row.name} {row.note}" for row in rows)
    title = "Rank correlation of learned expertise with agreement with gold"
    picture = interval_rows(title, described, rows, domain=(low, 1.0), shown=compact)
    return Figure(picture, title, "1: annotators are ranked as gold would rank them")


def _rows(methods: Sequence[dict[str, Any]], cells: pd.DataFrame) -> list[tuple[str, list[str]]]:
    made = []
    for entry in methods:
        said = []
        for figure, (_, shown) in FIGURES.items():
            if figure in cells.columns:
                values = _values(cells, entry["method"], figure)
                said.append(format(float(np.mean(values)), shown) if values else "–")
        made.append((entry["method"], said))
    return made


def _sentences(summary: dict[str, Any]) -> list[str]:
    methods = summary["methods"]
    best = max(methods, key=lambda entry: entry["mean"])
    seeds = wording.plural(int(summary.get("seeds", 1)), "seed")
    told = [
        f"{wording.plural(len(methods), 'method')} trained on the same annotations with {seeds} each, scored on the "
        f"same test items; the highest mean accuracy is {best['method']}'s, {100 * best['mean']:.1f}%."
    ]
    for entry in methods:
        if (interval := entry.get("interval_items")) is None:
            continue
        gap, (low, high) = 100 * entry["realm_minus_this"], interval
        sure = "the interval excludes zero" if low > 0 or high < 0 else "the interval holds zero: it may be chance"
        where = "above" if gap > 0 else "below" if gap < 0 else "level with"
        told.append(f"realm is {abs(gap):.1f} points {where} {entry['method']}; {sure}.")
    return told


def _limits(summary: dict[str, Any]) -> list[wording.Limit]:
    found = [
        wording.Limit(
            "Two kinds of chance",
            "p over seeds asks whether training again would show the same; p and interval over items ask whether other "
            "test items would. A difference worth acting on survives both.",
        ),
        wording.Limit(
            "One table, one model",
            "Methods are ranked for these annotators, this model and these settings. Others can rank them otherwise.",
        ),
    ]
    if int(summary.get("seeds", 1)) < 3:
        found.append(
            wording.Limit("Few seeds", "With fewer than three seeds the spread over seeds says next to nothing.")
        )
    if any(entry["method"] == "oracle" for entry in summary["methods"]):
        found.append(
            wording.Limit(
                "oracle", "The oracle is trained on gold labels. It shows what could be reached, not what competes."
            )
        )
    if summary.get("gold") == "used in training":
        found.append(
            wording.Limit(
                "Gold was used",
                "Every method was told the gold of some training items. Items of the test are not among them, and how "
                "well annotators are ranked is not shown: it was learned from that gold.",
            )
        )
    found.append(
        wording.Limit(
            "Settings", "Rates were chosen, if at all, by the likelihood of held-out annotations; never by gold."
        )
    )
    return found
