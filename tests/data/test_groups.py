"""The column of groups: read, checked, kept by every operation, written and read back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from realm import Annotations, RealmError
from realm.data.orders import join_orders
from realm.data.write import write_table

ROWS = [
    ("a", "gpt", "yes", "model"),
    ("a", "ann", "no", "person"),
    ("b", "gpt", "no", "model"),
    ("b", "llama", "no", "model"),
    ("c", "ann", "yes", "person"),
]


def frame(rows: list[tuple[str, ...]] = ROWS) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["text", "annotator", "label", "kind"])


def table() -> Annotations:
    return Annotations.from_pandas(frame(), group="kind")


def groups_of(annotations: Annotations) -> dict[str, str]:
    assert annotations.groups is not None
    return dict(zip(annotations.annotators, annotations.groups, strict=True))


def test_each_annotator_has_the_group_of_its_rows() -> None:
    assert groups_of(table()) == {"gpt": "model", "ann": "person", "llama": "model"}
    assert table().group_names == ("model", "person") and table().annotator_groups.tolist() == [0, 1, 0]
    assert table().describe()["groups"] == {"model": 2, "person": 1}
    none = Annotations.from_pandas(frame())
    assert "groups" not in none.describe()
    assert none.groups is None and none.annotator_groups.tolist() == [0, 0, 0]


def test_two_groups_of_one_annotator_are_an_error_that_names_both_rows() -> None:
    rows = [*ROWS, ("d", "gpt", "no", "person")]
    with pytest.raises(RealmError, match=r"rows 1 and 6: the annotator 'gpt' is in the group 'model' and in 'person'"):
        Annotations.from_pandas(frame(rows), group="kind")


def test_a_row_without_a_group_is_an_error_that_names_it() -> None:
    rows = [*ROWS, ("d", "gpt", "no", " ")]
    with pytest.raises(RealmError, match="row 6: no group in column 'kind'"):
        Annotations.from_pandas(frame(rows), group="kind")


def test_operations_keep_groups_with_their_annotators() -> None:
    whole = table()
    assert groups_of(whole.select(annotators=["ann", "llama"])) == {"ann": "person", "llama": "model"}
    assert groups_of(whole.take_items(np.array([1]))) == groups_of(whole)  # every annotator stays listed
    assert groups_of(whole.take_items(np.array([1])).compact()) == {"gpt": "model", "llama": "model"}
    for part in whole.split(0.4):
        assert groups_of(part) == groups_of(whole)
    assert groups_of(whole.without_gold()) == groups_of(whole)


@pytest.mark.parametrize("name", ["table.csv", "table.parquet"])
def test_a_table_that_is_written_is_read_back_with_its_groups(name: str, tmp_path: Path) -> None:
    write_table(table(), tmp_path / name)
    back = Annotations.read(tmp_path / name)
    assert groups_of(back) == groups_of(table()) and back.fingerprint() == table().fingerprint()
    assert groups_of(Annotations.from_pandas(table().to_pandas())) == groups_of(table())
    assert "annotator_group" not in replace(table(), groups=None).to_pandas()


def test_a_judge_in_two_orders_is_in_one_group() -> None:
    rows = [("a", "gpt", "yes", "model"), ("a", "gpt swapped", "yes", "model"), ("a", "ann", "no", "person")]
    joined, _ = join_orders(Annotations.from_pandas(frame(rows), group="kind"), " swapped")
    assert groups_of(joined) == {"gpt": "model", "ann": "person"}
