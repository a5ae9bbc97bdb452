"""What MkDocs is told besides mkdocs.yml: the pages that lie outside docs/, and their links (`links.py`)."""

from __future__ import annotations

from typing import Any

from links import OUTSIDE, REPLACED, ROOT, SCRIPT, html_with_site_links, notebooks, with_site_links
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files


def on_config(config: Any) -> Any:
    """The notebooks become the tutorials; the paper's method as a script is the last of them."""
    pages: list[Any] = [*notebooks(), {"The paper's method in 100 lines": REPLACED[SCRIPT]}]
    config.nav = [{"Tutorials": pages} if "Tutorials" in entry else entry for entry in config.nav]
    return config


@event_priority(100)  # before the plugin that reads notebooks
def on_files(files: Files, config: Any) -> Files:
    for name in (*OUTSIDE, *notebooks()):
        files.append(File(name, str(ROOT), config.site_dir, config.use_directory_urls))
    script = f"# The paper's method in 100 lines\n\n`{SCRIPT}`:\n\n```python\n{(ROOT / SCRIPT).read_text()}```\n"
    files.append(File.generated(config, REPLACED[SCRIPT], content=script))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    return with_site_links(markdown, page.file.src_uri)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    return html_with_site_links(html, page.file.src_uri) if page.file.src_uri.endswith(".ipynb") else html
