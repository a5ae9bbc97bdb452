"""The built wheel and sdist hold everything, and the wheel works outside the checkout with what it asks for alone."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from configparser import ConfigParser
from email import message_from_string
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the sdist, and of the wheel that is built from the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    build = ["-m", "build", "--no-isolation", "--outdir", folder, ROOT]
    subprocess.run([sys.executable, *map(str, build)], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    return next(built.glob("realm_lm-*-py3-none-any.whl"))


def requirements(wheel: Path) -> list[Requirement]:
    """What the wheel asks for, without its extras."""
    archive = zipfile.ZipFile(wheel)
    (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    asked = message_from_string(archive.read(metadata).decode()).get_all("Requires-Dist")
    return [
        each for each in map(Requirement, asked or []) if each.marker is None or each.marker.evaluate({"extra": ""})
    ]


def with_dependencies(asked: list[Requirement]) -> list[Distribution]:
    """The installed distributions that are asked for, and all that those ask for."""
    installed = {canonicalize_name(each.metadata["Name"]): each for each in distributions()}
    needed: dict[str, Distribution] = {}
    stack = list(asked)
    while stack:
        requirement = stack.pop()
        name, extras = canonicalize_name(requirement.name), [*requirement.extras, ""]
        if name in needed or name not in installed:
            continue
        needed[name] = installed[name]
        more = map(Requirement, installed[name].requires or [])
        stack += [r for r in more if r.marker is None or any(r.marker.evaluate({"extra": extra}) for extra in extras)]
    return list(needed.values())


def test_every_file_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    source = ROOT / "src"
    files = {str(path.relative_to(source)) for path in (source / "realm").rglob("*") if path.is_file()}
    held = set(zipfile.ZipFile(wheel).namelist())
    assert {name for name in files if "__pycache__" not in name} <= held
    assert {"realm/demo/grammar.yaml", "realm/py.typed", "realm/testing.py"} <= held
    assert not any(name.startswith(("tests/", "benchmarks/", "docs/", "lab/", "realm_lab/")) for name in held)


def test_the_wheel_has_a_command_and_asks_for_no_tools(wheel: Path) -> None:
    archive, scripts = zipfile.ZipFile(wheel), ConfigParser()
    (entries,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
    scripts.read_string(archive.read(entries).decode())
    assert dict(scripts["console_scripts"]) == {"realm": "realm.cli.entry:main"}
    names = {canonicalize_name(each.name) for each in requirements(wheel)}
    assert {"torch", "transformers", "pandas"} <= names
    assert not names & {"pytest", "hypothesis", "mypy", "ruff", "playwright", "ray", "mkdocs", "build"}


def test_the_sdist_holds_what_a_packager_needs(built: Path) -> None:
    with tarfile.open(next(built.glob("realm_lm-*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "pyproject.toml", "constraints.txt", "Makefile"}
    assert wanted <= names
    assert {"src/realm/py.typed", "tests/tiny.py", "docs/index.md"} <= names
    assert not any(name.startswith((".venv", ".git/", "runs/", "site/", "dist/")) for name in names)


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a new environment that borrows what the wheel asks for of what is installed here."""
    home = tmp_path_factory.mktemp("empty") / "env"
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    python = str(home / "bin" / "python")
    asked = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    own = Path(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip())
    borrowed = own / "borrowed"
    borrowed.mkdir()
    for distribution in with_dependencies(requirements(wheel)):
        for name in {file.parts[0] for file in distribution.files or [] if file.parts[0] not in ("..", "__pycache__")}:
            if not (borrowed / name).exists():
                (borrowed / name).symlink_to(Path(str(distribution.locate_file(name))))
    (own / "borrowed.pth").write_text(str(borrowed))
    own_tools = ["uninstall", "--quiet", "--yes", "setuptools"]  # older than torch asks for
    install = ["install", "--quiet", "--no-index", str(wheel)]  # fails where something is missing
    for words in (own_tools, install):
        subprocess.run([python, "-m", "pip", *words], check=True, env=clean())
    return home / "bin"


def clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


ALONE = """
import importlib.util
import realm
from realm.testing import small_annotations, tiny_model

tools = ("pytest", "hypothesis", "mypy", "ray", "IPython", "crowdkit")
assert not [name for name in tools if importlib.util.find_spec(name)]
config = realm.RealmConfig("run", max_steps=1, use_cpu=True, disable_tqdm=True)
realm.RealmTrainer(tiny_model("model"), small_annotations(12), config).train()
print(realm.__file__, len(realm.Run.open("run").predict("a red boat")))
"""


def test_the_wheel_trains_with_what_it_asks_for_alone(programs: Path, tmp_path: Path) -> None:
    done = subprocess.run([programs / "python", "-c", ALONE], cwd=tmp_path, env=clean(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    where, answers = done.stdout.split()[-2:]
    assert Path(where).is_relative_to(programs.parent) and answers == "1"
    said = subprocess.run([programs / "realm", "--version"], cwd=tmp_path, env=clean(), capture_output=True, text=True)
    assert said.returncode == 0 and said.stdout.startswith("realm ")


def test_the_wheel_runs_the_quick_demo(programs: Path, tmp_path: Path) -> None:
    done = subprocess.run([programs / "realm", "demo", "--quick"], cwd=tmp_path, env=clean(), timeout=3600)
    assert done.returncode == 0
    assert (tmp_path / "runs" / "demo" / "run" / "report.html").exists()
