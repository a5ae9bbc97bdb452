"""A page read as a browser's parser would: its elements, attributes and texts."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

VOID = {"meta", "input", "br", "link", "img"}


class Page(HTMLParser):
    """Elements in order as (tag, attributes), the text of each script, and all text that is shown."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.source = source
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.shown: list[str] = []
        self._open: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        inside = self._open[-1] if self._open else ""
        if inside == "script":
            self.scripts[-1] += data
        elif inside == "style":
            self.styles.append(data)
        else:
            self.shown.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.shown))

    @property
    def annotators(self) -> list[dict[str, str]]:
        """What each row of the table of annotators is sorted and searched by."""
        rows = [attributes for attributes in self.tags("tbody") if "data-annotator" in attributes]
        return [{name.removeprefix("data-"): value or "" for name, value in row.items()} for row in rows]

    def tags(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.elements if tag == name]


def check_closed_in(page: Page) -> None:
    """Nothing in the page can leave it, and nothing but its own script and style can run or apply."""
    assert len(page.scripts) == 1 and len(page.styles) == 1
    [policy] = [meta["content"] for meta in page.tags("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None and policy.startswith("default-src 'none'") and "unsafe" not in policy
    for source, kind in ((page.scripts[0], "script-src"), (page.styles[0], "style-src")):
        digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
    assert not re.search(r"(?i)\b(?:https?|ftp|wss?|file):|\burl\(|@import|//[a-z0-9]", page.source.replace("//-", ""))
    for tag, attributes in page.elements:
        assert tag not in {"img", "iframe", "object", "embed", "link", "form", "base", "audio", "video", "image", "use"}
        for name, value in attributes.items():
            assert not name.startswith("on") and name not in {"src", "srcset", "style", "action", "xlink:href"}, (
                tag,
                name,
            )
            if name == "href":
                assert value is not None and value.startswith("#")
