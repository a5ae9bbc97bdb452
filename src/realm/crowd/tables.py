"""The tables for people: how far each annotator can be trusted, and the cleaned label of every item."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from realm.crowd.engine import Floats, Ints, log_softmax
from realm.crowd.estimate import Estimate
from realm.crowd.label_figures import share_right
from realm.crowd.screens import Screens
from realm.crowd.verdicts import VERDICTS
from realm.data import Annotations
from realm.data.annotations import UNKNOWN

if TYPE_CHECKING:
    import pandas as pd


def expertise_table(
    annotations: Annotations,
    estimate: Estimate,
    trained: Mapping[str, npt.ArrayLike] | None = None,
    probabilities: str | None = None,
    screens: Screens | None = None,
) -> pd.DataFrame:
    """One row per annotator and task with annotations, the most accurate first within a task.

    Columns: annotator, task, group (where annotators have groups), expertise, what a channel reports besides
    (`trained`: name to (annotators, tasks), such as `expertise_trained`), accuracy, low, high, annotations, agreement
    (share of the labels that are the posterior's), verdict, habit and notes (`Screens`), labels_per_hour and lead_time
    (in seconds, where annotations have times), scale (`absolute`, or `relative` with mostly one label per item), and
    `probabilities` as given (`in-sample` or `out of fold`: what the model's P was when it judged them).
    """
    import pandas as pd

    screens = screens or Screens(annotations, estimate)
    annotator, task = pair = np.nonzero(estimate.annotations)
    frame = pd.DataFrame({"annotator": np.array(annotations.annotators, dtype=object)[annotator]})
    frame["task"] = np.array([each.name for each in annotations.tasks], dtype=object)[task]
    if annotations.groups is not None:
        frame["group"] = np.array(annotations.groups, dtype=object)[annotator]
    frame["expertise"] = estimate.expertise[pair]
    for name, values in (trained or {}).items():
        frame[name] = np.asarray(values, np.float64).reshape(estimate.expertise.shape)[pair]
    for name in ("accuracy", "low", "high", "annotations"):
        frame[name] = getattr(estimate, name)[pair]
    frame["agreement"] = share_right(annotations, estimate.posterior.argmax(axis=1))[0][pair]
    frame["verdict"] = np.array(VERDICTS, dtype=object)[screens.verdicts[pair]]
    frame["habit"], frame["notes"] = screens.habits[pair], screens.notes[pair]
    if screens.times:
        speed = pd.DataFrame(screens.times)[["annotator", "task", "labels_per_hour", "lead_time"]]
        frame = frame.merge(speed, how="left", on=["annotator", "task"])
    frame["scale"] = np.where(estimate.relative_tasks, "relative", "absolute")[task]
    if probabilities is not None:
        frame["probabilities"] = probabilities
    return frame.iloc[np.lexsort((annotator, -estimate.accuracy[pair], task))].reset_index(drop=True)


def labels_table(annotations: Annotations, posterior: Floats, probabilities: str | None = None) -> pd.DataFrame:
    """The most probable label of every item, one row per item.

    Columns: item, task, text, context (where there is any), label, confidence (posterior probability of the label),
    runner_up, labels_given (`positive 3, negative 1`), annotations, majority_disagrees (another option was given more
    often than this label), and `probabilities` as given (`in-sample` or `out of fold`: what the model's P was).
    """
    import pandas as pd

    items, names = np.arange(annotations.n_items), OptionNames(annotations)
    rest = np.where(np.arange(posterior.shape[1]) < annotations.option_counts[:, None], posterior, -1.0)
    best = rest.argmax(axis=1)
    rest[items, best] = -1.0
    votes = label_votes(annotations)
    columns = item_columns(annotations) | {
        "label": names(items, best),
        "confidence": posterior[items, best],
        "runner_up": names(items, np.where(annotations.option_counts > 1, rest.argmax(axis=1), UNKNOWN)),
        "labels_given": label_counts_in_words(annotations, names),
        "annotations": annotations.annotations_per_item,
        "majority_disagrees": votes.max(axis=1, initial=0) > votes[items, best],
    }
    return pd.DataFrame(columns if probabilities is None else columns | {"probabilities": probabilities})


class OptionNames:
    """The name of any option of any item, looked up for many items at once."""

    def __init__(self, annotations: Annotations) -> None:
        label_sets = [task.labels or () for task in annotations.tasks]
        names = [name for labels in label_sets for name in labels]
        self._starts = np.cumsum([0, *map(len, label_sets)])[annotations.item_tasks]
        if annotations.items.options is not None:
            own = annotations.items.options.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
            self._starts = np.where(own > 0, len(names) + np.cumsum(own) - own, self._starts)
            names += annotations.items.options.flatten().to_pylist()
        self._names = np.array([*names, ""], dtype=object)

    def __call__(self, items: npt.NDArray[np.integer], labels: npt.NDArray[np.integer]) -> npt.NDArray[np.object_]:
        """Names of option `labels[j]` of item `items[j]`; an empty name where the label is -1. Shape (n,)."""
        return np.asarray(self._names[np.where(labels < 0, -1, self._starts[items] + labels)])


def item_columns(annotations: Annotations) -> dict[str, Any]:
    """The columns that say which item a row is about: item, task, text, and context where the table has any."""
    items, tasks = annotations.items, np.array([task.name for task in annotations.tasks], dtype=object)
    columns = {"item": items.ids.to_pylist(), "task": tasks[items.item_tasks], "text": items.texts.to_pylist()}
    return columns if items.contexts is None else columns | {"context": items.contexts.to_pylist()}


def label_counts_in_words(annotations: Annotations, names: OptionNames) -> list[str]:
    """`positive 3, negative 1` for each item, the most frequent first; empty where nobody labelled it."""
    votes, words = label_votes(annotations), [""] * annotations.n_items
    items, labels = np.nonzero(votes)
    order = np.lexsort((labels, -votes[items, labels], items))
    items, labels = items[order], labels[order]
    for item, name, count in zip(items.tolist(), names(items, labels), votes[items, labels], strict=True):
        words[item] += f"{', ' * bool(words[item])}{name} {count}"
    return words


def label_votes(annotations: Annotations) -> Ints:
    """How often each option of each item was given. Shape (items, Kmax)"""
    width = int(annotations.option_counts.max(initial=1))
    place = annotations.item.astype(np.int64) * width + annotations.label
    return np.bincount(place, minlength=annotations.n_items * width).reshape(-1, width)


def model_probs(annotations: Annotations, log_probs: npt.ArrayLike) -> Floats:
    """P of a model over each item's own options, 0 beyond them; even where nothing is known (NaN). (items, Kmax)"""
    scores = np.nan_to_num(np.asarray(log_probs, dtype=np.float64), nan=0.0, neginf=-np.inf)
    scores = np.where(np.arange(scores.shape[1]) < annotations.option_counts[:, None], scores, -np.inf)
    return np.exp(log_softmax(scores)) if scores.size else scores
