"""Which methods a table allows, and why not where it does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from realm.check.graph import Part
from realm.data.annotations import UNKNOWN, Annotations

Verdict = Literal["yes", "with care", "no"]


@dataclass(frozen=True)
class Method:
    name: str
    applies: Verdict
    why: str


def methods(annotations: Annotations, parts: list[Part], below_chance: bool) -> list[Method]:
    """A verdict for each method, in the order in which people try them."""
    per_item = annotations.annotations_per_item
    labelled = int((per_item > 0).sum())
    single = int((per_item == 1).sum())
    share = single / max(labelled, 1)
    several = labelled > single
    return [
        _realm(annotations, several, parts, below_chance),
        Method("noisy", "yes", "trains on every annotation as it is"),
        _aggregated("majority", several, share, []),
        _aggregated("dawid-skene", several, share, _dawid_skene_cares(annotations, parts, below_chance)),
        _oracle(annotations),
    ]


def _realm(annotations: Annotations, several: bool, parts: list[Part], below_chance: bool) -> Method:
    if annotations.n_annotators == 1:
        return Method("realm", "with care", "one annotator: expertise cannot be told from how hard the items are")
    cares = []
    if not several:
        cares.append("one annotation per item: expertise is relative, only its ratios are known")
    if len(parts) > 1 and several:
        cares.append("separate groups of annotators are compared through the model alone")
    if below_chance and _binary(annotations):
        cares.append(FLIPPED)
    return Method("realm", "with care" if cares else "yes", "; ".join(cares) or "learns whom to trust while it trains")


def _aggregated(name: str, several: bool, share: float, cares: list[str]) -> Method:
    if not several:
        return Method(name, "no", "undefined: no item has two annotations")
    if share > 0.1:
        cares = [f"{share:.0%} of the items have one annotation, which is taken as it is", *cares]
    return Method(name, "with care" if cares else "yes", "; ".join(cares) or "items have several annotations")


FLIPPED = (
    "two labels, and some annotators may be wrong more often than right: the labels swapped explain the data as well, "
    "and only gold, a prior or the model's own opinion can tell"
)


def _dawid_skene_cares(annotations: Annotations, parts: list[Part], below_chance: bool) -> list[str]:
    cares = []
    if len(parts) > 1:
        cares.append(f"{len(parts)} separate groups of annotators: their accuracies cannot be compared")
    if below_chance and _binary(annotations):
        cares.append(FLIPPED)
    return cares


def _binary(annotations: Annotations) -> bool:
    return bool(annotations.n_items) and int(annotations.option_counts.min()) == 2


def _oracle(annotations: Annotations) -> Method:
    known = 0 if annotations.gold is None else int((annotations.gold != UNKNOWN).sum())
    if not known:
        return Method("oracle", "no", "there is no gold")
    if known < annotations.n_items:
        return Method("oracle", "with care", f"gold is known for {known:,} of {annotations.n_items:,} items")
    return Method("oracle", "yes", "gold is known for every item")
