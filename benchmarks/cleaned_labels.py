"""How good the cleaned labels are: REALM's posterior beside majority vote, Dawid-Skene, one-coin, MACE and CROWDLAB.

    python -m benchmarks.cleaned_labels [--model mpnet-base] [--train-layers head] [--folds 5] [--epochs 10]

All 203 annotators of sentpolarity, gold hidden. A model is trained with REALM and its probabilities are made out of
fold; the posterior and cleanlab's CROWDLAB get the same probabilities. Asserts that the posterior is better than
majority vote and than CROWDLAB. Whether it can be better than the votes weighed by reliability alone is a question of
the model (--above-votes demands it), so two figures say what it knows: how often it is right where those votes leave
doubt, and what a stacker that is *given* the gold makes of votes and model together.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from benchmarks import crowdlab
from realm.crowd.aggregation import aggregate
from realm.crowd.estimate import estimate
from realm.data import Annotations
from realm.training import RealmConfig, RealmTrainer
from realm_lab import load_benchmark

DATA = Path(__file__).parents[2] / "shared" / "data" / "sentpolarity" / "annotations.csv"
DOUBT = 0.8


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="mpnet-base")
    parser.add_argument("--train-layers", default="head")
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--epochs", type=float, default=10)
    parser.add_argument(
        "--above-votes", action="store_true", help="fail unless better than Dawid-Skene, one-coin and MACE too"
    )
    arguments = parser.parse_args()
    if not DATA.is_file():
        raise SystemExit("this benchmark needs the real data sets beside the checkout (../shared/data)")
    benchmark = load_benchmark("sentpolarity", DATA.parent)
    table, layers = benchmark.train, arguments.train_layers
    gold = table.gold
    assert gold is not None
    with tempfile.TemporaryDirectory() as folder:
        config = RealmConfig(
            folder, train_layers=int(layers) if layers.isdigit() else layers, num_train_epochs=arguments.epochs,
            learning_rate=arguments.learning_rate, instruction=benchmark.instruction, max_length=96,
            per_device_train_batch_size=64, gradient_accumulation_steps=1, write_run=False, save_strategy="no",
            disable_tqdm=True, use_cpu=True, logging_steps=1000, cross_fit=arguments.folds,
        )  # fmt: skip
        trainer = RealmTrainer(arguments.model, table, config)
        trainer.train()
    probabilities = np.exp(trainer.scores().log_probs)
    print(
        f"the model alone, out of fold: {np.mean(probabilities.argmax(1) == gold):.4f}; T = {trainer.temperature:.2f}"
    )
    cleaned = {
        "majority vote (ties at random)": aggregate(table, "majority", seed=0).labels,
        "Dawid-Skene": aggregate(table, "dawid-skene").labels,
        "one-coin": aggregate(table, "one-coin").labels,
        "MACE": aggregate(table, "mace").labels,
        "CROWDLAB, same probabilities": crowdlab.consensus(crowdlab.wide(table), probabilities),
        "REALM posterior": trainer.estimate().posterior.argmax(1),
    }
    print("| cleaned labels | accuracy |\n|---|---|")
    for name, labels in cleaned.items():
        print(f"| {name} | {np.mean(labels == gold):.4f} |")
    best = {name: float(np.mean(labels == gold)) for name, labels in cleaned.items()}
    realm = best["REALM posterior"]
    print(what_the_model_knows(table, np.log(probabilities), gold))
    rivals = ["majority vote (ties at random)", "CROWDLAB, same probabilities"]
    rivals += ["Dawid-Skene", "one-coin", "MACE"] if arguments.above_votes else []
    assert all(realm > best[rival] for rival in rivals), best


def what_the_model_knows(table: Annotations, log_probs: np.ndarray, gold: np.ndarray) -> str:
    """The model where the votes leave doubt, and votes and model put together by someone who knows the gold."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_score

    votes = estimate(table.without_gold(), np.zeros_like(log_probs)).posterior
    odds = np.stack([np.diff(np.log(np.maximum(p, 1e-12)), axis=1)[:, 0] for p in (votes, np.exp(log_probs))], axis=1)
    doubt = votes.max(axis=1) < DOUBT
    alone, stacked = (cross_val_score(LogisticRegression(), x, gold, cv=5).mean() for x in (odds[:, :1], odds))
    return (
        f"where the votes leave doubt ({doubt.sum()} items below {DOUBT:.0%}): votes right "
        f"{_share(votes, gold, doubt)}, model right {_share(log_probs, gold, doubt)}\n"
        f"a stacker that knows the gold, out of fold: votes alone {alone:.4f}, votes and model {stacked:.4f}"
    )


def _share(scores: np.ndarray, gold: np.ndarray, where: np.ndarray) -> str:
    return f"{np.mean(scores[where].argmax(axis=1) == gold[where]):.3f}"


if __name__ == "__main__":
    main()
