"""What the `-real` specs of the lab measured, as one table of cells; what the default promises and the paper's claims
judged by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import t as student_t

from realm.comparison.results import Results
from realm.comparison.significance import LEVEL, Contrast, contrast, paired_t_test
from realm.lab import load_spec, packaged_specs, paper_figures
from realm.lab.recorded import RecordedResults
from realm.lab.spec_results import PAPER_ARM, SCALAR, load_spec_results

Floats = npt.NDArray[np.float64]
CONFIGURATION = ("model", "benchmark", "noise", "pool", "regime", "steps")
AGGREGATED = ("majority", "soft-majority", "dawid-skene", "soft-dawid-skene", "soft-mace")
OTHERS = ("noisy", *AGGREGATED, "crowd-layer", "raykar", PAPER_ARM)
"""Everything without gold beside the default."""
NO_NOISE = "own"
"""The noise of annotators that are not simulated."""


def real_specs() -> list[str]:
    """The specs that are run at real budgets."""
    return [name for name in packaged_specs() if name.endswith("-real")]


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
    def of(cls, differences: Floats, configurations: int) -> Lead:
        """Of one difference per seed, in points."""
        n, mean = len(differences), float(differences.mean())
        if n < 2:
            return cls(mean, np.nan, np.nan, np.nan, n, configurations)
        error = float(differences.std(ddof=1)) / np.sqrt(n)
        half = float(student_t.ppf(0.975, n - 1)) * error
        p = (1.0 if mean == 0 else 0.0) if error == 0 else float(2 * student_t.sf(abs(mean) / error, n - 1))
        return cls(mean, mean - half, mean + half, p, n, configurations)

    def __str__(self) -> str:
        return f"{self.mean:+.1f} ({self.low:+.1f} to {self.high:+.1f})"


class Evidence:
    """Every finished cell of the real specs, once."""

    def __init__(self, store: Results | RecordedResults, names: Sequence[str] | None = None) -> None:
        self.store = store
        self._contrasts: dict[tuple[str, ...], Contrast | None] = {}
        frames = []
        for name in real_specs() if names is None else names:
            rows = load_spec_results(load_spec(name), store).frame
            frames.append(rows[rows["finished"]].assign(spec=name))
        cells = pd.concat(frames, ignore_index=True)
        cells["noise"] = cells["noise"].fillna(NO_NOISE)
        self.cells = cells
        # cells that several specs share are there once
        self.once = cells.drop_duplicates("id")

    def of(self, spec: str | None = None, **fields: Any) -> pd.DataFrame:
        """The cells of a spec (of all by default) with these values; a list is any of its values."""
        rows = self.once if spec is None else self.cells[self.cells["spec"] == spec]
        for name, value in fields.items():
            rows = rows[rows[name].isin(value if isinstance(value, (list, tuple)) else [value])]
        return rows

    def configurations(self, rows: pd.DataFrame) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
        """Each configuration that has `realm`, with its cells of every method but the oracle."""
        rows = rows[rows["method"] != "oracle"]
        for values, part in rows.groupby(list(CONFIGURATION), sort=False, dropna=False):
            if (part["method"] == "realm").any():
                yield dict(zip(CONFIGURATION, values, strict=True)), part

    def accuracies(self, rows: pd.DataFrame, method: str) -> pd.Series:
        """Accuracy in % by seed."""
        return 100 * rows[rows["method"] == method].set_index("seed")["accuracy"].astype(float).sort_index()

    def best_other(self, rows: pd.DataFrame, methods: Sequence[str] = OTHERS) -> str | None:
        """The method with the highest mean on test, which favours it."""
        means = {name: self.accuracies(rows, name).mean() for name in methods if (rows["method"] == name).any()}
        return max(means, key=lambda name: means[name]) if means else None

    def contrast(self, rows: pd.DataFrame, against: str, first: str = "realm") -> Contrast | None:
        """The default against another method in one configuration, over seeds and over test items."""
        both = [rows[rows["method"] == name].set_index("seed").sort_index() for name in (first, against)]
        seeds = both[0].index.intersection(both[1].index)
        if not len(seeds):
            return None
        both = [one.loc[seeds] for one in both]
        key = tuple(id for one in both for id in one["id"])
        if key not in self._contrasts:  # tables, picture and promises ask for the same, and a bootstrap takes its time
            accuracies = [one["accuracy"].to_numpy(dtype=np.float64) for one in both]
            answers = [self.store.correct(one["id"].tolist()) for one in both]
            correct = (answers[0], answers[1]) if answers[0] is not None and answers[1] is not None else None
            self._contrasts[key] = contrast((first, against), accuracies[0], accuracies[1], correct)
        return self._contrasts[key]

    def lead(
        self, rows: pd.DataFrame, against: str | Callable[[pd.DataFrame], str | None] = "noisy", first: str = "realm"
    ) -> Lead | None:
        """The mean lead over configurations, those left out in which one of the two is missing."""
        differences = []
        for _, part in self.configurations(rows):
            second = against if isinstance(against, str) else against(part)
            if second is None or not (part["method"] == second).any():
                continue
            difference = self.accuracies(part, first) - self.accuracies(part, second)
            differences.append(difference.dropna())
        if not differences:
            return None
        by_seed = pd.concat(differences, axis=1).dropna().mean(axis=1).to_numpy()
        return Lead.of(by_seed, len(differences)) if len(by_seed) else None

    @cached_property
    def counts(self) -> dict[str, int]:
        """Over all configurations: ahead of and behind `noisy` by mean, and significantly so."""
        ahead = behind = better = worse = 0
        for _, part in self.configurations(self.once):
            test = self.contrast(part, "noisy")
            if test is None:
                continue
            ahead, behind = ahead + (test.delta > 0), behind + (test.delta < 0)
            if is_significant(test):
                better, worse = better + (test.delta > 0), worse + (test.delta < 0)
        return {"ahead": ahead, "behind": behind, "better": better, "worse": worse}


def is_significant(test: Contrast) -> bool:
    """By the paired t-test over seeds and by the paired bootstrap over test items."""
    return bool(test.significant and test.p_items is not None and test.p_items < LEVEL)


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
    for values, part in evidence.configurations(evidence.once):
        where = " ".join(str(values[name]) for name in CONFIGURATION)
        for method in sorted(set(part["method"]) - {"realm"}):
            if (test := evidence.contrast(part, method)) is not None:
                told = test.p_seeds is not None and test.p_items is not None
                name = f"{where}: {100 * test.delta:+.2f} to {method}"
                accuracy[method == "noisy"][name] = is_significant(test) and test.delta < 0 if told else None
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
    printed = paper_figures("tab:learned_expertise")
    return float(printed[printed["quantity"] == "spearman"]["mean"].mean())


def graded_ranks(evidence: Evidence) -> pd.Series:
    """The same of each run here, one label per item; 0 where training told nobody apart, which ranks nobody."""
    rows = evidence.of("annotators-real", pool=["graded:5", "graded:10"], method="realm")
    return rows.reindex(columns=["pool_spearman_trained"]).iloc[:, 0].astype(float).fillna(0.0)


# -------------------------------------------------------------------- the paper's claims


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, its figure, ours, and what follows."""

    text: str
    paper: str
    ours: str
    seeds: str
    p: str
    verdict: str


