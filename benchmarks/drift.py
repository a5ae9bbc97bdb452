"""Annotators who slacken halfway, and steady ones: how many are named (`realm.crowd.drift`).

    python -m benchmarks.drift            # a few minutes of one core
    python -m benchmarks.drift --quick    # one table each, no targets

Two options, five labels to an item, accuracy .9 at first; one annotator in ten slackens halfway to the accuracy shown.
`steady` tables have nobody who does. Targets: of those who fall to .55 within 120 labels eight in ten are named, and of
200 steady annotators 5% at most.
"""

from __future__ import annotations

import sys

import numpy as np

from realm import Annotations, Items, Task, over_time

FALLS = (0.55, 0.65, 0.75)
LABELS = (60, 120, 240)
ANNOTATORS, TABLES = 200, 3
SLACK = 0.1
MINUTE = 60.0


def crowd(labels_each: int, after: float, seed: int) -> tuple[Annotations, np.ndarray]:
    """A table of 200 annotators, and which of them slacken."""
    rng = np.random.default_rng(seed)
    n_items = ANNOTATORS * labels_each // 5
    truth = rng.integers(2, size=n_items)
    item = np.concatenate([rng.permutation(n_items) for _ in range(5)])
    annotator = np.repeat(np.arange(ANNOTATORS), labels_each)
    place = np.tile(np.arange(labels_each), ANNOTATORS)
    _, first = np.unique(item * ANNOTATORS + annotator, return_index=True)  # nobody labels an item twice
    item, annotator, place = item[first], annotator[first], place[first]
    slackens = np.arange(ANNOTATORS) < (SLACK * ANNOTATORS if after < 0.9 else 0)
    accuracy = np.where(slackens[annotator] & (place >= labels_each // 2), after, 0.9)
    label = np.where(rng.random(len(item)) < accuracy, truth[item], 1 - truth[item])
    order = np.argsort(item, kind="stable")
    columns = [each[order].astype(np.int32) for each in (item, annotator, label)]
    items = Items.from_texts([f"i{i}" for i in range(n_items)], [Task("t", ("no", "yes"))])
    names = tuple(f"a{i}" for i in range(ANNOTATORS))
    return Annotations(items, names, *columns, created_at=MINUTE * place[order]), slackens


def named(labels_each: int, after: float, seed: int) -> tuple[int, int, int, int]:
    """How many who slackened are named, of how many; and of the others."""
    table, slackens = crowd(labels_each, after, seed)
    found = np.zeros(ANNOTATORS, dtype=bool)
    for each in over_time(table):
        found[table.annotators.index(each.annotator)] = each.changed
    return int(found[slackens].sum()), int(slackens.sum()), int(found[~slackens].sum()), int((~slackens).sum())


def main() -> int:
    quick = "--quick" in sys.argv
    print("| labels each | falls from .9 to | slackened and named | steady and named |\n|---|---|---|---|")
    figures = {}
    for labels_each in LABELS[:1] if quick else LABELS:
        for after in (*FALLS, 0.9):
            sums = np.sum([named(labels_each, after, seed) for seed in range(1 if quick else TABLES)], axis=0)
            found, slack, alarms, steady = (int(each) for each in sums)
            figures[labels_each, after] = found / max(slack, 1), alarms / steady
            words = "steady" if after == 0.9 else f"{after:.2f}"
            power = f"{found} of {slack} ({found / slack:.0%})" if slack else "-"
            print(f"| {labels_each} | {words} | {power} | {alarms} of {steady} ({alarms / steady:.2%}) |", flush=True)
    if quick:
        return 0
    power, worst = figures[120, 0.55][0], max(alarms for _, alarms in figures.values())
    met = power >= 0.8 and worst <= 0.05
    print(
        f"\nnamed of those who fall to .55 in 120 labels: {power:.0%} (target 80%); of the steady: {worst:.2%} at most"
    )
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
