"""Which way of answering suits a decoder-only model, before any training.

    python -m benchmarks.answers [--model smollm2-135m] [--items 200]

Zero-shot on real text (sentpolarity; PIQA and OpenBookQA where options are the item's own), with and without the chat
template: accuracy, and for two labels the area under the ROC curve. The figures behind `--answers auto` and
`--chat-template off`; see docs/choosing-a-model.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from realm.data import Annotations
from realm.metrics import evaluate
from realm.scorers import load_scorer
from realm.scorers.scoring import score

DATA = Path(__file__).parents[2] / "shared" / "data"


def auc(scores: np.ndarray, truth: np.ndarray) -> float:
    """Probability that a positive item scores above a negative one."""
    from scipy.stats import rankdata

    ranks = rankdata(scores)
    positive = truth == 1
    n, m = positive.sum(), (~positive).sum()
    return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * m))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--items", type=int, default=200)
    arguments = parser.parse_args()
    if not DATA.is_dir():
        raise SystemExit("this benchmark needs the real data sets beside the checkout (../shared/data)")
    labels = ["negative", "positive"]
    question = {"text": "question", "options": "choices", "gold": "answer", "item": "id", "label_form": "index"}
    tables = {
        "sentpolarity": Annotations.read_test(DATA / "sentpolarity" / "test.csv", labels=labels),
        "piqa": Annotations.read_test(DATA / "piqa" / "test.jsonl", **question),
        "obqa": Annotations.read_test(DATA / "obqa" / "test.jsonl", **question),
    }
    print("| items | answers | chat template | accuracy | AUC | answer mass |\n|---|---|---|---|---|---|")
    for name, table in tables.items():
        rows = np.random.default_rng(0).permutation(table.n_items)[: arguments.items]
        part = table.take_items(np.sort(rows))
        ways = ["letters", "names", "cloze"] if name == "sentpolarity" else ["letters", "cloze"]
        for answers in ways:
            for chat in (False, True):
                scorer = load_scorer(arguments.model, part.items, answers=answers, chat_template=chat)
                scores = score(scorer, scorer.encode(part.items), answer_mass=True)
                figures = evaluate(part, scores)
                area = (
                    auc(scores.log_probs[:, 1] - scores.log_probs[:, 0], part.gold) if name == "sentpolarity" else None
                )
                mass = figures.get("answer_mass")
                print(
                    f"| {name} | {answers} | {'on' if chat else 'off'} | {figures['accuracy']:.3f} | "
                    f"{'-' if area is None else f'{area:.3f}'} | {'-' if mass is None else f'{mass:.3f}'} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
