"""Paths that the docs name are there: a page that outlives its code fails."""

from __future__ import annotations

import re

from tests.contracts.modules import PACKAGE, ROOT

PATH = re.compile(r"`((?:realm|lab|tests|examples|benchmarks|docs)/[\w./-]+)`")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def missing_paths(text: str) -> list[str]:
    paths = PATH.findall(text)
    return [path for path in paths if not (ROOT / path).exists() and not (PACKAGE.parent / path).exists()]


def test_every_path_of_the_docs_exists() -> None:
    assert {page.name: missing for page in PAGES if (missing := missing_paths(page.read_text()))} == {}
    assert len(PATH.findall((ROOT / "docs" / "architecture.md").read_text())) > 30


def test_a_missing_path_is_seen() -> None:
    assert missing_paths("`realm/channels/base.py`, `tests/contracts/`, `lab/realm_lab/specs/`") == []
    assert missing_paths("see `realm/channels/none.py`") == ["realm/channels/none.py"]
