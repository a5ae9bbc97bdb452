"""Which methods a table allows, and why not where it does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from realm.check.graph import Part
from realm.data.annotations import UNKNOWN, Annotations
from realm.methods import METHODS

Verdict = Literal["yes", "with care", "no"]
SINGLE_SHARE = 0.1  # below a tenth, items with one label are too few for a caution


@dataclass(frozen=True)
class Applicability:
    """Whether a method can be trained on a table, and why."""

    name: str
    applies: Verdict
    why: str


def applicable_methods(annotations: Annotations, parts: list[Part], below_chance: bool) -> list[Applicability]:
    """A verdict for each method of `METHODS`, in its order."""
    verdicts = []
    for method in METHODS.values():
        if method.needs_gold:
            applies, why = _gold(annotations)
        elif method.aggregator is not None:
            applies, why = _aggregated(method.aggregator, annotations, parts, below_chance)
        elif method.learns_expertise:
            applies, why = _expertise(annotations, parts, below_chance)
        else:
            applies, why = "yes", "trains on every annotation as it is"
        verdicts.append(Applicability(method.name, applies, why))
    return verdicts


def _expertise(annotations: Annotations, parts: list[Part], below_chance: bool) -> tuple[Verdict, str]:
    if annotations.n_annotators == 1:
        return "with care", "one annotator: expertise cannot be told from how hard the items are"
    several = int(annotations.annotations_per_item.max(initial=0)) > 1
    cares = []
    if not several:
        cares.append("one annotation per item: expertise is relative, only its ratios are known")
    if len(parts) > 1 and several:
        cares.append("separate groups of annotators are compared through the model alone")
    if below_chance and _binary(annotations):
        cares.append(FLIPPED)
    return ("with care", "; ".join(cares)) if cares else ("yes", "learns whom to trust while it trains")


def _aggregated(
    aggregator: str, annotations: Annotations, parts: list[Part], below_chance: bool
) -> tuple[Verdict, str]:
    per_item = annotations.annotations_per_item
    labelled, single = int((per_item > 0).sum()), int((per_item == 1).sum())
    if labelled == single:
        return "no", "undefined: no item has two annotations"
    cares = []
    if single > SINGLE_SHARE * labelled:
        cares.append(f"{single / labelled:.0%} of the items have one annotation, which is taken as it is")
    if aggregator != "majority":  # a vote compares no accuracies and cannot be flipped as a whole
        if len(parts) > 1:
            cares.append(f"{len(parts)} separate groups of annotators: their accuracies cannot be compared")
        if below_chance and _binary(annotations):
            cares.append(FLIPPED)
    return ("with care", "; ".join(cares)) if cares else ("yes", "items have several annotations")


def _gold(annotations: Annotations) -> tuple[Verdict, str]:
    known = 0 if annotations.gold is None else int((annotations.gold != UNKNOWN).sum())
    if not known:
        return "no", "there is no gold"
    if known < annotations.n_items:
        return "with care", f"gold is known for {known:,} of {annotations.n_items:,} items"
    return "yes", "gold is known for every item"


def _binary(annotations: Annotations) -> bool:
    return bool(annotations.n_items) and int(annotations.option_counts.min()) == 2


FLIPPED = (
    "two labels, and some annotators may be wrong more often than right: the labels swapped explain the data as well, "
    "and only gold, a prior or the model's own opinion can tell"
)
