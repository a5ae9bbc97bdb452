"""What training refuses, and what it says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from realm.data import Annotations
from realm.errors import RealmError
from realm.training import RealmConfig, RealmTrainer
from realm.training.batches import Collator, ItemGroup
from realm.training.labels import training_labels
from tests.tiny import crowd
from tests.trainers import config, trainer


@pytest.mark.parametrize("method", ["majority", "dawid-skene"])
def test_aggregation_of_single_labels_is_refused(method) -> None:
    with pytest.raises(RealmError, match="one"):
        training_labels(crowd(20, per_item=1), method)


def test_aggregation_says_what_share_has_one_label() -> None:
    table = crowd(20, per_item=2)
    keep = ~((table.annotator == 0) & (table.item < 10))
    assert any("%" in warning for warning in training_labels(table.keep_annotations(keep), "majority").warnings)


def test_oracle_needs_gold() -> None:
    with pytest.raises(RealmError, match="column: `gold`"):
        training_labels(crowd(5, gold=False), "oracle")


def test_a_single_annotator_is_a_warning() -> None:
    rows = [{"text": f"t{i}", "annotator": "w", "label": ["red", "blue"][i % 2]} for i in range(4)]
    notes = training_labels(Annotations.from_pandas(pd.DataFrame(rows)), "realm").warnings
    assert any("there is one annotator" in note for note in notes)


def test_several_gpus_without_a_launcher_are_refused(tiny_model, tmp_path, monkeypatch) -> None:
    chosen = config(tmp_path)
    monkeypatch.setattr(RealmConfig, "n_gpu", property(lambda self: 2))
    with pytest.raises(RealmError, match="torchrun"):
        RealmTrainer(tiny_model("bert"), crowd(5), chosen)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"method": "magic"}, "`method=magic`"),
        ({"batch_unit": "word"}, "`batch_unit=word`"),
        ({"expertise_optimizer": "sgd"}, "`expertise_optimizer=sgd`"),
        ({"lora_rank": 2, "train_layers": 1}, "cannot be combined"),
        ({"expertise_learning_rate": -1.0}, "`expertise_learning_rate` must be 0 or more"),
        ({"max_steps": 0}, "`max_steps=0`: must be 1 or more. Leave it out, and epochs decide."),
        ({"max_steps": -7}, "`max_steps=-7`: must be 1 or more"),
        ({"num_train_epochs": -1.0}, "`num_train_epochs` must be more than 0, but is -1.0"),
        ({"num_train_epochs": float("inf")}, "`num_train_epochs` must be finite, but is inf"),
        ({"learning_rate": 0.0}, "`learning_rate` must be more than 0, but is 0.0"),
        ({"learning_rate": float("nan")}, "`learning_rate` must be more than 0, but is nan"),
        ({"learning_rate": float("inf")}, "`learning_rate` must be finite, but is inf"),
        ({"learning_rate": "1e-3"}, "`learning_rate='1e-3'`: must be a number"),
        ({"max_length": None}, "`max_length=None`: must be a number"),
        ({"seed": True}, "`seed=True`: must be a number"),
        ({"weight_decay": float("nan")}, "`weight_decay` must be 0 or more, but is nan"),
        ({"cross_fit": -2}, "`cross_fit` must be 0 or more"),
        ({"cross_fit": "many"}, "`cross_fit=many`: must be a whole number or auto"),
        ({"use_gold": True, "batch_unit": "annotation"}, "cannot be combined"),
        ({"load_best_model_at_end": True, "eval_strategy": "steps", "save_strategy": "steps"}, "last step"),
        ({"optim": "adafactor"}, "`optim=adafactor`"),
        ({"channel": "auto"}, "`channel=auto`: must be one of confusion, habit, uniform, coin"),
        ({"seed": -1}, "`seed` must be 0"),
        ({"max_length": 0}, "`max_length` must be 1"),
        ({"logging_steps": 0}, "`logging_steps` must be 1"),
    ],
)
def test_settings_that_make_no_sense(settings, said, tmp_path) -> None:
    with pytest.raises(RealmError, match=said):
        config(tmp_path, **settings)


def test_confusion_matrices_have_no_gradient(tiny_model, tmp_path) -> None:
    with pytest.raises(RealmError, match=r"`channel=confusion` has no gradient.*`expertise_update=em`"):
        trainer(tiny_model("bert"), crowd(5), tmp_path, channel="confusion", expertise_update="gradient")


@pytest.mark.parametrize("layers", [3, 7])
def test_train_layers_must_leave_something_frozen(layers, tiny_model, tmp_path) -> None:
    with pytest.raises(RealmError, match="`train_layers="):
        trainer(tiny_model("bert"), crowd(5), tmp_path, train_layers=layers)


def test_a_classifier_refuses_items_with_their_own_options(tiny_model, tmp_path) -> None:
    rows = [{"text": "x", "options": ["p", "q"], "annotator": "w", "label": 0}]
    table = Annotations.from_pandas(pd.DataFrame(rows), label_form="index")
    with pytest.raises(RealmError, match="options of their own"):
        trainer(tiny_model("bert"), table, tmp_path)


def test_a_test_table_without_gold_is_refused(tiny_model, tmp_path) -> None:
    with pytest.raises(RealmError, match="no gold"):
        trainer(tiny_model("bert"), crowd(5), tmp_path, test=replace(crowd(5), gold=None))


def test_a_test_table_that_numbers_its_labels_in_another_way_is_refused(tiny_model, tmp_path) -> None:
    frame = crowd(20).to_pandas()
    own = Annotations.test_from_pandas(frame[frame["gold"] != "red"][["item", "text", "gold"]])
    with pytest.raises(RealmError, match="tasks=annotations"):
        trainer(tiny_model("bert"), crowd(20), tmp_path, test=own)


def test_what_trainer_would_ignore_is_refused(tiny_model, tmp_path) -> None:
    made = trainer(tiny_model("bert"), crowd(5), tmp_path, test=crowd(5, seed=9))
    with pytest.raises(RealmError, match="give True"):
        made.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))


def test_a_model_that_diverged_says_so(tiny_model, tmp_path) -> None:
    made = trainer(tiny_model("bert"), crowd(5), tmp_path, test=crowd(5, seed=9))
    with torch.no_grad():
        for parameter in made.scorer.backbone.parameters():
            parameter.fill_(float("nan"))
    with pytest.raises(RealmError, match="`learning_rate`"):
        made.evaluate()


def test_prompts_are_no_longer_than_the_model_has_positions(tiny_model, tmp_path) -> None:
    made = trainer(tiny_model("bert"), crowd(5), tmp_path, max_length=10**6)
    positions = made.scorer.backbone.config.max_position_embeddings
    assert made.scorer.style.max_length == positions
    table = Annotations.from_pandas(
        pd.DataFrame({"text": ["red " * 5000], "annotator": "w", "label": "a"}), labels=["a", "b"]
    )
    assert made.scorer.encode(table.items).lengths.max() == positions


def test_a_rank_with_nothing_to_do_counts_no_gold(tiny_model, tmp_path) -> None:
    made = trainer(tiny_model("bert"), crowd(6), tmp_path, use_gold=True)
    collator = Collator(made.scorer, made.encoded, made.training_annotations)
    nothing = np.empty(0, dtype=np.int64)
    batch = collator([ItemGroup(0, nothing, idle=True)])
    assert batch["gold"].tolist() == [-1] and made.model.count(batch) == 0
    assert collator([ItemGroup(0, nothing)])["gold"].tolist() == [int(made.annotations.gold[0])]
