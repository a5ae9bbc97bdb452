"""The shapes of the paper's tables: which fields make rows and columns, which methods stand side by side."""

from __future__ import annotations

from dataclasses import dataclass

TITLES = {
    "arc": "ARC",
    "obqa": "OBQA",
    "piqa": "PIQA",
    "riddlesense": "Riddle",
    "pubmedqa": "PubMedQA",
    "wikiattack": "WikiAttack",
    "wikitoxicity": "WikiToxicity",
    "sentpolarity": "SentPolarity",
    "goemotions": "GoEmotions",
    "cebab": "CEBaB",
    "realm": "REALM",
    "realm-scalar": "REALM, one number each",
    "noisy": "Noisy",
    "majority": "MV",
    "dawid-skene": "DS",
    "oracle": "Oracle",
    "small": "Small",
    "base": "Base",
    "large": "Large",
    "graded": "graded",
    "one-reliable": "one reliable",
}
"""What the paper calls things."""
HEADS = {"benchmark": "Dataset", "spread": "Pool"}
"""What the head of a field is called, where it is not the field's own name."""
BASELINES = ("noisy", "majority", "dawid-skene")


@dataclass(frozen=True)
class Grouped:
    """A table of accuracies.

    | field | meaning |
    |---|---|
    | rows | fields whose values make the rows; those with one value go to the title |
    | columns | the field whose values make groups of columns |
    | methods | columns of each group |
    | delta | REALM minus the best of these, as a last column of each group |
    | oracle | a column in front for training on gold |
    | average | a row with the mean over this field, after each group of rows |
    | by_task | a row for each task of a joint training |
    | digits | decimals, as many as the paper gives |
    """

    rows: tuple[str, ...]
    columns: str | None = None
    methods: tuple[str, ...] = ("realm", "noisy")
    delta: tuple[str, ...] = ("noisy",)
    oracle: bool = False
    average: str | None = None
    by_task: bool = False
    digits: int = 2


GROUPED: dict[str, Grouped] = {
    "real": Grouped(("benchmark", "model"), "regime", ("realm", *BASELINES), BASELINES, oracle=True, digits=1),
    "uniform": Grouped(("model", "benchmark"), "pool", oracle=True, average="benchmark"),
    "noise-types": Grouped(("pool", "model", "benchmark"), "noise", oracle=True, average="benchmark"),
    "multitask": Grouped(("model", "pool"), "noise", delta=(), oracle=True),
    "multitask-tasks": Grouped(("model", "pool", "task"), "noise", delta=(), by_task=True),
    "matrix": Grouped(("benchmark", "pool"), None, ("realm", "realm-scalar", "noisy"), ("noisy",), oracle=True),
    "annotators": Grouped(("spread", "benchmark"), "annotators", average="benchmark"),
    "expertise-rate": Grouped(("benchmark",), "rate", ("realm",), ()),
    "training-length": Grouped(("steps",), "benchmark", digits=1),
    "aggregation": Grouped(("benchmark",), None, (*BASELINES, "realm"), BASELINES, digits=1),
    "aggregation-budgets": Grouped(("benchmark",), "steps", ("realm", "dawid-skene"), (), digits=1),
    "curves": Grouped(("benchmark",), "noise"),
}
"""Tables of accuracies by the name a spec gives as `table`."""


def head(field: str) -> str:
    """What the head of a field says."""
    return HEADS.get(field, field.capitalize().replace("_", " "))


def shown(value: object) -> str:
    """A value as the tables write it; tasks of a benchmark and joined benchmarks part by part."""
    said = f"{value:g}" if isinstance(value, float) else str("" if value is None else value)
    for mark in ("+", "/"):
        if mark in said:
            return mark.join(shown(part) for part in said.split(mark))
    return TITLES.get(said, said)
