"""What the labels of each annotator show, in words: one answer always, answers in turn, labels confused, copies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from realm.crowd.confused_labels import ConfusedLabel
from realm.crowd.copies import CopyPair, find_copies
from realm.crowd.drift import notable, over_time
from realm.crowd.suspects import fixed_patterns
from realm.data import Annotations

MOST_CONFUSED = 2
"""Confusions that are named of an annotator in a task, the most frequent; the report has them all."""


def annotator_notes(annotations: Annotations, confused: Sequence[ConfusedLabel] = ()) -> npt.NDArray[np.object_]:
    """What there is to say of each annotator in each task; empty where nothing is. Shape (annotators, tasks).

    "always answers `no`", "repeats the same 3 answers in turn", "answers `neutral` for 62% of the items that are
    `positive`, as others do for 9%", "accuracy fell from 91% (84–96%) to 62% (51–72%) on 2026-03-04", "gives the same
    labels as `bob` on 98% of 210 shared items". All of it is beyond chance (`realm.crowd.suspects`, `confused_labels`,
    `drift`, `copies`); without confusions, which `confused_labels` finds, it is what `realm check` finds.
    """
    notes = np.full((annotations.n_annotators, len(annotations.tasks)), "", dtype=object)
    for suspect in fixed_patterns(annotations):
        notes[suspect.annotator, suspect.task] = suspect.evidence
    confusions: dict[tuple[int, int], list[str]] = {}
    for label in confused:
        confusions.setdefault((label.annotator, label.task), []).append(label.in_words(annotations))
    for pair, words in confusions.items():
        notes[pair] = "; ".join([*filter(None, [notes[pair]]), *words[:MOST_CONFUSED]])
    for each in over_time(annotations):
        told = [note for note in (notes[each.annotator, each.task], *notable(annotations, each)) if note]
        notes[each.annotator, each.task] = "; ".join(told)
    partners: dict[int, list[tuple[int, CopyPair]]] = {}
    for copy in find_copies(annotations):
        for one, other in ((copy.first, copy.second), (copy.second, copy.first)):
            partners.setdefault(one, []).append((other, copy))
    for one, others in partners.items():
        other, copy = min(others, key=lambda entry: (-entry[1].same / entry[1].shared, -entry[1].shared, entry[0]))
        text = f"gives the same labels as `{annotations.annotators[other]}` on {copy.same / copy.shared:.0%} of "
        text += f"{copy.shared:,} shared items"
        if len(others) > 1:
            text += f", and nearly the same as {len(others) - 1:,} more"
        notes[one] = [f"{note}; {text}" if note else text for note in notes[one]]
    return notes
