"""Run folders for tests of the report, written as training writes them but without training anything."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from realm.crowd.estimate import Estimate, estimate
from realm.crowd.screens import Screens
from realm.data import Annotations, Items, Task
from realm.files import write_manifest
from realm.report.run_data import RunData
from realm.runs.folder import BEFORE_TRAINING, OUT_OF_FOLD
from realm.runs.writer import ChannelResults, RunDescription, RunResults, write_start, write_tables
from realm.scorers.prompts import PromptStyle
from tests.crowd.crowds import coins, known_estimate

SETTINGS = {
    "method": "realm", "seed": 7, "use_gold": False, "learning_rate": 5e-5, "expertise_learning_rate": 0.1,
    "expertise_start": 0.0, "num_train_epochs": 2.0, "per_device_train_batch_size": 16,
    "gradient_accumulation_steps": 4,
}  # fmt: skip


def crowd(
    n_items: int = 80,
    accuracies: tuple[float, ...] = (0.95, 0.9, 0.55, 0.3, 0.05),
    per_item: int = 3,
    seed: int = 0,
    tasks: int = 1,
    labels: tuple[str, ...] = ("no", "yes", "maybe"),
    texts: list[str] | None = None,
    names: list[str] | None = None,
) -> tuple[Annotations, np.ndarray]:
    """Annotations by annotators of these accuracies, and what a fair model would say of the items. (items, K)"""
    generator = np.random.default_rng(seed)
    truth = generator.integers(len(labels), size=n_items)
    names = names or [f"worker-{index}" for index in range(len(accuracies))]
    rows = []
    for item in range(n_items):
        for who in generator.choice(len(accuracies), size=per_item, replace=False):
            right = generator.random() < accuracies[who]
            said = truth[item] if right else (truth[item] + 1 + generator.integers(len(labels) - 1)) % len(labels)
            text = texts[item] if texts and item < len(texts) else f"review number {item}"
            rows.append({"item": f"i{item}", "task": f"task-{item % tasks}", "text": text, "annotator": names[who],
                         "label": labels[said]})  # fmt: skip
    frame = pd.DataFrame(rows)
    table = Annotations.from_pandas(frame if tasks > 1 else frame.drop(columns="task"), labels=list(labels))
    scores = generator.normal(size=(n_items, len(labels)))
    scores[np.arange(n_items), truth] += 2.0
    return table, scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))


def guessers(n_items: int = 300, guessing: tuple[int, ...] = (4, 5)) -> tuple[Annotations, np.ndarray]:
    """Six annotators, four per item, two of whom guess."""
    accuracies = tuple(1 / 3 if who in guessing else 0.9 for who in range(6))
    return crowd(n_items=n_items, accuracies=accuracies, per_item=4)


def data_of(table: Annotations, log_probs: np.ndarray | None = None, **fields: Any) -> RunData:
    """What the report reads of a run of this table; of the table alone without `log_probs`."""
    made = estimate(table) if log_probs is None else estimate(table, np.exp(log_probs))
    return RunData("run", Screens(table, made), log_probs, **fields)


def write_run(
    folder: Path,
    annotations: Annotations,
    log_probs: np.ndarray,
    *,
    found: Estimate | None = None,
    trained: np.ndarray | None = None,
    trajectory: np.ndarray | None = None,
    metrics: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    folds: int = 0,
    temperature: float = 1.0,
    gold_used: bool = False,
) -> Path:
    """Write a run folder as training does, without a model.

    `trained` is the expertise that training learned, (annotators, tasks); `trajectory` the same over the steps.
    """
    folder.mkdir(parents=True, exist_ok=True)
    versions = {"torch": "2.13.0", "transformers": "5.0.0"}
    data = {"fingerprint": annotations.fingerprint(gold_used), "items": annotations.n_items}
    write_start(
        folder, RunDescription("tiny/model", {**SETTINGS, **(settings or {})}, gold_used, data, versions=versions)
    )
    history = [{"loss": 1.2 * 0.9**step + 0.3, "step": 10 * step, "epoch": step / 10} for step in range(20)]
    usual: dict[str, Any] = {"history": history, "steps": 200, "warnings": [], "notes": [], "test": None}
    usual["probabilities"] = f"{OUT_OF_FOLD} ({folds} folds)" if folds else BEFORE_TRAINING
    usual |= metrics or {}
    style = PromptStyle()
    scorer: Any = SimpleNamespace(kind="seq2seq", style=style, tasks=annotations.tasks, extra_state=dict)
    channel = None
    if trained is not None:
        path = np.zeros((0, *trained.shape)) if trajectory is None else trajectory
        state = {"omega": np.log(trained / (1 - trained)).astype(np.float32)}
        steps = 10 * np.arange(len(path))
        channel = ChannelResults("uniform", state, {"expertise_trained": trained}, steps, {"expertise_trained": path})
    found = found or estimate(annotations, np.exp(log_probs))
    results = RunResults(
        scorer, "tiny/model", "realm", annotations, log_probs, found, channel,
        folds=folds, temperature=temperature, **usual,
    )  # fmt: skip
    write_tables(folder, results)
    write_manifest(folder)
    return folder


def large(
    n_items: int = 100_000, n_annotators: int = 5_000, per_item: int = 5, seed: int = 0
) -> tuple[Annotations, np.ndarray, np.ndarray]:
    """A large table made of arrays, what a model would say of it, and the annotators' accuracies."""
    generator = np.random.default_rng(seed)
    n_labels = 3
    truth = generator.integers(n_labels, size=n_items)
    accuracy = generator.beta(6, 2, size=n_annotators)
    pairs = np.repeat(np.arange(n_items), per_item) * n_annotators + generator.integers(
        n_annotators, size=n_items * per_item
    )
    item, who = np.divmod(np.unique(pairs), n_annotators)
    wrong = (truth[item] + 1 + generator.integers(n_labels - 1, size=len(item))) % n_labels
    label = np.where(generator.random(len(item)) < accuracy[who], truth[item], wrong)
    filler = "the film has a heart and no plot to speak of, and the cast carries it further than it deserves"
    table = Annotations(
        items=Items(
            ids=pa.array([f"item-{i}" for i in range(n_items)], pa.large_string()),
            texts=pa.array([f"Review {i}: {filler} " * 3 for i in range(n_items)], pa.large_string()),
            contexts=None,
            options=None,
            item_tasks=np.zeros(n_items, np.int32),
            tasks=(Task("default", ("negative", "mixed", "positive")),),
        ),
        annotators=tuple(f"annotator-{i:05d}@example.org" for i in range(n_annotators)),
        item=item.astype(np.int32),
        annotator=who.astype(np.int32),
        label=label.astype(np.int32),
    )
    scores = generator.normal(size=(n_items, n_labels))
    scores[np.arange(n_items), truth] += 2.0
    return table, scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)), accuracy


def crowded_estimate(table: Annotations, log_probs: np.ndarray, accuracy: np.ndarray) -> Estimate:
    """The estimate of a `large` table without estimating anything: the accuracies, and intervals of a likely width."""
    middle, n = accuracy[:, None], table.annotations_per_annotator[:, None]
    wide = 1.96 * np.sqrt(middle * (1 - middle)) / np.sqrt(np.maximum(n, 1))
    found = known_estimate(table, coins(accuracy, 3), log_probs)
    return replace(found, low=np.clip(middle - wide, 0, 1), high=np.clip(middle + wide, 0, 1))
