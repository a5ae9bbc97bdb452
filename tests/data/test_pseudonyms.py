"""Annotators without their names."""

from __future__ import annotations

import stat
from pathlib import Path

import pandas as pd
import pytest

from realm.data import Annotations
from realm.data.pseudonyms import pseudonymise, read_key
from realm.errors import RealmError

TABLE = Annotations.from_pandas(
    pd.DataFrame({"text": ["a", "b"], "annotator": ["ann@example.org", "bob"], "label": ["x", "y"]})
)


def test_hashes_depend_on_name_and_key_alone() -> None:
    one, again = (pseudonymise(TABLE, b"k" * 32).annotators for _ in range(2))
    other = pseudonymise(TABLE, b"l" * 32).annotators
    assert one == again
    assert set(one).isdisjoint(other)
    assert len(set(one)) == 2
    assert not any("ann" in name or "bob" in name for name in one)


def test_everything_else_stays() -> None:
    hashed = pseudonymise(TABLE, b"k" * 32)
    assert hashed.label.tolist() == TABLE.label.tolist()
    assert hashed.annotator.tolist() == TABLE.annotator.tolist()


def test_a_key_file_is_made_once_and_readable_by_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "key"
    key = read_key(path)
    assert read_key(path) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_key(None) != read_key(None)


def test_bad_keys(tmp_path: Path) -> None:
    (tmp_path / "short").write_text("secret\n")
    with pytest.raises(RealmError, match="16 bytes or more is needed; this one has 6"):
        read_key(tmp_path / "short")
    with pytest.raises(RealmError, match="`key_file="):
        read_key(tmp_path / "no" / "such" / "folder")
