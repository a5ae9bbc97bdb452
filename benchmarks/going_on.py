"""Going on from a run when a tenth of the labels is new, beside training from scratch on all of them.

    python -m benchmarks.going_on                         # minilm-l6, its head alone: a few minutes of one core
    python -m benchmarks.going_on --model mpnet-base      # a larger encoder
    python -m benchmarks.going_on --layers 0 --seeds 1    # all layers: an hour
    python -m benchmarks.going_on --quick                 # a small part of everything, no targets

SentPolarity's own annotators. The earlier run has nine tenths of the items (`new items`) or nine tenths of the labels
(`new labels`, which changes near half of the items); its training is not counted. Both sides end with a run folder,
estimates and cleaned labels included. Seconds are of the processor, one thread, with nothing in the cache of frozen
layers. Both models are then asked about the same test items. Targets: a quarter of the time where items are new, and an
accuracy that is lower by no more than two standard errors of the paired difference.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from realm import Annotations, RealmConfig, RealmTrainer, Run
from realm.scorers import frozen_cache

DATA = Path(__file__).parents[2] / "shared" / "data" / "sentpolarity"
SHARE = 0.1
TARGET = 0.25
EPOCHS = {"head": 20, "0": 3}
RATES = {"head": 1e-2, "0": 5e-5}
"""By trained layers: with these a head has come to rest, so that neither side gains by more steps alone."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="minilm-l6")
    parser.add_argument("--layers", default="head")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--items", type=int, default=0)
    parser.add_argument("--kinds", default="new items,new labels")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.items, arguments.seeds = arguments.items or 300, 1
    return training(arguments)


# -------------------------------------------------------------------- training


def training(arguments: argparse.Namespace) -> int:
    from realm.models.store import resolve

    model = resolve(arguments.model)
    table = Annotations.read(DATA / "annotations.csv")
    test = Annotations.read_test(DATA / "test.csv", tasks=table.tasks)
    if arguments.items:
        table = table.take_items(np.arange(arguments.items))
        test = test.take_items(np.arange(2 * arguments.items))
    print(f"{arguments.model}, trained layers: {arguments.layers}; {table!r}; {test.n_items:,} test items\n")
    print("| what is new | seed | scratch s | going on s | ratio | scratch | going on | earlier | difference +- 2 se |")
    print("|---|---|---|---|---|---|---|---|---|")
    missed = 0
    for kind in arguments.kinds.split(","):
        ratios, differences, errors = [], [], []
        for seed in range(arguments.seeds):
            ratio, difference, error = one(arguments, model, table, test, kind, seed)
            ratios.append(ratio)
            differences.append(difference)
            errors.append(error)
        ratio, difference = float(np.mean(ratios)), float(np.mean(differences))
        error = float(np.sqrt(np.mean(np.square(errors)) / len(errors)))
        met = (ratio <= TARGET or kind != "new items") and difference >= -2 * error
        missed += not met
        print(
            f"\n{kind}: {ratio:.2f} of the time (target {TARGET}), accuracy {difference:+.2%} "
            f"(standard error {error:.2%}): {'met' if met else 'missed'}\n"
        )
    return 0 if arguments.quick else int(missed > 0)


def one(
    arguments: argparse.Namespace, model: str, table: Annotations, test: Annotations, kind: str, seed: int
) -> tuple[float, float, float]:
    """Both sides of one seed: the ratio of the times, the difference in accuracy, and its standard error."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        earlier = part(table, kind, seed)
        settings: dict[str, Any] = {
            "seed": seed,
            "train_layers": arguments.layers if arguments.layers == "head" else int(arguments.layers),
            "num_train_epochs": EPOCHS.get(arguments.layers, 3),
            "learning_rate": RATES.get(arguments.layers, 5e-5),
        }
        os.environ["REALM_HOME"] = str(folder / "home")
        timed(model, earlier, folder / "monday", **settings)
        monday = Run.open(folder / "monday")
        going_on = timed(monday, table, folder / "tuesday", **settings)
        scratch = timed(model, table, folder / "scratch", **settings)
        right = [answers(Run.open(folder / name), test) for name in ("scratch", "tuesday", "monday")]
    accuracy = [float(each.mean()) for each in right]
    paired = right[1].astype(float) - right[0]
    error = float(paired.std(ddof=1) / np.sqrt(len(paired)))
    print(
        f"| {kind} | {seed} | {scratch:.1f} | {going_on:.1f} | {going_on / scratch:.2f} | {accuracy[0]:.4f} | "
        f"{accuracy[1]:.4f} | {accuracy[2]:.4f} | {paired.mean():+.4f} +- {2 * error:.4f} |",
        flush=True,
    )
    return going_on / scratch, float(paired.mean()), error


def part(table: Annotations, kind: str, seed: int) -> Annotations:
    """The earlier table: without a tenth of the items, or without a tenth of the labels."""
    rng = np.random.default_rng(seed)
    if kind == "new items":
        return table.take_items(np.sort(rng.permutation(table.n_items)[round(SHARE * table.n_items) :])).compact()
    return table.keep_annotations(np.sort(rng.permutation(len(table))[round(SHARE * len(table)) :])).compact()


def timed(model: Any, table: Annotations, folder: Path, **settings: Any) -> float:
    """Seconds of the processor for a whole run, the loading of the model included."""
    from transformers.trainer_callback import PrinterCallback

    frozen_cache.forget()
    start = time.process_time()
    config = RealmConfig(str(folder), disable_tqdm=True, use_cpu=True, save_strategy="no", **settings)
    trainer = RealmTrainer(model, table, config)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return time.process_time() - start


def answers(run: Run, test: Annotations) -> np.ndarray:
    """Whether each test item is answered rightly."""
    labels = run.predict(test.items)["label"].to_numpy()
    assert test.gold is not None
    gold = np.array([test.label_name(item, label) for item, label in enumerate(test.gold.tolist())])
    return np.asarray(labels == gold)


if __name__ == "__main__":
    sys.exit(main())
