"""A head trained on labels of known crowds: the one model of annotators beside the labels themselves, vote and peers.

    python -m benchmarks.worlds --data DATA --results FOLDER [--only WORD] [--real] [--sizes 500] [--seeds 3]
    python -m benchmarks.worlds --data DATA --results FOLDER --table          # what is there so far
    python -m benchmarks.worlds --quick                                        # one small world of random features

Frozen MiniLM features under its pooler and a linear head, both trained: 16 items a step, AdamW, 1e-3, cosine. Classes
are clusters of sentences (`cl3`: three) or real sentiment (`sp`). Features and finished runs stay in FOLDER; a run is
known by its settings and, for ours, by the code of the model of annotators.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
import torch
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

import realm.crowd
from benchmarks import _worlds, crowds_from_labels
from benchmarks._worlds import Answer, Crowd, Floats

METHODS = ("noisy", "vote", "DS", "MACE", "realm")
BATCH, RATE, EPOCHS, UPDATES, TEST_ITEMS, FOLDS = 16, 1e-3, 3, 4, 1500, 4
"""UPDATES: how often an epoch the model of annotators is fitted to the P recorded before each step."""


class AnnotatorsInTraining(Protocol):
    """What the training loop asks of a model of annotators."""

    def sums(self) -> Floats:
        """What is added to log P of each item: offset and tempered evidence. Shape (items, options)."""

    def update(self, log_probs: Floats) -> None:
        """Fit to P recorded so far (items, options); NaN rows where nothing is."""

    def temperature(self, log_probs: Floats) -> float:
        """T of P^(1/T), from P out of sample (items, options)."""

    def answer(self, log_probs: Floats) -> Answer:
        """Labels and annotators."""


# -------------------------------------------------------------------- features and tables


@dataclass(frozen=True, eq=False)
class Table:
    """Features of the items and of test items with their truth; a head's pooler starts from `pooler`."""

    crowd: Crowd
    features: Floats
    test_features: Floats
    test_gold: Any
    pooler: tuple[Floats, Floats]


def encoder_folder() -> Path:
    from realm.models.store import fetch

    return Path(fetch("minilm-l6"))


def embed(texts: list[str], folder: Path) -> tuple[Floats, Floats]:
    """The last hidden state of the first token, and the mean over tokens. Shapes (texts, width); kept in a file."""
    file = folder / "features" / f"{zlib.crc32(chr(0).join(texts).encode()):08x}-{len(texts)}.npy"
    if not file.exists():
        from transformers import AutoModel, AutoTokenizer

        tokenizer, model = (auto.from_pretrained(encoder_folder()) for auto in (AutoTokenizer, AutoModel))
        states = np.zeros((2, len(texts), model.config.hidden_size), np.float32)
        order = np.argsort([len(text) for text in texts])
        model.eval()
        for start in range(0, len(texts), 64):
            rows = order[start : start + 64]
            batch = tokenizer(
                [texts[i] for i in rows], padding=True, truncation=True, max_length=128, return_tensors="pt"
            )
            with torch.no_grad():
                hidden = model(**batch).last_hidden_state
            mask = batch["attention_mask"][..., None]
            states[0, rows] = hidden[:, 0].numpy()
            states[1, rows] = ((hidden * mask).sum(1) / mask.sum(1)).numpy()
        file.parent.mkdir(parents=True, exist_ok=True)
        np.save(file, states)
    first, mean = np.load(file)
    return first, mean


def pooler() -> tuple[Floats, Floats]:
    """Weight and bias of the encoder's own pooler."""
    from safetensors.numpy import load_file

    weights = load_file(encoder_folder() / "model.safetensors")
    return weights["pooler.dense.weight"], weights["pooler.dense.bias"]


