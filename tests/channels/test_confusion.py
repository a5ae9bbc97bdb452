"""The channel in closed form: what the one model of annotators has learned, looked up label by label."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from realm.channels import ConfusionChannel, ItemScores, Observed
from realm.crowd.model import AnnotatorModel
from realm.data import Annotations
from tests.tiny import crowd


def scores_of(table: Annotations, accuracy: float = 0.8) -> ItemScores:
    """log P of a model that gives the true label this probability."""
    width = int(table.option_counts.max())
    log_probs = np.full((table.n_items, width), -np.inf)
    for item, count in enumerate(table.option_counts):
        log_probs[item, :count] = np.log((1 - accuracy) / max(count - 1, 1))
    if table.gold is not None:
        log_probs[np.arange(table.n_items), table.gold] = np.log(accuracy)
    counts = torch.from_numpy(table.option_counts.astype(np.int64))
    return ItemScores(torch.from_numpy(log_probs), counts, index=torch.arange(table.n_items))


def own_options() -> Annotations:
    """Items with two and with three options of their own, by two annotators."""
    rows = []
    for item in range(40):
        options = ["u", "v"] if item % 2 else ["p", "q", "r"]
        for who in ("x", "y"):
            label = options[(item * (3 if who == "x" else 5)) % len(options)]
            rows.append({"text": f"t{item}", "annotator": who, "label": label, "options": options})
    return Annotations.from_pandas(pd.DataFrame(rows))


@pytest.mark.parametrize("table", [crowd(60, (0.95, 0.6, 0.3), tasks=2), own_options()], ids=["tasks", "own options"])
def test_evidence_weights_and_offset_are_those_of_the_model_of_annotators(table) -> None:
    channel, scores, observed = ConfusionChannel(table), scores_of(table), Observed.of(table)
    channel.fit(scores, table)
    model = AnnotatorModel(table).fit(scores.log_probs.numpy(), waits=True)  # as before training
    inside = np.arange(model.width) < table.option_counts[table.item][:, None]
    found = channel(scores, observed).numpy()
    np.testing.assert_allclose(found[inside], model.evidence()[inside], atol=1e-5)
    assert list(channel.parameters()) == [] and channel.cell_evidence.shape[1] == model.width
    np.testing.assert_allclose(
        channel.evidence_exponent(observed), model.exponent[table.item_tasks[table.item]], atol=1e-6
    )
    np.testing.assert_allclose(channel.summary()["accuracy_trained"], model.summary()["accuracy_trained"])


def test_labels_sum_to_one_and_a_label_never_given_before_has_evidence_too() -> None:
    table = crowd(60, (0.95, 0.6, 0.3))
    rare = table.keep_annotations(~((table.annotator == 2) & (table.label == 3)))
    channel = ConfusionChannel(rare)
    channel.fit(scores_of(rare), rare)
    zeros = torch.zeros(4, dtype=torch.long)
    scores = ItemScores(torch.zeros(1, 4), torch.tensor([4]))
    for annotator in range(3):
        every = Observed(zeros, zeros + annotator, zeros, torch.arange(4), torch.ones(4))
        evidence = channel(scores, every)
        assert bool(evidence.isfinite().all())
        np.testing.assert_allclose(evidence.exp().sum(dim=0), 1.0, atol=1e-4)


def test_the_state_goes_into_another_channel_of_the_table_and_no_other() -> None:
    table = crowd(60, (0.95, 0.6, 0.3))
    one, other, scores = ConfusionChannel(table), ConfusionChannel(table), scores_of(table)
    one.fit(scores, table)
    other.load_state(one.state())
    torch.testing.assert_close(one(scores, Observed.of(table)), other(scores, Observed.of(table)), rtol=0, atol=0)
    one.update(scores, table)
    assert not torch.equal(one.cell_evidence, other.cell_evidence)
    smaller = crowd(10, (0.95, 0.6))
    with pytest.raises(Exception, match="another table"):
        ConfusionChannel(smaller).load_state(one.state())
