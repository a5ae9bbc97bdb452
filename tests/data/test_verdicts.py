"""Verdicts that are not labels yet: scores under a threshold, ties and refusals, JSON Lines with rationales."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from realm.data import Annotations
from realm.errors import RealmError


def verdicts(labels: list[Any], **columns: Any) -> pd.DataFrame:
    n = len(labels)
    texts, judges = [f"t{i // 2}" for i in range(n)], [f"judge {i % 2}" for i in range(n)]
    return pd.DataFrame({"text": texts, "annotator": judges, "label": labels, **columns})


# ---------------------------------------------------------------- scores


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("as_text", [False, True])
def test_scores_fall_on_either_side_of_the_threshold(seed: int, as_text: bool) -> None:
    scores = np.random.default_rng(seed).integers(0, 11, size=40) / 10
    scores[:2] = 0.1, 0.9
    labels: list[Any] = [f"{score:.1f}" for score in scores] if as_text else scores.tolist()
    table = Annotations.from_pandas(verdicts(labels), threshold=0.5)
    assert table.tasks[0].labels == ("below 0.5", "0.5 or more")
    assert table.label.tolist() == (scores >= 0.5).astype(int).tolist()
    assert table.ledger.counts == {}


def test_the_two_options_are_called_as_labels_say() -> None:
    table = Annotations.from_pandas(verdicts([1, 5, 3, 2]), threshold=3, labels=["fine", "toxic"])
    assert table.tasks[0].labels == ("fine", "toxic") and table.label.tolist() == [0, 1, 1, 0]
    with pytest.raises(RealmError, match="makes two options, and the labels are a,b,c"):
        Annotations.from_pandas(verdicts([1, 5]), threshold=3, labels=["a", "b", "c"])


def test_gold_is_cut_too_unless_it_is_in_the_words_of_the_options() -> None:
    scores = verdicts([1, 5, 3, 2], gold=[4, 4, None, None])
    assert Annotations.from_pandas(scores, threshold=3, labels=["no", "yes"]).gold.tolist() == [1, -1]  # type: ignore[union-attr]
    words = verdicts([1, 5, 3, 2], gold=["no", "no", "yes", "yes"])
    assert Annotations.from_pandas(words, threshold=3, labels=["no", "yes"]).gold.tolist() == [0, 1]  # type: ignore[union-attr]
    # the labels 0 and 1 are words, too
    zero_one = Annotations.from_pandas(verdicts([1, 5, 3, 2], gold=[1, 1, 0, 0]), threshold=3, labels=["0", "1"])
    assert zero_one.gold.tolist() == [1, 0] and not zero_one.ledger.warnings  # type: ignore[union-attr]
    other_scale = Annotations.from_pandas(verdicts([1, 5, 3, 2], gold=[1, 1, 0, 0]), threshold=3)
    assert any("all gold is 'below 3'" in warning for warning in other_scale.ledger.warnings)


def test_what_is_no_score_is_an_error_that_names_the_row() -> None:
    with pytest.raises(RealmError, match=r"row 3: the label 'refused' is no number, and `threshold=0.5`.*`unanswered`"):
        Annotations.from_pandas(verdicts([0.1, 0.9, "refused", 0.2]), threshold=0.5)
    assert (
        Annotations.from_pandas(
            verdicts([0.1, 0.9, "Refused.", 0.2]), threshold=0.5, unanswered=["refused"]
        ).n_annotations
        == 3
    )
    with pytest.raises(RealmError, match="`threshold=nan`"):
        Annotations.from_pandas(verdicts([0.1, 0.9]), threshold=float("nan"))
    options = verdicts(["0", "1"], options=[["a", "b"]] * 2)
    with pytest.raises(RealmError, match="not for items that list their own options"):
        Annotations.from_pandas(options, threshold=0.5)


# ---------------------------------------------------------------- ties and refusals


def test_ties_and_refusals_are_counted_and_are_no_labels() -> None:
    table = Annotations.from_pandas(
        verdicts(["A", "Tie", "B", "refused", "A", "tie ", "B", "A"]), unanswered=["tie", "Refused"]
    )
    assert table.tasks[0].labels == ("A", "B") and table.n_annotations == 5
    assert table.ledger.counts == {"no answer: tie": 2, "no answer: refused": 1}
    assert table.ledger.rows == {"no answer: tie": [2, 6], "no answer: refused": [4]}


def test_gold_that_is_a_tie_is_no_gold() -> None:
    table = Annotations.from_pandas(verdicts(["A", "B", "A", "B"], gold=["tie", "tie", "A", "A"]), unanswered=["tie"])
    assert table.gold is not None and table.gold.tolist() == [-1, 0]
    assert table.ledger.counts == {"no answer in gold: tie": 2}


def test_labels_that_look_like_refusals_are_warned_of_with_the_flag_to_give() -> None:
    labels = ["A", "B"] * 10 + ["Refused", "N/A"]
    (warning,) = Annotations.from_pandas(verdicts(labels)).ledger.warnings
    assert "'Refused' (1), 'N/A' (1)" in warning
    assert warning.endswith('leave them out with `unanswered="Refused,N/A"`.')
    assert not Annotations.from_pandas(verdicts(labels), unanswered=["refused", "n/a"]).ledger.warnings
    assert not Annotations.from_pandas(
        verdicts(labels), labels=["A", "B", "Refused", "N/A"]
    ).ledger.warnings  # meant as labels
    assert not Annotations.from_pandas(
        verdicts(["error", "fine"] * 5)
    ).ledger.warnings  # one of two labels, and frequent
    assert not Annotations.from_pandas(verdicts(["A", "B", "tie"] * 4)).ledger.warnings  # a tie may well be an answer


# ---------------------------------------------------------------- JSON Lines
