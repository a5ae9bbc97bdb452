"""Labels and annotators from annotations alone, beside crowd-kit and CROWDLAB, on simulated crowds and real tables.

    python -m benchmarks.crowds_from_labels [--data DATA] [--results FOLDER]   # five seeds each; peers take an hour
    python -m benchmarks.crowds_from_labels --quick                            # the worlds that are asked, small

Asked: where few annotators know and many guess, ours is right at least as often as the best of crowd-kit's MACE,
one-coin and Dawid-Skene, less 2 points (mean over seeds). Rows more than 2 points below the best peer, the vote
included, are marked; those that are asked make the run fail. With `--results` what peers gave is kept by world, seed
and labels, and only ours is fitted again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import _worlds
from benchmarks._crowds import draw
from benchmarks._worlds import Answer, Crowd, Floats, Ints

SEEDS = 5
MARGIN = 0.02
PEERS = ("vote", "DS", "one-coin", "MACE", "CROWDLAB")
ASKED_OF = ("DS", "one-coin", "MACE")
LARGEST = {"DS": 3e7, "one-coin": 5e6, "MACE": 5e6, "CROWDLAB": 1e8}
"""Annotations x options (for Dawid-Skene annotators x options^2) from which a peer takes more than minutes."""


@dataclass(frozen=True)
class World:
    """A crowd by seed; even class shares unless given. `informed`: a model's P is given, the truth drawn from it."""

    name: str
    make: Callable[..., Crowd]
    options: int
    items: int = 500
    per_item: int | None = None
    shares: tuple[float, ...] | None = None
    informed: bool = False
    asked: bool = False

    def crowd(self, seed: int) -> Crowd:
        rng = np.random.default_rng([seed, zlib.crc32(self.name.encode())])
        shares = np.full(self.options, 1 / self.options) if self.shares is None else np.array(self.shares)
        probs = rng.dirichlet(2 * shares, self.items) if self.informed else np.tile(shares, (self.items, 1))
        crowd = self.make(rng, draw(rng, probs), self.options, self.per_item)
        if self.informed:
            object.__setattr__(crowd, "probs", probs)
        return crowd


def experts(count: int, people: int, among: int | None = None) -> Callable[..., Crowd]:
    return partial(_worlds.experts_among_guessers, experts=count, people=people, among=among)


MIXED = np.linspace(0.55, 0.95, 10)
SIMULATED = [
    *(World(f"2 of 20 know, K=4, guess among {among}, {size}", experts(2, 20, among), 4, size, asked=True)
      for among in (4, 3) for size in (100, 500)),
    World("2 of 20 know, K=4, 10 each, 500", experts(2, 20), 4, 500, 10, asked=True),
    World("3 of 20 know, K=2, 100", experts(3, 20), 2, 100, asked=True),
    World("3 of 20 know, K=2, 500", experts(3, 20), 2, 500, asked=True),
    World("4 of 20 know, K=4, 5 each, 500", experts(4, 20), 4, 500, 5, asked=True),
    World("4 of 20 know, K=4, 5 each, 2000", experts(4, 20), 4, 2000, 5, asked=True),
    World("4 of 20 know, K=2, 5 each, 500", experts(4, 20), 2, 500, 5, asked=True),
    World("3 good annotators, K=3, 2000", _worlds.of_accuracies(np.array([0.93, 0.93, 0.995])), 3, 2000),
    World("1 of 3 knows, K=6, 150", experts(1, 3), 6, 150),
    World("4 of 10 inverted, K=2, 100", _worlds.inverted, 2, 100),
    World("4 of 10 inverted, K=2", _worlds.inverted, 2),
    World("4 of 10 inverted, K=2, 4 each", _worlds.inverted, 2, per_item=4),
    World("clique of 5 of 10, K=3", _worlds.clique, 3),
    World("clique of 5 of 10, K=3, 4 each", _worlds.clique, 3, per_item=4),
    World("pairs of copies, K=3, 4 each", _worlds.copying_pairs, 3, per_item=4),
    World("4 of 10 permuted, K=5", _worlds.permuted, 5),
    World("4 of 10 permuted, K=5, 4 each", _worlds.permuted, 5, per_item=4),
    World("class-dependent, K=5, 4 each", _worlds.class_dependent, 5, per_item=4),
    World("all take 1 for 0, K=3, 4 each", _worlds.shared_confusion, 3, per_item=4),
    World("constant answers, K=3, 4 each", _worlds.constant, 3, per_item=4),
    World("constant answers, K=3, 10 each", _worlds.constant, 3),
    World("favourites, K=4, 4 each", _worlds.favourites, 4, per_item=4),
    World("mixed .55 to .95, K=3, 4 each", _worlds.of_accuracies(MIXED), 3, per_item=4),
    World("mixed .55 to .95, K=2, 4 each", _worlds.of_accuracies(MIXED), 2, per_item=4),
    World("equal .8, K=3, 4 each", _worlds.of_accuracies(np.full(10, 0.8)), 3, per_item=4),
    World("mixed, K=10, 4 each", _worlds.of_accuracies(MIXED), 10, per_item=4),
    World("mixed, K=30, 4 each", _worlds.of_accuracies(MIXED), 30, 1000, 4),
    World("equal .9, K=1000, 5 each", _worlds.of_accuracies(np.full(50, 0.9)), 1000, 2000, 5),
    World("long tail, 2 to 10 labels, K=3", _worlds.long_tail, 3, 3000, 5),
    World("rare class missed, K=3, 4 each", _worlds.rare_class_missed, 3, 500, 4, (0.75, 0.2, 0.05)),
    World("rare class missed, K=2, 4 each", _worlds.rare_class_missed, 2, 500, 4, (0.9, 0.1)),
    World("class mix, K=5, 4 each", _worlds.class_mix, 5, per_item=4),
    World("one region each, K=5, 4 each", _worlds.one_region, 5, per_item=4),
    World("mixed, K=3, 3 each, P given", _worlds.of_accuracies(MIXED), 3, per_item=3, informed=True),
    World("mixed, K=3, 1 each, P given", _worlds.of_accuracies(MIXED), 3, per_item=1, informed=True),
    World("2 of 20 know, K=4, 5 each, P given", experts(2, 20), 4, 500, 5, informed=True),
]  # fmt: skip


