"""The examination of a table: every finding with its remedy, and which methods apply. The command line shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sized
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, Literal

from realm.check.agreement import Group, alpha_by_task, connected_groups
from realm.check.contents import compare_labels, find_leaks, label_counts, label_map, repeated_texts
from realm.check.over_time import OverTime
from realm.crowd.model import AnnotatorModel
from realm.crowd.notes import pattern_in_words
from realm.crowd.screens import Independence, Screens
from realm.crowd.starts import MOST_ANNOTATORS
from realm.crowd.suspects import FEW
from realm.data.annotations import UNKNOWN, Annotations
from realm.data.items import Items
from realm.data.ledger import Ledger
from realm.data.spelling import look_alikes
from realm.display import counted
from realm.methods import METHODS

LOW_ALPHA = 0.4
"""Agreement below which annotators agree little: well under 0.667, Krippendorff's lowest for tentative conclusions."""
RARE = 0.01
"""Share of the annotations below which a label is rare: "less than once in a hundred"."""
RARE_NAMED = 10
"""Rare labels that a message names: they fit on a line."""
SINGLE_SHARE = 0.1
"""Below a tenth, items with one annotation are too few for a caution."""
NO_INFORMATION = "Leave them out with `exclude`, or ask them; the labels carry no information."
SUSPECTS = {
    "constant": ("", NO_INFORMATION),
    "alternating": ("", NO_INFORMATION),
    "chance": (
        "agrees little with the others",
        "Look at some of their labels; leave them out with `exclude` if they guess.",
    ),
    "below chance": (
        "disagrees with the others more than chance would",
        "Look at some of their labels: did they mistake one label for another?",
    ),
}
"""What each kind of suspect does, where no pattern says it, and what to do about it."""
FLIPPED = (
    "two labels, and some annotators may be wrong more often than right: the labels swapped explain the data as well, "
    "and only gold, a prior or the model's own opinion can tell"
)
Verdict = Literal["yes", "with care", "no"]


@dataclass(frozen=True)
class Finding:
    """One thing to know, whom or what it concerns, and what to do about it."""

    code: str
    level: Literal["note", "warning"]
    message: str
    remedy: str
    about: tuple[str, ...] = ()


@dataclass(frozen=True)
class Applicability:
    """Whether a method can be trained on a table, and why."""

    name: str
    applies: Verdict
    why: str


@dataclass(frozen=True)
class Examination:
    """The doctor's findings on one table."""

    summary: dict[str, Any]
    label_counts: dict[str, dict[str, int]]
    alpha: dict[str, float | None]
    independence: Independence | None
    groups: list[Group]
    ledger: Ledger
    findings: list[Finding]
    methods: list[Applicability]
    over_time: OverTime

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "usable": True,
            "format": self.ledger.format,
            **self.summary,
            "label_balance": self.label_counts,
            "krippendorff_alpha": self.alpha,
            "independent_annotators": self._independent_annotators(),
            "connected_groups": [asdict(group) for group in self.groups],
            **({"over_time": self.over_time.as_list()} if self.over_time.rows else {}),
            **self.ledger.as_dict(),
            "findings": [asdict(finding) for finding in self.findings],
            "methods": [asdict(method) for method in self.methods],
        }

    def label_map(self) -> dict[str, str]:
        """For labels that look alike, the spelling that was given most often in place of each other one."""
        groups = [finding.about for finding in self.findings if finding.code == "look-alike labels"]
        counts: Counter[str] = Counter()
        for by_label in self.label_counts.values():
            counts.update(by_label)
        return label_map(groups, counts)

    def _independent_annotators(self) -> dict[str, Any] | None:
        """How many independent annotators an item's annotations are worth; None where no item has two."""
        if (independence := self.independence) is None:
            return None
        numbers = {"annotations_per_item": independence.annotations_per_item, "worth": independence.effective}
        return {**numbers, "exponent": independence.exponent, "text": f"{independence}."}


