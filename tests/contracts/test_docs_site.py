"""The documentation site: links that work on both sides, a check of what was built, a reference that is whole."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pandas as pd
import pytest
import yaml
from packaging.requirements import Requirement

import realm
from realm import Annotations, estimate
from realm.crowd.tables import expertise_table, labels_table
from realm.data.roles import ANNOTATION_COLUMNS, ITEM_ROLES
from realm.runs.folder import CHECKPOINTS, MODEL, RUN_FILES
from tests.contracts.modules import ROOT

sys.path.insert(0, str(ROOT / "docs" / "building"))

from check_site import main, problems
from links import OUTSIDE, headings, html_with_site_links, page_of, site_link, tutorials, with_site_links

REFERENCE = ROOT / "docs" / "reference"
MODULES = ("testing",)
"""Public modules beside the names of `realm`."""


# -------------------------------------------------------------------- links


@pytest.mark.parametrize(
    ("page", "target", "expected"),
    [
        ("method.md", "training.md", "training.md"),
        ("method.md", "../CONTRIBUTING.md", "CONTRIBUTING.md"),
        ("method.md", "../README.md", "index.md"),
        ("method.md", "../examples/judges.ipynb", "examples/judges.ipynb"),
        ("method.md", "../examples/README.md", "examples/README.md"),
        ("method.md", "../examples/realm_in_100_lines.py", "examples/realm_in_100_lines.md"),
        ("reference/data.md", "../method.md", "../method.md"),
        ("reference/data.md", "../../CONTRIBUTING.md", "../CONTRIBUTING.md"),
        ("CHANGELOG.md", "docs/method.md", "method.md"),
        ("examples/judges.ipynb", "../docs/method.md", "../method.md"),
        ("benchmarks/results.md", "../docs/speed.md", "../speed.md"),
        ("method.md", "../benchmarks/coverage.py", None),
    ],
)
def test_a_link_of_the_code_host_becomes_one_of_the_site(page: str, target: str, expected: str | None) -> None:
    assert site_link(page, target) == expected


def test_links_are_rewritten_outside_code_and_addresses_stay() -> None:
    text, block = (
        "[a](../SECURITY.md#x), ![b](b.svg), [c](https://x.org), [d](../Makefile)\n",
        "```text\n[e](../README.md)\n```",
    )
    assert with_site_links(text + block, "method.md") == (
        "[a](SECURITY.md#x), ![b](b.svg), [c](https://x.org), d\n" + block
    )


def test_links_of_a_notebook_and_its_scripts() -> None:
    html = '<a href="../docs/method.md#channels">m</a><a href="https://x.org/a.md">x</a>'
    scripts = '<script type="module">import m from "https://x.org/mermaid.mjs"; m()</script><script src=""> </script>'
    own = "<script>sort()</script>"
    rewritten = html_with_site_links(html + scripts + own, "examples/judges.ipynb")
    assert rewritten == '<a href="../method.html#channels">m</a><a href="https://x.org/a.md">x</a>' + own
    with pytest.raises(ValueError, match=r"links to \.\./Makefile\.py, which is no page"):
        html_with_site_links('<a href="../Makefile.py">', "examples/judges.ipynb")


def test_headings_of_a_notebook_are_nested_and_keep_code() -> None:
    link = '<a class="anchor-link" href="#x">¶</a>'
    html = (
        f'<h1 id="a">A <code>run</code>{link}</h1><h3 id="b">B{link}</h3><h2 id="c">C{link}</h2><h1 id="d">D{link}</h1>'
    )
    first, last = headings(html)
    assert (first["name"], first["id"], last["name"], last["children"]) == ("A run", "a", "D", [])
    assert [each["id"] for each in first["children"]] == ["b", "c"]


def test_notebooks_have_the_order_of_the_tutorials(tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    for name in ("judges", "a_new_one", "first_steps"):
        (tmp_path / "examples" / f"{name}.ipynb").touch()
    assert [Path(name).stem for name in tutorials(tmp_path)] == ["first_steps", "judges", "a_new_one"]
    (tmp_path / "examples" / "README.md").touch()
    assert tutorials(tmp_path)[:2] == ["examples/README.md", "examples/first_steps.ipynb"]


# -------------------------------------------------------------------- the check of what was built


def test_a_site_without_fault_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.html").write_text(
        '<link rel="stylesheet" href="s.css"><link rel="canonical" href="https://x.org"><h2 id="here">A</h2>'
        '<a href="b.html#there">b</a><a href="#here">a</a><a href="https://x.org">elsewhere</a>'
        '<style>a {background: url("p.png")}</style><script>import("./p.js")</script>'
    )
    (tmp_path / "b.html").write_text('<p id="there"><img src="p.png"></p>')
    for name in ("p.png", "s.css"):
        (tmp_path / name).touch()
    assert problems(tmp_path) == [] and main(tmp_path) == 0
    assert "2 pages" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("html", "message"),
    [
        ('<a href="none.html">', "links to none.html, which is not there"),
        ('<a href="#none">', "links to #none, which has no such anchor"),
        ('<a href="b.html#none">', "links to b.html#none, which has no such anchor"),
        ('<img src="none.png">', "links to none.png, which is not there"),
        ('<script src="https://cdn.org/x.js"></script>', "fetches https://cdn.org/x.js"),
        ('<script src="//cdn.org/x.js"></script>', "fetches //cdn.org/x.js"),
        ('<link rel="stylesheet" href="https://fonts.org/css">', "fetches https://fonts.org/css"),
        ('<link rel="preconnect" href="https://fonts.org">', "fetches https://fonts.org"),
        ('<img src="https://x.org/p.png">', "fetches https://x.org/p.png"),
        ("<style>@import 'https://x.org/s.css'</style>", "fetches https://x.org/s.css"),
        ('<p style="background: url(https://x.org/p.png)">', "fetches https://x.org/p.png"),
        ("<script>import m from 'https://x.org/m.mjs'</script>", "fetches https://x.org/m.mjs"),
    ],
)
def test_a_fault_is_found(html: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(html)
    (tmp_path / "b.html").write_text("<p>b</p>")
    assert problems(tmp_path) == [f"a.html {message}"] and main(tmp_path) == 1


def test_a_style_sheet_that_fetches_and_an_empty_site_are_found(tmp_path: Path) -> None:
    assert main(tmp_path) == 1
    (tmp_path / "s.css").write_text("@font-face {src: url(https://fonts.org/x.woff2)}")
    assert problems(tmp_path) == ["s.css fetches https://fonts.org/x.woff2"]


# -------------------------------------------------------------------- what the site holds


def test_every_public_name_is_in_the_reference_once() -> None:
    shown = [
        name for page in REFERENCE.glob("*.md") for name in re.findall(r"^::: realm\.(\w+)$", page.read_text(), re.M)
    ]
    assert sorted(shown) == sorted(name for name in (*realm.__all__, *MODULES) if name != "__version__")


def test_every_file_and_column_of_a_run_is_in_the_reference() -> None:
    page = (REFERENCE / "run-folder.md").read_text()
    assert [name for name in (*RUN_FILES, f"{MODEL}/", f"{CHECKPOINTS}/") if f"`{name}`" not in page] == []
    frame = pd.DataFrame({"text": ["x", "x", "y", "y"], "context": ["c"] * 4, "annotator": ["ada", "bob"] * 2})
    frame = frame.assign(label=["no", "no", "yes", "no"], created_at=range(4), lead_time=2.0)
    annotations = Annotations.from_pandas(frame)
    estimates = estimate(annotations)
    trained = {"expertise_trained": estimates.expertise}
    columns = [
        *expertise_table(annotations, estimates, trained, "in-sample"),
        *labels_table(annotations, estimates.posterior, "in-sample"),
    ]
    assert [name for name in columns if f"`{name}`" not in page] == []


def test_every_column_of_a_table_is_in_the_reference() -> None:
    page = (REFERENCE / "tables.md").read_text()
    columns = {"text", *ANNOTATION_COLUMNS, *ITEM_ROLES}
    assert {"text", "annotator_group", "gold"} <= columns
    assert [name for name in sorted(columns) if f"| `{name}`" not in page] == []


def test_every_page_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    listed = set(re.findall(r"[\w/-]+\.md", text[text.index("nav:") : text.index("theme:")]))
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")} | set(OUTSIDE)
    assert listed == pages
    assert all((ROOT / page).exists() for page in OUTSIDE) and page_of("docs/index.md") == "index.md"


def test_nothing_is_fetched_by_the_theme() -> None:
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    assert config["theme"]["font"] is False and "offline" in config["plugins"]
    assert not [address for address in config["extra"]["polyfills"] if "//" in address]


def test_the_environment_of_the_docs_holds_the_extra() -> None:
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["docs"]
    pins = dict(line.split("==") for line in (ROOT / "requirements-docs.txt").read_text().splitlines())
    for requirement in map(Requirement, extra):
        assert requirement.specifier.contains(pins[requirement.name]), requirement
