"""What the screens show of each annotator, in words: the columns `habit` and `notes` of the table of annotators."""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt

from realm.crowd.confusions import ConfusedLabel
from realm.crowd.copies import CopyPair
from realm.crowd.drift import Drift
from realm.crowd.screens import Screens
from realm.crowd.suspects import Suspect, one_answer
from realm.crowd.tables import share_read
from realm.data.annotations import Annotations

MOST_CONFUSED = 2
"""Confusions that are named of an annotator in a task, the most frequent; the report has them all."""
NOT_READING = 0.9
"""A habit is told of those who read fewer labels than this over the whole interval: one in ten is not read."""
OUT_OF_THE_WAY = 0.15
"""How far the favourite's share must lie above its share of the task's labels, and above an even one, to be told."""
BY_CHANCE = 3.0
"""How many standard errors, counting the labels given by habit: by chance one annotator in a thousand is told of."""


def annotator_notes(screens: Screens) -> npt.NDArray[np.object_]:
    """What there is to say of each annotator in each task; empty where nothing is. Shape (annotators, tasks)

    "always answers `no`", "repeats the same 3 answers in turn", "answers `neutral` for 62% of the items that are
    `positive`, as others do for 9%", "accuracy fell from 91% (84–96%) to 62% (51–72%) on 2026-03-04", "gives the same
    labels as `bob` on 98% of 210 shared items". All of it is beyond chance.
    """
    annotations = screens.annotations
    notes = np.full((annotations.n_annotators, len(annotations.tasks)), "", dtype=object)
    texts = [(each.annotator, each.task, pattern_in_words(annotations, each)) for each in screens.patterns]
    most = Counter[tuple[int, int]]()
    for each in screens.confused:
        most[each.annotator, each.task] += 1
        if most[each.annotator, each.task] <= MOST_CONFUSED:
            texts.append((each.annotator, each.task, confusion_in_words(annotations, each)))
    for when in screens.times:
        if when.drift is not None and when.drift.flagged:
            texts.append((when.annotator, when.task, drift_in_words(when.drift)))
    for annotator, text in copies_in_words(annotations, screens.copies).items():
        texts += [(annotator, task, text) for task in range(len(annotations.tasks))]
    for annotator, task, text in texts:
        notes[annotator, task] += "; " * bool(notes[annotator, task]) + text
    return notes


def habit_notes(screens: Screens) -> npt.NDArray[np.object_]:
    """What each annotator answers when not answering from the item, where there is something to tell. Else empty.

    "answers `toxic` 93% of the time when not answering from the item"; "the 1st option" where items list their own.
    Shape (annotators, tasks). Told of those who clearly do not always answer from the item, and whose favourite is
    clearly not that of everybody. Of those who always give the same answer, and of those who take one label for
    another, which a habit describes badly, `annotator_notes` tells.
    """
    annotations, estimate = screens.annotations, screens.estimate
    words = np.full(estimate.expertise.shape, "", dtype=object)
    width = estimate.habits.shape[2]
    task = annotations.item_tasks[annotations.item].astype(np.int64)
    counts = np.bincount(task * width + annotations.label, minlength=len(annotations.tasks) * width).reshape(-1, width)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    habits = np.nan_to_num(estimate.habits)
    even = 1 / np.maximum((habits > 0).sum(axis=2), 1)
    option = habits.argmax(axis=2)
    with np.errstate(invalid="ignore", divide="ignore"):
        most_read = share_read(estimate, estimate.high)
        favourite = np.take_along_axis(habits, option[..., None], axis=2)[..., 0]
        usual = np.maximum(shares[np.arange(len(shares)), option], even)
        by_habit = (1 - estimate.expertise) * estimate.annotations
        excess = (favourite - usual) / np.sqrt(np.maximum(usual * (1 - usual), 1 / width**2) / by_habit)
        is_told = (estimate.expertise > 0) & (most_read < NOT_READING)
        is_told &= (favourite - usual > OUT_OF_THE_WAY) & (excess > BY_CHANCE) & ~one_answer(annotations)
    for each in screens.confused:
        is_told[each.annotator, each.task] = False
    for who, which in zip(*np.nonzero(is_told), strict=True):
        answer, share = answer_in_words(annotations, int(which), int(option[who, which])), favourite[who, which]
        words[who, which] = f"answers {answer} {share:.0%} of the time when not answering from the item"
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
    partners: dict[int, list[tuple[int, CopyPair]]] = {}
    for copy in copies:
        for one, other in ((copy.first, copy.second), (copy.second, copy.first)):
            partners.setdefault(one, []).append((other, copy))
    words = {}
    for one, others in partners.items():
        other, copy = min(others, key=lambda entry: (-entry[1].same / entry[1].shared, -entry[1].shared, entry[0]))
        words[one] = (
            f"gives the same labels as `{annotations.annotators[other]}` on {copy.same / copy.shared:.0%} of "
            f"{copy.shared:,} shared items" + f", and nearly the same as {len(others) - 1:,} more" * (len(others) > 1)
        )
    return words


def answer_in_words(annotations: Annotations, task: int, label: int) -> str:
    """A label by its name, or by its place where items list options of their own."""
    names = annotations.tasks[task].labels
    if names is not None:
        return f"`{names[label]}`"
    ending = {1: "st", 2: "nd", 3: "rd"}.get((label + 1) % 10, "th")
    return f"the {label + 1}{'th' if (label + 1) % 100 in (11, 12, 13) else ending} option"


def day(seconds: float) -> str:
    """The date of a time, UTC."""
    return str(np.datetime64(int(seconds), "s").astype("datetime64[D]"))
