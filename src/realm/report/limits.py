"""How a report was made, and what it cannot tell."""

from __future__ import annotations

from typing import Any

from realm.methods import METHODS
from realm.report.run_data import RunData
from realm.report.wording import Remark


def making(data: RunData) -> list[tuple[str, str]]:
    """How the run was made: terms and values, the essential ones."""
    settings, config, scorer = data.settings, data.config, data.scorer_settings
    batch = int(settings.get("effective_batch_size", 0)) or (
        int(settings.get("per_device_train_batch_size", 0)) * int(settings.get("gradient_accumulation_steps", 1))
    )
    versions = {"realm": config.get("realm"), **config.get("versions", {})}
    steps, epochs = data.metrics.get("steps"), settings.get("num_train_epochs")
    temperature = data.metrics.get("temperature", 1.0)
    softened = f"{temperature:.2f}: the model's probabilities were softened to fit the annotations"
    gold = (
        "used: where it is known it decides"
        if data.gold_used
        else "not used: neither training nor these estimates have seen a true label"
    )
    rows: list[tuple[str, Any]] = [
        ("Report of", " · ".join(part for part in (data.name, data.date) if part)),
        ("Table", data.file or None),
        ("Method", _method(data)),
        ("Model", config.get("model")),
        ("Asked as", _asked_as(scorer) if scorer else None),
        ("Training", f"{steps} steps, {epochs:g} epochs, {batch} per step" if epochs and steps else None),
        ("Learning rates", _learning_rates(data)),
        ("Seed", settings.get("seed")),
        ("Gold labels", gold),
        ("Probabilities", data.probabilities),
        ("Temperature", None if temperature == 1 else softened),
        ("Taken as experts", ", ".join(map(str, settings.get("experts") or [])) or None),
        ("Carried in", "an earlier estimate of expertise" if config.get("prior") else None),
        ("Data", f"fingerprint {config.get('data', {}).get('fingerprint', 'not recorded')}"),
        ("Versions", ", ".join(f"{name} {number}" for name, number in versions.items() if number) or None),
    ]
    return [(term, str(value)) for term, value in rows if value is not None]


def _method(data: RunData) -> str:
    if not data.has_model:
        return "agreement between annotators (joint EM with habits); no model was trained"
    method = METHODS.get(data.method)
    return data.method if method is None else f"{data.method} ({method.description})"


def _asked_as(scorer: dict[str, Any]) -> str:
    """The kind of scorer; of a language model how its options are answered too (a classifier has no answer tokens)."""
    kind, answers = str(scorer.get("kind", "")), scorer.get("style", {}).get("answers")
    return f"{kind}, {answers}" if answers else kind


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
    """What an interval allows for."""
    if data.estimate.relative:
        return "With one label per item it is only as good as the model's calibration."
    share = float(data.estimate.shared_error_high.max())
    return f"Its ends allow for up to {share:.0%} of the items misleading everybody alike, which labels cannot show."


def _judged_in_sample(data: RunData) -> str:
    if data.in_sample_in_part:
        return "The model was trained on the very labels shown here; it judges items with one label only."
    return "The model was trained on the very labels it judges here."


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
            "single true label. Somebody who disagrees with most people for good reasons gets the same low "
            "figure here as somebody who guesses."),
        (True, "Low accuracy has many causes",
            "Unclear instructions, harder items, another language, a broken form or a misread scale look exactly like "
            "carelessness. Read some of the items first."),
        (True, "Intervals",
            f"A 95% interval assumes that {'the model is calibrated and ' * data.has_model}annotators err "
            f"independently of each other. {_coverage(data)}"),
        (not data.has_model, "No model",
            "Labels and accuracies come from agreement between annotators alone. On items with one label there is "
            "nothing to compare it with: its confidence is the accuracy of whoever gave it."),
        (out_of_fold, "Out of fold", "Each item was judged by a model that was trained without it."),
        (data.in_sample, "In-sample",
            f"{_judged_in_sample(data)} It may repeat annotators' errors, favour those it learned from, and show "
            "fewer disagreements than there are."),
        (data.estimate.relative_tasks.any(), "One label per item",
            "Where few items are labelled by two people, expertise is known only up to a common factor. Compare "
            "annotators with each other; do not read a figure as a share of right answers."),
        ((data.annotations.option_counts == 2).any(), "Two options",
            "With two options, everybody right and everybody wrong explain the labels equally well; only "
            f"{'the model or gold' if data.has_model else 'gold'} can tell which it is. If most annotators "
            "misunderstood the task in the same way, the figures are upside down."),
        (gold, "Gold was used",
            "Items with gold have their gold label; figures on those items say nothing about how well the method does "
            "without gold."),
        (not gold, "No gold",
            "No figure about annotators or their items has been checked against true labels. If many annotators "
            "make the same mistake, nothing in the data shows it; a few items with gold would."),
    ]  # fmt: skip
    return [Remark(title, text) for applies, title, text in remarks if applies]
