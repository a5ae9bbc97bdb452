"""REALM against every other method, configuration by configuration: which is better, how sure that is, how often."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from realm.comparison.significance import LEVEL, Contrast, Summary, Wins, contrast, count_wins
from realm.lab.benchmark_cells import JOINED
from realm.lab.paper import PaperTable
from realm.lab.spec_results import SpecResults, is_absent
from realm.lab.tables.table import Entry, Row, Table, display, heading, plain_columns

BASELINE = "noisy"
COUNT_LAYOUTS = ("significance", "wins")
"""Tables of counts by the name a spec gives as `table`."""
EVEN = ("goemotions",)
"""Real annotators of even quality, whom the paper leaves out of its counts."""
COUNTS_BY_MODEL = "app:significance"
"""Where the paper gives its counts by model size and over all."""


@dataclass(frozen=True)
class ConfigurationContrast:
    """A contrast and the configuration it is of."""

    fields: Mapping[str, Any]
    contrast: Contrast


def configurations(spec_results: SpecResults) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """The configurations of REALM in the spec's order, with their cells of every method but the oracle."""
    names = list(spec_results.fields)
    distinct = spec_results.frame[spec_results.frame["method"] == "realm"].drop_duplicates(names)
    for values in distinct[names].itertuples(index=False):
        fields = {name: (None if is_absent(value) else value) for name, value in zip(names, values, strict=True)}
        rows = spec_results.rows(**{name: value for name, value in fields.items() if value is not None})
        yield fields, rows[rows["method"] != "oracle"]


def contrasts(spec_results: SpecResults, against: Sequence[str] | None = None) -> list[ConfigurationContrast]:
    """REALM against each method that its configuration has, or those of `against`; unfinished ones are left out."""
    if not spec_results.frame["finished"].any():
        return []
    return [
        ConfigurationContrast(fields, result)
        for fields, rows in configurations(spec_results)
        for method in (dict.fromkeys(rows["method"]) if against is None else against)
        if method != "realm" and (result := compare_methods(spec_results, rows, "realm", method)) is not None
    ]


def compare_methods(spec_results: SpecResults, rows: pd.DataFrame, first: str, second: str) -> Contrast | None:
    """Two methods of one configuration, paired by seed and by item; None where no seed has both."""
    by_seed = [rows[rows["method"] == name].set_index("seed") for name in (first, second)]
    seeds = by_seed[0].index.intersection(by_seed[1].index)
    by_seed = [one.loc[seeds] for one in by_seed]
    accuracies = [one["accuracy"].to_numpy(dtype=np.float64) for one in by_seed]
    both = np.logical_and(*(~np.isnan(values) for values in accuracies))
    if not both.any():
        return None
    correct = None
    if spec_results.results is not None:
        answers = [spec_results.results.correct(one["id"].to_numpy()[both].tolist()) for one in by_seed]
        if answers[0] is not None and answers[1] is not None and answers[0].shape == answers[1].shape:
            correct = (answers[0], answers[1])
    return contrast((first, second), accuracies[0], accuracies[1], correct)


# -------------------------------------------------------------------- every contrast


def contrast_table(comparisons: Sequence[ConfigurationContrast]) -> Table:
    """Every comparison with its tests."""
    varying = [name for name in comparisons[0].fields if len({one.fields[name] for one in comparisons}) > 1]
    rows = []
    for one in comparisons:
        test = one.contrast
        interval = "" if test.low is None or test.high is None else f"{100 * test.low:+.1f} to {100 * test.high:+.1f}"
        entries = (
            display(test.second), f"{100 * test.delta:+.2f}", str(test.seeds), test.signs, p_value(test.p_seeds),
            interval, p_value(test.p_items),
        )  # fmt: skip
        rows.append(Row(tuple(display(one.fields[name]) for name in varying), entries))
    columns = ("against", "difference", "seeds", "signs", "p over seeds", "95% over items", "p over items")
    stub = tuple(heading(name) for name in varying)
    return Table("REALM against the other methods", stub, plain_columns(*columns), tuple(rows))


def summaries(comparisons: Sequence[ConfigurationContrast]) -> list[str]:
    """A sentence of counts for each method that REALM is compared with."""
    by_method: dict[str, list[Contrast]] = {}
    for one in comparisons:
        by_method.setdefault(one.contrast.second, []).append(one.contrast)
    return [f"REALM against {display(name)}: {describe_wins(count_wins(tests))}" for name, tests in by_method.items()]


def describe_wins(wins: Wins) -> str:
    return (
        f"ahead by mean in {wins.ahead} of {wins.configurations} configurations (behind in {wins.behind}); at p < "
        f"{LEVEL:g} over seeds better in {wins.better}, worse in {wins.worse}, undecided in {wins.undecided}; in "
        f"{wins.unanimous} of the {wins.better + wins.worse} decided ones the winner is ahead on every seed."
    )


def p_value(p: float | None) -> str:
    return "-" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


# -------------------------------------------------------------------- counts


def count_table(spec_results: SpecResults, name: str, paper: PaperTable) -> Table:
    """A table of counts by its name. Only configurations with finished cells of both methods are counted."""
    comparisons = contrasts(spec_results, [BASELINE])
    make = _significance_table if name == "significance" else _wins_table
    table = make(spec_results.spec.title, comparisons, paper)
    total = sum(1 for _ in configurations(spec_results))
    notes = [*table.notes, describe_wins(count_wins(one.contrast for one in comparisons))]
    if len(comparisons) < total:
        notes.append(f"{total - len(comparisons)} of the {total} configurations have no finished pair yet.")
    return replace(table, notes=notes)


