"""The documentation site itself, built strictly and opened as files; `make test-all` sets up what that takes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
MKDOCS = ROOT / ".venv-docs" / "bin" / "mkdocs"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 120_000
"""Milliseconds to wait for the browser: a busy machine is slow."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not MKDOCS.exists(), reason="the environment of the docs is not there: `make docs` sets it up"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [str(MKDOCS), "build", "--strict", "--site-dir", str(folder)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no Chromium here")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=PATIENCE)
        yield opened
        opened.close()


def test_every_link_leads_somewhere_and_nothing_is_fetched(site: Path) -> None:
    check = [sys.executable, str(ROOT / "docs" / "building" / "check_site.py"), str(site)]
    checked = subprocess.run(check, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout
    assert (site / "index.html").exists() and (site / "reference" / "commands.html").exists()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_pages_fit_the_screen_and_ask_for_nothing(site: Path, browser: Any, width: int, scheme: str) -> None:
    page = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
    addresses: list[str] = []
    page.on("request", lambda request: addresses.append(request.url))
    for name in ("index", "get-started", "method", "results", "reference/training", "reference/commands"):
        page.goto((site / f"{name}.html").as_uri(), timeout=PATIENCE)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        assert page.evaluate("document.body.dataset.mdColorScheme") == ("slate" if scheme == "dark" else "default")
    assert addresses and all(address.startswith(("file:", "data:", "blob:", "about:")) for address in addresses)


def test_search_works_without_a_server(site: Path, browser: Any) -> None:
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.goto((site / "index.html").as_uri(), timeout=PATIENCE)
    page.click("[data-md-component=search-query]", timeout=PATIENCE)
    page.keyboard.type("krippendorff")
    page.wait_for_selector(".md-search-result__item", timeout=PATIENCE)
    assert "Your data" in page.inner_text(".md-search-result__list")