def examine(annotations: Annotations, test: Annotations | Items | None = None) -> Examination:
    """Examine a table, and a test table against it. Built with `keep_rows`, the order of labelling is known too.

    `test` has gold in its own words, read without the table's tasks; of `Items` only the texts are compared.
    """
    alpha, groups, counts = alpha_by_task(annotations), connected_groups(annotations), label_counts(annotations)
    model = AnnotatorModel(annotations).fit()
    screens, names = Screens(annotations, model.estimate(), model), annotations.annotators
    findings = [Finding("reading", "warning", message, "") for message in annotations.ledger.warnings]
    findings += _annotator_findings(screens)
    findings += [
        Finding(
            "near copies",
            "warning",
            f"'{names[pair.first]}' and '{names[pair.second]}' gave the same label on {pair.same:,} of {pair.shared:,} "
            f"shared items, mistakes included; {pair.expected:,.0f} would be expected.",
            "Are they one person, or did one copy? Together they count as one.",
            (names[pair.first], names[pair.second]),
        )
        for pair in screens.copies
    ]
    if annotations.n_annotators > MOST_ANNOTATORS:
        message = f"Copies were looked for among the {MOST_ANNOTATORS:,} annotators with the most labels."
        findings.append(Finding("search for copies", "note", message, ""))
    times = OverTime(annotations, screens.times)
    findings += [Finding(code, "warning", message, remedy, (name,)) for code, name, message, remedy in times.messages()]
    findings += _group_findings(annotations, groups) + _label_findings(annotations, alpha, counts)
    findings += _text_findings(annotations, test.items if isinstance(test, Annotations) else test)
    if isinstance(test, Annotations):
        findings += _test_label_findings(annotations, test)
    findings += _independence_findings(screens.independence)
    below_chance = any(suspect.kind == "below chance" for suspect in screens.suspects)
    methods = applicable_methods(annotations, groups, below_chance)
    summary = annotations.describe()
    return Examination(
        summary, counts, alpha, screens.independence, groups, annotations.ledger, findings, methods, times
    )


# ---------------------------------------------------------------- findings


def _annotator_findings(screens: Screens) -> list[Finding]:
    findings, annotations, estimate = [], screens.annotations, screens.estimate
    for _, same in groupby(screens.suspects, key=lambda each: (each.annotator, each.kind)):
        suspect, *others = same  # in other tasks
        at = suspect.annotator, suspect.task
        what, remedy = SUSPECTS[suspect.kind]
        name, n = annotations.annotators[suspect.annotator], int(estimate.annotations[at])
        where = f" in task '{annotations.tasks[suspect.task].name}'" if len(annotations.tasks) > 1 else ""
        more = f", and in {counted(len(others), 'other task')}" if others else ""
        if suspect.period:
            what = pattern_in_words(annotations, suspect)
        else:
            # without the sign of a negative number that is rounded to zero
            expertise, highest = (round(float(figure), 2) + 0.0 for figure in (estimate.expertise[at], suspect.highest))
            what += f": expertise {expertise:.2f}, at most {highest:.2f}; typical here {suspect.typical:.2f}"
        message = f"'{name}' {what}{where} ({counted(n, 'label')}){more}."
        findings.append(Finding(suspect.kind, "warning", message, remedy, (name,)))
    counts = annotations.annotations_per_annotator
    if few := [annotations.annotators[i] for i in counts.argsort(kind="stable") if counts[i] < FEW]:
        share = int(counts[counts < FEW].sum()) / annotations.n_annotations
        message = f"{len(few):,} of {len(counts):,} annotators gave fewer than {FEW} labels ({share:.1%} of all)."
        remedy = "Too few to judge them by: their expertise will have wide intervals."
        findings.append(Finding("few labels", "note", message, remedy, tuple(few)))
    if annotations.n_annotators == 1:
        remedy = "Expertise cannot be learned; have a second one label a part."
        findings.append(Finding("one annotator", "warning", "There is one annotator only.", remedy))
    if emails := [name for name in annotations.annotators if "@" in name and "." in name.rsplit("@", 1)[1]]:
        message = f"{_count(emails, 'annotator')} named by e-mail address."
        remedy = "`realm import` can write the table with pseudonyms in place of the names."
        findings.append(Finding("e-mail addresses", "note", message, remedy))
    return findings


def _count(things: Sized, noun: str) -> str:
    return f"{counted(len(things), noun)} {'is' if len(things) == 1 else 'are'}"


