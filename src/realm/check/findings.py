"""The findings about a table: what is unusual in it, whom or what it concerns, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from realm.check.groups import Group
from realm.crowd.screens import FEW, Screens
from realm.crowd.verdicts import VERDICTS
from realm.data.annotations import UNKNOWN, Annotations
from realm.data.corrections import folded, look_alikes
from realm.data.items import Items, clipped
from realm.data.overlap import shown_in
from realm.data.roles import listed
from realm.display import counted

LOW_ALPHA = 0.4
"""Agreement below which annotators agree little: well under 0.667, Krippendorff's lowest for tentative conclusions."""
RARE = 0.01
"""Share of the annotations below which a label is rare: "less than once in a hundred"."""
NAMED = 10
"""Labels or items that a message names: they fit on a line."""
REMEDIES = {
    "constant": "Leave them out with `exclude`, or ask them; the labels carry no information.",
    "chance": "Look at some of their labels; leave them out with `exclude` if they guess.",
    "below chance": "Look at some of their labels: did they mistake one label for another?",
}
"""What to do about whose labels carry no information."""


class Finding(NamedTuple):
    """One thing to know, whom or what it concerns, and what to do about it."""

    code: str
    level: Literal["note", "warning"]
    message: str
    remedy: str
    about: tuple[str, ...] = ()


def annotator_findings(screens: Screens) -> Iterator[Finding]:
    """Whose labels carry little information, who copies, who has changed, and who is hardly known."""
    annotations, estimate = screens.annotations, screens.estimate
    names, counts = annotations.annotators, annotations.annotations_per_annotator
    for who, task in np.argwhere(screens.constant | screens.guessers).tolist():
        at, code, what = (who, task), "constant", str(screens.notes[who, task])
        if not screens.constant[at]:
            is_worse = VERDICTS[screens.verdicts[at]] == "worse than chance"
            code = "below chance" if is_worse else "chance"
            what = "disagrees with the others more than chance would" if is_worse else "agrees little with the others"
            what += f": right {estimate.accuracy[at]:.0%} of the time ({estimate.low[at]:.0%}–{estimate.high[at]:.0%})"
        n = counted(int(estimate.annotations[at]), "label")
        message = f"'{names[who]}' {what}{in_task(annotations, task)} ({n})."
        yield Finding(code, "warning", message, REMEDIES[code], (names[who],))
    if few := [names[i] for i in counts.argsort(kind="stable") if counts[i] < FEW]:
        share = int(counts[counts < FEW].sum()) / annotations.n_annotations
        message = f"{len(few):,} of {len(counts):,} annotators gave fewer than {FEW} labels ({share:.1%} of all)."
        remedy = "Too few to judge them by: their expertise will have wide intervals."
        yield Finding("few labels", "note", message, remedy, tuple(few))
    if len(names) == 1:
        remedy = "Expertise cannot be learned; have a second one label a part."
        yield Finding("one annotator", "warning", "There is one annotator only.", remedy)
    for pair in screens.copies:
        both = (names[pair.first], names[pair.second])
        message = f"'{both[0]}' and '{both[1]}' gave the same label on {pair.same:,} of {pair.shared:,} shared items"
        message += f", mistakes included; {pair.expected:,.0f} would be expected."
        remedy = "Are they one person, or did one copy? Together they count as one."
        yield Finding("near copies", "warning", message, remedy, both)
    for row in (each for each in screens.times if each.changed):
        where = f" in task '{row.task}'" if len(annotations.tasks) > 1 else ""
        message = f"'{row.annotator}'{where}: {row.change} (p = {row.p_value:.2g})."
        remedy = "Look at their labels since then, and have some of them labelled again."
        yield Finding("drift", "warning", message, remedy, (row.annotator,))


def group_findings(annotations: Annotations, groups: list[Group]) -> Iterator[Finding]:
    """Whether annotators can be compared at all."""
    labelled, single = labelled_and_single(annotations)
    if labelled == single:
        message = "No item has two annotations, so nobody can be compared with anybody directly."
        remedy = "`realm` still learns relative expertise. Have a part labelled twice to pin down its scale."
        yield Finding("one annotation per item", "warning", message, remedy)
    elif single:
        message = f"{single:,} of {labelled:,} items ({single / labelled:.0%}) have one annotation."
        remedy = "Fine for `realm`; `majority` and `dawid-skene` take such a label as it is."
        yield Finding("items labelled once", "note", message, remedy)
    if len(groups) > 1 and labelled > single:
        message = f"The annotators fall into {len(groups):,} groups that share no item; outside the largest: "
        message += f"{sum(group.annotators for group in groups[1:]):,} of {annotations.n_annotators:,} annotators."
        remedy = "Have some items labelled by members of several groups, so that they can be compared."
        yield Finding("separate groups", "warning", message, remedy)


