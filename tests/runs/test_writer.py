"""What a run writes, beyond what reading it back shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from realm import RealmConfig, RealmTrainer
from realm.files import read_json
from realm.training.run_output import end
from tests.tiny import crowd, save_tiny


def test_frozen_layers_are_not_run_again_for_the_figures_on_the_test_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REALM_HOME", str(tmp_path / "home"))
    model = save_tiny(tmp_path / "tiny", "causal")
    settings = {"train_layers": 1, "max_steps": 2, "save_strategy": "no", "disable_tqdm": True, "use_cpu": True}
    trainer = RealmTrainer(model, crowd(20), RealmConfig(str(tmp_path / "run"), **settings), test=crowd(12, seed=5))
    trainer.train()
    runs: list[object] = []
    trainer.scorer.backbone.model.layers[0].self_attn.register_forward_hook(lambda *call: runs.append(call))
    end(trainer, trainer.test_scores(answer_mass=True))
    assert not runs
    figures = read_json(tmp_path / "run" / "metrics.json")["test"]
    assert 0 <= figures["answer_mass"] <= 1 and figures["items"] == 12
