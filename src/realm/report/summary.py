"""The first screen: whether the labels can be used, the bad news by name, and the few figures to take away."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from realm.crowd.notes import drift_in_words
from realm.crowd.verdicts import VERDICTS
from realm.display import counted
from realm.metrics import METRICS
from realm.report.chart_data import verdict_counts
from realm.report.escaping import clipped
from realm.report.run_data import RunData
from realm.report.svg import percent
from realm.report.wording import SURE, TENTATIVE, UNSURE

USABLE, PARTLY = 0.90, 0.80
"""Expected shares of right labels, one item in twenty that may mislead everybody allowed for: from the first on, one
label in twenty is wrong beyond these, which models are trained on without harm."""
NAMED = 8
"""Most annotators that a sentence names: two lines."""
REMARK = 120
"""Most characters of a remark on an annotator: a line."""
LONGEST_NAME = 64
"""As in the table of annotators, whose rows the names open."""
NOTED = 4
"""Most sentences about single annotators."""
A_FEW = 0.05
"""Up to this share of the labels, guessers are a caution, above it an alarm: one label in twenty."""
MODEL_FAILS = ("no better than the base rate", "gives the same answer")
"""How a run's findings say that its model has learned nothing (`realm.training.findings`)."""
GOOD, CARE, WARNING, PLAIN = "good", "care", "bad", "plain"
"""States of a tile or a sentence; each has a colour, a mark and a word."""
STATE_WORDS = {GOOD: "good", CARE: "take care", WARNING: "problem", PLAIN: ""}


@dataclass(frozen=True)
class Answer:
    """The answer to the first question, and what it rests on."""

    state: str
    headline: str
    sentences: list[str] = field(default_factory=list)


class Card(NamedTuple):
    """A figure that stands out, with what it counts, a remark, and how good or bad it is."""

    figure: str
    what: str
    note: str
    state: str = PLAIN

    @property
    def word(self) -> str:
        return STATE_WORDS[self.state]


class Alarm(NamedTuple):
    """Bad news: a heading, a sentence, and the annotators it is about, each with a remark."""

    state: str
    title: str
    text: str
    names: list[tuple[str, str]] = []  # noqa: RUF012  # a NamedTuple's default is never changed
    more: int = 0

    @property
    def word(self) -> str:
        return STATE_WORDS[self.state]


# -------------------------------------------------------------------- can the labels be used


@dataclass(frozen=True)
class ExpectedRight:
    """Shares of labels that are expected to be right, by the posterior of each item's true label."""

    cleaned: float
    majority: float
    given: float
    sure: float
    sure_items: int


def expected_right(data: RunData) -> ExpectedRight:
    """How many labels are expected to be right: cleaned ones, majority votes (ties at random), labels as given."""
    posterior, table = data.estimate.posterior, data.annotations
    labelled = table.annotations_per_item > 0
    votes = data.votes[labelled]
    top = votes == votes.max(axis=1, keepdims=True, initial=0)
    majority = (top / np.maximum(top.sum(axis=1, keepdims=True), 1) * posterior[labelled]).sum(axis=1)
    sure = data.confidence >= UNSURE
    return ExpectedRight(
        cleaned=_mean(data.confidence),
        majority=_mean(majority),
        given=_mean(posterior[table.item, table.label]),
        sure=_mean(data.confidence[sure]),
        sure_items=int(sure.sum()),
    )


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else 0.0


def answer(data: RunData) -> Answer:
    """Whether the cleaned labels can be used, as far as they can be judged."""
    expected, n_items = expected_right(data), data.annotations.n_items
    about = f"about {percent(expected.cleaned)} of the {counted(n_items, 'cleaned label')} are expected to be right"
    sentences = []
    if not data.one_label_each:
        sentences.append(
            f"Without cleaning, a majority vote would be right on about {percent(expected.majority)} of the items, and "
            f"a single label as given on about {percent(expected.given)}."
        )
    unclear = n_items - expected.sure_items
    if unclear and expected.sure_items:
        sentences.append(
            f"{counted(unclear, 'item')} {'is' if unclear == 1 else 'are'} unclear (confidence below "
            f"{percent(UNSURE)}). Of the other {expected.sure_items:,}, about {percent(expected.sure)} "
            "are expected to be right."
        )
    if data.estimate.relative:
        return Answer(
            CARE,
            "With care: every item has one label, so the labels cannot be checked against each other",
            [
                f"By the model's own confidence {about}; how far that is true depends on how well the model is "
                "calibrated.",
                *sentences,
            ],
        )
    if round(expected.cleaned, 2) >= USABLE:  # what is shown is what decides
        return Answer(GOOD, f"Yes: {about}", sentences)
    if round(expected.cleaned, 2) >= PARTLY:
        return Answer(CARE, f"Mostly: {about}. Settle the unclear items first, or leave them out", sentences)
    return Answer(WARNING, f"Not as they are: only {about}", sentences)


# -------------------------------------------------------------------- bad news


def alarms(data: RunData) -> list[Alarm]:
    """What must be known before any figure is used, the worst first."""
    found = _from_training(data.findings)
    found += _by_verdict(data)
    found += _changed(data)
    found += _patterns(data)
    found += _agreement(data)
    return sorted(found, key=lambda alarm: (WARNING, CARE).index(alarm.state))


