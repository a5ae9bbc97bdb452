"""What the `-real` specs measured, as one table of cells; what the default promises and the paper's claims judged by
it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import t as student_t

from realm.comparison.significance import LEVEL, paired_t_test
from realm_lab.paper import paper_figures
from realm_lab.results import (
    CONFIGURATION,
    ORACLE,
    PAPER_ARM,
    SCALAR,
    Contrast,
    Store,
    compare_methods,
    configurations,
    load_results,
)
from realm_lab.specs import load_spec, packaged_specs

AGGREGATED = ("majority", "soft-majority", "dawid-skene", "soft-dawid-skene", "soft-mace")
OTHERS = ("noisy", *AGGREGATED, "crowd-layer", "raykar", PAPER_ARM)
"""Everything without gold beside the default."""
BASELINES = ("noisy", "majority", "dawid-skene")
"""What the paper compares with."""
NO_NOISE = "own"
"""The noise of annotators that are not simulated."""
Rows = pd.DataFrame
Against = str | Callable[[Rows], str | None]


@dataclass(frozen=True)
class Lead:
    """A mean difference of accuracy in points over configurations, paired by seed.

    | field | meaning |
    |---|---|
    | mean, low, high | with the 95% interval of Student's t over seeds, each seed the mean over configurations |
    | p | two-sided, of the same t-test |
    | seeds, configurations | how many |
    """

    mean: float
    low: float
    high: float
    p: float
    seeds: int
    configurations: int

    @classmethod
    def of(cls, by_configuration: Sequence[pd.Series[float]]) -> Lead | None:
        """Of the differences by seed of each configuration, in points, on the seeds that all have; None without any."""
        if not by_configuration:
            return None
        gaps = pd.concat(by_configuration, axis=1).dropna().mean(axis=1).to_numpy(dtype=np.float64)
        n = len(gaps)
        if not n:
            return None
        p = paired_t_test(gaps, np.zeros(n))
        error = float(gaps.std(ddof=1)) / n**0.5 if n > 1 else np.nan
        half = float(student_t.ppf(0.975, max(n - 1, 1))) * error
        mean = float(gaps.mean())
        return cls(mean, mean - half, mean + half, np.nan if p is None else p, n, len(by_configuration))

    def __str__(self) -> str:
        return f"{self.mean:+.1f} ({self.low:+.1f} to {self.high:+.1f})"


class Evidence:
    """Every finished cell of the real specs. `cells` has a row per spec, configuration, method and seed."""

    def __init__(self, store: Store, names: Sequence[str] | None = None) -> None:
        self.store = store
        self._contrasts: dict[tuple[str, ...], Contrast | None] = {}
        frames = []
        for name in [name for name in packaged_specs() if name.endswith("-real")] if names is None else names:
            rows = load_results(load_spec(name), store).frame
            frames.append(rows[rows["finished"]].assign(spec=name))
        cells = pd.concat(frames, ignore_index=True)
        self.cells = cells.assign(noise=cells["noise"].fillna(NO_NOISE))
        # cells that several specs share are there once
        self.once = self.cells.drop_duplicates(["id", *CONFIGURATION])

    def of(self, spec: str | None = None, **fields: Any) -> Rows:
        """The cells of a spec (of all by default) with these values; a list is any of its values."""
        rows = self.once if spec is None else self.cells[self.cells["spec"] == spec]
        for name, value in fields.items():
            rows = rows[rows[name].isin(value if isinstance(value, list) else [value])]
        return rows

    @staticmethod
    def accuracies(rows: Rows, method: str) -> pd.Series[float]:
        """Accuracy in % by seed."""
        return 100 * rows[rows["method"] == method].set_index("seed")["accuracy"].astype(float).sort_index()

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

    def gaps(self, rows: Rows, against: Against, first: str = "realm") -> Iterator[tuple[dict[str, Any], Any]]:
        """Each configuration that has both methods, with the difference of their accuracies by seed."""
        for values, part in configurations(rows):
            second = against if isinstance(against, str) else against(part)
            if second is not None and (part["method"] == second).any():
                yield values, (self.accuracies(part, first) - self.accuracies(part, second)).dropna()

    def lead(self, rows: Rows, against: Against = "noisy", first: str = "realm") -> Lead | None:
        """The mean lead over configurations, those left out in which one of the two is missing."""
        return Lead.of([gaps for _, gaps in self.gaps(rows, against, first)])

    def growth(self, rows: Rows, field: str, first: Any, second: Any) -> Lead | None:
        """By how much the lead over `noisy` is greater where a field has its second value than where its first."""
        leads: dict[Any, dict[tuple[Any, ...], Any]] = {first: {}, second: {}}
        for values, gaps in self.gaps(rows, "noisy"):
            if values[field] in leads:
                leads[values[field]][tuple(values[name] for name in CONFIGURATION if name != field)] = gaps
        return Lead.of([leads[second][key] - gaps for key, gaps in leads[first].items() if key in leads[second]])

    def counts(self) -> dict[str, int]:
        """Over all configurations: ahead of and behind `noisy` by mean, and significantly so."""
        found = [self.contrast(part, "noisy") for _, part in configurations(self.once)]
        tests = [test for test in found if test is not None]
        return {
            "ahead": sum(test.delta > 0 for test in tests),
            "behind": sum(test.delta < 0 for test in tests),
            "better": sum(test.delta > 0 and test.surely for test in tests),
            "worse": sum(test.delta < 0 and test.surely for test in tests),
        }


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
RANKS_WITHIN = 0.05
"""How far below the paper's a rank correlation of expertise may lie: about half a swap of neighbours among five."""


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
                told = test.p_seeds is not None and test.p_items is not None
                name = f"{where}: {100 * test.delta:+.2f} to {method}"
                accuracy[method == "noisy"][name] = test.surely and test.delta < 0 if told else None
        for metric, sign in QUALITY.items():
            by_seed = part.pivot(index="seed", columns="method", values=metric).astype(float)
            both = by_seed.reindex(columns=["realm", "noisy"]).dropna().to_numpy()
            if len(both):
                p, gap = paired_t_test(both[:, 0], both[:, 1]), float((both[:, 0] - both[:, 1]).mean())
                quality[f"{where}: {metric} {gap:+.3f}"] = None if p is None else p < LEVEL and sign * gap < 0
    real = evidence.lead(evidence.of("real-real"))
    ranks, bound = graded_ranks(evidence), paper_ranks() - RANKS_WITHIN
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
            bool(ranks.mean() >= bound) if len(ranks) else None,
            f"{ranks.mean():.2f} in {len(ranks)} runs, at least {bound:.2f}" if len(ranks) else "not run",
        ),
    ]


