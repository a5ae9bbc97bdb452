"""The types of machine files: what fits is taken, what does not is named with its file and place."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from realm.errors import RealmError
from realm.schema import parse

FILE = Path("run/x.json")


@dataclass
class Style:
    answers: bool


@dataclass
class Content:
    name: str
    size: int
    kind: Literal["a", "b"]
    style: Style
    rows: list[dict[str, float]] = field(default_factory=list)
    labels: tuple[str, ...] | None = None
    share: float | None = None


GOOD: dict[str, Any] = {"name": "n", "size": 3, "kind": "a", "style": {"answers": True}, "rows": [{"loss": 2}]}


def test_what_fits_is_taken() -> None:
    full = {**GOOD, "share": 1, "labels": ["x", "y"], "unknown": object()}
    assert parse(FILE, GOOD, Content) is GOOD and parse(FILE, full, Content) is full
    assert parse(FILE, {"a": [1]}, dict[str, list[int]]) == {"a": [1]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": 3}, "`name` is 3, not text"),
        ({"size": True}, "`size` is True, not a whole number"),
        ({"size": 2.0}, "`size` is 2.0, not a whole number"),
        ({"share": float("nan")}, "`share` is nan, not a finite number"),
        ({"share": "0.5"}, "`share` is '0.5', not a"),
        ({"kind": "c"}, "`kind` is 'c', not one of a, b"),
        ({"rows": {}}, "`rows` is an object, not a list"),
        ({"rows": [{"loss": 1}, {"loss": None}]}, "`rows.1.loss` is null, not a number"),
        ({"rows": [{1: 1}]}, "`rows.0` has a key that is not text"),
        ({"labels": ["x", 1]}, "`labels.1` is 1, not text"),
        ({"style": {}}, "`style` lacks `answers`"),
        ({"style": {"answers": "yes"}}, "`style.answers` is 'yes', not true or false"),
        ({"style": []}, "`style` is a list, not an object"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(RealmError) as error:
        parse(FILE, {**GOOD, **change}, Content)
    assert str(error.value).startswith("run/x.json: ") and message in str(error.value)
    assert len(str(error.value)) < 300