def _group_findings(annotations: Annotations, groups: list[Group]) -> list[Finding]:
    findings = []
    labelled, single = _labelled_and_single(annotations)
    if labelled == single:
        message = "No item has two annotations, so nobody can be compared with anybody directly."
        remedy = "`realm` still learns relative expertise. Have a part labelled twice to pin down its scale."
        findings.append(Finding("one annotation per item", "warning", message, remedy))
    elif single:
        message = f"{single:,} of {labelled:,} items ({single / labelled:.0%}) have one annotation."
        remedy = "Fine for `realm`; `majority` and `dawid-skene` take such a label as it is."
        findings.append(Finding("items labelled once", "note", message, remedy))
    if len(groups) > 1 and labelled > single:
        outside = range(sum(group.annotators for group in groups[1:]))
        message = (
            f"The annotators fall into {len(groups):,} groups that share no item; "
            f"{_count(outside, 'annotator')} outside the largest ({groups[0].annotators:,})."
        )
        remedy = "Have some items labelled by members of several groups, so that they can be compared."
        findings.append(Finding("separate groups", "warning", message, remedy))
    return findings


def _labelled_and_single(annotations: Annotations) -> tuple[int, int]:
    """How many items have annotations, and how many have one."""
    per_item = annotations.annotations_per_item
    return int((per_item > 0).sum()), int((per_item == 1).sum())


def _independence_findings(independence: Independence | None) -> list[Finding]:
    if independence is None or not independence.err_together:
        return []
    remedy = "They err together: a vote among them is less sure than it looks, and more of the same add little."
    return [Finding("annotators err together", "note", f"{independence}.", remedy)]


def _label_findings(
    annotations: Annotations, alpha: dict[str, float | None], counts: dict[str, dict[str, int]]
) -> list[Finding]:
    findings = []
    for task in annotations.tasks:
        where = "" if len(annotations.tasks) == 1 else f" in task '{task.name}'"
        for group in look_alikes(task.labels or ()):
            message = f"Labels that look alike{where}: {', '.join(map(repr, group))}."
            remedy = "If they are one label, say so with `map_labels`."
            findings.append(Finding("look-alike labels", "warning", message, remedy, group))
        value = alpha[task.name]
        if value is not None and value < LOW_ALPHA:
            message = f"Krippendorff's alpha{where} is {value:.2f}: annotators agree little beyond chance."
            remedy = "Expect much from modelling annotators and little from voting; are the instructions clear?"
            findings.append(Finding("low agreement", "warning", message, remedy))
        of_task = counts[task.name]
        limit = RARE * sum(of_task.values())
        if rare := [name for name, count in of_task.items() if task.labels and count < limit]:
            names = ", ".join(f"{name} ({of_task[name]:,})" for name in rare[:RARE_NAMED])
            message = f"Labels given less than once in a hundred{where}: {names}."
            findings.append(Finding("rare labels", "note", message, "Read their accuracy with care.", tuple(rare)))
    return findings


def _text_findings(annotations: Annotations, test: Items | None) -> list[Finding]:
    findings = []
    count, ids = repeated_texts(annotations)
    if count:
        message = f"{count:,} items have the text of another item of their task ({', '.join(ids)}, ...)."
        remedy = "If they are one item, leave the item column out: task and text then identify it."
        findings.append(Finding("repeated texts", "note", message, remedy, ids))
    if test is not None and (leak := find_leaks(annotations, test)).loose:
        message = (
            f"{leak.loose:,} of {len(test):,} test items are in the table too ({leak.exact:,} of them word for word)."
        )
        remedy = "Take them out of the table or of the test set: the accuracy would be too high."
        findings.append(Finding("text leak", "warning", message, remedy, leak.ids))
    return findings


