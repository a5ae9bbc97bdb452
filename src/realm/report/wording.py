"""The sentences of a report: the summary for a manager, how it was made, and what it cannot tell."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from realm.methods import METHODS
from realm.metrics import METRICS
from realm.report.chart_data import Calibration, verdict_counts
from realm.report.escaping import clipped
from realm.report.run_data import RunData
from realm.report.svg import percent

SURE = 0.9
"""From here on a label is called sure: at most one in ten of them is wrong."""
MEANINGS = (
    "right clearly more often than half-way between chance and always",
    "better than chance, clearly or nearly short of reliable",
    "the interval spans a threshold: more labels would tell",
    "hardly a label is read off the item, by the whole interval",
    "more often the opposite of the truth, by the whole interval",
)
"""What each verdict means, in the order of `VERDICTS`; chance is always giving the most frequent label."""
TENTATIVE = 0.667
"""Krippendorff's lowest alpha for tentative conclusions."""
UNSURE = 0.8
"""Below this a label is called unsure: one in five of them is wrong, or more."""


class Card(NamedTuple):
    """A figure that stands out, with what it counts and a remark."""

    figure: str
    what: str
    note: str


class Remark(NamedTuple):
    """A short heading and its text."""

    title: str
    text: str


def plural(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def cards(data: RunData) -> list[Card]:
    """The few figures to take away."""
    counts, annotations = verdict_counts(data)
    n_items = data.annotations.n_items
    sure = int((data.confidence >= SURE).sum())
    unit = "pairs of annotator and task" if data.several_tasks else "annotators"
    note = f"{percent(annotations[0] / max(sum(annotations), 1))} of all annotations"
    if data.estimate.relative_tasks.any():
        note += "; relative values, as far as the model's certainty can be trusted"
    sure_labels = f"of the labels are {percent(SURE)} sure or more"
    figures = [
        Card(f"{counts[0]:,} of {sum(counts):,}", f"{unit} found reliable", note),
        Card(percent(sure / max(n_items, 1)), sure_labels, f"{sure:,} of {plural(n_items, 'item')}"),
    ]
    if not data.one_label_each:
        note = "outweighed by the model and better annotators"
        figures.append(Card(f"{int(data.overruled.sum()):,}", "labels differ from the majority vote", note))
    test = data.metrics.get("test") or {}
    if (accuracy := test.get("accuracy")) is not None:
        others = [METRICS[name] for name in ("base_rate", "macro_f1") if test.get(name) is not None]
        beside = "".join(f"; {each.name_in_text} {format(test[each.name], each.format)}" for each in others)
        note = f"the trained model, {plural(int(test.get('items', 0)), 'item')} with gold{beside}"
        figures.append(Card(percent(accuracy), "right on the test items", note))
    return figures


def sentences(data: RunData) -> list[str]:
    """The summary in words, most important first."""
    table = data.annotations
    in_tasks = f" in {len(table.tasks)} tasks" if data.several_tasks else ""
    summary = [
        f"{plural(table.n_annotators, 'annotator')} gave {plural(table.n_annotations, 'label')} to "
        f"{plural(table.n_items, 'item')}{in_tasks}, {table.n_annotations / max(table.n_items, 1):.1f} per item.",
        _verdict_sentence(data),
    ]
    if data.dependence is not None and data.dependence.beyond_chance:
        summary.append(f"Annotators err together: {data.dependence}.{_shared_error(data)}")
    if not data.one_label_each:
        share = float(data.overruled.mean()) if table.n_items else 0.0
        summary.append(
            f"For {plural(int(data.overruled.sum()), 'item')} ({percent(share)}) the most probable label is not the "
            "one with the most votes."
        )
    unsure = int((data.confidence < UNSURE).sum())
    summary.append(
        f"{plural(unsure, 'item')} {'has' if unsure == 1 else 'have'} a label that is less than {percent(UNSURE)} "
        "sure; the section on relabelling says which to ask about first, and whom."
        if unsure
        else f"Every label is {percent(UNSURE)} sure or more."
    )
    return summary


def _verdict_sentence(data: RunData) -> str:
    reliable, middling, unknown, no_better, worse = counts = verdict_counts(data)[0]
    unit = "pair of annotator and task" if data.several_tasks else "annotator"
    if sum(counts) <= 1:
        return f"There is one {unit}, so there is nobody to compare with."
    parts = [f"{reliable:,} {'is' if reliable == 1 else 'are'} reliable"]
    if middling:
        parts.append(f"{middling:,} middling")
    if no_better:
        parts.append(f"{no_better:,} no better than chance")
    if worse:
        parts.append(f"{worse:,} worse than chance")
    if unknown:
        parts.append(f"for {unknown:,} there is not enough evidence to say")
    *first, last = parts
    units = "pairs of annotator and task" if data.several_tasks else "annotators"
    return f"Of the {units}, {', '.join(first)}{' and ' if first else ''}{last}."


def agreement_sentences(data: RunData) -> list[str]:
    """How far the annotators agree beyond chance and how to read it, and how many of them stand out by their labels."""
    alphas = {clipped(name, 40): alpha for name, alpha in data.alpha.items() if alpha is not None}
    summary = []
    if alphas:
        named = [f"{name} {alpha:.2f}" if data.several_tasks else f"{alpha:.2f}" for name, alpha in alphas.items()]
        reading = "1 is full agreement, 0 no more than chance"
        if low := [name for name, alpha in alphas.items() if alpha < TENTATIVE]:
            where = "" if len(low) == len(alphas) else f" in {', '.join(low)}"
            reading += f"; below {TENTATIVE}, as here{where}, a vote is a weak guide, and instructions may be unclear"
        summary.append(f"Agreement (Krippendorff's alpha): {', '.join(named)}. {reading}.")
    if noted := int((data.notes != "").any(axis=1).sum()):
        summary.append(
            f"The labels of {plural(noted, 'annotator')} stand out by themselves: one answer always, answers in turn, "
            "or another annotator's labels, mistakes included. See the notes in the table."
        )
    return summary


def notices(data: RunData) -> list[Remark]:
    """What must be read before any figure."""
    remarks = []
    if data.estimate.relative_tasks.any():
        names = [name for name, relative in zip(data.task_names, data.estimate.relative_tasks, strict=True) if relative]
        where = "" if data.estimate.relative else f" in {', '.join(names)}"
        remarks.append(
            Remark(
                "Relative values",
                f"Most items have one label{where}, so hardly anybody can be checked against anybody: accuracies show "
                "who is better than whom, and their level hangs on how well the model's certainty is calibrated (see "
                "Labels).",
            )
        )
    if data.in_sample:
        remarks.append(
            Remark(
                "In-sample",
                "The model that judges these labels was trained on them and may have learned some of them by heart. "
                "Training with cross-fitting judges each item by a model that has not seen it.",
            )
        )
    return remarks


def calibration_text(calibration: Calibration) -> str:
    """What the calibration chart shows, in a sentence or two."""
    if calibration.judge == "labels":
        return (
            "Held against the single label each item has, so that annotators' errors count against the model: the "
            f"labels agree with its favourite on {percent(calibration.agreed)} of the items. Were the model as right "
            "as it claims and the annotators as accurate as estimated, they would on "
            f"{percent(calibration.expected)}."
        )
    judge = {
        "gold": "against gold",
        "annotators": "against the annotators alone, weighed by their expertise, on items with several labels",
    }[calibration.judge]
    excess = float(((calibration.sure - calibration.confirmed) * calibration.share).sum())
    certainty = "about as sure of itself as it should be"
    if abs(excess) > 0.05:  # five points: below that, bins of a hundred items differ by chance
        certainty = "surer of itself than it should be" if excess > 0 else "less sure of itself than it could be"
    text = f"Judged {judge}, the model is {certainty}: it is off by {percent(calibration.gap)} on average."
    if abs(np.log(calibration.temperature)) > 0.15:  # a probability of 0.9 moves by three points or more
        change = "softened" if calibration.temperature > 1 else "sharpened"
        text += (
            f" The annotations fit its probabilities best when {change} (temperature {calibration.temperature:.2f})."
        )
    return text


def disagreement_text(data: RunData, listed: int, total: int) -> str:
    """How many items the model and the majority disagree on, and how they are listed."""
    other = "the label given" if data.one_label_each else "the most voted label"
    return (
        f"On {plural(total, 'item')} ({percent(total / max(data.annotations.n_items, 1))}) the model prefers another "
        f"label than {other}. Either may be wrong: these are the items to read."
        + (f" The {listed:,} clearest cases are listed." if listed < total else "")
    )


def broken_text(listed: int, total: int) -> str:
    """How many items look broken, and how they are listed."""
    return (
        f"On {plural(total, 'item')} the model is sure of one label and the reliable annotators together of another. "
        "One more label settles little here: read the item, its options and the instructions."
        + (f" The first {listed:,} are listed." if listed < total else "")
    )


def making(data: RunData) -> list[tuple[str, str]]:
    """How the run was made: terms and values, the essential ones."""
    settings, config, scorer = data.settings, data.config, data.scorer_settings
    batch = int(settings.get("effective_batch_size", 0)) or (
        int(settings.get("per_device_train_batch_size", 0)) * int(settings.get("gradient_accumulation_steps", 1))
    )
    versions = {"realm": config.get("realm"), **config.get("versions", {})}
    steps, epochs = data.metrics.get("steps"), settings.get("num_train_epochs")
    temperature = data.metrics.get("temperature", 1.0)
    softened = f"{temperature:.2f}: the model's probabilities were brought to what the annotations bear out"
    gold = (
        "used in training: where it is known it decides"
        if data.gold_used
        else "not read: nothing in training or in these estimates has seen a true label"
    )
    method = METHODS.get(data.method)
    rows: list[tuple[str, Any]] = [
        ("Method", data.method if method is None else f"{data.method} ({method.description})"),
        ("Model", config.get("model")),
        ("Asked as", f"{scorer.get('kind', '')}, {scorer.get('style', {}).get('answers', '')}"),
        ("Training", f"{steps} steps, {epochs:g} epochs, {batch} per step" if epochs and steps else None),
        ("Learning rates", _learning_rates(data)),
        ("Seed", settings.get("seed")),
        ("Gold labels", gold),
        ("Probabilities", data.probabilities),
        ("Temperature", None if temperature == 1 else softened),
        ("Taken as experts", ", ".join(map(str, settings.get("experts") or [])) or None),
        ("Carried in", "an earlier estimate of expertise" if config.get("prior") else None),
        ("Data", f"fingerprint {config.get('data', {}).get('fingerprint', 'not recorded')}"),
        ("Versions", ", ".join(f"{name} {number}" for name, number in versions.items())),
    ]
    return [(term, str(value)) for term, value in rows if value is not None]


def _learning_rates(data: RunData) -> str | None:
    settings, method = data.settings, METHODS.get(data.method)
    if "learning_rate" not in settings:
        return None
    text = f"model {settings['learning_rate']:g}"
    if method is None or not method.learns_expertise:
        return text
    if (method.update or settings.get("expertise_update")) == "em":
        return f"{text}, expertise solved for (em), no rate"
    rate = settings.get("expertise_learning_rate")
    return text if rate is None else f"{text}, expertise {rate:g}"


def _coverage(data: RunData) -> str:
    """What `benchmarks/coverage.py` and `benchmarks/honesty.py` measured of the intervals, for data of this kind."""
    if data.estimate.relative and data.out_of_fold:
        return (
            "Simulated with one label per item and out of fold, it held the true accuracy 95% of the time with a well "
            "calibrated model, 52% with one that is not sure enough (accuracies 0.17 too high) and 20% with one that "
            "is too sure (0.23 too low)."
        )
    if data.estimate.relative:
        return (
            "Simulated with one label per item and in-sample, it held the true accuracy 92% of the time with a well "
            "trained model and 72% with one that had learned labels by heart (accuracies 0.06 too high)."
        )
    if data.estimate.shared_error > 0:
        return (
            "On real panels whose members err together (reviewers, raters, 24 LLM judges) it held the share of right "
            "labels for 91 to 97% of them; on panels that are right although they err together it is too low."
        )
    return (
        "Simulated with several labels per item and errors made independently, it held the true accuracy 91 to 98% of "
        "the time."
    )


def _shared_error(data: RunData) -> str:
    if not data.estimate.shared_error > 0:
        return ""
    return (
        f" Confidence and accuracies allow for being wrong together on {percent(float(data.estimate.shared_error))} of "
        "the items, as real panels that err together as much are; only gold can tell how often it is here."
    )


def limits(data: RunData) -> list[Remark]:
    """What the report cannot tell, in plain words."""
    gold, out_of_fold = data.gold_used, data.out_of_fold
    remarks = [
        (True, "No evidence for pay or dismissal",
            "Figures about people here are estimates made by a program that has not met them. They help decide whose "
            "labels to weigh, what to have labelled again and where instructions are unclear. They are no ground for "
            "paying, promoting, punishing or dismissing anybody."),
        (True, "A minority view looks like unreliability",
            "On tasks that call for judgement (is this offensive, is this funny, is this any good) there may be no "
            "single true label. Somebody who sees things differently from most, for good reasons, gets the same low "
            "figure here as somebody who guesses."),
        (True, "Low accuracy has many causes",
            "Unclear instructions, harder items, another language, a broken form or a misread scale show up exactly as "
            "carelessness would. Read some of the items first."),
        (True, "Intervals",
            "An interval takes the model's certainty at its word and annotators' errors to be independent. "
            f"{_coverage(data)}"),
        (out_of_fold, "Out of fold", "Each item was judged by a model that was trained without it."),
        (data.in_sample, "In-sample",
            "The model was trained on the very labels it judges here. It may repeat annotators' errors, flatter "
            "those it learned from, and show fewer disagreements than there are."),
        (data.estimate.relative_tasks.any(), "One label per item",
            "Where few items are labelled by two people, expertise is known up to a common factor only. Compare "
            "annotators with each other; do not read a figure as a share of right answers."),
        ((data.annotations.option_counts == 2).any(), "Two options",
            "With two options, everybody right and everybody wrong explain the labels equally well; only the "
            "model's own opinion (or gold) tells which is which. If most annotators mistook the task in the same "
            "way, the figures are upside down."),
        (gold, "Gold was used",
            "Items with gold were held to it; figures on those very items say nothing of how the method does without."),
        (not gold, "No gold",
            "No figure about annotators or their items has been checked against true labels. If many annotators "
            "are wrong together, nothing in the data can tell; a few items with gold can."),
    ]  # fmt: skip
    return [Remark(title, text) for applies, title, text in remarks if applies]
