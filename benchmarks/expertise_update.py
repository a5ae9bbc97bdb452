"""Does the update without a learning rate remove the need to tune? Gradient rates 0.005 to 1.0 beside `em`.

    python -m benchmarks.expertise_update [--seeds 3] [--data simulated|sentpolarity]

The top layer of MiniLM, 2,000 items, one epoch in batches of 8, three seeds: test accuracy and the rank correlation of
expertise with true accuracy. Channel, objective and start are the paper's, so that only the update differs; the last
row is REALM's default. `simulated`: five annotators of very different quality over the gold of sentpolarity, one
label per item; `sentpolarity`: its own annotators (contrast 20).
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from benchmarks._material import realm_trainer
from realm.comparison.simulation import simulate
from realm.data import Annotations
from realm.training.settings import PAPER

DATA = Path(__file__).parents[2] / "shared" / "data" / "sentpolarity"
ITEMS = 2000
RATES = (0.005, 0.03, 0.1, 0.5, 1.0)


def some(table: Annotations, size: int) -> Annotations:
    return table.take_items(np.sort(np.random.default_rng(0).permutation(table.n_items)[:size]))


def run(table: Annotations, test: Annotations, seed: int, **settings: object) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        trainer = realm_trainer(
            "minilm-l6", table, folder, test, train_layers=1, num_train_epochs=1, learning_rate=3e-4, seed=seed,
            per_device_train_batch_size=8, gradient_accumulation_steps=1, **settings,
        )  # fmt: skip
        trainer.train()
        right = np.bincount(table.annotator, table.label == table.gold[table.item], minlength=table.n_annotators)
        accuracy = right / np.maximum(table.annotations_per_annotator, 1)
        ranks = spearmanr(trainer.channel.expertise()[:, 0].numpy(), accuracy).statistic
        return float(trainer.evaluate()["eval_accuracy"]), float(ranks)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", choices=["simulated", "sentpolarity"], default="simulated")
    arguments = parser.parse_args()
    if not DATA.is_dir():
        raise SystemExit("this benchmark needs the real data sets beside the checkout (../shared/data)")
    whole = Annotations.read(DATA / "annotations.csv")
    test = Annotations.read_test(DATA / "test.csv", tasks=whole.tasks)
    test = some(test, 1000)
    print("| update | accuracy % | std | Spearman |\n|---|---|---|---|")
    means = {}
    paper = {**PAPER, "expertise_optimizer": "masked", "batch_unit": "item"}
    rows: dict[str, dict[str, object]] = {
        **{f"gradient {rate:g}": {**paper, "expertise_learning_rate": rate} for rate in RATES},
        "em": {**paper, "expertise_update": "em"},
        "the default": {},
    }
    for name, settings in rows.items():
        figures = []
        for seed in range(arguments.seeds):
            if arguments.data == "simulated":
                table = simulate(
                    some(whole, ITEMS), [0.95, 0.9, 0.7, 0.55, 0.5], noise="uniform", regime="sparse", seed=seed
                )
            else:
                table = some(whole.contrast(20, 10), ITEMS).compact()
            figures.append(run(table, test, seed, **settings))
        accuracy, ranks = np.array(figures).T
        means[name] = accuracy.mean()
        print(f"| {name} | {100 * accuracy.mean():.1f} | {100 * accuracy.std():.1f} | {ranks.mean():.2f} |", flush=True)
    best = max(value for name, value in means.items() if name.startswith("gradient"))
    print(f"em is {100 * (means['em'] - best):+.1f} points from the best tuned rate")


if __name__ == "__main__":
    main()