def _from_training(findings: list[str]) -> list[Alarm]:
    """What a run has found of its model or of labels that have moved; what follows from it ("so ...") with it."""
    found: list[Alarm] = []
    for text in findings:
        sentence = f"{text[:1].upper()}{text[1:]}"
        if found and text.startswith("so "):
            found[-1] = found[-1]._replace(text=f"{found[-1].text} {sentence}")
            continue
        fails = any(words in text for words in MODEL_FAILS)
        title = "The model is of no use" if fails else "Noted in training"
        found.append(Alarm(WARNING if fails else CARE, title, sentence))
    return found


def _by_verdict(data: RunData) -> list[Alarm]:
    counts, found = data.estimate.annotations.reshape(-1), []
    total, kinds = max(int(counts.sum()), 1), data.verdicts.reshape(-1)
    texts = {
        "no better than chance": (
            "answers at chance level", "answer at chance level",
            "Their labels say next to nothing about the items. Leave them out, or talk to them.",
        ),
        "worse than chance": (
            "is wrong more often than guessing", "are wrong more often than guessing",
            "They may have mixed up two labels or misread the instructions. Ask them.",
        ),
    }  # fmt: skip
    for verdict, (one, several, advice) in texts.items():
        pairs = [pair for pair in data.bad_pairs if kinds[pair] == VERDICTS.index(verdict)]
        if not pairs:
            continue
        share = sum(int(counts[pair]) for pair in pairs) / total
        unit, units = ("pair of annotator and task", "pairs of annotator and task") if data.several_tasks else (
            "annotator", "annotators",
        )  # fmt: skip
        title = f"1 {unit} {one}: {percent(share)} of all labels"
        if len(pairs) > 1:
            title = f"{len(pairs):,} {units} {several}: together they gave {percent(share)} of all labels"
        names = _by_annotator(data, pairs, total)
        state = WARNING if share > A_FEW else CARE
        found.append(Alarm(state, title, advice, names[:NAMED], max(len(names) - NAMED, 0)))
    return found


