"""The built wheel holds everything and works outside the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT]
    subprocess.run([sys.executable, *map(str, build)], check=True)
    return next(folder.glob("*.whl"))


@pytest.mark.slow
def test_every_file_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    source = ROOT / "src"
    files = {str(path.relative_to(source)) for path in (source / "realm").rglob("*") if path.is_file()}
    held = set(zipfile.ZipFile(wheel).namelist())
    assert {name for name in files if "__pycache__" not in name} <= held
    assert "realm/demo/grammar.yaml" in held and "realm/py.typed" in held


@pytest.mark.slow
def test_the_wheel_runs_the_quick_demo_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    """A new environment that borrows the dependencies installed here, but neither this project nor its tests."""
    home = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    python = home / "bin" / "python"
    asked = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    own = Path(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip())
    borrowed = own / "borrowed"
    borrowed.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "realm" not in path.name and path.suffix != ".pth":
            (borrowed / path.name).symlink_to(path)
    (own / "borrowed.pth").write_text(str(borrowed))
    install = ["-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", str(wheel)]
    subprocess.run([sys.executable, *install], check=True)
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    where = subprocess.run(
        [str(python), "-c", "import realm; print(realm.__file__)"],
        cwd=tmp_path,
        env=clean,
        capture_output=True,
        text=True,
    )
    assert str(own) in where.stdout, where.stderr
    done = subprocess.run([str(home / "bin" / "realm"), "demo", "--quick"], cwd=tmp_path, env=clean, timeout=1200)
    assert done.returncode == 0
    assert (tmp_path / "runs" / "demo" / "run" / "report.html").exists()
