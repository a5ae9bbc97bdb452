"""Label sets as they are typed: what is joined is split again into the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realm.data.label_sets import join_list, split_list


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("neg,pos", ["neg", "pos"]),
        (" neg , pos ", ["neg", "pos"]),
        ('"yes, sir", no', ["yes, sir", "no"]),
        ('"say ""hi""",5" disk', ['say "hi"', '5" disk']),
        ('" kept ",x', [" kept ", "x"]),
        ("neg,pos,", ["neg", "pos", ""]),
        ("", [""]),
        ('"not closed,x', ['"not closed', "x"]),
    ],
)
def test_what_is_typed(text: str, names: list[str]) -> None:
    assert split_list(text) == names


@given(st.lists(st.text(alphabet=st.sampled_from("ab ,\"\n'\t"), max_size=6), min_size=1))
def test_joined_and_split_again(names: list[str]) -> None:
    assert split_list(join_list(names)) == names