def _by_annotator(data: RunData, pairs: list[int], total: int) -> list[tuple[str, str]]:
    """Each annotator of these pairs with a remark: the share of all labels, the tasks, what their labels show."""
    n_tasks, counts = len(data.annotations.tasks), data.estimate.annotations.reshape(-1)
    own: dict[int, list[int]] = {}
    for pair in pairs:
        own.setdefault(pair // n_tasks, []).append(pair)
    names = []
    for annotator, theirs in own.items():
        share = sum(int(counts[pair]) for pair in theirs) / total
        parts = [percent(share) if share >= 0.01 else f"{share:.1%}"]
        parts += [f"in {', '.join(data.task_names[pair % n_tasks] for pair in theirs)}"] if data.several_tasks else []
        parts += list(dict.fromkeys(str(note) for pair in theirs if (note := data.notes.reshape(-1)[pair])))
        names.append((clipped(data.annotations.annotators[annotator], LONGEST_NAME), clipped(", ".join(parts), REMARK)))
    return names


def _changed(data: RunData) -> list[Alarm]:
    """Annotators whose accuracy fell beyond chance."""
    fell = [each for each in data.times if each.drift is not None and each.drift.flagged]
    fell = [each for each in fell if each.drift is not None and each.drift.after[0] < each.drift.before[0]]
    fell.sort(key=lambda each: each.drift.p_value if each.drift is not None else 1.0)
    names = [
        (
            clipped(data.annotations.annotators[each.annotator], LONGEST_NAME),
            f"{data.task_names[each.task]}: " * data.several_tasks + drift_in_words(each.drift),
        )
        for each in fell[:NOTED]
        if each.drift is not None
    ]
    if not names:
        return []
    title = f"The accuracy of {counted(len(fell), 'annotator')} has fallen"
    text = "Look at their labels since then, and have some of them labelled again."
    return [Alarm(CARE, title, text, names, max(len(fell) - NOTED, 0))]


def _patterns(data: RunData) -> list[Alarm]:
    """Annotators whose labels show a pattern by themselves, but for those who are named for their accuracy."""
    n_tasks, kinds = len(data.annotations.tasks), data.verdicts.reshape(-1)
    noted = [(pair, str(text)) for pair, text in enumerate(data.notes.reshape(-1)) if text and kinds[pair] >= 0]
    noted = [(pair, text) for pair, text in noted if pair not in data.bad_pairs and not text.startswith("accuracy ")]
    seen: dict[int, tuple[int, str]] = {}
    for pair, text in noted:  # one line for each annotator: copies are noted in every task
        seen.setdefault(pair // n_tasks, (pair, text))
    if not seen:
        return []
    lines = list(seen.values())
    names = [
        (clipped(data.annotations.annotators[pair // n_tasks], LONGEST_NAME), text) for pair, text in lines[:NOTED]
    ]
    title = f"The labels of {counted(len(lines), 'annotator')} show a pattern"
    return [
        Alarm(CARE, title, "Look at some of their labels before you rely on them.", names, max(len(lines) - NOTED, 0))
    ]


def _agreement(data: RunData) -> list[Alarm]:
    low = [clipped(name, 40) for name, alpha in data.alpha.items() if alpha is not None and alpha < TENTATIVE]
    if not low:
        return []
    where = f" in {', '.join(low[:NAMED])}" if data.several_tasks else ""
    figures = ", ".join(f"{alpha:.2f}" for alpha in data.alpha.values() if alpha is not None and alpha < TENTATIVE)
    return [
        Alarm(
            CARE,
            f"Annotators agree little{where}",
            f"Krippendorff's alpha is {figures} (1: full agreement, 0: chance). Below {TENTATIVE} a majority vote is a "
            "weak guide; the instructions may be unclear, or the question a matter of opinion.",
        )
    ]


# -------------------------------------------------------------------- figures


def cards(data: RunData) -> list[Card]:
    """The few figures to take away."""
    expected, n_items = expected_right(data), data.annotations.n_items
    counts, annotations = verdict_counts(data)
    total = max(sum(annotations), 1)
    unit = "pairs of annotator and task" if data.several_tasks else "annotators"
    right = CARE if data.estimate.relative else answer(data).state
    relative = "depends on the model's calibration" if data.estimate.relative else ""
    compared = "" if data.one_label_each else f"majority vote: about {percent(expected.majority)}"
    guessing, guessed = sum(counts[3:]), sum(annotations[3:]) / total
    state = GOOD if not guessing else WARNING if guessed > A_FEW else CARE
    unclear = n_items - expected.sure_items
    sure = int((data.confidence >= SURE).sum())
    figures = [
        Card(percent(expected.cleaned), "of the cleaned labels are expected to be right", relative or compared, right),
        Card(
            percent(guessed),
            "of all labels are by annotators at or below chance level",
            f"{guessing:,} of {sum(counts):,} {unit}",
            state,
        ),
        Card(
            f"{counts[0]:,} of {sum(counts):,}",
            f"{unit} are reliable",
            f"{percent(annotations[0] / total)} of all labels; not enough evidence on {counts[2]:,}",
        ),
        Card(
            f"{unclear:,}",
            f"of {counted(n_items, 'item')} are unclear (confidence below {percent(UNSURE)})",
            f"{percent(sure / max(n_items, 1))} have a confidence of {percent(SURE)} or more",
        ),
    ]
    return figures + _model_cards(data)


def _model_cards(data: RunData) -> list[Card]:
    """How the model does on the test items; where it has failed, that it has."""
    if not data.has_model:
        return []
    failed = any(words in text for text in data.findings for words in MODEL_FAILS)
    test = data.metrics.get("test") or {}
    if (accuracy := test.get("accuracy")) is None:
        note = "no better than the base rate, or one answer to nearly everything"
        return [Card("no say", "of the model in the labels", note, WARNING)] if failed else []
    others = [METRICS[name] for name in ("base_rate", "macro_f1") if test.get(name) is not None]
    beside = "".join(f"; {each.name_in_text} {format(test[each.name], each.format)}" for each in others)
    n, rate = int(test.get("items", 0)), test.get("base_rate")
    useless = failed or (rate is not None and accuracy <= rate)
    clearly = rate is None or accuracy > rate + 2 * np.sqrt(max(rate * (1 - rate), 0) / max(n, 1))
    state = WARNING if useless else GOOD if clearly else CARE
    note = f"the trained model, {counted(n, 'item')} with gold{beside}"
    if useless:
        note = f"no better than always giving the most frequent label: {note}"
    return [Card(percent(accuracy), "right on the test items", note, state)]


def sentences(data: RunData) -> list[str]:
    """The data in words."""
    table = data.annotations
    in_tasks = f" in {len(table.tasks)} tasks" if data.several_tasks else ""
    summary = [
        f"{counted(table.n_annotators, 'annotator')} gave {counted(table.n_annotations, 'label')} to "
        f"{counted(table.n_items, 'item')}{in_tasks}, {table.n_annotations / max(table.n_items, 1):.1f} per item.",
        _verdict_sentence(data),
    ]
    independence = data.screens.independence
    if independence is not None and independence.err_together:
        summary.append(f"Annotators make the same mistakes: {independence}.")
    summary.append(_shared_error(data))
    if not data.one_label_each:
        share = float(data.overruled.mean()) if table.n_items else 0.0
        summary.append(
            f"On {counted(int(data.overruled.sum()), 'item')} ({percent(share)}) the cleaned label is not the one with "
            "the most votes."
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
        parts.append(f"for {unknown:,} there is not enough evidence")
    *first, last = parts
    units = "pairs of annotator and task" if data.several_tasks else "annotators"
    return f"Of the {units}, {', '.join(first)}{' and ' if first else ''}{last}."


def _shared_error(data: RunData) -> str:
    error = float(data.estimate.shared_error.mean())
    basis = "the items with gold show it" if data.gold_used else "no label shows it, and only gold can tell"
    return (
        f"Confidence and accuracies allow for mistakes that all annotators share, on {percent(error)} of the items: "
        f"{basis}."
    )
