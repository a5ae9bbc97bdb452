"""Runs what is missing of the lab's `-real` specs and rewrites docs/results.md from the results: `make reproduce`.

    python -m benchmarks.reproduce --data FOLDER            run what is missing, record it, redraw the page
    python -m benchmarks.reproduce --redraw                 redraw the page from what is recorded, train nothing

Finished cells are kept in `runs/lab/results.sqlite`, so the first form may be stopped and given again. What is recorded
lies in docs/results: every cell with its metrics and which test items it answered right. Figures on the page stand
between `<!-- begin: NAME -->` and `<!-- end: NAME -->`; nothing there is typed by hand. Last it prints whether each
thing that the default promises holds, and ends with exit code 1 where one does not.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks._evidence import (
    AGGREGATED,
    CONFIGURATION,
    NO_NOISE,
    OTHERS,
    Evidence,
    claims,
    is_significant,
    promises,
    real_specs,
)  # fmt: skip
from benchmarks._forest import ForestRow, forest
from realm.comparison.results import Results
from realm.comparison.significance import Contrast
from realm.files import write_text
from realm.lab import load_spec
from realm.lab.recorded import CELLS, RecordedResults, record
from realm.lab.spec import expand
from realm.lab.spec_results import SCALAR
from realm.lab.tables.table import display

ROOT = Path(__file__).parents[1]
PAGE, RECORDED, README = ROOT / "docs" / "results.md", ROOT / "docs" / "results", ROOT / "README.md"
RESULTS = Path("runs/lab/results.sqlite")
POOL_TITLES = {
    "contrast:20": "20 best and 20 worst annotators with 100+ labels",
    "contrast:20:10": "20 best and 20 worst annotators with 10+ labels",
    "all": "all annotators",
    "per-item:3": "three random judges per item",
    "0.8,0.8,0.8,0.8,0.8": "five annotators, each right 80%",
    "graded:5": "five annotators, right 90% to 10%",
    "graded:10": "ten annotators, right 90% to 10%",
    "one-reliable:5": "one reliable of five annotators",
    "one-reliable:10": "one reliable of ten annotators",
}
SHORT_POOL_TITLES = {
    "contrast:20": "20 best, 20 worst (100+)",
    "contrast:20:10": "20 best, 20 worst (10+)",
    "per-item:3": "3 judges per item",
    "0.8,0.8,0.8,0.8,0.8": "five at 80%",
}
"""The same for the rows of a picture, where there is less room."""
SHORT = (
    ("sentpolarity", "contrast:20:10", "sparse"), ("sentpolarity", "contrast:20:10", "shared"),
    ("civilcomments", "all", "shared"), ("civilcomments", "per-item:3", "shared"), ("cebab", "all", "shared"),
)  # fmt: skip
"""The rows of the README: a crowd with bad annotators, a panel of judges, and a crowd whose annotators are alike."""
REGIMES = {"sparse": "one label per item", "shared": "all labels"}


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with the data sets")
    parser.add_argument("--results", type=Path, default=RESULTS, help="SQLite file with the finished cells")
    parser.add_argument("--jobs", type=int, default=2, help="cells to run at once")
    parser.add_argument("--redraw", action="store_true", help="train nothing: redraw the page from what is recorded")
    parser.add_argument("--record", action="store_true", help="train nothing: record what is finished, and redraw")
    options = parser.parse_args(words)
    if not options.redraw:
        if not options.record:
            if options.data is None:
                parser.error("--data FOLDER: where the data sets are (or --redraw, to train nothing)")
            for name in real_specs():
                command = [sys.executable, "-m", "realm", "lab", "run", name, "--data", str(options.data)]
                subprocess.run([*command, "--results", str(options.results), "--jobs", str(options.jobs)], check=True)
        cells = [cell for name in real_specs() for cell in expand(load_spec(name))]
        files = record(Results.open(options.results), list(dict.fromkeys(cells)))
        for name, text in files.items():
            write_text(RECORDED / name, text)
        print(f"{len(files[CELLS].splitlines())} of {len(set(cells))} cells recorded in {RECORDED}", file=sys.stderr)
    evidence = Evidence(RecordedResults.open(RECORDED))
    for name, picture in pictures(evidence).items():
        write_text(RECORDED / name, picture)
    for page, content in pages(evidence).items():
        write_text(page, with_blocks(page.read_text(encoding="utf-8"), content))
        print(f"{page} rewritten", file=sys.stderr)
    found = promises(evidence)
    print(*found, sep="\n")
    return int(any(promise.holds is False for promise in found))


# -------------------------------------------------------------------- the page


def with_blocks(page: str, content: dict[str, str]) -> str:
    """The page with the text between each pair of markers replaced; a block that the page lacks is an error."""
    for name, text in content.items():
        pattern = re.compile(rf"(<!-- begin: {name} -->\n).*?(\n<!-- end: {name} -->)", re.DOTALL)
        page, count = pattern.subn(lambda match, text=text: f"{match[1]}\n{text.strip()}\n{match[2]}", page)  # type: ignore[misc]
        if count != 1:
            raise SystemExit(f"`<!-- begin: {name} -->` must stand on the page once, with its end.")
    return page


def pages(evidence: Evidence) -> dict[Path, dict[str, str]]:
    """The pages that hold figures, and of each every generated part by its name."""
    return {PAGE: blocks(evidence), README: {"evidence": short_answer(evidence)}}


def blocks(evidence: Evidence) -> dict[str, str]:
    """Every generated part of the page of results."""
    return {
        "answer": answer(evidence),
        "counts": counts(evidence),
        "claims": claims_table(evidence),
        "real": method_table(evidence, "real-real"),
        "quality": quality_table(evidence, "real-real"),
        "simulated": method_table(evidence, "noise-real"),
        "language-model": method_table(evidence, "llm-real"),
        "equals": method_table(evidence, "equals-real"),
        "tasks": method_table(evidence, "multitask-real"),
        "expertise": expertise_table(evidence),
        "cost": cost_table(evidence),
    }


def name_of(values: dict[str, Any]) -> str:
    """A configuration in words."""
    benchmark = display(values["benchmark"]).replace("+", " + ")
    pool = POOL_TITLES.get(str(values["pool"]), str(values["pool"]))
    noise = "" if values["noise"] == NO_NOISE else f"{values['noise']} noise, "
    return f"{benchmark}: {noise}{pool}, {REGIMES[str(values['regime'])]}"


def answer(evidence: Evidence) -> str:
    """The main table: real annotators, the default against plain fine-tuning and the best of all other methods."""
    rows = []
    for values, part in evidence.configurations(evidence.of("real-real")):
        against_noisy = evidence.contrast(part, "noisy")
        other = evidence.best_other(part)
        if against_noisy is None or other is None:
            continue
        gold = _oracle(evidence, values)
        rows.append(
            {
                "data and annotators": name_of(values),
                "`realm`": f"{evidence.accuracies(part, 'realm').mean():.1f}",
                "`noisy`": f"{evidence.accuracies(part, 'noisy').mean():.1f}",
                "best other method": f"{evidence.accuracies(part, other).mean():.1f} ({display(other)})",
                "trained on gold": "" if gold is None else f"{gold:.1f}",
                "lead over `noisy`": _lead(against_noisy),
                "lead over the best other": _lead(evidence.contrast(part, other)),
            }
        )
    return markdown(pd.DataFrame(rows))


def short_answer(evidence: Evidence) -> str:
    """The same for the README: the default, plain fine-tuning, and the best of training on aggregated labels."""
    rows = []
    for values, part in evidence.configurations(evidence.of("real-real")):
        if (values["benchmark"], values["pool"], values["regime"]) not in SHORT:
            continue
        other = evidence.best_other(part, AGGREGATED)
        gold = _oracle(evidence, values)
        rows.append(
            {
                "data and annotators": name_of(values),
                "`realm`": f"**{evidence.accuracies(part, 'realm').mean():.1f}%**",
                "plain fine-tuning": f"{evidence.accuracies(part, 'noisy').mean():.1f}%",
                "best aggregation": "-" if other is None else f"{evidence.accuracies(part, other).mean():.1f}%",
                "trained on the true labels": "" if gold is None else f"{gold:.1f}%",
            }
        )
    return markdown(pd.DataFrame(rows))


def counts(evidence: Evidence) -> str:
    """Means of the leads and how often the default is ahead."""
    real, simulated = evidence.of("real-real"), evidence.of("noise-real")
    lines = []
    for title, rows in (("Real annotators", real), ("Simulated annotators", simulated)):
        noisy = evidence.lead(rows)
        best = evidence.lead(rows, lambda part: evidence.best_other(part))
        aggregated = evidence.lead(
            rows[rows["regime"] == "shared"],
            lambda part: evidence.best_other(part, [name for name in OTHERS if "majority" in name or "skene" in name]),
        )
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
    n = evidence.counts
    total = n["ahead"] + n["behind"]
    lines.append(
        f"- All {total} configurations that were run: `realm` has a higher mean accuracy than `noisy` in {n['ahead']} "
        f"and a lower one in {n['behind']} (the paper: higher in 152 of 162); it is significantly ahead in "
        f"{n['better']} and significantly behind in {n['worse']}."
    )
    return "\n".join(lines)


def claims_table(evidence: Evidence) -> str:
    return markdown(
        pd.DataFrame(
            [
                {
                    "claim": one.text,
                    "the paper": one.paper,
                    "here": one.ours,
                    "seeds": one.seeds,
                    "p": one.p,
                    "verdict": one.verdict,
                }
                for one in claims(evidence)
            ]
        )
    )


def method_table(evidence: Evidence, spec: str) -> str:
    """Accuracy of every method in every configuration of a spec."""
    methods = ["realm", SCALAR, *OTHERS]
    rows = []
    several_models = evidence.of(spec)["model"].nunique() > 1
    for values, part in evidence.configurations(evidence.of(spec)):
        row: dict[str, str] = {"configuration": name_of(values)}
        if several_models:
            row["model"] = str(values["model"])
        means = {name: evidence.accuracies(part, name).mean() for name in methods if (part["method"] == name).any()}
        for name in methods:
            if name not in means:
                row[display(name)] = ""
                continue
            test = None if name == "realm" else evidence.contrast(part, name)
            star = "" if test is None or not is_significant(test) else "*" if test.delta > 0 else "!"
            row[display(name)] = f"{means[name]:.1f}{star}"
        gold = _oracle(evidence, values)
        row["trained on gold"] = "" if gold is None else f"{gold:.1f}"
        rows.append(row)
    frame = pd.DataFrame(rows)
    return markdown(frame[[name for name in frame.columns if (frame[name] != "").any()]]) if len(frame) else "Not run."


def quality_table(evidence: Evidence, spec: str) -> str:
    """Metrics beside accuracy: macro-F1, recall of the rarest label, log loss; the default and `noisy`."""
    rows = []
    for values, part in evidence.configurations(evidence.of(spec)):
        row = {"configuration": name_of(values)}
        for title, metric in (
            ("macro-F1", "macro_f1"), ("recall of the rarest label", "rarest_recall"), ("log loss", "log_loss"),
        ):  # fmt: skip
            pair = [part[part["method"] == name][metric].astype(float).mean() for name in ("realm", "noisy")]
            row[f"{title}: `realm` / `noisy`"] = " / ".join("-" if one != one else f"{one:.3f}" for one in pair)
        rows.append(row)
    return markdown(pd.DataFrame(rows))


def expertise_table(evidence: Evidence) -> str:
    """Rank correlation of expertise with the truth."""
    rows = []
    for spec in ("real-real", "noise-real", "annotators-real"):
        for values, part in evidence.configurations(evidence.of(spec)):
            learned = part[part["method"] == "realm"]
            prefix = "" if values["noise"] == NO_NOISE else "pool_"
            if values["noise"] not in (NO_NOISE, "uniform"):
                continue
            names = (f"{prefix}spearman_trained", f"{prefix}spearman", f"{prefix}spearman_max")
            trained, again, most = (learned[name].astype(float).mean() for name in names)
            if trained == trained:
                rows.append(
                    {
                        "configuration": name_of(values),
                        "trained expertise": f"{trained:.2f}",
                        "re-estimated expertise": f"{again:.2f}",
                        "highest possible, given ties": f"{most:.2f}",
                    }
                )
    return markdown(pd.DataFrame(rows).drop_duplicates("configuration"))


def cost_table(evidence: Evidence) -> str:
    """Trainings and their time, by spec; a training that several share is counted where it stands first."""
    rows = []
    for spec, part in evidence.once.groupby("spec", sort=False):
        seconds = part["seconds"].astype(float)
        rows.append(
            {
                "spec": f"`{spec}`",
                "trainings": f"{len(part):,}",
                "median seconds": f"{seconds.median():.0f}",
                "total hours": f"{seconds.sum() / 3600:.1f}",
            }
        )
    total = evidence.once["seconds"].astype(float)
    rows.append(
        {"spec": "all", "trainings": f"{len(total):,}", "median seconds": f"{total.median():.0f}",
         "total hours": f"{total.sum() / 3600:.1f}"}
    )  # fmt: skip
    return markdown(pd.DataFrame(rows))


def pictures(evidence: Evidence) -> dict[str, str]:
    """The leads of every configuration, real annotators on a scale of their own."""
    groups = {
        "leads-real.svg": {"Real annotators": "real-real"},
        "leads-simulated.svg": {
            "Simulated annotators": "noise-real", "Equally good annotators": "equals-real",
            "A language model": "llm-real",
        },
    }  # fmt: skip
    drawn = {}
    for name, specs in groups.items():
        rows: list[ForestRow] = []
        for title, spec in specs.items():
            group = list(_forest_rows(evidence, spec))
            rows += [ForestRow(title), *group] if group else []
        drawn[name] = forest("REALM's lead in test accuracy, with 95% intervals", rows)
    return drawn


def _forest_rows(evidence: Evidence, spec: str) -> Iterator[ForestRow]:
    for values, part in evidence.configurations(evidence.of(spec)):
        other = evidence.best_other(part)
        tests = [evidence.contrast(part, name) for name in ("noisy", other or "noisy")]
        leads = tuple(None if test is None or test.low is None else _interval(test) for test in tests)
        if any(leads):
            yield ForestRow(_short(values), leads)


def _interval(test: Contrast) -> tuple[float, float, float]:
    assert test.low is not None and test.high is not None
    return 100 * test.delta, 100 * test.low, 100 * test.high


def _short(values: dict[str, Any]) -> str:
    noise = "" if values["noise"] == NO_NOISE else f"{values['noise']} "
    titles = POOL_TITLES | SHORT_POOL_TITLES
    pool = titles.get(str(values["pool"]), str(values["pool"]))
    return f"{display(values['benchmark'])}: {noise}{pool}, {REGIMES[str(values['regime'])]}"


def _lead(test: Contrast | None) -> str:
    if test is None:
        return ""
    interval = "" if test.low is None or test.high is None else f" ({100 * test.low:+.1f} to {100 * test.high:+.1f})"
    return f"{100 * test.delta:+.1f}{interval}{'*' if is_significant(test) else ''}"


def _oracle(evidence: Evidence, values: dict[str, Any]) -> float | None:
    """Accuracy of training on gold with the same model and items."""
    from realm.lab.benchmark_cells import oracle_pool

    same = {name: values[name] for name in CONFIGURATION if name in ("model", "benchmark", "steps")}
    rows = evidence.of(None, method="oracle", **same)
    own = rows["pool"].notna()
    rows = rows[own & (rows["pool"] == oracle_pool(values["pool"]))] if values["noise"] == NO_NOISE else rows[~own]
    return None if not len(rows) else 100 * float(rows["accuracy"].astype(float).mean())


def markdown(frame: pd.DataFrame) -> str:
    """A table in Markdown."""
    lines = [f"| {' | '.join(frame.columns)} |", f"|{'---|' * len(frame.columns)}"]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in frame.itertuples(index=False))])


if __name__ == "__main__":
    sys.exit(main())
