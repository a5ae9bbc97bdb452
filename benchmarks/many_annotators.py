"""Thousands of annotators: the masked update of the expertise beside the paper's dense AdamW.

    python -m benchmarks.many_annotators            # a few minutes on one core
    python -m benchmarks.many_annotators --quick    # 200 annotators, one seed

5,000 annotators give 20 labels each, five to an item, so that a batch of 16 items meets at most 80 of them. Dense AdamW
moves all 5,000 at every step, by the momentum of batches long past; the masked one moves those who are there. A tiny
encoder learns along. Three learning rates each, since the same rate does not mean the same: dense AdamW spreads a
gradient over the ten steps that follow, the masked update takes its step at once.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from benchmarks import _material, _sides
from realm.data import Annotations
from realm.training.settings import PAPER

PER_ANNOTATOR, PER_ITEM = 20, 5
RATES = (0.03, 0.1, 0.3)
SEEDS = 3


def pool(annotators: int, seed: int) -> tuple[Annotations, np.ndarray]:
    """Annotations by many, and the accuracy of each: half are good (0.8 to 0.95), half little better than guessing."""
    rng = np.random.default_rng(seed)
    n_items = annotators * PER_ANNOTATOR // PER_ITEM
    texts, truth = _material.sentences(n_items, seed)
    texts = [
        " ".join(text.split()[:8]) + " " + _label_word(label, rng) for text, label in zip(texts, truth, strict=True)
    ]
    accuracy = np.where(
        rng.random(annotators) < 0.5, rng.uniform(0.8, 0.95, annotators), rng.uniform(0.5, 0.6, annotators)
    )
    # Each annotator stands PER_ANNOTATOR times in a shuffled line, of which every item takes the next few.
    who = np.concatenate([rng.permutation(annotators) for _ in range(PER_ANNOTATOR)])
    item = np.arange(len(who)) // PER_ITEM
    right = rng.random(len(who)) < accuracy[who]
    labels = np.where(right, truth[item], 1 - truth[item])
    table = _material.annotated(texts, truth, item, who, labels)
    return table, accuracy[[int(name[1:]) for name in table.annotators]]


def _label_word(label: int, rng: np.random.Generator) -> str:
    return str(rng.choice(_material.LABEL_WORDS[_material.LABELS[label]]))


def run(model: str, table: Annotations, test: Annotations, seed: int, **settings: Any) -> tuple[Any, float, int]:
    """Train for one epoch: the trainer, its processor seconds and its peak memory."""
    settings = {**PAPER, "batch_unit": "item", **settings}
    settings |= {"per_device_train_batch_size": 16, "gradient_accumulation_steps": 1, "num_train_epochs": 1}
    with tempfile.TemporaryDirectory() as folder:
        trainer = _material.realm_trainer(model, table, folder, test, learning_rate=1e-3, seed=seed, **settings)
        with _sides.peak_memory() as peak:
            seconds = time.process_time()
            trainer.train()
            seconds = time.process_time() - seconds
        return trainer, seconds, peak[0]


def main() -> None:
    """Print the table; fail where the masked update is worse than the dense one at their best rates."""
    targets = _sides.start(__doc__)
    _sides.quiet()
    annotators, seeds, rates = (200, 1, (0.1,)) if targets.quick else (5000, SEEDS, RATES)
    figures: dict[tuple[str, float], list[tuple[float, ...]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        model = _material.save_encoder(Path(folder) / "model")
        for seed in range(seeds):
            table, accuracy = pool(annotators, seed)
            test = _material.crowd(500, 1, seed=seed + 100)
            for rate in rates:
                for kind in ("masked", "adamw"):
                    settings = {"expertise_optimizer": kind, "expertise_learning_rate": rate}
                    trainer, seconds, peak = run(model, table, test, seed, **settings)
                    trained = spearmanr(trainer.channel.expertise()[:, 0].numpy(), accuracy).statistic
                    reported = spearmanr(trainer.estimate().expertise[:, 0], accuracy).statistic
                    right = trainer.evaluate()["eval_accuracy"]
                    steps = trainer.state.global_step
                    figures.setdefault((kind, rate), []).append(
                        (right, trained, reported, 1000 * seconds / steps, peak / 1e6)
                    )
    rows = []
    means = {key: np.mean(values, axis=0) for key, values in figures.items()}
    for (kind, rate), mean in means.items():
        spread = np.std(figures[kind, rate], axis=0)
        quality = [f"{100 * mean[0]:.1f} ± {100 * spread[0]:.1f}", f"{mean[1]:.3f} ± {spread[1]:.3f}", f"{mean[2]:.3f}"]
        rows.append([kind, f"{rate:g}", *quality, f"{mean[3]:.1f}", f"{mean[4]:,.0f}"])
    columns = ["update", "expertise rate", "test accuracy %", "Spearman, trained", "Spearman, reported"]
    columns += ["ms of processor a step", "peak, MB"]
    title = f"{annotators:,} annotators x {PER_ANNOTATOR} labels, {PER_ITEM} to an item, one epoch, {seeds} seed(s)"
    _sides.show(title, columns, rows)
    for place, what, target in ((1, "trained", 0.95), (2, "reported", 0.99)):
        best = {kind: max(mean[place] for (k, _), mean in means.items() if k == kind) for kind in ("masked", "adamw")}
        print(f"\nSpearman, {what}, at the best rate: masked {best['masked']:.3f}, dense {best['adamw']:.3f}")
        targets.hold(f"Spearman, {what}, of masked over dense", best["masked"] / best["adamw"], target)
    targets.finish()


if __name__ == "__main__":
    main()
