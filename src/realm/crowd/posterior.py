"""The posterior of each item's true label, and the table of cleaned labels made from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from realm.crowd.evidence import Evidence, Floats, Indices, log_softmax_rows, softmax_rows
from realm.data import Annotations
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd


def check_log_probs(annotations: Annotations, log_probs: npt.ArrayLike) -> Floats:
    """log_probs normalised over each item's own options, -inf beyond them. Shape (items, Kmax), float64."""
    scores = np.asarray(log_probs, dtype=np.float64)
    counts = annotations.option_counts
    widest = int(counts.max()) if len(counts) else 0
    if scores.ndim != 2 or scores.shape[0] != annotations.n_items or scores.shape[1] < widest:
        raise RealmError(
            f"`log_probs` must have shape ({annotations.n_items}, {widest}): a row per item, a column per option; "
            f"it has {scores.shape}."
        )
    scores = np.where(np.arange(scores.shape[1]) < counts[:, None], scores, -np.inf)
    if np.isnan(scores).any() or (scores == np.inf).any() or (scores.max(axis=1, initial=-np.inf) == -np.inf).any():
        raise RealmError("`log_probs`: every item needs one option with a finite log-probability, and no NaN.")
    return log_softmax_rows(scores)


def label_positions(annotations: Annotations, width: int) -> Indices:
    """Where each annotation's (item, label) falls in a flat (items, width) array. Shape (annotations,)."""
    return annotations.item.astype(np.int64) * width + annotations.label


def posterior(annotations: Annotations, log_probs: npt.ArrayLike, evidence: Evidence) -> Floats:
    """P(true label = k | everything) = softmax over k of log P(k|Q) + sum over the item's annotations of E[a, k].

    | argument | shape | meaning |
    |---|---|---|
    | log_probs | (items, Kmax) | log P(k|Q) of the model; ignored beyond an item's own options |
    | evidence | of all annotations | log P(label | k is true), e.g. `realm.crowd.coin.expertise_evidence` |

    Returns (items, Kmax), rows summing to 1 and zero beyond an item's own options.

    Example:
        >>> import pandas as pd
        >>> from realm.crowd.coin import expertise_evidence
        >>> table = Annotations.from_pandas(pd.DataFrame(
        ...     {"text": ["a", "a"], "annotator": ["x", "y"], "label": ["no", "yes"]}))
        >>> posterior(table, np.log([[0.5, 0.5]]), expertise_evidence(table, [[0.8], [0.0]])).round(2).tolist()
        [[0.9, 0.1]]
    """
    scores = check_log_probs(annotations, log_probs)
    if scores.size:
        scores += evidence.item_sums(label_positions(annotations, scores.shape[1]), scores.shape)
        softmax_rows(scores)
    return scores


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
        names: npt.NDArray[np.object_] = self._names[np.where(labels < 0, -1, self._starts[items] + labels)]
        return names


def label_counts_in_words(annotations: Annotations, names: OptionNames) -> list[str]:
    """`positive 3, negative 1` for each item, the most frequent first; empty where nobody labelled it."""
    width = int(annotations.option_counts.max(initial=1))
    positions, counts = np.unique(label_positions(annotations, width), return_counts=True)
    items, labels = np.divmod(positions, width)
    order = np.lexsort((labels, -counts, items))
    items, labels, counts = items[order], labels[order], counts[order]
    words = [f"{name} {count}" for name, count in zip(names(items, labels), counts.tolist(), strict=True)]
    stops = np.searchsorted(items, np.arange(annotations.n_items), side="right").tolist()
    return [", ".join(words[start:stop]) for start, stop in zip([0, *stops], stops, strict=False)]


def labels_table(annotations: Annotations, posterior: Floats, probabilities: str | None = None) -> pd.DataFrame:
    """The most probable label of every item, one row per item.

    Columns: item, task, text, label, confidence (posterior probability of the label), runner_up, votes,
    annotations, majority_disagrees (another option was given more often than this label), and `probabilities` as
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
    counts_given = np.bincount(label_positions(annotations, posterior.shape[1]), minlength=posterior.size)
    counts_given = counts_given.reshape(posterior.shape)
    names = OptionNames(annotations)
    task_names = np.array([task.name for task in annotations.tasks], dtype=object)
    table = pd.DataFrame(
        {
            "item": annotations.item_ids.to_pylist(),
            "task": task_names[annotations.item_tasks],
            "text": annotations.texts.to_pylist(),
            "label": names(items, best),
            "confidence": posterior[items, best],
            "runner_up": names(items, second),
            "votes": label_counts_in_words(annotations, names),
            "annotations": annotations.annotations_per_item,
            "majority_disagrees": counts_given.max(axis=1, initial=0) > counts_given[items, best],
        }
    )
    return table if probabilities is None else table.assign(probabilities=probabilities)
