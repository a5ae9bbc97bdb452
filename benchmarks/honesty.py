"""Whether what is said of labels and annotators is true: intervals, confidence and verdicts, held against the truth.

    python -m benchmarks.honesty [--data DATA] [--quick] [--pictures FOLDER]

Simulated crowds of 20 to 1,000 labels each, with no model, one that knows the items (P is the distribution that the
truth is drawn from) and one that knows nothing and is sure of it, which its temperature must find out; and the real
annotators at hand, without a model, on their items with gold. For each:

| column | what is asked |
|---|---|
| coverage | 90 to 98% of the 95% intervals hold the accuracy (but for two standard errors over pools) |
| calibration | mean distance of confidence and accuracy over ten equally large groups of items: 0.03 at most, or \
below it by no more than what shared mistakes are allowed for |
| sure, wrong | labels of confidence 0.99 or more, and the share of them that is wrong: 2% at most |
| reliable | of those so called at least 95% are: above half-way from chance to always right |
| chance | of those called no better than chance none is reliable |

The accuracy of a simulated annotator is what their confusion matrix says of their items; that of annotators who do not
err independently, and of real ones, is the share of their labels that is right (20 labels or more).

How often a panel is wrong together does not show in its labels (`realm.crowd.shared_mistakes`). Of panels that err
together, marked *, confidence is asked to be within 0.06 (0.10 with under 1,000 items, where groups are small); of
those that are right all the same nothing is asked, and what they lose is shown.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import binom

from realm.crowd.accuracy import chance_of
from realm.crowd.estimate import Estimate, estimate
from realm.crowd.verdicts import RELIABLE, VERDICTS, verdicts
from realm.data import Annotations
from realm_lab.plots import COLOURS, save

from ._crowds import CLASS_SHARES, CROWDS, PANELS, Floats, Ints, annotate_by_matrices, draw, read_panel

SIZES = [(30, 20, 3, 24), (20, 100, 5, 16), (8, 200, 5, 24), (20, 1000, 5, 6)]
"""(annotators, labels of each, labels per item, pools)."""
PANEL_SIZES = {
    "copies": [(20, 200, 5, 8), (24, 1000, 24, 4), (20, 1000, 5, 4)],
    "a crowd that errs together": [(100, 100, 5, 6), (40, 500, 5, 6), (20, 1000, 10, 6)],
    "judges who err together": [(24, 1000, 24, 6), (12, 1000, 12, 6)],
    "hard items, nobody misled": [(40, 500, 5, 6), (24, 1000, 24, 6)],
}
"""The same of those who do not err independently. Copies are found by what two have in common, 20 items at least."""
NOT_ASKED = ("hard items, nobody misled", "LLMBar, LLMBar/Natural")
"""Annotators err together here and are right all the same, which their labels do not show: measured, not asked."""
SPARSE_SIZES = [(30, 100, 1, 16), (10, 1000, 1, 6)]
LEAST = 20
"""Labels from which a real annotator's share of right labels is a truth to hold an interval against."""
COVERAGE, CALIBRATION, SURE, TRULY = (0.90, 0.98), 0.03, 0.02, 0.95
LOOSE, LOOSE_FEW = 0.06, 0.10
CHANCE = 0.01
"""How improbable a share must be before it is a miss, if what is asked were just met."""