class Sentences:
    """Sentences of SentPolarity with their sentiment, and clusters of them."""

    def __init__(self, data: Path, folder: Path) -> None:
        train, test = pd.read_csv(data / "sentpolarity/annotations.csv"), pd.read_csv(data / "sentpolarity/test.csv")
        rows = pd.concat([train.drop_duplicates("item"), test])
        self.first, self.mean = embed(list(rows["text"].astype(str)), folder)
        self.sentiment = (rows["gold"] == "positive").to_numpy(np.int64)
        self.clusters: dict[int, Any] = {}
        self.pooler = pooler()

    def classes(self, kind: str) -> Any:
        """The truth of every sentence: `sp` sentiment, `clK` one of K clusters."""
        if kind == "sp":
            return self.sentiment
        options = int(kind.removeprefix("cl"))
        if options not in self.clusters:
            from sklearn.cluster import KMeans

            directions = self.mean / np.linalg.norm(self.mean, axis=1, keepdims=True)
            self.clusters[options] = KMeans(options, n_init=4, random_state=0).fit_predict(directions).astype(np.int64)
        return self.clusters[options]

    def table(self, kind: str, make: Callable[..., Crowd], per_item: int, items: int, seed: int) -> Table:
        truth, rng = self.classes(kind), np.random.default_rng([seed, per_item])
        rows = rng.permutation(len(truth))
        train, test = rows[:items], rows[items : items + TEST_ITEMS]
        crowd = make(rng, truth[train], int(truth.max()) + 1, per_item)
        return Table(crowd, self.first[train], self.first[test], truth[test], self.pooler)


MIXED, LONG = np.linspace(0.55, 0.95, 10), np.linspace(0.55, 0.95, 60)
WORLDS: dict[str, tuple[str, Callable[..., Crowd]]] = {
    "clique": ("cl3", _worlds.clique),
    "shared confusion": ("cl3", _worlds.shared_confusion),
    "inverted": ("sp", _worlds.inverted),
    "one expert": ("cl5", lambda *a: _worlds.experts_among_guessers(*a, experts=1, people=10)),
    "one good": ("cl5", _worlds.of_accuracies(np.r_[0.95, np.full(9, 0.3)])),
    "mixed": ("cl3", _worlds.of_accuracies(MIXED)),
    "mixed sp": ("sp", _worlds.of_accuracies(MIXED)),
    "equal": ("cl3", _worlds.of_accuracies(np.full(10, 0.8))),
    "permuted": ("cl5", _worlds.permuted),
    "favourites": ("cl3", _worlds.favourites),
    "constant": ("cl3", _worlds.constant),
    "dominant": ("cl3", _worlds.dominant),
    "class-dependent": ("cl5", _worlds.class_dependent),
    "class mix": ("cl5", _worlds.class_mix),
    "one region": ("cl5", _worlds.one_region),
    "class mix sp": ("sp", _worlds.class_mix),
    "rare missed": ("cl3", _worlds.rare_class_missed),
    "copying pairs": ("cl3", _worlds.copying_pairs),
    "K=10": ("cl10", _worlds.of_accuracies(MIXED)),
    "K=30": ("cl30", _worlds.of_accuracies(LONG)),
}


@dataclass(frozen=True)
class RealTable:
    """A real table: how to read its crowd and test items, whom to choose, how many labels per item (None: all)."""

    name: str
    crowd: Callable[[Path], Crowd]
    test: Callable[[Path], pd.DataFrame]
    options: tuple[str, ...]
    per_item: int | None = None
    least: int = 0

    def table(self, data: Path, folder: Path, seed: int) -> Table:
        crowd, test = self.crowd(data), self.test(data)
        if self.least:
            crowd = contrast(crowd, self.least)
        if self.per_item is not None:
            rng = np.random.default_rng([seed, zlib.crc32(self.name.encode())])
            crowd = _worlds.some_per_item(crowd, rng, self.per_item)
        gold = test["gold"].map({option: k for k, option in enumerate(self.options)}).to_numpy(np.int64)
        features, test_features = (
            embed(texts, folder)[0] for texts in (crowd.texts or [], list(test["text"].map(str)))
        )
        return Table(crowd, features, test_features, gold, pooler())


