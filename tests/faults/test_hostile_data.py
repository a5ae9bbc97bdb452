"""Names, labels and texts that a shell, a format string, a page, a spreadsheet or a terminal would act upon."""

from __future__ import annotations

import csv
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from tests.tiny import sentences

MARK = "touched"
PEOPLE = [
    f"$(touch {MARK})",
    f"`touch {MARK}`; touch {MARK} | touch {MARK}",
    "{0.__class__.__mro__} %s %n %(name)s {annotator}",
    "<script>alert('owned')</script><img src=x onerror=alert(1)>",
    '=HYPERLINK("http://example.org","x")',
    "[bold red]markup[/bold red] [link=file:///etc/passwd]x[/link]",
    "\x1b[2J\x1b]0;owned\x07name",
    "../../../../etc/passwd",
    "{{7*7}}{% raw %}${7*7}",
    "'; DROP TABLE annotators; --",
]
LABELS = ["<b>yes</b> {0} %s ``` ![x](http://example.org)", "=no+cmd|' /C calc'!A1"]
SNEAKY = "</script><script>alert(2)</script> {options} {0!r} %d `touch touched` $(touch touched)"


@pytest.fixture(scope="module")
def hostile(tiny_model, tmp_path_factory, realm_cli):
    """A table of such names, in a file and a folder of such names, trained on through the command line."""
    folder = tmp_path_factory.mktemp("hostile") / f"$(touch {MARK}) {{0}} %s [red]"
    folder.mkdir()
    texts, truth = sentences(30, labels=2)
    rows = [
        {
            "item": f"{SNEAKY} {index}",
            "text": f"{text} {SNEAKY} {PEOPLE[index % len(PEOPLE)]}",
            "annotator": who,
            "label": LABELS[truth[index] if who in PEOPLE[:6] else 1 - truth[index]],
            "gold": LABELS[truth[index]],
        }
        for index, text in enumerate(texts)
        for who in PEOPLE[index % 4 :: 2]
    ]
    labels = folder / "labels {0} `touch touched`.csv"
    pd.DataFrame(rows).to_csv(labels, index=False)
    run = folder / "run <i>x</i>"
    spoken = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        spoken["check"] = realm_cli("check", labels)
        (folder / "settings.yaml").write_text(json.dumps({"answers": "letters", "instruction": SNEAKY}))
        flags = ("--model", tiny_model("causal"), "--config", folder / "settings.yaml", "--steps", 2)
        spoken["train"] = realm_cli("train", labels, *flags, "--output", run)
        spoken["report"] = realm_cli("report", run)
        spoken["relabel"] = realm_cli("relabel", run, "--output", folder / "queue.csv")
        spoken["shown"] = realm_cli("relabel", run)
        spoken["predict"] = realm_cli("predict", run, labels, "--output", folder / "answers.csv")
        spoken["evaluate"] = realm_cli("evaluate", run, labels)
        spoken["aggregate"] = realm_cli("aggregate", labels, "--output", folder / "aggregated.csv")
    return folder, run, spoken


def test_every_command_takes_them(hostile) -> None:
    for command, (code, _, error) in hostile[2].items():
        assert code == 0, (command, error)


def test_no_shell_has_seen_them(hostile) -> None:
    folder, _, _ = hostile
    assert not [path for path in folder.rglob("*") if path.name == MARK] and not Path(MARK).exists()


def test_nothing_is_formatted_or_marked_up_on_screen(hostile) -> None:
    _, run, spoken = hostile
    out = re.sub(r"\s+", "", "".join(part for _, *parts in spoken.values() for part in parts))
    for name in (PEOPLE[0], PEOPLE[2], PEOPLE[5], PEOPLE[8]):
        assert re.sub(r"\s+", "", name) in out, name
    assert re.sub(r"\s+", "", str(run)) in out
    assert "<class" not in out


def test_a_terminal_is_not_steered(hostile) -> None:
    """What is read by people; a table in a pipe is data for a script, and is left as it is."""
    for command, (_, out, error) in hostile[2].items():
        shown = error if command == "shown" else out + error
        assert "\x1b" not in shown and "\x07" not in shown, command
    assert "⟨U+001B⟩[2J" in hostile[2]["train"][1]


class _Page(HTMLParser):
    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(source)

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "script":
            self.scripts.append(data)


def test_the_page_shows_them_as_text(hostile) -> None:
    page = _Page((hostile[1] / "report.html").read_text(encoding="utf-8"))
    assert not [attributes for _, attributes in page.tags if any(name.startswith("on") for name in attributes)]
    assert not [attributes for tag, attributes in page.tags if tag == "img" and attributes.get("src") == "x"]
    for tag, attributes in page.tags:
        assert not str(attributes.get("href", "")).startswith(("javascript:", "http", "file:")), (tag, attributes)
    assert not [script for script in page.scripts if script.strip().startswith("alert")]


def test_no_cell_is_run_by_a_spreadsheet(hostile) -> None:
    folder, run, _ = hostile
    for path in (run / "expertise.csv", run / "labels.csv", folder / "queue.csv", folder / "answers.csv"):
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.reader(file):
                assert not [cell for cell in row if re.match(r"[=+@\t\r]|-(?!\d)", cell)], path


def test_the_model_card_is_markdown_without_their_markup_and_code_that_compiles(hostile) -> None:
    card = (hostile[1] / "model" / "README.md").read_text(encoding="utf-8")
    head, snippet = card.split("````python\n")
    assert not re.search("<b>|<script|<i>", re.sub(r"(`+).*?\1", "", head))
    compile(snippet.split("````")[0], "snippet", "exec")
    assert snippet.count("````") == 1
