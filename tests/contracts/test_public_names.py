"""Docs, README, examples and notebooks import what `realm`, `realm.demo`, `realm.testing` and `realm_lab` list and
nothing deeper; the lab uses the same names, and the experiment engine."""

from __future__ import annotations

import json
import re
from pathlib import Path

import realm
import realm.demo
import realm.testing
import realm_lab
from tests.contracts.modules import ROOT, imports_of, modules

PYTHON = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
ENGINE = "realm.comparison"  # what the lab runs its grids with
MODULES = (realm, realm.demo, realm.testing)
PUBLIC = {f"{module.__name__}.{name}" for module in MODULES for name in module.__all__}


def hidden_names(source: str, allowed: tuple[str, ...] = ()) -> list[str]:
    """What is imported that is neither a public name nor in a package allowed."""
    return [
        name
        for name in sorted(imports_of(source))
        if name not in ("realm", *PUBLIC)
        and not any(name == package or name.startswith(f"{package}.") for package in allowed)
    ]


def examples() -> dict[str, str]:
    """The Python of the docs, by file."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    sources = {name(page): "\n".join(PYTHON.findall(page.read_text())) for page in pages}
    folder = ROOT / "examples"
    sources |= {name(path): path.read_text() for path in sorted(folder.rglob("*.py"))}
    return sources | {name(path): notebook_code(path) for path in sorted(folder.glob("*.ipynb"))}


def notebook_code(path: Path) -> str:
    """The Python of a notebook; a line that is a command of the shell becomes `pass`."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    lines = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code").split("\n")
    return "\n".join("pass" if line.startswith("!") else line for line in lines)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_public_name_is_there() -> None:
    assert len(set(realm.__all__)) == len(realm.__all__)
    for public in realm.__all__:
        assert getattr(realm, public) is not None


def test_the_docs_use_public_names() -> None:
    sources = examples()
    assert sum("from realm import" in source for source in sources.values()) > 2
    assert {path: hidden for path, source in sources.items() if (hidden := hidden_names(source))} == {}


def test_the_lab_uses_public_names_and_the_engine() -> None:
    lab = {name(path): path.read_text() for path in sorted((ROOT / "lab").rglob("*.py"))}
    assert len(lab) > 10
    assert {path: hidden for path, source in lab.items() if (hidden := hidden_names(source, (ENGINE,)))} == {}


def test_the_docs_use_names_that_the_lab_lists() -> None:
    for path, source in examples().items():
        used = imports_of(source, "realm_lab") - {"realm_lab"}
        assert used <= {f"realm_lab.{each}" for each in realm_lab.__all__} | {"realm_lab.channels"}, path


def test_the_package_knows_nothing_of_the_lab() -> None:
    assert {path for path, source in modules().items() if imports_of(source, "realm_lab")} == set()


def test_a_hidden_name_is_seen() -> None:
    assert hidden_names("from realm import Annotations, RealmConfig\nimport realm") == []
    for source in ("from realm.data import Annotations", "from realm import data", "import realm.crowd.estimate",
                   "from realm.comparison.cells import Cell"):  # fmt: skip
        assert hidden_names(source), source
    assert hidden_names("from realm.comparison.results import Results", (ENGINE,)) == []
    assert hidden_names("from realm.comparisons import Results", (ENGINE,))
