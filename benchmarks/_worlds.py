"""Worlds: crowds of known kinds who label items of known truth, real tables with gold, and how right an answer is.

A world is a function from a random stream and the true labels to a `Crowd`; `aggregation` and training share them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks._crowds import draw, even_errors
from realm.data import Annotations, Items, Task

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
UNKNOWN = -1
LEAST_LABELS = 20
"""Labels with gold from which an annotator's accuracy counts for coverage and rank."""


@dataclass(frozen=True, eq=False)
class Crowd:
    """Annotations as arrays with what is true: `gold` (items,) -1 where unknown; `accuracy` (annotators,) true ones."""

    item: Ints
    annotator: Ints
    label: Ints
    gold: Ints
    n_options: int
    accuracy: Floats
    texts: list[str] | None = None
    probs: Floats | None = None
    kind: str = "people"
    sizes: Ints = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", np.bincount(self.annotator, minlength=len(self.accuracy)))

    @property
    def n_items(self) -> int:
        return len(self.gold)

    @property
    def per_item(self) -> float:
        return len(self.item) / max(len(np.unique(self.item)), 1)

    def subset(self, rows: npt.NDArray[Any]) -> Crowd:
        """The crowd of these annotations alone; items without any stay."""
        return crowd_of(self.item[rows], self.annotator[rows], self.label[rows], self.gold, self.n_options,
                        texts=self.texts, kind=self.kind, n_annotators=len(self.accuracy))  # fmt: skip

    def votes(self) -> Floats:
        """How many annotators gave each label. Shape (items, options)."""
        counts = np.bincount(self.item * self.n_options + self.label, minlength=self.n_items * self.n_options)
        return counts.reshape(self.n_items, self.n_options).astype(float)

    def annotations(self) -> Annotations:
        """The table of this project."""
        names = [str(item) for item in range(self.n_items)]
        items = Items.from_texts(names if self.texts is None else self.texts,
                                 [Task("task", tuple(f"label {k}" for k in range(self.n_options)))])  # fmt: skip
        order = np.argsort(self.item, kind="stable")
        return Annotations(
            items=items,
            annotators=tuple(f"annotator {j}" for j in range(len(self.accuracy))),
            item=self.item[order].astype(np.int32),
            annotator=self.annotator[order].astype(np.int32),
            label=self.label[order].astype(np.int32),
        )


def crowd_of(
    item: Ints, annotator: Ints, label: Ints, gold: Ints, n_options: int, *, accuracy: Floats | None = None,
    n_annotators: int | None = None, **more: Any,
) -> Crowd:  # fmt: skip
    """A crowd whose true accuracies are the shares of their labels that are right, unless said otherwise."""
    if accuracy is None:
        count = int(annotator.max()) + 1 if n_annotators is None else n_annotators
        known = gold[item] != UNKNOWN
        total = np.bincount(annotator[known], minlength=count)
        hits = np.bincount(annotator[known], label[known] == gold[item][known], minlength=count)
        accuracy = np.where(total >= LEAST_LABELS, hits / np.maximum(total, 1), np.nan)
    return Crowd(item, annotator, label, gold, n_options, accuracy, **more)


def assigned(rng: np.random.Generator, n_items: int, n_annotators: int, per_item: int | None) -> tuple[Ints, Ints]:
    """Who labels what: `per_item` different annotators for each item, all of them where None."""
    per_item = n_annotators if per_item is None else min(per_item, n_annotators)
    who = rng.random((n_items, n_annotators)).argsort(axis=1)[:, :per_item]
    return np.repeat(np.arange(n_items), per_item), np.sort(who, axis=1).ravel()


def by_matrices(rng: np.random.Generator, truth: Ints, matrices: Floats, per_item: int | None) -> Crowd:
    """Independent labels by confusion matrices (annotators, truth, label)."""
    item, who = assigned(rng, len(truth), len(matrices), per_item)
    label = draw(rng, matrices[who, truth[item]])
    right = matrices[who, truth[item], truth[item]]
    sizes = np.maximum(np.bincount(who, minlength=len(matrices)), 1)
    accuracy = np.bincount(who, right, minlength=len(matrices)) / sizes
    return Crowd(item, who, label, truth, matrices.shape[2], accuracy)


# -------------------------------------------------------------------- kinds of crowds, as confusion matrices or labels


def guessers(count: int, options: int, among: int | None = None) -> Floats:
    """Annotators who guess evenly, among all labels or the first `among`. Shape (count, options, options)."""
    guess = np.zeros(options)
    guess[: among or options] = 1 / (among or options)
    return np.broadcast_to(guess, (count, options, options)).copy()


