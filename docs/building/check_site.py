"""Checks the built site, page by page: `python docs/building/check_site.py site`.

Every link and every picture leads to a file of the site, and to an anchor that is there; and nothing is fetched from
elsewhere when a page is viewed: no script, style sheet, font, picture or frame.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "object": "data"}
"""Elements whose address the browser fetches by itself; `link` too, but for those that are only named."""
NAMED = {"canonical", "prev", "next", "edit", "alternate"}
"""Kinds of `link` that a browser does not fetch."""
STYLE_ADDRESS = re.compile(r"""(?:url\(\s*|@import\s+)["']?((?:https?:)?//[^"')\s]+)""")
SCRIPT_IMPORT = re.compile(r"""\bimport\b[^;\n]*["']((?:https?:)?//[^"']+)""")


class Page(HTMLParser):
    """What a page links to, what it fetches and which anchors it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = set()
        self.tag = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        self.tag = tag
        self.fetched += STYLE_ADDRESS.findall(values.get("style", ""))
        if tag in FETCHED and values.get(FETCHED[tag]):
            self.fetched.append(values[FETCHED[tag]])
        elif tag == "link" and not NAMED & set(values.get("rel", "").split()):
            self.fetched.append(values.get("href", ""))
        elif tag == "a" and values.get("href"):
            self.links.append(values["href"])

    def handle_data(self, data: str) -> None:
        if self.tag == "style":
            self.fetched += STYLE_ADDRESS.findall(data)
        elif self.tag == "script":
            self.fetched += SCRIPT_IMPORT.findall(data)


def is_elsewhere(address: str) -> bool:
    return bool(urlsplit(address).netloc)


def problems(site: Path) -> list[str]:
    """What is wrong with the pages of a site, a line each."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site)
        found += [f"{name} fetches {address}" for address in page.fetched if is_elsewhere(address)]
        for address in dict.fromkeys([*page.links, *page.fetched]):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc or (name.name == "404.html" and address.startswith("/")):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                found.append(f"{name} links to {address}, which is not there")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{name} links to {address}, which has no such anchor")
    for path in sorted(site.rglob("*.css")):
        addresses = STYLE_ADDRESS.findall(path.read_text(encoding="utf-8"))
        found += [f"{path.relative_to(site)} fetches {address}" for address in addresses]
    return found


def main(site: Path) -> int:
    found = problems(site)
    pages = len(list(site.rglob("*.html")))
    print(
        "\n".join(found)
        if found
        else f"{pages} pages: every link leads somewhere, and nothing is fetched from elsewhere."
    )
    return 1 if found or not pages else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
