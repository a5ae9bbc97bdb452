"""How good the cleaned labels are: REALM's posterior beside majority vote, Dawid-Skene, one-coin and CROWDLAB.

    python -m benchmarks.cleaned_labels [--folds 5] [--epochs 1]

All 203 annotators of sentpolarity, gold hidden. A model is trained with REALM and its probabilities are made out of
fold; the posterior and cleanlab's CROWDLAB get the same probabilities. Asserts that the posterior is the best.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from realm.aggregation import aggregate
from realm.annotations import Annotations
from realm.training import RealmConfig, RealmTrainer

DATA = Path(__file__).parents[2] / "shared" / "data" / "sentpolarity" / "annotations.csv"


def crowdlab(table: Annotations, probabilities: np.ndarray) -> np.ndarray:
    """cleanlab's consensus labels from the same probabilities; it wants a dense items x annotators frame."""
    from cleanlab.multiannotator import get_label_quality_multiannotator

    wide = np.full((table.n_items, table.n_annotators), np.nan)
    wide[table.item, table.annotator] = table.label
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = get_label_quality_multiannotator(pd.DataFrame(wide), probabilities, verbose=False)
    return found["label_quality"]["consensus_label"].to_numpy()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="minilm-l6")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--epochs", type=float, default=1)
    chosen = parser.parse_args()
    if not DATA.is_file():
        raise SystemExit("this benchmark needs the real data sets beside the checkout (../shared/data)")
    table = Annotations.read(DATA)
    gold = table.gold
    with tempfile.TemporaryDirectory() as folder:
        config = RealmConfig(
            folder, train_layers=2, num_train_epochs=chosen.epochs, learning_rate=3e-4, expertise_learning_rate=0.5,
            per_device_train_batch_size=16, gradient_accumulation_steps=1, write_run=False, save_strategy="no",
            disable_tqdm=True, use_cpu=True, logging_steps=1000, cross_fit=chosen.folds,
        )  # fmt: skip
        trainer = RealmTrainer(chosen.model, table, config)
        trainer.train()
    probabilities = np.exp(trainer.scores().log_probs)
    print(
        f"the model alone, out of fold: {np.mean(probabilities.argmax(1) == gold):.4f}; T = {trainer.temperature:.2f}"
    )
    found = {
        "majority vote (ties at random)": aggregate(table, "majority", seed=0).labels,
        "Dawid-Skene": aggregate(table, "dawid-skene").labels,
        "one-coin": aggregate(table, "one-coin").labels,
        "CROWDLAB, same probabilities": crowdlab(table, probabilities),
        "REALM posterior": trainer.estimate().posterior.argmax(1),
    }
    print("| cleaned labels | accuracy |\n|---|---|")
    for name, labels in found.items():
        print(f"| {name} | {np.mean(labels == gold):.4f} |")
    best = {name: float(np.mean(labels == gold)) for name, labels in found.items()}
    assert best["REALM posterior"] > max(v for k, v in best.items() if k != "REALM posterior"), best


if __name__ == "__main__":
    main()
