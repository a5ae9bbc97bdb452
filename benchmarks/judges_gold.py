"""Inverted majorities: what five gold items per subset do for a panel of LLM judges.

    python -m benchmarks.judges_gold [--draws 10] [--gold 5]

LLMBar (five subsets, 419 pairs, 65 judges in two orders each), each subset a task of its own, so that a judge has a
signed expertise for every subset. On "Neighbor" most judges prefer the wrong output. Share of the other items whose
label is right, over draws of the gold items: mean, standard deviation and the worst draw.

Prototypes reached .706 over all subsets without GPT-4 (a judge x subset matrix) and .905 on Neighbor with it (a signed
coin). Over ten draws: `estimate`, a signed coin per judge and subset, .737 and .880; MACE .752 and .901; one-coin .693
and .802. On Neighbor one-coin and Dawid-Skene lose one draw of ten, in which the flipped labelling has the higher
likelihood; why one-coin is below .706 over all subsets was not looked into. Asserts .706 for `estimate` and MACE, and
.85 on Neighbor for MACE: a floor set after these figures, so that a change that loses them is noticed.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from realm import Annotations, aggregate, estimate

DATA = Path(__file__).parents[2] / "shared" / "data" / "llmbar_judges"
INVERTED = "LLMBar/Adversarial/Neighbor"
METHODS = ("majority", "dawid-skene", "one-coin", "mace")
ESTIMATE = "estimate (no model)"
TARGETS = {("without GPT-4", "mace", 0): 0.706, ("without GPT-4", ESTIMATE, 0): 0.706, ("all", "mace", 1): 0.85}
"""(judges, method, 0 for all subsets or 1 for the inverted one) to the least mean."""

Ints = npt.NDArray[np.int32]


def judges_table(folder: Path, gpt4: bool) -> Annotations:
    """The verdicts on the five subsets of LLMBar, a task each."""
    pairs, verdicts = (pd.read_csv(folder / f"{name}.csv", dtype=str) for name in ("pairs", "verdicts"))
    if not gpt4:
        verdicts = verdicts[~verdicts["annotator"].str.contains("GPT-4")]
    pairs = pairs[pairs["subset"].str.startswith("LLMBar/")]
    frame = verdicts.merge(pairs[["item", "subset", "gold"]], on="item")
    frame = frame.rename(columns={"subset": "task"}).assign(text=frame["item"])
    return Annotations.from_pandas(frame, labels=["1", "2"])


def some_gold(table: Annotations, per_task: int, seed: int) -> Ints:
    """Gold of so many random items of each task, -1 elsewhere. (items,)"""
    assert table.gold is not None
    generator = np.random.default_rng(seed)
    gold = np.full(table.n_items, -1, dtype=np.int32)
    for task in range(len(table.tasks)):
        items = generator.permutation(np.flatnonzero(table.item_tasks == task))[:per_task]
        gold[items] = table.gold[items]
    return gold


def labels_of(table: Annotations, method: str, gold: Ints | None) -> Ints:
    """The most probable labels by a method, with this gold or without any. (items,)"""
    if method == ESTIMATE:
        even = np.log(np.full((table.n_items, 2), 0.5))
        return estimate(table.without_gold(), even, gold=gold).posterior.argmax(axis=1).astype(np.int32)
    given = table.without_gold() if gold is None else replace(table, gold=gold)
    return aggregate(given, method, use_gold=gold is not None).labels


def shares_right(table: Annotations, labels: Ints, gold: Ints) -> tuple[float, float]:
    """The share of right labels among items whose gold was not given: over all subsets, and of the inverted one."""
    right, rest = labels == table.gold, gold < 0
    inverted = table.item_tasks == [task.name for task in table.tasks].index(INVERTED)
    return float(right[rest].mean()), float(right[rest & inverted].mean())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--gold", type=int, default=5, help="gold items per subset")
    arguments = parser.parse_args()
    if not DATA.is_dir():
        raise SystemExit("this benchmark needs the real data sets beside the checkout (../shared/data)")
    print(f"| judges | method | gold | all subsets | std | worst | {INVERTED.rpartition('/')[2]} | std | worst |")
    print("|---|---|---|---|---|---|---|---|---|")
    missed = []
    for judges, gpt4 in (("all", True), ("without GPT-4", False)):
        table = judges_table(DATA, gpt4)
        none = np.full(table.n_items, -1, dtype=np.int32)
        draws = [some_gold(table, arguments.gold, seed) for seed in range(arguments.draws)]
        for method in METHODS:
            right = shares_right(table, labels_of(table, method, None), none)
            print(f"| {judges} | {method} | none | {right[0]:.3f} | | | {right[1]:.3f} | | |")
        for method in (*METHODS[1:], ESTIMATE):
            rights = np.array([shares_right(table, labels_of(table, method, gold), gold) for gold in draws])
            cells = [f"{rights[:, k].mean():.3f} | {rights[:, k].std():.3f} | {rights[:, k].min():.3f}" for k in (0, 1)]
            print(f"| {judges} | {method} | {arguments.gold} per subset | {' | '.join(cells)} |", flush=True)
            missed += [
                f"{judges}, {method}: {rights[:, k].mean():.3f} < {least}"
                for (who, what, k), least in TARGETS.items()
                if (who, what) == (judges, method) and rights[:, k].mean() < least
            ]
    if missed:
        raise SystemExit("\n".join(missed))


if __name__ == "__main__":
    main()