def _never_worse(text: str, verdicts: dict[str, bool | None]) -> Promise:
    """That no comparison came out worse; None is one that cannot be tested yet."""
    worse = [name for name, verdict in verdicts.items() if verdict]
    untested = sum(verdict is None for verdict in verdicts.values())
    figures = [f"{len(worse)} of {len(verdicts) - untested} comparisons", *worse]
    figures += [f"{untested} not testable yet"] if untested else []
    return Promise(text, not worse if len(verdicts) > untested else None, "; ".join(figures))


def paper_ranks() -> float:
    """The paper's mean rank correlation of trained expertise with the accuracies of graded pools."""
    return float(paper_figures("tab:learned_expertise").query("quantity == 'spearman'")["mean"].mean())


def graded_ranks(evidence: Evidence, name: str = "pool_spearman_trained") -> npt.NDArray[np.float64]:
    """The same of each run here, one label per item; 0 where training told nobody apart, which ranks nobody."""
    rows = evidence.of("annotators-real", pool=["graded:5", "graded:10"], method="realm")
    return np.asarray(rows.reindex(columns=[name]).iloc[:, 0].astype(float).fillna(0.0), dtype=np.float64)


# -------------------------------------------------------------------- the paper's claims

SUPPORTED, NOT_SUPPORTED, INCONCLUSIVE = "supported", "not supported", "inconclusive"
NOT_HERE = "not testable here"


