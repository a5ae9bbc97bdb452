"""The types of machine files: what fits is taken, what does not is named with its file and place."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from realm.errors import RealmError
from realm.schema import check_arrays, parse

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
    assert parse(FILE, GOOD, Content) == Content("n", 3, "a", Style(True), [{"loss": 2}])
    full = parse(FILE, {**GOOD, "share": 1, "labels": ["x", "y"], "unknown": object()}, Content)
    assert (full.share, full.labels) == (1, ("x", "y"))
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
        ({"rows": [{1: 1}]}, "`rows.0` is 1, not text"),
        ({"labels": ["x", 1]}, "`labels.1` is 1, not text"),
        ({"style": {}}, "`style` lacks `answers`"),
        ({"style": {"answers": "yes"}}, "`style.answers` is 'yes', not true or false"),
        ({"style": []}, "`style` is a list, not an object"),
        ({"name": ["x" * 10**6]}, "`name` is a list, not text"),
        ({"size": "x" * 10**6}, "not a whole number"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(RealmError) as error:
        parse(FILE, {**GOOD, **change}, Content)
    assert str(error.value).startswith("run/x.json: ") and message in str(error.value)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("document", [None, [], "text", 1.5])
def test_a_document_that_is_something_else(document: Any) -> None:
    with pytest.raises(RealmError, match=r"run/x\.json: it is .*, not an object"):
        parse(FILE, document, Content)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"p": np.zeros((2, 4))}, r"has the shape \(2, 4\), not \(items 2, options 3\)"),
        ({"p": np.zeros(2)}, r"has the shape \(2,\)"),
        ({"p": np.zeros((2, 3), np.int64)}, "holds int64, not float"),
        ({"n": np.zeros(5, np.int64)}, r"has the shape \(5,\), not \(steps 4\)"),
        ({"on": np.zeros(4)}, "holds float64, not bool"),
    ],
)
def test_arrays(change: dict[str, Any], message: str) -> None:
    wanted = {"p": ("float", "items", "options"), "on": ("bool", "steps"), "n": ("int", "steps")}
    good = {"p": np.zeros((2, 3)), "on": np.zeros(4, bool), "n": np.zeros(4, np.int64)}
    sizes = {"items": 2, "options": 3}
    check_arrays(FILE, good, wanted, sizes)
    with pytest.raises(RealmError, match=message):
        check_arrays(FILE, good | change, wanted, sizes)
    with pytest.raises(RealmError, match="lacks the array `p`"):
        check_arrays(FILE, {}, wanted, sizes)
