"""A run made by somebody else runs no code of theirs: planted pickles, custom code and YAML tags are refused."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from pathlib import Path

import pytest
import torch
import yaml

from realm.errors import RealmError
from realm.files import write_manifest
from realm.runs import Run
from tests.tiny import crowd, save_tiny
from tests.trainers import trainer

SETTINGS = {"write_run": True, "save_strategy": "steps", "save_steps": 2, "max_steps": 4}


class Bomb:
    """Unpickled, it makes a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return save_tiny(tmp_path_factory.mktemp("planted") / "model", "causal", layers=1, width=16)


@pytest.fixture(scope="module")
def made(model, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    table = crowd(20)
    table.to_pandas().to_csv(folder / "labels.csv", index=False)
    table.to_pandas()[["item", "text", "gold"]].drop_duplicates().to_csv(folder / "test.csv", index=False)
    trainer(model, table, folder / "run", **SETTINGS).train()
    return folder


@pytest.fixture
def planted(made, tmp_path):
    """A copy of the run, the mark that planted code would leave, and a way to make the manifest fit what was done."""
    run = tmp_path / "run"
    shutil.copytree(made / "run", run)
    return run, tmp_path / "mark", lambda: write_manifest(run, skip=("checkpoints", "report.html"))


def commands(made: Path, run: Path) -> list[tuple[object, ...]]:
    """Everything that reads a run."""
    return [
        ("evaluate", run, made / "test.csv"),
        ("predict", run, made / "test.csv", "--output", run.parent / "answers.csv"),
        ("report", run),
        ("relabel", run, "--output", run.parent / "queue.csv"),
    ]


def refused(realm_cli, made: Path, run: Path, mark: Path, said: str, only: tuple[str, ...] = ()) -> None:
    for command in commands(made, run):
        if only and command[0] not in only:
            continue
        code, out, error = realm_cli(*command)
        assert code == 2 and said in error, (command[0], code, error)
        assert "Traceback" not in out + error
        assert not mark.exists(), command[0]


@pytest.mark.parametrize("place", ["training_args.bin", "model/pytorch_model.bin", "model/training_args.bin", "x.pkl"])
def test_a_pickle_beside_the_weights(place, made, planted, realm_cli) -> None:
    run, mark, fit = planted
    (run / place).write_bytes(pickle.dumps(Bomb(mark)))
    fit()
    refused(realm_cli, made, run, mark, "can run code when it is loaded")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "weights.dat"])
def test_a_pickle_in_place_of_the_weights(name, made, planted, realm_cli) -> None:
    """Also under a name that says nothing of what it is, where an index names it."""
    run, mark, fit = planted
    (run / "model" / "model.safetensors").unlink()
    torch.save(Bomb(mark), run / "model" / name)
    index = {"metadata": {}, "weight_map": {"lm_head.weight": name}}
    for kind in ("model.safetensors", "pytorch_model.bin"):
        (run / "model" / f"{kind}.index.json").write_text(json.dumps(index))
    fit()
    with pytest.raises(RealmError):
        _ = Run.open(run).scorer
    assert not mark.exists()
    said = "can run code" if name.endswith(".bin") else "has no weights"
    refused(realm_cli, made, run, mark, said, only=("evaluate", "predict"))


