"""Label sets as they are typed: what is joined is split again into the same."""

from __future__ import annotations

import pytest

from realm.data.label_sets import join_list, split_list


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (" neg , pos ", ["neg", "pos"]),
        ('"yes, sir", no', ["yes, sir", "no"]),
        ('"say ""hi""",5" disk', ['say "hi"', '5" disk']),
        ("neg,pos,", ["neg", "pos", ""]),
    ],
)
def test_what_is_typed(text: str, names: list[str]) -> None:
    assert split_list(text) == names and split_list(join_list(names)) == names