def judged(lead: Lead | None) -> str:
    """What a difference that ought to be positive says."""
    if lead is None:
        return NOT_HERE
    if not lead.p < LEVEL:
        return INCONCLUSIVE
    return SUPPORTED if lead.mean > 0 else NOT_SUPPORTED


def claim(text: str, paper: str, lead: Lead | None, more: str = "", verdict: str | None = None) -> dict[str, str]:
    """A claim of the paper, its figure, ours, and what follows."""
    n = 0 if lead is None else lead.configurations
    counted = f"{lead} in {n} configuration" + "s" * (n != 1)
    return {
        "claim": text,
        "the paper": paper,
        "here": ("not run" if lead is None else counted) + more,
        "seeds": "" if lead is None else str(lead.seeds),
        "p": "" if lead is None else "<0.001" if lead.p < 0.001 else f"{lead.p:.3f}",
        "verdict": judged(lead) if verdict is None else verdict,
    }


def claims(evidence: Evidence) -> list[dict[str, str]]:
    """The paper's claims one by one."""
    printed = paper_figures().query("quantity == 'delta'")

    def paper(**fields: Any) -> str:
        """The mean of the leads that the paper prints under these fields."""
        rows = printed
        for name, value in fields.items():
            rows = rows[rows[name].isin(value if isinstance(value, list) else [value])]
        return f"{rows['mean'].mean():+.1f}"

    def leads(parts: Sequence[Lead | None], names: Sequence[str] = ()) -> str:
        words = [f" ({name})" for name in names] or [""] * len(parts)
        return ", ".join(f"{lead.mean:+.1f}{word}" for lead, word in zip(parts, words, strict=True) if lead is not None)

    def over_baselines(rows: Rows) -> Lead | None:
        return evidence.lead(rows, lambda part: evidence.best_other(part, BASELINES))

    noises = ["tab:results_noise_types", "tab:results_dist2_noise_types", "tab:results_dist3_noise_types"]
    found = [
        claim(
            f"More accurate than `noisy` under {noise} noise (D1, D2, D3, one label per item)",
            paper(table=noises, noise=noise),
            evidence.lead(evidence.of("noise-real", regime="sparse", noise=noise)),
        )
        for noise in ("uniform", "asymmetric", "systematic")
    ]
    sizes, capacity = ("minilm-l6", "mpnet-base"), evidence.of("capacity-real", noise="uniform")
    of_models = [evidence.lead(capacity[capacity["model"] == model]) for model in sizes]
    of_models.append(evidence.lead(evidence.of("llm-real", regime="sparse", noise="uniform")))
    found.append(
        claim(
            "The lead over `noisy` grows with model size (22 to 110 million parameters; SentPolarity, D1, D2, D3)",
            ", ".join(paper(table="tab:results_uniform", pool="D1", model=m) for m in ("small", "base", "large"))
            + " (D1)",
            evidence.growth(capacity, "model", *sizes),
            f"; leads: {leads(of_models, ('22M', '110M', '135M, on other items'))}",
        )
    )
    crowds, pools = evidence.of("annotators-real"), ("D1", "one-reliable:5", "one-reliable:10")
    found.append(
        claim(
            "With one reliable annotator among N, the lead over `noisy` grows with N (3 to 10)",
            ", ".join(paper(table="tab:ablation_annotators_dist1", pool=f"one-reliable:{n}") for n in (3, 5, 10)),
            evidence.growth(crowds, "pool", pools[0], pools[2]),
            f"; leads at N = 3, 5, 10: {leads([evidence.lead(crowds[crowds['pool'] == pool]) for pool in pools])}",
        )
    )
    several, own = (evidence.of("multitask-real", noise=noise) for noise in ("uniform", NO_NOISE))
    joint = paper_figures("tab:results_multi").groupby("method")["mean"].mean()
    text = "Several tasks: one expertise per annotator and task is more accurate than"
    found += [
        claim(f"{text} `noisy`", f"{joint['realm'] - joint['noisy']:+.1f}", evidence.lead(several)),
        claim(f"{text} one per annotator (simulated annotators)", "no figure", evidence.lead(several, SCALAR)),
        claim(f"{text} one per annotator (CEBaB's own annotators)", "no figure", evidence.lead(own, SCALAR)),
        _recovery(evidence),
    ]
    for benchmark, short, long, title in (
        ("sentpolarity", 780, 2340, "real annotators"), ("cebab/food", 300, 1500, "simulated, D1"),
    ):  # fmt: skip
        part = evidence.of("training-length-real", benchmark=benchmark)
        found.append(
            claim(
                f"The lead over `noisy` grows with longer training ({title}, {short} to {long:,} steps)",
                f"{paper(table='tab:training_length')} (at the paper's lengths)",
                evidence.growth(part, "steps", short, long),
                f"; leads: {leads([evidence.lead(part[part['steps'] == steps]) for steps in (short, long)])}"
                + _by_steps(evidence, part),
            )
        )
    shared = evidence.of("noise-real", regime="shared")
    equals = over_baselines(evidence.of("equals-real"))
    no_loss = NOT_HERE if equals is None else NOT_SUPPORTED if equals.high < 0 else SUPPORTED
    return [
        *found,
        claim(
            "More accurate than training on majority-vote or Dawid-Skene labels (simulated annotators, all labels "
            "kept)",
            paper(table="tab:agg_sim"),
            evidence.lead(shared, lambda rows: evidence.best_other(rows, BASELINES[1:])),
        ),
        claim(
            "More accurate than the best of `noisy`, majority vote and Dawid-Skene on real annotators (SentPolarity)",
            f"{paper(table='tab:results_real', pool='contrast:20')}; all its data sets +2.9, ahead in 12 of 12",
            over_baselines(evidence.of("real-real", benchmark="sentpolarity")),
        ),
        claim(
            "No loss where annotators are equally good (the control)",
            f"{paper(table='tab:results_real', pool='contrast:10')} (GoEmotions)",
            equals,
            verdict=no_loss,
        ),
        {**claim("WikiAttack, WikiToxicity, GoEmotions, RiddleSense; Flan-T5 of three sizes", "see the paper", None),
         "here": "neither the data nor the weights were available"},
    ]  # fmt: skip


