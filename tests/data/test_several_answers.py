"""Several answers in one cell are recognised and refused or resolved; labels with a separator in them stay labels."""

from __future__ import annotations

import random
from typing import Any

import pytest

from realm.data import Annotations
from realm.data.answers import SEVERAL_DROPPED, SEVERAL_FIRST, SEVERAL_GOLD
from realm.errors import RealmError


def read(cells: list[Any], **arguments: Any) -> Annotations:
    records = [{"text": f"t{n // 2}", "annotator": "vw"[n % 2], "label": cell} for n, cell in enumerate(cells)]
    return Annotations.from_list(records, **arguments)


def given(table: Annotations) -> list[str]:
    return [
        table.label_name(item, label) for item, label in zip(table.item.tolist(), table.label.tolist(), strict=True)
    ]


JOINED = ["A|B", "A | B", "A;B", "A; B", "A,B", "A, B", "A\nB", '["A", "B"]', "['A', 'B']", "['A' 'B']", ["A", "B"]]


@pytest.mark.parametrize("cell", JOINED, ids=repr)
def test_several_answers_are_refused_with_what_to_do(cell: Any) -> None:
    alone = [["A"], ["B"]] if isinstance(cell, list) else ["A", "B"]
    with pytest.raises(RealmError, match=r'row 3: .*several answers.*`multi="first"`.*`multi="drop"`'):
        read([*alone, cell, alone[0]])
    first = read([*alone, cell, alone[0]], multi="first")
    assert given(first) == ["A", "B", "A", "A"] and first.ledger.rows == {SEVERAL_FIRST: [3]}
    dropped = read([*alone, cell, alone[0]], multi="drop")
    assert given(dropped) == ["A", "B", "A"] and dropped.ledger.rows == {SEVERAL_DROPPED: [3]}


@pytest.mark.parametrize(
    "labels",
    [
        ["yes, always", "no", "yes, sometimes", "no"],
        ["yes", "no", "yes, always", "no, never"],
        ["A|B", "C|D", "A|B", "C|D"],
        ["a/b", "a", "b", "a/b"],
        ["[18, 25]", "[26, 40]", "[18, 25]"],
        ["[x]", "[y]", "[1]", "2"],
        ["R&D", "sales; other", "R&D", "sales"],
        ["one;", "two", "one;", "two"],
        ["negative,", "positive", "negative,", "neutral"],
    ],
    ids=repr,
)
def test_labels_with_a_separator_stay_labels(labels: list[str]) -> None:
    table = read(labels)
    assert given(table) == labels and not table.ledger.counts and not table.ledger.warnings


def test_a_label_that_is_listed_is_one() -> None:
    assert given(read(["A", "B", "A|B"], labels=["A", "B", "A|B"])) == ["A", "B", "A|B"]
    assert given(read(["A", "B", "A|B"], map_labels={"A|B": "both"})) == ["A", "B", "both"]


def test_one_answer_in_a_list_is_that_answer() -> None:
    assert given(read(['["A"]', "['B']", '["A"]'])) == ["A", "B", "A"]
    with pytest.raises(RealmError, match="no label"):
        read(['["A"]', "[]", '["B"]'])
    assert given(read(['["A"]', "[]", '["B"]'], missing="drop")) == ["A", "B"]


def test_an_export_that_lists_answers_has_no_joined_ones() -> None:
    def task(number: int, choice: str) -> dict[str, Any]:
        result = [{"from_name": "mood", "to_name": "text", "type": "choices", "value": {"choices": [choice]}}]
        return {"id": number, "data": {"text": f"t{number}"}, "annotations": [{"completed_by": 1, "result": result}]}

    tasks = [task(number, choice) for number, choice in enumerate(["yes", "no", "yes, no"])]
    assert given(Annotations.from_list(tasks)) == ["yes", "no", "yes, no"]
    header = ["HITId", "WorkerId", "AssignmentStatus", "Input.text", "Answer.topic"]
    rows = [("h", f"w{n}", "Approved", "t", answer) for n, answer in enumerate(["food", "staff", "food|staff"])]
    records = [dict(zip(header, row, strict=True)) for row in rows]
    with pytest.raises(RealmError, match="several answers"):
        Annotations.from_list(records)
    assert given(Annotations.from_list(records, multi="first")) == ["food", "staff", "food"]


def test_gold_of_several_answers_is_none() -> None:
    records = [
        {"text": t, "annotator": who, "label": label, "gold": gold}
        for t, who, label, gold in [
            ("a", "v", "A", "A"),
            ("b", "v", "B", "B|C"),
            ("c", "v", "A|B", "A|B"),
            ("d", "v", "B", ""),
        ]
    ]
    table = Annotations.from_list(records, multi="first")
    assert table.gold.tolist() == [0, -1, -1, -1] and table.ledger.counts[SEVERAL_GOLD] == 2


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("separator", ["|", ";", ", ", "\n"])
def test_drawn_tables(seed: int, separator: str) -> None:
    """Cells are drawn from subsets of a label set; read back, each is its first label."""
    draw = random.Random(seed)
    names = ["good", "bad", "so so", "1", "n/a?"]
    cells = [draw.sample(names, draw.choice([1, 1, 2, 3])) for _ in range(60)] + [[name] for name in names]
    n_several = sum(len(cell) > 1 for cell in cells)
    labels = [separator.join(cell) for cell in cells]
    table = read(labels, multi="first")
    assert given(table) == [cell[0] for cell in cells] and table.ledger.counts == {SEVERAL_FIRST: n_several}
