"""What the screens show of each annotator, in words: the columns `habit` and `notes` of the table of annotators."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import numpy.typing as npt

from realm.crowd.copies import CopyPair
from realm.crowd.drift import Drift
from realm.crowd.screens import Screens
from realm.crowd.suspects import ConfusedLabel, Suspect
from realm.crowd.verdicts import one_answer, share_read
from realm.data.annotations import Annotations

MOST_CONFUSED = 2
"""Confusions that are named of an annotator in a task, the most frequent; the report has them all."""
NOT_READING = 0.9
"""A habit is shown where fewer labels than this are read over the whole interval: one in ten is not."""
MIN_EXCESS = 0.15
"""How far the favourite's share must lie above its share of the task's labels, and above an even one, to be shown."""
MIN_Z = 3.0
"""The same in standard errors, counting the labels given by habit: by chance one annotator in a thousand is shown."""


def annotator_notes(screens: Screens) -> npt.NDArray[np.object_]:
    """What there is to say of each annotator in each task; empty where nothing is. Shape (annotators, tasks)

    "always answers `no`", "repeats the same 3 answers in turn", "answers `neutral` for 62% of the items that are
    `positive`, as others do for 9%", "accuracy fell from 91% (84–96%) to 62% (51–72%) on 2026-03-04", "gives the same
    labels as `bob` on 98% of 210 shared items". All of it is beyond chance.
    """
    annotations, n_tasks = screens.annotations, len(screens.annotations.tasks)
    texts = defaultdict[tuple[int, int], list[str]](list)
    for pattern in screens.patterns:
        texts[pattern.annotator, pattern.task].append(pattern_in_words(annotations, pattern))
    named = Counter[tuple[int, int]]()
    for each in screens.confused:
        named[each.annotator, each.task] += 1
        if named[each.annotator, each.task] <= MOST_CONFUSED:
            texts[each.annotator, each.task].append(confusion_in_words(annotations, each))
    for when in screens.times:
        if when.drift is not None and when.drift.flagged:
            texts[when.annotator, when.task].append(drift_in_words(when.drift))
    for annotator, text in copies_in_words(annotations, screens.copies).items():
        for task in range(n_tasks):
            texts[annotator, task].append(text)
    notes = np.full((annotations.n_annotators, n_tasks), "", dtype=object)
    for at, of_pair in texts.items():
        notes[at] = "; ".join(of_pair)
    return notes


def habit_notes(screens: Screens) -> npt.NDArray[np.object_]:
    """What each annotator answers when not answering from the item, where it is clear; empty elsewhere.

    "answers `toxic` 93% of the time when not answering from the item"; "option 1" where items list their own.
    Shape (annotators, tasks). Shown of those who clearly do not always answer from the item, and whose favourite is
    clearly not that of everybody. Those who always give the same answer or take one label for another, which a habit
    describes badly, are in `annotator_notes`.
    """
    annotations, estimate = screens.annotations, screens.estimate
    width, n_tasks = estimate.habits.shape[2], len(annotations.tasks)
    task = annotations.item_tasks[annotations.item].astype(np.int64)
    counts = np.bincount(task * width + annotations.label, minlength=n_tasks * width).reshape(n_tasks, width)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    habits = np.nan_to_num(estimate.habits)
    option, favourite = habits.argmax(axis=2), habits.max(axis=2)
    usual = np.maximum(shares[np.arange(n_tasks), option], 1 / np.maximum((habits > 0).sum(axis=2), 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        by_habit = (1 - estimate.expertise) * estimate.annotations
        standard_error = np.sqrt(np.maximum(usual * (1 - usual), 1 / width**2) / by_habit)
        excess = favourite - usual
        is_clear = (estimate.expertise > 0) & (share_read(estimate, estimate.high) < NOT_READING)
        is_clear &= (excess > MIN_EXCESS) & (excess > MIN_Z * standard_error) & ~one_answer(annotations)
    for each in screens.confused:
        is_clear[each.annotator, each.task] = False
    words = np.full(is_clear.shape, "", dtype=object)
    for at in zip(*np.nonzero(is_clear), strict=True):
        answer = answer_in_words(annotations, int(at[1]), int(option[at]))
        words[at] = f"answers {answer} {favourite[at]:.0%} of the time when not answering from the item"
    return words


def pattern_in_words(annotations: Annotations, suspect: Suspect) -> str:
    """ "always answers `no`", "repeats the same 3 answers in turn" """
    if suspect.kind != "constant":
        return f"repeats the same {suspect.period} answers in turn"
    of_pair = (annotations.annotator == suspect.annotator) & (annotations.item_tasks[annotations.item] == suspect.task)
    label = int(annotations.label[int(of_pair.argmax())])
    return f"always answers {answer_in_words(annotations, suspect.task, label)}"


def confusion_in_words(annotations: Annotations, confused: ConfusedLabel) -> str:
    """ "answers `neutral` for 62% of the items that are `positive`, as others do for 9%" """
    given, truth = (answer_in_words(annotations, confused.task, label) for label in (confused.given, confused.truth))
    share, others = f"{confused.share:.0%}", f"{confused.others:.0%}"
    return f"answers {given} for {share} of the items that are {truth}, as others do for {others}"


def drift_in_words(drift: Drift) -> str:
    """ "accuracy fell from 91% (84–96%) to 62% (51–72%) on 2026-03-04" """
    spans = [f"{share:.0%} ({low:.0%}–{high:.0%})" for share, low, high in (drift.before, drift.after)]
    verb = "fell" if drift.after[0] < drift.before[0] else "rose"
    return f"accuracy {verb} from {spans[0]} to {spans[1]} on {day(drift.time)}"


def copies_in_words(annotations: Annotations, copies: list[CopyPair]) -> dict[int, str]:
    """Of each annotator who copies, "gives the same labels as `bob` on 98% of 210 shared items": the nearest one."""
    partners = defaultdict[int, list[tuple[float, int, int]]](list)
    for pair in copies:
        for one, other in ((pair.first, pair.second), (pair.second, pair.first)):
            partners[one].append((-pair.same / pair.shared, -pair.shared, other))
    words = {}
    for one, others in partners.items():
        share, shared, other = min(others)
        words[one] = (
            f"gives the same labels as `{annotations.annotators[other]}` on {-share:.0%} of {-shared:,} shared items"
            + f", and nearly the same as {len(others) - 1:,} more" * (len(others) > 1)
        )
    return words


def answer_in_words(annotations: Annotations, task: int, label: int) -> str:
    """A label by its name, or by its place where items list options of their own."""
    names = annotations.tasks[task].labels
    return f"option {label + 1}" if names is None else f"`{names[label]}`"


def day(seconds: float) -> str:
    """The date of a time, UTC."""
    return str(np.datetime64(int(seconds), "s").astype("datetime64[D]"))