def real_worlds(data: Path) -> Iterator[tuple[str, int, Crowd]]:
    """(name, seed, crowd) of the real tables; one draw but where annotations are drawn."""
    crowds = _worlds.real_crowds(data)
    yield from ((name, 0, crowd) for name, crowd in crowds.items())
    for source, count in (("CivilComments, 24 judges", 3), ("SentPolarity", 2), ("DICES-350", 5), ("DICES-350", 20)):
        for seed in range(SEEDS):
            few = _worlds.some_per_item(crowds[source], np.random.default_rng(seed), count)
            yield f"{source.split(',')[0]}, {count} per item", seed, few


# -------------------------------------------------------------------- peers


def peer(name: str, crowd: Crowd, restarts: int) -> Answer | None:
    """What a peer says; None where it does not apply or would take too long."""
    dense = (crowd.n_options**2 * len(crowd.accuracy)) if name == "DS" else len(crowd.item) * crowd.n_options
    if name == "CROWDLAB":
        return None if crowd.probs is None or crowd.per_item <= 1 else _crowdlab(crowd)
    if name == "vote":
        votes = crowd.votes() + np.random.default_rng(0).random((crowd.n_items, crowd.n_options)) * 1e-6
        return _answer(crowd, votes / votes.sum(axis=1, keepdims=True))
    if dense > LARGEST[name]:
        return None
    from crowdkit.aggregation import MACE, DawidSkene, OneCoinDawidSkene

    fits: dict[str, Callable[[], Any]] = {
        "DS": lambda: DawidSkene(n_iter=100, tol=0),
        "one-coin": lambda: OneCoinDawidSkene(n_iter=100, tol=0),
        "MACE": lambda: MACE(n_restarts=restarts, n_iter=50, random_state=0),
    }
    frame = pd.DataFrame({"task": crowd.item, "worker": crowd.annotator, "label": crowd.label})
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        probas = fits[name]().fit(frame).probas_
    posterior = np.full((crowd.n_items, crowd.n_options), 1e-9)
    posterior[np.ix_(probas.index.to_numpy(), probas.columns.to_numpy())] = probas.to_numpy()
    return _answer(crowd, np.nan_to_num(posterior, nan=1 / crowd.n_options))


def _crowdlab(crowd: Crowd) -> Answer:
    from cleanlab.multiannotator import get_label_quality_multiannotator

    wide = np.full((crowd.n_items, len(crowd.accuracy)), np.nan)
    wide[crowd.item, crowd.annotator] = crowd.label
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = get_label_quality_multiannotator(pd.DataFrame(wide), crowd.probs, verbose=False)
    quality = table["label_quality"]
    label, sure = quality["consensus_label"].to_numpy(int), quality["consensus_quality_score"].to_numpy(float)
    posterior = np.repeat(((1 - sure) / (crowd.n_options - 1))[:, None], crowd.n_options, axis=1)
    posterior[np.arange(len(label)), label] = sure
    accuracy = table["annotator_stats"]["annotator_quality"].reindex(range(len(crowd.accuracy))).to_numpy(float)
    return Answer(posterior, accuracy)


def _answer(crowd: Crowd, posterior: Floats) -> Answer:
    return Answer(posterior, _worlds.mean_correctness(crowd, posterior))


# -------------------------------------------------------------------- runs and the table


def fingerprint(crowd: Crowd) -> str:
    """What a kept result must have been made from."""
    columns: tuple[Ints, ...] = (crowd.item, crowd.annotator, crowd.label, crowd.gold)
    return "-".join(f"{zlib.crc32(column.tobytes()):08x}" for column in columns)


