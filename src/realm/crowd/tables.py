"""The tables for people: how far each annotator can be trusted, the cleaned label of every item, contradictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from realm.crowd.engine import Floats, Ints, log_softmax
from realm.crowd.estimate import Estimate
from realm.crowd.label_figures import count_rows, share_right
from realm.crowd.notes import annotator_notes, habit_notes
from realm.crowd.screens import Screens
from realm.crowd.suspects import reliable_posterior
from realm.crowd.verdicts import VERDICTS
from realm.data import Annotations
from realm.data.annotations import UNKNOWN

if TYPE_CHECKING:
    import pandas as pd

CONFIDENT = 0.8
"""Model and annotators contradict each other where each gives this much to a different option: four to one."""


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
    (share of the labels that are the posterior's), verdict, habit and notes (`realm.crowd.notes`), labels_per_hour and
    lead_time (in seconds, where annotations have times), scale (`absolute`, or `relative` with mostly one label per
    item), and `probabilities` as given (`in-sample` or `out of fold`: what the model's P was when it judged them).
    `screens` are those of the same estimate, where they are at hand.
    """
    import pandas as pd

    screens, counts = screens or Screens(annotations, estimate), estimate.annotations
    annotator, task = pair = np.nonzero(counts)
    agreement, _ = share_right(annotations, estimate.posterior.argmax(axis=1))
    learned = {name: np.asarray(values, np.float64).reshape(counts.shape) for name, values in (trained or {}).items()}
    columns = {
        "annotator": np.array(annotations.annotators, dtype=object)[annotator],
        "task": task_names(annotations)[task],
        **({} if annotations.groups is None else {"group": np.array(annotations.groups, dtype=object)[annotator]}),
        "expertise": estimate.expertise[pair],
        **{name: values[pair] for name, values in learned.items()},
        "accuracy": estimate.accuracy[pair],
        "low": estimate.low[pair],
        "high": estimate.high[pair],
        "annotations": counts[pair],
        "agreement": agreement[pair],
        "verdict": np.array(VERDICTS, dtype=object)[screens.verdicts[pair]],
        "habit": habit_notes(screens)[pair],
        "notes": annotator_notes(screens)[pair],
    }
    for name, figure in (("labels_per_hour", "per_hour"), ("lead_time", "lead_time")):
        if screens.times:
            values = np.full(counts.shape, np.nan)
            for each in screens.times:
                values[each.annotator, each.task] = getattr(each, figure)
            columns[name] = values[pair]
    columns["scale"] = np.where(estimate.relative_tasks, "relative", "absolute")[task]
    if probabilities is not None:
        columns["probabilities"] = np.full(len(task), probabilities, dtype=object)
    order = np.lexsort((annotator, -estimate.accuracy[pair], task))
    return pd.DataFrame(columns).iloc[order].reset_index(drop=True)


# -------------------------------------------------------------------- items


class OptionNames:
    """The name of any option of any item, looked up for many items at once."""

    def __init__(self, annotations: Annotations) -> None:
        label_sets = [task.labels or () for task in annotations.tasks]
        names = [name for labels in label_sets for name in labels]
        self._starts = np.cumsum([0, *map(len, label_sets)])[annotations.item_tasks]
        if annotations.items.options is not None:
            own = annotations.items.options.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
            first = len(names) + np.cumsum(own) - own
            self._starts = np.where(own > 0, first, self._starts)
            names += annotations.items.options.flatten().to_pylist()
        self._names = np.array([*names, ""], dtype=object)

    def __call__(self, items: npt.NDArray[np.integer], labels: npt.NDArray[np.integer]) -> npt.NDArray[np.object_]:
        """Names of option `labels[j]` of item `items[j]`; an empty name where the label is -1. Shape (n,)."""
        return np.asarray(self._names[np.where(labels < 0, -1, self._starts[items] + labels)])


def task_names(annotations: Annotations) -> npt.NDArray[np.object_]:
    """The names of the tasks. Shape (tasks,)."""
    return np.array([task.name for task in annotations.tasks], dtype=object)


def item_columns(annotations: Annotations) -> dict[str, Any]:
    """The columns that say which item a row is about: item, task, text, and context where the table has any."""
    contexts = annotations.items.contexts
    return {
        "item": annotations.item_ids.to_pylist(),
        "task": task_names(annotations)[annotations.item_tasks],
        "text": annotations.texts.to_pylist(),
        **({} if contexts is None else {"context": contexts.to_pylist()}),
    }


