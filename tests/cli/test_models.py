"""`realm models` and `realm --version`, as a person types them."""

from __future__ import annotations

import json
import os
from importlib.metadata import version
from pathlib import Path

import pytest

import realm
from realm.models import store


@pytest.fixture(autouse=True)
def empty_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REALM_HOME", str(tmp_path / "home"))
    for name in ("REALM_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.setenv(name, "0")  # set rather than deleted, so that what --offline sets is undone


def put(name: str) -> Path:
    """Make a named model look present."""
    folder = next(model.folder for model in store.models() if model.name == name)
    folder.mkdir(parents=True)
    for file in ("config.json", "model.safetensors", "tokenizer.json"):
        (folder / file).touch()
    return folder


def test_models_lists_size_licence_and_presence(realm_cli, tmp_path: Path) -> None:
    folder = put("minilm-l6")
    code, out, _ = realm_cli("models")
    assert code == 0 and str(tmp_path / "home") in out
    rows = {line.split()[0]: line.split()[1:5] for line in out.splitlines() if line}
    assert rows["smollm2-135m"] == ["93", "MB", "Apache-2.0", "no"]
    assert rows["minilm-l6"] == ["84", "MB", "Apache-2.0", "yes"]
    assert rows["mpnet-base"] == ["405", "MB", "Apache-2.0", "no"]
    listed = {model["name"]: model for model in json.loads(realm_cli("models", "--json")[1])}
    assert listed["minilm-l6"]["present"] and listed["minilm-l6"]["folder"] == str(folder)


def test_get_prints_the_folder_of_a_model_that_is_present(realm_cli) -> None:
    folder = put("minilm-l6")
    assert realm_cli("--offline", "models", "get", "minilm-l6") == (0, f"{folder}\n", "")
    code, out, err = realm_cli("models", "get", "bert")
    assert (code, out) == (2, "") and "'bert'" in err and "smollm2-135m, minilm-l6" in err


@pytest.mark.parametrize("by", ["flag", "environment"])
def test_offline_forbids_the_download(by: str, realm_cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(*asked: object) -> None:
        raise AssertionError("a network call was made")

    monkeypatch.setattr(store, "download", download)
    if by == "environment":
        monkeypatch.setenv("REALM_OFFLINE", "1")
    code, _, err = realm_cli(*["--offline"] * (by == "flag"), "models", "get", "minilm-l6")
    assert code == 2 and "realm models get minilm-l6" in err and os.environ["HF_HUB_OFFLINE"] == "1"


def test_version(realm_cli) -> None:
    code, out, _ = realm_cli("--version")
    facts = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert code == 0 and facts["realm"] == realm.__version__ and facts["torch"] == version("torch")