BORNE_OUT, NOT_BORNE_OUT, UNDECIDED = "supported", "not supported", "inconclusive"
NOT_HERE = "not testable here"


def judged(lead: Lead | None) -> str:
    """What a difference that ought to be positive says."""
    if lead is None:
        return NOT_HERE
    if not lead.p < LEVEL:
        return UNDECIDED
    return BORNE_OUT if lead.mean > 0 else NOT_BORNE_OUT


def claims(evidence: Evidence) -> list[Claim]:
    """The paper's claims one by one."""
    printed = paper_figures()
    deltas = printed[printed["quantity"] == "delta"]
    simulated = evidence.of("noise-real", regime="sparse")

    def paper_mean(**fields: Any) -> float:
        rows = deltas
        for name, value in fields.items():
            rows = rows[rows[name].isin(value if isinstance(value, list) else [value])]
        return float(rows["mean"].mean())

    found: list[Claim] = []

    def add(text: str, paper: str, lead: Lead | None, more: str = "", verdict: str | None = None) -> None:
        ours = "not run" if lead is None else f"{lead} in {_counted(lead.configurations)}"
        p = "" if lead is None else "<0.001" if lead.p < 0.001 else f"{lead.p:.3f}"
        seeds = "" if lead is None else str(lead.seeds)
        found.append(Claim(text, paper, f"{ours}{more}", seeds, p, judged(lead) if verdict is None else verdict))

    noise_tables = ["tab:results_noise_types", "tab:results_dist2_noise_types", "tab:results_dist3_noise_types"]
    for noise in ("uniform", "asymmetric", "systematic"):
        add(
            f"More accurate than `noisy` under {noise} noise (D1, D2, D3, one label per item)",
            f"{paper_mean(table=noise_tables, noise=noise):+.1f}",
            evidence.lead(simulated[simulated["noise"] == noise]),
        )
    sizes = [paper_mean(table="tab:results_uniform", pool="D1", model=size) for size in ("small", "base", "large")]
    capacity = [
        evidence.lead(evidence.of("capacity-real", model=model, noise="uniform"))
        for model in ("minilm-l6", "mpnet-base")
    ]
    language_model = evidence.lead(evidence.of("llm-real", regime="sparse", noise="uniform"))
    add(
        "The lead over `noisy` grows with model size (22 to 110 million parameters; SentPolarity, D1, D2, D3)",
        f"{sizes[0]:+.1f}, {sizes[1]:+.1f}, {sizes[2]:+.1f} (D1)",
        _difference(evidence, "capacity-real", "model", "minilm-l6", "mpnet-base"),
        "; leads: "
        + ", ".join(
            f"{one.mean:+.1f} ({name})"
            for name, one in zip(("22M", "110M", "135M, on other items"), (*capacity, language_model), strict=True)
            if one is not None
        ),
    )
    by_size = [paper_mean(table="tab:ablation_annotators_dist1", pool=f"one-reliable:{n}") for n in (3, 5, 10)]
    spreads = [
        evidence.lead(evidence.of("annotators-real", pool=p)) for p in ("D1", "one-reliable:5", "one-reliable:10")
    ]
    add(
        "With one reliable annotator among N, the lead over `noisy` grows with N (3 to 10)",
        ", ".join(f"{value:+.1f}" for value in by_size),
        _difference(evidence, "annotators-real", "pool", "D1", "one-reliable:10"),
        "; leads at N = 3, 5, 10: " + ", ".join(f"{one.mean:+.1f}" for one in spreads if one is not None),
    )
    joint = printed[(printed["table"] == "tab:results_multi") & (printed["quantity"] == "accuracy")]
    means = joint.groupby("method")["mean"].mean()
    several = evidence.of("multitask-real", noise="uniform")
    add(
        "Several tasks: one expertise per annotator and task is more accurate than `noisy`",
        f"{means['realm'] - means['noisy']:+.1f}",
        evidence.lead(several),
    )
    text = "Several tasks: one expertise per annotator and task is more accurate than one per annotator"
    add(f"{text} (simulated annotators)", "no figure", evidence.lead(several, SCALAR))
    own = evidence.of("multitask-real", noise=NO_NOISE)
    add(f"{text} (CEBaB's own annotators)", "no figure", evidence.lead(own, SCALAR))
    found.append(_recovery(evidence))
    length = evidence.of("training-length-real")
    for benchmark, short, long, title in (
        ("sentpolarity", 780, 2340, "real annotators"), ("cebab/food", 300, 1500, "simulated, D1"),
    ):  # fmt: skip
        part = length[length["benchmark"] == benchmark]
        leads = [evidence.lead(part[part["steps"] == steps]) for steps in (short, long)]
        add(
            f"The lead over `noisy` grows with longer training ({title}, {short} to {long:,} steps)",
            f"{paper_mean(table='tab:training_length'):+.1f} (at the paper's lengths)",
            _difference(evidence, "training-length-real", "steps", short, long, benchmark=benchmark),
            "; leads: " + ", ".join(f"{one.mean:+.1f}" for one in leads if one is not None) + _by_steps(evidence, part),
        )
    shared = evidence.of("noise-real", regime="shared")
    add(
        "More accurate than training on majority-vote or Dawid-Skene labels (simulated annotators, all labels kept)",
        f"{paper_mean(table='tab:agg_sim'):+.1f}",
        evidence.lead(shared, lambda rows: evidence.best_other(rows, ("majority", "dawid-skene"))),
    )
    crowd = evidence.of("real-real", benchmark="sentpolarity")
    baselines = ("noisy", "majority", "dawid-skene")
    add(
        "More accurate than the best of `noisy`, majority vote and Dawid-Skene on real annotators (SentPolarity)",
        f"{paper_mean(table='tab:results_real', pool='contrast:20'):+.1f}; all its data sets +2.9, ahead in 12 of 12",
        evidence.lead(crowd, lambda rows: evidence.best_other(rows, baselines)),
    )
    equals = evidence.lead(evidence.of("equals-real"), lambda rows: evidence.best_other(rows, baselines))
    add(
        "No loss where annotators are equally good (the control)",
        f"{paper_mean(table='tab:results_real', pool='contrast:10'):+.1f} (GoEmotions)",
        equals,
        verdict=NOT_HERE if equals is None else NOT_BORNE_OUT if equals.high < 0 else BORNE_OUT,
    )
    found.append(
        Claim("WikiAttack, WikiToxicity, GoEmotions, RiddleSense; Flan-T5 of three sizes", "see the paper",
              "neither the data nor the weights were available", "", "", NOT_HERE)
    )  # fmt: skip
    return found