class Results:
    """Rows of figures by world, seed, method and labels; kept in a file where there is a folder."""

    def __init__(self, folder: Path | None) -> None:
        self.file = None if folder is None else folder / "crowds_from_labels.jsonl"
        self.rows: dict[str, dict[str, Any]] = {}
        if self.file is not None and self.file.exists():
            lines = [json.loads(line) for line in self.file.read_text(encoding="utf-8").splitlines()]
            self.rows = {line["key"]: line for line in lines}

    def peer(self, name: str, world: str, seed: int, crowd: Crowd, restarts: int) -> dict[str, Any]:
        key = f"{world}|{seed}|{name}|{restarts if name == 'MACE' else 0}|{fingerprint(crowd)}"
        if key not in self.rows:
            start = time.perf_counter()
            answer = peer(name, crowd, restarts)
            figures = {} if answer is None else _worlds.figures(crowd, answer)
            self.rows[key] = {"key": key, **figures, "seconds": time.perf_counter() - start}
            if self.file is not None:
                self.file.parent.mkdir(parents=True, exist_ok=True)
                with self.file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(self.rows[key]) + "\n")
        return self.rows[key]


def fit_ours(crowd: Crowd) -> dict[str, Any]:
    start = time.perf_counter()
    with np.errstate(divide="ignore"):
        log_probs = None if crowd.probs is None else np.log(crowd.probs)
    answer = _worlds.ours(crowd, log_probs)
    seconds = time.perf_counter() - start
    return {**_worlds.figures(crowd, answer), "seconds": seconds}


def mean(rows: list[dict[str, Any]], name: str) -> float:
    values = [row[name] for row in rows if name in row and np.isfinite(row[name])]
    return float(np.mean(values)) if values else float("nan")


def share(rows: list[dict[str, Any]], part: str, whole: str) -> str:
    return f"{sum(r[part] for r in rows)}/{sum(r[whole] for r in rows)}"


COLUMNS = ["world", *PEERS, "**ours**", "ours - best", "F1, best / ours", "log loss, best / ours", "wrong at .99",
           "wrong at .9", "rank, best / ours", "coverage", "bias", "width", "s"]  # fmt: skip


def show_row(name: str, asked: bool, peers: dict[str, list[dict[str, Any]]], own: list[dict[str, Any]]) -> bool:
    """Print the row of a world; whether ours is where it is asked to be."""
    right = {peer: mean(rows, "right") for peer, rows in peers.items()}
    best = np.nanmax(list(right.values()))
    gap = mean(own, "right") - best
    behind_asked = (
        mean(own, "right") - np.nanmax([right[p] for p in ASKED_OF if p in right]) < -MARGIN if asked else False
    )
    mark = " **FAIL**" if behind_asked else " (!)" if gap < -MARGIN else ""
    covered = sum(r.get("covered", 0) for r in own)
    judged = sum(r["judged"] for r in own)
    best_of = {key: [mean(rows, key) for rows in peers.values()] for key in ("f1", "log_loss", "rank")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f1, rank, loss = np.nanmax(best_of["f1"]), np.nanmax(best_of["rank"]), np.nanmin(best_of["log_loss"])
    cells = [
        f"{name}{' *' if asked else ''}",
        *("" if np.isnan(right[p]) else f"{right[p]:.3f}" for p in PEERS),
        f"**{mean(own, 'right'):.3f}**",
        f"{100 * gap:+.1f}{mark}",
        f"{f1:.3f} / {mean(own, 'f1'):.3f}",
        f"{loss:.3f} / {mean(own, 'log_loss'):.3f}",
        share(own, "wrong99", "sure99"),
        share(own, "wrong90", "sure90"),
        f"{rank:.2f} / {mean(own, 'rank'):.2f}",
        f"{covered / judged:.2f} of {judged}" if judged else "",
        f"{mean(own, 'bias'):+.3f}",
        f"{mean(own, 'width'):.3f}",
        f"{mean(own, 'seconds'):.2f}",
    ]
    print("| " + " | ".join(cells) + " |", flush=True)
    return not behind_asked


def main() -> int:
    """Print the table; fail where an asked world is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the worlds that are asked, 100 items, 2 restarts of MACE")
    parser.add_argument("--data", type=Path, help="folder of the real tables; none: simulated worlds alone")
    parser.add_argument("--results", type=Path, help="folder that keeps what peers gave")
    parser.add_argument("--only", default="", help="worlds whose name has this word in it")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    arguments = parser.parse_args()
    results, restarts = Results(arguments.results), 2 if arguments.quick else 10
    seeds = arguments.seeds
    runs: dict[str, list[tuple[int, Crowd]]] = {}
    asked = {world.name for world in SIMULATED if world.asked}
    for world in SIMULATED:
        if arguments.only in world.name and not (arguments.quick and (not world.asked or world.items > 100)):
            runs[world.name] = [(seed, world.crowd(seed)) for seed in range(seeds)]
    if arguments.data is not None and not arguments.quick:
        for name, seed, crowd in real_worlds(arguments.data):
            if arguments.only in name:
                runs.setdefault(name, []).append((seed, crowd))
    print("Share of labels right; * is asked, (!) is more than 2 points below the best peer\n")
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS), flush=True)
    met = []
    for name, crowds in runs.items():
        peers = {p: [results.peer(p, name, seed, crowd, restarts) for seed, crowd in crowds] for p in PEERS}
        met.append(show_row(name, name in asked, peers, [fit_ours(crowd) for _, crowd in crowds]))
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