def _test_label_findings(annotations: Annotations, test: Annotations) -> list[Finding]:
    """Where the labels of a test table are not those of the table."""
    findings = []
    for difference in compare_labels(annotations, test):
        where = "" if len(annotations.tasks) == 1 else f" in task '{difference.task}'"
        if variants := difference.variants:
            pairs = ", ".join(f"{label!r} is {own!r}" for label, own in list(variants.items())[:RARE_NAMED])
            message = f"The test table spells labels in another way{where}: {pairs} in the table."
            remedy = "If they are one label, say so with `map_labels`: its gold is renamed too."
            findings.append(Finding("test spelling", "warning", message, remedy, tuple(variants)))
        if unknown := {label: n for label, n in difference.only_in_test.items() if label not in variants}:
            listed = ", ".join(
                f"{label} ({counted(count, 'item')})" for label, count in list(unknown.items())[:RARE_NAMED]
            )
            message = f"Labels of the test table that no annotator gave{where}: {listed}."
            remedy = "A model cannot learn them from this table: list all labels with `labels`, or leave them out."
            findings.append(Finding("labels only in test", "warning", message, remedy, tuple(unknown)))
        if absent := [name for name in difference.only_in_table if name not in variants.values()]:
            message = f"Labels that no item of the test table has{where}: {', '.join(absent[:RARE_NAMED])}."
            remedy = "The test says nothing about them."
            findings.append(Finding("labels not in test", "note", message, remedy, tuple(absent)))
    names = {task.name for task in annotations.tasks}
    if len(names) > 1 and (unknown_tasks := [task.name for task in test.tasks if task.name not in names]):
        message = f"Tasks of the test table that the table does not have: {', '.join(unknown_tasks[:RARE_NAMED])}."
        findings.append(Finding("tasks only in test", "warning", message, "Leave them out.", tuple(unknown_tasks)))
    return findings


# ---------------------------------------------------------------- methods


def applicable_methods(annotations: Annotations, groups: list[Group], below_chance: bool) -> list[Applicability]:
    """A verdict for each method of `METHODS`, in its order."""
    is_binary = bool(annotations.n_items) and int(annotations.option_counts.min()) == 2
    may_be_flipped = below_chance and is_binary
    verdicts: list[Applicability] = []
    for method in METHODS.values():
        if method.needs_gold:
            applies, why = _gold_verdict(annotations)
        elif method.aggregator is not None:
            applies, why = _aggregation_verdict(method.aggregator, annotations, groups, may_be_flipped)
        elif method.learns_expertise:
            applies, why = _expertise_verdict(annotations, groups, may_be_flipped)
        else:
            applies, why = "yes", "trains on every annotation as it is"
        verdicts.append(Applicability(method.name, applies, why))
    return verdicts


def _expertise_verdict(annotations: Annotations, groups: list[Group], may_be_flipped: bool) -> tuple[Verdict, str]:
    if annotations.n_annotators == 1:
        return "with care", "one annotator: expertise cannot be told from how hard the items are"
    cares = []
    if int(annotations.annotations_per_item.max(initial=0)) <= 1:
        cares.append("one annotation per item: expertise is relative, only its ratios are known")
    elif len(groups) > 1:
        cares.append("separate groups of annotators are compared through the model alone")
    if may_be_flipped:
        cares.append(FLIPPED)
    return ("with care", "; ".join(cares)) if cares else ("yes", "learns whom to trust while it trains")


def _aggregation_verdict(
    aggregator: str, annotations: Annotations, groups: list[Group], may_be_flipped: bool
) -> tuple[Verdict, str]:
    labelled, single = _labelled_and_single(annotations)
    if labelled == single:
        return "no", "undefined: no item has two annotations"
    cares = []
    if single > SINGLE_SHARE * labelled:
        cares.append(f"{single / labelled:.0%} of the items have one annotation, which is taken as it is")
    if aggregator != "majority":  # a vote compares no accuracies and cannot be flipped as a whole
        if len(groups) > 1:
            cares.append(f"{len(groups)} separate groups of annotators: their accuracies cannot be compared")
        if may_be_flipped:
            cares.append(FLIPPED)
    return ("with care", "; ".join(cares)) if cares else ("yes", "items have several annotations")


def _gold_verdict(annotations: Annotations) -> tuple[Verdict, str]:
    n_gold = 0 if annotations.gold is None else int((annotations.gold != UNKNOWN).sum())
    if not n_gold:
        return "no", "there is no gold"
    if n_gold < annotations.n_items:
        return "with care", f"gold is known for {n_gold:,} of {annotations.n_items:,} items"
    return "yes", "gold is known for every item"
