"""What MkDocs is told besides mkdocs.yml: the pages that lie outside docs/, and their links (`links.py`)."""

from __future__ import annotations

import re
from typing import Any

from links import OUTSIDE, REPLACED, ROOT, SCRIPT, headings, html_with_site_links, tutorials, with_site_links
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.toc import get_toc


def on_config(config: Any) -> Any:
    """What is in examples/ becomes the tutorials; the paper's method as a script is the last of them."""
    pages: list[Any] = [*tutorials(), {"The paper's method in 100 lines": REPLACED[SCRIPT]}]
    config.nav = [{"Tutorials": pages} if "Tutorials" in entry else entry for entry in config.nav]
    return config


@event_priority(100)  # before the plugin that reads notebooks
def on_files(files: Files, config: Any) -> Files:
    for name in (*OUTSIDE, *tutorials()):
        files.append(File(name, str(ROOT), config.site_dir, config.use_directory_urls))
    script = f"# The paper's method in 100 lines\n\n`{SCRIPT}`:\n\n```python\n{(ROOT / SCRIPT).read_text()}```\n"
    files.append(File.generated(config, REPLACED[SCRIPT], content=script))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    # the lexer `console` greys lines without a prompt, taking commands for their output
    return re.sub(r"^```console$", "```bash", with_site_links(markdown, page.file.src_uri), flags=re.MULTILINE)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    if not page.file.src_uri.endswith(".ipynb"):
        return html
    found = headings(html)
    page.toc = get_toc(found)
    page.title = found[0]["name"]
    return html_with_site_links(html, page.file.src_uri)