@dataclass
class Row:
    """What one kind of crowd gave. The lists have an entry for each pool."""

    name: str
    starred: bool = False
    coverage: list[float] = field(default_factory=list)
    confidence: list[Floats] = field(default_factory=list)
    right: list[Floats] = field(default_factory=list)
    reliable: list[bool] = field(default_factory=list)
    chance: list[bool] = field(default_factory=list)
    shared: list[float] = field(default_factory=list)
    annotators: int = 0

    def add(self, found: Estimate, table: Annotations, truth: Ints, accuracy: Floats, judged: Floats) -> None:
        """`accuracy` and `judged` (annotators, tasks): the true accuracy, and whose intervals are looked at."""
        held = (found.low <= accuracy + 1e-9) & (accuracy <= found.high + 1e-9)
        self.coverage.append(float(held[judged].mean()))
        self.annotators += int(judged.sum())
        self.confidence.append(found.posterior.max(axis=1))
        self.right.append((found.posterior.argmax(axis=1) == truth).astype(np.float64))
        chance = chance_of(table, np.eye(found.posterior.shape[1])[truth]).reshape(accuracy.shape)
        reliable = accuracy > chance + (1 - chance) * RELIABLE
        verdict = verdicts(table, found)
        self.reliable += reliable[judged & (verdict == VERDICTS.index("reliable"))].tolist()
        self.chance += reliable[judged & (verdict == VERDICTS.index("no better than chance"))].tolist()
        self.shared.append(float(found.shared_error.mean()))

    @property
    def asked(self) -> bool:
        return not self.name.startswith(NOT_ASKED)

    @property
    def calibration(self) -> float:
        confidence, right = np.concatenate(self.confidence), np.concatenate(self.right)
        distances = [abs(confidence[g].mean() - right[g].mean()) * len(g) for g in groups_of(confidence)]
        return float(sum(distances) / len(right))

    @property
    def overconfidence(self) -> float:
        """How far confidence is above accuracy, groups in which it is below counting 0."""
        confidence, right = np.concatenate(self.confidence), np.concatenate(self.right)
        above = [max(confidence[g].mean() - right[g].mean(), 0.0) * len(g) for g in groups_of(confidence)]
        return float(sum(above) / len(right))

    @property
    def misses(self) -> list[str]:
        """What is asked and was not met."""
        confidence, right = np.concatenate(self.confidence), np.concatenate(self.right)
        error = max(float(np.std(self.coverage) / len(self.coverage) ** 0.5), (0.02 / max(self.annotators, 1)) ** 0.5)
        most = (LOOSE if len(right) >= 1000 else LOOSE_FEW) if self.starred else CALIBRATION
        low, high = COVERAGE
        sure = confidence >= 0.99
        wrong = 1 - right[sure].mean() if sure.any() else 0.0
        asked = {
            "coverage": low - 2 * error <= np.mean(self.coverage) <= high + 2 * error,
            "calibration": self.overconfidence <= most and self.calibration <= most + float(np.mean(self.shared)),
            "sure": binom.sf(round(wrong * sure.sum()) - 1, sure.sum(), SURE) > CHANCE,
            "reliable": binom.cdf(sum(self.reliable), len(self.reliable), TRULY) > CHANCE,
            "chance": not any(self.chance),
        }
        return [name for name, met in asked.items() if not met]

    def __str__(self) -> str:
        confidence, right = np.concatenate(self.confidence), np.concatenate(self.right)
        sure = confidence >= 0.99
        error = np.std(self.coverage) / len(self.coverage) ** 0.5
        cells = [
            self.name + (" *" if self.starred else ""),
            f"{np.mean(self.coverage):.1%} ± {error:.1%}"
            if len(self.coverage) > 1
            else f"{np.mean(self.coverage):.1%}",
            f"{confidence.mean():.3f} / {right.mean():.3f}",
            f"{self.calibration:.3f}",
            f"{sure.sum():,}, {1 - right[sure].mean():.1%}" if sure.any() else "none",
            f"{np.mean(self.reliable):.1%} of {len(self.reliable):,}" if self.reliable else "none",
            f"{sum(self.chance)} of {len(self.chance):,}",
            f"{np.mean(self.shared):.3f}",
            ", ".join(self.misses) if self.asked else "not asked",
        ]
        return "| " + " | ".join(cells) + " |"


def shares_right(table: Annotations, truth: Ints) -> tuple[Floats, Ints]:
    """The share of each annotator's labels that is right, and how many there are. Shapes (annotators, tasks)."""
    shape = (table.n_annotators, len(table.tasks))
    pair = table.annotator.astype(np.int64) * shape[1] + table.item_tasks[table.item]
    counts = np.bincount(pair, minlength=shape[0] * shape[1])
    right = np.bincount(pair, table.label == truth[table.item], minlength=len(counts))
    return (right / np.maximum(counts, 1)).reshape(shape), counts.reshape(shape)


# -------------------------------------------------------------------- simulated crowds


def simulated(quick: bool) -> Iterator[Row]:
    """Every crowd, number of options, model and size in turn."""
    for crowd in (*CROWDS, *PANELS):
        independent = crowd in CROWDS
        for options in CLASS_SHARES:
            if crowd == "neighbours mistaken" and options == 2:
                continue  # at two options there is one neighbour: even errors
            for model in ("none", "knows", "knows nothing") if independent else ("none",):
                sizes = SIZES if independent else PANEL_SIZES[crowd]
                for size in [*sizes, *(SPARSE_SIZES if model == "knows" else [])][:: 3 if quick else 1]:
                    yield crowd_row(crowd, options, model, size if not quick else (*size[:3], 2))


def crowd_row(crowd: str, options: int, model: str, size: tuple[int, int, int, int], seed: int = 0) -> Row:
    """One kind of crowd: so many pools of annotators."""
    people, labels, per_item, pools = size
    starred = crowd in PANELS and crowd != "copies"
    row = Row(f"{crowd} | {options} | {model} | {people} x {labels}, {per_item}", starred)
    rng = np.random.default_rng([seed, options, people, labels, per_item])
    shares = np.array(CLASS_SHARES[options])
    for _ in range(pools):
        n = people * labels // per_item
        probs = rng.dirichlet(shares * options * 0.5, n) if model == "knows" else np.tile(shares, (n, 1))
        truth = draw(rng, probs)
        if crowd in CROWDS:
            matrices = CROWDS[crowd](rng, people, options)
            table, counts = annotate_by_matrices(rng, truth, matrices, per_item)
            right = matrices[table.annotator, truth[table.item], truth[table.item]]
            accuracy = (np.bincount(table.annotator, right, minlength=people) / np.maximum(counts, 1))[:, None]
        else:
            table = PANELS[crowd](rng, truth, people, options, per_item)
            accuracy, _ = shares_right(table, truth)
        said = {"none": None, "knows": probs, "knows nothing": rng.dirichlet(np.full(options, 0.3), n) + 1e-9}
        found = estimate(table, said[model])
        row.add(found, table, truth, accuracy, found.annotations > 0)
    return row


