"""How much an annotation counts: a column of numbers above 0, which follows its annotation everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st

from realm.data import Annotations
from realm.data.write import write_table
from realm.errors import RealmError

WEIGHTS = st.floats(min_value=0, exclude_min=True, allow_nan=False, allow_infinity=False)


def rows(**columns: Any) -> pd.DataFrame:
    table = {"item": ["1", "1", "2", "3"], "text": list("aabc"), "annotator": list("vwvw"), "label": list("xyxy")}
    return pd.DataFrame({**table, "weight": [0.5, 2.0, 1.0, 0.25], **columns})


def by_pair(table: Annotations) -> dict[tuple[str, str], float]:
    assert table.weight is not None
    ids, names = table.items.ids.to_pylist(), table.annotators
    return {
        (ids[i], names[a]): w for i, a, w in zip(table.item, table.annotator, table.weight, strict=True)
    }  # fmt: skip


EXPECTED = {("1", "v"): 0.5, ("1", "w"): 2.0, ("2", "v"): 1.0, ("3", "w"): 0.25}


def test_weights_follow_their_annotations() -> None:
    table = Annotations.from_pandas(rows())
    assert table.weight is not None and table.weight.dtype == np.float64
    assert by_pair(table) == EXPECTED
    assert by_pair(Annotations.from_pandas(rows().iloc[[3, 1, 2, 0]])) == EXPECTED
    assert by_pair(Annotations.from_pandas(rows().rename(columns={"weight": "sure"}), weight="sure")) == EXPECTED
    assert by_pair(table.take_items(np.array([2, 0]))) == {k: w for k, w in EXPECTED.items() if k[0] != "2"}
    assert by_pair(table.keep_annotations(table.annotator == 1).compact()) == {("1", "w"): 2.0, ("3", "w"): 0.25}
    assert by_pair(table.select(annotators=["v"])) == {("1", "v"): 0.5, ("2", "v"): 1.0}
    assert by_pair(table.sparse(0)).items() <= EXPECTED.items()
    for half in table.split(0.4, seed=1):
        assert by_pair(half).items() <= EXPECTED.items()
    assert table.to_pandas()["weight"].tolist() == [0.5, 2.0, 1.0, 0.25]


@pytest.mark.parametrize("wrong", [0, -1.5, "heavy", np.inf])
def test_a_weight_must_be_a_number_above_0(wrong: Any) -> None:
    frame = rows(weight=[1, 1, wrong, 1]).astype({"weight": object}).rename(columns={"weight": "sure"})
    with pytest.raises(RealmError, match=rf"t\.csv, row 3: the weight in column 'sure' is '{wrong}', and must"):
        Annotations.from_pandas(frame, weight="sure", source="t.csv")


@pytest.mark.parametrize("absent", [None, "nan"])
def test_every_annotation_needs_its_weight(absent: Any) -> None:
    with pytest.raises(RealmError, match=r"t\.csv, row 2: the weight in column 'weight' is "):
        Annotations.from_pandas(rows(weight=[1, absent, 1, 1]), source="t.csv")


def test_an_item_without_annotations_needs_no_weight(tmp_path: Path) -> None:
    frame = rows(annotator=["v", "w", None, "w"], label=["x", "y", None, "y"], weight=[1, 2, None, 3])
    table = Annotations.from_pandas(frame)
    assert by_pair(table) == {("1", "v"): 1.0, ("1", "w"): 2.0, ("3", "w"): 3.0} and table.n_items == 3
    write_table(table, tmp_path / "t.csv")
    assert by_pair(Annotations.read(tmp_path / "t.csv")) == by_pair(table)
