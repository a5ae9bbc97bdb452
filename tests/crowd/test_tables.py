from __future__ import annotations

import numpy as np
import pytest

from realm.crowd.estimate import estimate
from realm.crowd.tables import expertise_table, labels_table

from .crowds import simulate, table


def test_table_columns_order_and_agreement():
    crowd = simulate(1, annotators=np.array([0.6, 0.95, 0.8]), labels_each=200, per_item=3)
    found = estimate(crowd.annotations, np.exp(crowd.log_probs))
    frame = expertise_table(crowd.annotations, found)
    assert frame.columns.tolist() == [
        *["annotator", "task", "expertise", "accuracy", "low", "high", "annotations", "agreement", "verdict"],
        *["habit", "notes", "scale"],
    ]
    assert frame["annotator"].tolist() == ["a1", "a2", "a0"]
    mine = crowd.annotations.annotator == 1
    best = found.posterior.argmax(axis=1)[crowd.annotations.item[mine]]
    assert frame["agreement"][0] == pytest.approx(np.mean(best == crowd.annotations.label[mine]))
    assert (frame["scale"] == "absolute").all()


def test_tables_say_whose_probabilities_judged_them():
    crowd = simulate(0)
    found = estimate(crowd.annotations, np.exp(crowd.log_probs))
    for frame in (
        expertise_table(crowd.annotations, found, probabilities="in-sample"),
        labels_table(crowd.annotations, found.posterior, "in-sample"),
    ):
        assert (frame["probabilities"] == "in-sample").all()
    assert "probabilities" not in expertise_table(crowd.annotations, found)


def test_labels_table_says_label_runner_up_votes_and_whether_the_majority_disagrees():
    made = table(
        [0, 0, 0, 1, 1, 2, 2, 2],
        [0, 1, 2, 0, 1, 0, 1, 2],
        [2, 2, 0, 1, 0, 1, 1, 0],
        n_items=4,
        n_annotators=3,
        options=[3, 2, 2, 4],
    )
    shares = np.array([[0.1, 0.2, 0.7, 0], [0.4, 0.6, 0, 0], [0.9, 0.1, 0, 0], [0.1, 0.2, 0.3, 0.4]])
    frame = labels_table(made, shares)
    assert frame["label"].tolist() == ["c2", "c1", "c0", "c3"]
    assert frame["runner_up"].tolist() == ["c1", "c0", "c1", "c2"]
    assert frame["labels_given"].tolist() == ["c2 2, c0 1", "c0 1, c1 1", "c1 2, c0 1", ""]
    assert frame["annotations"].tolist() == [3, 2, 3, 0]
    assert frame["majority_disagrees"].tolist() == [False, False, True, False], "a tie is no disagreement"
    np.testing.assert_allclose(frame["confidence"], [0.7, 0.6, 0.9, 0.4])
    assert frame["item"].tolist() == ["i0", "i1", "i2", "i3"]
