"""The schema of machine files: what fits is taken, what does not is named with its file and place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from realm.errors import RealmError
from realm.schema import PLAIN, Array, Number, OneOf, Only, Whole, check, check_arrays

FILE = Path("run/x.json")
SCHEMA = {
    "name": str,
    "size": Whole(1, 9),
    "share?": (Number(0, 1), None),
    "kind": OneOf("a", "b"),
    "rows": [{"step": Whole(), str: Number()}],
    "style": Only({"answers": bool}),
}
GOOD: dict[str, Any] = {
    "name": "n", "size": 3, "share": 0.5, "kind": "a", "rows": [{"step": 1, "loss": 2}], "style": {"answers": True},
}  # fmt: skip


def test_what_fits_is_taken() -> None:
    check(FILE, GOOD, SCHEMA)
    check(FILE, {**GOOD, "share": None, "rows": [], "unknown": object()}, SCHEMA)
    check(FILE, {key: value for key, value in GOOD.items() if key != "share"}, SCHEMA)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": 3}, "`name` is 3, not text"),
        ({"name": "\ud800"}, "`name` holds a character that is none"),
        ({"size": 0}, "`size` is 0, which lies outside"),
        ({"size": 10}, "`size` is 10, which lies outside"),
        ({"size": True}, "`size` is True, not a whole number"),
        ({"size": 2.0}, "`size` is 2.0, not a whole number"),
        ({"size": 10**40}, "too large"),
        ({"share": float("nan")}, "`share` is nan, not a finite number"),
        ({"share": float("inf")}, "`share` is inf, not a finite number"),
        ({"share": "0.5"}, "`share` is '0.5', not a"),
        ({"kind": "c"}, "`kind` is 'c', not one of a, b"),
        ({"rows": {}}, "`rows` is an object, not a list"),
        ({"rows": [{"step": 1}, {"loss": 1}]}, "`rows.1` lacks `step`"),
        ({"rows": [{"step": 1, "loss": None}]}, "`rows.0.loss` is null, not a number"),
        ({"rows": [{"step": 1, "\udc00": 1}]}, "`rows.0` has the key"),
        ({"style": {"answers": True, "other": 1}}, "`style` has the unknown key 'other'"),
        ({"style": {"answers": "yes"}}, "`style.answers` is 'yes', not true or false"),
        ({"style": []}, "`style` is a list, not an object"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(RealmError) as error:
        check(FILE, {**GOOD, **change}, SCHEMA)
    assert str(error.value).startswith("run/x.json: ") and message in str(error.value)


def test_a_document_that_is_something_else() -> None:
    for document in (None, [], "text", 1.5):
        with pytest.raises(RealmError, match=r"run/x\.json: it is .*, not an object"):
            check(FILE, document, SCHEMA)
    with pytest.raises(RealmError, match=r"it lacks `name`"):
        check(FILE, {}, SCHEMA)


def test_messages_stay_short_whatever_the_file_holds() -> None:
    laughs: Any = ["lol"]
    for _ in range(60):
        laughs = [laughs] * 9
    for value in (laughs, "x" * 10**6, {"k" * 10**6: 1}, 10**4000):
        with pytest.raises(RealmError) as error:
            check(FILE, {"setting": value}, {"setting": (*PLAIN[1:], [PLAIN], {str: bool})})
        assert len(str(error.value)) < 400


def test_arrays() -> None:
    schema = {"p": Array("float", ("items", "options"), low=0, high=1), "n": Array("int", ("items",), low=0)}
    arrays: dict[str, Any] = {"p": np.full((2, 3), 0.5), "n": np.zeros(2, np.int64)}
    check_arrays(FILE, arrays, schema, {"items": 2})
    check_arrays(FILE, {**arrays, "p": np.full((2, 3), np.nan)}, {"p": Array("float", ("a", "b"), 0, 1, nan=True)}, {})
    for name, array, message in (
        ("p", np.full((2, 3), np.nan), "not a number"),
        ("p", np.full((2, 3), 1.5), "must lie between 0 and 1"),
        ("p", np.full((2, 3), -np.inf), "must lie between 0 and 1"),
        ("p", np.zeros((2, 3), np.int64), "holds int64, not float"),
        ("p", np.zeros((3, 2)), r"has the shape \(3, 2\), not \(items 2, options\)"),
        ("p", np.zeros(2), "has the shape"),
        ("n", np.zeros(3, np.int64), "has the shape"),
        ("n", np.array([0, -1]), "must lie between"),
        ("n", np.zeros(2), "holds float64, not int"),
    ):
        with pytest.raises(RealmError, match=message):
            check_arrays(FILE, {**arrays, name: array}, schema, {"items": 2})
    with pytest.raises(RealmError, match="lacks the array `n`"):
        check_arrays(FILE, {"p": arrays["p"]}, schema, {"items": 2})


def test_a_size_that_nobody_gave_is_one_size_wherever_it_stands() -> None:
    schema = {"a": Array("float", ("n",)), "b": Array("float", ("n",))}
    check_arrays(FILE, {"a": np.zeros(2), "b": np.ones(2)}, schema, {})
    with pytest.raises(RealmError, match="`b` has the shape"):
        check_arrays(FILE, {"a": np.zeros(2), "b": np.ones(3)}, schema, {})