def _by_steps(evidence: Evidence, rows: Rows) -> str:
    """Accuracy of the default and of `noisy` by the number of steps, to show which of the two moved."""
    parts = [part for _, part in sorted(configurations(rows), key=lambda pair: pair[0]["steps"])]
    return "".join(
        f"; accuracy of `{method}`: {', '.join(f'{evidence.accuracies(part, method).mean():.1f}' for part in parts)}"
        for method in ("realm", "noisy")
    )


def _recovery(evidence: Evidence) -> dict[str, str]:
    """How expertise ranks the annotators of graded pools."""
    ranks, again = graded_ranks(evidence), graded_ranks(evidence, "pool_spearman")
    text = "Trained expertise ranks the annotators of graded pools: rank correlation with their accuracies"
    paper = f"{paper_ranks():.2f}"
    if not len(ranks):
        return claim(text, paper, None)
    here = f"{ranks.mean():.2f} (lowest of {len(ranks)} runs {ranks.min():.2f})"
    here += f"; re-estimated expertise {again.mean():.2f}"
    verdict = SUPPORTED if ranks.mean() >= paper_ranks() - RANKS_WITHIN else NOT_SUPPORTED
    seeds = evidence.of("annotators-real", pool=["graded:5", "graded:10"], method="realm")["seed"].nunique()
    return {**claim(text, paper, None, verdict=verdict), "here": here, "seeds": str(seeds)}
