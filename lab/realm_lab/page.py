"""Rewrites docs/results.md from finished cells: every figure between `<!-- begin: NAME -->` and `<!-- end: NAME -->`.

What is recorded lies in docs/results: every cell with its metrics and which test items it answered right.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from realm import RealmError
from realm.comparison.results import Results
from realm_lab.evidence import AGGREGATED, NO_NOISE, ORACLE, OTHERS, REAL, Evidence, Rows, claims, promises
from realm_lab.plots import ForestRow, forest, save
from realm_lab.recorded import CELLS, Recorded, record
from realm_lab.results import configurations, display
from realm_lab.specs import expand, load_spec
from realm_lab.tables import markdown

ROOT = Path(__file__).parents[2]
PAGE, RECORDED, README = ROOT / "docs" / "results.md", ROOT / "docs" / "results", ROOT / "README.md"
WORDS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("page.yaml").read_text(encoding="utf-8"))
Cells = Callable[[dict[str, Any], Rows], dict[str, str] | None]
"""The columns of a configuration in a table, from its values and its rows; None for a configuration to leave out."""


def record_results(folder: Path) -> None:
    """Record what is finished of the real specs in docs/results."""
    cells = list({cell.id: cell for name in REAL for cell in expand(load_spec(name))}.values())
    files = record(Results(folder), cells)
    for name, text in files.items():
        (RECORDED / name).write_text(text, encoding="utf-8")
    print(f"{len(files[CELLS].splitlines())} of {len(cells)} cells recorded in {RECORDED}", file=sys.stderr)


def redraw() -> int:
    """Rewrite the pages from what is recorded and print whether each promise of the default holds; 1 if one does not.

    Cells that were recorded under other settings than there are now are refused: their figures are of another method.
    """
    store = Recorded(RECORDED)
    evidence = Evidence(store)
    if store.stale:
        cell, settings = next(iter(store.stale.items()))
        raise RealmError(
            f"{RECORDED}: {len(store.stale)} cells were made by other settings, such as {cell} ({', '.join(settings)} "
            "changed since). Train them again: make reproduce."
        )
    for name, rows in pictures(evidence).items():
        title = "REALM's lead in test accuracy, with 95% intervals"
        save(forest(title, rows), RECORDED / name, "; ".join(map(str, rows)))
    for page, content in pages(evidence).items():
        page.write_text(with_blocks(page.read_text(encoding="utf-8"), content), encoding="utf-8")
        print(f"{page} rewritten", file=sys.stderr)
    found = promises(evidence)
    print(*found, sep="\n")
    return int(any(promise.holds is False for promise in found))


def with_blocks(page: str, content: dict[str, str]) -> str:
    """The page with the text between each pair of markers replaced; a block that the page lacks is an error."""
    for name, text in content.items():
        before, begin, rest = page.partition(f"<!-- begin: {name} -->\n")
        _, end, after = rest.partition(f"\n<!-- end: {name} -->")
        if not begin or not end or begin in after:
            raise RealmError(f"`<!-- begin: {name} -->` must stand on the page once, with its end.")
        page = f"{before}{begin}\n{text.strip()}\n{end}{after}"
    return page


def pages(evidence: Evidence) -> dict[Path, dict[str, str]]:
    """The pages that hold figures, and of each every generated part by its name."""
    parts = {
        "answer": _table(evidence, ["real-real"], _answer(evidence), "data and annotators"),
        "counts": counts(evidence),
        "claims": markdown(pd.DataFrame(claims(evidence))),
        "quality": _table(evidence, ["real-real"], _quality),
        "expertise": _table(evidence, ["real-real", "noise-real", "annotators-real"], _expertise),
        "cost": cost(evidence),
        **{name: _table(evidence, [spec], _methods(evidence, spec)) for name, spec in WORDS["methods"].items()},
    }
    short = _table(evidence, ["real-real"], _short_answer(evidence), "data and annotators")
    return {PAGE: parts, README: {"evidence": short}}


def _table(evidence: Evidence, specs: list[str], cells: Cells, head: str = "configuration") -> str:
    """A row for each configuration of some specs, each once; columns in which no row has anything are left out."""
    rows: dict[str, dict[str, str]] = {}
    for values, part in (each for spec in specs for each in configurations(evidence.of(spec))):
        if (row := cells(values, part)) is not None:
            rows.setdefault(_name_of(values) + str(values["model"]), {head: _name_of(values), **row})
    frame = pd.DataFrame(list(rows.values()))
    return markdown(frame[[name for name in frame.columns if (frame[name] != "").any()]]) if len(frame) else "Not run."


def _name_of(values: dict[str, Any], short: bool = False) -> str:
    """A configuration in words."""
    benchmark, pool = display(values["benchmark"]).replace("+", " + "), str(values["pool"])
    pool = {**WORDS["pools"], **(WORDS["short_pools"] if short else {})}.get(pool, pool)
    noise = "" if values["noise"] == NO_NOISE else f"{values['noise']} {'' if short else 'noise, '}"
    return f"{benchmark}: {noise}{pool}, {WORDS['regimes'][values['regime']]}"


def _percent(value: float | None, form: str = "{:.1f}", nothing: str = "") -> str:
    return nothing if value is None else form.format(value)


def _answer(evidence: Evidence) -> Cells:
    """The main table: the default against plain fine-tuning and the best of all other methods."""

    def cells(values: dict[str, Any], part: Rows) -> dict[str, str] | None:
        against_noisy, other = evidence.contrast(part, "noisy"), evidence.best_other(part)
        if against_noisy is None or other is None:
            return None
        return {
            "`realm`": _percent(evidence.mean(part, "realm")),
            "`noisy`": _percent(evidence.mean(part, "noisy")),
            "best other method": f"{_percent(evidence.mean(part, other))} ({display(other)})",
            "trained on gold": _percent(evidence.mean(part, ORACLE)),
            "lead over `noisy`": str(against_noisy),
            "lead over the best other": str(evidence.contrast(part, other)),
        }

    return cells


def _short_answer(evidence: Evidence) -> Cells:
    """The same for the README: the default, plain fine-tuning, and the best of training on aggregated labels."""

    def cells(values: dict[str, Any], part: Rows) -> dict[str, str] | None:
        if [values["benchmark"], values["pool"], values["regime"]] not in WORDS["readme"]:
            return None
        other = evidence.best_other(part, AGGREGATED)
        return {
            "`realm`": _percent(evidence.mean(part, "realm"), "**{:.1f}%**"),
            "plain fine-tuning": _percent(evidence.mean(part, "noisy"), "{:.1f}%"),
            "best aggregation": _percent(None if other is None else evidence.mean(part, other), "{:.1f}%", "-"),
            "trained on the true labels": _percent(evidence.mean(part, ORACLE), "{:.1f}%"),
        }

    return cells


def _methods(evidence: Evidence, spec: str) -> Cells:
    """Accuracy of every method."""
    several_models = evidence.of(spec)["model"].nunique() > 1

    def cells(values: dict[str, Any], part: Rows) -> dict[str, str]:
        row = {"model": str(values["model"])} if several_models else {}
        for name in ("realm", "realm-scalar", *OTHERS):
            test = None if name == "realm" else evidence.contrast(part, name)
            star = "" if test is None or not test.surely else "*" if test.delta > 0 else "!"
            row[display(name)] = _percent(evidence.mean(part, name), "{:.1f}" + star)
        return {**row, "trained on gold": _percent(evidence.mean(part, ORACLE))}

    return cells


def _quality(values: dict[str, Any], part: Rows) -> dict[str, str]:
    """Metrics beside accuracy: the default and `noisy`."""
    metrics = {"macro-F1": "macro_f1", "recall of the rarest label": "rarest_recall", "log loss": "log_loss"}
    means = part[list(metrics.values())].astype(float).groupby(part["method"]).mean()
    pairs = {title: means[metric].reindex(["realm", "noisy"]) for title, metric in metrics.items()}
    return {
        f"{title}: `realm` / `noisy`": " / ".join("-" if one != one else f"{one:.3f}" for one in pair)
        for title, pair in pairs.items()
    }


def _expertise(values: dict[str, Any], part: Rows) -> dict[str, str] | None:
    """Rank correlation of expertise with the truth, of real annotators and under uniform noise."""
    columns = {"trained expertise": "spearman_trained", "re-estimated expertise": "spearman",
               "highest possible, given ties": "spearman_max"}  # fmt: skip
    prefix = "" if values["noise"] == NO_NOISE else "pool_"
    learned = part[part["method"] == "realm"]
    means = {title: learned[prefix + name].astype(float).mean() for title, name in columns.items()}
    if values["noise"] not in (NO_NOISE, "uniform") or means["trained expertise"] != means["trained expertise"]:
        return None
    return {title: f"{mean:.2f}" for title, mean in means.items()}


def counts(evidence: Evidence) -> str:
    """Means of the leads and how often the default is ahead."""
    votes = [name for name in OTHERS if "majority" in name or "skene" in name]
    lines = []
    for title, spec in (("Real annotators", "real-real"), ("Simulated annotators", "noise-real")):
        rows = evidence.of(spec)
        noisy, best = evidence.lead(rows), evidence.lead(rows, OTHERS)
        aggregated = evidence.lead(rows[rows["regime"] == "shared"], votes)
        if noisy is None or best is None:
            continue
        leads = [
            f"{noisy} over `noisy`",
            f"{best} over the best other method without gold, chosen in each configuration by its test accuracy",
        ]
        if aggregated is not None:
            leads.append(f"{aggregated} over the best of majority vote and Dawid-Skene where all labels are kept")
        size = f"{noisy.configurations} configurations, {noisy.seeds} seeds"
        lines.append(f"- {title} ({size}), mean lead in points: {'; '.join(leads)}.")
    found = [evidence.contrast(part, "noisy") for _, part in configurations(evidence.once)]
    tests = [test for test in found if test is not None]
    ahead, behind = (sum(sign * test.delta > 0 for test in tests) for sign in (1, -1))
    better, worse = (sum(sign * test.delta > 0 and test.surely for test in tests) for sign in (1, -1))
    lines.append(
        f"- All {ahead + behind} configurations that were run: `realm` has a higher mean accuracy than `noisy` in "
        f"{ahead} and a lower one in {behind} (the paper: higher in 152 of 162); it is significantly ahead in {better} "
        f"and significantly behind in {worse}."
    )
    return "\n".join(lines)


def cost(evidence: Evidence) -> str:
    """Trainings and their time, by spec; a training that several share is counted where it stands first."""
    cells = evidence.once.drop_duplicates("id")
    parts = [*((f"`{spec}`", part) for spec, part in cells.groupby("spec", sort=False)), ("all", cells)]
    seconds = {name: part["seconds"].astype(float) for name, part in parts}
    rows = [(name, f"{len(s):,}", f"{s.median():.0f}", f"{s.sum() / 3600:.1f}") for name, s in seconds.items()]
    return markdown(pd.DataFrame(rows, columns=["spec", "trainings", "median seconds", "total hours"]))


def pictures(evidence: Evidence) -> dict[str, list[ForestRow]]:
    """The leads of every configuration, over `noisy` and over the best other method, by picture."""
    drawn: dict[str, list[ForestRow]] = {}
    for name, specs in WORDS["pictures"].items():
        drawn[name] = []
        for title, spec in specs.items():
            group = [ForestRow(title)]
            for values, part in configurations(evidence.of(spec)):
                tests = [evidence.contrast(part, other) for other in ("noisy", evidence.best_other(part) or "noisy")]
                leads = tuple(
                    None if test is None or test.low is None or test.high is None
                    else (100 * test.delta, 100 * test.low, 100 * test.high)
                    for test in tests
                )  # fmt: skip
                if any(leads):
                    group.append(ForestRow(_name_of(values, short=True), leads))
            drawn[name] += group if len(group) > 1 else []
    return drawn