def real_tables() -> Iterator[RealTable]:
    """Real tables at full size, each with its own test items."""
    for least in (0, 10, 100):
        pool = f"contrast-20 of {least}+" if least else "all"
        for regime, count in REGIMES:
            yield RealTable(f"SentPolarity {pool} {regime}", _sentpolarity, _tests("sentpolarity"),
                            ("negative", "positive"), count, least)  # fmt: skip
    for judges in (24, 3, 1):
        count = None if judges == 24 else judges
        yield RealTable(f"CivilComments {judges} per item", _civilcomments, _tests("civilcomments_judges"),
                        ("fine", "toxic"), count)  # fmt: skip
    for aspect in ("food", "service", "ambiance", "noise"):
        for regime, count in REGIMES:
            crowd, test = partial(_aspect_crowd, aspect), partial(_aspect, "test", aspect)
            yield RealTable(f"CEBaB {aspect} {regime}", crowd, test, ("negative", "positive", "unknown"), count)


REGIMES = (("shared", None), ("sparse", 1))


def _tests(name: str) -> Callable[[Path], pd.DataFrame]:
    return lambda data: pd.read_csv(data / name / "test.csv")


def _sentpolarity(data: Path) -> Crowd:
    return _worlds.from_long(pd.read_csv(data / "sentpolarity/annotations.csv"))


def _civilcomments(data: Path) -> Crowd:
    return _worlds.from_panel(data / "civilcomments_judges/panel.csv", "models")


def _aspect_crowd(aspect: str, data: Path) -> Crowd:
    return _worlds.from_long(_aspect("annotations", aspect, data))


def _aspect(part: str, aspect: str, data: Path) -> pd.DataFrame:
    rows = pd.read_csv(data / f"cebab_aspects/{part}.csv")
    return rows[rows["task"] == aspect]


def contrast(crowd: Crowd, least: int, count: int = 20) -> Crowd:
    """The `count` least and the `count` most accurate of those who gave at least `least` labels."""
    hits = np.bincount(crowd.annotator, crowd.label == crowd.gold[crowd.item], minlength=len(crowd.sizes))
    people = np.flatnonzero(crowd.sizes >= least)
    people = people[np.argsort((hits / np.maximum(crowd.sizes, 1))[people], kind="stable")]
    return crowd.subset(np.isin(crowd.annotator, np.r_[people[:count], people[-count:]]))


# -------------------------------------------------------------------- training


class Head(torch.nn.Module):
    """The encoder's pooler and a linear head, as `--train-layers head` trains them."""

    def __init__(self, pooler: tuple[Floats, Floats], options: int, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        weight, bias = (torch.tensor(part, dtype=torch.float32) for part in pooler)
        self.pool, self.head = torch.nn.Linear(*weight.shape), torch.nn.Linear(len(weight), options)
        self.pool.weight.data, self.pool.bias.data = weight, bias
        torch.nn.init.normal_(self.head.weight, std=0.02)
        torch.nn.init.zeros_(self.head.bias)
        self.dropout = torch.nn.Dropout(0.1)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.dropout(torch.tanh(self.pool(features))))
        return logits.log_softmax(1)

    def predict(self, features: Floats) -> Floats:
        self.eval()
        with torch.no_grad():
            return np.asarray(self(torch.tensor(features)).double().numpy())


