"""`report_to`: the integrations of `Trainer` are handed losses and figures, and nobody's name."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from transformers.integrations import integration_utils

from realm.errors import RealmError
from tests.tiny import crowd
from tests.trainers import config, trainer

INTEGRATIONS = ("tensorboard", "wandb", "trackio")


class Library:
    """Stands for TensorBoard, wandb and trackio together: keeps the scalars and texts it is given."""

    def __init__(self) -> None:
        self.scalars: list[str] = []
        self.texts: list[str] = []
        self.config: Any = self
        self.runs = 0

    # TensorBoard's writer
    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.scalars.append(name)

    def add_text(self, name: str, text: str, step: int | None = None) -> None:
        self.texts.append(text)

    def flush(self) -> None: ...
    def close(self) -> None: ...

    # wandb and trackio
    def init(self, **settings: Any) -> None:
        self.runs += 1
        self.texts.append(repr(settings))

    def update(self, values: dict[str, Any], **more: Any) -> None:
        self.texts.append(repr(values))

    def __setitem__(self, name: str, value: Any) -> None: ...

    def log(self, values: dict[str, Any]) -> None:
        self.scalars += list(values)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    """Every integration is installed, and is this one."""
    made = Library()

    def module(name: str, **content: Any) -> None:
        planted = ModuleType(name)
        vars(planted).update(content)
        monkeypatch.setitem(sys.modules, name, planted)

    def writer(log_dir: str | None = None) -> Library:
        made.runs += 1
        return made

    shared: dict[str, Any] = {"config": made}
    shared |= {"init": made.init, "log": made.log, "finish": lambda: None}
    run = SimpleNamespace(_label=lambda **how: None, summary={})
    module("torch.utils.tensorboard", SummaryWriter=writer)
    module("wandb", run=run, define_metric=lambda *a, **k: None, **{**shared, "init": made.init})
    for name in ("wandb.sdk", "wandb.sdk.lib"):
        module(name)
    module("wandb.sdk.lib.config_util", ConfigError=ValueError)
    space = SimpleNamespace(current_space_id=SimpleNamespace(get=lambda: None))
    module("trackio", context_vars=space, **shared)
    for name in INTEGRATIONS:
        monkeypatch.setattr(integration_utils, f"is_{name}_available", lambda: True)
    return made


@pytest.mark.parametrize("name", INTEGRATIONS)
def test_no_annotators_name_is_sent(name: str, library: Library, tiny_model, tmp_path) -> None:
    table = replace(crowd(12), annotators=("zebediah", "wilhelmina", "ottoline"))
    settings = {"report_to": name, "max_steps": 2, "experts": ["wilhelmina"]}
    trainer(tiny_model("bert"), table, tmp_path, **settings).train()
    sent = "".join([*library.texts, *library.scalars])
    assert "1 annotators" in sent and not any(annotator in sent for annotator in table.annotators)


def test_a_run_is_logged_once_and_its_folds_are_not(library: Library, tiny_model, tmp_path) -> None:
    made = trainer(tiny_model("bert"), crowd(12), tmp_path, report_to="tensorboard", max_steps=2, cross_fit=2)
    made.train()
    assert made.folds == 2 and library.runs == 1 and "train/loss" in library.scalars


@pytest.mark.parametrize("name", INTEGRATIONS)
def test_a_package_that_is_not_there_is_named(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setattr(integration_utils, f"is_{name}_available", lambda: False)
    with pytest.raises(RealmError, match=f"`report_to={name}`: install the package {name}"):
        config(tmp_path, report_to=name)
    assert config(tmp_path).report_to == []


def test_an_unknown_integration_is_refused(tmp_path) -> None:
    with pytest.raises(RealmError, match="carrier-pigeon is not supported"):
        config(tmp_path, report_to="carrier-pigeon")


def test_the_flag_reports_to_several(library: Library, tiny_model, tmp_path, realm_cli) -> None:
    crowd(20).to_pandas().to_csv(tmp_path / "labels.csv", index=False)
    words = ("--model", tiny_model("bert"), "--output", tmp_path / "run", "--steps", "2")
    (tmp_path / "c.yaml").write_text("channel: uniform\nreport_to: [tensorboard, trackio]\n")
    more = ("--config", tmp_path / "c.yaml")
    code, _, error = realm_cli("train", tmp_path / "labels.csv", *words, *more)
    assert code == 0, error
    assert library.runs == 2
    (tmp_path / "c.yaml").write_text("report_to: smoke\n")
    code, _, error = realm_cli("train", tmp_path / "labels.csv", *words[:3], tmp_path / "b", *more)
    assert code == 2 and "smoke is not supported" in error
