"""What the labels of each annotator show by themselves, in words: one answer always, answers in turn, copies."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from realm.crowd.copies import CopyPair, find_copies
from realm.crowd.drift import notable, over_time
from realm.crowd.suspects import fixed_patterns
from realm.data import Annotations


def annotator_notes(annotations: Annotations) -> npt.NDArray[np.object_]:
    """What there is to say of each annotator in each task; empty where nothing is. Shape (annotators, tasks).

    "always answers `no`", "repeats the same 3 answers in turn", "gives the same labels as `bob` on 98% of 210 shared
    items", "accuracy fell from 91% (84–96%) to 62% (51–72%) on 2026-03-04". What is said here is what `realm check`
    finds, and beyond chance (`realm.crowd.suspects`, `copies`, `drift`).
    """
    notes = np.full((annotations.n_annotators, len(annotations.tasks)), "", dtype=object)
    for suspect in fixed_patterns(annotations):
        notes[suspect.annotator, suspect.task] = suspect.evidence
    for each in over_time(annotations):
        told = [note for note in (notes[each.annotator, each.task], *notable(annotations, each)) if note]
        notes[each.annotator, each.task] = "; ".join(told)
    partners: dict[int, list[tuple[int, CopyPair]]] = {}
    for pair in find_copies(annotations):
        for one, other in ((pair.first, pair.second), (pair.second, pair.first)):
            partners.setdefault(one, []).append((other, pair))
    for one, others in partners.items():
        other, pair = min(others, key=lambda entry: (-entry[1].same / entry[1].shared, -entry[1].shared, entry[0]))
        words = f"gives the same labels as `{annotations.annotators[other]}` on {pair.same / pair.shared:.0%} of "
        words += f"{pair.shared:,} shared items"
        if len(others) > 1:
            words += f", and nearly the same as {len(others) - 1:,} more"
        notes[one] = [f"{note}; {words}" if note else words for note in notes[one]]
    return notes