def train(
    table: Table,
    seed: int,
    epochs: int,
    *,
    targets: Floats | None = None,
    annotators: AnnotatorsInTraining | None = None,
    items: Any = None,
    learns: bool = True,
) -> tuple[Head, Floats]:
    """A trained head, and the log P of every item recorded before the last step on it. Shape (items, options).

    Trains on fixed `targets` (items, options), or on the posterior under a model of annotators that learns on the way:
    the loss is -log sum_k P(k) exp(sums_k), whose gradient in the logits is P minus the posterior. `items` are those
    trained on, all with labels otherwise; the model of annotators stays as it is unless it `learns`.
    """
    crowd, features = table.crowd, torch.tensor(table.features)
    head = Head(table.pooler, crowd.n_options, seed)
    torch.manual_seed(seed + 1)
    units = np.unique(crowd.item) if items is None else items
    per_epoch = math.ceil(len(units) / BATCH)
    total, every = per_epoch * epochs, max(per_epoch // UPDATES, 1)
    optimiser = torch.optim.AdamW(head.parameters(), lr=RATE, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 0.5 * (1 + math.cos(math.pi * step / total)))
    fixed = None if targets is None else torch.tensor(targets, dtype=torch.float32)
    sums = None if annotators is None else torch.tensor(annotators.sums(), dtype=torch.float32)
    log_probs, step = np.full((crowd.n_items, crowd.n_options), np.nan), 0
    for epoch in range(epochs):
        order = np.random.default_rng([seed, epoch]).permutation(units)
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            log_p = head(features[rows])
            if sums is not None:
                loss = -(log_p + sums[rows]).logsumexp(1).mean()
            else:
                assert fixed is not None
                loss = -(fixed[rows] * log_p).sum() / len(rows)
            log_probs[rows] = log_p.detach().double().numpy()
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(head.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            step += 1
            if annotators is not None and learns and step % every == 0:
                annotators.update(log_probs)
                sums = torch.tensor(annotators.sums(), dtype=torch.float32)
    return head, log_probs


def out_of_fold(
    table: Table, seed: int, epochs: int, targets: Floats | None, annotators: AnnotatorsInTraining | None
) -> Floats:
    """log P of every item with labels by a head that was not trained on it; NaN rows elsewhere. (items, options)"""
    units = np.unique(table.crowd.item)
    fold = np.random.default_rng([seed, 9]).permutation(len(units)) % FOLDS
    log_probs = np.full((table.crowd.n_items, table.crowd.n_options), np.nan)
    for each in range(FOLDS):
        others, held = units[fold != each], units[fold == each]
        head, _ = train(table, seed, epochs, targets=targets, annotators=annotators, items=others, learns=False)
        log_probs[held] = head.predict(table.features[held])
    return log_probs


def temperature_of(targets: Floats, log_probs: Floats) -> float:
    """T >= 1 at which P^(1/T) is closest to fixed targets, log T ~ N(0, .5^2): as the model of annotators has it."""
    rows = ~np.isnan(log_probs[:, 0])

    def loss(log_t: float) -> float:
        scaled = log_probs[rows] / np.exp(log_t)
        logs = scaled - logsumexp(scaled, axis=1, keepdims=True)
        return 0.5 * (log_t / 0.5) ** 2 - float((targets[rows] * logs).sum())

    return float(np.exp(minimize_scalar(loss, bounds=(0.0, 3.0), method="bounded").x))


class OneModel:
    """`realm.crowd.model.AnnotatorModel` as the training loop asks for it."""

    def __init__(self, table: Table) -> None:
        from realm.crowd.model import AnnotatorModel

        self.crowd, self.annotations = table.crowd, table.crowd.annotations()
        self.model = AnnotatorModel(self.annotations, kind=table.crowd.kind)
        if table.features is not None:
            self.model.use_features(table.features)
        self.model.fit(waits=True)

    def sums(self) -> Floats:
        model, table, options = self.model, self.annotations, self.crowd.n_options
        weighted = float(model.exponent[0]) * model.weight[:, None] * model.evidence()[:, :options]
        sums = np.asarray(model.item_offset()[:, :options], float).copy()
        np.add.at(sums, table.item, weighted)
        return sums

    def update(self, log_probs: Floats) -> None:
        self.model.update(log_probs)

    def temperature(self, log_probs: Floats) -> float:
        return self.model.best_temperature(log_probs)

    def answer(self, log_probs: Floats) -> Answer:
        estimate = self.model.estimate(log_probs)
        return Answer(estimate.posterior[:, : self.crowd.n_options], *(
            getattr(estimate, name)[:, 0] for name in ("accuracy", "low", "high")))  # fmt: skip


one_model: Callable[[Table], AnnotatorsInTraining] = OneModel


def run(table: Table, method: str, seed: int, epochs: int, folds: bool = False) -> dict[str, Any]:
    """Train by a method; its figures on the test items, of its cleaned labels and of annotators.

    With `folds` P is brought to a temperature out of fold, and labels and annotators are judged by P out of fold, too.
    """
    start = time.perf_counter()
    crowd, annotators, targets = table.crowd, None, None
    votes = crowd.votes()
    if method == "realm":
        annotators = one_model(table)
    elif method == "noisy":
        targets = votes / np.maximum(votes.sum(axis=1, keepdims=True), 1)
    else:
        peer = crowds_from_labels.peer(method, crowd, 3)
        if peer is None:
            return {}
        targets = peer.posterior
        if method == "vote":
            targets = np.eye(crowd.n_options)[targets.argmax(axis=1)]
    head, log_probs = train(table, seed, epochs, targets=targets, annotators=annotators)
    seconds = time.perf_counter() - start
    if annotators is not None:
        answer = annotators.answer(log_probs)
    else:
        answer = Answer(targets, _worlds.mean_correctness(crowd, targets))
    predicted = head.predict(table.test_features)
    gold, label = table.test_gold, predicted.argmax(axis=1)
    labels = {f"labels_{name}": value for name, value in _worlds.figures(crowd, answer).items()}
    if folds:
        outside = out_of_fold(table, seed, epochs, targets, annotators)
        t = temperature_of(targets, outside) if annotators is None else annotators.temperature(outside)
        scaled = predicted / t
        labels["temperature"], labels["temperature_of_gold"] = (
            t,
            temperature_of(np.eye(crowd.n_options)[gold], predicted),
        )
        labels["log_loss_t"] = float(
            -(scaled - logsumexp(scaled, axis=1, keepdims=True))[np.arange(len(gold)), gold].mean()
        )
        if annotators is not None:
            again = _worlds.figures(crowd, annotators.answer(outside / t))
            labels |= {f"folds_{name}": value for name, value in again.items()}
    return {
        "accuracy": float((label == gold).mean()),
        "f1": _worlds.macro_f1(gold, label, crowd.n_options),
        "log_loss": float(-predicted[np.arange(len(gold)), gold].mean()),
        "shares": [round(float(share), 3) for share in np.exp(predicted).mean(axis=0)[:5]],
        **labels,
        "seconds": seconds,
    }


# -------------------------------------------------------------------- runs and the table


def engine_code() -> str:
    """A number that changes when the code of the model of annotators does."""
    files = sorted(Path(realm.crowd.__path__[0]).glob("*.py"))
    return f"{zlib.crc32(b''.join(file.read_bytes() for file in files)):08x}"


def runs(arguments: argparse.Namespace) -> Iterator[tuple[str, Callable[[], Table], int]]:
    """(setting, its table, seed) of everything that was asked for."""
    data, folder = arguments.data, arguments.results
    sentences = None if arguments.real else Sentences(data, folder)
    for seed in range(arguments.seeds):
        if sentences is None:
            yield from ((each.name, partial(each.table, data, folder, seed), seed) for each in real_tables())
            continue
        for name, (kind, world) in WORLDS.items():
            for per_item, items in itertools.product(arguments.per_item, arguments.sizes):
                setting = f"{name}, {kind}, {per_item} each, {items}"
                yield setting, partial(sentences.table, kind, world, per_item, items, seed), seed


COLUMNS = ["setting", "seeds", *METHODS, "realm - noisy", "realm - best", "F1 noisy / realm", "log loss noisy / realm",
           "at T noisy / realm (T)", "labels vote / realm / folds", "rank", "coverage", "wrong at .9", "s"]  # fmt: skip


def show(rows: pd.DataFrame) -> None:
    """One line for each setting: mean over seeds, the methods side by side."""
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS))
    for setting, group in rows.groupby("setting", sort=False):
        own = group[group["method"] == "realm"]
        if not own.empty:
            print("| " + " | ".join(_cells(str(setting), group, own)) + " |", flush=True)