def _significance_table(title: str, comparisons: Sequence[ConfigurationContrast], paper: PaperTable) -> Table:
    """Outcomes of the paired t-test over seeds, by benchmark and by model."""
    by_model = PaperTable(COUNTS_BY_MODEL if len(paper) else None)

    def row(labels: tuple[str, str], wins: Wins, source: PaperTable, average: bool = False, **fields: Any) -> Row:
        figures = {
            "configurations-per-model" if "model" in fields else "configurations": wins.configurations,
            "significant-wins": wins.better,
            "not-significant": wins.undecided,
            "significant-losses": wins.worse,
        }
        return Row(labels, tuple(_count(n, name, source, **fields) for name, n in figures.items()), average)

    rows = []
    for field, label, source in (("benchmark", "Dataset", paper), ("model", "Model", by_model)):
        for value in dict.fromkeys(one.fields[field] for one in comparisons):
            wins = count_wins(one.contrast for one in comparisons if one.fields[field] == value)
            rows.append(row((label, display(value)), wins, source, **{field: value}))
    every = count_wins(one.contrast for one in comparisons)
    rows.append(row(("All", ""), every, paper, average=True, benchmark="all"))
    decided = every.better + every.worse
    note = f"In {every.unanimous} of the {decided} significant configurations the winner is ahead on every seed."
    printed = [by_model.figure("realm", name) for name in ("ahead-on-every-seed", "significant")]
    if printed[0] is not None and printed[1] is not None:
        note += f" In the paper: {printed[0][0]:.0f} of {printed[1][0]:.0f}."
    columns = plain_columns("configurations", "REALM better", "no sig. diff.", "Noisy better")
    return Table(title, ("", ""), columns, tuple(rows), [note])


def _wins_table(title: str, comparisons: Sequence[ConfigurationContrast], paper: PaperTable) -> Table:
    """Outright wins by mean accuracy, over single-task and multi-task configurations."""
    groups = {
        "single task": [one for one in comparisons if JOINED not in one.fields["benchmark"]],
        "several tasks": [one for one in comparisons if JOINED in one.fields["benchmark"]],
    }
    for one in comparisons:
        groups.setdefault(f"{one.fields['noise']} noise", []).append(one)
    groups["All"] = list(comparisons)
    deltas = {"single task": "single-task-average-delta", "All": "average-delta"}
    rows = []
    for name, group in groups.items():
        if not group:
            continue
        wins = count_wins(one.contrast for one in group)
        mean = 100 * sum(one.contrast.delta for one in group) / len(group)
        printed = paper.figure("realm", deltas[name]) if name in deltas else None
        entries: tuple[Entry | str | None, ...] = (
            _count(wins.configurations, "configurations", paper) if name == "All" else str(wins.configurations),
            _count(wins.ahead, "wins", paper) if name == "All" else str(wins.ahead),
            str(wins.behind),
            _figure({"quantity": "delta", "group": name}, mean, printed),
        )
        rows.append(Row((name,), entries, average=name == "All"))
    behind = [
        " ".join(display(one.fields[name]) for name in ("benchmark", "model", "noise", "pool") if one.fields[name])
        for one in comparisons
        if one.contrast.delta < 0
    ]
    notes = [f"Behind in: {', '.join(behind)}."] if behind else []
    columns = plain_columns("configurations", "ahead", "behind", "mean difference")
    return Table(title, ("Configurations",), columns, tuple(rows), notes)


def real_annotators_table(main: Table, paper: PaperTable) -> Table | None:
    """How often and by how much REALM is ahead of the best baseline in a table of real annotators."""
    deltas = [e for e in main.entries if e.key["quantity"] == "delta" and e.key["benchmark"] not in EVEN]
    if not deltas:
        return None
    gains = [entry.summary.mean for entry in deltas if entry.summary is not None]
    figures = {
        "real-average-delta": sum(gains) / len(gains) if gains else None,
        "real-best-delta": max(gains, default=None),
    }
    entries: tuple[Entry | str | None, ...] = (
        str(len(gains)),
        _count(sum(gain > 0 for gain in gains), "real-wins", paper),
        *(_figure({"quantity": name}, value, paper.figure("realm", name)) for name, value in figures.items()),
    )
    columns = plain_columns("finished", "ahead", "mean difference", "greatest difference")
    notes = ["GoEmotions is not counted, as in the paper: its raters are of even quality."]
    row = Row((str(len(deltas)),), entries)
    return Table("REALM against the best baseline", ("Configurations",), columns, (row,), notes)


def _count(n: int, quantity: str, paper: PaperTable, **fields: Any) -> Entry:
    printed = paper.figure("realm", quantity, **fields)
    return Entry({**fields, "quantity": quantity}, Summary(n, np.nan, 1), 1, printed, digits=0)


def _figure(key: dict[str, Any], value: float | None, printed: tuple[float, float | None] | None) -> Entry:
    """A difference in points, to one decimal as the paper prints it."""
    summary = None if value is None else Summary(value, np.nan, 1)
    return Entry(key, summary, 1, printed, digits=1, signed=True)
