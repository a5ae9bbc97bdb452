"""Annotators without their names."""

from __future__ import annotations

import pandas as pd

from realm.data import Annotations
from realm.data.pseudonyms import pseudonymise

TABLE = Annotations.from_pandas(
    pd.DataFrame({"text": ["a", "b"], "annotator": ["ann@example.org", "bob"], "label": ["x", "y"]})
)


def test_hashes_depend_on_name_and_key_alone_and_everything_else_stays() -> None:
    one, again = (pseudonymise(TABLE, b"k" * 32) for _ in range(2))
    assert one.annotators == again.annotators and len(set(one.annotators)) == 2
    others = {name for key in (b"l" * 32, None, None) for name in pseudonymise(TABLE, key).annotators}
    assert len(others) == 6 and others.isdisjoint(one.annotators)
    assert not any("ann" in name or "bob" in name for name in one.annotators)
    assert one.label.tolist() == TABLE.label.tolist() and one.annotator.tolist() == TABLE.annotator.tolist()