def _cells(setting: str, group: pd.DataFrame, own: pd.DataFrame) -> list[str]:
    means = group.groupby("method").mean(numeric_only=True)
    accuracy = means["accuracy"].reindex(METHODS)
    lead, best_lead = (100 * (accuracy["realm"] - other) for other in (accuracy["noisy"], accuracy.drop("realm").max()))

    def side_by_side(column: str, *methods: str) -> str:
        figures = [means[column].get(method, np.nan) if column in means else np.nan for method in methods]
        return " / ".join(f"{figure:.3f}" for figure in figures)

    worse = means["log_loss"].get("realm", np.nan) > means["log_loss"].get("noisy", np.nan) + 0.02
    judged = own["labels_judged"].sum() if "labels_covered" in own else 0
    return [
        setting,
        str(own["seed"].nunique()),
        *(f"{figure:.3f}" for figure in accuracy),
        f"{lead:+.1f}{' (!)' if lead < -0.5 else ''}",
        f"{best_lead:+.1f}",
        side_by_side("f1", "noisy", "realm"),
        side_by_side("log_loss", "noisy", "realm") + (" (!)" if worse else ""),
        side_by_side("log_loss_t", "noisy", "realm") + f" ({side_by_side('temperature', 'realm')})",
        f"{side_by_side('labels_right', 'vote', 'realm')} / {side_by_side('folds_right', 'realm')}",
        side_by_side("labels_rank", "realm"),
        f"{own['labels_covered'].sum() / judged:.2f}" if judged else "",
        f"{own['labels_wrong90'].sum():.0f}/{own['labels_sure90'].sum():.0f}",
        side_by_side("seconds", "realm"),
    ]


