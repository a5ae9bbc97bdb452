"""How often the 95% intervals of accuracy hold the truth, averaged over annotators drawn from a pool.

    python -m benchmarks.coverage

(a) P known: the coverage must lie between 93% and 97% in every row, and partial pooling must have a lower mean squared
error than the raw maximum-likelihood estimate for annotators with under 20 labels. (b) P out of fold from a trained
model, several labels per item; (c) the same with one label per item: reported as measured, with the bias. `tempered`
is P out of fold as `--cross-fit` uses it, softened where agreement asks for it (`realm.crowd.calibration`).
`benchmarks.honesty` has crowds with habits, copies and shared errors, and real annotators.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from realm.crowd.calibration import temperature, tempered
from realm.crowd.coin import Coin
from realm.crowd.estimate import Estimate, estimate
from realm.crowd.evidence import JointLikelihood
from realm.data import Annotations

from ._crowds import annotate, draw

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

POOLS = [(8.0, 2.0), (4.0, 2.0), (16.0, 4.0)]
PER_ITEM = [1, 3, 5]
SIZES = [(5, 30), (10, 10), (10, 100), (50, 10), (50, 30), (20, 1000), (200, 10)]
"""(annotators, labels of each): 10 to 1,000 labels, pools of 5 to 200."""
ANNOTATORS_PER_ROW = 2700
"""Annotators drawn for each row of (a)."""


@dataclass
class Tally:
    """What was measured over pools: one entry per pool, and squared errors of annotators with under 20 labels."""

    coverage: list[float] = field(default_factory=list)
    bias: list[float] = field(default_factory=list)
    width: list[float] = field(default_factory=list)
    cleaned: list[float] = field(default_factory=list)
    pooled: list[float] = field(default_factory=list)
    raw: list[float] = field(default_factory=list)

    def add(self, estimates: Estimate, accuracy: Floats, truth: Ints) -> None:
        active = estimates.annotations[:, 0] > 0
        low, high, mean = estimates.low[active, 0], estimates.high[active, 0], estimates.accuracy[active, 0]
        self.coverage.append(float(np.mean((low <= accuracy[active]) & (accuracy[active] <= high))))
        self.bias.append(float(np.mean(mean - accuracy[active])))
        self.width.append(float(np.mean(high - low)))
        self.cleaned.append(float(np.mean(estimates.posterior.argmax(axis=1) == truth)))

    def add_errors(self, estimates: Estimate, plain: Floats, accuracy: Floats) -> None:
        few = (estimates.annotations[:, 0] > 0) & (estimates.annotations[:, 0] < 20)
        self.pooled.extend((estimates.accuracy[few, 0] - accuracy[few]) ** 2)
        self.raw.extend((plain[few] - accuracy[few]) ** 2)

    @property
    def error(self) -> float:
        """Standard error of the coverage, pools being the independent draws."""
        return float(np.std(self.coverage) / len(self.coverage) ** 0.5)


# -------------------------------------------------------------------- (a) P known


def known_p(
    options: int, annotators: int, labels: int, seed: int = 0, annotators_per_row: int = ANNOTATORS_PER_ROW
) -> Tally:
    """P is the distribution the truth is drawn from; pools, labels per item and seeds in turn."""
    tally = Tally()
    kinds = itertools.cycle(itertools.product(POOLS, PER_ITEM))
    rng = np.random.default_rng([seed, options, annotators, labels])
    for _ in range(max(annotators_per_row // annotators, 27) if labels < 1000 else 18):
        pool, per_item = next(kinds)
        per_item = min(per_item, annotators)
        accuracy = rng.beta(*pool, annotators)
        probs = rng.dirichlet(np.full(options, 0.5), max(annotators * labels // per_item, 1))
        truth = draw(rng, probs)
        table, _ = annotate(rng, truth, accuracy, per_item, options)
        log_probs = np.log(np.maximum(probs, 1e-300))
        estimates = estimate(table, log_probs)
        tally.add(estimates, accuracy, truth)
        if (estimates.annotations[:, 0] < 20).any():
            joint = JointLikelihood(table, log_probs, Coin.of(table))
            tally.add_errors(estimates, joint.fit(np.full(table.n_annotators, 0.7)), accuracy)
    return tally


# -------------------------------------------------------------------- (b), (c) P from a trained model


def train(features: Floats, table: Annotations, options: int, decay: float) -> Floats:
    """Softmax regression and expertise by the paper's loss, jointly. Returns weights (features, options)."""
    n, width = features.shape
    people = table.n_annotators
    hot = np.eye(options)[table.label]

    def loss(parameters: Floats) -> tuple[float, Floats]:
        weights, omega = parameters[: width * options].reshape(width, options), parameters[width * options :]
        logits = features @ weights
        probs = np.exp(logits - logits.max(axis=1, keepdims=True))
        probs /= probs.sum(axis=1, keepdims=True)
        beta = 1 / (1 + np.exp(-omega[table.annotator]))
        p = probs[table.item, table.label]
        likelihood = beta * p + (1 - beta) / options
        expertise_share = beta * p / likelihood
        pull = np.zeros_like(probs)
        for k in range(options):
            step = expertise_share * (hot[:, k] - probs[table.item, k])
            pull[:, k] = np.bincount(table.item, step, minlength=n)
        slope = np.bincount(table.annotator, beta * (1 - beta) * (p - 1 / options) / likelihood, minlength=people)
        count = table.n_annotations
        value = -np.log(likelihood).sum() / count + decay / 2 * (weights**2).sum()
        return value, np.concatenate([(-(features.T @ pull) / count + decay * weights).ravel(), -slope / count])

    solution = minimize(loss, np.zeros(width * options + people), jac=True, method="L-BFGS-B", options={"maxiter": 200})
    weights: Floats = solution.x[: width * options].reshape(width, options)
    return weights


