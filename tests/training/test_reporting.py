"""`report_to`: the integrations of `Trainer` are handed histograms of expertise, and nobody's name."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from transformers.integrations import integration_utils

from realm.errors import RealmError
from tests.tiny import crowd
from tests.trainers import config, trainer

INTEGRATIONS = ("tensorboard", "wandb", "trackio")
COLUMN = "annotators/expertise_trained"


class Library:
    """Stands for TensorBoard, wandb and trackio together: keeps the histograms, scalars and texts it is given."""

    def __init__(self) -> None:
        self.histograms: list[tuple[str, int, np.ndarray]] = []
        self.scalars: list[str] = []
        self.texts: list[str] = []
        self.config: Any = self
        self.runs = 0

    # TensorBoard's writer
    def add_histogram(self, name: str, values: np.ndarray, step: int) -> None:
        self.histograms.append((name, step, np.asarray(values)))

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
        for name, value in values.items():
            if isinstance(value, SimpleNamespace):
                self.histograms.append((name, values["train/global_step"], value.values))
            else:
                self.scalars.append(name)


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

    shared = {"Histogram": lambda values: SimpleNamespace(values=np.asarray(values)), "config": made}
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
def test_expertise_is_a_histogram_at_every_logging_step(name: str, library: Library, tiny_model, tmp_path) -> None:
    made = trainer(tiny_model("bert"), crowd(20), tmp_path, report_to=name, max_steps=5, logging_steps=2)
    made.train()
    assert [(column, step) for column, step, _ in library.histograms] == [(COLUMN, step) for step in (1, 2, 4, 5)]
    learned = dict(made.trajectory())
    for _, step, values in library.histograms[:-1]:
        np.testing.assert_array_equal(values, learned[step]["expertise_trained"][:, 0])
    np.testing.assert_array_equal(library.histograms[-1][2], made.channel.summary()["expertise_trained"][:, 0])
    assert "train/loss" in library.scalars


def test_an_annotator_is_in_the_histograms_of_their_own_tasks_only(library: Library, tiny_model, tmp_path) -> None:
    table = crowd(16, tasks=2)
    table = table.keep_annotations((table.annotator != 0) | (table.item_tasks[table.item] == 0))
    trainer(tiny_model("bert"), table, tmp_path, report_to="tensorboard", max_steps=1).train()
    sizes = {name: len(values) for name, _, values in library.histograms}
    assert sizes == {f"{COLUMN}/t0": 3, f"{COLUMN}/t1": 2}


@pytest.mark.parametrize("name", INTEGRATIONS)
def test_no_annotators_name_is_sent(name: str, library: Library, tiny_model, tmp_path) -> None:
    table = replace(crowd(12), annotators=("zebediah", "wilhelmina", "ottoline"))
    settings = {"report_to": name, "max_steps": 2, "experts": ["wilhelmina"]}
    trainer(tiny_model("bert"), table, tmp_path, **settings).train()
    sent = "".join([*library.texts, *library.scalars, *(column for column, _, _ in library.histograms)])
    assert "1 annotators" in sent and not any(annotator in sent for annotator in table.annotators)


def test_folds_and_methods_without_a_channel_log_no_histogram(library: Library, tiny_model, tmp_path) -> None:
    made = trainer(tiny_model("bert"), crowd(12), tmp_path / "a", report_to="tensorboard", method="noisy", max_steps=2)
    made.train()
    assert not library.histograms and library.scalars and library.runs == 1
    made = trainer(tiny_model("bert"), crowd(12), tmp_path / "b", report_to="tensorboard", max_steps=2, cross_fit=2)
    made.train()
    assert [step for _, step, _ in library.histograms] == [1, 2] and library.runs == 2


@pytest.mark.parametrize("name", INTEGRATIONS)
def test_a_package_that_is_not_there_is_named(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setattr(integration_utils, f"is_{name}_available", lambda: False)
    with pytest.raises(RealmError, match=f"`report_to={name}`: the package {name} is not installed"):
        config(tmp_path, report_to=name)
    assert config(tmp_path).report_to == []


def test_an_unknown_integration_is_refused(tmp_path) -> None:
    with pytest.raises(RealmError, match="`report_to`: carrier-pigeon is not supported"):
        config(tmp_path, report_to="carrier-pigeon")


def test_the_flag_reports_to_several(library: Library, tiny_model, tmp_path, realm_cli) -> None:
    crowd(20).to_pandas().to_csv(tmp_path / "labels.csv", index=False)
    words = ("--model", tiny_model("bert"), "--output", tmp_path / "run", "--steps", "2", "--channel", "uniform")
    more = ("--report-to", "tensorboard", "--report-to", "trackio")
    code, _, error = realm_cli("train", tmp_path / "labels.csv", *words, *more)
    assert code == 0, error
    assert library.runs == 2 and len(library.histograms) == 4
    code, _, error = realm_cli("train", tmp_path / "labels.csv", *words[:3], tmp_path / "b", "--report-to", "smoke")
    assert code == 2 and "--report-to: smoke is not supported" in error
