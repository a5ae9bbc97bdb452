"""REALM against every other method, configuration by configuration: which is better, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from realm.comparison import LEVEL, Contrast, Wins, contrast, count_wins
from realm.lab.spec_results import SpecResults
from realm.lab.tables.layouts import head, shown
from realm.lab.tables.table import Column, Row, Table

FIRST = "realm"
BASELINE = "noisy"


@dataclass(frozen=True)
class Compared:
    """A contrast and the configuration it is of."""

    fields: Mapping[str, Any]
    contrast: Contrast


def configurations(of_spec: SpecResults) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """The configurations of REALM in the spec's order, with their cells of every method but the oracle."""
    names = list(of_spec.fields)
    seen = of_spec.frame[of_spec.frame["method"] == FIRST].drop_duplicates(names)
    for values in seen[names].itertuples(index=False):
        fields = {name: (None if _absent(value) else value) for name, value in zip(names, values, strict=True)}
        rows = of_spec.of(**{name: value for name, value in fields.items() if value is not None})
        yield fields, rows[rows["method"] != "oracle"]


def contrasts(of_spec: SpecResults, against: Sequence[str] | None = None) -> list[Compared]:
    """REALM against each method that its configuration has, or those of `against`; unfinished ones are left out."""
    made: list[Compared] = []
    if not of_spec.frame["finished"].any():
        return made
    for fields, rows in configurations(of_spec):
        methods = [name for name in dict.fromkeys(rows["method"]) if name != FIRST]
        for method in methods if against is None else [name for name in against if name in methods]:
            found = between(of_spec, rows, FIRST, method)
            if found is not None:
                made.append(Compared(fields, found))
    return made


def between(of_spec: SpecResults, rows: pd.DataFrame, first: str, second: str) -> Contrast | None:
    """Two methods of one configuration, paired by seed and by item; None where no seed has both."""
    if not rows["finished"].any():
        return None
    by_seed = [rows[rows["method"] == name].set_index("seed") for name in (first, second)]
    seeds = by_seed[0].index.intersection(by_seed[1].index)
    ours, theirs = (one.loc[seeds, "accuracy"].to_numpy(dtype=np.float64) for one in by_seed)
    both = ~np.isnan(ours) & ~np.isnan(theirs)
    if of_spec.results is None:
        return contrast((first, second), ours, theirs)
    right = [of_spec.results.correct(one.loc[seeds[both], "id"].tolist()) for one in by_seed]
    if right[0] is None or right[1] is None or right[0].shape != right[1].shape:
        return contrast((first, second), ours, theirs)
    return contrast((first, second), ours, theirs, (right[0], right[1]))


# -------------------------------------------------------------------- shown


def contrast_table(compared: Sequence[Compared]) -> Table:
    """Every comparison with its tests."""
    varying = [name for name in compared[0].fields if len({one.fields[name] for one in compared}) > 1]
    tests = ("against", "difference", "seeds", "signs", "p over seeds", "95% over items", "p over items")
    rows = []
    for one in compared:
        made = one.contrast
        interval = "" if made.low is None or made.high is None else f"{100 * made.low:+.1f} to {100 * made.high:+.1f}"
        cells = (
            shown(made.second), f"{100 * made.delta:+.2f}", str(made.seeds), made.signs, p_shown(made.p_seeds),
            interval, p_shown(made.p_items),
        )  # fmt: skip
        rows.append(Row(tuple(_said(one.fields[name]) for name in varying), cells))
    stub = tuple(head(name) for name in varying)
    return Table("REALM against the other methods", stub, tuple(Column("", test) for test in tests), tuple(rows))


def summary(compared: Sequence[Compared]) -> list[str]:
    """A sentence of counts for each method that REALM is compared with."""
    return [
        f"REALM against {shown(method)}: {wins_said(count_wins(made))}"
        for method in dict.fromkeys(one.contrast.second for one in compared)
        if (made := [one.contrast for one in compared if one.contrast.second == method])
    ]


def wins_said(wins: Wins) -> str:
    decided = wins.better + wins.worse
    return (
        f"ahead by mean in {wins.ahead} of {wins.configurations} configurations (behind in {wins.behind}); at p < "
        f"{LEVEL:g} over seeds better in {wins.better}, worse in {wins.worse}, undecided in {wins.undecided}; in "
        f"{wins.unanimous} of the {decided} decided ones the winner is ahead on every seed."
    )


def p_shown(p: float | None) -> str:
    if p is None:
        return "-"
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _said(value: Any) -> str:
    return "" if value is None else shown(value)


def _absent(value: Any) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value))
