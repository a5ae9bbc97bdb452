"""What the `-real` specs measured, as one table of cells; what the default promises and the paper's claims judged by
it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import yaml
from scipy.stats import t as student_t

from realm.comparison.significance import LEVEL, paired_t_test
from realm_lab.results import CONFIGURATION, Contrast, Store, compare_methods, configurations, load_results
from realm_lab.specs import load_spec, packaged_specs

ORACLE = "oracle"
AGGREGATED = ("majority", "soft-majority", "dawid-skene", "soft-dawid-skene", "soft-mace")
OTHERS = ("noisy", *AGGREGATED, "crowd-layer", "raykar", "realm-paper")
"""Everything without gold beside the default."""
NO_NOISE = "own"
"""The noise of annotators that are not simulated."""
REAL = [name for name in packaged_specs() if name.endswith("-real")]
"""The specs that are run at real budgets."""
Rows = pd.DataFrame


@dataclass(frozen=True)
class Lead:
    """A mean difference of accuracy in points over configurations, with the 95% interval and the p-value of a t-test
    over seeds, each seed the mean over configurations."""

    mean: float
    low: float
    high: float
    p: float
    seeds: int
    configurations: int

    @classmethod
    def of(cls, by_configuration: Sequence[pd.Series[float]]) -> Lead | None:
        """Of the differences by seed of each configuration, in points, on the seeds that all have; None without any."""
        gaps = pd.concat(by_configuration, axis=1).dropna().mean(axis=1).to_numpy() if by_configuration else np.zeros(0)
        if not (n := len(gaps)):
            return None
        p, mean = paired_t_test(gaps, np.zeros(n)), float(gaps.mean())
        half = float(student_t.ppf(0.975, n - 1) * gaps.std(ddof=1) / n**0.5) if n > 1 else np.nan
        return cls(mean, mean - half, mean + half, np.nan if p is None else p, n, len(by_configuration))

    def __str__(self) -> str:
        return f"{self.mean:+.1f} ({self.low:+.1f} to {self.high:+.1f})"


class Evidence:
    """Every finished cell of the real specs. `cells` has a row per spec, configuration, method and seed."""

    def __init__(self, store: Store, names: Sequence[str] = tuple(REAL)) -> None:
        self.store = store
        self._contrasts: dict[tuple[str, ...], Contrast | None] = {}
        frames = [load_results(load_spec(name), store).assign(spec=name) for name in names]
        cells = pd.concat([frame[frame["accuracy"].notna()] for frame in frames], ignore_index=True)
        self.cells = cells.assign(noise=cells["noise"].fillna(NO_NOISE))
        # cells that several specs share are there once
        self.once = self.cells.drop_duplicates(["id", *CONFIGURATION])

    def of(self, spec: str, **fields: Any) -> Rows:
        """The cells of a spec with these values; a list is any of its values."""
        rows = self.cells[self.cells["spec"] == spec]
        for name, value in fields.items():
            rows = rows[rows[name].isin(value if isinstance(value, list) else [value])]
        return rows

    @staticmethod
    def accuracies(rows: Rows, method: str) -> pd.Series[float]:
        """Accuracy in % by seed."""
        return 100 * rows[rows["method"] == method].set_index("seed")["accuracy"].sort_index()

    def mean(self, rows: Rows, method: str) -> float | None:
        """Mean accuracy in %; None where the method was not run."""
        found = self.accuracies(rows, method)
        return float(found.mean()) if len(found) else None

    def best_other(self, rows: Rows, methods: Sequence[str] = OTHERS) -> str | None:
        """The method with the highest mean on test, which favours it."""
        means = {name: mean for name in methods if (mean := self.mean(rows, name)) is not None}
        return max(means, key=lambda name: means[name]) if means else None

    def contrast(self, rows: Rows, against: str) -> Contrast | None:
        """The default against another method in one configuration, over seeds and over test items."""
        key = tuple(rows[rows["method"].isin(["realm", against])]["id"])
        if key not in self._contrasts:  # tables, picture and promises ask for the same, and a bootstrap takes its time
            self._contrasts[key] = compare_methods(self.store, rows, against)
        return self._contrasts[key]

    def gaps(self, rows: Rows, against: Sequence[str]) -> Iterator[tuple[dict[str, Any], pd.Series[float]]]:
        """Each configuration with the lead of the default over the best of these methods, by seed."""
        for values, part in configurations(rows):
            if (second := self.best_other(part, against)) is not None:
                yield values, (self.accuracies(part, "realm") - self.accuracies(part, second)).dropna()

    def lead(self, rows: Rows, against: Sequence[str] = ("noisy",)) -> Lead | None:
        """The mean lead over configurations, those left out in which none of the methods was run."""
        return Lead.of([gaps for _, gaps in self.gaps(rows, against)])

    def growth(self, rows: Rows, field: str, first: Any, second: Any) -> Lead | None:
        """By how much the lead over `noisy` is greater where a field has its second value than where its first."""
        leads: dict[Any, dict[tuple[Any, ...], Any]] = {first: {}, second: {}}
        for values, gaps in self.gaps(rows, ("noisy",)):
            if values[field] in leads:
                leads[values[field]][tuple(values[name] for name in CONFIGURATION if name != field)] = gaps
        return Lead.of([leads[second][key] - gaps for key, gaps in leads[first].items() if key in leads[second]])

    def graded_ranks(self, name: str = "pool_spearman_trained") -> npt.NDArray[np.float64]:
        """Rank correlations of expertise in graded pools; 0 where training told nobody apart, which ranks nobody."""
        rows = self.of("annotators-real", pool=["graded:5", "graded:10"], method="realm")
        return np.asarray(rows.reindex(columns=[name]).iloc[:, 0].astype(float).fillna(0.0), dtype=np.float64)


# -------------------------------------------------------------------- what the default promises


@dataclass(frozen=True)
class Promise:
    """Something that must hold: whether it does (None where nothing measured can tell), and its figures."""

    text: str
    holds: bool | None
    figures: str

    def __str__(self) -> str:
        word = {True: "holds", False: "FAILS", None: "not measured"}[self.holds]
        return f"- **{word}**: {self.text} ({self.figures})"


QUALITY = {"macro_f1": 1, "log_loss": -1}
"""Metrics beside accuracy in which the default must not be worse than `noisy`, and in which direction better is."""
PAPER_RANKS, RANKS_WITHIN = 0.937, 0.05
"""The paper's mean rank correlation in graded pools, and how far below it one may lie: about half a swap of neighbours
among five."""


def promises(evidence: Evidence) -> list[Promise]:
    """What must hold of the default, judged by all configurations that are recorded.

    Accuracy is worse where the t-test over seeds and the bootstrap over test items both say so: seeds share the items
    and items share the seeds, so that either test alone takes the noise of the other for a difference. Macro-F1 and
    log loss have the t-test alone: the record holds no probabilities by item.
    """
    accuracy: dict[bool, dict[str, bool | None]] = {True: {}, False: {}}
    quality: dict[str, bool | None] = {}
    for values, part in configurations(evidence.once):
        where = " ".join(str(value) for value in values.values())
        for method in sorted(set(part["method"]) - {"realm", ORACLE}):
            if (test := evidence.contrast(part, method)) is not None:
                name = f"{where}: {100 * test.delta:+.2f} to {method}"
                testable = test.p_seeds is not None and test.p_items is not None
                accuracy[method == "noisy"][name] = test.surely and test.delta < 0 if testable else None
        for metric, sign in QUALITY.items():
            by_seed = part.pivot(index="seed", columns="method", values=metric).astype(float)
            both = by_seed.reindex(columns=["realm", "noisy"]).dropna().to_numpy()
            if len(both):
                p, gap = paired_t_test(both[:, 0], both[:, 1]), float((both[:, 0] - both[:, 1]).mean())
                quality[f"{where}: {metric} {gap:+.3f}"] = None if p is None else p < LEVEL and sign * gap < 0
    real, ranks, least = evidence.lead(evidence.of("real-real")), evidence.graded_ranks(), PAPER_RANKS - RANKS_WITHIN
    return [
        _never_worse("significantly behind `noisy` in no configuration", accuracy[True]),
        _never_worse("significantly behind no other method without gold in any configuration", accuracy[False]),
        _never_worse("macro-F1 and log loss nowhere significantly worse than `noisy`'s", quality),
        Promise(
            "on real annotators the mean lead over `noisy` is above zero",
            None if real is None or np.isnan(real.low) else real.low > 0,
            "not run" if real is None else f"{real} in {real.configurations} configurations, {real.seeds} seeds",
        ),
        Promise(
            f"trained expertise ranks the annotators of graded pools within {RANKS_WITHIN:g} of the paper's",
            bool(ranks.mean() >= least) if len(ranks) else None,
            f"{ranks.mean():.2f} in {len(ranks)} runs, at least {least:.2f}" if len(ranks) else "not run",
        ),
    ]


def _never_worse(text: str, verdicts: dict[str, bool | None]) -> Promise:
    """That no comparison came out worse; None is one that cannot be tested yet."""
    worse = [name for name, verdict in verdicts.items() if verdict]
    untested = sum(verdict is None for verdict in verdicts.values())
    figures = [f"{len(worse)} of {len(verdicts) - untested} comparisons", *worse]
    figures += [f"{untested} not testable yet"] if untested else []
    return Promise(text, not worse if len(verdicts) > untested else None, "; ".join(figures))


# -------------------------------------------------------------------- the paper's claims

SUPPORTED, NOT_SUPPORTED, INCONCLUSIVE = "supported", "not supported", "inconclusive"
NOT_HERE = "not testable here"


def claims(evidence: Evidence) -> list[dict[str, str]]:
    """The paper's claims one by one: its figure, ours, and what follows. `claims.yaml` lists them."""
    entries = yaml.safe_load(Path(__file__).with_name("claims.yaml").read_text(encoding="utf-8"))
    rows = []
    for entry in entries:
        row = {"claim": entry["claim"], "the paper": entry["paper"], "here": entry.get("here", "not run")}
        row |= {"seeds": "", "p": "", "verdict": NOT_HERE}
        if entry.get("ranks"):
            row |= _ranks(evidence)
        elif "cells" in entry:
            cells = evidence.of(**entry["cells"])
            grows = entry.get("grows")
            lead = evidence.growth(cells, *grows) if grows else evidence.lead(cells, entry.get("against", ["noisy"]))
            if lead is not None:
                count = f"{lead.configurations} configuration" + "s" * (lead.configurations != 1)
                row["here"] = f"{lead} in {count}" + _leads(evidence, entry)
                row |= {"seeds": str(lead.seeds), "p": "<0.001" if lead.p < 0.001 else f"{lead.p:.3f}"}
                row["verdict"] = judged(lead, entry.get("control", False))
        rows.append(row)
    return rows