def experts_among_guessers(
    rng: np.random.Generator, truth: Ints, options: int, per_item: int | None, *, experts: int, people: int,
    right: float = 0.9, among: int | None = None,
) -> Crowd:  # fmt: skip
    matrices = guessers(people, options, among)
    matrices[rng.permutation(people)[:experts]] = even_errors(np.full(experts, right), options)
    return by_matrices(rng, truth, matrices, per_item)


def of_accuracies(accuracies: Floats) -> Callable[..., Crowd]:
    """Annotators of these accuracies who err evenly."""

    def world(rng: np.random.Generator, truth: Ints, options: int, per_item: int | None) -> Crowd:
        return by_matrices(rng, truth, even_errors(accuracies, options), per_item)

    return world


def inverted(rng: np.random.Generator, truth: Ints, options: int, per_item: int | None) -> Crowd:
    """Four of ten say the opposite; .9 of the labels are as meant."""
    return by_matrices(rng, truth, even_errors(np.repeat([0.1, 0.9], [4, 6]), options), per_item)


def clique(rng: np.random.Generator, truth: Ints, options: int, per_item: int | None) -> Crowd:
    """Five of ten give what one wrong source (.4) says; the others are right in .8."""
    crowd = by_matrices(rng, truth, even_errors(np.full(10, 0.8), options), per_item)
    source = draw(rng, even_errors(np.array([0.4]), options)[0, truth])
    copied = crowd.annotator < 5
    label = np.where(copied & (rng.random(len(copied)) < 0.97), source[crowd.item], crowd.label)
    return crowd_of(crowd.item, crowd.annotator, label, truth, options)


def permuted(rng: np.random.Generator, truth: Ints, options: int, per_item: int | None) -> Crowd:
    """Four of ten mix up the names of the labels, each in their own way; .85 of the labels are as meant."""
    matrices = even_errors(np.full(10, 0.85), options)
    for j in range(4):
        shift = 1 + rng.integers(options - 1)
        matrices[j] = np.roll(matrices[j], shift, axis=1)
    return by_matrices(rng, truth, matrices, per_item)


def class_dependent(rng: np.random.Generator, truth: Ints, options: int, per_item: int | None) -> Crowd:
    """Every annotator knows some labels and not others."""
    right = rng.uniform(0.4, 0.98, (10, options))
    errors = rng.dirichlet(np.ones(options), (10, options)) * (1 - np.eye(options))
    errors /= errors.sum(axis=2, keepdims=True)
    return by_matrices(rng, truth, right[..., None] * np.eye(options) + (1 - right)[..., None] * errors, per_item)


def shared_confusion(rng: np.random.Generator, truth: Ints, options: int, per_item: int | None) -> Crowd:
    """Everybody takes class 1 for class 0 half of the time; .85 are right of the rest."""
    matrices = even_errors(np.full(10, 0.85), options)
    matrices[:, 1] *= 0.5
    matrices[:, 1, 0] += 0.5
    return by_matrices(rng, truth, matrices, per_item)


def constant(rng: np.random.Generator, truth: Ints, options: int, per_item: int | None) -> Crowd:
    """Three of ten always give the same label, the same for two of them; the others are right in .75."""
    matrices = even_errors(np.full(10, 0.75), options)
    for j, answer in enumerate((0, 0, options - 1)):
        matrices[j] = np.eye(options)[answer]
    return by_matrices(rng, truth, matrices, per_item)


def favourites(rng: np.random.Generator, truth: Ints, options: int, per_item: int | None) -> Crowd:
    """Annotators read with a probability of .35 to .95 and else mostly give a favourite label of their own."""
    reads, habit = np.linspace(0.35, 0.95, 10), rng.dirichlet(np.full(options, 0.4), 10)
    return by_matrices(
        rng, truth, reads[:, None, None] * np.eye(options) + (1 - reads)[:, None, None] * habit[:, None], per_item
    )


def rare_class_missed(rng: np.random.Generator, truth: Ints, options: int, per_item: int | None) -> Crowd:
    """Everybody takes the last class for the first in .6 of the cases; else right in .75 to .95."""
    matrices = even_errors(np.linspace(0.75, 0.95, 10), options)
    matrices[:, -1] *= 0.4
    matrices[:, -1, 0] += 0.6
    return by_matrices(rng, truth, matrices, per_item)


def long_tail(rng: np.random.Generator, truth: Ints, options: int, per_item: int | None) -> Crowd:
    """Annotators of 2 to 10 labels each, five labels per item; accuracies around .75."""
    slots = len(truth) * (per_item or 5)
    sizes = rng.integers(2, 11, slots)
    sizes = sizes[: int(np.searchsorted(np.cumsum(sizes), slots)) + 1]
    who = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))[:slots]
    item = np.repeat(np.arange(len(truth)), per_item or 5)
    matrices = even_errors(rng.beta(6, 2, len(sizes)), options)
    label = draw(rng, matrices[who, truth[item]])
    first = np.unique(item * len(sizes) + who, return_index=True)[1]
    accuracy = matrices[:, 0, 0]
    return Crowd(item[first], who[first], label[first], truth, options, accuracy)


