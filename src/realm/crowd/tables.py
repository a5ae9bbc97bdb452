"""The tables for people: how far each annotator can be trusted, and the cleaned label of every item."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from realm.crowd.accuracy import expertise_of, lowest_expertise, pairs_of
from realm.crowd.engine import LEAST, Floats, Ints, log_softmax
from realm.crowd.estimate import Estimate
from realm.crowd.suspects import one_answer
from realm.data import Annotations

if TYPE_CHECKING:
    import pandas as pd

RELIABLE = 0.5
"""Reliable: half-way from chance to always right, or better; 0.75 where chance is 0.5, 0.95 where it is 0.9."""
NO_BETTER = 0.2
"""No better than chance: fewer than one label in five is read off the item."""
ONE_ANSWER = 0.3
"""The same of those who always give one answer: their interval is that of how many of their items call for it."""
SHORT = 0.2
"""An interval shorter than a fifth of the way from chance to always right: more labels would change little."""
VERDICTS = ("reliable", "middling", "not enough evidence", "no better than chance", "worse than chance")
"""The verdicts in words, from good to bad; elsewhere a verdict is an index into this."""


# -------------------------------------------------------------------- annotators


def verdicts(annotations: Annotations, estimate: Estimate) -> Ints:
    """The verdict of each pair, an index into `VERDICTS`; -1 without annotations. Shape (annotators, tasks).

    | verdict | over the whole interval |
    |---|---|
    | reliable | accuracy lies above half-way from chance to always right |
    | middling | the labels tell something (they are read), and accuracy lies below half-way or is known to a fifth |
    | no better than chance | fewer than one label in five is read off the item |
    | worse than chance | fewer labels are right than by guessing, by a fifth of the way to always wrong or more |
    | not enough evidence | none of these |

    Chance is the accuracy of always giving the most frequent label. The share of labels that are read is accuracy above
    what the annotator's own habit scores: of two who are right 93% of the time where 90% of the items are negative, one
    may find most of the positives. Who always gives the same answer may have read nothing: they are no better than
    chance, or there is not enough evidence. The interval allows for as many shared mistakes as are expected: the most
    that there may be would leave nobody reliable where one label is frequent.
    """
    varies, chance = ~one_answer(annotations), estimate.chance
    always_wrong = lowest_expertise(annotations).reshape(chance.shape)
    low, high = expected_interval(annotations, estimate)
    with np.errstate(invalid="ignore", divide="ignore"):
        read_low, read_high = (share_read(estimate, end) for end in (low, high))
        low, high = expertise_of(low, chance), expertise_of(high, chance)
        claims = {
            "worse than chance": varies & (read_high < 0) & (estimate.expertise < NO_BETTER * always_wrong),
            "no better than chance": read_high < np.where(varies, NO_BETTER, ONE_ANSWER),
            "reliable": varies & (low > RELIABLE),
            "middling": varies & (read_low > 0) & ((high < RELIABLE) | (high - low < SHORT)),
        }
    kinds = [-1, *map(VERDICTS.index, claims)]
    claimed = [estimate.annotations == 0, *claims.values()]
    return np.select(claimed, kinds, VERDICTS.index("not enough evidence")).astype(np.int64)


def expected_interval(annotations: Annotations, estimate: Estimate) -> tuple[Floats, Floats]:
    """low and high with as many shared mistakes as are expected, not as many as may be. Shapes (annotators, tasks)

    These move a to (1 - e) a + e (1 - a) / (K - 1), in an estimate with the highest e: a low end above 1/K, a high one
    below it.
    """
    task, n_tasks = annotations.item_tasks[annotations.item], len(annotations.tasks)
    options = np.bincount(task, annotations.option_counts[annotations.item], minlength=n_tasks)
    options = np.maximum(options / np.maximum(np.bincount(task, minlength=n_tasks), 1), 2.0)
    # of a distance from 1/K, mistakes leave 1 - e K / (K - 1)
    expected, highest = (
        1 - error * options / (options - 1) for error in (estimate.shared_error, estimate.shared_error_high)
    )

    def expect(end: Floats) -> Floats:
        return np.clip(1 / options + (end - 1 / options) * expected / np.maximum(highest, LEAST), 0.0, 1.0)

    low, high = estimate.low, estimate.high
    return np.where(low > 1 / options, expect(low), low), np.where(high < 1 / options, expect(high), high)


def share_read(estimate: Estimate, accuracy: Floats) -> Floats:
    """The expertise of each pair at another accuracy than its own, such as an end of the interval. (annotators, tasks)

    Expertise and accuracy are straight lines in each other that meet at 1, and at what the habit scores, where
    expertise is 0.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        by_habit = 1 - (1 - estimate.accuracy) / (1 - estimate.expertise)
        by_habit = np.clip(np.where(estimate.expertise < 1, by_habit, estimate.chance), 0.0, 1 - LEAST)
        return expertise_of(accuracy, by_habit)