def log_softmax(logits: Floats) -> Floats:
    top = logits - logits.max(axis=1, keepdims=True)
    out: Floats = top - np.log(np.exp(top).sum(axis=1, keepdims=True))
    return out


@dataclass(frozen=True)
class Model:
    """How well a model can do: how many features it sees, how many items there are, and its weight decay."""

    name: str
    features: int
    items: int
    decay: float


MODELS = [
    Model("well trained", features=10, items=1500, decay=1e-3),
    Model("decayed too much (underconfident)", features=10, items=1500, decay=5e-2),
    Model("overfitted (overconfident)", features=60, items=600, decay=1e-5),
]
SOURCES = ["known", "out of fold", "out of fold, tempered", "in-sample"]


def trained_p(model: Model, per_item: int, *, options: int = 3, pools: int = 30, seed: int = 0) -> dict[str, Tally]:
    """Coverage with the true P, P out of fold (5 folds, as it is and tempered) and P in-sample; 30 annotators."""
    tallies = {source: Tally() for source in SOURCES}
    rng = np.random.default_rng([seed, per_item, model.features])
    for _ in range(pools):
        features = rng.normal(size=(model.items, model.features))
        truth_logits = features @ rng.normal(size=(model.features, options)) * (2.5 / model.features**0.5)
        truth = draw(rng, np.exp(log_softmax(truth_logits)))
        accuracy = rng.beta(8, 3, 30)
        table, _ = annotate(rng, truth, accuracy, per_item, options)
        log_probs = {"known": log_softmax(truth_logits)}
        log_probs["in-sample"] = log_softmax(features @ train(features, table, options, model.decay))
        apart = np.empty_like(truth_logits)
        fold = rng.permutation(model.items) % 5
        for f in range(5):
            inside, outside = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
            weights = train(features[inside], table.take_items(inside), options, model.decay)
            apart[outside] = log_softmax(features[outside] @ weights)
        log_probs["out of fold"] = apart
        log_probs["out of fold, tempered"] = tempered(apart, max(temperature(table, apart), 1.0))
        for source in SOURCES:
            tallies[source].add(estimate(table, log_probs[source]), accuracy, truth)
    return tallies


def main() -> None:
    print("(a) P known: coverage of the 95% interval, pools and labels per item in turn\n")
    print("| K | annotators | labels each | drawn | coverage | mean width | MSE pooled / raw (under 20 labels) |")
    print("|---|---|---|---|---|---|---|")
    everything = []
    for options in (2, 3, 4, 5):
        for annotators, labels in SIZES:
            tally = known_p(options, annotators, labels)
            coverage = float(np.mean(tally.coverage))
            everything.append(coverage)
            squares = "" if not tally.pooled else f"{np.mean(tally.pooled):.4f} / {np.mean(tally.raw):.4f}"
            print(
                f"| {options} | {annotators} | {labels} | {annotators * len(tally.coverage)} | "
                f"{coverage:.1%} ± {tally.error:.1%} | {np.mean(tally.width):.3f} | {squares} |",
                flush=True,
            )
            assert 0.93 <= coverage <= 0.97, f"K={options}, {annotators} annotators, {labels} labels: {coverage:.1%}"
            if len(tally.pooled) > 100:
                assert np.mean(tally.pooled) < np.mean(tally.raw), "partial pooling must beat the raw estimate"
    print(f"\nall rows: {np.mean(everything):.1%}\n")
    print("(b), (c) P from a trained model: 30 annotators, K=3, 30 pools, as measured\n")
    print("| data | model | P | coverage | bias of accuracy | mean width | cleaned labels right |")
    print("|---|---|---|---|---|---|---|")
    for data, per_item in (("(b) three labels per item", 3), ("(c) one label per item", 1)):
        for model in MODELS:
            for source, tally in trained_p(model, per_item).items():
                print(
                    f"| {data} | {model.name} | {source} | {np.mean(tally.coverage):.1%} ± {tally.error:.1%} | "
                    f"{np.mean(tally.bias):+.3f} | {np.mean(tally.width):.3f} | {np.mean(tally.cleaned):.3f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