def copying_pairs(rng: np.random.Generator, truth: Ints, options: int, per_item: int | None) -> Crowd:
    """Ten annotators of .55 to .95; every second one copies the one before."""
    crowd = by_matrices(rng, truth, even_errors(np.linspace(0.55, 0.95, 5).repeat(2), options), per_item)
    table = draw(rng, even_errors(np.linspace(0.55, 0.95, 5), options)[:, truth].reshape(-1, options))
    label = table.reshape(5, -1)[crowd.annotator // 2, crowd.item]
    return crowd_of(crowd.item, crowd.annotator, label, truth, options)


# -------------------------------------------------------------------- who was asked depends on the item


def class_mix(rng: np.random.Generator, truth: Ints, options: int, per_item: int | None) -> Crowd:
    """Every annotator saw mostly some classes; all are right in .8."""
    weight = rng.dirichlet(np.full(options, 0.4), 10)
    return _asked(rng, truth, options, per_item, np.log(weight + 1e-9)[:, truth].T)


def one_region(rng: np.random.Generator, truth: Ints, options: int, per_item: int | None) -> Crowd:
    """Every annotator saw one class in .9 of the cases; all are right in .8."""
    own = np.arange(10) % options
    return _asked(
        rng, truth, options, per_item, np.log(np.where(own[None] == truth[:, None], 0.9, 0.1 / (options - 1)))
    )


def _asked(rng: np.random.Generator, truth: Ints, options: int, per_item: int | None, scores: Floats) -> Crowd:
    per_item = per_item or 10
    who = np.sort((-(scores + rng.gumbel(size=scores.shape))).argsort(axis=1)[:, :per_item], axis=1).ravel()
    item = np.repeat(np.arange(len(truth)), per_item)
    label = draw(rng, even_errors(np.full(10, 0.8), options)[who, truth[item]])
    return Crowd(item, who, label, truth, options, np.full(10, 0.8))


def dominant(rng: np.random.Generator, truth: Ints, options: int, per_item: int | None) -> Crowd:
    """One annotator who always gives the same label gave 40% of the labels; the others are right in .8."""
    matrices = even_errors(np.full(10, 0.8), options)
    matrices[0] = np.eye(options)[0]
    per_item = per_item or 10
    scores = np.zeros((len(truth), 10))
    scores[:, 0] = np.log(0.4 * 9 / 0.6) if per_item == 1 else 3.0
    who = np.sort((-(scores + rng.gumbel(size=scores.shape))).argsort(axis=1)[:, :per_item], axis=1).ravel()
    item = np.repeat(np.arange(len(truth)), per_item)
    accuracy = matrices[:, np.arange(options), np.arange(options)] @ (
        np.bincount(truth, minlength=options) / len(truth)
    )
    return Crowd(item, who, draw(rng, matrices[who, truth[item]]), truth, options, accuracy)


# -------------------------------------------------------------------- real tables


def real_crowds(data: Path) -> dict[str, Crowd]:
    """The real tables at hand that have gold, by name; one for each task."""
    crowds = {"SentPolarity": from_long(pd.read_csv(data / "sentpolarity/annotations.csv"))}
    aspects = pd.read_csv(data / "cebab_aspects/annotations.csv")
    for aspect, rows in aspects.groupby("task", sort=True):
        crowds[f"CEBaB {aspect}"] = from_long(rows)
    crowds["CivilComments, 24 judges"] = from_panel(data / "civilcomments_judges/panel.csv", "models")
    crowds["DICES-350"] = from_panel(data / "dices350/panel.csv")
    pairs, verdicts = (pd.read_csv(data / f"llmbar_judges/{name}.csv") for name in ("pairs", "verdicts"))
    crowds["LLMBar, all subsets"] = from_long(
        verdicts.assign(text=verdicts["item"]).merge(pairs[["item", "gold"]], on="item", how="left"), "models"
    )
    return crowds


def from_long(rows: pd.DataFrame, kind: str = "people") -> Crowd:
    """A crowd of a table with the columns item, text, annotator, label, gold. A pair's last label counts."""
    rows = rows.drop_duplicates(["item", "annotator"], keep="last").dropna(subset=["label"])
    options = sorted(set(rows["label"].astype(str)) | set(rows["gold"].dropna().astype(str).str.removesuffix(".0")))
    index = {option: k for k, option in enumerate(options)}
    item, names = pd.factorize(rows["item"])
    annotator, _ = pd.factorize(rows["annotator"])
    firsts = rows.drop_duplicates("item").set_index("item").loc[names]
    gold = firsts["gold"].astype(object).map(lambda g: UNKNOWN if pd.isna(g) else index[str(g).removesuffix(".0")])
    label = rows["label"].astype(str).map(index).to_numpy(np.int64)
    texts = list(firsts["text"].astype(str))
    return crowd_of(
        item.astype(np.int64),
        annotator.astype(np.int64),
        label,
        gold.to_numpy(np.int64),
        len(options),
        texts=texts,
        kind=kind,
    )


def from_panel(file: Path, kind: str = "people") -> Crowd:
    """A crowd of a table with the columns item, text, gold and then one for each annotator."""
    wide = pd.read_csv(file)
    names = list(wide.columns[3:])
    long = wide.melt(id_vars=["item", "text", "gold"], value_vars=names, var_name="annotator", value_name="label")
    return from_long(long.dropna(subset=["label"]), kind)


def some_per_item(crowd: Crowd, rng: np.random.Generator, count: int) -> Crowd:
    """`count` annotations of every item, drawn at random."""
    order = np.lexsort([rng.random(len(crowd.item)), crowd.item])
    item = crowd.item[order]
    start = np.r_[0, np.flatnonzero(np.diff(item)) + 1]
    position = np.arange(len(item)) - np.repeat(start, np.diff(np.r_[start, len(item)]))
    return crowd.subset(np.sort(order[position < count]))


# -------------------------------------------------------------------- how right


@dataclass(frozen=True)
class Answer:
    """Posterior (items, options), and what is said of annotators: accuracy and interval (annotators,)."""

    posterior: Floats
    accuracy: Floats
    low: Floats | None = None
    high: Floats | None = None


def figures(crowd: Crowd, answer: Answer) -> dict[str, float]:
    """How right the labels are (on items with gold and annotations) and what is said of annotators."""
    labelled = np.bincount(crowd.item, minlength=crowd.n_items) > 0
    known = np.flatnonzero((crowd.gold != UNKNOWN) & labelled)
    gold, posterior = crowd.gold[known], answer.posterior[known]
    label, confidence = posterior.argmax(axis=1), posterior.max(axis=1)
    right = label == gold
    judged = np.isfinite(crowd.accuracy) & (crowd.sizes >= LEAST_LABELS) & np.isfinite(answer.accuracy)
    result = {
        "right": float(right.mean()),
        "f1": macro_f1(gold, label, crowd.n_options),
        "log_loss": float(-np.log(np.maximum(posterior[np.arange(len(gold)), gold], 1e-6)).mean()),
        "confidence": float(confidence.mean()),
        "sure99": int((confidence >= 0.99).sum()),
        "wrong99": int((~right)[confidence >= 0.99].sum()),
        "sure90": int((confidence >= 0.9).sum()),
        "wrong90": int((~right)[confidence >= 0.9].sum()),
        "rank": spearman(answer.accuracy[judged], crowd.accuracy[judged]),
        "judged": int(judged.sum()),
    }
    if answer.low is not None and answer.high is not None and judged.any():
        true = crowd.accuracy[judged]
        result["covered"] = int(((answer.low[judged] <= true) & (true <= answer.high[judged])).sum())
        result["bias"] = float((answer.accuracy[judged] - true).mean())
        result["width"] = float((answer.high[judged] - answer.low[judged]).mean())
    return result


def macro_f1(gold: Ints, label: Ints, options: int) -> float:
    """The mean of F1 over the classes that gold has."""
    hit = np.bincount(gold[gold == label], minlength=options)
    total = np.bincount(gold, minlength=options) + np.bincount(label, minlength=options)
    present = np.bincount(gold, minlength=options) > 0
    return float((2 * hit[present] / np.maximum(total[present], 1)).mean())


def spearman(x: Floats, y: Floats) -> float:
    """Rank correlation; NaN where either does not vary (all true accuracies alike)."""
    if len(x) < 3 or np.ptp(x) < 1e-9 or np.ptp(y) < 1e-9:
        return float("nan")
    return float(pd.Series(x).corr(pd.Series(y), method="spearman"))


def mean_correctness(crowd: Crowd, posterior: Floats) -> Floats:
    """Each annotator's mean posterior probability of the labels that they gave: an accuracy for any aggregation."""
    sums = np.bincount(crowd.annotator, posterior[crowd.item, crowd.label], minlength=len(crowd.accuracy))
    return np.asarray(sums / np.maximum(crowd.sizes, 1))


# -------------------------------------------------------------------- ours


def ours(crowd: Crowd, log_probs: Floats | None = None) -> Answer:
    """This project's estimate of labels and annotators, with or without a model's log P (items, options)."""
    from realm.crowd.estimate import estimate

    estimates = estimate(crowd.annotations(), None if log_probs is None else np.exp(log_probs), kind=crowd.kind)
    return Answer(
        estimates.posterior[:, : crowd.n_options], estimates.accuracy[:, 0], estimates.low[:, 0], estimates.high[:, 0]
    )