def label_findings(
    annotations: Annotations, alpha: dict[str, float | None], counts: dict[str, dict[str, int]]
) -> Iterator[Finding]:
    """Labels that look alike or are rare, and tasks in which annotators agree little."""
    for index, task in enumerate(annotations.tasks):
        where, of_task, value = in_task(annotations, index), counts[task.name], alpha[task.name]
        for group in look_alikes(task.labels or ()):
            message = f"Labels that look alike{where}: {', '.join(map(repr, group))}."
            yield Finding("look-alike labels", "warning", message, "If they are one label: `map_labels`.", group)
        if value is not None and value < LOW_ALPHA:
            message = f"Krippendorff's alpha{where} is {value:.2f}: annotators agree little beyond chance."
            remedy = "Expect much from modelling annotators and little from voting; are the instructions clear?"
            yield Finding("low agreement", "warning", message, remedy)
        limit = RARE * sum(of_task.values())
        if rare := [name for name, count in of_task.items() if task.labels and count < limit]:
            named = listed([f"{name} ({of_task[name]:,})" for name in rare], NAMED)
            message = f"Labels given less than once in a hundred{where}: {named}."
            yield Finding("rare labels", "note", message, "Read their accuracy with care.", tuple(rare))


def text_findings(annotations: Annotations, test: Items | None) -> Iterator[Finding]:
    """Texts that are there twice, and items that are in a test table too."""
    items = annotations.items
    if items.options is None and items.contexts is None:
        spaced = replace(items, texts=pc.replace_substring_regex(pc.utf8_trim_whitespace(items.texts), r"\s+", " "))
        same, alike = _repeats(items), _repeats(spaced)
        if len(repeated := np.flatnonzero(same)):
            ids = _ids(items, repeated)
            message = f"{len(repeated):,} items have the text of another item of their task ({', '.join(ids)}, ...)."
            remedy = "If they are one item, leave the item column out: task and text then identify it."
            yield Finding("repeated texts", "note", message, remedy, ids)
        if len(repeated := np.flatnonzero(alike & ~same)):
            example = clipped(items.texts[int(repeated[0])].as_py())
            message = f"{len(repeated):,} items have the text of another but for spaces, such as {example!r}."
            remedy = "If they are one item, trim the texts."
            yield Finding("spaced texts", "note", message, remedy, _ids(items, repeated))
    if test is not None:
        named = replace(test, tasks=items.tasks) if len(test.tasks) == len(items.tasks) == 1 else test
        if len(seen := np.flatnonzero(shown_in(named, items))):
            message = f"{len(seen):,} of {len(test):,} test items are in the table too."
            remedy = "Take them out of the table or of the test set: the accuracy would be too high."
            yield Finding("text leak", "warning", message, remedy, _ids(test, seen))


def gold_label_findings(annotations: Annotations, test: Annotations) -> Iterator[Finding]:
    """Where the labels of a test table's gold are not those of the table; not where items list their own options."""
    own = {task.name: task for task in annotations.tasks}
    one = len(own) == len(test.tasks) == 1
    for index, task in enumerate(test.tasks):
        table = annotations.tasks[0] if one else own.get(task.name)
        if table is None or table.labels is None or task.labels is None or test.gold is None:
            continue
        where = f" in task '{task.name}'" if len(own) > 1 else ""
        given = test.gold[(test.item_tasks == index) & (test.gold != UNKNOWN)]
        spelled = {folded(label): label for label in table.labels}  # as gold is read when a model is evaluated
        in_test = {
            label if label in table.labels else spelled.get(folded(label), label)
            for label in (task.labels[number] for number in np.unique(given))
        }
        new = sorted(in_test.difference(table.labels))
        alike = {label: [group for group in look_alikes([*table.labels, label]) if label in group] for label in new}
        spelling = {label: groups[0][0] for label, groups in alike.items() if groups}
        if spelling:
            pairs = listed([f"{label!r} is {of_table!r}" for label, of_table in spelling.items()], NAMED)
            message = f"The test table spells labels in another way{where}: {pairs} in the table."
            remedy = "If they are one label, say so with `map_labels`: its gold is renamed too."
            yield Finding("test spelling", "warning", message, remedy, tuple(spelling))
        if unknown := [label for label in new if label not in spelling]:
            message = f"Labels of the test table that no annotator gave{where}: {listed(unknown, NAMED)}."
            remedy = "A model cannot learn them from this table: list all labels with `labels`, or leave them out."
            yield Finding("labels only in test", "warning", message, remedy, tuple(unknown))
        if absent := [label for label in table.labels if label not in {*in_test, *spelling.values()}]:
            message = f"Labels that no item of the test table has{where}: {listed(absent, NAMED)}."
            yield Finding("labels not in test", "note", message, "The test says nothing about them.", tuple(absent))
    if unknown := [task.name for task in test.tasks if len(own) > 1 and task.name not in own]:
        message = f"Tasks of the test table that the table does not have: {listed(unknown, NAMED)}."
        yield Finding("tasks only in test", "warning", message, "Leave them out.", tuple(unknown))


def labelled_and_single(annotations: Annotations) -> tuple[int, int]:
    """How many items have annotations, and how many have one."""
    per_item = annotations.annotations_per_item
    return int((per_item > 0).sum()), int((per_item == 1).sum())


def in_task(annotations: Annotations, task: int) -> str:
    """` in task 'food'`, where the table has several."""
    return f" in task '{annotations.tasks[task].name}'" if len(annotations.tasks) > 1 else ""


def _repeats(items: Items) -> np.ndarray[Any, Any]:
    """Which items have the text of another item of their task."""
    key = items.text_codes * len(items.tasks) + items.item_tasks
    _, inverse, counts = np.unique(key, return_inverse=True, return_counts=True)
    return np.asarray(counts[inverse] > 1)


def _ids(items: Items, rows: Sequence[int] | np.ndarray[Any, Any]) -> tuple[str, ...]:
    return tuple(items.ids.take(pa.array(rows[:NAMED])).to_pylist())
