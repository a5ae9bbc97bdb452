"""Pages: templates filled with everything escaped, and a policy that allows only the page's own style and script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from realm import __version__
from realm.crowd.verdicts import VERDICTS
from realm.display import counted
from realm.errors import RealmError
from realm.files import write_text, writing
from realm.report.escaping import clipped, coded, isolated, visible
from realm.report.svg import percent, percent_range

NAME = "report.html"
STATES = {"good": "good", "care": "take care", "bad": "problem", "plain": ""}
"""States of a tile or a sentence in words; each has a colour and a mark too."""


@dataclass(frozen=True)
class Figure:
    """A picture with its caption."""

    picture: Markup
    caption: str
    note: str = ""


def write_page(path: Path, page: str) -> None:
    if path.is_dir():
        raise RealmError(f"`output` {path} is a folder; name a file, such as {path / NAME}.")
    with writing(path, advice=""):
        write_text(path, page)


def fill(template: str, title: str, sections: Sequence[tuple[str, str]], context: dict[str, Any]) -> str:
    """A page from its template, with style, script and the policy that allows nothing else."""
    templates = _templates()
    style, script = (Markup(templates.get_template(name).render()) for name in ("style.css", "page.js"))
    # Only this very style and this very script: whatever else a page might hold is not run.
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    shared = {"policy": policy, "style": style, "script": script, "version": __version__}
    return templates.get_template(template).render(title=title, sections=sections, **shared, **context)


@cache
def _templates() -> jinja2.Environment:
    sources = {
        source.name: source.read_text(encoding="utf-8")
        for source in (files("realm.report") / "templates").iterdir()
        if source.is_file()
    }
    environment = jinja2.Environment(
        loader=jinja2.DictLoader(sources),
        autoescape=True,
        trim_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    environment.filters |= {
        "coded": coded,
        "isolated": isolated,
        "percent": percent,
        "clipped": clipped,
        "counted": counted,
        "thousands": "{:,}".format,
        "interval": lambda ends: percent_range(*ends),
    }
    environment.globals |= {"states": STATES, "verdicts": VERDICTS}
    return environment


def _digest(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