def label_counts_in_words(annotations: Annotations, names: OptionNames) -> list[str]:
    """`positive 3, negative 1` for each item, the most frequent first; empty where nobody labelled it."""
    (items, labels), _, counts = count_rows(annotations.item, annotations.label)
    order = np.lexsort((labels, -counts, items))
    words: list[list[str]] = [[] for _ in range(annotations.n_items)]
    counted = zip(items[order].tolist(), names(items, labels)[order], counts[order].tolist(), strict=True)
    for item, name, count in counted:
        words[item].append(f"{name} {count}")
    return [", ".join(each) for each in words]


def labels_table(annotations: Annotations, posterior: Floats, probabilities: str | None = None) -> pd.DataFrame:
    """The most probable label of every item, one row per item.

    Columns: item, task, text, context (where there is any), label, confidence (posterior probability of the label),
    runner_up, labels_given (`positive 3, negative 1`), annotations, majority_disagrees (another option was given more
    often than this label), and `probabilities` as given (`in-sample` or `out of fold`: what the model's P was).
    """
    import pandas as pd

    items = np.arange(annotations.n_items)
    rest = np.where(np.arange(posterior.shape[1]) < annotations.option_counts[:, None], posterior, -1.0)
    best = rest.argmax(axis=1)
    rest[items, best] = -1.0
    second = np.where(annotations.option_counts > 1, rest.argmax(axis=1), UNKNOWN)
    place = annotations.item.astype(np.int64) * posterior.shape[1] + annotations.label
    votes = np.bincount(place, minlength=posterior.size).reshape(posterior.shape)
    names = OptionNames(annotations)
    table = pd.DataFrame(
        {
            **item_columns(annotations),
            "label": names(items, best),
            "confidence": posterior[items, best],
            "runner_up": names(items, second),
            "labels_given": label_counts_in_words(annotations, names),
            "annotations": annotations.annotations_per_item,
            "majority_disagrees": votes.max(axis=1, initial=0) > votes[items, best],
        }
    )
    return table if probabilities is None else table.assign(probabilities=probabilities)


def item_summary(annotations: Annotations, log_probs: npt.ArrayLike, estimate: Estimate, items: Ints) -> dict[str, Any]:
    """The columns that both tables begin with: what an item is, its label, and what model and annotators say."""
    names = OptionNames(annotations)
    label = estimate.posterior[items].argmax(axis=1)
    model = model_probs(annotations, log_probs)[items].argmax(axis=1)
    table = annotations.take_items(items)
    return {
        **item_columns(table),
        "label": names(items, label),
        "confidence": estimate.posterior[items, label],
        "model": names(items, model),
        "labels_given": label_counts_in_words(table, OptionNames(table)),
        "annotations": table.annotations_per_item,
    }


def contradictions(annotations: Annotations, log_probs: npt.ArrayLike, estimate: Estimate) -> pd.DataFrame:
    """Items on which the model is sure of one option and the reliable annotators together of another.

    Both give 0.8 or more. The annotators' side is the posterior without the model, over the labels of those whose
    verdict is reliable. Read the item: the model may be wrong, or the annotators may have made the same mistake; one
    more label tells little about which. With in-sample probabilities the model may have memorised the labels, and
    fewer items are found.

    Columns: item, task, text, context (where there is any), label, confidence, model, labels_given, annotations,
    model_confidence, annotators_say, annotators_confidence, conflict (the product of the two confidences); the sharpest
    first.
    """
    import pandas as pd

    model = model_probs(annotations, log_probs)
    _, annotators = reliable_posterior(annotations, estimate)
    label, confidence = model.argmax(axis=1), model.max(axis=1, initial=0.0)
    their_label, their_confidence = annotators.argmax(axis=1), annotators.max(axis=1, initial=0.0)
    order = np.flatnonzero((label != their_label) & (np.minimum(confidence, their_confidence) >= CONFIDENT))
    conflict = confidence * their_confidence
    order = order[np.argsort(-conflict[order], kind="stable")]
    return pd.DataFrame(
        {
            **item_summary(annotations, log_probs, estimate, order),
            "model_confidence": confidence[order],
            "annotators_say": OptionNames(annotations)(order, their_label[order]),
            "annotators_confidence": their_confidence[order],
            "conflict": conflict[order],
        }
    )


def model_probs(annotations: Annotations, log_probs: npt.ArrayLike) -> Floats:
    """P of a model over each item's own options, 0 beyond them; even where nothing is known (NaN). (items, Kmax)"""
    scores = np.nan_to_num(np.asarray(log_probs, dtype=np.float64), nan=0.0, neginf=-np.inf)
    scores = np.where(np.arange(scores.shape[1]) < annotations.option_counts[:, None], scores, -np.inf)
    return np.exp(log_softmax(scores)) if scores.size else scores
