"""REALM against the other methods, configuration by configuration: which is better, how sure that is, how often."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from realm.comparison.significance import LEVEL
from realm_lab.cells import JOINED
from realm_lab.results import ORACLE, Contrast, SpecResults, compare_methods, configurations, display
from realm_lab.tables import Figure, Table, heading

EVEN = ("goemotions",)
"""Real annotators of even quality, whom the paper leaves out of its counts."""
Tests = list[tuple[dict[str, Any], Contrast]]
"""A configuration, and REALM against another method in it."""


def contrasts(results: SpecResults) -> Tests:
    """REALM against each other method of its configuration but the oracle, as far as both are finished."""
    finished = results.frame[results.frame["finished"]]
    return [
        (fields, test)
        for fields, rows in configurations(finished, results.fields)
        for method in dict.fromkeys(rows["method"])
        if method not in ("realm", ORACLE) and (test := compare_methods(results.store, rows, method)) is not None
    ]


def contrast_table(tests: Tests) -> Table:
    """Every comparison with its tests."""
    varying = [name for name in tests[0][0] if len({fields[name] for fields, _ in tests}) > 1]
    figures: list[Figure] = []
    for fields, test in tests:
        interval = "" if test.low is None or test.high is None else f"{100 * test.low:+.1f} to {100 * test.high:+.1f}"
        row = (*(display(fields[name]) for name in varying), display(test.second))
        texts = {"difference": f"{100 * test.delta:+.2f}", "seeds ahead": f"{test.ahead} of {test.seeds}"}
        texts |= {
            "p over seeds": p_value(test.p_seeds),
            "95% over items": interval,
            "p over items": p_value(test.p_items),
        }
        figures += [{"row": row, "column": ("", name), "text": text} for name, text in texts.items()]
    return Table("REALM against the other methods", (*map(heading, varying), "Against"), figures)


def p_value(p: float | None) -> str:
    return "-" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def count_wins(tests: Iterable[Contrast]) -> dict[str, int]:
    """How often REALM is ahead by mean over seeds, and significantly so, in the words of `paper_figures`."""
    tests = list(tests)
    significant = [test for test in tests if test.significant]
    better = sum(test.delta > 0 for test in significant)
    return {
        "configurations": len(tests),
        "wins": sum(test.delta > 0 for test in tests),
        "losses": sum(test.delta < 0 for test in tests),
        "significant-wins": better,
        "significant-losses": len(significant) - better,
        "not-significant": len(tests) - len(significant),
        "significant": len(significant),
        "ahead-on-every-seed": sum(max(test.ahead, test.behind) == test.seeds for test in significant),
    }


def remarks(tests: Tests) -> list[str]:
    """A sentence of counts for each method that REALM is compared with."""
    by_method: dict[str, list[Contrast]] = {}
    for _, test in tests:
        by_method.setdefault(test.second, []).append(test)
    return [f"REALM against {display(method)}: {_described(of)}" for method, of in by_method.items()]


def _described(tests: list[Contrast]) -> str:
    n = count_wins(tests)
    return (
        f"ahead by mean in {n['wins']} of {n['configurations']} configurations (behind in {n['losses']}); at p < "
        f"{LEVEL:g} over seeds better in {n['significant-wins']}, worse in {n['significant-losses']}, undecided in "
        f"{n['not-significant']}; in {n['ahead-on-every-seed']} of the {n['significant']} decided ones the winner is "
        "ahead on every seed."
    )


def _count(row: tuple[str, ...], column: str, value: float, quantity: str, **more: Any) -> Figure:
    found = {"mean": float(value), "seeds": 1, "of_seeds": 1, "digits": 0, "method": "realm", "quantity": quantity}
    return {"row": row, "column": ("", column), **found, **more}


def significance_tables(results: SpecResults, tests: Tests) -> list[Table]:
    """Outcomes of the paired t-test over seeds against `noisy`, by benchmark and by model."""
    columns = {"configurations": "configurations", "REALM better": "significant-wins",
               "no sig. diff.": "not-significant", "Noisy better": "significant-losses"}  # fmt: skip
    groups: list[tuple[tuple[str, str], dict[str, Any]]] = []
    for name in ("benchmark", "model"):
        groups += [((heading(name), display(v)), {name: v}) for v in dict.fromkeys(results.frame[name])]
    figures: list[Figure] = []
    for row, where in [*groups, (("All", ""), {})]:
        n = count_wins(test for fields, test in tests if where.items() <= fields.items())
        for column, quantity in columns.items():
            known_as = "configurations-per-model" if quantity == "configurations" and "model" in where else quantity
            value = n[quantity] if tests else np.nan
            figures.append(_count(row, column, value, known_as, **(where or {"benchmark": "all"})))
    n = count_wins(test for _, test in tests)
    decided = [_count(("",), name.replace("-", " "), n[name], name) for name in ("significant", "ahead-on-every-seed")]
    return [
        Table(results.spec.title, ("", ""), figures),
        Table("Significant configurations in which the winner is ahead on every seed", ("",), decided),
    ]


def wins_tables(results: SpecResults, tests: Tests) -> list[Table]:
    """Outright wins by mean accuracy, over single-task and multi-task configurations."""
    groups: dict[str, list[Contrast]] = {}
    for fields, test in tests:
        for name in ("several tasks" if JOINED in fields["benchmark"] else "single task", f"{fields['noise']} noise"):
            groups.setdefault(name, []).append(test)
    means = {"single task": "single-task-average-delta", "All": "average-delta"}
    figures: list[Figure] = []
    for name, group in {**groups, "All": [test for _, test in tests]}.items():
        n, mean = count_wins(group), 100 * float(np.mean([test.delta for test in group])) if group else np.nan
        for column, quantity in (("configurations", "configurations"), ("ahead", "wins"), ("behind", "losses")):
            figures.append(_count((name,), column, n[quantity], quantity if name == "All" else f"{quantity}, {name}"))
        more = {"digits": 1, "signed": True}
        figures.append(_count((name,), "mean difference", mean, means.get(name, f"delta, {name}"), **more))
    behind = [" ".join(display(f[n]) for n in ("benchmark", "model", "noise", "pool")) for f, t in tests if t.delta < 0]
    notes = [f"Behind in: {', '.join(behind)}."] if behind else []
    return [Table(results.spec.title, ("Configurations",), figures, notes)]


def real_table(main: Table) -> Table:
    """How often and by how much REALM is ahead of the best baseline in a table of real annotators."""
    leads = [f for f in main.figures if f.get("quantity") == "delta" and f["benchmark"] not in EVEN]
    gains = [figure["mean"] for figure in leads if figure["mean"] == figure["mean"]]
    row, more = (f"{len(gains)} of {len(leads)} finished",), {"digits": 1, "signed": True}
    figures = [
        _count(row, "ahead", sum(gain > 0 for gain in gains) if gains else np.nan, "real-wins"),
        _count(row, "mean difference", float(np.mean(gains)) if gains else np.nan, "real-average-delta", **more),
        _count(row, "greatest difference", max(gains, default=np.nan), "real-best-delta", **more),
    ]
    notes = ["GoEmotions is not counted, as in the paper: its raters are of even quality."]
    return Table("REALM against the best baseline", ("Configurations",), figures, notes)
