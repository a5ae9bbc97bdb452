"""The posterior of each item's true label, and the table of cleaned labels made from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from realm.data import Annotations
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd

Floats = npt.NDArray[np.float64]
SMALLEST = 1e-12
"""No annotator is ever taken to be impossible to be right or wrong: two perfect ones may contradict each other."""


def cells_of(annotations: Annotations) -> npt.NDArray[np.int64]:
    """The cell of each annotation: its (annotator, task) pair, counted row by row. Shape (annotations,)."""
    tasks = annotations.item_tasks[annotations.item].astype(np.int64)
    return annotations.annotator.astype(np.int64) * len(annotations.tasks) + tasks


def check_log_probs(annotations: Annotations, log_probs: npt.ArrayLike) -> Floats:
    """log_probs normalised over each item's own options, -inf beyond them. Shape (items, Kmax), float64."""
    scores = np.asarray(log_probs, dtype=np.float64)
    counts = annotations.option_counts
    widest = int(counts.max()) if len(counts) else 0
    if scores.ndim != 2 or scores.shape[0] != annotations.n_items or scores.shape[1] < widest:
        raise RealmError(
            f"log_probs must have shape ({annotations.n_items}, {widest}): a row per item, a column per option; "
            f"it has {scores.shape}."
        )
    scores = np.where(np.arange(scores.shape[1]) < counts[:, None], scores, -np.inf)
    if np.isnan(scores).any() or (scores == np.inf).any() or (scores.max(axis=1, initial=-np.inf) == -np.inf).any():
        raise RealmError("log_probs: every item needs one option with a finite log-probability, and no NaN.")
    return log_normalise(scores)


def log_odds(annotations: Annotations, beta: Floats) -> Floats:
    """What each annotation says for its label: log P(label | label true) - log P(label | another true).

    `beta` is (annotators, tasks), each on [-1/(K-1), 1]. Shape (annotations,).
    """
    weight = beta.reshape(-1)[cells_of(annotations)]
    guess = (1 - weight) / annotations.option_counts[annotations.item]
    return np.log(np.maximum(weight + guess, SMALLEST)) - np.log(np.maximum(guess, SMALLEST))


def log_scores(annotations: Annotations, log_probs: Floats, evidence: Floats) -> Floats:
    """log P(k|Q) plus the evidence of the item's annotations for k; not normalised. Shape (items, Kmax)."""
    width = log_probs.shape[1]
    where = annotations.item.astype(np.int64) * width + annotations.label
    return log_probs + np.bincount(where, evidence, minlength=log_probs.size).reshape(log_probs.shape)


def posterior(annotations: Annotations, log_probs: npt.ArrayLike, beta: npt.ArrayLike) -> Floats:
    """P(true label = k | everything): proportional to P(k|Q) * prod over annotations of beta [label=k] + (1-beta)/K_Q.

    | argument | shape | meaning |
    |---|---|---|
    | log_probs | (items, Kmax) | log P(k|Q) of the model; ignored beyond an item's own options |
    | beta | (annotators, tasks) | expertise, from -1/(K-1) (always wrong) to 1 (always right) |

    Returns (items, Kmax), rows summing to 1 and zero beyond an item's own options.

    Example:
        >>> import pandas as pd
        >>> table = Annotations.from_pandas(pd.DataFrame(
        ...     {"text": ["a", "a"], "annotator": ["x", "y"], "label": ["no", "yes"]}))
        >>> posterior(table, np.log([[0.5, 0.5]]), [[0.8], [0.0]]).round(2).tolist()
        [[0.9, 0.1]]
    """
    scores = check_log_probs(annotations, log_probs)
    weights = np.asarray(beta, dtype=np.float64).reshape(annotations.n_annotators, len(annotations.tasks))
    return np.exp(log_normalise(log_scores(annotations, scores, log_odds(annotations, weights))))


def log_normalise(scores: Floats) -> Floats:
    if not scores.size:
        return scores
    top = scores.max(axis=1, keepdims=True)
    normalised: Floats = scores - top - np.log(np.exp(scores - top).sum(axis=1, keepdims=True))
    return normalised


# -------------------------------------------------------------------- cleaned labels


class OptionNames:
    """The name of any option of any item, looked up for many items at once."""

    def __init__(self, annotations: Annotations) -> None:
        lists = [list(task.labels or ()) for task in annotations.tasks]
        starts = np.concatenate([[0], np.cumsum([len(names) for names in lists])])
        names: list[str] = [name for task_names in lists for name in task_names]
        self._starts = starts[annotations.item_tasks]
        if annotations.options is not None:
            own = annotations.options.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
            first = len(names) + np.cumsum(own) - own
            self._starts = np.where(own > 0, first, self._starts)
            names += annotations.options.flatten().to_pylist()
        self._names = np.array([*names, ""], dtype=object)

    def __call__(self, items: npt.NDArray[np.integer], labels: npt.NDArray[np.integer]) -> npt.NDArray[np.object_]:
        """Names of option `labels[j]` of item `items[j]`; an empty name where the label is -1. Shape (n,)."""
        chosen: npt.NDArray[np.object_] = self._names[np.where(labels < 0, -1, self._starts[items] + labels)]
        return chosen


def votes_in_words(annotations: Annotations, names: OptionNames) -> list[str]:
    """`positive 3, negative 1` for each item, the most frequent first; empty where nobody labelled it."""
    width = int(annotations.option_counts.max(initial=1))
    pairs, counts = np.unique(annotations.item.astype(np.int64) * width + annotations.label, return_counts=True)
    items, labels = np.divmod(pairs, width)
    order = np.lexsort((labels, -counts, items))
    items, labels, counts = items[order], labels[order], counts[order]
    said = [f"{name} {count}" for name, count in zip(names(items, labels), counts.tolist(), strict=True)]
    stops = np.searchsorted(items, np.arange(annotations.n_items), side="right").tolist()
    return [", ".join(said[start:stop]) for start, stop in zip([0, *stops], stops, strict=False)]


def labels_table(annotations: Annotations, posterior: Floats, probabilities: str | None = None) -> pd.DataFrame:
    """The most probable label of every item, one row per item.

    Columns: item, task, text, label, confidence (posterior probability of the label), runner_up, votes,
    annotations, majority_disagrees (another option has more votes than the label given here), and `probabilities` as
    given (`in-sample` or `out of fold`: what the model's P was).
    """
    import pandas as pd

    items = np.arange(annotations.n_items)
    counts = annotations.option_counts
    ranked = np.where(np.arange(posterior.shape[1]) < counts[:, None], posterior, -1.0)
    best = ranked.argmax(axis=1)
    rest = ranked.copy()
    rest[items, best] = -1.0
    second = np.where(counts > 1, rest.argmax(axis=1), -1)
    width = posterior.shape[1]
    votes = np.bincount(annotations.item.astype(np.int64) * width + annotations.label, minlength=posterior.size)
    votes = votes.reshape(posterior.shape)
    names = OptionNames(annotations)
    task_names = np.array([task.name for task in annotations.tasks], dtype=object)
    made = pd.DataFrame(
        {
            "item": annotations.item_ids.to_pylist(),
            "task": task_names[annotations.item_tasks],
            "text": annotations.texts.to_pylist(),
            "label": names(items, best),
            "confidence": posterior[items, best],
            "runner_up": names(items, second),
            "votes": votes_in_words(annotations, names),
            "annotations": annotations.annotations_per_item,
            "majority_disagrees": votes.max(axis=1, initial=0) > votes[items, best],
        }
    )
    return made if probabilities is None else made.assign(probabilities=probabilities)