def judged(lead: Lead, control: bool = False) -> str:
    """What a difference that ought to be positive says; of a control, one that ought not to be negative."""
    if control:
        return NOT_SUPPORTED if lead.high < 0 else SUPPORTED
    if not lead.p < LEVEL:
        return INCONCLUSIVE
    return SUPPORTED if lead.mean > 0 else NOT_SUPPORTED


def _leads(evidence: Evidence, entry: dict[str, Any]) -> str:
    """The leads that a growth is the difference of, and the accuracies, to show which of the two methods moved."""
    if "leads" not in entry:
        return ""
    names = [each.pop("name", "") for each in entry["leads"]]
    parts = [evidence.of(**each) for each in entry["leads"]]
    leads = [(evidence.lead(part), f" ({name})" if name else "") for part, name in zip(parts, names, strict=True)]
    words = ", ".join(f"{lead.mean:+.1f}{name}" for lead, name in leads if lead is not None)
    text = f"; {entry.get('leads_title', 'leads')}: {words}"
    for method in ("realm", "noisy") if entry.get("accuracies") else ():
        means = ", ".join(f"{evidence.accuracies(part, method).mean():.1f}" for part in parts)
        text += f"; accuracy of `{method}`: {means}"
    return text


def _ranks(evidence: Evidence) -> dict[str, str]:
    """How expertise ranks the annotators of graded pools."""
    ranks, again = evidence.graded_ranks(), evidence.graded_ranks("pool_spearman")
    if not len(ranks):
        return {}
    here = (
        f"{ranks.mean():.2f} (lowest of {len(ranks)} runs {ranks.min():.2f}); re-estimated expertise {again.mean():.2f}"
    )
    seeds = evidence.of("annotators-real", pool=["graded:5", "graded:10"], method="realm")["seed"].nunique()
    verdict = SUPPORTED if ranks.mean() >= PAPER_RANKS - RANKS_WITHIN else NOT_SUPPORTED
    return {"here": here, "seeds": str(seeds), "verdict": verdict}