def quick() -> int:
    """One world of random features in seconds: ours must not be behind the labels themselves."""
    rng = np.random.default_rng(0)
    centres, truth = rng.normal(size=(3, 16)), rng.integers(3, size=900)
    features = (centres[truth] + rng.normal(size=(900, 16))).astype(np.float32)
    crowd = _worlds.of_accuracies(MIXED)(rng, truth[:300], 3, 4)
    table = Table(crowd, features[:300], features[300:], truth[300:], (np.eye(16, dtype=np.float32), np.zeros(16)))
    results = {method: run(table, method, 0, EPOCHS) for method in METHODS}
    print({method: round(result["accuracy"], 3) for method, result in results.items()})
    return 0 if results["realm"]["accuracy"] >= results["noisy"]["accuracy"] - 0.02 else 1


def main() -> int:
    """Train what is not there yet; print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--only", default="", help="settings whose name has this in it")
    parser.add_argument("--real", action="store_true", help="the real tables instead of simulated crowds")
    parser.add_argument("--table", action="store_true", help="train nothing")
    parser.add_argument("--sizes", type=int, nargs="+", default=[500])
    parser.add_argument("--per-item", type=int, nargs="+", default=[4, 1])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--folds", action="store_true", help="temperature, labels and annotators by P out of fold, too")
    parser.add_argument("--name", default="", help="what this version of ours is called; its code otherwise")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.quick:
        return quick()
    file, version = arguments.results / "worlds.jsonl", arguments.name or engine_code()
    done: dict[str, dict[str, Any]] = {}
    if file.exists():
        done = {row["key"]: row for row in map(json.loads, file.read_text(encoding="utf-8").splitlines())}
    shown = []
    for setting, make, seed in runs(arguments):
        if arguments.only not in setting:
            continue
        table = None
        for method in arguments.methods:
            peers = per_item_of(setting) > 1 or method in ("noisy", "realm")
            code = version if method == "realm" else ""
            key = f"{setting}|{method}|{seed}|{arguments.epochs}{'|folds' * arguments.folds}|{code}"
            if key not in done and peers and not arguments.table:
                table = make() if table is None else table
                result = run(table, method, seed, arguments.epochs, arguments.folds)
                done[key] = {"key": key, "setting": setting, "method": method, "seed": seed, **result}
                with file.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(done[key]) + "\n")
            if key in done:
                shown.append(done[key])
    show(pd.DataFrame(shown))
    return 0


def per_item_of(setting: str) -> int:
    """1 where items have one label each: nothing to vote on."""
    return 1 if "sparse" in setting or "1 per item" in setting or ", 1 each" in setting else 2


if __name__ == "__main__":
    sys.exit(main())
