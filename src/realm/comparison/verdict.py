"""What a comparison shows, in sentences: who is best if anybody, who is level, on which figures who is ahead.

All take the summary of a comparison as `results.json` holds it. Results of earlier versions, which hold accuracies
alone, give no sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from realm.comparison.ranking import ENOUGH_SEEDS, FEWEST_ITEMS
from realm.methods import METHODS
from realm.metrics import METRICS

Summary = Mapping[str, Any]

OUTCOMES = ("ahead", "behind", "level")


def verdict(summary: Summary) -> list[str]:
    """Who is best, or why nobody is, and what the base rate is."""
    ranking = summary.get("ranking")
    return [*_verdict(summary, ranking), *_base_rate(summary)] if ranking else []


def pairs(summary: Summary) -> list[str]:
    """The reference against every other method: on which figures it is ahead, behind and level."""
    ranking = summary.get("ranking")
    return _pairs(ranking) if ranking else []


def figure_name(figure: str) -> str:
    """A figure's name inside a sentence."""
    return METRICS[figure].name_in_text if figure in METRICS else figure.replace("_", " ")


def difference_in_words(figure: str, difference: float) -> str:
    """A difference with its sign: points for shares, the figure's own digits otherwise."""
    form = METRICS[figure].format if figure in METRICS else ".3f"
    return f"{100 * difference:+.1f} points" if form.endswith("%") else f"{difference:+{form}}"


def _verdict(summary: Summary, ranking: Mapping[str, Any]) -> list[str]:
    by, leader = ranking["by"], ranking["leader"]
    others = [name for name in ranking["order"] if name != leader and not METHODS[name].needs_gold]
    if not others:
        return []
    named = figure_name(by)
    contrasts = [each for each in ranking["contrasts"] if each["first"] == leader and each["second"] in others]
    tested_figures = dict.fromkeys(each["figure"] for each in contrasts if each["outcome"] is not None)
    rest = [figure_name(name) for name in tested_figures if name != by]
    if ranking["best"]:
        behind = f", and behind none on {_listed(rest)}" if rest else ""
        return [f"Ranked by {named}, {leader} is best: ahead of every other method{behind}."]
    most = "highest" if METRICS[by].higher_is_better else "lowest"
    value = format(_mean(summary, leader, by), METRICS[by].format)
    undecided = [each["second"] for each in contrasts if each["figure"] == by and each["outcome"] != "ahead"]
    tested = any(each["outcome"] is not None for each in contrasts if each["figure"] == by)
    text = f"Ranked by {named}, no method is called best. {leader} has the {most}, {value}"
    if undecided and tested:
        text += f", but is level with {_listed(undecided)}: the paired tests do not tell them apart"
    elif undecided:
        text += f"; there are too few test items (fewer than {FEWEST_ITEMS}) and seeds to test it"
    found = [text + "."]
    doubts = [each for each in contrasts if each["may_be_behind"] and each["figure"] != by]
    if parts := [_doubt(summary, leader, name, doubts) for name in dict.fromkeys(each["figure"] for each in doubts)]:
        found.append(f"By one of the tests or both, {leader} is behind on other figures: {'; '.join(parts)}.")
    return found


def _doubt(summary: Summary, leader: str, figure: str, doubts: Sequence[Mapping[str, Any]]) -> str:
    form = METRICS[figure].format
    seconds = [each["second"] for each in doubts if each["figure"] == figure]
    others = [f"{format(_mean(summary, name, figure), form)} of {name}" for name in seconds]
    return f"{figure_name(figure)} {format(_mean(summary, leader, figure), form)} against {_listed(others)}"


def _base_rate(summary: Summary) -> list[str]:
    rate = next((each["figures"].get("base_rate") for each in summary["methods"] if each.get("figures")), None)
    if rate is None:
        return []
    at_most = [
        each["method"] for each in summary["methods"] if _mean(summary, each["method"], "accuracy") <= rate["mean"]
    ]
    text = f"Always giving the most frequent label would be right on {rate['mean']:.1%} of the test items"
    return [f"{text}; no more often than that: {_listed(at_most)}." if at_most else f"{text}."]


def _pairs(ranking: Mapping[str, Any]) -> list[str]:
    reference, found = ranking["reference"], []
    for second in (name for name in ranking["order"] if name != reference):
        contrasts = [each for each in ranking["contrasts"] if (each["first"], each["second"]) == (reference, second)]
        parts = []
        for outcome in OUTCOMES:
            words = [_figure_with_difference(each) for each in contrasts if each["outcome"] == outcome]
            parts += [f"{outcome} on {_listed(words)}"] if words else []
        if untested := [figure_name(each["figure"]) for each in contrasts if each["outcome"] is None]:
            parts.append(f"not tested on {_listed(untested)}")
        found += [f"{reference} against {second}: {'; '.join(parts)}."] if parts else []
    return found


def _figure_with_difference(contrast: Mapping[str, Any]) -> str:
    return f"{figure_name(contrast['figure'])} ({difference_in_words(contrast['figure'], contrast['difference'])})"


def _mean(summary: Summary, method: str, figure: str) -> float:
    [entry] = [each for each in summary["methods"] if each["method"] == method]
    return float(entry["figures"][figure]["mean"])


def _listed(words: Sequence[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def what_is_tested() -> str:
    """How a difference is judged, in a sentence or two."""
    return (
        "Ahead or behind: the 95% interval of the difference over test items excludes zero and, with "
        f"{ENOUGH_SEEDS} seeds or more, the paired t-test over seeds has p < 0.05; otherwise level. Calibration error "
        "is tested over seeds alone."
    )