# -------------------------------------------------------------------- real annotators


def real(data: Path) -> Iterator[tuple[Row, Annotations]]:
    """Every set at hand with gold, without a model, on its items with gold."""
    tables = {
        "SentPolarity": lambda: Annotations.read(data / "sentpolarity" / "annotations.csv"),
        "CEBaB, four aspects": lambda: Annotations.read(data / "cebab_aspects" / "annotations.csv"),
        "CivilComments, 24 judges": lambda: read_panel(data / "civilcomments_judges" / "panel.csv"),
        "DICES-350, 123 raters": lambda: read_panel(next((data / "dices350").glob("*.csv"))),
        **{
            f"LLMBar, {subset}": (lambda subset=subset: llmbar(data / "llmbar_judges", subset))
            for subset in ("Processed/LLMEval^2", "Processed/MT-Bench", "LLMBar/Natural")
        },
    }
    for name, read in tables.items():
        table = read()
        assert table.gold is not None
        table = table.take_items(np.flatnonzero(table.gold >= 0))
        truth = np.asarray(table.gold, np.int64)
        row = Row(f"{name} | {int(table.option_counts.max())} | none | {table.n_items:,} items", starred=True)
        found = estimate(table.without_gold())
        accuracy, counts = shares_right(table, truth)
        row.add(found, table, truth, accuracy, counts >= LEAST)
        yield row, table


def llmbar(folder: Path, subset: str) -> Annotations:
    """The verdicts of all judges, in both orders, on one subset of LLMBar."""
    pairs = pd.read_csv(folder / "pairs.csv", dtype=str).query("subset == @subset")
    rows = pd.read_csv(folder / "verdicts.csv", dtype=str).merge(pairs[["item", "gold"]], on="item")
    return Annotations.from_pandas(rows.assign(text=rows["item"]))


# -------------------------------------------------------------------- pictures and words


def groups_of(confidence: Floats) -> list[Ints]:
    """Ten groups of items from the least to the most sure, equally large; five where there are under 1,000 items."""
    return np.array_split(np.argsort(confidence, kind="stable"), 10 if len(confidence) >= 1000 else 5)


def diagrams(rows: list[Row]) -> Figure:
    """Reliability diagrams, two by two: on the diagonal labels are right as often as their confidence says."""
    figure = Figure(figsize=(8, 3 * -(-len(rows) // 2)), layout="constrained")
    figure.suptitle("How often labels are right, by their confidence")
    for place, row in enumerate(rows, start=1):
        confidence, right = np.concatenate(row.confidence), np.concatenate(row.right)
        points = [(float(confidence[g].mean()), float(right[g].mean()), len(g)) for g in groups_of(confidence)]
        mean, share, n = np.array(points).T
        axes = figure.add_subplot(-(-len(rows) // 2), 2, place, title=row.name.split(" | ")[0])
        axes.plot([0.3, 1], [0.3, 1], "--", color="#59636e", linewidth=0.8)
        axes.errorbar(mean, share, 1.96 * np.sqrt(share * (1 - share) / n), fmt="o", markersize=4, color=COLOURS[0])
        axes.set(xlim=(0.3, 1), ylim=(0.3, 1), xlabel="confidence", ylabel="share that is right")
    return figure


HEADER = (
    "| crowd | K | model | annotators x labels, per item | coverage | confidence / right | calibration | sure, wrong | "
    "truly reliable | reliable, called chance | shared error | missed |\n" + "|---" * 12 + "|"
)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--quick", action="store_true", help="a part of the sizes, two pools each")
    parser.add_argument("--pictures", type=Path, help="where the reliability diagrams are written")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    print(HEADER, flush=True)
    misses = []
    rows = []
    if args.data.exists():
        for row, _ in real(args.data):
            rows.append(row)
            print(row, flush=True)
            misses += [(row.name, each) for each in row.misses if row.asked]
    for row in simulated(args.quick):
        print(row, flush=True)
        misses += [(row.name, each) for each in row.misses if row.asked]
    if not rows:
        print("\nThe real data sets are not beside this checkout: left out.")
    elif args.pictures:
        save(diagrams(rows[:4]), args.pictures / "reliability.svg")
    print(f"\n{len(misses)} figures were missed" + "".join(f"\n- {name}: {what}" for name, what in misses))
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