def _difference(evidence: Evidence, spec: str, field: str, first: Any, second: Any, **fields: Any) -> Lead | None:
    """By how much the lead over `noisy` is greater where a field has its second value than where it has its first."""
    rest = [name for name in CONFIGURATION if name != field]
    rows = evidence.of(spec, **fields)
    if spec == "capacity-real":
        rows = rows[rows["noise"] != NO_NOISE]
    leads: dict[Any, dict[tuple[Any, ...], pd.Series]] = {first: {}, second: {}}
    for values, part in evidence.configurations(rows):
        if values[field] in leads:
            lead = evidence.accuracies(part, "realm") - evidence.accuracies(part, "noisy")
            leads[values[field]][tuple(values[name] for name in rest)] = lead.dropna()
    both = [key for key in leads[first] if key in leads[second]]
    if not both:
        return None
    gaps = pd.concat([leads[second][key] - leads[first][key] for key in both], axis=1).dropna().mean(axis=1)
    return Lead.of(gaps.to_numpy(), len(both)) if len(gaps) else None


def _counted(configurations: int) -> str:
    return f"{configurations} configuration" + "s" * (configurations != 1)


def _by_steps(evidence: Evidence, rows: pd.DataFrame) -> str:
    """Accuracy of the default and of `noisy` by the number of steps, to show which of the two moved."""
    parts = [part for _, part in sorted(evidence.configurations(rows), key=lambda pair: pair[0]["steps"])]
    means = {name: [f"{evidence.accuracies(part, name).mean():.1f}" for part in parts] for name in ("realm", "noisy")}
    return "".join(f"; accuracy of `{name}`: {', '.join(values)}" for name, values in means.items() if values)


def _recovery(evidence: Evidence) -> Claim:
    """Whether trained expertise ranks simulated annotators as the paper's does: graded pools, one label per item."""
    text = "Trained expertise ranks the annotators of graded pools: rank correlation with their accuracies"
    paper = f"{paper_ranks():.2f}"
    ranks = graded_ranks(evidence)
    if not len(ranks):
        return Claim(text, paper, "not run", "", "", NOT_HERE)
    verdict = BORNE_OUT if ranks.mean() >= paper_ranks() - RANKS_WITHIN else NOT_BORNE_OUT
    rows = evidence.cells.loc[ranks.index]
    again = rows["pool_spearman"].astype(float).mean()
    ours = f"{ranks.mean():.2f} (lowest of {len(ranks)} runs {ranks.min():.2f}); re-estimated expertise {again:.2f}"
    return Claim(text, paper, ours, str(rows["seed"].nunique()), "", verdict)
