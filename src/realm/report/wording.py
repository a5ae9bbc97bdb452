"""What the report says in words: the summary for a manager, how it was made, and what it cannot tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from realm.methods import METHODS
from realm.metrics import METRICS
from realm.report.chart_data import Calibration, verdict_counts
from realm.report.run_data import RunData
from realm.report.svg import percent

SURE = 0.9
UNSURE = 0.8
NAMED = 3
"""So many annotators are named in a sentence."""


@dataclass(frozen=True)
class Card:
    """A figure that stands out, with what it counts and a remark. `note` may be empty."""

    figure: str
    what: str
    note: str


@dataclass(frozen=True)
class Limit:
    title: str
    text: str


def plural(n: int, one: str, many: str = "") -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def cards(data: RunData) -> list[Card]:
    """The few figures to take away."""
    people, annotations = verdict_counts(data)
    table = data.annotations
    shares = np.array(annotations) / max(sum(annotations), 1)
    changed = int(data.overruled.sum())
    sure = int((data.confidence >= SURE).sum())
    unit = "pairs of annotator and task" if data.several_tasks else "annotators"
    given = f"{percent(shares[0])} of all annotations"
    if data.estimate.relative_tasks.any():
        given += "; relative values, as far as the model's certainty can be trusted"
    found = [
        Card(f"{people[0]:,} of {sum(people):,}", f"{unit} found reliable", given),
        Card(percent(sure / max(table.n_items, 1)), f"of the labels are {percent(SURE)} sure or more",
             f"{sure:,} of {plural(table.n_items, 'item')}"),
    ]  # fmt: skip
    if not data.one_label_each:
        note = "outweighed by the model and better annotators"
        found.append(Card(f"{changed:,}", "labels differ from the majority vote", note))
    if (accuracy := data.metrics.get("test", {}).get("accuracy")) is not None:
        items = int(data.metrics["test"].get("items", 0))
        found.append(
            Card(percent(accuracy), "right on the test items", f"the trained model, {plural(items, 'item')} with gold")
        )
    return found


def sentences(data: RunData) -> list[str]:
    """The summary in words, most important first."""
    table = data.annotations
    people, _ = verdict_counts(data)
    per_item = table.n_annotations / max(table.n_items, 1)
    told = [
        f"{plural(table.n_annotators, 'annotator')} gave {plural(table.n_annotations, 'label')} to "
        f"{plural(table.n_items, 'item')}"
        + (f" in {len(table.tasks)} tasks" if data.several_tasks else "")
        + f", {per_item:.1f} per item."
    ]
    told.append(_verdicts_told(data, people))
    if not data.one_label_each:
        share = float(data.overruled.mean()) if table.n_items else 0.0
        told.append(
            f"For {plural(int(data.overruled.sum()), 'item')} ({percent(share)}) the most probable label is not the "
            "one with the most votes."
        )
    unsure = int((data.confidence < UNSURE).sum())
    told.append(
        f"{plural(unsure, 'item')} {'has' if unsure == 1 else 'have'} a label that is less than {percent(UNSURE)} "
        "sure; the section on relabelling says which to ask about first, and whom."
        if unsure
        else f"Every label is {percent(UNSURE)} sure or more."
    )
    return told


def _verdicts_told(data: RunData, people: list[int]) -> str:
    if data.several_tasks:
        unit, of = "pair of annotator and task", "Of the pairs of annotator and task"
    else:
        unit, of = "annotator", "Of the annotators"
    parts = [f"{people[0]:,} {'is' if people[0] == 1 else 'are'} reliable"]
    if people[2]:
        parts.append(f"{people[2]:,} no better than guessing")
    if people[3]:
        parts.append(f"{people[3]:,} worse than guessing")
    if people[1]:
        parts.append(f"for {people[1]:,} there is not enough evidence to say")
    said = ", ".join(parts[:-1]) + (" and " if len(parts) > 1 else "") + parts[-1]
    return f"{of}, {said}." if sum(people) > 1 else f"There is one {unit}, so there is nobody to compare with."


def notices(data: RunData) -> list[Limit]:
    """What must be read before any figure."""
    found = []
    if data.estimate.relative_tasks.any():
        which = [name for name, flag in zip(data.task_names, data.estimate.relative_tasks, strict=True) if flag]
        where = "" if data.estimate.relative else f" in {', '.join(which)}"
        found.append(
            Limit(
                "Relative values",
                f"Most items have one label{where}, so hardly anybody can be checked against anybody: accuracies show "
                "who is better than whom, and their level hangs on how well the model's certainty is calibrated (see "
                "Labels).",
            )
        )
    if not data.out_of_fold:
        found.append(
            Limit(
                "In-sample",
                "The model that judges these labels was trained on them and may have learned some of them by heart. "
                "Training with cross-fitting judges each item by a model that has not seen it.",
            )
        )
    return found


def calibration_told(found: Calibration) -> str:
    """What the calibration picture shows, in a sentence or two."""
    if found.judge == "labels":
        return (
            "Held against the single label each item has, so that annotators' errors count against the model: the "
            f"labels agree with its favourite on {percent(found.agreed)} of the items. Were the model as right as it "
            f"claims and the annotators as accurate as estimated, they would on {percent(found.expected)}."
        )
    by = {
        "gold": "against gold",
        "annotators": "against the annotators alone, weighed by their expertise, on items with several labels",
    }[found.judge]
    over = float(((found.sure - found.confirmed) * found.share).sum())
    how = "about as sure of itself as it should be"
    if abs(over) > 0.05:
        how = "surer of itself than it should be" if over > 0 else "less sure of itself than it could be"
    told = f"Judged {by}, the model is {how}: it is off by {percent(found.gap)} on average."
    if abs(np.log(found.temperature)) > 0.15:
        change = "softened" if found.temperature > 1 else "sharpened"
        told += f" The annotations fit its probabilities best when {change} (temperature {found.temperature:.2f})."
    return told


def apart_told(data: RunData, listed: int, total: int) -> str:
    """How many items the model and the majority disagree on, and how they are listed."""
    whose = "the label given" if data.one_label_each else "the most voted label"
    told = (
        f"On {plural(total, 'item')} ({percent(total / max(data.annotations.n_items, 1))}) the model prefers another "
    )
    told += f"label than {whose}. Either may be wrong: these are the items to read."
    return told + (f" The {listed:,} clearest cases are listed." if listed < total else "")


def broken_told(listed: int, total: int) -> str:
    told = (
        f"On {plural(total, 'item')} the model is sure of one label and the reliable annotators together of another. "
        "One more label settles little here: read the item, its options and the instructions."
    )
    return told + (f" The first {listed:,} are listed." if listed < total else "")


def test_figures(metrics: dict[str, Any]) -> list[tuple[str, str]]:
    """What was measured on the test items: title and value of each metric."""
    values = metrics.get("test") or {}
    formats = {"items": ("Items with gold", ",.0f")} | {m.name: (m.title, m.format) for m in METRICS.values()}
    return [
        (title, format(values[name], form))
        for name, (title, form) in formats.items()
        if isinstance(values.get(name), int | float)
    ]


def making(data: RunData) -> list[tuple[str, str]]:
    """How the run was made: terms and values, the essential ones."""
    settings, config, scorer = data.config.get("settings", {}), data.config, data.scorer_settings
    batch = int(settings.get("effective_batch_size", 0)) or (
        int(settings.get("per_device_train_batch_size", 0)) * int(settings.get("gradient_accumulation_steps", 1))
    )
    versions = {"realm": config.get("realm"), **config.get("versions", {})}
    steps, epochs = data.metrics.get("steps"), settings.get("num_train_epochs")
    rows: list[tuple[str, Any]] = [
        ("Method", _method(data.method)),
        ("Model", config.get("model")),
        ("Asked as", f"{scorer.get('kind', '')}, {scorer.get('style', {}).get('answers', '')}"),
        ("Training", f"{steps} steps, {epochs:g} epochs, {batch} per step" if epochs and steps else None),
        ("Learning rates", _rates(settings)),
        ("Seed", settings.get("seed")),
        ("Gold labels", _gold(data)),
        ("Probabilities", data.probabilities),
        ("Temperature", _temperature(data.metrics.get("temperature"))),
        ("Taken as experts", ", ".join(map(str, settings.get("experts") or [])) or None),
        ("Carried in", "an earlier estimate of expertise" if config.get("prior") else None),
        ("Data", f"fingerprint {config.get('data', {}).get('fingerprint', 'not recorded')}"),
        ("Versions", ", ".join(f"{name} {number}" for name, number in versions.items())),
    ]  # fmt: skip
    return [(term, str(value)) for term, value in rows if value is not None]


def _temperature(value: Any) -> str | None:
    if not isinstance(value, int | float) or value == 1:
        return None
    return f"{value:.2f}: the model's probabilities were brought to what the annotations bear out"


def _rates(settings: dict[str, Any]) -> str | None:
    if "learning_rate" not in settings:
        return None
    said = f"model {settings['learning_rate']:g}"
    if _learns_expertise(settings) and settings.get("expertise_update") == "em":
        said += ", expertise solved for (em), no rate"
    elif _learns_expertise(settings) and "expertise_learning_rate" in settings:
        said += f", expertise {settings['expertise_learning_rate']:g}"
    return said


def _learns_expertise(settings: dict[str, Any]) -> bool:
    method = METHODS.get(settings.get("method", ""))
    return method is not None and method.learns_expertise


def _method(method: str) -> str:
    return f"{method} ({METHODS[method].description})" if method in METHODS else method


def _gold(data: RunData) -> str:
    if data.gold_used:
        return "used in training: where it is known it decides"
    return "not read: nothing in training or in these estimates has seen a true label"


def _coverage(data: RunData) -> str:
    """What was measured of the intervals by simulation (`benchmarks/coverage.py`), for data of this kind."""
    if data.estimate.relative and data.out_of_fold:
        return (
            "Simulated with one label per item and out of fold, it held the true accuracy 94% of the time with a well "
            "calibrated model, 44% with one that is not sure enough (accuracies 0.19 too high) and 22% with one that "
            "is too sure (0.23 too low)."
        )
    if data.estimate.relative:
        return (
            "Simulated with one label per item and in-sample, it held the true accuracy 94% of the time with a well "
            "trained model and 73% with one that had learned labels by heart (accuracies 0.06 too high)."
        )
    if data.out_of_fold:
        return (
            "Simulated with several labels per item and out of fold, softened where the annotations ask for it, it "
            "held the true accuracy 95 to 96% of the time."
        )
    return (
        "Simulated with several labels per item and in-sample, it held the true accuracy 95% of the time with a well "
        "trained model and 84% with one that had learned labels by heart (accuracies 0.03 too low)."
    )


def limits(data: RunData) -> list[Limit]:
    """What the report cannot tell, in plain words."""
    sizes = data.annotations.option_counts
    found = [
        Limit(
            "No evidence for pay or dismissal",
            "Figures about people here are estimates made by a program that has not met them. They help decide whose "
            "labels to weigh, what to have labelled again and where instructions are unclear. They are no ground for "
            "paying, promoting, punishing or dismissing anybody.",
        ),
        Limit(
            "A minority view looks like unreliability",
            "On tasks that call for judgement (is this offensive, is this funny, is this any good) there may be no "
            "single true label. Somebody who sees things differently from most, for good reasons, gets the same low "
            "figure here as somebody who guesses.",
        ),
        Limit(
            "Low accuracy has many causes",
            "Unclear instructions, harder items, another language, a broken form or a misread scale show up exactly as "
            "carelessness would. Read some of the items first.",
        ),
        Limit(
            "Intervals",
            "An interval takes the model's certainty at its word and annotators' errors to be independent. "
            + _coverage(data)
            + " On real reviews, without a model, it held for 70% of the busiest annotators: on hard items careful "
            "people make the same mistake, and that looks like agreement.",
        ),
        Limit(
            "Out of fold" if data.out_of_fold else "In-sample",
            "Each item was judged by a model that was trained without it."
            if data.out_of_fold
            else "The model was trained on the very labels it judges here. It may repeat annotators' errors, flatter "
            "those it learned from, and show fewer disagreements than there are.",
        ),
    ]
    if data.estimate.relative_tasks.any():
        found.append(
            Limit(
                "One label per item",
                "Where few items are labelled by two people, expertise is known up to a common factor only. Compare "
                "annotators with each other; do not read a figure as a share of right answers.",
            )
        )
    if (sizes == 2).any():
        found.append(
            Limit(
                "Two options",
                "With two options, everybody right and everybody wrong explain the labels equally well; only the "
                "model's own opinion (or gold) tells which is which. If most annotators mistook the task in the same "
                "way, the figures are upside down.",
            )
        )
    found.append(
        Limit(
            "Gold was used" if data.gold_used else "No gold",
            "Items with gold were held to it; figures on those very items say nothing of how the method does without."
            if data.gold_used
            else "No figure about annotators or their items has been checked against true labels. If many annotators "
            "are wrong together, nothing in the data can tell; a few items with gold can.",
        )
    )
    return found
