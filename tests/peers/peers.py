"""What crowd-kit and cleanlab say of the same annotations, and crowds in which few know and many guess."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd

from realm.data import Annotations, Items, Task


@dataclass(frozen=True, eq=False)
class Crowd:
    """Annotations as arrays (annotations,) and what is true (items,)."""

    items: np.ndarray
    annotators: np.ndarray
    labels: np.ndarray
    truth: np.ndarray
    n_options: int

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.items, self.annotators, self.labels

    def table(self) -> Annotations:
        task = Task("task", tuple(f"label {k}" for k in range(self.n_options)))
        order = np.argsort(self.items, kind="stable")
        item, annotator, label = (column[order].astype(np.int32) for column in self.arrays)
        items = Items.from_texts([f"text {row}" for row in range(len(self.truth))], [task])
        names = tuple(f"annotator {j}" for j in range(int(annotator.max()) + 1))
        return Annotations(items=items, annotators=names, item=item, annotator=annotator, label=label)

    def right(self, posterior: np.ndarray) -> float:
        return float((posterior.argmax(axis=1) == self.truth).mean())


def few_who_know(
    seed: int,
    *,
    n_items: int,
    experts: int,
    n_options: int,
    people: int = 20,
    among: int | None = None,
    per_item: int | None = None,
    missing: float = 0.0,
) -> Crowd:
    """`experts` are right in 90% of the items, the other people guess: among all labels, or the first `among`."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(n_options, size=n_items)
    who = rng.random((n_items, people)).argsort(axis=1)[:, : per_item or people]
    items, annotators = np.repeat(np.arange(n_items), who.shape[1]), who.ravel()
    wrong = (truth[items] + rng.integers(1, n_options, size=len(items))) % n_options
    read = np.where(rng.random(len(items)) < 0.9, truth[items], wrong)
    guess = rng.integers(among or n_options, size=len(items))
    rows = rng.random(len(items)) >= missing
    labels = np.where(rng.permutation(people)[annotators] < experts, read, guess)
    return Crowd(items[rows], annotators[rows], labels[rows], truth, n_options)


def crowdkit(name: str, crowd: Crowd, **settings: object) -> np.ndarray:
    """The posterior (items, options) by a method of crowd-kit."""
    from crowdkit import aggregation

    frame = pd.DataFrame({"task": crowd.items, "worker": crowd.annotators, "label": crowd.labels})
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        model = getattr(aggregation, name)(**settings)
        probas = model.fit_predict_proba(frame)
    posterior = np.zeros((len(crowd.truth), crowd.n_options))
    posterior[np.ix_(probas.index.to_numpy(), probas.columns.to_numpy())] = np.nan_to_num(probas.to_numpy())
    return posterior


def crowdlab(crowd: Crowd, pred_probs: np.ndarray) -> np.ndarray:
    """The labels (items,) by cleanlab's CROWDLAB."""
    from cleanlab.multiannotator import get_label_quality_multiannotator

    wide = np.full((len(crowd.truth), int(crowd.annotators.max()) + 1), np.nan)
    wide[crowd.items, crowd.annotators] = crowd.labels
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = get_label_quality_multiannotator(pd.DataFrame(wide), pred_probs, verbose=False)
    return result["label_quality"]["consensus_label"].to_numpy(int)
