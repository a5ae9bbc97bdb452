"""Sentences that several parts of a report share: what verdicts mean, notices, and what the charts show."""

from __future__ import annotations

from typing import NamedTuple

from realm.display import counted
from realm.report.chart_data import Calibration
from realm.report.run_data import RunData
from realm.report.svg import percent

SURE = 0.9
"""From here on a label is called sure: at most one in ten of them is wrong."""
MEANINGS = (
    "accuracy above the midpoint between chance and 100%",
    "the labels carry information, but accuracy is not clearly above that midpoint",
    "the interval is too wide to tell: more labels are needed",
    "fewer than one label in five depends on the item; the rest is guessing or habit",
    "wrong more often than guessing would be: two labels may have been mixed up",
)
"""What each verdict means, in the order of `VERDICTS`, over the whole interval; chance is always giving the most
frequent label."""
TENTATIVE = 0.667
"""Krippendorff's lowest alpha for tentative conclusions."""
UNSURE = 0.8
"""Below this a label is called unclear: one in five of them is wrong, or more."""


class Remark(NamedTuple):
    """A short heading and its text."""

    title: str
    text: str


def notices(data: RunData) -> list[Remark]:
    """What must be read before any figure."""
    remarks = []
    if data.estimate.relative_tasks.any():
        names = [name for name, relative in zip(data.task_names, data.estimate.relative_tasks, strict=True) if relative]
        where = "" if data.estimate.relative else f" in {', '.join(names)}"
        level = "how well the model is calibrated" if data.has_model else "the few items with several labels"
        remarks.append(
            Remark(
                "Relative values",
                f"Most items have one label{where}, so most annotators cannot be compared with each other directly. "
                f"The order of the accuracies is meaningful; their level depends on {level}.",
            )
        )
    if data.in_sample:
        remedy = "With cross-fitting each item is judged by a model that has not seen it."
        remarks.append(Remark("In-sample", f"{_seen_in_training(data)} {remedy}"))
    return remarks


def _seen_in_training(data: RunData) -> str:
    """On how many items the labels rest on a model that was trained on them."""
    if not data.in_sample_in_part:
        return "The model that judges these labels was trained on them and may have memorised some."
    single, total = int((data.annotations.annotations_per_item == 1).sum()), data.annotations.n_items
    judged = "some are" if data.some_by_label else "it is" if single == 1 else "they are"
    rest = " Items with several labels rest on agreement alone." if data.some_by_agreement else ""
    return (
        f"{single:,} of {counted(total, 'item')} {'has' if single == 1 else 'have'} one label: {judged} judged by a "
        f"model that was trained on that label and may have memorised it.{rest}"
    )


def calibration_text(calibration: Calibration) -> str:
    """What the calibration chart shows, in a sentence or two."""
    if calibration.judge == "labels":
        return (
            "Compared with the single label of each item, so annotators' errors count against the model: they agree "
            f"with its prediction on {percent(calibration.agreed)} of the items. If the model were as accurate as it "
            f"claims, and the annotators as accurate as estimated, they would agree on {percent(calibration.expected)}."
        )
    judge = {
        "gold": "Compared with gold",
        "annotators": "Compared with the annotators alone, weighted by expertise, on items with several labels",
    }[calibration.judge]
    excess = float(((calibration.sure - calibration.confirmed) * calibration.share).sum())
    certainty = "well calibrated"
    if abs(excess) > 0.05:  # five points: below that, bins of a hundred items differ by chance
        certainty = "overconfident" if excess > 0 else "underconfident"
    text = f"{judge}, the model is {certainty}: its confidence is off by {percent(calibration.gap)} on average."
    if certainty == "underconfident":
        return text + (
            " Its probabilities are never sharpened: a model trained on a crowd predicts the crowd's common mistakes, "
            "and agreeing with the crowd is no proof of being right."
        )
    return text


def disagreement_text(data: RunData, listed: int, total: int) -> str:
    """How many items the model and the majority disagree on, and how they are listed."""
    other = "the label given" if data.one_label_each else "the majority label"
    return (
        f"On {counted(total, 'item')} ({percent(total / max(data.annotations.n_items, 1))}) the model predicts another "
        f"label than {other}. Either may be wrong: read these items."
        + (f" The {listed:,} clearest are listed." if listed < total else "")
    )


def broken_text(listed: int, total: int) -> str:
    """How many items look broken, and how they are listed."""
    return (
        f"On {counted(total, 'item')} the reliable annotators contradict each other more than their accuracies explain "
        "(by chance fewer than one item in a hundred). Another label settles little here: read the item, its options "
        "and the instructions." + (f" The {listed:,} clearest are listed." if listed < total else "")
    )