@pytest.mark.parametrize("known", [True, False])
def test_a_config_that_brings_code(known, made, planted, realm_cli) -> None:
    """A known kind of model is loaded as what it is, without the code; an unknown one is refused."""
    run, mark, fit = planted
    path = run / "model" / "config.json"
    config = json.loads(path.read_text())
    config["auto_map"] = {"AutoConfig": "planted.Config", "AutoModelForCausalLM": "planted.Model"}
    if not known:
        config["model_type"], config["architectures"] = "planted", ["Model"]
    path.write_text(json.dumps(config))
    tokenizer = run / "model" / "tokenizer_config.json"
    tokenizer.write_text(
        json.dumps(json.loads(tokenizer.read_text()) | {"auto_map": {"AutoTokenizer": ["planted.Tokens", None]}})
    )
    fit()
    if known:
        _ = Run.open(run).scorer
        assert not mark.exists()
    else:
        refused(realm_cli, made, run, mark, "cannot be loaded", only=("evaluate", "predict"))
    (run / "model" / "planted.py").write_text(f"import os\nos.mkdir({str(mark)!r})\n")
    fit()
    refused(realm_cli, made, run, mark, "can run code when it is loaded")


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation"])
def test_a_config_that_names_a_kernel_to_fetch(key, made, planted, realm_cli) -> None:
    run, mark, fit = planted
    path = run / "model" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: "somebody/kernel"}))
    fit()
    refused(realm_cli, made, run, mark, "names an attention kernel", only=("evaluate", "predict"))


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.mkdir", "!!python/name:os.system", "!!python/module:os"])
def test_yaml_that_calls_python(tag, made, planted, realm_cli, model) -> None:
    run, mark, fit = planted
    (run / "config.yaml").write_text(f"realm: 0.1.0\nsettings: {tag} [{mark}]\n")
    fit()
    refused(realm_cli, made, run, mark, "not readable as YAML", only=("report", "relabel"))
    with pytest.raises(RealmError, match="not readable as YAML"):
        trainer(model, crowd(20), run, **SETTINGS).train(resume_from_checkpoint=True)
    (run.parent / "flags.yaml").write_text(f"steps: {tag} [{mark}]\n")
    code, _, error = realm_cli(
        "train", made / "labels.csv", "--config", run.parent / "flags.yaml", "--output", run.parent / "x"
    )
    assert code == 2 and "not readable as YAML" in error and not mark.exists()


def resume(model: str, run: Path) -> None:
    (run / "manifest.json").unlink()
    trainer(model, crowd(20), run, **SETTINGS).train(resume_from_checkpoint=True)


@pytest.mark.parametrize("name", ["progress.pt", "rng_state.pth"])
def test_a_pickle_in_place_of_a_state(name, planted, model) -> None:
    """The manifest fits: only the way it is read stands between the checkpoint and the code."""
    run, mark, _ = planted
    (run / "checkpoints" / "checkpoint-4").rename(run / "checkpoints" / "checkpoint-3")  # so that training goes on
    for checkpoint in (run / "checkpoints").iterdir():
        torch.save({"state": Bomb(mark)}, checkpoint / name)
        state = json.loads((checkpoint / "trainer_state.json").read_text())
        (checkpoint / "trainer_state.json").write_text(json.dumps(state | {"global_step": 3}))
        write_manifest(checkpoint)
    with pytest.raises((RealmError, pickle.UnpicklingError)):
        resume(model, run)
    assert not mark.exists()


def test_a_pickled_model_to_start_from(model, made, realm_cli, tmp_path) -> None:
    mark = tmp_path / "mark"
    shutil.copytree(model, tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    torch.save({"lm_head.weight": Bomb(mark)}, tmp_path / "model" / "pytorch_model.bin")
    flags = ("train", made / "labels.csv", "--model", tmp_path / "model", "--output", tmp_path / "run", "--steps", 1)
    code, out, error = realm_cli(*flags)
    assert code == 2 and "has no weights (model.safetensors)" in error and "Traceback" not in out + error
    assert not mark.exists()


def test_the_bomb_works(tmp_path) -> None:
    """These tests could not fail if it did not."""
    torch.save(Bomb(tmp_path / "mark"), tmp_path / "bomb.pt")
    torch.load(tmp_path / "bomb.pt", weights_only=False)
    assert (tmp_path / "mark").exists()
    tag = yaml.unsafe_load(f"!!python/object/apply:os.mkdir [{tmp_path / 'other'}]")
    assert tag is None and (tmp_path / "other").exists()
