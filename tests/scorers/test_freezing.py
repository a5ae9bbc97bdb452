"""A scorer that is frozen once serves many trainings, and a row of tokens is computed once per process."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import set_seed

from realm.errors import RealmError
from realm.scorers import Scorer, frozen_cache, load_scorer
from realm.scorers.frozen_cache import FrozenLayersCache
from tests.tiny import crowd

ITEMS = crowd(12).items


@pytest.fixture(autouse=True)
def no_states():
    frozen_cache.forget()
    yield
    frozen_cache.forget()


def loaded(path: str, train_layers: int | str, seed: int = 0) -> Scorer:
    set_seed(seed)
    scorer = load_scorer(path, ITEMS)
    scorer.freeze_below(train_layers)
    return scorer


def test_freezing_again_is_nothing_and_otherwise_is_refused(tiny_model) -> None:
    scorer = loaded(tiny_model("bert"), 1)
    layers = scorer.frozen_layers
    scorer.freeze_below(1)
    assert scorer.frozen_layers is layers
    with pytest.raises(RealmError, match=r"`train_layers=head`: the model is frozen for `train_layers=1`"):
        scorer.freeze_below("head")


def counted(scorer: Scorer, monkeypatch) -> list[int]:
    """How many rows of each batch go through the frozen layers from now on."""
    rows, run = [], scorer.frozen_states
    monkeypatch.setattr(scorer, "frozen_states", lambda batch: (rows.append(len(batch["input_ids"])), run(batch))[1])
    return rows


@pytest.mark.parametrize("train_layers", [1, "head"])
def test_a_text_is_computed_once_in_whichever_tables_it_is(train_layers, tiny_model, monkeypatch) -> None:
    scorer = loaded(tiny_model("bert"), train_layers)
    rows = counted(scorer, monkeypatch)
    first, second = ITEMS.take(np.arange(8)), ITEMS.take(np.array([3, 9, 1, 10, 9]))
    for items, new in ((first, 8), (second, 2), (first, 0)):
        del rows[:]
        cache = FrozenLayersCache(scorer, scorer.encode(items), 1.0)
        assert sum(rows) == new
    again = FrozenLayersCache(loaded(tiny_model("bert"), train_layers), scorer.encode(second), 1.0)
    assert again.states is cache.states and again.size > 0
    batch = again.collate(np.arange(5))
    expected = scorer.frozen_states(scorer.collate(scorer.encode(second), np.arange(5)))
    if train_layers == 1:
        expected = expected * batch["attention_mask"][:, :, None]
    torch.testing.assert_close(batch["frozen_states"], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("other", [{"train_layers": 2}, {"kind": "mpnet"}])
def test_other_frozen_layers_have_other_states(other, tiny_model) -> None:
    caches = []
    for how in ({}, other):
        scorer = loaded(tiny_model(how.get("kind", "bert")), how.get("train_layers", 1))
        caches.append(FrozenLayersCache(scorer, scorer.encode(ITEMS), 1.0))
    assert caches[0].states is not caches[1].states


def test_a_table_that_does_not_fit_is_computed_each_time(tiny_model) -> None:
    scorer = loaded(tiny_model("bert"), 1)
    train, test = (scorer.encode(ITEMS.take(part)) for part in (np.arange(8), np.arange(8, 12)))
    needed = [FrozenLayersCache(scorer, each, 1.0).size for each in (train, test)]
    frozen_cache.forget()
    limit = (needed[0] - 1) / 1e9
    first, second = (FrozenLayersCache(scorer, each, limit) for each in (train, test))
    assert first.size == 0 and second.size == needed[1]
    expected = scorer.frozen_states(scorer.collate(train, np.arange(4)))
    mask = scorer.collate(train, np.arange(4))["attention_mask"].bool()
    torch.testing.assert_close(first.collate(np.arange(4))["frozen_states"][mask], expected[mask])


def test_states_of_an_earlier_table_make_room(tiny_model) -> None:
    scorer = loaded(tiny_model("bert"), 1)
    train, test = (scorer.encode(ITEMS.take(part)) for part in (np.arange(8), np.arange(8, 12)))
    first = FrozenLayersCache(scorer, train, 1.0)
    second = FrozenLayersCache(scorer, test, (first.size + 1) / 1e9)
    assert second.size > 0 and second.states is not first.states
    states = scorer.frozen_states(scorer.collate(train, np.arange(4)))
    mask = scorer.collate(train, np.arange(4))["attention_mask"].bool()
    torch.testing.assert_close(first.collate(np.arange(4))["frozen_states"][mask], states[mask])


def test_nothing_is_left_on_the_disk(tiny_model, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("REALM_HOME", str(tmp_path / "home"))
    scorer = loaded(tiny_model("bert"), 1)
    assert FrozenLayersCache(scorer, scorer.encode(ITEMS), 1.0).size > 0
    assert list((tmp_path / "home").iterdir()) == []
