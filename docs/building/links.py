"""Where a page of the site comes from, and links that work both on the site and on the code host.

The site is docs/ laid over the root of the repository: docs/method.md is method.md, CHANGELOG.md is CHANGELOG.md, and
examples/first_steps.ipynb keeps its path. So a relative link of a file becomes a link of the site when both its ends
are mapped in that way. A link to a file that is no page (source code) becomes plain text.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
OUTSIDE = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/results.md")
"""Pages of the site that lie outside docs/."""
TUTORIALS = ("first_steps", "judges", "one_label", "relabelling", "own_channel", "transformers_and_hub")
"""The order of the notebooks; others come behind."""
SCRIPT = "examples/realm_in_100_lines.py"
OVERVIEW = "examples/README.md"
REPLACED = {"README.md": "index.md", SCRIPT: SCRIPT.replace(".py", ".md")}
"""Files that have another page in their place."""
LINK = re.compile(r"(?P<before>!?\[(?P<words>[^\]]*)\]\()(?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
HREF = re.compile(r'(?P<before><a [^>]*href=")(?P<target>[^"#:]+\.(?:md|ipynb|py))(?P<anchor>#[^"]*)?"')
REMOTE = re.compile(
    r"<script\b[^>]*>(?:(?!</script>).)*(?:mermaid|MathJax|mathjax)(?:(?!</script>).)*</script>"
    r'|<script src="">\s*</script>',
    re.DOTALL,
)
"""Scripts that nbconvert puts into every notebook: they would fetch diagrams and formulas from elsewhere."""
HEADING = re.compile(r'<h([1-3]) id="([^"]+)">(.*?)<a class="anchor-link".*?</h\1>', re.DOTALL)
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def notebooks(root: Path = ROOT) -> list[str]:
    """The notebooks of examples/, in the order of the tutorials."""
    names = {path.stem for path in (root / "examples").glob("*.ipynb")}
    ordered = [name for name in TUTORIALS if name in names] + sorted(names - set(TUTORIALS))
    return [f"examples/{name}.ipynb" for name in ordered]


def tutorials(root: Path = ROOT) -> list[str]:
    """The pages below examples/: what there is, then the notebooks."""
    overview = [OVERVIEW] if (root / OVERVIEW).exists() else []
    return [*overview, *notebooks(root)]


def source_of(page: str) -> str:
    """The file of the repository that a page of the site comes from."""
    return page if page in OUTSIDE or page.startswith("examples/") else f"docs/{page}"


def page_of(file: str) -> str | None:
    """The page or file of the site that a file of the repository becomes; None if it becomes none."""
    if file in REPLACED:
        return REPLACED[file]
    if file.startswith("docs/"):
        return file.removeprefix("docs/")
    return file if file in (*OUTSIDE, OVERVIEW) or file.endswith(".ipynb") else None


def site_link(page: str, target: str) -> str | None:
    """A relative link of a page's source file as a link of the page; None if it leads to no page."""
    file = posixpath.normpath(posixpath.join(posixpath.dirname(source_of(page)), target))
    linked = page_of(file)
    return None if linked is None else posixpath.relpath(linked, posixpath.dirname(page) or ".")


def with_site_links(markdown: str, page: str) -> str:
    """The text of a page with the links of the code host made links of the site; code blocks stay as they are."""

    def rewritten(link: re.Match[str]) -> str:
        if re.match(r"\w+:", link["target"]):
            return link[0]
        target = site_link(page, link["target"])
        return link["words"] if target is None else f"{link['before']}{target}{link['anchor'] or ''})"

    parts, blocks = FENCE.split(markdown), [*FENCE.findall(markdown), ""]
    return "".join(LINK.sub(rewritten, part) + block for part, block in zip(parts, blocks, strict=True))


def html_with_site_links(html: str, page: str) -> str:
    """The same for a notebook, which is HTML by the time its links can be read; without scripts that fetch others."""

    def rewritten(link: re.Match[str]) -> str:
        target = site_link(page, link["target"])
        if target is None:
            raise ValueError(f"{page} links to {link['target']}, which is no page of the site")
        return f'{link["before"]}{re.sub(r"[.](md|ipynb)$", ".html", target)}{link["anchor"] or ""}"'

    return HREF.sub(rewritten, REMOTE.sub("", html))


def headings(html: str) -> list[dict[str, Any]]:
    """The headings of a notebook, nested as MkDocs has them: level, id, name and the headings below.

    The plugin's own list leaves out code, and then its links lead nowhere.
    """
    top: list[dict[str, Any]] = []
    path: list[dict[str, Any]] = []
    for level, anchor, words in HEADING.findall(html):
        heading = {"level": int(level), "id": anchor, "name": re.sub(r"<[^>]+>", "", words), "children": []}
        path = [each for each in path if each["level"] < heading["level"]]
        (path[-1]["children"] if path else top).append(heading)
        path.append(heading)
    return top
