"""Everything the doctor finds, in one place; how it is shown is the command's business."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from realm.check.agreement import alpha_by_task
from realm.check.consensus import fit_consensus
from realm.check.copies import comparable, find_copies
from realm.check.graph import Part, parts
from realm.check.labels import balance, look_alikes
from realm.check.methods import Applicability, applicable_methods
from realm.check.people import FEW, Suspect, find_suspects, too_few
from realm.check.texts import find_leaks, repeated_texts
from realm.data.annotations import Annotations
from realm.data.items import Items
from realm.data.ledger import Ledger

LOW_ALPHA = 0.4
RARE = 0.01
NAMED = 10


@dataclass(frozen=True)
class Finding:
    """One thing to know, whom or what it concerns, and what to do about it."""

    code: str
    level: Literal["note", "warning"]
    message: str
    remedy: str
    about: tuple[str, ...] = ()


@dataclass(frozen=True)
class Examination:
    """The doctor's findings on one table."""

    summary: dict[str, Any]
    balance: dict[str, dict[str, int]]
    alpha: dict[str, float | None]
    parts: list[Part]
    ledger: Ledger
    findings: list[Finding] = field(default_factory=list)
    methods: list[Applicability] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for --json."""
        return {
            "usable": True,
            "format": self.ledger.format,
            **self.summary,
            "label_balance": self.balance,
            "krippendorff_alpha": self.alpha,
            "connected_parts": [asdict(part) for part in self.parts],
            **self.ledger.as_dict(),
            "findings": [asdict(finding) for finding in self.findings],
            "methods": [asdict(method) for method in self.methods],
        }


def examine(annotations: Annotations, test: Items | None = None) -> Examination:
    """Examine a table, and test items against it. Built with `keep_rows`, the order of labelling is known too."""
    alpha, separate, shares = alpha_by_task(annotations), parts(annotations), balance(annotations)
    consensus = fit_consensus(annotations)
    suspects = find_suspects(annotations, consensus)
    findings = [Finding("reading", "warning", message, "") for message in annotations.ledger.warnings]
    findings += _of_people(annotations, suspects)
    findings += [
        Finding(
            "near copies",
            "warning",
            f"'{pair.first}' and '{pair.second}' gave the same label on {pair.same:,} of {pair.shared:,} shared items; "
            f"{pair.expected * pair.shared:,.0f} would be expected.",
            "Are they one person, or did one copy? Keep one of the two.",
            (pair.first, pair.second),
        )
        for pair in find_copies(annotations, consensus)
    ]
    if crowded := int((~comparable(annotations)).sum()):
        findings.append(
            Finding(
                "crowded items",
                "note",
                f"{crowded:,} items with very many annotators were left out of the search for copies.",
                "Copies are still found on the other items.",
            )
        )
    findings += _of_structure(annotations, separate) + _of_labels(annotations, alpha, shares)
    findings += _of_texts(annotations, test)
    below = any(suspect.kind == "below chance" for suspect in suspects)
    return Examination(
        annotations.describe(),
        shares,
        alpha,
        separate,
        annotations.ledger,
        findings,
        applicable_methods(annotations, separate, below),
    )


WORDS = {
    "constant": ("always gives the same answer", "Leave them out, or ask them; the labels carry no information."),
    "alternating": ("gives answers in turn", "Leave them out, or ask them; the labels carry no information."),
    "chance": (
        "agrees little with the others",
        "Look at some of their labels; leave them out if they guess.",
    ),
    "below chance": (
        "disagrees with the others more than chance would",
        "Look at some of their labels: did they mistake one label for another?",
    ),
}


def _of_people(annotations: Annotations, suspects: list[Suspect]) -> list[Finding]:
    found = []
    for suspect in suspects:
        words, remedy = WORDS[suspect.kind]
        message = f"'{suspect.annotator}' {words}: {suspect.evidence}."
        found.append(Finding(suspect.kind, "warning", message, remedy, (suspect.annotator,)))
    if few := too_few(annotations):
        held = int(annotations.annotations_per_annotator[annotations.annotations_per_annotator < FEW].sum())
        found.append(
            Finding(
                "few labels",
                "note",
                f"{len(few):,} of {annotations.n_annotators:,} annotators gave fewer than {FEW} labels "
                f"({held / annotations.n_annotations:.1%} of all).",
                "Too few to judge them by: their expertise will have wide intervals.",
                tuple(few),
            )
        )
    if annotations.n_annotators == 1:
        found.append(
            Finding(
                "one annotator",
                "warning",
                "There is one annotator only.",
                "Expertise cannot be learned; have a second one label a part.",
            )
        )
    if emails := [name for name in annotations.annotators if "@" in name and "." in name.rsplit("@", 1)[1]]:
        found.append(
            Finding(
                "e-mail addresses",
                "note",
                f"{_count(emails, 'annotator')} named by e-mail address.",
                "Import with `realm import --pseudonymise` to leave the names behind.",
            )
        )
    return found


def _count(things: Sized, noun: str) -> str:
    return f"{len(things):,} {noun} is" if len(things) == 1 else f"{len(things):,} {noun}s are"


def _of_structure(annotations: Annotations, separate: list[Part]) -> list[Finding]:
    found = []
    per_item = annotations.annotations_per_item
    labelled, single = int((per_item > 0).sum()), int((per_item == 1).sum())
    if labelled == single:
        found.append(
            Finding(
                "one annotation per item",
                "warning",
                "No item has two annotations, so nobody can be compared with anybody directly.",
                "`realm` still learns relative expertise. Have a part labelled twice to pin down its scale.",
            )
        )
    elif single:
        found.append(
            Finding(
                "items labelled once",
                "note",
                f"{single:,} of {labelled:,} items ({single / labelled:.0%}) have one annotation.",
                "Fine for `realm`; `majority` and `dawid-skene` take such a label as it is.",
            )
        )
    if len(separate) > 1 and labelled > single:
        rest = sum(part.annotators for part in separate[1:])
        found.append(
            Finding(
                "separate groups",
                "warning",
                f"The annotators fall into {len(separate):,} groups that share no item; "
                f"{_count(range(rest), 'annotator')} outside the largest ({separate[0].annotators:,}).",
                "Have some items labelled by members of several groups, so that they can be compared.",
            )
        )
    return found


def _of_labels(
    annotations: Annotations, alpha: dict[str, float | None], shares: dict[str, dict[str, int]]
) -> list[Finding]:
    found = []
    for task in annotations.tasks:
        where = "" if len(annotations.tasks) == 1 else f" in task '{task.name}'"
        for group in look_alikes(task.labels or ()):
            shown = ", ".join(repr(label) for label in group)
            found.append(
                Finding(
                    "look-alike labels",
                    "warning",
                    f"Labels that look alike{where}: {shown}.",
                    "Mend the spelling if they are one label.",
                    group,
                )
            )
        value = alpha[task.name]
        if value is not None and value < LOW_ALPHA:
            found.append(
                Finding(
                    "low agreement",
                    "warning",
                    f"Krippendorff's alpha{where} is {value:.2f}: annotators agree little beyond chance.",
                    "Expect much from modelling annotators and little from voting; are the instructions clear?",
                )
            )
        total = sum(shares[task.name].values())
        rare = [name for name, count in shares[task.name].items() if task.labels and count < RARE * total]
        if rare:
            shown = ", ".join(f"{name} ({shares[task.name][name]:,})" for name in rare[:NAMED])
            found.append(
                Finding(
                    "rare labels",
                    "note",
                    f"Labels given less than once in a hundred{where}: {shown}.",
                    "Read their accuracy with care.",
                    tuple(rare),
                )
            )
    return found


def _of_texts(annotations: Annotations, test: Items | None) -> list[Finding]:
    found = []
    count, ids = repeated_texts(annotations)
    if count:
        found.append(
            Finding(
                "repeated texts",
                "note",
                f"{count:,} items have the text of another item of their task ({', '.join(ids)}, ...).",
                "If they are one item, leave the item column out: task and text then identify it.",
                ids,
            )
        )
    if test is not None and (leak := find_leaks(annotations, test)).loose:
        found.append(
            Finding(
                "text leak",
                "warning",
                f"{leak.loose:,} of {leak.test_items:,} test items are in the table too ({leak.exact:,} of them "
                "word for word).",
                "Take them out of the table or of the test set: the accuracy would be too high.",
                leak.examples,
            )
        )
    return found
