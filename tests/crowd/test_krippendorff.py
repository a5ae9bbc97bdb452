"""Krippendorff's alpha against published examples and a plain count."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realm.crowd.agreement import krippendorff_alpha


def units(*columns: str) -> tuple[np.ndarray, np.ndarray]:
    """One string per annotator, one character per item, . for none."""
    pairs = [(item, ord(mark)) for row in columns for item, mark in enumerate(row) if mark != "."]
    return np.array([item for item, _ in pairs]), np.array([label for _, label in pairs])


def test_two_annotators() -> None:
    # Krippendorff (2011), section A: two observers, ten units, two values.
    assert krippendorff_alpha(*units("0100000000", "1110010100")) == pytest.approx(0.095, abs=5e-4)


def test_four_annotators_with_gaps() -> None:
    # Krippendorff (2011), section C: four observers, twelve units, five values, some missing; nominal.
    rows = ("123321412...", "1233224125.3", ".3332342251.", "12332441251.")
    assert krippendorff_alpha(*units(*rows)) == pytest.approx(0.743, abs=5e-4)


def by_counting(item: np.ndarray, label: np.ndarray) -> float | None:
    """Alpha from its definition: every ordered pair of labels within an item, and over all."""
    values = {i: label[item == i] for i in np.unique(item)}
    values = {i: v for i, v in values.items() if len(v) > 1}
    flat = np.concatenate(list(values.values())) if values else np.array([])
    n = len(flat)
    observed = sum((v[:, None] != v[None, :]).sum() / (len(v) - 1) for v in values.values()) / max(n, 1)
    expected = (flat[:, None] != flat[None, :]).sum() / max(n * (n - 1), 1)
    return None if n == 0 or expected == 0 else 1 - observed / expected


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), max_size=40))
def test_against_the_definition(pairs: list[tuple[int, int]]) -> None:
    item, label = np.array([i for i, _ in pairs], dtype=int), np.array([k for _, k in pairs], dtype=int)
    expected = by_counting(item, label) if pairs else None
    found = krippendorff_alpha(item, label)
    assert (found is None) == (expected is None)
    if expected is not None:
        assert found == pytest.approx(expected)


def test_where_it_is_undefined() -> None:
    assert krippendorff_alpha(np.array([0, 1]), np.array([0, 1])) is None
    assert krippendorff_alpha(np.array([0, 0]), np.array([1, 1])) is None