def expertise_table(
    annotations: Annotations,
    estimate: Estimate,
    trained: Mapping[str, npt.ArrayLike] | None = None,
    probabilities: str | None = None,
) -> pd.DataFrame:
    """One row per annotator and task with annotations, the most accurate first within a task.

    Columns: annotator, task, group (where annotators have groups), expertise, what a channel reports besides
    (`trained`: name to (annotators, tasks), such as `expertise_trained`), accuracy, low, high, annotations, agreement
    (share of the labels that are the posterior's), verdict, habit and notes (`realm.crowd.notes`), labels_per_hour and
    lead_time (in seconds, where annotations have times), scale (`absolute`, or `relative` with mostly one label per
    item), and `probabilities` as given (`in-sample` or `out of fold`: what the model's P was when it judged them).
    """
    import pandas as pd

    from realm.crowd.notes import annotator_notes, habit_notes
    from realm.crowd.screens import Screens

    screens, counts = Screens(annotations, estimate), estimate.annotations
    annotator, task = pair = np.nonzero(counts)
    agrees = estimate.posterior.argmax(axis=1)[annotations.item] == annotations.label
    agreement = np.bincount(pairs_of(annotations), agrees, minlength=counts.size).reshape(counts.shape)
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
        "agreement": agreement[pair] / counts[pair],
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
    width = int(annotations.option_counts.max(initial=1))
    positions, counts = np.unique(annotations.item.astype(np.int64) * width + annotations.label, return_counts=True)
    items, labels = np.divmod(positions, width)
    order = np.lexsort((labels, -counts, items))
    items, labels, counts = items[order], labels[order], counts[order]
    words = [f"{name} {count}" for name, count in zip(names(items, labels), counts.tolist(), strict=True)]
    stops = np.searchsorted(items, np.arange(annotations.n_items), side="right").tolist()
    return [", ".join(words[start:stop]) for start, stop in zip([0, *stops], stops, strict=False)]


def labels_table(annotations: Annotations, posterior: Floats, probabilities: str | None = None) -> pd.DataFrame:
    """The most probable label of every item, one row per item.

    Columns: item, task, text, context (where there is any), label, confidence (posterior probability of the label),
    runner_up, labels_given (`positive 3, negative 1`), annotations, majority_disagrees (another option was given more
    often than this label), and `probabilities` as given (`in-sample` or `out of fold`: what the model's P was).
    """
    import pandas as pd

    items = np.arange(annotations.n_items)
    counts = annotations.option_counts
    ranked = np.where(np.arange(posterior.shape[1]) < counts[:, None], posterior, -1.0)
    best = ranked.argmax(axis=1)
    rest = ranked.copy()
    rest[items, best] = -1.0
    second = np.where(counts > 1, rest.argmax(axis=1), -1)
    label_counts = np.bincount(
        annotations.item.astype(np.int64) * posterior.shape[1] + annotations.label, minlength=posterior.size
    )
    label_counts = label_counts.reshape(posterior.shape)
    names = OptionNames(annotations)
    table = pd.DataFrame(
        {
            **item_columns(annotations),
            "label": names(items, best),
            "confidence": posterior[items, best],
            "runner_up": names(items, second),
            "labels_given": label_counts_in_words(annotations, names),
            "annotations": annotations.annotations_per_item,
            "majority_disagrees": label_counts.max(axis=1, initial=0) > label_counts[items, best],
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


def model_probs(annotations: Annotations, log_probs: npt.ArrayLike) -> Floats:
    """P of a model over each item's own options, 0 beyond them; even where nothing is known (NaN). (items, Kmax)"""
    scores = np.nan_to_num(np.asarray(log_probs, dtype=np.float64), nan=0.0, neginf=-np.inf)
    scores = np.where(np.arange(scores.shape[1]) < annotations.option_counts[:, None], scores, -np.inf)
    return np.exp(log_softmax(scores)) if scores.size else scores
