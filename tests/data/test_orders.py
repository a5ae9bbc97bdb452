"""A judge who was asked in two orders is one annotator."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
import pytest

from realm.data import Annotations
from realm.data.orders import SAME, TORN, join_orders
from realm.errors import RealmError


def table_of(rows: Iterable[tuple[str, str, str]], **arguments: object) -> Annotations:
    frame = pd.DataFrame(rows, columns=["text", "annotator", "label"])
    return Annotations.from_pandas(frame, labels=["1", "2"], **arguments)  # type: ignore[arg-type]


ROWS = [
    ("a", "gpt", "1"), ("a", "gpt swapped", "1"),  # the same
    ("b", "gpt", "1"), ("b", "gpt swapped", "2"),  # the first shown, both times
    ("c", "gpt", "2"), ("c", "gpt swapped", "1"),  # the second shown
    ("d", "gpt", "2"),  # asked once
    ("a", "llama swapped", "2"),  # asked once, in the other order
]  # fmt: skip


def test_two_orders_are_one_annotator() -> None:
    table, habits = join_orders(table_of(ROWS), " swapped")
    frame = table.to_pandas().dropna(subset="annotator")
    assert list(zip(frame["text"], frame["annotator"], frame["label"], strict=True)) == [
        ("a", "gpt", "1"),
        ("a", "llama", "2"),
        ("d", "gpt", "2"),
    ]
    assert table.annotators == ("gpt", "llama") and table.n_items == 4
    assert table.ledger.counts == {SAME: 1, TORN: 2}
    assert habits.asked_twice.tolist() == [3, 0]
    assert habits.torn.tolist() == [2, 0] and habits.first_shown.tolist() == [1, 0]


def test_it_is_an_argument_of_reading() -> None:
    joined, _ = join_orders(table_of(ROWS), " swapped")
    assert table_of(ROWS, order_suffix=" swapped").fingerprint() == joined.fingerprint()
    assert table_of(ROWS, order_suffix=" swapped", keep_rows=True).ledger.rows == {SAME: [2], TORN: [4, 6]}


@pytest.mark.parametrize("seed", range(10))
def test_brute_force(seed: int) -> None:
    draw = np.random.default_rng(seed)
    answers = {
        (f"t{item}", f"j{judge}", order): str(draw.integers(1, 3))
        for item in range(12)
        for judge in range(3)
        for order in ("", "/2")
        if draw.random() < 0.8
    }
    rows = [(text, judge + order, label) for (text, judge, order), label in answers.items()]
    draw.shuffle(rows)
    expected = set()
    for text, judge in {key[:2] for key in answers}:
        given = {answers[text, judge, order] for order in ("", "/2") if (text, judge, order) in answers}
        if len(given) == 1:
            expected.add((text, judge, given.pop()))
    frame = table_of([tuple(row) for row in rows], order_suffix="/2").to_pandas().dropna(subset="annotator")
    assert set(map(tuple, frame[["text", "annotator", "label"]].values)) == expected


def test_what_cannot_be_joined() -> None:
    with pytest.raises(RealmError, match=r'`order_suffix="/2"`: the name of no annotator ends so. There are: gpt'):
        join_orders(table_of(ROWS), "/2")
    with pytest.raises(RealmError, match="nothing is left"):
        join_orders(table_of(ROWS[2:6]), " swapped")
